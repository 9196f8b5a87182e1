//! Since when an observer has watched the seat, and so whether what it says now was written meanwhile.
//!
//! A record says that somebody has the seat, and not when that was written: its holder may have died long ago. Who saw it
//! *change* knows that it was written after the last look that did not show it. Who saw it unchanged for its whole lease
//! knows that its holder is gone. Before that, nothing is known.

use std::time::Duration;

use callsign_store::{ids::Ballot, time::Time};

use crate::core::{state::Seat, term::AuthorityTime};

/// What an observer knows of whoever has the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseStanding {
    /// The lease is over.
    Over,
    /// The term was granted or refreshed less than its lease ago.
    Stands,
    /// Neither is known. Who looks again each time that it is told so knows within one lease, if reads are short beside it.
    NotKnown {
        /// When to look again, at the latest.
        again_within: Duration,
    },
}

/// What one observer has watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    last: Option<SeenSeat>,
    /// What the last look showed was written later than this.
    after: Option<Time>,
}

/// One look at the seat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// When it began and ended, by the observer's clock.
    pub(crate) started: Time,
    pub(crate) ended: Time,
    /// The store's version that it showed.
    pub(crate) version: AuthorityTime,
    pub(crate) seat: Option<&'a Seat>,
    /// How long, at least, the seat's record has stood as it is.
    pub(crate) unchanged: Duration,
}

/// What the last look showed. No two values of the seat have the same ballot.
#[derive(Clone, Copy, Debug)]
struct SeenSeat {
    version: AuthorityTime,
    ballot: Option<Ballot>,
    /// When the last look began that showed it.
    started: Time,
}

impl Watched {
    /// A look showed the seat, as it was for `unchanged` at least. What is known of whoever has it.
    pub(crate) fn sees(&mut self, look: Look<'_>) -> Option<LeaseStanding> {
        let Look { version, started, .. } = look;
        let ballot = look.seat.map(|seat| seat.ballot);
        let last = self.last.replace(SeenSeat { version, ballot, started });
        match last {
            // Looks of one observer may overtake each other.
            Some(last) if last.ballot == ballot => {
                self.last = Some(SeenSeat { version, ballot, started: started.max(last.started) });
            }
            Some(last) if last.version < version => self.after = Some(last.started),
            // What was seen later was older, or nothing was seen before.
            _ => self.after = None,
        }
        let lease = look.seat?.holder.as_ref()?.lease;
        if look.unchanged >= lease {
            return Some(LeaseStanding::Over);
        }
        if self.after.is_some_and(|after| look.ended.since(after) < lease) {
            return Some(LeaseStanding::Stands);
        }
        // Not only when the lease ends: a refresh that is seen a whole lease after the last look may be that old.
        Some(LeaseStanding::NotKnown { again_within: (lease / 2).min(lease.saturating_sub(look.unchanged)) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use callsign_store::ids::{Incarnation, MemberId, Nonce, Seniority};

    use super::*;
    use crate::core::state::Holder;

    const LEASE: Duration = Duration::from_secs(10);
    const OVER: Option<LeaseStanding> = Some(LeaseStanding::Over);
    const STANDS: Option<LeaseStanding> = Some(LeaseStanding::Stands);

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    struct SeatObserver {
        watched: Watched,
        /// The ballot and since when it is seen.
        seen: Option<(u64, Time)>,
    }

    impl SeatObserver {
        fn new() -> Self {
            Self { watched: Watched::default(), seen: None }
        }

        fn look(&mut self, from: u64, to: u64, ballot: u64) -> Option<LeaseStanding> {
            let seat = Seat { ballot: Ballot(ballot), holder: Some(holder()), ..Seat::default() };
            let since = self.seen.filter(|(seen, _)| *seen == ballot).map(|(_, since)| since);
            let unchanged = since.map_or(Duration::ZERO, |since| at(from).since(since));
            self.seen = Some((ballot, since.unwrap_or(at(to))));
            self.watched.sees(Look {
                started: at(from),
                ended: at(to),
                version: AuthorityTime(ballot),
                seat: Some(&seat),
                unchanged,
            })
        }
    }

    fn holder() -> Holder {
        Holder {
            member: MemberId::new("a").unwrap(),
            incarnation: Incarnation(1),
            nonce: Nonce(1),
            priority: 1,
            seniority: Seniority::default(),
            tags: BTreeSet::new(),
            lease: LEASE,
            lock_delay: Duration::ZERO,
            elected_at: AuthorityTime(1),
        }
    }

    #[allow(clippy::unnecessary_wraps)] // as what it is compared with
    fn unknown(seconds: u64) -> Option<LeaseStanding> {
        Some(LeaseStanding::NotKnown { again_within: Duration::from_secs(seconds) })
    }

    #[test]
    fn what_never_changes_is_over_after_its_lease() {
        let mut observer = SeatObserver::new();
        assert_eq!(observer.look(0, 0, 7), unknown(5));
        assert_eq!(observer.look(5, 5, 7), unknown(5));
        assert_eq!(observer.look(9, 9, 7), unknown(1));
        assert_eq!(observer.look(10, 10, 7), OVER);
    }

    #[test]
    fn what_changed_since_the_last_look_is_no_older_than_the_start_of_that_look() {
        let mut observer = SeatObserver::new();
        assert_eq!(observer.look(0, 1, 7), unknown(5));
        assert_eq!(observer.look(5, 6, 7), unknown(5));
        assert_eq!(observer.look(8, 9, 8), STANDS);
        // It was written after 5 s.
        assert_eq!(observer.look(14, 14, 8), STANDS);
        assert_eq!(observer.look(15, 15, 8), unknown(4));
        assert_eq!(observer.look(19, 19, 8), OVER);
    }

    #[test]
    fn a_change_that_may_be_a_lease_old_says_nothing() {
        let mut observer = SeatObserver::new();
        assert_eq!(observer.look(0, 0, 7), unknown(5));
        assert_eq!(observer.look(10, 10, 8), unknown(5));
        assert_eq!(observer.look(10_000, 10_000, 9), unknown(5));
        assert_eq!(observer.look(10_005, 10_005, 10), STANDS);
    }

    #[test]
    fn a_look_that_was_overtaken_says_nothing() {
        let mut observer = SeatObserver::new();
        assert_eq!(observer.look(0, 0, 8), unknown(5));
        assert_eq!(observer.look(1, 2, 7), unknown(5));
        assert_eq!(observer.look(2, 2, 8), STANDS);
    }
}
