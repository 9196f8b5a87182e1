//! Actors that are started for names: how long that takes, and what comes of it.

use std::time::Duration;

use callsign::{
    NotStarted,
    cores::{Answer, CallId, Granted, Input, Queue, StartedAs, Yielded},
};
use callsign_store::ids::Position;
use callsign_transport::Kind;

use super::{CallerRegistration, NodeId, World, number_of};
use crate::oracle::Check;

/// How long a start may take.
pub(super) const START_LIMIT: Duration = Duration::from_secs(6);

/// A start that runs. It goes on, whatever becomes of the name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    /// The claim.
    pub claim: CallId,
    /// The name.
    pub name: callsign::Name,
    /// Its token.
    pub token: Position,
    /// The actor that it starts.
    pub actor: u64,
    /// It does not end before, by its node's clock.
    pub not_before: Duration,
    /// It is too slow from then on.
    pub until: Duration,
}

impl World {
    /// Has an actor started. How long that takes, and what comes of it, depends on the call.
    pub(super) fn start_actor(&mut self, node: NodeId, name: callsign::Name, granted: &Granted) {
        let Granted { claim, token, session, .. } = *granted;
        let takes = match claim.0 % 5 {
            0 => Duration::from_secs(12),
            1 => Duration::from_secs(3),
            _ => Duration::from_millis(20),
        };
        let now = self.local(node);
        let (not_before, until) = (now + takes, now + START_LIMIT);
        let actor = self.asked.get(&claim).map_or(0, |asked| asked.actor);
        let acting = CallerRegistration { name: number_of(&name), holds: false, token, session };
        self.oracle.start_runs(node, claim, token);
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
            parts.acting.insert(claim, acting);
            parts.starts.push(Running { claim, name, token, actor, not_before, until });
        }
    }

    pub(super) fn end_nth_start(&mut self, node: NodeId, nth: u8) -> bool {
        let now = self.local(node);
        let Some(process) = self.awake(node) else { return false };
        let running = process.parts.as_ref().and_then(|parts| parts.starts.get(usize::from(nth)));
        if running.is_none_or(|running| running.not_before > now) {
            return false;
        }
        let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) else {
            return false;
        };
        let Running { claim, name, actor, until, .. } = parts.starts.remove(usize::from(nth));
        if now >= until {
            parts.over.insert(claim);
        }
        let yielded = match claim.0 % 8 {
            3 => Yielded::Failed { reason: "the simulation says so".into() },
            5 => Yielded::Foreign { node: None },
            6 => Yielded::Ended,
            kind => {
                parts.yielded.insert(actor);
                Yielded::Actor { actor, kind: (kind != 7).then_some(Kind(7)) }
            }
        };
        if let Yielded::Actor { actor, .. } = &yielded {
            self.export(node, *actor);
        }
        self.oracle.note(node, || format!("the start of {name} by call {} comes to {yielded:?}", claim.0));
        self.tell_member(node, Queue::OfMember, Input::StartEnded { name, claim, yielded });
        self.settle(node);
        true
    }

    /// A member hears that its session lapsed, or of what a start came to while it is not trusted: that start may not be granted.
    pub(super) fn note_starts(&mut self, node: NodeId, input: &Input) {
        let is_trusted = self.member_now(node).trusted.is_some();
        let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) else { return };
        match input {
            Input::SessionLapsed(_) | Input::SessionLost => {
                parts.over.extend(parts.starts.iter().map(|running| running.claim));
            }
            Input::StartEnded { claim, .. } if !is_trusted => _ = parts.over.insert(*claim),
            _ => {}
        }
    }

    /// A member says this to a caller of a start.
    pub(super) fn check_started(&mut self, node: NodeId, answer: &Answer) {
        let Some(parts) = self.process(node).and_then(|process| process.parts.as_ref()) else { return };
        match answer {
            Answer::Started(Ok(StartedAs::Ours(granted))) => {
                let is_over = parts.over.contains(&granted.claim);
                self.oracle.count(Check::StartOver);
                if is_over {
                    self.oracle.fail(Check::StartOver, || format!("node {node} is granted {granted:?}"));
                }
            }
            Answer::Started(Err(NotStarted::StillStarting { name, token, .. })) => {
                let replica = parts.core.member().replica();
                let row = replica.row(name);
                let is_starting = row.as_ref().is_some_and(|row| row.position == *token && row.is_starting());
                let is_true = is_starting || !replica.is_based();
                self.oracle.count(Check::StartAwaited);
                if !is_true {
                    let what = format!("node {node} waits for the start of {name} under {token:?}: {row:?}");
                    self.oracle.fail(Check::StartAwaited, || what);
                }
            }
            _ => {}
        }
    }

    /// An actor that was started, lives, and holds no name.
    pub(crate) fn stray_of(&self, node: NodeId) -> Option<u64> {
        let parts = self.process(node)?.parts.as_ref()?;
        let is_stray = |actor: &&u64| {
            !parts.ended.contains(*actor)
                && !parts.core.member().holds().any(|(_, holder, _)| holder == **actor)
        };
        parts.yielded.iter().find(is_stray).copied()
    }
}
