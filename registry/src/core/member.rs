//! A member: one node's part in one registry.
//!
//! Holds the cores and lets each input find the one it is for: [`Replica`] and [`CatchUp`] follow the log,
//! [`Handoff`] and [`Leader`] are there while this member is elected, [`Host`] speaks for the node's own actors.
//! The role follows from the state that the elector read, not from the path by which it came.

mod ahead;
mod answers;
mod behind;
mod calls;
mod deltas;
mod drain;
mod duty;
mod known;
mod leaving;
mod lineage;
mod links;
mod messages;
mod progress;
mod seat;
mod standing;
mod state;
#[cfg(test)]
mod tests;
mod their_links;
mod turns;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use callsign_elector::{
    elector::View,
    lineage::LineageId,
    record::{LogEnd, Term},
    sessions::Sessions,
    settings::InForce,
};
use callsign_store::{
    Time, Version,
    ids::{Epoch, Incarnation, NodeName, Position},
    keys::RegistryKeys,
    planted,
    random::splitmix,
};

use self::{
    ahead::Ahead, behind::Behind, drain::Drain, duty::MemberDuty, lineage::ToldOfLog, progress::Progress,
    their_links::TheirLinks,
};
use crate::core::{
    catchup::{ArrivedChunk, CatchUp, offer_all},
    handoff::{Handoff, Step, reset_conditions},
    host::{Client, Host, decline},
    input::{Answer, CallId, Effect, Event, Input, Now, Tell, Turn},
    leader::Leader,
    log::CorruptBatch,
    message::Message,
    permitted::Permitted,
    reads::Reads,
    replica::{Applied, Replica},
    snapshot::Walks,
    table::Table,
    trim::Trim,
    tuning::Tuning,
    watch::Watchers,
};

/// How often time is looked at while somebody waits. Deadlines are kept to within this.
const MEMBER_TICK: Duration = Duration::from_millis(100);

/// How long after its last turn a member is woken that hears no leader, though nobody waits. Longer: a leader whose opening failed
/// begins again later.
const LOOKS: Duration = Duration::from_secs(1);

/// How often a member that hears its leader is woken, though nobody waits. Shorter: idle nodes do more. Longer: a name that the
/// log gives it, and that nobody here claims, is given up later.
const FOLLOWER_LOOKS: Duration = Duration::from_secs(5);

/// How often the elector is told of contact with the leader, at most. A small part of its silence limit.
const HEARD_EVERY: Duration = Duration::from_millis(250);

/// How often a member without the flag says that it is synced; the elector repeats nothing that is still queued.
const SYNCED_EVERY: Duration = Duration::from_millis(500);

/// How long nobody may be there to give a base before it is given up. Shorter: a synced member on its way back loses
/// its names for nothing. Longer: the registry stands still.
const HOPELESS_FOR: Duration = Duration::from_secs(3);

/// Keeps the numbers of snapshots apart from the nonces of batches, which begin at the same seed.
const SNAPSHOTS: u64 = 0x736e_6170;

/// What a member is made with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberConfig {
    pub me: NodeName,
    pub incarnation: Incarnation,
    pub keys: RegistryKeys,
    /// Drawn at random for each incarnation: where nonces, and numbers of snapshots, begin.
    pub seed: u64,
    /// Sizes.
    pub tuning: Tuning,
}

/// The view before the first: no member, no term.
pub(super) fn nothing_known() -> View {
    View {
        version: Version(0),
        lineage: LineageId::default(),
        term: Term::vacant(),
        lock: None,
        members: BTreeMap::new(),
        settings: InForce::default(),
        sessions: Sessions::default(),
        commit: None,
        floor: Position(1),
        me: None,
        raw: Arc::default(),
        queued: None,
    }
}

/// A link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Linked {
    incarnation: Incarnation,
    /// The transport's number for it.
    number: u64,
}

/// One node's part in one registry: see the top of this file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member<T> {
    config: MemberConfig,
    /// The lineage that the node said it is in. `None`: it never went back since this member began.
    lineage: Option<LineageId>,
    /// What the elector was told of the log.
    told: ToldOfLog,
    view: Arc<View>,
    links: BTreeMap<NodeName, Linked>,
    permitted: Permitted,
    /// Members that are linked, without this one. Made anew when the view or a link changes, and only then.
    linked: Arc<[NodeName]>,
    /// Which links the other members have.
    their_links: TheirLinks,
    /// The leader that this member had contact with last, and its epoch. It has opened that epoch.
    following: Option<(Epoch, NodeName)>,
    ahead: Ahead,
    replica: Replica<T>,
    catchup: CatchUp,
    walks: Walks,
    handoff: Option<Handoff>,
    leader: Option<Leader>,
    trim: Trim,
    host: Host,
    reads: Reads,
    watchers: Watchers,
    ready: Vec<(CallId, Time)>,
    /// Who asked for this member's handoff, and of which epoch. This node is its own elector.
    to_run: BTreeMap<NodeName, Epoch>,
    next_op: u64,
    next_tick: Time,
    contact_told: Option<(Epoch, Time)>,
    progress: Progress,
    synced_told: Time,
    hopeless_since: Option<Time>,
    drain: Drain,
    duty: MemberDuty,
    /// What is said when the host has nothing more to do for its actors.
    behind: Vec<Behind>,
    /// Messages to itself.
    own: VecDeque<Message>,
}

impl<T: Table> Member<T> {
    pub fn new(config: MemberConfig, table: T) -> Self {
        Self {
            replica: Replica::new(config.me.clone(), table),
            lineage: None,
            told: ToldOfLog::default(),
            view: Arc::new(nothing_known()),
            links: BTreeMap::new(),
            permitted: Permitted::new(config.me.clone()),
            linked: Arc::default(),
            their_links: TheirLinks::default(),
            following: None,
            ahead: Ahead::default(),
            catchup: CatchUp::new(splitmix(config.seed ^ SNAPSHOTS), config.tuning.snapshot_window),
            walks: Walks::new(config.tuning),
            handoff: None,
            leader: None,
            trim: Trim::new(config.tuning.cut_worth, config.tuning.max_lag),
            host: Host::new(),
            reads: Reads::default(),
            watchers: Watchers::new(config.tuning),
            ready: Vec::new(),
            to_run: BTreeMap::new(),
            next_op: 0,
            next_tick: Time::ZERO,
            contact_told: None,
            progress: Progress::default(),
            synced_told: Time::ZERO,
            hopeless_since: None,
            drain: Drain::new(),
            duty: MemberDuty::default(),
            behind: Vec::new(),
            own: VecDeque::new(),
            config,
        }
    }

    /// Takes one input and appends what to do about it.
    ///
    /// What follows from several inputs together is done at [`Input::Idle`], which has to come after them.
    pub(in crate::core) fn step(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        self.replica.tick(now.time);
        let is_by_name = matches!(input, Input::Idle) && planted!("effect-by-bare-name");
        let begin = effects.len();
        let is_busy = self.host.is_busy();
        self.dispatch(now, input, effects);
        if !is_busy {
            // What is done in one go is done at once.
            self.proceed_host(now, effects);
        }
        self.take_own(now, begin, effects);
        self.bind(if is_by_name { 0 } else { begin }, effects);
    }

    /// Binds the messages among the effects from `begin` on to the links that are up now. An effect may be carried out when the
    /// same name is another process already. What is for a node without a link goes nowhere.
    fn bind(&self, begin: usize, effects: &mut Vec<Effect>) {
        let mut at = begin;
        while let Some(effect) = effects.get_mut(at) {
            if let Effect::Send { to, link, .. } = effect {
                *link = self.links.get(to).map(|linked| linked.number);
                if link.is_none() {
                    effects.remove(at);
                    continue;
                }
            }
            at += 1;
        }
    }

    /// Takes the messages to itself among the effects from `begin` on, and those that follow from them.
    fn take_own(&mut self, now: Now, begin: usize, effects: &mut Vec<Effect>) {
        self.keep_own(begin, effects);
        while let Some(message) = self.own.pop_front() {
            let begin = effects.len();
            let me = self.config.me.clone();
            self.on_message(now, &me, message, effects);
            self.keep_own(begin, effects);
        }
    }

    /// Messages to this member do not travel.
    fn keep_own(&mut self, begin: usize, effects: &mut Vec<Effect>) {
        if !effects[begin..].iter().any(|e| matches!(e, Effect::Send { to, .. } if *to == self.config.me)) {
            return;
        }
        for effect in effects.split_off(begin) {
            match effect {
                Effect::Send { to, message, .. } if to == self.config.me => self.own.push_back(message),
                other => effects.push(other),
            }
        }
    }

    fn dispatch(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::View(view) => self.on_view(now, view, effects),
            Input::SessionOpened(session) => {
                self.watchers.resumed();
                self.host.on_session_opened(session);
            }
            Input::SessionLapsed(session) => {
                self.watchers.lapsed();
                if !self.drain.has_left() {
                    self.host.on_session_lapsed(session);
                }
            }
            Input::SessionResumed(session) => {
                self.watchers.resumed();
                // Who has left says nothing more in its session: it does not know what becomes of what it asked for.
                if !self.drain.has_left() || planted!("speaks-after-it-left") {
                    self.host.on_session_resumed(session);
                }
            }
            Input::SessionLost => {
                self.watchers.lapsed();
                self.host.on_session_lost(now.time);
            }
            Input::Lineage(lineage) => self.begin_lineage(now, lineage, effects),
            Input::Permits(permits) => self.permitted.own(permits),
            Input::LinkUp { node, incarnation, link, permits } => {
                let may_lead = permits.may_lead();
                self.permitted.linked(&node, permits);
                effects.push(Effect::Tell(Tell::LinkUp { node: node.clone(), may_lead }));
                self.on_link_up(&node, Linked { incarnation, number: link }, effects);
            }
            Input::LinkDown { node, incarnation } => self.on_link_down(now, &node, incarnation, effects),
            Input::Message { from, message } => {
                if self.links.contains_key(&from) {
                    self.on_message(now, &from, message, effects);
                }
            }
            Input::SendFailed { to } => {
                if self.following.as_ref().is_some_and(|(_, leader)| *leader == to) {
                    self.host.on_send_failed(now.time);
                    self.progress.is_lost();
                }
            }
            Input::ReadDone { id, result } => self.on_read(now, id, &result, effects),
            Input::CommitDone { id, outcome } => self.on_commit(now, id, &outcome, effects),
            Input::RunHandoff { leader, epoch } => self.on_run_handoff(leader, epoch, effects),
            Input::Call { id, call, wait } => self.on_call(now, id, call, wait, effects),
            Input::GiveUp { call } => self.on_given_up(call),
            Input::StartEnded { name, claim, yielded } => {
                self.host.on_start_ended(now, name, claim, yielded, effects);
            }
            Input::Given { name, consent, data } => {
                self.host.on_given(now, (name, consent), data, &self.replica, effects);
            }
            Input::Receives { kind, does } => self.host.receives(kind, does),
            Input::AskForLinks => self.ask_for_links(now, effects),
            Input::Declined { holder, number, why } => decline(&holder, number, why, effects),
            Input::ActorEnded { actor } => self.host.on_actor_ended(actor),
            Input::OpenWatch { id, select, from, room } => {
                self.watchers.open(&mut self.replica, (id, select), from, room);
            }
            Input::ReadWatch { id, events } => self.watchers.has_room(id, events),
            Input::CloseWatch { id } => self.watchers.close(now.time, id),
            Input::Wake => self.on_wake(now, effects),
            Input::Idle => self.on_idle(now, effects),
        }
    }
}
