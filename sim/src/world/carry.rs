//! Steps of cores, and what becomes of their effects: what the drivers do, without deciding anything.

use std::{collections::VecDeque, sync::Arc};

use callsign::cores::{
    Answer, Call, Effect, Event, Input, Message, NodeInput, Now, Queue, RegistryEffect, Tell, Told, Wish,
};
use callsign_elector::{
    elector::{Effect as ElectorEffect, ElectorEvent, Input as ElectorInput, Notice},
    session::{Effect as SessionEffect, Input as SessionInput, SessionEvent},
};
use callsign_store::Time;
use callsign_store::ids::NodeName;
use callsign_transport::LinkId;

use super::{CallerRegistration, CoreId, NodeId, Request, StoreOp, World, calls::granted_by, number_of};
use crate::oracle::{Check, owed};

impl World {
    /// Has something wait for a core of the registry. Nobody hears it where none is joined.
    pub(super) fn tell(&mut self, node: NodeId, queue: Queue, told: Told) {
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
            parts.core.put(queue, told);
        }
    }

    pub(super) fn tell_member(&mut self, node: NodeId, queue: Queue, input: Input) {
        self.tell(node, queue, Told::Member(input));
    }

    pub(super) fn tell_elector(&mut self, node: NodeId, queue: Queue, notice: Notice) {
        self.tell(node, queue, Told::Elector(ElectorInput::Notice(notice)));
    }

    fn ask(&mut self, node: NodeId, core: CoreId, id: u64, request: Request) {
        let now = self.local(node);
        let incarnation = self.process(node).map(|process| process.incarnation);
        match (incarnation, &request) {
            (Some(incarnation), Request::Commit(transaction)) => {
                self.oracle.commit_asked((node, incarnation, core), transaction, now);
            }
            (Some(incarnation), Request::Read(reads)) if core == CoreId::Session => {
                self.oracle.session_reads(incarnation, reads, now);
            }
            _ => {}
        }
        if let Some(process) = self.process_mut(node) {
            process.ops.push(StoreOp { core, id, request, answer: None });
        }
    }

    // ---- the session

    pub(super) fn step_session(&mut self, node: NodeId, input: SessionInput) {
        self.step_node(node, NodeInput::Session(input));
    }

    pub(super) fn carry_session(&mut self, node: NodeId, effect: SessionEffect) {
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
                self.oracle.trusts(node, Some(self.local(node)));
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
            SessionEffect::Emit(event) => self.on_session_event(node, &event),
            SessionEffect::WakeAt(at) => {
                if let Some(process) = self.process_mut(node) {
                    process.session_wake = Some(at);
                }
            }
        }
    }

    /// The registries hear of it by the core. One can be joined once the session was opened.
    fn on_session_event(&mut self, node: NodeId, event: &SessionEvent) {
        self.oracle.note(node, || format!("session: {event:?}"));
        if matches!(event, SessionEvent::Resumed { .. } | SessionEvent::Lost { .. }) {
            self.oracle.count(Check::Lapsed);
        }
        // Where the member hears of it later, it may hear first that a former lapse is over.
        if self.setup.eager && matches!(event, SessionEvent::Lapsed { .. } | SessionEvent::Lost { .. }) {
            let parts = self.process(node).and_then(|process| process.parts.as_ref());
            let holders: Vec<u64> = parts
                .iter()
                .flat_map(|parts| parts.core.member().holds())
                .map(|(_, actor, _)| actor)
                .filter(|actor| *actor != 0)
                .collect();
            self.oracle.owes_to(node, holders);
        }
        if matches!(event, SessionEvent::Opened { .. }) {
            self.on_opened(node);
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

    // ---- the registry

    /// Steps a core of the registry. What the member asks for is carried out when it has taken all that wait, as in the driver.
    pub(super) fn step_told(&mut self, node: NodeId, told: Told) {
        match told {
            Told::Member(input) if input != Input::Idle => self.step_member(node, input),
            told => self.step_core(node, told),
        }
    }

    fn carry_elector(&mut self, node: NodeId, effect: ElectorEffect) {
        match effect {
            ElectorEffect::Read { id, reads } => {
                self.ask(node, CoreId::Elector, id.0, Request::Read(Arc::new(reads)));
            }
            ElectorEffect::Commit { id, transaction } => {
                self.ask(node, CoreId::Elector, id.0, Request::Commit(Arc::new(transaction)));
            }
            ElectorEffect::Watch { .. } if !self.setup.tells => {}
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

    fn on_elector_event(&mut self, node: NodeId, event: ElectorEvent) {
        match event {
            ElectorEvent::RunHandoff { .. } => {}
            ElectorEvent::View(view) => {
                let mut oracle = std::mem::take(&mut self.oracle);
                oracle.elector_sees(self, node, &view);
                self.oracle = oracle;
            }
            ElectorEvent::Missing { facts, .. } => {
                self.oracle.note(node, || format!("elector: missing {facts:?}"));
            }
            ElectorEvent::Left => {
                let mut oracle = std::mem::take(&mut self.oracle);
                oracle.elector_left(self, node);
                self.oracle = oracle;
            }
            event => {
                self.oracle.elector_event(node, &event);
                self.oracle.note(node, || format!("elector: {event:?}"));
            }
        }
    }

    pub(crate) fn member_now(&self, node: NodeId) -> Now {
        let now = self.local(node);
        let trusted = self.process(node).and_then(|process| process.trusted(now));
        Now { time: Time(now), trusted }
    }

    fn step_member(&mut self, node: NodeId, input: Input) {
        self.note_links(node, &input);
        self.note_declined(node, &input);
        self.note_starts(node, &input);
        let owed = self.process(node).and_then(|process| owed(process, &input));
        let begin = self.asked(node).len();
        let lineage = match &input {
            Input::Lineage(lineage) => Some(*lineage),
            _ => None,
        };
        self.step_core(node, Told::Member(input));
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
        parts.map_or(&[], |parts| parts.core.asked())
    }

    fn step_core(&mut self, node: NodeId, told: Told) {
        let now = self.member_now(node);
        let first = self.setup.watches.then(|| self.setup.names[0].clone());
        let mut oracle = std::mem::take(&mut self.oracle);
        let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) else {
            self.oracle = oracle;
            return;
        };
        let (begin, is_last) = (parts.core.asked().len(), told == Told::Member(Input::Idle));
        let mut effects = Vec::new();
        let is_of_member = if let Told::Member(input) = &told {
            oracle.hears(node, parts.core.member(), input);
            // A start may wait as long again. Takes, offers and reads wait until what is gone is swept.
            if let Input::Call { id, call, wait } = input
                && matches!(
                    call,
                    Call::Register { .. }
                        | Call::Join { .. }
                        | Call::Unregister { .. }
                        | Call::Withdraw { .. }
                        | Call::Update { .. }
                )
            {
                oracle.waits(*id, now.time.0 + *wait);
            }
            true
        } else {
            false
        };
        if let Some(first) = first.as_ref().filter(|_| is_of_member && !is_last) {
            parts.ask_of_readers(now, first);
        }
        // What this step sweeps to the end is given at its end, behind an answer that waits for nothing.
        let waited = parts.core.member().watch_waits();
        parts.core.step(now, told, &mut effects);
        if is_last && first.is_some() {
            let waits = waited || parts.core.member().watch_waits();
            oracle.gives((node, waits), parts, &effects);
        }
        if is_of_member {
            let asked = effects.iter().filter_map(|effect| match effect {
                RegistryEffect::Member(effect) => Some(effect),
                _ => None,
            });
            let is_busy = parts.core.member().owes();
            oracle.says(node, asked.chain(parts.core.asked()).skip(begin), is_busy);
        }
        let carried = effects.iter().filter_map(|effect| match effect {
            RegistryEffect::Member(effect) => Some(effect),
            _ => None,
        });
        let (mut granted, mut started) = (Vec::new(), Vec::new());
        for effect in carried.chain(parts.core.asked()).skip(begin) {
            match effect {
                Effect::Send { to, .. } => {
                    parts.sends.push_back((to.clone(), parts.link_of.get(to).copied()));
                }
                Effect::Answer { call, answer } => {
                    started.extend(matches!(answer, Answer::Started(_)).then(|| answer.clone()));
                    let grant = granted_by(answer);
                    granted.extend(grant.map(|grant| {
                        (*call, (grant.token, grant.session), now.trusted == Some(grant.session))
                    }));
                }
                _ => {}
            }
        }
        let sends = if is_last { std::mem::take(&mut parts.sends) } else { VecDeque::new() };
        self.oracle = oracle;
        for answer in started {
            self.check_started(node, &answer);
        }
        for (call, token, is_trusted) in granted {
            self.grants(node, call, token, is_trusted);
        }
        if is_last {
            self.check_sends(node, &effects, sends);
        }
        self.carry(node, effects);
    }

    /// Tells the member that no more waits, and carries out what it asked for since it was last told so.
    pub(super) fn idle(&mut self, node: NodeId) -> bool {
        let Some(process) = self.process(node).filter(|process| !process.paused) else { return false };
        if !process.parts.as_ref().is_some_and(|parts| parts.core.is_dirty()) {
            return false;
        }
        let now = Time(self.local(node));
        self.step_told(node, Told::Member(Input::Idle));
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
            parts.member_wake = parts.core.member().wakes_at(now);
        }
        true
    }

    fn carry(&mut self, node: NodeId, effects: Vec<RegistryEffect>) {
        let Some(incarnation) = self.process(node).map(|process| process.incarnation) else { return };
        for effect in effects {
            match effect {
                RegistryEffect::Elector(effect) => self.carry_elector(node, effect),
                RegistryEffect::Member(effect) => {
                    self.oracle.done_by(node, incarnation, &effect);
                    self.carry_member(node, effect);
                }
                RegistryEffect::ToNode(input) => self.step_node(node, input),
            }
        }
    }

    /// A message goes over the link over which it was asked for: one that comes up later leads to another process, or brings it
    /// out of turn.
    fn check_sends(
        &mut self,
        node: NodeId,
        effects: &[RegistryEffect],
        mut asked: VecDeque<(NodeName, Option<LinkId>)>,
    ) {
        for effect in effects {
            let RegistryEffect::Member(Effect::Send { to, link, message }) = effect else { continue };
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

    /// Keeps which links the member knows.
    fn note_links(&mut self, node: NodeId, input: &Input) {
        let Some(process) = self.process_mut(node) else { return };
        let Some(parts) = process.parts.as_mut() else { return };
        match input {
            Input::LinkUp { node: other, link, .. } => {
                parts.link_of.insert(other.clone(), LinkId(*link));
            }
            Input::LinkDown { node: other, .. } => {
                parts.link_of.remove(other);
            }
            _ => {}
        }
    }

    fn carry_member(&mut self, node: NodeId, effect: Effect) {
        match effect {
            Effect::Send { to, link, message } => {
                self.check_flagged(node, &message);
                self.note_offer(node, &to, link.map(LinkId), &message);
                self.send(node, to, link.map(LinkId), message);
            }
            Effect::Read { id, reads } => {
                self.ask(node, CoreId::Member, id.0, Request::Read(Arc::new(reads)));
            }
            Effect::Commit { id, transaction } => {
                let mut oracle = std::mem::take(&mut self.oracle);
                if let Some(parts) = self.process(node).and_then(|process| process.parts.as_ref()) {
                    oracle.flies(self, node, &transaction, parts.core.member().view());
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
                    parts.yielded.remove(&actor);
                }
            }
            Effect::Unwatch { actor } => {
                if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                    parts.watched.remove(&actor);
                }
            }
            Effect::Start { name, granted } => self.start_actor(node, name, &granted),
            Effect::Stop { actor } => {
                // One that was started for a name that is lost was never watched.
                let parts = self.process(node).and_then(|process| process.parts.as_ref());
                let is_known = parts.is_some_and(|parts| parts.yielded.contains(&actor));
                self.oracle.told(is_known || self.is_watched(node, actor), node, actor);
                self.actor_ended(node, actor);
            }
            Effect::Notify { actor, notice, .. } => {
                self.oracle.told(self.is_watched(node, actor), node, actor);
                self.oracle.note(node, || format!("actor {actor} is told: {notice:?}"));
            }
            Effect::Holds { claim } => self.place_holds(node, claim),
            Effect::Flag { claim } => {
                self.flag_on_the_way(node, claim);
                if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                    parts.acting.remove(&claim);
                    parts.suspended.remove(&claim);
                }
            }
            Effect::Suspend { claim } => self.suspend(node, claim),
            Effect::Unflag { claim } => self.unflag(node, claim),
            Effect::Offered(offered) => self.take_offered(node, &offered),
            Effect::Give { name, claim, consent, to } => self.give(node, name, (claim, consent), &to),
            // Whoever listens changes nothing here, the session was told by the core, and readers were judged.
            Effect::Same { .. } | Effect::Suspect { .. } | Effect::Observe(_) | Effect::Given { .. } => {}
            Effect::Forget { claim } => self.flag_on_the_way(node, claim),
            Effect::Tell(tell) => {
                if let Tell::Synced(epoch, position) = tell {
                    self.oracle.synced(node, epoch, position);
                }
                if matches!(tell, Tell::Delta(_)) {
                    self.oracle.count(Check::DeltaTold);
                }
                if tell == Tell::Refresh {
                    self.oracle.note(node, || "member: has the store read".to_owned());
                }
                if matches!(tell, Tell::Leave | Tell::Rejoin { empty: true }) {
                    let acting = self.acting_on(node, |_| true);
                    self.oracle.gives_up(node, acting.as_ref());
                }
            }
            Effect::Event(event) => {
                self.oracle.note(node, || format!("member: {event:?}"));
                if event == Event::Draining
                    && let Some(incarnation) = self.process(node).map(|process| process.incarnation)
                {
                    self.oracle.turns_away(incarnation);
                }
                self.oracle.member_event(node, &event);
            }
        }
    }

    /// A registration of a node whose check passes.
    pub(crate) fn acting_on(
        &self,
        node: NodeId,
        is_it: impl Fn(&CallerRegistration) -> bool,
    ) -> Option<CallerRegistration> {
        let process = self.process(node)?;
        process.acting(self.local(node)).find(|acting| is_it(acting)).cloned()
    }

    /// Whoever asks to free a name has flagged the claim on it.
    fn check_flagged(&mut self, node: NodeId, message: &Message) {
        let Message::Requests { requests, .. } = message else { return };
        for request in requests {
            if let Wish::Unregister { position, .. } | Wish::Transfer { position, .. } = request.wish {
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
