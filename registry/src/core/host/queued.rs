//! Calls that wait for another one on the same name, and how many they are.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use super::{Client, Disowned, GroupId, MetaChange, Name, Position, Registrant, Starter, Wanted, meta};

/// So many callers of one name are answered at a time, which a step may do twice. More: a step is long. Fewer: the last of many waits for
/// longer.
pub(super) const ANSWERED_AT_ONCE: usize = 512;

/// A call that waits for another one on the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Queued {
    Register {
        caller: Client,
        registrant: Registrant,
    },
    Start {
        caller: Client,
        starter: Box<Starter>,
    },
    /// It waits for its turn only, and for no other call: what name it asks for its session will say.
    Join {
        caller: Client,
        group: GroupId,
        registrant: Registrant,
    },
    Unregister {
        caller: Client,
        token: Option<Position>,
    },
    Update {
        caller: Client,
        change: MetaChange,
    },
    Take {
        caller: Client,
        wanted: Wanted,
    },
    /// It waits for its turn only, and for no other call.
    Disown {
        caller: Client,
        disowned: Disowned,
    },
}

impl Queued {
    pub(super) fn caller(&self) -> Client {
        match self {
            Self::Register { caller, .. }
            | Self::Start { caller, .. }
            | Self::Join { caller, .. }
            | Self::Unregister { caller, .. }
            | Self::Update { caller, .. }
            | Self::Take { caller, .. }
            | Self::Disown { caller, .. } => *caller,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Register { registrant, .. } | Self::Join { registrant, .. } => {
                meta::weight(registrant.meta.as_ref())
            }
            Self::Start { starter, .. } => meta::weight(starter.meta.as_ref()),
            Self::Update { change, .. } => meta::weight(change.meta.as_ref()),
            Self::Unregister { .. } | Self::Take { .. } | Self::Disown { .. } => 0,
        }
    }
}

/// All of them, by name, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Queues {
    by_name: BTreeMap<Name, VecDeque<Queued>>,
    count: usize,
    /// How many bytes of metadata they bring.
    bytes: usize,
}

impl Queues {
    pub(super) fn push(&mut self, name: Name, call: Queued) {
        self.count += 1;
        self.bytes += call.bytes();
        self.by_name.entry(name).or_default().push_back(call);
    }

    /// Takes the call for a name that has waited longest.
    pub(super) fn pop(&mut self, name: &Name) -> Option<Queued> {
        let queue = self.by_name.get_mut(name)?;
        let call = queue.pop_front();
        if queue.is_empty() {
            self.by_name.remove(name);
        }
        self.count -= usize::from(call.is_some());
        self.bytes -= call.as_ref().map_or(0, Queued::bytes);
        call
    }

    /// Takes any of them.
    pub(super) fn pop_any(&mut self) -> Option<(Name, Queued)> {
        let name = self.by_name.keys().next()?.clone();
        self.pop(&name).map(|call| (name, call))
    }

    /// Keeps those for which this says so, of the names behind this one, and of about so many calls. Returns the last name that was looked
    /// at, if there are more. A name that loses very many is looked at again: behind the name that is returned, it comes first.
    pub(super) fn retain(
        &mut self,
        behind: Option<&Name>,
        calls: usize,
        mut keeps: impl FnMut(&Name, &Queued) -> bool,
    ) -> Option<Name> {
        let (mut seen, mut last, mut emptied, mut is_cut) = (0, None, Vec::new(), false);
        let begin = behind.map_or(Bound::Unbounded, Bound::Excluded);
        for (name, queue) in self.by_name.range_mut::<Name, _>((begin, Bound::Unbounded)) {
            if seen >= calls {
                break;
            }
            seen += queue.len();
            let mut lost = 0;
            queue.retain(|call| {
                if lost == ANSWERED_AT_ONCE {
                    is_cut = true;
                    return true;
                }
                let is_kept = keeps(name, call);
                if !is_kept {
                    lost += 1;
                    self.count -= 1;
                    self.bytes -= call.bytes();
                }
                is_kept
            });
            if is_cut {
                break;
            }
            if queue.is_empty() {
                emptied.push(name.clone());
            }
            last = Some(name.clone());
        }
        for name in &emptied {
            self.by_name.remove(name);
        }
        if is_cut {
            // No name is empty, so all are behind the empty one.
            return Some(last.or_else(|| behind.cloned()).unwrap_or_default());
        }
        last.filter(|last| self.by_name.last_key_value().is_some_and(|(end, _)| end > last))
    }

    /// Takes those who ask for names, behind this one, of about so many calls. Returns the last name that was looked at, if there are
    /// more.
    pub(super) fn take_registers(
        &mut self,
        behind: Option<&Name>,
        calls: usize,
    ) -> (Vec<Queued>, Option<Name>) {
        let mut taken = Vec::new();
        let last = self.retain(behind, calls, |_, call| match call {
            Queued::Register { .. } | Queued::Start { .. } | Queued::Take { .. } => {
                taken.push(call.clone());
                false
            }
            Queued::Join { .. }
            | Queued::Unregister { .. }
            | Queued::Update { .. }
            | Queued::Disown { .. } => true,
        });
        (taken, last)
    }

    /// How many calls wait, for all names together.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a call waits for this name.
    pub(super) fn is_waiting(&self, name: &Name) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callsign_store::Time;

    use super::*;
    use crate::core::{
        host::OnTake,
        input::{CallId, OnLapse},
        meta::Meta,
    };

    fn call(id: u64) -> Queued {
        let caller = Client::new(Time::ZERO, CallId(id), Duration::from_secs(1));
        Queued::Unregister { caller, token: None }
    }

    #[test]
    fn calls_that_wait_come_in_order_and_are_counted() {
        let (x, y): (Name, Name) = ("x".into(), "y".into());
        let mut queues = Queues::default();
        for (name, id) in [(&x, 1), (&y, 2), (&x, 3), (&x, 4)] {
            queues.push(name.clone(), call(id));
        }
        assert_eq!(queues.count(), 4);
        let keeps = |name: &Name, waiting: &Queued| *name == x && *waiting != call(3);
        // About two calls: all of one name.
        assert_eq!(queues.retain(None, 2, keeps), Some(x.clone()));
        assert_eq!((queues.count(), queues.is_waiting(&x), queues.is_waiting(&y)), (3, true, true));
        assert_eq!(queues.retain(Some(&x), 2, keeps), None);
        assert_eq!((queues.count(), queues.is_waiting(&x), queues.is_waiting(&y)), (2, true, false));
        assert_eq!([queues.pop(&x), queues.pop(&x), queues.pop(&x)], [Some(call(1)), Some(call(4)), None]);
        assert!(queues.is_empty() && queues.count() == 0);
    }

    #[test]
    fn no_more_than_so_many_calls_of_one_name_are_taken_out_at_a_time() {
        let (w, x, y): (Name, Name, Name) = ("w".into(), "x".into(), "y".into());
        let mut queues = Queues::default();
        queues.push(y, call(0));
        for id in 1..=1100 {
            queues.push(x.clone(), call(id));
        }
        let is_kept = |_: &Name, waiting: &Queued| *waiting == call(2);
        let left = |queues: &mut Queues, behind: Option<&Name>| {
            let last = queues.retain(behind, 9999, is_kept);
            (last, queues.count())
        };
        assert_eq!(left(&mut queues, None), (Some("".into()), 589));
        queues.push(w.clone(), call(2));
        assert_eq!(left(&mut queues, None), (Some(w.clone()), 78));
        assert_eq!(left(&mut queues, Some(&w)), (None, 2), "all others are gone");
        assert_eq!([queues.pop(&w), queues.pop(&x)], [Some(call(2)), Some(call(2))]);
        assert_eq!(queues, Queues::default());
    }

    #[test]
    fn those_who_ask_for_names_are_taken_about_so_many_at_a_time_and_others_wait_on() {
        let caller = |id| Client::new(Time::ZERO, CallId(id), Duration::from_secs(1));
        let registrant = || Registrant {
            actor: 5,
            kind: callsign_transport::Kind(7),
            on_lapse: OnLapse::Stop,
            on_take: OnTake::Refuse,
            meta: Some(Meta::new(&7).unwrap()),
        };
        let asks = |id| Queued::Register { caller: caller(id), registrant: registrant() };
        let mut queues = Queues::default();
        for (id, name) in (1..).zip(["v", "v", "w", "x", "x", "y", "z"]) {
            queues.push(name.into(), if id == 5 || id == 6 { call(id) } else { asks(id) });
        }
        assert_eq!((queues.count(), queues.bytes()), (7, 5));
        let (taken, last) = queues.take_registers(None, 3);
        assert_eq!((taken, last.as_deref()), (vec![asks(1), asks(2), asks(3)], Some("w")));
        assert_eq!((queues.count(), queues.bytes(), queues.is_waiting(&"w".into())), (4, 2, false));
        let (taken, last) = queues.take_registers(Some(&"w".into()), 1);
        assert_eq!((taken, last.as_deref()), (vec![asks(4)], Some("x")));
        let (taken, last) = queues.take_registers(Some(&"x".into()), 9);
        assert_eq!((taken, last), (vec![asks(7)], None));
        let left = [queues.pop_any(), queues.pop_any(), queues.pop_any()];
        assert_eq!(left, [Some(("x".into(), call(5))), Some(("y".into(), call(6))), None]);
        assert_eq!(queues, Queues::default());
    }
}
