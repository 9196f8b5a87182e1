//! One message for many actors of a node: the actors in shares, which several threads take.
//!
//! A thread that sends to thousands of actors wakes the others of its runtime with the first few, and they begin to run these actors. On a
//! machine with few processors they take turns with the thread that sends, so that the last actor waits for the work of the others. When they
//! help to send, every mailbox has the message before that work begins.

use std::ops::Range;

/// How many actors a share has. The table of actors is read for one share at a time: who changes it waits no longer than that takes.
const SHARE: usize = 128;

/// For so many actors one thread is asked for help. To ask takes as long as to send to some of them.
const ACTORS_OF_A_HELPER: usize = 1024;

/// More threads are not asked: those of a runtime have other work, too.
const MOST_HELPERS: usize = 3;

/// How many threads are to help one that sends to so many actors, in a runtime of so many threads.
pub(crate) fn helpers(actors: usize, threads: usize) -> usize {
    (actors / ACTORS_OF_A_HELPER).min(threads.saturating_sub(1)).min(MOST_HELPERS)
}

/// The shares of a message's actors. Each is taken once.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Nobody has taken these.
    rest: Range<usize>,
    /// How many were taken, and are not done.
    under_way: usize,
    /// To how many actors it was sent.
    reached: usize,
}

impl Shares {
    pub(crate) fn of(actors: usize) -> Self {
        Self { rest: 0..actors, under_way: 0, reached: 0 }
    }

    /// The next share. `None`: all are taken.
    pub(crate) fn take(&mut self) -> Option<Range<usize>> {
        let end = self.rest.end.min(self.rest.start.saturating_add(SHARE));
        let share = self.rest.start..end;
        if share.is_empty() {
            return None;
        }
        self.rest.start = end;
        self.under_way += 1;
        Some(share)
    }

    /// A share that was taken is done: so many of its actors were reached.
    pub(crate) fn done(&mut self, reached: usize) {
        self.under_way -= 1;
        self.reached += reached;
    }

    /// How many actors were reached in all, once all shares are done.
    pub(crate) fn all_done(&self) -> Option<usize> {
        (self.rest.is_empty() && self.under_way == 0).then_some(self.reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_actor_is_in_one_share_and_all_is_done_when_the_last_share_is() {
        for actors in [0, 1, SHARE - 1, SHARE, SHARE + 1, 5 * SHARE + 7] {
            let mut shares = Shares::of(actors);
            let taken: Vec<Range<usize>> = std::iter::from_fn(|| shares.take()).collect();
            assert!(taken.iter().all(|share| share.len() <= SHARE));
            assert_eq!(taken.iter().cloned().flatten().collect::<Vec<_>>(), (0..actors).collect::<Vec<_>>());
            for share in taken {
                assert_eq!(shares.all_done(), None, "one is under way");
                shares.done(share.len() - 1);
            }
            assert_eq!(shares.all_done(), Some(actors - actors.div_ceil(SHARE)));
        }
    }

    #[test]
    fn all_is_not_done_while_a_share_waits_to_be_taken() {
        let mut shares = Shares::of(SHARE + 1);
        let first = shares.take().unwrap();
        shares.done(first.len());
        assert_eq!(shares.all_done(), None);
    }

    #[test]
    fn a_thread_is_asked_for_help_with_many_actors_and_never_the_only_one() {
        let of = |actors, threads| helpers(actors, threads);
        assert_eq!((of(ACTORS_OF_A_HELPER - 1, 8), of(ACTORS_OF_A_HELPER, 8)), (0, 1));
        assert_eq!((of(usize::MAX, 0), of(usize::MAX, 1), of(usize::MAX, 2)), (0, 0, 1));
        assert_eq!(of(usize::MAX, 64), MOST_HELPERS);
    }
}
