//! Steps of cores, and what becomes of their effects: what the drivers do, without deciding anything.

use std::sync::Arc;

use callsign::{
    Event,
    cores::{Effect, Input, Now, Tell},
};
use callsign_elector::{
    Time,
    elector::{Effect as ElectorEffect, ElectorEvent, Input as ElectorInput, Notice},
    record::SessionRecord,
    session::{Effect as SessionEffect, Input as SessionInput, SessionEvent},
};
use callsign_transport::PeerId;

use super::{CoreId, Internal, NodeId, Op, Queue, Request, World};

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
                    self.ask(node, CoreId::Session, id.0, Request::Commit(Arc::new(transaction)));
                }
                SessionEffect::Prove { node: of, incarnation } => {
                    self.ask(node, CoreId::Session, 0, Request::Prove(of, incarnation));
                }
                SessionEffect::Trust { number, until } => {
                    if let Some(process) = self.process_mut(node) {
                        process.trust = Some((number, until));
                    }
                }
                SessionEffect::Lapse => {
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
            self.oracle.count(crate::oracle::Check::Lapsed);
        }
        let (notice, input) = match event {
            SessionEvent::Opened { session } => {
                if self.process(node).is_some_and(|process| process.parts.is_none()) {
                    self.start_parts(node);
                }
                (Notice::Session(Some(session.clone())), Some(Input::SessionOpened(session)))
            }
            SessionEvent::Lapsed { .. } => (Notice::Session(None), Some(Input::SessionLapsed)),
            SessionEvent::Resumed { session } => {
                (Notice::Session(Some(session)), Some(Input::SessionResumed))
            }
            SessionEvent::Lost { .. } => (Notice::Session(None), Some(Input::SessionLost)),
            SessionEvent::PeerClosed(_) => (Notice::Changed, None),
            _ => return,
        };
        if self.process(node).is_none_or(|process| process.parts.is_none()) {
            return;
        }
        self.tell_elector(node, Queue::OfSession, notice);
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
            ElectorEvent::Left => self.left(node),
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

    pub(super) fn step_member(&mut self, node: NodeId, input: Input) {
        let now = self.member_now(node);
        self.note_for_driver(node, &input);
        let mut effects = Vec::new();
        let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) else { return };
        parts.dirty = true;
        parts.member.step(now, input, &mut effects);
        self.carry_member(node, effects);
    }

    /// Tells the member that no more waits.
    pub(super) fn idle(&mut self, node: NodeId) -> bool {
        let now = self.member_now(node);
        let mut effects = Vec::new();
        let Some(process) = self.process_mut(node).filter(|process| !process.paused) else { return false };
        let Some(parts) = process.parts.as_mut().filter(|parts| parts.dirty) else { return false };
        parts.dirty = false;
        parts.member.step(now, Input::Idle, &mut effects);
        parts.member_wake = parts.member.wakes_at(now.time);
        self.carry_member(node, effects);
        true
    }

    /// What the driver keeps itself to carry out effects.
    fn note_for_driver(&mut self, node: NodeId, input: &Input) {
        let Some(process) = self.process_mut(node) else { return };
        let Some(parts) = process.parts.as_mut() else { return };
        match input {
            Input::LinkUp { node: other, link, .. } => {
                parts.link_of.insert(other.clone(), callsign_transport::LinkId(*link));
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
                    let is_open = |record: &SessionRecord| record.is_open_as(&row.session);
                    if view.sessions.get(&row.session.node).is_some_and(is_open) {
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
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(node, to, message),
                Effect::Read { id, reads } => {
                    self.ask(node, CoreId::Member, id.0, Request::Read(Arc::new(reads)));
                }
                Effect::Commit { id, transaction } => {
                    let mut oracle = std::mem::take(&mut self.oracle);
                    if let Some(parts) = self.process(node).and_then(|process| process.parts.as_ref()) {
                        oracle.flies(node, &transaction, parts.member.view());
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
                Effect::Tell(tell) => {
                    if let Tell::Synced(epoch, position) = tell {
                        self.oracle.synced(node, epoch, position);
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

    fn is_watched(&self, node: NodeId, actor: u64) -> bool {
        let parts = self.process(node).and_then(|process| process.parts.as_ref());
        parts.is_some_and(|parts| parts.watched.contains(&actor))
    }
}
