//! Calls that wait for another one on the same name, and how many they are.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use super::{Caller, Kind, Name, OnLapse};

/// A call that waits for another one on the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Queued {
    Register { caller: Caller, actor: u64, kind: Kind, on_lapse: OnLapse },
    Unregister { caller: Caller },
}

/// All of them, by name, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Queues {
    by_name: BTreeMap<Name, VecDeque<Queued>>,
    count: usize,
}

impl Queues {
    pub(super) fn push(&mut self, name: Name, call: Queued) {
        self.by_name.entry(name).or_default().push_back(call);
        self.count += 1;
    }

    /// Takes the call for a name that has waited longest.
    pub(super) fn pop(&mut self, name: &Name) -> Option<Queued> {
        let queue = self.by_name.get_mut(name)?;
        let call = queue.pop_front();
        if queue.is_empty() {
            self.by_name.remove(name);
        }
        self.count -= usize::from(call.is_some());
        call
    }

    /// Keeps those for which this says so. Cost: their number.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&Name, &Queued) -> bool) {
        self.by_name.retain(|name, queue| {
            let before = queue.len();
            queue.retain(|call| keeps(name, call));
            self.count -= before - queue.len();
            !queue.is_empty()
        });
    }

    /// Takes any of them.
    pub(super) fn pop_any(&mut self) -> Option<(Name, Queued)> {
        let name = self.by_name.keys().next()?.clone();
        self.pop(&name).map(|call| (name, call))
    }

    /// Takes those who ask for names behind this one, of about so many calls. Returns the last name that was looked at, if there are
    /// more.
    pub(super) fn take_registers(
        &mut self,
        behind: Option<&Name>,
        calls: usize,
    ) -> (Vec<Caller>, Option<Name>) {
        let (mut taken, mut emptied) = (Vec::new(), Vec::new());
        let (mut seen, mut last, mut is_more) = (0, None, false);
        let begin = behind.map_or(Bound::Unbounded, Bound::Excluded);
        for (name, queue) in self.by_name.range_mut::<Name, _>((begin, Bound::Unbounded)) {
            if seen >= calls {
                is_more = true;
                break;
            }
            seen += queue.len();
            queue.retain(|call| match call {
                Queued::Register { caller, .. } => {
                    taken.push(*caller);
                    false
                }
                Queued::Unregister { .. } => true,
            });
            if queue.is_empty() {
                emptied.push(name.clone());
            }
            last = Some(name.clone());
        }
        for name in &emptied {
            self.by_name.remove(name);
        }
        self.count -= taken.len();
        (taken, last.filter(|_| is_more))
    }

    /// How many calls wait, for all names together.
    pub(super) fn count(&self) -> usize {
        self.count
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
    use crate::core::input::CallId;

    fn call(id: u64) -> Queued {
        Queued::Unregister { caller: Caller::new(Time::ZERO, CallId(id), Duration::from_secs(1)) }
    }

    #[test]
    fn calls_that_wait_come_in_order_and_are_counted() {
        let (x, y): (Name, Name) = ("x".into(), "y".into());
        let mut queues = Queues::default();
        for (name, id) in [(&x, 1), (&y, 2), (&x, 3), (&x, 4)] {
            queues.push(name.clone(), call(id));
        }
        assert_eq!(queues.count(), 4);
        queues.retain(|name, waiting| *name == x && *waiting != call(3));
        assert_eq!((queues.count(), queues.is_waiting(&x), queues.is_waiting(&y)), (2, true, false));
        assert_eq!([queues.pop(&x), queues.pop(&x), queues.pop(&x)], [Some(call(1)), Some(call(4)), None]);
        assert!(queues.is_empty() && queues.count() == 0);
    }
}
