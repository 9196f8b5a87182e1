//! Takes out of each step what is to be held against the other recordings.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use callsign::{
    Name,
    cores::{Answer, Call, CallId, Effect, Event, GroupId, Input, Message, StartedAs, TakenAs},
};
use callsign_elector::{
    elector::{self, ElectorEvent},
    recording::Header,
    session,
};
use callsign_store::{
    CommitOutcome, Key, Time, Transaction, Write,
    ids::{Epoch, Position, SessionId, SessionNumber},
    keys::{ClusterKeys, RegistryKeys},
};

use super::{
    merged::{
        InCluster, InRegistry,
        grants::RecordedGrant,
        holders::{RecordedClaim, Trust},
        messages::Ways,
    },
    place::{Place, Process},
    replay::{ReplayedElector, ReplayedMember, ReplayedSession, StepOf},
};

/// Of a session: when it was trusted.
#[derive(Debug)]
pub struct OfSession<'a> {
    trust: &'a mut Trust,
}

impl<'a> OfSession<'a> {
    /// Begins with a recording.
    pub fn new(header: &Header, cluster: &'a mut InCluster) -> Self {
        Self { trust: cluster.trust_of(&Process::of(header)) }
    }

    /// Takes one step.
    pub fn step(&mut self, _core: &ReplayedSession, _frame: u64, step: &StepOf<ReplayedSession>) {
        self.trust.lives(step.now);
        for effect in &step.effects {
            match effect {
                session::Effect::Trust { number, until } => self.trust.grant(step.now, *number, *until),
                session::Effect::Lapse => self.trust.lapse(step.now),
                _ => {}
            }
        }
    }
}

fn keys(header: &Header) -> Option<RegistryKeys> {
    Some(ClusterKeys::new(&header.cluster).registry(header.registry.as_ref()?))
}

/// Of an elector: which entries it took off the queue.
#[derive(Debug)]
pub struct OfElector<'a> {
    begin: Place,
    keys: Option<RegistryKeys>,
    trust: &'a mut Trust,
    registry: &'a mut InRegistry,
    /// The entries that each transaction under way removes.
    removes: BTreeMap<elector::OpId, Vec<Key>>,
}

impl<'a> OfElector<'a> {
    /// Begins with a recording.
    pub fn new(
        path: &Path,
        header: &Header,
        cluster: &'a mut InCluster,
        registry: &'a mut InRegistry,
    ) -> Self {
        Self {
            begin: Place::beginning(path),
            keys: keys(header),
            trust: cluster.trust_of(&Process::of(header)),
            registry,
            removes: BTreeMap::new(),
        }
    }

    /// Takes one step.
    pub fn step(&mut self, _core: &ReplayedElector, frame: u64, step: &StepOf<ReplayedElector>) {
        let place = self.begin.at(frame);
        self.trust.lives(step.now);
        if let elector::Input::CommitDone { id, outcome } = &step.input {
            let removed = self.removes.remove(id).unwrap_or_default();
            if matches!(outcome, CommitOutcome::Committed(_)) {
                for key in &removed {
                    self.registry.queue.take(&place, key);
                }
            }
        }
        for effect in &step.effects {
            match effect {
                elector::Effect::Commit { id, transaction } => {
                    self.removes.insert(*id, self.removed_by(transaction));
                }
                elector::Effect::Emit(
                    ElectorEvent::Applied { entry, .. } | ElectorEvent::Dropped { entry, .. },
                ) => self.registry.queue.apply(&place, &entry.author, entry.sequence),
                _ => {}
            }
        }
    }

    fn removed_by(&self, transaction: &Transaction) -> Vec<Key> {
        let Some(entries) = self.keys.as_ref().map(RegistryKeys::queue_entries) else { return Vec::new() };
        let removed = transaction.writes.iter().filter_map(|write| match write {
            Write::Clear(key) if entries.contains(key) => Some(key.clone()),
            _ => None,
        });
        removed.collect()
    }
}

/// What a caller asked for.
#[derive(Debug)]
enum AskedFor {
    Name(Name),
    /// To be a member of it.
    Group(GroupId),
}

/// A claim that has begun.
#[derive(Debug)]
struct BegunClaim {
    session: SessionNumber,
    token: Position,
    from: Time,
    place: Place,
}

/// Of a member: what it knows of the log, what its callers were told, what it claims.
#[derive(Debug)]
pub struct OfMember<'a> {
    begin: Place,
    process: Process,
    keys: Option<RegistryKeys>,
    trust: &'a mut Trust,
    registry: &'a mut InRegistry,
    ways: Ways,
    asked: BTreeMap<CallId, (AskedFor, u64)>,
    position: Position,
    last: u64,
    mark: (Option<SessionNumber>, (usize, u64)),
    claims: BTreeMap<Name, BegunClaim>,
}

impl<'a> OfMember<'a> {
    /// Begins with a recording.
    pub fn new(
        path: &Path,
        header: &Header,
        cluster: &'a mut InCluster,
        registry: &'a mut InRegistry,
    ) -> Self {
        let process = Process::of(header);
        Self {
            begin: Place::beginning(path),
            keys: keys(header),
            trust: cluster.trust_of(&process),
            ways: Ways::new(process.clone()),
            process,
            registry,
            asked: BTreeMap::new(),
            position: Position(0),
            last: 0,
            mark: (None, (0, 0)),
            claims: BTreeMap::new(),
        }
    }

    /// Takes one step.
    pub fn step(&mut self, core: &ReplayedMember, frame: u64, step: &StepOf<ReplayedMember>) {
        self.last = frame;
        let place = self.begin.at(frame);
        self.trust.lives(step.now.time);
        if let Some(number) = step.now.trusted {
            self.registry.claims.believes(&self.process, &place, number, step.now.time);
        }
        self.ways.step(&place, &step.input, &step.effects, &mut self.registry.messages);
        self.on_input(&place, &step.input);
        for effect in &step.effects {
            self.on_effect(&place, effect);
        }
        let has_switched = |effect: &Effect| matches!(effect, Effect::Event(Event::SnapshotInstalled { .. }));
        if step.effects.iter().any(has_switched) {
            self.compare_replica(core, &place);
        }
        let position = core.replica().position();
        if position != self.position {
            self.position = position;
            self.registry.growth.position(&self.process, &place, position);
        }
        let session = core.session().map(|session| session.number);
        let mark = (session, core.claims_mark());
        if mark != self.mark {
            self.mark = mark;
            self.on_claims(core, session.unwrap_or_default(), step.now.time, &place);
        }
    }

    fn on_input(&mut self, place: &Place, input: &Input) {
        match input {
            Input::Message { from, message } => {
                if let Some(from) = self.ways.linked(from) {
                    self.on_message(place, &from, message);
                }
            }
            Input::View(view) => {
                self.registry.growth.view(&self.process, place, view.version, view.term.epoch);
                self.registry.leaders.term(&self.process.node, place, &view.term);
            }
            Input::ReadDone { result: Ok(result), .. } => {
                let Some(keys) = &self.keys else { return };
                for (key, value) in result.answers.iter().flatten() {
                    if let Some(position) = keys.log_position(key) {
                        let bytes = Bytes::copy_from_slice(value);
                        self.registry.log.see(&self.process.node, place, position, &bytes);
                    }
                }
            }
            Input::Call { id, call, .. } => {
                self.registry.calls.call(&self.process, place, *id);
                match call {
                    Call::Register { name, actor, .. } | Call::Take { name, actor, .. } => {
                        self.asked.insert(*id, (AskedFor::Name(name.clone()), *actor));
                    }
                    // The actor that is started has no number yet.
                    Call::Start { name, .. } => {
                        self.asked.insert(*id, (AskedFor::Name(name.clone()), 0));
                    }
                    // Its name is that of the session which will be granted it.
                    Call::Join { group, actor, .. } => {
                        self.asked.insert(*id, (AskedFor::Group(group.clone()), *actor));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn on_effect(&mut self, place: &Place, effect: &Effect) {
        match effect {
            Effect::Send { message, .. } => {
                let me = self.process.clone();
                self.on_message(place, &me, message);
            }
            Effect::Commit { transaction, .. } => {
                let Some(keys) = &self.keys else { return };
                for write in &transaction.writes {
                    if let Write::Put { key, value } = write
                        && let Some(position) = keys.log_position(key)
                    {
                        let bytes = Bytes::copy_from_slice(value);
                        self.registry.log.propose(&self.process, place, position, bytes);
                    }
                }
            }
            Effect::Answer { call, answer } => {
                self.registry.calls.answer(&self.process, place, *call);
                let asked = self.asked.remove(call);
                let granted = match answer {
                    Answer::Registered(Ok(granted))
                    | Answer::Started(Ok(StartedAs::Ours(granted)))
                    | Answer::Taken(Ok(TakenAs { granted, .. })) => Some(granted),
                    _ => None,
                };
                if let (Some(granted), Some((asked, actor))) = (granted, asked) {
                    let (token, session) = (granted.token, granted.session);
                    let name = match asked {
                        AskedFor::Name(name) => name,
                        AskedFor::Group(group) => {
                            let Process { node, incarnation } = self.process.clone();
                            group.member(&SessionId { node, incarnation, number: session }, actor)
                        }
                    };
                    let (process, place) = (self.process.clone(), place.clone());
                    let grant = RecordedGrant { process, place, session, name, actor, token };
                    self.registry.grants.grant(grant);
                }
            }
            _ => {}
        }
    }

    /// A message that this member got or sent.
    fn on_message(&mut self, place: &Place, from: &Process, message: &Message) {
        let (me, registry) = (&self.process.node, &mut *self.registry);
        let mut speaks = |epoch: &Epoch| registry.leaders.speaks(from, place, *epoch);
        match message {
            Message::Replicate { epoch, position, batch, .. } => {
                speaks(epoch);
                registry.log.see(me, place, *position, batch);
            }
            Message::ApplyNamesSnapshot { epoch, batches } | Message::Fetched { epoch, batches, .. } => {
                speaks(epoch);
                for (position, batch) in batches {
                    registry.log.see(me, place, *position, batch);
                }
            }
            Message::Heartbeat { epoch, .. } | Message::Verdicts { epoch, .. } => speaks(epoch),
            _ => {}
        }
    }

    /// Both are in the order of names, so one pass finds what has changed.
    fn on_claims(&mut self, core: &ReplayedMember, number: SessionNumber, now: Time, place: &Place) {
        let mut ended = Vec::new();
        let mut begun = Vec::new();
        let mut former = self.claims.iter().peekable();
        for (name, _, token) in core.holds().filter(|(name, ..)| !core.is_suspended(name)) {
            // Mostly it is the very same name, of which only the address is looked at.
            let is_same = |held: &Name| Name::ptr_eq(held, name) || held == name;
            while let Some((gone, _)) = former.next_if(|(held, _)| !is_same(held) && *held < name) {
                ended.push(gone.clone());
            }
            match former.next_if(|(held, _)| is_same(held)) {
                Some((_, held)) if (held.session, held.token) == (number, token) => continue,
                Some(_) => ended.push(name.clone()),
                None => {}
            }
            let held = BegunClaim { session: number, token, from: now, place: place.clone() };
            begun.push((name.clone(), held));
        }
        ended.extend(former.map(|(name, _)| name.clone()));
        for name in ended {
            if let Some(held) = self.claims.remove(&name) {
                self.end_claim(name, held, Some(now));
            }
        }
        self.claims.extend(begun);
    }

    fn end_claim(&mut self, name: Name, held: BegunClaim, until: Option<Time>) {
        let BegunClaim { session, token, from, place } = held;
        let process = self.process.clone();
        self.registry.claims.claim(name, RecordedClaim { process, place, session, token, from, until });
    }

    /// What a replica holds is to be what the log says. One without a base is nothing yet.
    fn compare_replica(&mut self, core: &ReplayedMember, place: &Place) {
        let replica = core.replica();
        if replica.is_based() {
            let rows = replica.rows().map(|(name, row)| (name.clone(), row.clone())).collect();
            let position = replica.position();
            self.registry.prefixes.held(&self.process, place, position, rows);
        }
    }

    /// Ends with it.
    pub fn finish(mut self, core: &ReplayedMember) {
        let end = self.begin.at(self.last);
        self.compare_replica(core, &end);
        for (name, held) in std::mem::take(&mut self.claims) {
            self.end_claim(name, held, None);
        }
    }
}
