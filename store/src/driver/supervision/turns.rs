//! When the parts of a node may run: for simulations, in which parts starve, nodes pause, and die at any await.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;

/// Says when the parts of a node may run. Asked before each poll of each of its tasks, and of what its actors do.
pub trait Turns: Send + Sync + fmt::Debug {
    /// Whether a part may be polled now. Must not block.
    fn turn(&self, part: &str) -> Turn;

    /// Whether the node is dead: none of its parts runs any more.
    fn is_dead(&self) -> bool;

    /// Ends when the node dies, so that what its tasks hold is dropped then.
    fn death(&self) -> BoxFuture<'static, ()>;
}

/// What a part may do.
#[non_exhaustive]
pub enum Turn {
    /// Run.
    Runs,
    /// Wait for this, and ask again.
    Waits(BoxFuture<'static, ()>),
    /// Nothing any more: its work is dropped where it stands.
    Dies,
}

/// Work that asks before each of its steps. If the node dies, it is dropped and never done.
pub(super) struct InTurn<F> {
    part: Arc<str>,
    turns: Arc<dyn Turns>,
    death: BoxFuture<'static, ()>,
    waits: Option<BoxFuture<'static, ()>>,
    work: Option<Pin<Box<F>>>,
}

impl<F> InTurn<F> {
    pub(super) fn new(part: &str, turns: Arc<dyn Turns>, work: F) -> Self {
        let death = turns.death();
        Self { part: part.into(), turns, death, waits: None, work: Some(Box::pin(work)) }
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let me = &mut *self;
        loop {
            let Some(work) = me.work.as_mut() else { return Poll::Pending };
            if me.turns.is_dead() || me.death.as_mut().poll(context).is_ready() {
                me.work = None;
                return Poll::Pending;
            }
            if let Some(waits) = &mut me.waits {
                if waits.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                me.waits = None;
            }
            match me.turns.turn(&me.part) {
                Turn::Runs => return work.as_mut().poll(context),
                Turn::Waits(waits) => me.waits = Some(waits),
                Turn::Dies => me.work = None,
            }
        }
    }
}
