//! Draining: what a member does before it leaves, in which order.
//!
//! ```text
//! serving --Drain--> handing over --another serves | nobody could | too late--> drained
//!    |                                                                            |
//!    '--Leave------------------------------> closing <--Leave--------------------'
//!                                               | nothing is undecided | too late
//!                                               v
//!                                     names dropped, Leave in the queue: left
//! ```
//!
//! From the first step on no new name is registered here; everything else is answered as before, and the names of the
//! node's own actors are held, but those that other members take. Names come last: they are given up when another member leads and is
//! heard to serve, so that whoever asks for them next is answered at once.
//!
//! Promises: each step ends within the time that was given for it, whatever the store and the others do; a seat that
//! somebody else could have is not left to be found empty. Does not promise that it was taken: see [`Drained`].

use callsign_store::{Time, ids::NodeName};

use crate::core::input::{CallId, Drained};

/// What a member sees that is to leave.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sight {
    /// Everybody can read that it drains, so that it is not elected again.
    pub(super) is_known: bool,
    /// Another member that was heard to serve.
    pub(super) led_by: Option<NodeName>,
    /// Somebody else could have the seat.
    pub(super) has_successor: bool,
    /// Registrations that were asked for here are undecided.
    pub(super) is_registering: bool,
    /// Names of this node are on their way to others, or are to be offered to them.
    pub(super) is_offering: bool,
    /// Any request of this node is.
    pub(super) is_asking: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Serving,
    HandingOver { until: Time, callers: Vec<CallId> },
    Drained(Drained),
    Closing { until: Time, caller: CallId },
    Left,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// Nothing yet.
    Wait,
    /// Tell these what became of the seat.
    Tell(Vec<CallId>, Drained),
    /// Give up the names, and have the elector say so; then tell this one.
    Leave(CallId),
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Drain {
    stage: Stage,
}

impl Drain {
    pub(super) fn new() -> Self {
        Self { stage: Stage::Serving }
    }

    /// Whether no new names are registered here any more.
    pub(super) fn has_begun(&self) -> bool {
        self.stage != Stage::Serving
    }

    /// Whether nothing is asked here any more.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.stage, Stage::Closing { .. } | Stage::Left)
    }

    /// Whether the names are given up.
    pub(super) fn has_left(&self) -> bool {
        self.stage == Stage::Left
    }

    /// Whether time has to pass.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::HandingOver { .. } | Stage::Closing { .. })
    }

    /// Somebody wants it to drain. What became of it is said at once if that is known.
    pub(super) fn begin(&mut self, caller: CallId, until: Time) -> Next {
        match &mut self.stage {
            Stage::Serving => self.stage = Stage::HandingOver { until, callers: vec![caller] },
            // The one that wants it sooner is right.
            Stage::HandingOver { until: former, callers } => {
                *former = until.min(*former);
                callers.push(caller);
            }
            Stage::Drained(drained) => return Next::Tell(vec![caller], drained.clone()),
            Stage::Closing { .. } | Stage::Left => return Next::Tell(vec![caller], Drained::Left),
        }
        Next::Wait
    }

    /// Somebody wants it to leave now: those that wait for it to drain are told.
    pub(super) fn close(&mut self, caller: CallId, until: Time) -> Next {
        match std::mem::replace(&mut self.stage, Stage::Closing { until, caller }) {
            Stage::HandingOver { callers, .. } => Next::Tell(callers, Drained::TimedOut),
            _ => Next::Wait,
        }
    }

    /// Goes on, as far as what it sees lets it.
    pub(super) fn proceed(&mut self, now: Time, sight: &Sight) -> Next {
        match &mut self.stage {
            Stage::HandingOver { until, callers } => {
                let drained = match &sight.led_by {
                    _ if now >= *until => Drained::TimedOut,
                    _ if sight.is_registering || sight.is_offering => return Next::Wait,
                    Some(by) if sight.is_known => Drained::Led { by: by.clone() },
                    _ if !sight.has_successor => Drained::Alone,
                    _ => return Next::Wait,
                };
                let callers = std::mem::take(callers);
                self.stage = Stage::Drained(drained.clone());
                Next::Tell(callers, drained)
            }
            Stage::Closing { until, caller } if !sight.is_asking || now >= *until => {
                let caller = *caller;
                self.stage = Stage::Left;
                Next::Leave(caller)
            }
            _ => Next::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BY: Time = Time(Duration::from_secs(5));
    const EARLY: Time = Time(Duration::from_secs(1));

    fn b() -> NodeName {
        NodeName::new("b").unwrap()
    }

    /// This member leads, and somebody else could.
    fn leading() -> Sight {
        Sight {
            is_known: true,
            led_by: None,
            has_successor: true,
            is_registering: false,
            is_offering: false,
            is_asking: false,
        }
    }

    fn begun() -> Drain {
        let mut drain = Drain::new();
        assert_eq!(drain.begin(CallId(1), BY), Next::Wait);
        drain
    }

    fn told(drained: Drained) -> Next {
        Next::Tell(vec![CallId(1)], drained)
    }

    #[test]
    fn it_waits_for_a_successor_that_serves_and_no_longer_than_it_may() {
        let mut drain = begun();
        assert_eq!(drain.proceed(EARLY, &leading()), Next::Wait);
        assert_eq!(drain.proceed(BY, &leading()), told(Drained::TimedOut));
        let mut drain = begun();
        let led = Sight { led_by: Some(b()), ..leading() };
        assert_eq!(drain.proceed(EARLY, &led), told(Drained::Led { by: b() }));
        assert_eq!(
            drain.begin(CallId(1), BY),
            told(Drained::Led { by: b() }),
            "asked again, it is said again"
        );
    }

    #[test]
    fn a_follower_waits_until_everybody_can_read_that_it_takes_no_seat() {
        let mut drain = begun();
        let unknown = Sight { is_known: false, led_by: Some(b()), ..leading() };
        assert_eq!(drain.proceed(EARLY, &unknown), Next::Wait);
        assert_eq!(
            drain.proceed(EARLY, &Sight { is_known: true, ..unknown }),
            told(Drained::Led { by: b() })
        );
    }

    #[test]
    fn who_is_alone_does_not_wait_but_for_what_was_asked_before() {
        let alone = Sight { has_successor: false, is_known: false, ..leading() };
        let mut drain = begun();
        assert_eq!(drain.proceed(EARLY, &Sight { is_registering: true, ..alone.clone() }), Next::Wait);
        assert_eq!(drain.proceed(EARLY, &alone), told(Drained::Alone));
    }

    #[test]
    fn names_that_are_offered_are_waited_for_and_no_longer_than_it_may() {
        let offering = Sight { is_offering: true, led_by: Some(b()), ..leading() };
        let mut drain = begun();
        assert_eq!(drain.proceed(EARLY, &offering), Next::Wait);
        assert_eq!(drain.proceed(BY, &offering), told(Drained::TimedOut));
        let mut drain = begun();
        let offered = Sight { is_offering: false, ..offering };
        assert_eq!(drain.proceed(EARLY, &offered), told(Drained::Led { by: b() }));
    }

    #[test]
    fn whoever_leaves_first_waits_for_what_is_undecided_and_no_longer_than_it_may() {
        let asking = Sight { is_asking: true, ..leading() };
        let mut drain = begun();
        assert_eq!(drain.close(CallId(2), BY), told(Drained::TimedOut), "who waited for the drain is told");
        assert!(drain.is_closing() && !drain.has_left());
        assert_eq!(drain.proceed(EARLY, &asking), Next::Wait);
        assert_eq!(drain.proceed(BY, &asking), Next::Leave(CallId(2)));
        assert_eq!(drain.proceed(BY, &asking), Next::Wait, "once");
        assert_eq!(drain.begin(CallId(1), BY), told(Drained::Left));
        let mut drain = Drain::new();
        assert_eq!(drain.close(CallId(2), BY), Next::Wait);
        assert_eq!(drain.proceed(EARLY, &leading()), Next::Leave(CallId(2)));
    }

    #[test]
    fn asked_twice_it_keeps_to_the_earlier_time_and_tells_both() {
        let mut drain = begun();
        assert_eq!(drain.begin(CallId(2), EARLY), Next::Wait);
        let both = Next::Tell(vec![CallId(1), CallId(2)], Drained::TimedOut);
        assert_eq!(drain.proceed(EARLY, &leading()), both);
    }
}
