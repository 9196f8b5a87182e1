//! A cluster that goes by itself, in a fixed order, but for what a test holds back.

use std::{collections::BTreeMap, time::Duration};

use callsign::{
    Name,
    cores::{
        Answer, Call, CallId, Input, Member, Message, OnLapse, OnTake, QUEUES, Queue, Replica, Row, Told,
    },
};
use callsign_elector::record::{
    LogEnd, MemberRow, MembershipEvent, PositionRecord, QueueEntry, SessionRecord, Term,
};
use callsign_sim::{
    oracle::Outcome,
    schedule::{progress, until_next_wake},
    world::{Action, CoreId, Fate, Frame, NodeId, Request, Setup, StoreOp, Want, World, name_of, name_of_id},
};
use callsign_store::{
    Read, Transaction, Write,
    ids::{Epoch, Incarnation, NodeName, Position, SessionId},
    record::Record,
};
use callsign_transport::Kind;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What is not there after so many steps never comes.
const MOST_STEPS: u32 = 20_000;

type Rule = Box<dyn Fn(&World, &Action) -> bool>;

/// See the [module](self).
pub(crate) struct Cluster {
    pub(crate) world: World,
    held: Vec<Rule>,
    /// What becomes of the commits of members.
    pub(crate) commits: Fate,
}

impl Cluster {
    /// A cluster in which the first `started` nodes run, and nothing is left to do.
    pub(crate) fn formed(setup: Setup, started: u8) -> Self {
        let mut world = World::new(setup);
        world.oracle.take_notes();
        let mut cluster = Self { world, held: Vec::new(), commits: Fate::Done };
        for node in 0..started {
            cluster.must(&Action::Start { node });
        }
        cluster.rest();
        cluster
    }

    /// Three nodes at rest: the leader, and the two others by their places.
    pub(crate) fn of_three() -> (Self, NodeId, NodeId, NodeId) {
        let cluster = Self::formed(Setup::new(3), 3);
        let leader = cluster.leader().unwrap();
        let others: Vec<NodeId> = cluster.world.ids().filter(|id| *id != leader).collect();
        (cluster, leader, others[0], others[1])
    }

    /// The same once more, to try something else.
    pub(crate) fn again(&self) -> Self {
        Self { world: self.world.clone(), held: Vec::new(), commits: self.commits }
    }

    // ---- what happens

    /// Does it, and no rule is broken by it.
    pub(crate) fn must(&mut self, action: &Action) {
        assert!(self.world.apply(action), "impossible: {action:?}");
        assert_eq!(self.world.oracle.violation(), None, "after {action:?}");
    }

    /// From now on, whatever the rule says does not happen by itself.
    pub(crate) fn hold(&mut self, rule: impl Fn(&World, &Action) -> bool + 'static) {
        self.held.push(Box::new(rule));
    }

    /// Nothing is held back any more.
    pub(crate) fn release(&mut self) {
        self.held.clear();
    }

    /// The first thing that happens by itself and is not held back; if there is none, time passes.
    pub(crate) fn next(&self) -> Action {
        let mut actions = Vec::new();
        progress(&self.world, &mut actions);
        let is_held = |action: &Action| self.held.iter().any(|rule| rule(&self.world, action));
        let next = actions.into_iter().find(|action| !is_held(action) && !self.asks_in_vain(action));
        match next {
            Some(Action::Store { node, nth, .. }) => {
                Action::Store { node, nth, fate: self.fate(node, usize::from(nth)) }
            }
            Some(action) => action,
            None => {
                let by = until_next_wake(&self.world).unwrap_or_default();
                Action::Tick { by: by.max(Duration::from_millis(1)) }
            }
        }
    }

    fn fate(&self, node: NodeId, nth: usize) -> Fate {
        let op = self.world.process(node).and_then(|process| process.ops.get(nth));
        let is_of_member = |op: &StoreOp| op.core == CoreId::Member && transaction(op).is_some();
        if self.world.nodes[usize::from(node)].outage {
            Fate::Unavailable
        } else if op.is_some_and(is_of_member) {
            self.commits
        } else {
            Fate::Done
        }
    }

    pub(crate) fn step(&mut self) {
        let action = self.next();
        self.must(&action);
    }

    /// Goes on until a check has fired.
    pub(crate) fn until_fired(&mut self) {
        for _ in 0..MOST_STEPS {
            if self.world.oracle.violation().is_some() {
                return;
            }
            let action = self.next();
            self.world.apply(&action);
        }
        panic!("nothing fired in {MOST_STEPS} steps");
    }

    /// Whether it is a question for a proof, which a store that is out of reach never answers.
    fn asks_in_vain(&self, action: &Action) -> bool {
        let Action::Store { node, nth, .. } = action else { return false };
        let op = self.world.process(*node).and_then(|process| process.ops.get(usize::from(*nth)));
        let is_out = self.world.nodes[usize::from(*node)].outage;
        is_out && op.is_some_and(|op| matches!(op.request, Request::Prove(..)))
    }

    /// Goes on until it is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if is_so(self) {
                return;
            }
            self.step();
        }
        panic!("{what}: not after {MOST_STEPS} steps");
    }

    /// Goes on for so long.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.world.now + time;
        self.until("time passes", |cluster| cluster.world.now >= end);
    }

    /// From now on nothing arrives between two nodes, and both know it.
    pub(crate) fn cut(&mut self, a: NodeId, b: NodeId) {
        for (from, to) in [(a, b), (b, a)] {
            self.must(&Action::Block { from, to });
        }
        self.until("the link is down", |c| {
            [(a, b), (b, a)].iter().all(|(at, of)| !c.member(*at).unwrap().is_linked(&c.name(*of)))
        });
    }

    /// Goes on until a core asks for a commit of this sort, which the store gives up.
    pub(crate) fn give_up(&mut self, node: NodeId, core: CoreId, sort: fn(&World, &Transaction) -> bool) {
        self.until("a commit", |c| c.commit_of(node, core, sort).is_some());
        let nth = self.commit_of(node, core, sort).unwrap();
        self.must(&Action::Store { node, nth, fate: Fate::UnknownLater });
    }

    /// Nothing is held back, and everything comes to rest.
    pub(crate) fn rest(&mut self) {
        self.release();
        self.until("rest", |cluster| cluster.unrest().is_none());
        for (name, grant) in &self.world.granted {
            let is_its = self.world.process(grant.node).is_some_and(|process| {
                process.incarnation == grant.incarnation
                    && process.trusted(self.world.local(grant.node)) == Some(grant.session)
            });
            for member in self.world.ids().filter_map(|node| self.member(node)).filter(|_| is_its) {
                let row = member.replica().row(&name_of_id(*name));
                let token = row.map(|row| row.position);
                assert_eq!(token, Some(grant.token), "n{name}, granted as {grant:?}, on {}", member.me());
            }
        }
    }

    fn unrest(&self) -> Option<&'static str> {
        let world = &self.world;
        if !world.asked.is_empty() {
            return Some("calls wait");
        }
        if world.store.get(&world.setup.keys.lock()).is_some() || self.queue_length() > 0 {
            return Some("the queue is not empty, or locked");
        }
        let epoch = self.term().epoch;
        for node in world.ids() {
            let Some(process) = world.process(node) else {
                if self.row(node).is_some() {
                    return Some("a dead node is a member");
                }
                continue;
            };
            let is_trusted = process.trusted(world.local(node)).is_some();
            let Some(parts) = process.parts.as_ref().filter(|_| is_trusted) else {
                return Some("no session");
            };
            if !parts.core.member().is_synced() || parts.core.member().replica().position() != self.end() {
                return Some("a node is not synced");
            }
            let knows_term = parts.core.member().view().term.epoch == epoch;
            if !knows_term || parts.core.member().leader().is_none_or(|(known, _)| known != epoch) {
                return Some("a node does not know the leader");
            }
        }
        self.leader().is_none().then_some("nobody serves")
    }

    /// A name for a new actor; how to ask what became of it.
    pub(crate) fn register(&mut self, node: NodeId, name: u8) -> usize {
        let call = self.world.told().len();
        self.must(&Action::Call { node, want: Want::Register { name, stops: false } });
        call
    }

    /// A name for a new actor, which gets it; its token.
    pub(crate) fn obtain(&mut self, node: NodeId, name: u8) -> Position {
        let call = self.register(node, name);
        self.until("it is granted", |c| c.granted(call).is_some());
        self.granted(call).unwrap()
    }

    pub(crate) fn unregister(&mut self, node: NodeId, name: u8) {
        self.must(&Action::Call { node, want: Want::Unregister { name } });
    }

    /// Tells a member something, whether it has happened or not.
    pub(crate) fn tell(&mut self, node: NodeId, input: Input) {
        let process = self.world.nodes[usize::from(node)].process.as_mut().unwrap().edit();
        process.parts.as_mut().unwrap().core.put(Queue::OfSession, Told::Member(input));
        while QUEUES.iter().any(|queue| self.world.apply(&Action::Inbox { node, queue: *queue }))
            || self.world.apply(&Action::Idle { node })
        {}
    }

    /// A message arrives, whether it was sent or not.
    pub(crate) fn say(&mut self, from: NodeId, to: NodeId, message: Message) {
        self.tell(to, Input::Message { from: self.name(from), message });
    }

    /// A call whose very answer can be had. No check looks at it.
    pub(crate) fn ask(&mut self, node: NodeId, call: Call, wait: Duration) -> CallId {
        let id = CallId((1 << 40) + self.world.asides.len() as u64);
        self.world.asides.insert(id, None);
        self.tell(node, Input::Call { id, call, wait });
        id
    }

    /// Goes on until such a call is answered.
    pub(crate) fn answer(&mut self, call: CallId) -> Answer {
        self.until("an answer", |c| c.world.asides[&call].is_some());
        self.world.asides[&call].clone().unwrap()
    }

    /// Asks, and goes on until it is answered.
    pub(crate) fn asked(&mut self, node: NodeId, call: Call) -> Answer {
        let call = self.ask(node, call, SECOND * 20);
        self.answer(call)
    }

    // ---- what is

    pub(crate) fn member(&self, node: NodeId) -> Option<&Member<BTreeMap<Name, Row>>> {
        Some(self.world.process(node)?.parts.as_ref()?.core.member())
    }

    /// A node's copy of the log.
    pub(crate) fn replica(&self, node: NodeId) -> &Replica<BTreeMap<Name, Row>> {
        self.member(node).unwrap().replica()
    }

    /// Who holds a name, as a node knows it.
    pub(crate) fn holder(&self, node: NodeId, name: u8) -> Option<Row> {
        self.replica(node).row(&name_of(name))
    }

    pub(crate) fn name(&self, node: NodeId) -> NodeName {
        self.world.setup.names[usize::from(node)].clone()
    }

    pub(crate) fn outcome(&self, call: usize) -> Option<Outcome> {
        self.world.told()[call].answer.as_ref().map(|(_, outcome, _)| outcome.clone())
    }

    pub(crate) fn granted(&self, call: usize) -> Option<Position> {
        match self.outcome(call)? {
            Outcome::Granted { token } => Some(token),
            _ => None,
        }
    }

    fn get<R: Record>(&self, key: &[u8]) -> Option<R> {
        self.world.store.get(key).map(|value| R::from_value(value).unwrap())
    }

    pub(crate) fn term(&self) -> Term {
        self.get(&self.world.setup.keys.term()).unwrap_or_else(Term::vacant)
    }

    /// The last batch.
    pub(crate) fn last(&self) -> LogEnd {
        self.get(&self.world.setup.keys.commit()).unwrap_or_default()
    }

    pub(crate) fn end(&self) -> Position {
        self.last().position
    }

    /// The first position that the log still has.
    pub(crate) fn floor(&self) -> Position {
        self.get(&self.world.setup.keys.floor()).map_or(Position(1), |PositionRecord(floor)| floor)
    }

    pub(crate) fn row(&self, node: NodeId) -> Option<MemberRow> {
        self.get(&self.world.setup.keys.member(&self.name(node)))
    }

    /// The session that the store has of a node.
    pub(crate) fn session_id(&self, node: NodeId) -> SessionId {
        let SessionRecord { incarnation, number, .. } = self.session(node).unwrap();
        SessionId { node: self.name(node), incarnation, number }
    }

    pub(crate) fn session(&self, node: NodeId) -> Option<SessionRecord> {
        self.get(&self.world.setup.keys.cluster().session(&self.name(node)))
    }

    pub(crate) fn queue(&self) -> Vec<(Vec<u8>, QueueEntry)> {
        let range = callsign_store::keys::read_range(self.world.setup.keys.queue_entries(), 100);
        let read = self.world.store.read(&[range], None).unwrap();
        let entry = |(key, value): &(Vec<u8>, Vec<u8>)| (key.clone(), QueueEntry::from_value(value).unwrap());
        read.entries(0).iter().map(entry).collect()
    }

    fn queue_length(&self) -> usize {
        self.queue().len()
    }

    /// Who serves.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let leads = |node: &NodeId| self.serves(*node);
        self.world.ids().find(leads)
    }

    /// Whether the node serves in the present epoch.
    pub(crate) fn serves(&self, node: NodeId) -> bool {
        let Some(process) = self.world.process(node) else { return false };
        let is_elected = self.term().leader.is_some_and(|leader| leader.incarnation == process.incarnation);
        is_elected && self.member(node).is_some_and(Member::is_serving)
    }

    pub(crate) fn incarnation(&self, node: NodeId) -> Incarnation {
        self.world.process(node).unwrap().incarnation
    }

    /// The epoch that the node's member knows.
    pub(crate) fn known(&self, node: NodeId) -> Epoch {
        self.member(node).unwrap().view().term.epoch
    }

    /// The nodes that claim a name.
    pub(crate) fn claimants(&self, name: u8) -> Vec<NodeId> {
        let name = name_of(name);
        let claims = |node: &NodeId| {
            self.member(*node).is_some_and(|member| member.holds().any(|(held, ..)| *held == name))
        };
        self.world.ids().filter(claims).collect()
    }

    /// How many messages of this kind have arrived at a node.
    pub(crate) fn arrived(&self, node: NodeId, kind: &str) -> usize {
        self.noted(node, &format!("{kind} of ")).len()
    }

    /// What was noted at a node and begins so: what follows.
    pub(crate) fn noted(&self, node: NodeId, begin: &str) -> Vec<&str> {
        let notes = self.world.oracle.notes().iter().filter(|note| note.node == Some(node));
        notes.filter_map(|note| note.what.strip_prefix(begin)).collect()
    }

    /// The messages that wait in the control lane between two nodes.
    pub(crate) fn on_the_way(&self, from: NodeId, to: NodeId) -> Vec<Message> {
        let ends = |conn: &callsign_sim::world::Conn| Some((conn.end_of(from)?, conn.end_of(to)?));
        let conns = self.world.conns.iter().filter_map(|conn| Some((conn, ends(conn)?.1)));
        let frames = conns.flat_map(|(conn, end)| conn.to[end].control.iter());
        let message = |frame: &Frame| match frame {
            Frame::Message(message) => Some(Message::clone(message)),
            _ => None,
        };
        frames.filter_map(message).collect()
    }

    /// The requests that wait there.
    pub(crate) fn requests(&self, from: NodeId, to: NodeId) -> Option<Message> {
        let mut sent = self.on_the_way(from, to).into_iter();
        sent.find(|message| matches!(message, Message::Requests { .. }))
    }

    /// The first commit of a core that the store has not got to, and that is of this sort.
    pub(crate) fn commit_of(
        &self,
        node: NodeId,
        core: CoreId,
        is_it: impl Fn(&World, &Transaction) -> bool,
    ) -> Option<u8> {
        let ops = &self.world.process(node)?.ops;
        let at = ops.iter().position(|op| {
            op.core == core && op.answer.is_none() && transaction(op).is_some_and(|t| is_it(&self.world, t))
        })?;
        u8::try_from(at).ok()
    }
}

/// How a name is asked for, for an actor of the test's.
pub(crate) fn register(name: u8, actor: u64) -> Call {
    Call::Register {
        name: name_of(name),
        actor,
        kind: Kind(7),
        on_lapse: OnLapse::Suspend,
        on_take: OnTake::default(),
        meta: None,
    }
}

/// What an operation of the store is to commit.
pub(crate) fn transaction(op: &StoreOp) -> Option<&Transaction> {
    match &op.request {
        Request::Commit(transaction) => Some(transaction),
        _ => None,
    }
}

/// What a transaction says in the queue.
pub(crate) fn says(transaction: &Transaction) -> Option<MembershipEvent> {
    transaction.writes.iter().find_map(|write| match write {
        Write::Append { value, .. } => Some(QueueEntry::from_value(value).unwrap().event),
        _ => None,
    })
}

pub(crate) fn joins(_: &World, transaction: &Transaction) -> bool {
    matches!(says(transaction), Some(MembershipEvent::Join { .. }))
}

/// Whether a transaction writes a batch of the log.
pub(crate) fn logs(world: &World, transaction: &Transaction) -> bool {
    let is_log = |key: &[u8]| world.setup.keys.log_position(key).is_some();
    transaction.writes.iter().any(|write| matches!(write, Write::Put { key, .. } if is_log(key)))
}

/// The term that a transaction writes.
pub(crate) fn elects(world: &World, transaction: &Transaction) -> Option<Term> {
    let term = world.setup.keys.term();
    transaction.writes.iter().find_map(|write| match write {
        Write::Put { key, value } if *key == term => Some(Term::from_value(value).unwrap()),
        _ => None,
    })
}

// ---- rules for what is held back

/// Frames on this way.
pub(crate) fn frames(from: NodeId, to: NodeId) -> impl Fn(&World, &Action) -> bool {
    move |_, action| matches!(action, Action::Frame { from: f, to: t, .. } if (*f, *t) == (from, to))
}

/// Frames on this way, but not of the bulk lane.
pub(crate) fn control_frames(from: NodeId, to: NodeId) -> impl Fn(&World, &Action) -> bool {
    move |_, action| matches!(action, Action::Frame { from: f, to: t, bulk: false, .. } if (*f, *t) == (from, to))
}

/// What a core of a node asks the store.
pub(crate) fn store_ops(node: NodeId, core: CoreId) -> impl Fn(&World, &Action) -> bool {
    move |world, action| match action {
        Action::Store { node: n, nth, .. } | Action::Answered { node: n, nth } if *n == node => {
            world.process(node).and_then(|p| p.ops.get(usize::from(*nth))).is_some_and(|op| op.core == core)
        }
        _ => false,
    }
}

/// Reads of the log.
pub(crate) fn log_reads(node: NodeId) -> impl Fn(&World, &Action) -> bool {
    move |world, action| {
        let Action::Store { node: n, nth, .. } = action else { return false };
        let op = world.process(*n).filter(|_| *n == node).and_then(|p| p.ops.get(usize::from(*nth)));
        let Some(StoreOp { request: Request::Read(reads), .. }) = op else { return false };
        let keys = &world.setup.keys;
        let is_log = |read: &Read| match read {
            Read::Range { range, .. } => keys.log_position(&range.start).is_some(),
            Read::Key(key) => keys.log_position(key).is_some(),
        };
        reads.iter().any(is_log)
    }
}

/// Wake-ups of a core.
pub(crate) fn wakes(node: NodeId, core: CoreId) -> impl Fn(&World, &Action) -> bool {
    move |_, action| *action == Action::Wake { node, core }
}
