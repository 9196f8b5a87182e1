//! Effects, as the drivers carry them out, and what the store makes of commits.

use super::*;

impl World {
    pub(super) fn perform(&mut self, node: &NodeName, effect: Effect) {
        match effect {
            Effect::Send { to, message, .. } => {
                *self.sent.entry(message.kind()).or_default() += 1;
                // As on the wire.
                let message = Message::decode(&message.encode()).unwrap();
                let way = (node.clone(), to.clone());
                if self.chance(self.faults.queue_full, "queue full") {
                    let now = self.now;
                    self.push(now, node, Next::Tell(Told::Member(Input::SendFailed { to })));
                } else if self.links.contains(&way) {
                    let at = self.arrival(node, &to);
                    self.push(
                        at,
                        &to,
                        Next::Tell(Told::Member(Input::Message { from: node.clone(), message })),
                    );
                }
            }
            Effect::Read { id, reads } => {
                let result = self.read(&reads);
                let takes = self.store_takes();
                let at = self.later(takes);
                self.push(at, node, Next::Tell(Told::Member(Input::ReadDone { id, result })));
            }
            Effect::Commit { id, transaction } => {
                let takes = self.store_takes();
                let at = self.later(takes);
                self.push(at, node, Next::Commit(transaction, Owner::Member(id)));
            }
            Effect::Answer { call, answer } => {
                assert!(self.answers.insert(call, answer).is_none(), "a call is answered once");
            }
            Effect::Watch { actor } => {
                self.nodes.get_mut(node).unwrap().watched.insert(actor);
            }
            Effect::Unwatch { actor } => {
                self.nodes.get_mut(node).unwrap().watched.remove(&actor);
            }
            // As in the driver: who is not watched any more is neither stopped nor told.
            Effect::Stop { actor } if self.nodes[node].watched.contains(&actor) => {
                let at = self.later(100);
                self.push(at, node, Next::Tell(Told::Member(Input::ActorEnded { actor })));
            }
            Effect::Notify { actor, notice, .. } if self.nodes[node].watched.contains(&actor) => {
                self.nodes.get_mut(node).unwrap().notices.push((actor, notice));
            }
            Effect::Stop { actor } | Effect::Notify { actor, .. } => {
                panic!("{actor} of {node} is to be told, and is not watched any more")
            }
            Effect::Flag { .. } | Effect::Same { .. } | Effect::Forget { .. } | Effect::Suspect { .. } => {}
            // The elector has it already.
            Effect::Tell(tell) => self.looks += u64::from(matches!(tell, Tell::Refresh)),
            Effect::Event(event) => self.nodes.get_mut(node).unwrap().events.push(event),
        }
    }

    pub(super) fn perform_for_elector(&mut self, node: &NodeName, effect: ElectorEffect) {
        let now = self.now;
        match effect {
            ElectorEffect::Read { id, reads } => {
                let result = self.read(&reads);
                let at = self.later(300);
                self.push(at, node, Next::Tell(Told::Elector(ElectorInput::ReadDone { id, result })));
            }
            ElectorEffect::Commit { id, transaction } => {
                let at = self.later(300);
                self.push(at, node, Next::Commit(transaction, Owner::Elector(id)));
            }
            ElectorEffect::Watch { keys, since } => {
                self.nodes.get_mut(node).unwrap().watch = Some((keys, since));
                self.after_commit();
            }
            ElectorEffect::WakeAt(at) => {
                let at = at.max(now + Duration::from_micros(1));
                self.nodes.get_mut(node).unwrap().elector_wake = at;
                self.push(at, node, Next::WakeElector);
            }
            // The member has it already.
            ElectorEffect::Emit(_) => {}
        }
    }

    fn read(&mut self, reads: &[callsign_store::Read]) -> Result<callsign_store::ReadResult, StoreError> {
        if self.chance(self.faults.unavailable, "read unavailable") {
            return Err(StoreError::Unavailable("test".into()));
        }
        Ok(self.store.read(reads, None).unwrap())
    }

    pub(super) fn commit(
        &mut self,
        node: &NodeName,
        incarnation: Incarnation,
        transaction: Transaction,
        owner: Owner,
    ) {
        let faults = self.faults;
        let floor = self.keys.floor();
        let cuts = transaction.writes.iter().any(|w| matches!(w, Write::Put { key, .. } if *key == floor));
        let outcome = if let Some(delay) = self.delay_cut.take_if(|_| cuts) {
            let at = self.now + delay;
            self.push(at, node, Next::Land(transaction));
            CommitOutcome::Unknown
        } else if self.chance(faults.conflict, "conflict") {
            CommitOutcome::Conflict
        } else if self.chance(faults.unavailable, "unavailable") {
            CommitOutcome::Unavailable("test".into())
        } else if self.chance(faults.unknown_lost, "unknown, lost") {
            CommitOutcome::Unknown
        } else if self.chance(faults.unknown_applied, "unknown, applied") {
            self.apply(&transaction);
            CommitOutcome::Unknown
        } else if self.chance(faults.unknown_later, "unknown, landed later") {
            let at = self.later(2_000_000);
            self.push(at, node, Next::Land(transaction));
            CommitOutcome::Unknown
        } else {
            self.apply(&transaction)
        };
        if self.nodes.get(node).is_none_or(|n| n.incarnation != incarnation) {
            return;
        }
        let takes = self.store_takes();
        let at = self.later(takes);
        let next = match owner {
            Owner::Member(id) => Next::Tell(Told::Member(Input::CommitDone { id, outcome })),
            Owner::Elector(id) => Next::Tell(Told::Elector(ElectorInput::CommitDone { id, outcome })),
        };
        self.push(at, node, next);
    }

    pub(super) fn apply(&mut self, transaction: &Transaction) -> CommitOutcome {
        let floor = self.floor();
        let outcome = self.store.apply(transaction);
        if matches!(outcome, CommitOutcome::Committed(_)) {
            assert!(self.floor() >= floor, "the floor goes back from {floor} to {}", self.floor());
            for write in &transaction.writes {
                if let Write::Put { key, value } = write
                    && let Some(position) = self.keys.log_position(key)
                {
                    let written_in = Batch::decode(value).unwrap().epoch;
                    assert_eq!(written_in, self.term().epoch, "P2: whoever is deposed appends nothing");
                    let former = self.history.insert(position, value.clone());
                    assert!(
                        former.is_none(),
                        "position {position} is written once\n{former:?}\n{value:?}\n{}",
                        self.picture()
                    );
                }
            }
            self.after_commit();
        }
        outcome
    }

    pub(super) fn after_commit(&mut self) {
        let changed = |n: &Node| {
            let (keys, since) = n.watch.as_ref()?;
            keys.iter().any(|key| self.store.changed_since(key, *since)).then_some(())
        };
        let woken: Vec<NodeName> =
            self.nodes.iter().filter(|(_, n)| changed(n).is_some()).map(|(node, _)| node.clone()).collect();
        for node in woken {
            self.nodes.get_mut(&node).unwrap().watch = None;
            let at = self.later(500);
            self.push(at, &node, Next::Tell(Told::Elector(ElectorInput::Notice(Notice::Changed))));
        }
    }
}
