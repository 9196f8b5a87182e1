//! Steps of cores, and what becomes of their effects: what the drivers do, without deciding anything.

use std::{collections::VecDeque, sync::Arc};

use callsign::{
    Event,
    cores::{Answer, Effect, Input, Message, Now, Tell, Wish},
};
use callsign_elector::ids::NodeName;
use callsign_elector::{
    Time,
    elector::{Effect as ElectorEffect, ElectorEvent, Input as ElectorInput, Notice},
    session::{Effect as SessionEffect, Input as SessionInput, SessionEvent},
};
use callsign_transport::{LinkId, PeerId};

use super::{Acting, CoreId, Internal, NodeId, Op, Queue, Request, World, number_of};
use crate::oracle::{Check, owed};

impl World {
    fn tell(&mut self, node: NodeId, queue: Queue, internal: Internal) {
        if let Some(process) = self.process_mut(node) {
            process.queues[queue as usize].push_back(internal);
        }
    }

    pub(super) fn tell_member(&mut self, node: NodeId, queue: Queue, input: Input) {
        self.tell(node, queue, Internal::Member(input));
    }

    pub(super) fn tell_elector(&mut self, node: NodeId, queue: Queue, notice: Notice) {
        self.tell(node, queue, Internal::Elector(ElectorInput::Notice(notice)));
    }

    fn ask(&mut self, node: NodeId, core: CoreId, id: u64, request: Request) {
        let now = self.local(node);
        let incarnation = self.process(node).map(|process| process.incarnation);
        if let (Some(incarnation), Request::Commit(transaction)) = (incarnation, &request) {
            self.oracle.commit_asked((node, incarnation, core), transaction, now);
        }
        if let Some(process) = self.process_mut(node) {
            process.ops.push(Op { core, id, request, answer: None });
        }
    }

    // ---- the session

    pub(super) fn step_session(&mut self, node: NodeId, input: SessionInput) {
        let now = Time(self.local(node));
        let mut effects = Vec::new();
        let Some(process) = self.process_mut(node) else { return };
        process.session.step(now, input, &mut effects);
        for effect in effects {
            match effect {
                SessionEffect::Read { id, reads } => {
                    self.ask(node, CoreId::Session, id.0, Request::Read(Arc::new(reads)));
                }
                SessionEffect::Commit { id, transaction } => {
                    let mut oracle = std::mem::take(&mut self.oracle);
                    oracle.closes(self, node, &transaction);
                    oracle.raises(self, node, &transaction);
                    self.oracle = oracle;
                    self.ask(node, CoreId::Session, id.0, Request::Commit(Arc::new(transaction)));
                }
                SessionEffect::Prove { node: of, incarnation } => {
                    self.ask(node, CoreId::Session, 0, Request::Prove(of, incarnation));
                }
                SessionEffect::Trust { number, until } => {
                    self.oracle.trusts(node, Some(now.0));
                    if let Some(process) = self.process_mut(node) {
                        process.trust = Some((number, until));
                        let incarnation = process.incarnation;
                        self.oracle.trusts_until(incarnation, until.0);
                    }
                }
                SessionEffect::Lapse => {
                    self.oracle.trusts(node, None);
                    if let Some(process) = self.process_mut(node) {
                        process.trust = None;
                    }
                }
                SessionEffect::Emit(event) => self.on_session_event(node, event),
                SessionEffect::WakeAt(at) => {
                    if let Some(process) = self.process_mut(node) {
                        process.session_wake = Some(at);
                    }
                }
            }
        }
    }

    fn on_session_event(&mut self, node: NodeId, event: SessionEvent) {
        self.oracle.note(node, || format!("session: {event:?}"));
        if matches!(event, SessionEvent::Resumed { .. } | SessionEvent::Lost { .. }) {
            self.oracle.count(Check::Lapsed);
        }
        let is_joined = |world: &Self| world.process(node).is_some_and(|process| process.parts.is_some());
        let was_joined = is_joined(self);
        if matches!(event, SessionEvent::Opened { .. }) {
            self.on_opened(node);
        }
        // A registry that joins is told first how the session is.
        let current = self.process(node).filter(|_| !was_joined).map(|process| process.session.current());
        for event in current.unwrap_or_else(|| vec![event]) {
            if is_joined(self) {
                self.tell_of_session(node, event);
            }
        }
    }

    /// A registry can be joined from now on; where nobody joins later, it is at once.
    fn on_opened(&mut self, node: NodeId) {
        let joins_late = self.setup.joins_late;
        let Some(process) = self.process_mut(node) else { return };
        process.was_opened = true;
        if process.parts.is_none() && !joins_late {
            self.start_parts(node);
        }
    }

    /// Tells the parts of a registry what became of the session.
    pub(super) fn tell_of_session(&mut self, node: NodeId, event: SessionEvent) {
        let (notice, input) = Input::of_session(event);
        if let Some(notice) = notice {
            self.tell_elector(node, Queue::OfSession, notice);
        }
        if let Some(input) = input {
            self.tell_member(node, Queue::OfSession, input);
        }
    }

    // ---- the elector

    pub(super) fn step_elector(&mut self, node: NodeId, input: ElectorInput) {
        let now = Time(self.local(node));
        let mut effects = Vec::new();
        let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) else { return };
        parts.elector.step(now, input, &mut effects);
        for effect in effects {
            match effect {
                ElectorEffect::Read { id, reads } => {
                    self.ask(node, CoreId::Elector, id.0, Request::Read(Arc::new(reads)));
                }
                ElectorEffect::Commit { id, transaction } => {
                    self.ask(node, CoreId::Elector, id.0, Request::Commit(Arc::new(transaction)));
                }
                ElectorEffect::Watch { keys, since } => {
                    let fired = keys.iter().any(|key| self.store.changed_since(key, since));
                    if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                        parts.watch = Some((keys, since));
                        parts.fired = fired;
                    }
                }
                ElectorEffect::WakeAt(at) => {
                    if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                        parts.elector_wake = Some(at);
                    }
                }
                ElectorEffect::Emit(event) => self.on_elector_event(node, event),
            }
        }
    }

    fn on_elector_event(&mut self, node: NodeId, event: ElectorEvent) {
        match event {
            ElectorEvent::View(view) => self.tell_member(node, Queue::OfElector, Input::View(view)),
            ElectorEvent::Assume { leader, epoch } => {
                self.tell_member(node, Queue::OfElector, Input::Assume { leader, epoch });
            }
            ElectorEvent::Missing { since, facts } => {
                self.oracle.note(node, || format!("elector: missing {facts:?}"));
                self.tell(node, Queue::OfElector, Internal::Session(SessionInput::Missing { since, facts }));
            }
            ElectorEvent::Left => {
                let mut oracle = std::mem::take(&mut self.oracle);
                oracle.elector_left(self, node);
                self.oracle = oracle;
                self.left(node);
            }
            event => {
                self.oracle.elector_event(node, &event);
                self.oracle.note(node, || format!("elector: {event:?}"));
            }
        }
    }

    // ---- the member

    fn member_now(&self, node: NodeId) -> Now {
        let now = self.local(node);
        let trusted = self.process(node).and_then(|process| process.trusted(now));
        Now { time: Time(now), trusted }
    }

    /// The member takes an input. What it asks for is carried out when it has taken all that wait, as in the driver.
    pub(super) fn step_member(&mut self, node: NodeId, input: Input) {
        self.note_for_driver(node, &input);
        let owed = self.process(node).and_then(|process| owed(process, &input));
        let begin = self.asked(node).len();
        let lineage = match &input {
            Input::Lineage(lineage) => Some(*lineage),
            _ => None,
        };
        self.step_core(node, input);
        if let (Some(process), Some(lineage)) = (self.process(node), lineage) {
            let incarnation = process.incarnation;
            self.oracle.began_anew(node, incarnation, lineage);
        }
        if let Some(owed) = owed {
            let asked = self.asked(node)[begin..].to_vec();
            self.oracle.paid(node, &owed, &asked);
        }
    }

    /// What the member has asked for and was not carried out yet.
    fn asked(&self, node: NodeId) -> &[Effect] {
        let parts = self.process(node).and_then(|process| process.parts.as_ref());
        parts.map_or(&[], |parts| &parts.effects)
    }

    fn step_core(&mut self, node: NodeId, input: Input) {
        let now = self.member_now(node);
        let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) else { return };
        parts.dirty = true;
        let begin = parts.effects.len();
        parts.member.step(now, input, &mut parts.effects);
        let mut granted = Vec::new();
        for effect in parts.effects.iter().skip(begin) {
            match effect {
                Effect::Send { to, .. } => {
                    parts.sends.push_back((to.clone(), parts.link_of.get(to).copied()));
                }
                Effect::Answer { call, answer: Answer::Registered(Ok(grant)) } => {
                    granted.push((*call, grant.token, now.trusted == Some(grant.session)));
                }
                _ => {}
            }
        }
        for (call, token, is_trusted) in granted {
            self.grants(node, call, token, is_trusted);
        }
    }

    /// Tells the member that no more waits, and carries out what it asked for since it was last told so.
    pub(super) fn idle(&mut self, node: NodeId) -> bool {
        let Some(process) = self.process(node).filter(|process| !process.paused) else { return false };
        if !process.parts.as_ref().is_some_and(|parts| parts.dirty) {
            return false;
        }
        self.step_core(node, Input::Idle);
        let now = Time(self.local(node));
        let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) else {
            return false;
        };
        parts.dirty = false;
        parts.member_wake = parts.member.wakes_at(now);
        let (effects, sends) = (std::mem::take(&mut parts.effects), std::mem::take(&mut parts.sends));
        self.check_sends(node, &effects, sends);
        self.carry_member(node, effects);
        true
    }

    /// A message goes over the link over which it was asked for: one that comes up later leads to another process, or brings it
    /// out of turn.
    fn check_sends(
        &mut self,
        node: NodeId,
        effects: &[Effect],
        mut asked: VecDeque<(NodeName, Option<LinkId>)>,
    ) {
        for effect in effects {
            let Effect::Send { to, link, message } = effect else { continue };
            self.oracle.count(Check::SentAsAsked);
            let over = link.map(LinkId);
            let is_as_asked =
                std::iter::from_fn(|| asked.pop_front()).any(|(node, link)| node == *to && link == over);
            if !is_as_asked {
                let what = format!(
                    "node {node} sends {} to {to} over {over:?}, and asked for another link",
                    message.kind()
                );
                return self.oracle.fail(Check::SentAsAsked, || what);
            }
        }
    }

    /// What the driver keeps itself to carry out effects.
    fn note_for_driver(&mut self, node: NodeId, input: &Input) {
        let Some(process) = self.process_mut(node) else { return };
        let Some(parts) = process.parts.as_mut() else { return };
        match input {
            Input::LinkUp { node: other, link, .. } => {
                parts.link_of.insert(other.clone(), LinkId(*link));
            }
            Input::LinkDown { node: other, .. } => {
                parts.link_of.remove(other);
            }
            Input::View(view) => {
                let me = self.setup.names[usize::from(node)].clone();
                let members: Vec<_> =
                    view.members.iter().map(|(node, row)| (node.clone(), row.address.clone())).collect();
                let mut confirmed = Vec::new();
                for (_, row) in view.members.iter().filter(|(other, _)| **other != me) {
                    if view.sessions.is_open(&row.session) {
                        let session = &row.session;
                        confirmed.push(PeerId::new(session.node.as_str(), session.incarnation.0));
                    }
                }
                for peer in confirmed {
                    self.confirm(node, peer);
                }
                if self.process(node).is_some_and(|process| process.peers != members) {
                    self.set_peers(node, members);
                }
            }
            _ => {}
        }
    }

    fn carry_member(&mut self, node: NodeId, effects: Vec<Effect>) {
        let Some(incarnation) = self.process(node).map(|process| process.incarnation) else { return };
        for effect in effects {
            self.oracle.done_by(node, incarnation, &effect);
            match effect {
                Effect::Send { to, link, message } => {
                    self.check_flagged(node, &message);
                    self.send(node, to, link.map(LinkId), message);
                }
                Effect::Read { id, reads } => {
                    self.ask(node, CoreId::Member, id.0, Request::Read(Arc::new(reads)));
                }
                Effect::Commit { id, transaction } => {
                    let mut oracle = std::mem::take(&mut self.oracle);
                    if let Some(parts) = self.process(node).and_then(|process| process.parts.as_ref()) {
                        oracle.flies(self, node, &transaction, parts.member.view());
                    }
                    self.oracle = oracle;
                    self.ask(node, CoreId::Member, id.0, Request::Commit(Arc::new(transaction)));
                }
                Effect::Answer { call, answer } => self.answered(node, call, answer),
                Effect::Watch { actor } => {
                    let parts = self.process(node).and_then(|process| process.parts.as_ref());
                    if parts.is_some_and(|parts| parts.ended.contains(&actor)) {
                        self.tell_member(node, Queue::OfMember, Input::ActorEnded { actor });
                    }
                    if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                        parts.watched.insert(actor);
                    }
                }
                Effect::Unwatch { actor } => {
                    if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                        parts.watched.remove(&actor);
                    }
                }
                Effect::Stop { actor } => {
                    self.oracle.told(self.is_watched(node, actor), node, actor);
                    self.actor_ended(node, actor);
                }
                Effect::Notify { actor, .. } => {
                    self.oracle.told(self.is_watched(node, actor), node, actor);
                }
                Effect::Flag { claim } => {
                    if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                        parts.acting.remove(&claim);
                    }
                }
                // Whoever listens changes nothing here.
                Effect::Same { .. } | Effect::Forget { .. } => {}
                Effect::Tell(tell) => {
                    if let Tell::Synced(epoch, position) = tell {
                        self.oracle.synced(node, epoch, position);
                    }
                    if matches!(tell, Tell::Leave | Tell::Rejoin { empty: true }) {
                        let acting = self.acting_on(node, |_| true);
                        self.oracle.gives_up(node, acting.as_ref());
                    }
                    self.tell_elector(node, Queue::OfMember, tell.into());
                }
                Effect::Suspect { node: of, incarnation } => {
                    let input = SessionInput::Suspect { node: of, incarnation };
                    self.tell(node, Queue::OfMember, Internal::Session(input));
                }
                Effect::Event(event) => {
                    self.oracle.note(node, || format!("member: {event:?}"));
                    let leads = match &event {
                        Event::Serving { .. } => Some(true),
                        Event::Deposed { .. } => Some(false),
                        _ => None,
                    };
                    self.oracle.member_event(node, &event);
                    if let Some(leads) = leads {
                        self.tell(node, Queue::OfMember, Internal::Session(SessionInput::Leads(leads)));
                    }
                }
            }
        }
    }

    /// A registration of a node whose check passes.
    pub(crate) fn acting_on(&self, node: NodeId, is_it: impl Fn(&Acting) -> bool) -> Option<Acting> {
        let process = self.process(node)?;
        process.acting(self.local(node)).find(|acting| is_it(acting)).cloned()
    }

    /// Whoever asks to free a name has flagged the claim on it.
    fn check_flagged(&mut self, node: NodeId, message: &Message) {
        let Message::Requests { requests, .. } = message else { return };
        for request in requests {
            if let Wish::Unregister { position } = request.wish {
                let name = number_of(&request.name);
                let acting = self.acting_on(node, |acting| (acting.name, acting.token) == (name, position));
                self.oracle.gives_up(node, acting.as_ref());
            }
        }
    }

    fn is_watched(&self, node: NodeId, actor: u64) -> bool {
        let parts = self.process(node).and_then(|process| process.parts.as_ref());
        parts.is_some_and(|parts| parts.watched.contains(&actor))
    }
}
