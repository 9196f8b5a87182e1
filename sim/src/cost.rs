//! What a change costs a member: a cluster of one, whose member leads, holds names for an actor each, and gives them up.
//!
//! The shipped core and the shipped `Mvcc` store, without links, threads and disks: what is measured is the member. Processor
//! time of this thread is what counts, so that other work on the machine does not.

use std::{collections::BTreeMap, time::Duration};

use callsign::{
    Kind, Name,
    cores::{
        Answer, Call, CallId, Effect, Input, Now, OnLapse, OnTake, QUEUES, RegistryCore, RegistryEffect, Row,
        Told, Tuning,
    },
};
use callsign_store::{CommitOutcome, StoreError, Time, ids::SessionNumber, mvcc::Mvcc};

use crate::{
    run::formed_of,
    world::{Setup, World},
};

/// How long each step took, in order.
pub(crate) type Steps = Vec<Duration>;

/// What one change of each kind takes.
#[derive(Clone, Copy, Debug)]
pub struct ChangeCost {
    /// A registration, until it is granted.
    pub register: Duration,
    /// Giving up a name that is held, until it is free.
    pub unregister: Duration,
    /// The end of an actor that holds a name, until the name is free.
    pub end: Duration,
}

/// Registers so many names, so many at a time, gives them up, registers them again, and ends their actors.
pub fn measure(names: u32, in_flight: u32) -> ChangeCost {
    let mut alone = Alone::new();
    let mut pass = |change: &dyn Fn(&mut Alone, u32)| {
        let began = processor_time();
        alone.change_all(names, in_flight, change);
        processor_time().saturating_sub(began) / names
    };
    let register = pass(&Alone::register);
    let unregister = pass(&Alone::unregister);
    pass(&Alone::register);
    let end = pass(&Alone::end);
    assert_eq!(
        (alone.registry.member().claims(), alone.registry.member().replica().count()),
        (0, 0),
        "all names are free"
    );
    ChangeCost { register, unregister, end }
}

/// The steps of a node that has so many names of its own: while its session lapses, and while it is lost.
pub(crate) fn steps_of_session(names: u32) -> (Steps, Steps) {
    let mut alone = Alone::new();
    alone.change_all(names, 1000, &Alone::register);
    let session = alone.registry.member().session().expect("it holds names").clone();
    alone.is_trusted = false;
    let lapsed = alone.steps(Input::SessionLapsed(session));
    assert_eq!(alone.told, names, "each actor is stopped");
    let lost = alone.steps(Input::SessionLost);
    assert_eq!((alone.told, alone.registry.member().claims()), (2 * names, 0), "each once more");
    (lapsed, lost)
}

/// The steps of a node while an actor ends that has so many names, until all of them are asked to be freed.
pub(crate) fn steps_of_an_end(names: u32) -> Steps {
    let mut alone = Alone::new();
    alone.actor = Some(7);
    alone.change_all(names, 1000, &Alone::register);
    let steps = alone.steps(Input::ActorEnded { actor: 7 });
    assert_eq!(alone.registry.member().claims(), 0, "it holds nothing any more");
    steps
}

/// The steps of a node that looks at all calls which wait there, while none of them has waited too long: so many, or as many as may.
pub(crate) fn steps_of_waiting(calls: u32) -> Steps {
    let mut alone = Alone::new();
    for name in 0..calls.min(90_000) {
        alone.register(name);
    }
    alone.time = alone.time + Duration::from_secs(1);
    // Nothing is sent meanwhile: that is another step.
    let look = |_| {
        let began = processor_time();
        alone.step(Input::Wake);
        processor_time().saturating_sub(began)
    };
    (0..=calls / 1000).map(look).collect()
}

/// What this thread has had of the processor.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let part = |part: i64| u64::try_from(part).unwrap_or_default();
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// A member that leads and has nobody to talk to, and its store.
#[derive(Clone)]
pub struct Alone {
    registry: RegistryCore<BTreeMap<Name, Row>>,
    store: Mvcc,
    time: Time,
    session: SessionNumber,
    is_trusted: bool,
    /// Who registers. None: each name has an actor of its own.
    actor: Option<u64>,
    /// How often actors were stopped.
    told: u32,
    effects: Vec<RegistryEffect>,
    calls: u64,
    waiting: usize,
}

impl Default for Alone {
    fn default() -> Self {
        Self::new()
    }
}

impl Alone {
    /// One that serves, and has no names.
    pub fn new() -> Self {
        let mut setup = Setup::new(1);
        setup.tuning = Tuning::default();
        let world = formed_of(World::new(setup), 0);
        let process = world.process(0).expect("it was started");
        let registry = process.parts.as_ref().expect("it was formed").core.clone();
        let member = registry.member();
        assert!(member.is_serving(), "whoever is alone leads");
        let session = member.session().expect("it serves").number;
        let time = Time(world.local(0));
        Self {
            registry,
            store: Mvcc::clone(&world.store),
            time,
            session,
            is_trusted: true,
            actor: None,
            told: 0,
            effects: Vec::new(),
            calls: 1 << 32,
            waiting: 0,
        }
    }

    /// Asks for a name, by its number.
    pub fn register(&mut self, name: u32) {
        let actor = self.actor.unwrap_or(u64::from(name));
        let name = Self::name(name);
        self.call(Call::Register {
            name,
            actor,
            kind: Kind(1),
            on_lapse: OnLapse::Stop,
            on_take: OnTake::default(),
            meta: None,
        });
    }

    /// Gives a name up.
    pub fn unregister(&mut self, name: u32) {
        self.call(Call::Unregister { name: Self::name(name) });
    }

    /// The actor ends that has a name.
    pub fn end(&mut self, name: u32) {
        self.step(Input::ActorEnded { actor: u64::from(name) });
    }

    fn name(number: u32) -> Name {
        format!("orders/{number:08}").as_str().into()
    }

    fn call(&mut self, call: Call) {
        self.calls += 1;
        self.waiting += 1;
        self.step(Input::Call { id: CallId(self.calls), call, wait: Duration::from_secs(3600) });
    }

    fn step(&mut self, input: Input) {
        let now = Now { time: self.time, trusted: self.is_trusted.then_some(self.session) };
        self.registry.step(now, Told::Member(input), &mut self.effects);
    }

    /// The steps from this on, until nothing more is to be done at once.
    fn steps(&mut self, input: Input) -> Steps {
        let (mut steps, mut next) = (Steps::new(), Some(input));
        while let Some(input) = next {
            for input in [input, Input::Idle] {
                let began = processor_time();
                self.step(input);
                steps.push(processor_time().saturating_sub(began));
                let stops =
                    |effect: &RegistryEffect| matches!(effect, RegistryEffect::Member(Effect::Stop { .. }));
                self.told += u32::try_from(self.effects.drain(..).filter(stops).count()).unwrap_or(u32::MAX);
            }
            next = (self.registry.member().wakes_at(self.time) <= self.time).then_some(Input::Wake);
        }
        steps
    }

    /// Makes a change to each of so many names, so many at a time.
    pub fn change_all(&mut self, names: u32, in_flight: u32, change: &dyn Fn(&mut Self, u32)) {
        for from in (0..names).step_by(in_flight as usize) {
            self.change(from..names.min(from + in_flight), change);
        }
    }

    /// Has all these changes under way at once, until all are done.
    fn change(&mut self, names: std::ops::Range<u32>, change: &dyn Fn(&mut Self, u32)) {
        for name in names {
            change(self, name);
        }
        loop {
            self.step(Input::Idle);
            let mut done = Vec::new();
            while QUEUES.iter().any(|queue| self.registry.take(*queue).is_some()) {}
            for effect in std::mem::take(&mut self.effects) {
                let RegistryEffect::Member(effect) = effect else { continue };
                match effect {
                    Effect::Commit { id, transaction } => {
                        let outcome = self.store.apply(&transaction);
                        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
                        done.push(Input::CommitDone { id, outcome });
                    }
                    Effect::Read { id, reads } => {
                        let result = self.store.read(&reads, None);
                        let result = result.map_err(|_| StoreError::Unavailable("it is too old".into()));
                        done.push(Input::ReadDone { id, result });
                    }
                    Effect::Answer { answer, .. } => {
                        assert!(
                            matches!(answer, Answer::Registered(Ok(_)) | Answer::Unregistered(Ok(_))),
                            "{answer:?}"
                        );
                        self.waiting -= 1;
                    }
                    _ => {}
                }
            }
            if done.is_empty() && self.waiting == 0 {
                return;
            }
            // A commit takes a while.
            self.time = self.time + Duration::from_millis(1);
            for input in done {
                self.step(input);
            }
            let now = Now { time: self.time, trusted: Some(self.session) };
            if self.registry.member().wakes_at(now.time) <= self.time {
                self.step(Input::Wake);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen times as many under way: what scans them all takes sixteen times as long for each. What is bounded here is
    /// processor time, and not tightly.
    #[test]
    fn a_change_costs_about_the_same_however_many_are_under_way() {
        let (mut few, mut many) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            few.push(measure(8000, 500));
            many.push(measure(8000, 8000));
        }
        let least = |costs: &[ChangeCost], of: fn(&ChangeCost) -> Duration| costs.iter().map(of).min();
        for of in [|c: &ChangeCost| c.register, |c: &ChangeCost| c.unregister, |c: &ChangeCost| c.end] {
            let (few, many) = (least(&few, of), least(&many, of));
            assert!(many < few.map(|few| 4 * few), "500 under way: {few:?} each; 8000: {many:?}");
        }
    }
}
