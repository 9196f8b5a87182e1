//! A random history: clients, faults and the passing of time, and what must hold of all that was answered.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_elector::ids::{NodeName, Position, SessionId, SessionNumber};
use callsign_transport::Kind;

use crate::{
    entry::Entry,
    error::RegisterError,
    input::{Answer, Call, CallId, OnLapse},
    log::{Batch, Op},
    name::Name,
    replica::Replica,
    table::{Row, Table},
    world::{Faults, World, name},
};

/// A call, and where the log ended when it began.
struct Asked {
    node: NodeName,
    what: String,
    actor: u64,
    began: Position,
}

/// What a client was told, and what has since been done about it.
#[derive(Default)]
struct Clients {
    asked: BTreeMap<CallId, Asked>,
    /// Name: node, session, actor, token.
    held: BTreeMap<String, (NodeName, SessionNumber, u64, Position)>,
    next_actor: u64,
    granted: u64,
    /// Granted or refused: the name, its holder's token, and from where to where the log went meanwhile.
    told: Vec<(String, Position, Position, Position)>,
    /// Read consistently: the name, where, and what.
    read: Vec<(String, Position, Option<Entry>)>,
    /// Given up: the name, from where.
    freed: Vec<(String, Position, Position)>,
}

impl Clients {
    fn begin(&mut self, world: &mut World, node: &str, what: &str, actor: u64, call: Call) {
        let began = world.end();
        let id = world.call(node, call, Duration::from_secs(20));
        self.asked.insert(id, Asked { node: name(node), what: what.to_owned(), actor, began });
    }

    fn register(&mut self, world: &mut World, node: &str, what: &str, actor: u64) {
        let on_lapse = if actor.is_multiple_of(4) { OnLapse::Stop } else { OnLapse::Suspend };
        let call = Call::Register { name: what.into(), actor, kind: Kind(7), on_lapse };
        self.begin(world, node, what, actor, call);
    }

    fn collect(&mut self, world: &mut World) {
        let answered: Vec<CallId> =
            self.asked.keys().filter(|id| world.answers.contains_key(id)).copied().collect();
        for id in answered {
            let Asked { node, what, actor, began } = self.asked.remove(&id).unwrap();
            let end = world.end();
            match world.answers.remove(&id).unwrap() {
                Answer::Registered(Ok((token, session))) => {
                    assert!(token <= end);
                    self.granted += 1;
                    self.told.push((what.clone(), token, began, end));
                    let is_current =
                        world.nodes.get(&node).and_then(|n| n.session.as_ref()).map(|s| s.number);
                    if is_current == Some(session) && actor != 0 {
                        self.held.insert(what, (node, session, actor, token));
                    }
                }
                Answer::Registered(Err(RegisterError::Taken { holder, .. })) => {
                    self.told.push((what, holder.token, began, end));
                }
                Answer::Consistent(Ok((at, entry))) => {
                    assert!(began <= at && at <= end, "{what}: begun at {began}, read at {at}, now {end}");
                    self.read.push((what, at, entry));
                }
                Answer::Unregistered(Ok(position)) => self.freed.push((what, began, position)),
                _ => {}
            }
        }
    }

    /// What was asked there for this name is not expected to stay: it is given up as well.
    fn forget(&mut self, node: &NodeName, what: &str) {
        self.held.retain(|held, (holder, ..)| held != what || holder != node);
        for asked in self.asked.values_mut().filter(|asked| asked.what == what && asked.node == *node) {
            asked.actor = 0;
        }
    }

    fn names_gone(&mut self, node: &NodeName) {
        self.held.retain(|_, (holder, ..)| holder != node);
    }

    fn node_gone(&mut self, node: &NodeName) {
        self.names_gone(node);
        self.asked.retain(|_, asked| asked.node != *node);
    }

    fn actor_gone(&mut self, node: &NodeName, actor: u64) {
        self.held.retain(|_, (holder, _, held_by, _)| holder != node || *held_by != actor);
        for asked in self.asked.values_mut().filter(|asked| asked.actor == actor) {
            asked.actor = 0;
        }
    }

    /// Holds all answers against the log: what it says was so is what clients were told, at the time they were.
    fn check_against_log(&self, world: &World) {
        let mut replica = Replica::new(name("nobody"), BTreeMap::<Name, Row>::new());
        replica.base_on_nothing();
        let mut requests: BTreeSet<(SessionId, u64)> = BTreeSet::new();
        // Name and token: from where to where it was held.
        let mut spans: BTreeMap<(String, Position), (Position, Option<Position>)> = BTreeMap::new();
        let mut reads = self.read.iter().collect::<Vec<_>>();
        reads.sort_by_key(|(_, at, _)| *at);
        let mut reads = reads.into_iter().peekable();
        let mut former: BTreeMap<Name, Position> = BTreeMap::new();
        for at in 0..=world.end().0 {
            if let Some(bytes) = world.history.get(&Position(at)) {
                let batch = Batch::decode(bytes).unwrap();
                for op in &batch.ops {
                    if let Op::Register { session, request, .. } = op {
                        let session = SessionId::clone(&batch.sessions[*session as usize]);
                        assert!(requests.insert((session, request.0)), "a request is granted once: {op:?}");
                    }
                }
                replica.apply(&batch);
            } else {
                assert!(at == 0, "the log has no {at}");
            }
            let rows: BTreeMap<Name, Position> =
                replica.table().iter().map(|(name, row)| (name.clone(), row.position)).collect();
            for (name, token) in former.iter().filter(|(name, token)| rows.get(*name) != Some(token)) {
                spans.get_mut(&(name.to_string(), *token)).unwrap().1 = Some(Position(at));
            }
            for (name, token) in rows.iter().filter(|(name, token)| former.get(*name) != Some(token)) {
                assert_eq!(token.0, at, "a token is where its registration is");
                spans.insert((name.to_string(), *token), (Position(at), None));
            }
            former = rows;
            while let Some((what, _, entry)) = reads.next_if(|(_, read_at, _)| read_at.0 == at) {
                assert_eq!(replica.table().row(what).as_ref().map(Row::entry), *entry, "{what} at {at}");
            }
        }
        for (what, token, began, end) in &self.told {
            let (from, to) = spans.get(&(what.clone(), *token)).expect("a holder held it");
            let overlaps = from <= end && to.is_none_or(|to| to > *began);
            assert!(
                overlaps,
                "{what} is said to be held by {token}, held {from} to {to:?}, asked {began} to {end}"
            );
        }
        for (what, _, position) in &self.freed {
            let held =
                spans.iter().any(|((name, _), (_, to))| name == what && to.is_some_and(|to| to <= *position));
            assert!(held, "{what} is free from {position}");
        }
        for (node, n) in &world.nodes {
            if n.member.replica().position() == world.end() {
                assert_eq!(n.member.replica().table(), replica.table(), "{node} is not what the log says");
            }
        }
    }
}

/// A node that is stopped for longer than its lease: its trust runs out, its session is closed, and then it wakes.
fn stop_beyond_the_lease(world: &mut World, clients: &mut Clients, node: &str, others: &[&str]) {
    let work = |world: &mut World, clients: &mut Clients| {
        for (i, other) in others.iter().filter(|other| **other != node).enumerate() {
            if world.nodes.contains_key(&name(other)) {
                clients.next_actor += 1;
                clients.register(world, other, &format!("n{i}"), clients.next_actor);
            }
        }
    };
    world.pause(node, Duration::from_secs(12));
    work(world, clients);
    world.run_for(Duration::from_secs(8));
    world.distrust(node);
    work(world, clients);
    world.run_for(Duration::from_secs(2));
    clients.names_gone(&name(node));
    // Whatever it was told while it was stopped, it hears after its session was closed.
    world.lose_session(node);
    world.run_for(Duration::from_millis(500));
    work(world, clients);
    world.run_for(Duration::from_secs(2));
    // What was granted to its former session is not to be kept.
    clients.collect(world);
}

pub(crate) fn random_history(seed: u64, faults: Faults) -> World {
    let mut world = World::new(seed);
    let all = ["a", "b", "c", "d"];
    let nodes = &all[..usize::try_from(2 + world.draw(3)).unwrap()];
    for node in nodes {
        world.start(node);
    }
    world.settle();
    world.faults = faults;
    let mut clients = Clients { next_actor: 1, ..Clients::default() };
    let mut open: Vec<SessionId> = Vec::new();
    for _ in 0..150 {
        let node = nodes[usize::try_from(world.draw(nodes.len() as u64)).unwrap()];
        let other = nodes[usize::try_from(world.draw(nodes.len() as u64)).unwrap()];
        let runs = world.nodes.contains_key(&name(node));
        let what = format!("n{}", world.draw(12));
        match world.draw(100) {
            0..40 if runs => {
                clients.next_actor += 1;
                // Some actors ask for several names at once.
                for _ in 0..=world.draw(8).saturating_sub(5) {
                    let what = format!("n{}", world.draw(12));
                    clients.register(&mut world, node, &what, clients.next_actor);
                }
            }
            40..50 if runs => {
                clients.forget(&name(node), &what);
                let call = Call::Unregister { name: what.as_str().into() };
                clients.begin(&mut world, node, &what, 0, call);
            }
            50..54 if runs => {
                let call = Call::Consistent { name: what.as_str().into() };
                clients.begin(&mut world, node, &what, 0, call);
            }
            54..58 if runs => {
                if let Some((_, (holder, _, actor, _))) = clients.held.pop_first() {
                    clients.actor_gone(&holder, actor);
                    world.end_actor(holder.as_str(), actor);
                }
            }
            58..59 if runs => stop_beyond_the_lease(&mut world, &mut clients, node, nodes),
            59..61 if runs => {
                let pause = world.draw(4000);
                world.pause(node, Duration::from_millis(pause));
            }
            61..63 if runs => {
                world.kill(node);
                clients.node_gone(&name(node));
            }
            63..65 if runs => {
                open.extend(world.crash(node));
                clients.node_gone(&name(node));
            }
            65..68 => {
                for session in open.drain(..) {
                    world.close_session(&session);
                }
            }
            68..74 if !runs && !open.iter().any(|s| s.node == name(node)) => world.start(node),
            74..76 if runs => {
                world.lose_session(node);
                clients.names_gone(&name(node));
            }
            76..78 if runs => world.cut(node, other),
            78..80 if runs => {
                let found = world.draw(6_000_000);
                world.half_open(node, other, Duration::from_micros(found));
            }
            80..84 if runs => world.link(node, other),
            84..86 if runs => {
                // An actor that is stopped for the lapse gives its names up.
                let stopped: Vec<u64> = clients
                    .held
                    .values()
                    .filter(|held| held.0 == name(node) && held.2 % 4 == 0)
                    .map(|h| h.2)
                    .collect();
                for actor in stopped {
                    clients.actor_gone(&name(node), actor);
                }
                let undecided = clients.asked.values_mut().filter(|asked| asked.node == name(node));
                undecided.filter(|asked| asked.actor % 4 == 0).for_each(|asked| asked.actor = 0);
                world.set_trust(node, false);
                world.run_for(Duration::from_millis(200));
                world.set_trust(node, true);
            }
            _ => {
                let pause = world.draw(1500);
                world.run_for(Duration::from_millis(pause));
            }
        }
        let pause = world.draw(4000);
        world.run_for(Duration::from_micros(pause));
        clients.collect(&mut world);
        world.check_replicas();
    }
    world.faults = Faults::default();
    for session in open.drain(..) {
        world.close_session(&session);
    }
    // So that links which are down without anybody's knowing are found out.
    world.run_for(Duration::from_secs(7));
    for node in nodes {
        if !world.nodes.contains_key(&name(node)) {
            world.start(node);
        }
        for other in nodes {
            world.link(node, other);
        }
    }
    world.run_for(Duration::from_secs(10));
    world.settle();
    world.run_for(Duration::from_secs(25));
    world.settle();
    clients.collect(&mut world);
    world.check_replicas();
    let waiting: Vec<_> = clients.asked.values().map(|asked| (&asked.node, &asked.what)).collect();
    assert!(waiting.is_empty(), "nobody waits for ever: {waiting:?}");
    clients.check_against_log(&world);
    for (what, (holder, session, actor, token)) in &clients.held {
        for node in nodes {
            let row = world.row(node, what);
            let row =
                row.unwrap_or_else(|| panic!("{what}, granted to {holder} at {token}, is lost on {node}"));
            let found = (&row.session.node, row.session.number, row.actor, row.position);
            assert_eq!(found, (holder, *session, *actor, *token), "{what} on {node}");
        }
    }
    world
}
