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
enum DrainStage {
    Serving,
    HandingOver { until: Time, callers: Vec<CallId> },
    Drained(Drained),
    Closing { until: Time, caller: CallId },
    Left,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum DrainStep {
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
    stage: DrainStage,
}

impl Drain {
    pub(super) fn new() -> Self {
        Self { stage: DrainStage::Serving }
    }

    /// Whether no new names are registered here any more.
    pub(super) fn has_begun(&self) -> bool {
        self.stage != DrainStage::Serving
    }

    /// Whether nothing is asked here any more.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.stage, DrainStage::Closing { .. } | DrainStage::Left)
    }

    /// Whether the names are given up.
    pub(super) fn has_left(&self) -> bool {
        self.stage == DrainStage::Left
    }

    /// Whether time has to pass.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, DrainStage::HandingOver { .. } | DrainStage::Closing { .. })
    }

    /// Somebody wants it to drain. What became of it is said at once if that is known.
    pub(super) fn begin(&mut self, caller: CallId, until: Time) -> DrainStep {
        match &mut self.stage {
            DrainStage::Serving => self.stage = DrainStage::HandingOver { until, callers: vec![caller] },
            // The one that wants it sooner is right.
            DrainStage::HandingOver { until: former, callers } => {
                *former = until.min(*former);
                callers.push(caller);
            }
            DrainStage::Drained(drained) => return DrainStep::Tell(vec![caller], drained.clone()),
            DrainStage::Closing { .. } | DrainStage::Left => {
                return DrainStep::Tell(vec![caller], Drained::Left);
            }
        }
        DrainStep::Wait
    }

    /// Somebody wants it to leave now: those that wait for it to drain are told.
    pub(super) fn close(&mut self, caller: CallId, until: Time) -> DrainStep {
        match std::mem::replace(&mut self.stage, DrainStage::Closing { until, caller }) {
            DrainStage::HandingOver { callers, .. } => DrainStep::Tell(callers, Drained::TimedOut),
            _ => DrainStep::Wait,
        }
    }

    /// Goes on, as far as what it sees lets it.
    pub(super) fn proceed(&mut self, now: Time, sight: &Sight) -> DrainStep {
        match &mut self.stage {
            DrainStage::HandingOver { until, callers } => {
                let drained = match &sight.led_by {
                    _ if now >= *until => Drained::TimedOut,
                    _ if sight.is_registering || sight.is_offering => return DrainStep::Wait,
                    Some(by) if sight.is_known => Drained::Led { by: by.clone() },
                    _ if !sight.has_successor => Drained::Alone,
                    _ => return DrainStep::Wait,
                };
                let callers = std::mem::take(callers);
                self.stage = DrainStage::Drained(drained.clone());
                DrainStep::Tell(callers, drained)
            }
            DrainStage::Closing { until, caller } if !sight.is_asking || now >= *until => {
                let caller = *caller;
                self.stage = DrainStage::Left;
                DrainStep::Leave(caller)
            }
            _ => DrainStep::Wait,
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
        assert_eq!(drain.begin(CallId(1), BY), DrainStep::Wait);
        drain
    }

    fn told(drained: Drained) -> DrainStep {
        DrainStep::Tell(vec![CallId(1)], drained)
    }

    #[test]
    fn it_waits_for_a_successor_that_serves_and_no_longer_than_it_may() {
        let mut drain = begun();
        assert_eq!(drain.proceed(EARLY, &leading()), DrainStep::Wait);
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
        assert_eq!(drain.proceed(EARLY, &unknown), DrainStep::Wait);
        assert_eq!(
            drain.proceed(EARLY, &Sight { is_known: true, ..unknown }),
            told(Drained::Led { by: b() })
        );
    }

    #[test]
    fn who_is_alone_does_not_wait_but_for_what_was_asked_before() {
        let alone = Sight { has_successor: false, is_known: false, ..leading() };
        let mut drain = begun();
        assert_eq!(drain.proceed(EARLY, &Sight { is_registering: true, ..alone.clone() }), DrainStep::Wait);
        assert_eq!(drain.proceed(EARLY, &alone), told(Drained::Alone));
    }

    #[test]
    fn names_that_are_offered_are_waited_for_and_no_longer_than_it_may() {
        let offering = Sight { is_offering: true, led_by: Some(b()), ..leading() };
        let mut drain = begun();
        assert_eq!(drain.proceed(EARLY, &offering), DrainStep::Wait);
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
        assert_eq!(drain.proceed(EARLY, &asking), DrainStep::Wait);
        assert_eq!(drain.proceed(BY, &asking), DrainStep::Leave(CallId(2)));
        assert_eq!(drain.proceed(BY, &asking), DrainStep::Wait, "once");
        assert_eq!(drain.begin(CallId(1), BY), told(Drained::Left));
        let mut drain = Drain::new();
        assert_eq!(drain.close(CallId(2), BY), DrainStep::Wait);
        assert_eq!(drain.proceed(EARLY, &leading()), DrainStep::Leave(CallId(2)));
    }

    #[test]
    fn asked_twice_it_keeps_to_the_earlier_time_and_tells_both() {
        let mut drain = begun();
        assert_eq!(drain.begin(CallId(2), EARLY), DrainStep::Wait);
        let both = DrainStep::Tell(vec![CallId(1), CallId(2)], Drained::TimedOut);
        assert_eq!(drain.proceed(EARLY, &leading()), both);
    }
}
