//! How long a member's longest step takes, by how many names there are: whatever goes over many names goes over a few of them at a
//! time, so that a heartbeat that is due waits for no more.
//!
//! The shipped core over a sorted map, without links, threads and disks. Processor time of this thread is what counts. The same steps are
//! taken several times, and the least time of each counts: a step during which the kernel looks for memory is no longer than others.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use callsign::{
    Kind, Name,
    cores::{
        Batch, Effect, Input, MemberConfig, Message, Now, Op, QUEUES, RegistryCore, RegistryEffect,
        RequestNumber, Row, Told, Tuning,
    },
};
use callsign_elector::record::LogEnd;
use callsign_store::{
    CommitOutcome, Limits, StoreError, Time, Transaction,
    ids::{Epoch, Incarnation, NodeName, Nonce, Position, SessionId, SessionNumber},
    keys::RegistryKeys,
    mvcc::Mvcc,
    record::Record,
};

use crate::{
    cost::{Steps, processor_time, steps_of_an_end, steps_of_session, steps_of_waiting},
    run::formed_of,
    world::{Setup, World},
};

/// How many registrations a batch has.
const BATCH: u32 = 1000;

/// The longest step of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Longest {
    /// A batch of a thousand registrations is applied.
    pub batch: Duration,
    /// The same batches are read from the store, as many as are read at a time.
    pub read: Duration,
    /// A snapshot of all names is sent, chunk by chunk.
    pub sent: Duration,
    /// It is taken and put in its place, by a member that has no names.
    pub installed: Duration,
    /// A session that has all names is gone.
    pub gone: Duration,
    /// The session lapses of a node whose own actors have all names.
    pub lapsed: Duration,
    /// It is lost; and the log says so.
    pub lost: Duration,
    /// An actor ends that has all names.
    pub ended: Duration,
    /// All calls that wait are looked at, at most 90 000.
    pub waited: Duration,
}

/// Has a member go through all of this with so many names, so many times.
pub fn measure(names: u32, rounds: u32) -> Longest {
    let mut least = once(names);
    for _ in 1..rounds {
        for (least, steps) in least.iter_mut().zip(once(names)) {
            assert_eq!(least.len(), steps.len(), "the same steps are taken");
            for (least, step) in least.iter_mut().zip(steps) {
                *least = step.min(*least);
            }
        }
    }
    let [batch, read, sent, installed, gone, lapsed, lost, ended, waited] =
        least.map(|steps| steps.into_iter().max().unwrap_or_default());
    Longest { batch, read, sent, installed, gone, lapsed, lost, ended, waited }
}

fn once(names: u32) -> [Steps; 9] {
    let mut setup = Setup::new(2);
    setup.tuning = Tuning::default();
    let world = formed_of(World::new(setup), 0);
    let mut follower = Follower::of(&world, true);
    let batch = follower.steps(|it| it.register(names));
    let mut reader = Follower::of(&world, true);
    let read = reader.steps(|it| it.read(names));
    let mut joiner = Follower::of(&world, false);
    let mut sent = Steps::new();
    let installed = joiner.steps(|it| sent = it.join(&mut follower));
    let gone = follower.steps(Follower::lose_all);
    for (it, count) in [(&follower, 0), (&reader, names), (&joiner, names)] {
        assert_eq!(it.registry.member().replica().count(), count as usize, "the names that there are");
    }
    let mut owner = Follower::of(&world, true);
    owner.holder = Arc::new(owner.registry.member().session().expect("it was formed").clone());
    owner.register(names);
    let own_gone = owner.steps(Follower::lose_all);
    let (lapsed, mut lost) = steps_of_session(names);
    lost.extend(own_gone);
    let (ended, waited) = (steps_of_an_end(names), steps_of_waiting(names));
    [batch, read, sent, installed, gone, lapsed, lost, ended, waited]
}

/// A member that follows the log of another, which is made up here.
struct Follower {
    registry: RegistryCore<BTreeMap<Name, Row>>,
    leader: NodeName,
    epoch: Epoch,
    end: LogEnd,
    keys: RegistryKeys,
    time: Time,
    holder: Arc<SessionId>,
    steps: Steps,
    effects: Vec<Effect>,
}

impl Follower {
    /// One that holds the end of the log; or one that knows who leads, and has no base.
    fn of(world: &World, is_based: bool) -> Self {
        let is_led = |node: &u8| {
            world
                .process(*node)
                .and_then(|it| it.parts.as_ref())
                .is_some_and(|it| it.core.member().is_serving())
        };
        let (leads, follows) = if is_led(&0) { (0, 1) } else { (1, 0) };
        let process = world.process(follows).expect("it was started");
        let registry = process.parts.as_ref().expect("it was formed").core.clone();
        let formed = registry.member();
        let leader = world.setup.names[usize::from(leads)].clone();
        let node = NodeName::new("holder").expect("it is a name");
        let holder = SessionId { node, incarnation: Incarnation(1), number: SessionNumber(1) };
        let mut it = Self {
            registry: registry.clone(),
            epoch: formed.view().term.epoch,
            end: formed.replica().end(),
            keys: world.setup.keys.clone(),
            time: Time(world.local(follows)),
            holder: Arc::new(holder),
            steps: Steps::new(),
            effects: Vec::new(),
            leader,
        };
        if !is_based {
            it.registry = RegistryCore::of_member(
                MemberConfig {
                    me: formed.me().clone(),
                    incarnation: process.incarnation,
                    keys: world.setup.keys.clone(),
                    seed: 1,
                    tuning: Tuning::default(),
                },
                BTreeMap::new(),
            );
            let incarnation = world.process(leads).expect("it was started").incarnation;
            it.step(Input::View(formed.view().clone()));
            it.step(Input::LinkUp {
                node: it.leader.clone(),
                incarnation,
                link: 1,
                permits: callsign_transport::Permits::default(),
            });
        }
        it
    }

    fn steps(&mut self, what: impl FnOnce(&mut Self)) -> Steps {
        self.steps.clear();
        what(self);
        std::mem::take(&mut self.steps)
    }

    fn step(&mut self, input: Input) {
        let began = processor_time();
        let now = Now { time: self.time, trusted: None };
        let mut effects = Vec::new();
        self.registry.step(now, Told::Member(input), &mut effects);
        self.steps.push(processor_time().saturating_sub(began));
        while QUEUES.iter().any(|queue| self.registry.take(*queue).is_some()) {}
        self.effects.extend(effects.into_iter().filter_map(|effect| match effect {
            RegistryEffect::Member(effect) => Some(effect),
            _ => None,
        }));
    }

    /// Has it go on until nothing more is to be done at once.
    fn settle(&mut self) {
        self.step(Input::Idle);
        while self.registry.member().wakes_at(self.time) <= self.time {
            self.step(Input::Wake);
            self.step(Input::Idle);
        }
    }

    fn receive(&mut self, message: Message) {
        self.step(Input::Message { from: self.leader.clone(), message });
        self.settle();
    }

    fn batch(&mut self, sessions: Vec<Arc<SessionId>>, ops: Vec<Op>) -> (Position, Bytes) {
        let position = self.end.position.next();
        let batch =
            Batch { epoch: self.epoch, nonce: Nonce(position.0), position, prev: self.end, sessions, ops };
        self.end = batch.end();
        (position, batch.encode())
    }

    fn replicate(&mut self, (position, batch): (Position, Bytes)) {
        self.receive(Message::Replicate { epoch: self.epoch, position, batch });
        assert_eq!(self.registry.member().replica().position(), position, "it is applied");
    }

    fn registered(&mut self, names: u32) -> Vec<(Position, Bytes)> {
        let mut batches = Vec::new();
        for from in (0..names).step_by(BATCH as usize) {
            let ops = (from..names.min(from + BATCH)).map(|number| Op::Register {
                name: format!("orders/{number:08}").as_str().into(),
                session: 0,
                request: RequestNumber(u64::from(number)),
                actor: Some(u64::from(number)),
                kind: Kind(1),
                meta: None,
            });
            batches.push(self.batch(vec![self.holder.clone()], ops.collect()));
        }
        batches
    }

    fn register(&mut self, names: u32) {
        for batch in self.registered(names) {
            self.replicate(batch);
        }
    }

    fn lose_all(&mut self) {
        let batch = self.batch(vec![self.holder.clone()], vec![Op::HostGone { session: 0 }]);
        self.replicate(batch);
    }

    /// Gets the registrations from the store, as its leader has none of them any more.
    fn read(&mut self, names: u32) {
        let mut store = Mvcc::new(Limits::FOUNDATIONDB, 0);
        for (position, batch) in self.registered(names) {
            let written = Transaction::new().put(self.keys.log(position), batch.to_vec());
            let outcome = store.apply(&written.put(self.keys.commit(), self.end.to_value()));
            assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        }
        self.receive(Message::Heartbeat { epoch: self.epoch, end: self.end });
        while self.registry.member().replica().end() != self.end {
            for effect in std::mem::take(&mut self.effects) {
                match effect {
                    Effect::Send { message: Message::Fetch { epoch, after }, .. } => {
                        self.receive(Message::Fetched { epoch, after, batches: Vec::new() });
                    }
                    Effect::Read { id, reads } => {
                        let result = store
                            .read(&reads, None)
                            .map_err(|_| StoreError::Unavailable("it is too old".into()));
                        self.step(Input::ReadDone { id, result });
                    }
                    _ => {}
                }
            }
            self.time = self.time + Duration::from_millis(10);
            self.settle();
        }
    }

    /// Takes a snapshot from another one. Returns the steps of that one.
    fn join(&mut self, donor: &mut Self) -> Steps {
        donor.steps.clear();
        self.receive(Message::Heartbeat { epoch: self.epoch, end: donor.end });
        while !self.registry.member().replica().is_based() {
            let asked = std::mem::take(&mut self.effects);
            let messages = asked.into_iter().filter_map(|effect| match effect {
                Effect::Send { message, .. } => Some(message),
                _ => None,
            });
            for message in messages {
                donor.effects.clear();
                donor.step(Input::Message { from: donor.leader.clone(), message });
                donor.settle();
                for effect in std::mem::take(&mut donor.effects) {
                    if let Effect::Send { message, .. } = effect {
                        self.receive(message);
                    }
                }
            }
            self.time = self.time + Duration::from_millis(10);
            self.settle();
        }
        std::mem::take(&mut donor.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_goes_through_all_of_it() {
        // That it comes to its end is what is asserted; how long it takes is for a benchmark.
        let longest = measure(5000, 2);
        assert!(longest.batch > Duration::ZERO);
    }
}
