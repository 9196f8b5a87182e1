//! Draws what happens next.

mod clients;
mod drag;
mod perish;

use std::{collections::VecDeque, time::Duration};

use callsign::cores::QUEUES;

use self::drag::Dragging;
use crate::{
    references::Side,
    rng::Rng,
    scenario::{Profile, drawn_permits},
    shared::Shared,
    world::{Action, CoreId, Fate, NodeId, Request, World},
};

const CORES: [CoreId; 6] =
    [CoreId::Session, CoreId::Elector, CoreId::Member, CoreId::Links, CoreId::Ends, CoreId::Callers];

/// Everything that happens by itself in a world: deliveries, answers, timers. In a fixed order. The fate of an operation of
/// the store is left to be chosen.
pub fn progress(world: &World, actions: &mut Vec<Action>) {
    for (at, conn) in world.conns.iter().enumerate() {
        let (a, b) = (conn.ends[0].node, conn.ends[1].node);
        for (end, (from, to)) in [(1, (a, b)), (0, (b, a))] {
            let lanes = &conn.to[end];
            if lanes.control.is_empty() && lanes.bulk.is_empty() {
                continue;
            }
            if conn.ends[end].is_closed || world.is_blocked(from, to) || world.awake(to).is_none() {
                continue;
            }
            let same = |other: &&Shared<crate::world::Conn>| {
                let (x, y) = (other.ends[0].node, other.ends[1].node);
                (x, y) == (a, b) || (x, y) == (b, a)
            };
            let nth = u8::try_from(world.conns[..at].iter().filter(same).count()).unwrap_or(u8::MAX);
            if !lanes.control.is_empty() {
                actions.push(Action::Frame { from, to, nth, bulk: false });
            }
            if !lanes.bulk.is_empty() {
                actions.push(Action::Frame { from, to, nth, bulk: true });
            }
        }
    }
    for node in world.ids() {
        let Some(process) = world.process(node) else { continue };
        for (nth, op) in process.ops.iter().enumerate() {
            let nth = u8::try_from(nth).unwrap_or(u8::MAX);
            if op.answer.is_none() {
                actions.push(Action::Store { node, nth, fate: Fate::Done });
            } else if !process.paused {
                actions.push(Action::Answered { node, nth });
            }
        }
        if process.paused {
            continue;
        }
        if !world.setup.eager {
            for queue in QUEUES {
                if process.waiting(queue) > 0 {
                    actions.push(Action::Inbox { node, queue });
                }
            }
            if process.parts.as_ref().is_some_and(|parts| parts.core.is_dirty()) {
                actions.push(Action::Idle { node });
            }
        }
        if process.parts.as_ref().is_some_and(|parts| parts.fired) {
            actions.push(Action::Watch { node });
        }
        if world.has_answer_on_the_way(node) {
            actions.push(Action::TakeAnswer { node });
        }
        for nth in 0..world.speakers(node).len() {
            actions.push(Action::Speak { node, nth: u8::try_from(nth).unwrap_or(u8::MAX) });
        }
        if world.side(node).is_some_and(Side::has_untold) {
            actions.push(Action::NoticeEnd { node });
        }
        let now = world.local(node);
        for (nth, running) in process.parts.iter().flat_map(|parts| parts.starts.iter().enumerate()) {
            if running.not_before <= now {
                let nth = u8::try_from(nth).unwrap_or(u8::MAX);
                actions.push(Action::EndStart { node, nth });
            }
        }
        for core in CORES {
            if wakes_at(world, node, core).is_some_and(|at| at <= now) {
                actions.push(Action::Wake { node, core });
            }
        }
    }
}

fn wakes_at(world: &World, node: NodeId, core: CoreId) -> Option<Duration> {
    match core {
        CoreId::Ends => world.ends_wake_at(node),
        CoreId::Callers => world.callers_wake_at(node),
        _ => world.process(node)?.wakes_at(core),
    }
}

/// How long it is until somebody awake wants to be woken.
pub fn until_next_wake(world: &World) -> Option<Duration> {
    let mut next = None::<Duration>;
    for node in world.ids() {
        if world.awake(node).is_none() {
            continue;
        }
        let clock = &world.nodes[usize::from(node)].clock;
        let parts = world.process(node).and_then(|process| process.parts.as_ref());
        let starts =
            parts.into_iter().flat_map(|parts| parts.starts.iter().map(|running| running.not_before));
        for at in CORES.iter().filter_map(|core| wakes_at(world, node, *core)).chain(starts) {
            {
                let until = clock.until(world.now, at);
                next = Some(next.map_or(until, |next| next.min(until)));
            }
        }
    }
    next
}

/// What is slow for a while: everything else overtakes it, and time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The store, for a core of a node.
    Store(NodeId, CoreId),
    /// A way.
    Way(NodeId, NodeId),
}

/// Draws from a profile.
#[derive(Debug)]
pub struct Scheduler {
    rng: Rng,
    /// What is held back, from when until when.
    held: Vec<(Held, Duration, Duration)>,
    /// What was begun and happens next.
    script: VecDeque<Action>,
    /// What was begun and happens at a certain time.
    agenda: Vec<(Duration, Action)>,
    /// What stays slow.
    drag: Dragging,
    profile: Profile,
    faults_left: u32,
    buffer: Vec<Action>,
}

impl Scheduler {
    /// A scheduler with all its faults before it.
    pub fn new(rng: Rng, profile: Profile) -> Self {
        let faults_left = profile.budget;
        Self {
            rng,
            held: Vec::new(),
            script: VecDeque::new(),
            agenda: Vec::new(),
            drag: Dragging::new(profile.drag),
            profile,
            faults_left,
            buffer: Vec::with_capacity(64),
        }
    }

    /// Its source of choices.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// What it draws from.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// What happens next, with clients and faults. It may turn out to be impossible; then nothing happens.
    pub fn next(&mut self, world: &World) -> Action {
        self.hold_back(world);
        if let Some(action) = self.script.pop_front() {
            return action;
        }
        if let Some(due) = self.agenda.iter().position(|(at, _)| *at <= world.now) {
            return self.agenda.swap_remove(due).1;
        }
        let draw = self.rng.below(1000);
        if draw < self.profile.fault {
            if self.faults_left > 0
                && let Some(action) = self.fault(world)
            {
                self.faults_left -= 1;
                return action;
            }
        } else if draw < self.profile.fault + self.profile.call {
            return self.client(world);
        }
        let tick = self.profile.tick;
        self.by_itself(world, tick, true)
    }

    /// What happens next by itself, without faults.
    pub fn next_healed(&mut self, world: &World) -> Action {
        self.by_itself(world, 10, false)
    }

    fn by_itself(&mut self, world: &World, tick: u64, with_faults: bool) -> Action {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        progress(world, &mut buffer);
        if with_faults && !self.held.is_empty() {
            buffer.retain(|action| !self.is_held(world, action));
        }
        if !with_faults {
            self.drag.hold_back(world, &mut self.rng, &mut buffer);
        }
        let action = if buffer.is_empty() || self.rng.per_mille(tick) {
            self.tick(world, with_faults)
        } else {
            let at = self.rng.below(buffer.len() as u64);
            let mut action = buffer.swap_remove(usize::try_from(at).unwrap_or(0));
            self.drag.pass(world, &action);
            if let Action::Store { node, nth, fate } = &mut action {
                *fate = self.fate(world, *node, *nth, with_faults);
            }
            action
        };
        self.buffer = buffer;
        action
    }

    /// Begins to hold something back, and lets go what was held for long enough.
    fn hold_back(&mut self, world: &World) {
        self.held.retain(|(_, _, until)| *until > world.now);
        if self.profile.hold_donors > 0 && self.held.is_empty() {
            self.hold_donor(world);
        }
        if self.held.len() >= 2 || !self.rng.per_mille(self.profile.hold) {
            return;
        }
        let (node, other) = (self.node(world), self.node(world));
        let held = match self.rng.below(4) {
            _ if self.profile.hold_sessions => Held::Store(node, CoreId::Session),
            0 => Held::Store(node, CoreId::Session),
            1 => Held::Store(node, CoreId::Elector),
            2 => Held::Store(node, CoreId::Member),
            _ => Held::Way(node, other),
        };
        let most = [100, 600, 2500, 5000][self.rng.index(4)];
        let until = world.now + self.rng.duration(Duration::from_millis(most));
        self.held.push((held, world.now, until));
    }

    /// What a node that sends a snapshot says is slow for so long that its receiver gives it up, and the link stays.
    fn hold_donor(&mut self, world: &World) {
        let sends = |id: &NodeId| {
            let parts = world.process(*id).and_then(|process| process.parts.as_ref());
            parts.is_some_and(|parts| parts.core.member().snapshots_under_way() > 0)
        };
        let Some(donor) = world.ids().find(sends) else { return };
        if !self.rng.per_mille(self.profile.hold_donors) {
            return;
        }
        let until = world.now + Duration::from_millis(1200) + self.rng.duration(Duration::from_secs(1));
        for other in world.ids().filter(|other| *other != donor) {
            self.held.push((Held::Way(donor, other), world.now, until));
        }
    }

    fn is_held(&self, world: &World, action: &Action) -> bool {
        let slow = match action {
            Action::Store { node, nth, .. } => {
                let op = world.process(*node).and_then(|process| process.ops.get(usize::from(*nth)));
                let Some(op) = op else { return false };
                Held::Store(*node, op.core)
            }
            Action::Frame { from, to, .. } => Held::Way(*from, *to),
            _ => return false,
        };
        self.held.iter().any(|(held, from, _)| *held == slow && *from <= world.now)
    }

    fn tick(&mut self, world: &World, with_jumps: bool) -> Action {
        let until = until_next_wake(world).unwrap_or(Duration::from_millis(100));
        let jump = Duration::from_millis(self.profile.jump);
        let long = if with_jumps { self.profile.long } else { 1 };
        let more = match self.rng.below(99 + long) {
            0..60 => Duration::ZERO,
            60..92 => self.rng.duration(Duration::from_millis(30)),
            92..99 => self.rng.duration(Duration::from_millis(300)),
            _ if with_jumps => self.rng.duration(jump),
            _ => Duration::ZERO,
        };
        Action::Tick { by: (until + more).max(Duration::from_micros(1)) }
    }

    fn fate(&mut self, world: &World, node: NodeId, nth: u8, with_faults: bool) -> Fate {
        let op = world.process(node).and_then(|process| process.ops.get(usize::from(nth)));
        let Some(op) = op else { return Fate::Done };
        if world.nodes[usize::from(node)].outage {
            return Fate::Unavailable;
        }
        if world.refuses && matches!(op.request, Request::Commit(_)) {
            return Fate::Unavailable;
        }
        if !with_faults {
            return Fate::Done;
        }
        let store = &self.profile.store;
        // Of an elector's the driver says so in the end, as of any other that is unknown.
        let mute = if op.core == CoreId::Elector { 0 } else { store.mute };
        match op.request {
            Request::Read(_) => {
                let draw = self.rng.below(1000);
                if draw < store.late {
                    Fate::Late
                } else if draw < store.late + store.unavailable {
                    Fate::Unavailable
                } else if draw < store.late + store.unavailable + mute {
                    Fate::Mute
                } else {
                    Fate::Done
                }
            }
            Request::Prove(..) => Fate::Done,
            Request::Commit(_) => {
                let kinds = [
                    (Fate::Late, store.late),
                    (Fate::Conflict, store.conflict),
                    (Fate::UnknownDone, store.unknown_done),
                    (Fate::UnknownLost, store.unknown_lost),
                    (Fate::UnknownLater, store.unknown_later),
                    (Fate::Unavailable, store.unavailable),
                    (Fate::Mute, mute),
                    (Fate::MuteLater, mute),
                ];
                let mut draw = self.rng.below(1000);
                for (fate, weight) in kinds {
                    if draw < weight {
                        return fate;
                    }
                    draw -= weight;
                }
                Fate::Done
            }
        }
    }

    fn node(&mut self, world: &World) -> NodeId {
        u8::try_from(self.rng.below(world.nodes.len() as u64)).unwrap_or(0)
    }

    /// A node; often the one that leads.
    fn aimed(&mut self, world: &World) -> NodeId {
        if self.rng.per_mille(self.profile.aim)
            && let Some(leader) = leader(world)
        {
            return leader;
        }
        self.node(world)
    }

    /// Cuts the leader off, or ends all that.
    fn forsake(&mut self, world: &World) -> Option<Action> {
        if world.blocked != 0 {
            let ways = world.ids().flat_map(|from| world.ids().map(move |to| (from, to)));
            let ways = ways.filter(|(from, to)| world.is_blocked(*from, *to));
            self.script.extend(ways.map(|(from, to)| Action::Unblock { from, to }));
            return self.script.pop_front();
        }
        let node = leader(world)?;
        let until = world.now + Duration::from_secs(2) + self.rng.duration(Duration::from_secs(2));
        self.held.push((Held::Store(node, CoreId::Elector), world.now, until));
        let others = world.ids().filter(|other| *other != node);
        let ways = others.flat_map(|other| [(node, other), (other, node)]);
        self.script.extend(ways.map(|(from, to)| Action::Block { from, to }));
        self.script.pop_front()
    }

    /// A node's beats do not get through for so long that its session is closed. Before that, a read of another
    /// takes long; or the leader's store is slow all the while, so that what it was asked is decided after.
    fn lapse(&mut self, world: &World, node: NodeId, other: NodeId) {
        let millis = Duration::from_millis;
        if self.held.len() > 2 {
            return;
        }
        let (now, beat) = (world.now, Held::Store(node, CoreId::Session));
        self.faults_left = self.faults_left.saturating_sub(1);
        if self.rng.below(2) == 0 {
            let takes = millis(200) + self.rng.duration(millis(500));
            let (read_until, from) = (now + takes, now + self.rng.duration(takes));
            self.held.push((Held::Store(other, CoreId::Session), now, read_until));
            self.held.push((beat, from, from + millis(6000)));
        } else if let Some(leader) = leader(world).filter(|leader| *leader != node) {
            let until = now + millis(3600) + self.rng.duration(millis(1000));
            self.held.push((beat, now, until));
            let until = until + self.rng.duration(millis(1500));
            self.held.push((Held::Store(leader, CoreId::Elector), now, until));
            self.held.push((Held::Store(leader, CoreId::Member), now, until));
        }
    }

    /// A leader is asked to end, and its beats do not get through, so that it loses its session before it has drained: to
    /// the others' electors the store is slow meanwhile, so that nobody takes the seat.
    fn part(&mut self, world: &World) {
        let millis = Duration::from_millis;
        let Some(node) = leader(world).filter(|_| self.held.len() <= 2) else { return };
        let now = world.now;
        let until = now + millis(4400) + self.rng.duration(millis(800));
        self.held.push((Held::Store(node, CoreId::Session), now, until));
        let at = now + millis(300) + self.rng.duration(millis(1500));
        for other in world.ids().filter(|other| *other != node) {
            let until = until + self.rng.duration(millis(1500));
            self.held.push((Held::Store(other, CoreId::Elector), at, until));
        }
        self.agenda.push((at, Action::Drain { node }));
    }

    /// A process is replaced by a successor, while to the leader's elector the store is slow: the successor is a member, and
    /// asks, before the leader has read that its session is open.
    fn renew(&mut self, world: &World, node: NodeId) {
        let Some(leader) = leader(world).filter(|leader| *leader != node && self.held.len() <= 2) else {
            return;
        };
        let until = world.now + Duration::from_secs(2) + self.rng.duration(Duration::from_secs(2));
        self.held.push((Held::Store(leader, CoreId::Elector), world.now, until));
        self.script.extend([Action::Crash { node }, Action::Start { node }]);
    }

    fn fault(&mut self, world: &World) -> Option<Action> {
        let faults = self.profile.faults;
        let weights = [
            faults.crash,
            faults.start,
            faults.pause,
            faults.cut,
            faults.block,
            faults.isolate,
            faults.outage,
            faults.land,
            faults.rate,
            faults.power,
            faults.watch,
            faults.forsake,
            faults.lapse,
            faults.join,
            faults.lie,
            faults.refuse,
            faults.part,
            faults.renew,
            faults.fail,
            faults.back,
            faults.certify,
            faults.perish,
            faults.sever,
        ];
        if weights.iter().sum::<u64>() == 0 {
            return None;
        }
        let node = self.aimed(world);
        let other = self.node(world);
        match self.rng.weighted(&weights) {
            0 => world.process(node).map(|_| Action::Crash { node }),
            1 => world.ids().find(|id| world.process(*id).is_none()).map(|node| Action::Start { node }),
            2 => {
                let paused = world.ids().find(|id| world.process(*id).is_some_and(|process| process.paused));
                match paused {
                    Some(node) => Some(Action::Resume { node }),
                    None => world.process(node).map(|_| Action::Pause { node }),
                }
            }
            3 => {
                let keep = u8::try_from(self.rng.below(4)).unwrap_or(0);
                (node != other).then_some(Action::Break { a: node, b: other, nth: 0, keep })
            }
            4 => {
                if world.is_blocked(node, other) || (world.blocked != 0 && self.rng.below(2) == 0) {
                    return first_blocked(world).map(|(from, to)| Action::Unblock { from, to });
                }
                (node != other).then_some(Action::Block { from: node, to: other })
            }
            // Both ways to one node, drawn again for the next one: an isolated node is several faults.
            5 => world
                .ids()
                .filter(|id| *id != node)
                .flat_map(|id| [(node, id), (id, node)])
                .find(|(from, to)| !world.is_blocked(*from, *to))
                .map(|(from, to)| Action::Block { from, to }),
            6 => {
                let is_out = !world.nodes[usize::from(node)].outage;
                Some(Action::Outage { node, is_out })
            }
            7 => {
                let count = u64::try_from(world.orphans.len()).unwrap_or(0);
                if count == 0 {
                    return None;
                }
                let nth = u8::try_from(self.rng.below(count)).unwrap_or(0);
                Some(if self.rng.below(8) == 0 { Action::Vanish { nth } } else { Action::Land { nth } })
            }
            9 => world.process(node).map(|_| Action::PowerOff { node }),
            11 => self.forsake(world),
            12 => {
                self.lapse(world, node, other);
                None
            }
            10 => world.process(node).map(|_| Action::LoseWatch { node }),
            13 => world.ids().find(|id| may_join(world, *id)).map(|node| Action::Join { node }),
            14 => (node != other).then_some(Action::Lie { from: other, to: node }),
            15 => {
                // For about a lease: some trust is over then, and some is not.
                let lease = world.setup.session.lease;
                let until = world.now + lease / 2 + self.rng.duration(lease);
                self.agenda.push((until, Action::Refuse { is_on: false }));
                Some(Action::Refuse { is_on: true })
            }
            16 => {
                self.part(world);
                None
            }
            17 => {
                self.renew(world, node);
                None
            }
            19 => {
                let most = [2, 6, 30][self.rng.index(3)];
                Some(Action::GoBack { by: 1 + u8::try_from(self.rng.below(most)).unwrap_or(0) })
            }
            20 => {
                let permits = drawn_permits(&mut self.rng, usize::from(node));
                Some(Action::Certify { node, permits })
            }
            21 => self.perish(world),
            22 => self.sever(world),
            18 => world.process(node).map(|_| Action::Fail { node, of_session: self.rng.below(3) == 0 }),
            _ => {
                let ppm = self.profile.ppm;
                let ppm =
                    i32::try_from(self.rng.below(2 * ppm + 1)).unwrap_or(0) - i32::try_from(ppm).unwrap_or(0);
                Some(Action::Rate { node, ppm })
            }
        }
    }
}

/// One that takes itself for the leader.
fn leader(world: &World) -> Option<NodeId> {
    let leads = |id: &NodeId| {
        let parts = world.process(*id).and_then(|process| process.parts.as_ref());
        parts.is_some_and(|parts| {
            let leader = parts.core.member().view().term.leader.as_ref();
            leader.is_some_and(|leader| leader.node == world.setup.names[usize::from(*id)])
        })
    };
    world.ids().find(leads)
}

/// Whether the registry can be joined there.
fn may_join(world: &World, node: NodeId) -> bool {
    world.process(node).is_some_and(|process| process.was_opened && process.parts.is_none())
}

/// A way that is blocked.
pub fn first_blocked(world: &World) -> Option<(NodeId, NodeId)> {
    world
        .ids()
        .flat_map(|from| world.ids().map(move |to| (from, to)))
        .find(|(from, to)| world.is_blocked(*from, *to))
}
