//! A member: one node's part in one registry.
//!
//! Holds the cores and lets each input find the one it is for: [`Replica`] and [`CatchUp`] follow the log,
//! [`Handoff`] and [`Leader`] are there while this member is elected, [`Host`] speaks for the node's own actors.
//! The role follows from the state that the elector read, not from the path by which it came.

mod ahead;
mod behind;
mod drain;
mod leaving;
mod lineage;
mod messages;
mod seat;
mod standing;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use callsign_elector::{
    elector::View,
    lineage::{LineageId, LineageNumber},
    record::{LogEnd, MemberRow, Term},
    sessions::Sessions,
    settings::InForce,
};
use callsign_store::{
    CommitOutcome, ReadResult, StoreError, Time, Version,
    ids::{Epoch, Incarnation, NodeName, Position},
    keys::RegistryKeys,
    planted,
    random::splitmix,
};

use self::{ahead::Ahead, behind::Behind, drain::Drain, lineage::Told};
use crate::core::{
    catchup::{ArrivedChunk, CatchUp, Sources, offer_all},
    handoff::{Handoff, Step, reset_conditions},
    host::{Caller, Change, Host, OnTake, Registrant, Starter, Surroundings, Wanted, decline},
    input::{Answer, Call, CallId, Effect, Event, Input, Now, OpId, Tell, Turn},
    leader::{Leader, Outcome},
    log::CorruptBatch,
    message::Message,
    permitted::Permitted,
    reads::{Reads, WentBack},
    replica::{Applied, Replica},
    snapshot::Walks,
    table::Table,
    trim::Trim,
    tuning::Tuning,
    watch::Watchers,
};

/// How often time is looked at while somebody waits. Deadlines are kept to within this.
const MEMBER_TICK: Duration = Duration::from_millis(100);

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
    told: Told,
    view: Arc<View>,
    links: BTreeMap<NodeName, Linked>,
    permitted: Permitted,
    /// Members that are linked, without this one. Made anew when the view or a link changes, and only then.
    linked: Arc<[NodeName]>,
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
    synced_told: Time,
    hopeless_since: Option<Time>,
    drain: Drain,
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
            told: Told::default(),
            view: Arc::new(nothing_known()),
            links: BTreeMap::new(),
            permitted: Permitted::new(config.me.clone()),
            linked: Arc::default(),
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
            synced_told: Time::ZERO,
            hopeless_since: None,
            drain: Drain::new(),
            behind: Vec::new(),
            own: VecDeque::new(),
            config,
        }
    }

    pub fn replica(&self) -> &Replica<T> {
        &self.replica
    }

    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The members that are linked, without this one. While neither the view nor a link changes, this is the same allocation.
    pub fn linked(&self) -> &Arc<[NodeName]> {
        &self.linked
    }

    pub fn me(&self) -> &NodeName {
        &self.config.me
    }

    #[cfg(feature = "cores")]
    pub fn is_linked(&self, node: &NodeName) -> bool {
        self.links.contains_key(node)
    }

    /// How many links are up.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// How many names this node's own actors hold.
    pub fn claims(&self) -> usize {
        self.host.claims().len()
    }

    /// The names that this node's own actors hold, each with its actor and its token.
    #[cfg(feature = "cores")]
    pub fn holds(&self) -> impl Iterator<Item = (&crate::core::name::Name, u64, Position)> {
        // An actor that is yet to be started has no number.
        self.host.claims().iter().map(|(name, claim)| (name, claim.actor.unwrap_or(0), claim.position))
    }

    /// How many names they hold, and a digest of these and their tokens: whether they changed, at no cost.
    #[cfg(feature = "cores")]
    pub fn claims_mark(&self) -> (usize, u64) {
        (self.host.claims().len(), self.host.claims_digest())
    }

    /// Whether the name of a claim is on its way to another actor: the claim is flagged.
    #[cfg(feature = "cores")]
    pub fn is_suspended(&self, name: &crate::core::name::Name) -> bool {
        self.host.is_suspended(name)
    }

    /// Whether a take of this number has the data that go with its name.
    #[cfg(feature = "cores")]
    pub fn has_data(&self, number: crate::core::table::RequestNumber) -> bool {
        self.host.has_data(number)
    }

    /// How many names are on their way, from here or to here.
    #[cfg(feature = "cores")]
    pub fn moves(&self) -> usize {
        self.host.moves()
    }

    /// The session that they belong to.
    #[cfg(feature = "cores")]
    pub fn session(&self) -> Option<&callsign_store::ids::SessionId> {
        self.host.session()
    }

    /// Whether it has read more of the log than it has applied.
    #[cfg(feature = "cores")]
    pub fn is_reading_log(&self) -> bool {
        self.catchup.is_busy()
    }

    /// How many snapshots it is sending to others.
    #[cfg(feature = "cores")]
    pub fn snapshots_under_way(&self) -> usize {
        self.walks.count()
    }

    /// Whether this member leads and its epoch is open.
    pub fn is_serving(&self) -> bool {
        self.leader.as_ref().is_some_and(Leader::is_open)
    }

    /// Whether this leader knows that the session is open, or that it is closed.
    #[cfg(feature = "cores")]
    pub fn leader_has_read(&self, session: &callsign_store::ids::SessionId) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.has_read(session))
    }

    /// Whether it leads, and knows that a session is closed.
    #[cfg(feature = "cores")]
    pub fn leader_has_read_closed(&self, session: &callsign_store::ids::SessionId) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.has_read_closed(session))
    }

    /// Whether it has read the session that a name is to go to.
    #[cfg(feature = "cores")]
    pub fn leader_has_read_taker(&self, session: &callsign_store::ids::SessionId) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.has_read_taker(session))
    }

    /// Whether it leads, and a session's request has come to it before.
    #[cfg(feature = "cores")]
    pub fn leader_has_request(
        &self,
        session: &callsign_store::ids::SessionId,
        number: crate::core::table::RequestNumber,
    ) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.has_request(session, number))
    }

    /// Whether its row says that its replica holds the end of the log.
    pub fn is_synced(&self) -> bool {
        self.row().is_some_and(|row| row.synced) && self.replica.is_based()
    }

    /// Its row, if it is a member in its present session. A view may be older than the session: its row goes with the former one,
    /// and no row would say that names of the present one are held, so that a `Reset` might lose them.
    fn row(&self) -> Option<&MemberRow> {
        let row = self.view.members.get(&self.config.me).filter(|row| Some(row.token) == self.view.me)?;
        (self.host.session() == Some(&row.session)).then_some(row)
    }

    /// The leader that can be asked, and its epoch: it has opened it, and it is linked or this member.
    pub fn leader(&self) -> Option<(Epoch, &NodeName)> {
        let (epoch, node) = self.following.as_ref()?;
        let is_current = *epoch >= self.view.term.epoch;
        let is_reachable = if *node == self.config.me {
            self.leader.as_ref().is_some_and(|leader| leader.is_open() && leader.epoch() == *epoch)
        } else {
            self.links.contains_key(node)
        };
        (is_current && is_reachable).then_some((*epoch, node))
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
                }
            }
            Input::ReadDone { id, result } => self.on_read(now, id, &result, effects),
            Input::CommitDone { id, outcome } => self.on_commit(now, id, &outcome, effects),
            Input::RunHandoff { leader, epoch } => self.on_run_handoff(leader, epoch, effects),
            Input::Call { id, call, wait } => self.on_call(now, id, call, wait, effects),
            Input::StartEnded { name, claim, yielded } => {
                self.host.on_start_ended(now, name, claim, yielded, effects);
            }
            Input::Given { name, consent, data } => {
                self.host.on_given(now, (name, consent), data, &self.replica, effects);
            }
            Input::Receives { kind, does } => self.host.receives(kind, does),
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

    // ---- the state of the registry

    fn on_view(&mut self, now: Now, view: Arc<View>, effects: &mut Vec<Effect>) {
        let is_new_term = view.term.epoch > self.view.term.epoch;
        // They come in the order in which they were read. One of another lineage was read before the node knew of this one.
        if self.lineage.is_some_and(|ours| !ours.is_same(view.lineage)) {
            return;
        }
        self.catchup.begin_at(view.lineage.number);
        let old_leader = self.view.term.leader.as_ref().map(|leader| leader.node.clone());
        let former = std::mem::replace(&mut self.view, view);
        self.find_linked();
        self.redirect_requests();
        if is_new_term {
            let leader = self.view.term.leader.as_ref().map(|leader| leader.node.clone());
            effects.push(Effect::Event(Event::Term { epoch: self.view.term.epoch, leader }));
            self.catchup.term_changed();
            self.depose_if_over(effects);
            self.to_run.retain(|_, epoch| *epoch >= self.view.term.epoch);
        }
        self.begin_handoff(now, old_leader, effects);
        if is_new_term
            && planted!("handoff-reads-commit-too-early")
            && let Some(handoff) = &mut self.handoff
        {
            handoff.presume_end(&former, &self.config.keys);
        }
        if let Some(leader) = &mut self.leader
            && leader.epoch() == self.view.term.epoch
        {
            leader.on_view(&self.view, &self.replica, effects);
        }
        // Batches are on the way from a leader that is heard; without one, the store is the only news.
        if self.leader().is_none()
            && let Some(end) = self.view.commit
        {
            self.catchup.want(now.time, end.position);
        }
        for (from, message) in self.ahead.take(self.view.term.epoch) {
            self.on_message(now, &from, message, effects);
        }
    }

    fn find_linked(&mut self) {
        let is_linked = |node: &&NodeName| **node != self.config.me && self.links.contains_key(*node);
        self.linked = self.view.members.keys().filter(is_linked).cloned().collect();
    }

    fn is_elected(&self) -> bool {
        if planted!("epoch-only-fence") {
            return self.view.term.leader.as_ref().is_some_and(|leader| leader.node == self.config.me);
        }
        let (Some(leader), Some(token)) = (&self.view.term.leader, self.view.me) else { return false };
        leader.node == self.config.me
            && leader.incarnation == self.config.incarnation
            && leader.token == token
    }

    // ---- links

    fn on_link_up(&mut self, node: &NodeName, linked: Linked, effects: &mut Vec<Effect>) {
        self.links.insert(node.clone(), linked);
        self.find_linked();
        self.redirect_requests();
        if let Some(leader) = &self.leader {
            leader.welcome(&self.replica, node, effects);
        }
        if self.following.as_ref().is_some_and(|(_, leader)| leader == node) {
            self.host.on_leader_linked();
        }
    }

    fn on_link_down(
        &mut self,
        now: Now,
        node: &NodeName,
        incarnation: Incarnation,
        effects: &mut Vec<Effect>,
    ) {
        if self.links.get(node).is_none_or(|linked| linked.incarnation != incarnation) {
            return;
        }
        self.links.remove(node);
        self.find_linked();
        self.redirect_requests();
        effects.push(Effect::Tell(Tell::LinkDown(node.clone())));
        effects.push(Effect::Suspect { node: node.clone(), incarnation });
        self.host.on_peer_lost(now, node, &self.replica, effects);
        self.walks.drop_node(&mut self.replica, node);
        let leader = self.view.term.leader.as_ref().map(|leader| &leader.node);
        self.catchup.lost(node, leader);
        if let Some(handoff) = &mut self.handoff {
            handoff.on_link_down(now.time, node);
        }
        if let Some(leader) = &mut self.leader {
            leader.forget_follower(node);
            if planted!("free-by-silence") {
                leader.presume_gone(&self.replica, node);
            }
        }
        self.to_run.remove(node);
        self.ahead.forget(node);
        if !self.view.members.contains_key(node) {
            self.permitted.forget(node);
        }
    }

    // ---- the store's answers

    fn on_read(
        &mut self,
        now: Now,
        id: OpId,
        result: &Result<ReadResult, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        match self.reads.on_read(now.time, id, result) {
            Ok(wanted) => wanted.into_iter().for_each(|wanted| self.catchup.want(now.time, wanted)),
            Err(WentBack) => self.doubt(now.time, effects),
        }
        if let Some(handoff) = &mut self.handoff {
            handoff.on_read(now.time, id, result);
        }
        let read = result.as_ref().ok();
        let (keys, names) = (&self.config.keys, self.config.tuning.slice_names);
        let applied = self.catchup.on_log(now.time, &mut self.replica, id, read, keys, names);
        self.take_log(now, applied, effects);
        if let Some(leader) = &mut self.leader {
            let turn = &mut Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
            let outcome = leader.on_read(turn, &mut self.replica, id, result, &self.linked);
            self.on_outcome(now, &outcome, effects);
        }
    }

    fn on_commit(&mut self, now: Now, id: OpId, outcome: &CommitOutcome, effects: &mut Vec<Effect>) {
        let Some(leader) = &mut self.leader else { return };
        if let Some(floor) = self.trim.on_commit(id, outcome) {
            leader.forget_below(floor);
        }
        let turn = &mut Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
        let outcome = leader.on_commit(turn, &mut self.replica, id, outcome, &self.linked);
        self.on_outcome(now, &outcome, effects);
    }

    fn on_outcome(&mut self, now: Now, outcome: &Outcome, effects: &mut Vec<Effect>) {
        self.on_applied(&outcome.applied, effects);
        if outcome.opened
            && let Some(leader) = &mut self.leader
        {
            let (epoch, position) = (leader.epoch(), self.replica.position());
            leader.on_view(&self.view, &self.replica, effects);
            effects.push(Effect::Event(Event::Serving { epoch, position }));
            let me = self.config.me.clone();
            self.on_leader(now, &me, epoch, effects);
            self.finish_handoffs(effects);
        }
        if outcome.deposed {
            self.depose(effects);
            effects.push(Effect::Tell(Tell::Applied(self.replica.end())));
            effects.push(Effect::Tell(Tell::Refresh));
        }
    }

    // ---- calls and time

    fn on_call(&mut self, now: Now, id: CallId, call: Call, wait: Duration, effects: &mut Vec<Effect>) {
        if self.drain.is_closing() {
            // Its claims are gone, or will be, and why: no caller may be told that it never held a name.
            if matches!(
                call,
                Call::Register { .. } | Call::Join { .. } | Call::Start { .. } | Call::Take { .. }
            ) {
                effects.push(Effect::Forget { claim: id });
            }
            effects.push(Effect::Answer { call: id, answer: Answer::Left });
            return;
        }
        let caller = Caller::new(now.time, id, wait);
        match call {
            Call::Register { name, actor, kind, on_lapse, on_take, meta } => {
                let registrant = Registrant { actor, kind, on_lapse, on_take, meta };
                self.host.register(now, caller, name, registrant, effects);
            }
            Call::Take { name, token, actor, kind, on_lapse, on_take } => {
                let wanted = Wanted { token, actor, kind, on_lapse, on_take };
                self.host.take(now, caller, name, wanted, &self.replica, effects);
            }
            Call::Offer { name, to } => self.offer(caller, id, name, to, effects),
            Call::Start { name, kind, on_lapse, on_take, meta, limit, patience } => {
                let until = now.time + patience;
                let starter = Starter { kind, on_lapse, on_take, meta, limit, wait, until };
                self.host.start(now, caller, name, starter, &self.replica, effects);
            }
            Call::Join { group, actor, kind, on_lapse, meta } => {
                // A membership is nobody else's.
                let on_take = OnTake::Refuse;
                let registrant = Registrant { actor, kind, on_lapse, on_take, meta };
                self.host.join(now, caller, group, registrant, effects);
            }
            Call::Unregister { name } => self.host.unregister(caller, name, None, &self.replica, effects),
            Call::Withdraw { name, token } => {
                self.host.unregister(caller, name, Some(token), &self.replica, effects);
            }
            Call::Update { name, token, revision, meta } => {
                let change = Change { token, revision, meta };
                self.host.update(now, caller, name, change, &self.replica, effects);
            }
            Call::Consistent { name } => self.reads.consistent(now.time, id, name, wait),
            Call::WaitFor { position } => self.reads.wait_for(now.time, id, position, wait),
            Call::Explain { name } => {
                let answer = Answer::Explained(Ok(Box::new(self.explain(&name))));
                effects.push(Effect::Answer { call: id, answer });
            }
            Call::Ready => self.ready.push((id, now.time + wait)),
            Call::Drain => self.begin_to_drain(now, id, wait, effects),
            Call::Leave => {
                let next = self.drain.close(id, now.time + wait);
                self.go_on_draining(now, next, effects);
            }
        }
    }

    fn on_wake(&mut self, now: Now, effects: &mut Vec<Effect>) {
        // Also without a new view: a leader whose opening failed is elected as before.
        self.begin_handoff(now, None, effects);
        if let Some(leader) = &mut self.leader {
            let mut turn = Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
            leader.on_wake(&mut turn, &self.replica, &self.linked);
            self.trim.on_wake(turn, &self.config.me, self.replica.position(), leader, &self.view);
        }
        let is_due = now.time >= self.next_tick;
        if is_due || self.host.is_looking() {
            if is_due {
                self.next_tick = now.time + MEMBER_TICK;
            }
            let (names, around) = (self.config.tuning.slice_names, self.surroundings());
            self.host.on_wake(now, names, around, &self.replica, effects);
        }
    }

    fn surroundings(&self) -> Surroundings<'static> {
        // The leader's name is only needed to send; see `on_idle`.
        Surroundings {
            leader: None,
            is_synced: self.is_synced(),
            has_leader: self.view.term.leader.is_some(),
        }
    }

    /// Nothing more waits: what was collected is sent, the next batch is begun, and who waited is answered.
    fn on_idle(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.proceed_host(now, effects);
        self.proceed(now, effects);
        if !planted!("watch-after-the-answer") {
            self.watchers.proceed(now.time, &mut self.replica, effects);
        }
        if let Some((to, message)) = self.walks.proceed(&mut self.replica) {
            effects.push(Effect::send(to, message));
        }
        if self.drain.has_left() {
            return;
        }
        // Not when it is woken: where messages keep coming that may be never.
        self.walks.forget_abandoned(now.time, &mut self.replica);
        self.drive_handoff(now, effects);
        let end = self.replica.is_based().then(|| self.replica.end());
        self.reads.proceed(Turn::new(now.time, &self.config.keys, &mut self.next_op, effects), end);
        // Before anything is sent: what waited for a verdict that has come is asked for with the rest.
        self.settle_host(now, effects);
        let begin = effects.len();
        let leader = self.leader().map(|(epoch, node)| (epoch, node.clone()));
        let around = Surroundings {
            leader: leader.as_ref().map(|(epoch, node)| (*epoch, node)),
            ..self.surroundings()
        };
        self.host.flush(now.time, around, effects);
        // What the host just asked this very member is in the same batch.
        self.take_own(now, begin, effects);
        if let Some(leader) = &mut self.leader {
            leader.proceed(
                &mut Turn::new(now.time, &self.config.keys, &mut self.next_op, effects),
                &self.replica,
                &self.permitted,
            );
        }
        // A leader's own commit brings it to its end. Whoever took that from the log before the commit has answered
        // would take it for a successor's.
        if self.leader.is_none() && !self.is_behind_lineage() && self.catchup.lacks(&self.replica) {
            let sources = self.sources();
            let turn = Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
            self.catchup.drive(turn, &self.replica, &sources);
        }
        self.say_applied(now.time, effects);
        self.say_synced(now, effects);
        self.give_up_base(now, effects);
        self.settle_host(now, effects);
        if !self.watchers.owes() {
            self.reads.settle(now.time, &self.replica, effects);
        }
        if planted!("watch-after-the-answer") {
            self.watchers.proceed(now.time, &mut self.replica, effects);
        }
        let drains = self.drain.has_begun();
        // Trusted by the same rule as a registration: `ready` must not say yes where `register` says "lapsed".
        let is_trusted = self.host.is_trusted(now);
        let is_ready = self.is_synced() && self.leader().is_some() && is_trusted && !drains;
        self.ready.retain(|(call, deadline)| {
            let is_over = now.time >= *deadline || drains;
            if is_ready || is_over {
                effects.push(Effect::Answer { call: *call, answer: Answer::Ready(is_ready) });
            }
            !is_ready && !is_over
        });
        self.proceed_offers(now, effects);
        self.drive_drain(now, effects);
    }

    /// Calls that wait for a position are answered after readers of watches were given what changed there.
    fn settle_host(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !self.watchers.owes() {
            self.host.settle(now, &self.replica, effects);
        }
    }

    /// Goes on with what is done a few names at a time.
    fn proceed(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let names = self.config.tuning.slice_names;
        if self.catchup.is_busy() && !self.replica.is_busy() {
            let applied = self.catchup.proceed(now.time, &mut self.replica, names);
            self.take_log(now, applied, effects);
            return;
        }
        let proceeded = self.replica.proceed(names);
        if let Some(position) = proceeded.installed {
            let names = self.replica.count();
            effects.push(Effect::Event(Event::SnapshotInstalled { position, names }));
            self.host.many_changed();
        }
        self.on_applied(&proceeded.applied, effects);
    }

    fn take_log(&mut self, now: Now, applied: Result<Applied, CorruptBatch>, effects: &mut Vec<Effect>) {
        self.take_applied(now, applied, effects);
        if let Some((key, value)) = self.catchup.take_contradiction() {
            let lineage = LineageNumber::of(self.replica.position().0);
            effects.push(Effect::Tell(Tell::Contradicted { lineage, key, value }));
        }
    }

    fn sources(&self) -> Sources {
        let leader = self.leader().filter(|(_, node)| **node != self.config.me).map(|(_, node)| node.clone());
        let is_synced = |node: &&NodeName| {
            self.view.members.get(*node).is_some_and(|row| row.synced) && leader.as_ref() != Some(*node)
        };
        let synced = self.linked.iter().filter(is_synced).cloned().collect();
        let epoch = self.following.as_ref().map(|(epoch, _)| *epoch).unwrap_or_default();
        let others = self.linked.to_vec();
        Sources { leader, is_taking_over: self.handoff.is_some(), synced, others, epoch }
    }

    /// When to be woken at the latest.
    pub fn wakes_at(&self, now: Time) -> Time {
        let mut at = now + Duration::from_secs(1);
        if let Some(leader) = &self.leader {
            at = at.min(self.trim.wakes_at().max(now)).min(leader.wakes_at().unwrap_or(at));
        }
        if let Some(handoff) = &self.handoff {
            at = at.min(handoff.wakes_at().unwrap_or(at));
        }
        let sends_on = self.host.has_more_to_send() && !self.drain.has_left();
        if self.replica.is_busy()
            || self.catchup.is_busy()
            || self.walks.is_busy(&self.replica)
            || self.host.wants_a_turn()
            || sends_on
            || self.watchers.owes()
        {
            return now;
        }
        let is_waiting = self.host.is_waiting()
            || self.reads.is_waiting()
            || self.says_applied_at().is_some()
            || !self.ready.is_empty()
            || self.drain.is_waiting()
            || !self.catchup.is_complete(&self.replica)
            || (!self.is_synced() && self.view.me.is_some());
        if is_waiting { at.min(now + MEMBER_TICK) } else { at }
    }
}
