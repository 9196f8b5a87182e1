//! Holds commits back at one point, so that a test can drive a race without sleeping.

use std::sync::Arc;

use tokio::sync::watch;

/// Where a commit can be held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// Before it is applied.
    Commit,
    /// After it was applied, before its author hears of it.
    Answer,
}

/// Open, unless a [`Hold`] keeps it shut.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<watch::Sender<Crowd>>);

/// Who stands before a gate.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    holds: usize,
    waiting: usize,
    /// How many of the waiting may pass although the gate is shut.
    passes: usize,
}

impl Gate {
    pub(super) fn hold(&self) -> Hold {
        self.0.send_modify(|crowd| crowd.holds += 1);
        Hold(self.clone())
    }

    pub(super) async fn pass(&self) {
        // Subscribed before the first look, so that no change falls between the look and the wait.
        let mut changes = self.0.subscribe();
        let _waiting = WaitingAtGate::at(&self.0);
        while !self.lets_through() {
            // It fails only if the sender is gone, and this gate has it.
            let _ = changes.changed().await;
        }
    }

    fn lets_through(&self) -> bool {
        let mut through = false;
        self.0.send_if_modified(|crowd| {
            // The passes of holds end with the last of them.
            let by_pass = crowd.passes > 0;
            crowd.passes -= usize::from(by_pass);
            through = by_pass || crowd.holds == 0;
            by_pass
        });
        through
    }
}

struct WaitingAtGate<'a>(&'a watch::Sender<Crowd>);

impl<'a> WaitingAtGate<'a> {
    fn at(gate: &'a watch::Sender<Crowd>) -> Self {
        gate.send_modify(|crowd| crowd.waiting += 1);
        Self(gate)
    }
}

impl Drop for WaitingAtGate<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|crowd| crowd.waiting -= 1);
    }
}

/// Holds the commits, or the answers, of one connection back until it is dropped.
#[derive(Debug)]
pub struct Hold(Gate);

impl Hold {
    /// Waits until `count` are held.
    pub async fn reached(&self, count: usize) {
        let mut changes = self.0.0.subscribe();
        // It fails only if the sender is gone, and this hold has it.
        let _ = changes.wait_for(|crowd| crowd.waiting >= count).await;
    }

    /// Lets one pass that is held, or the next that comes.
    pub fn let_one_pass(&self) {
        self.0.0.send_modify(|crowd| crowd.passes += 1);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.0.send_modify(|crowd| {
            crowd.holds -= 1;
            if crowd.holds == 0 {
                crowd.passes = 0;
            }
        });
    }
}
