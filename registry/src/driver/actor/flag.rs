//! Whether a claim may be acted on: what all its handles look at.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU8, Ordering},
};

use ractor::{ActorCell, ActorStatus};

/// The name may be another's soon.
const SUSPENDED: u8 = 1;

/// The claim has ended, for good.
const ENDED: u8 = 2;

/// Shared by all handles of a claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flag(Arc<Shown>);

#[derive(Debug, Default)]
struct Shown {
    state: AtomicU8,
    /// Once there is one. When it has ended, so has the claim: its names may be too many to flag all of them at once.
    actor: OnceLock<ActorCell>,
}

/// What a flag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flagged {
    /// The claim stands.
    No,
    /// Its name is on its way to another actor.
    Suspended,
    /// It has ended.
    Ended,
}

impl Flag {
    /// That of a claim of this actor.
    pub(crate) fn of(actor: ActorCell) -> Self {
        let flag = Self::default();
        flag.is_of(actor);
        flag
    }

    /// That of a claim which has ended.
    pub(crate) fn of_the_ended() -> Self {
        let flag = Self::default();
        flag.end();
        flag
    }

    /// The actor of the claim, which had none before.
    pub(super) fn is_of(&self, actor: ActorCell) {
        // The first one stays: a claim is never another actor's.
        let _ = self.0.actor.set(actor);
    }

    pub(crate) fn get(&self) -> Flagged {
        let has_stopped = |actor: &ActorCell| actor.get_status() == ActorStatus::Stopped;
        match self.0.state.load(Ordering::SeqCst) {
            0 | SUSPENDED if self.0.actor.get().is_some_and(has_stopped) => Flagged::Ended,
            0 => Flagged::No,
            SUSPENDED => Flagged::Suspended,
            _ => Flagged::Ended,
        }
    }

    /// Whether the claim has ended, for good.
    #[cfg(test)]
    pub(crate) fn has_ended(&self) -> bool {
        self.get() == Flagged::Ended
    }

    /// Whether this node has ended the claim, whatever became of its actor.
    pub(super) fn is_raised(&self) -> bool {
        self.0.state.load(Ordering::SeqCst) == ENDED
    }

    pub(super) fn end(&self) {
        self.0.state.store(ENDED, Ordering::SeqCst);
    }

    /// What has ended stays so.
    pub(super) fn suspend(&self) {
        let _ = self.0.state.compare_exchange(0, SUSPENDED, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(super) fn resume(&self) {
        let _ = self.0.state.compare_exchange(SUSPENDED, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::seat::seat;

    #[test]
    fn a_claim_that_is_suspended_may_stand_again_and_one_that_has_ended_never_does() {
        let flag = Flag::default();
        let handle = flag.clone();
        assert_eq!(handle.get(), Flagged::No);
        flag.suspend();
        assert_eq!(handle.get(), Flagged::Suspended);
        flag.resume();
        assert_eq!(handle.get(), Flagged::No);
        flag.suspend();
        flag.end();
        flag.suspend();
        flag.resume();
        assert_eq!(handle.get(), Flagged::Ended);
        assert!(Flag::of_the_ended().has_ended());
    }

    #[tokio::test]
    async fn a_claim_ends_with_its_actor_also_while_its_name_is_on_its_way() {
        let (actor, late) = (seat().await.unwrap(), Flag::default());
        let (stands, moves) = (Flag::of(actor.get_cell()), Flag::of(actor.get_cell()));
        moves.suspend();
        assert_eq!((stands.get(), moves.get()), (Flagged::No, Flagged::Suspended));
        actor.stop_and_wait(None, None).await.unwrap();
        moves.resume();
        late.is_of(actor.get_cell());
        assert!([&stands, &moves, &late].into_iter().all(Flag::has_ended));
        assert!(!stands.is_raised(), "nobody has said so yet");
    }
}
