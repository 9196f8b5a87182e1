//! Clients: what they ask, what they are told, and what is to be kept for them.

use std::{collections::BTreeMap, time::Duration};

use callsign::{
    Meta, Name,
    cores::{Answer, Call, CallId, Input, LeavingInput, OnLapse, OnTake, Queue, StartedAs, TakenAs},
};
use callsign_store::ids::{Incarnation, Position, SessionNumber};
use callsign_transport::Kind;
use serde::{Deserialize, Serialize};

use super::{
    CallerRegistration, NameId, NodeId, World,
    groups::{name_of_member, number_of_member},
    starts::START_LIMIT,
};

/// How long a client waits.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(4);

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Want {
    /// A name for a new actor.
    Register {
        /// The number of the name.
        name: u8,
        /// Whether the actor is stopped when the session lapses.
        stops: bool,
    },
    /// A name for the actor that was last registered on that node.
    RegisterAgain {
        /// The number of the name.
        name: u8,
    },
    /// A name for the actor for which another one was asked last on that node, and is not decided.
    RegisterBeside {
        /// The number of the name.
        name: u8,
    },
    /// A name for a new actor, by a client that asks again when its node's session is trusted again.
    RegisterPatiently {
        /// The number of the name.
        name: u8,
    },
    /// A name for an actor that is started then, unless somebody else does.
    Start {
        /// The number of the name.
        name: u8,
        /// Whether the actor is stopped when the session lapses.
        stops: bool,
    },
    /// To take a name, for a new actor, from the one that holds it as the node's replica says.
    Take {
        /// The number of the name.
        name: u8,
        /// Whether the actor is stopped when the session lapses.
        stops: bool,
    },
    /// To have a name of this node taken by another one.
    Offer {
        /// The number of the name.
        name: u8,
        /// Which node.
        to: NodeId,
    },
    /// To be a member of a group, with a new actor, or with one that left, or that this node registered.
    Join {
        /// The number of the group.
        group: u8,
        /// Not with a new actor.
        again: bool,
    },
    /// A place in a semaphore, for a new actor.
    Acquire {
        /// The number of the semaphore.
        semaphore: u8,
        /// How many may hold it.
        limit: u8,
    },
    /// To leave a group or a semaphore.
    Withdraw {
        /// By the token of a membership that this node has left before.
        stale: bool,
    },
    /// To give a name up.
    Unregister {
        /// The number of the name.
        name: u8,
    },
    /// To say something else of the name that this node holds.
    Update {
        /// The number of the name.
        name: u8,
        /// Only if it is at the revision that the node's own replica shows.
        guarded: bool,
    },
    /// To know who holds a name, now.
    Consistent {
        /// The number of the name.
        name: u8,
    },
    /// To know who holds a name, as this node knows it.
    Lookup {
        /// The number of the name.
        name: u8,
    },
}

impl Want {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Register { .. } => "register",
            Self::RegisterAgain { .. } => "register again",
            Self::RegisterBeside { .. } => "register beside",
            Self::RegisterPatiently { .. } => "register patiently",
            Self::Start { .. } => "start an actor",
            Self::Take { .. } => "take",
            Self::Offer { .. } => "offer",
            Self::Join { .. } => "join a group",
            Self::Acquire { .. } => "acquire a place",
            Self::Withdraw { .. } => "leave a group",
            Self::Unregister { .. } => "unregister",
            Self::Update { .. } => "update",
            Self::Consistent { .. } => "consistent lookup",
            Self::Lookup { .. } => "lookup",
        }
    }

    /// Whether it asks for a name.
    pub fn registers(&self) -> bool {
        matches!(
            self,
            Self::Register { .. }
                | Self::RegisterAgain { .. }
                | Self::RegisterBeside { .. }
                | Self::RegisterPatiently { .. }
                | Self::Start { .. }
                | Self::Take { .. }
                | Self::Join { .. }
                | Self::Acquire { .. }
        )
    }

    /// The number of the name, or of the group.
    pub fn name(&self) -> u8 {
        match self {
            Self::Join { group, .. } => *group,
            Self::Acquire { semaphore, .. } => *semaphore,
            Self::Withdraw { .. } => 0,
            Self::Register { name, .. }
            | Self::RegisterAgain { name }
            | Self::RegisterBeside { name }
            | Self::RegisterPatiently { name }
            | Self::Start { name, .. }
            | Self::Take { name, .. }
            | Self::Offer { name, .. }
            | Self::Unregister { name }
            | Self::Update { name, .. }
            | Self::Consistent { name }
            | Self::Lookup { name } => *name,
        }
    }
}

/// A call that is not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// Where.
    pub node: NodeId,
    /// What.
    pub want: Want,
    /// For which actor; 0 if for none.
    pub actor: u64,
    /// Its client or its actor has gone, or the name was given up after: a grant is not to be kept.
    pub is_void: bool,
}

/// A name that was granted, and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantedName {
    /// The node.
    pub node: NodeId,
    /// The incarnation of its process.
    pub incarnation: Incarnation,
    /// The session.
    pub session: SessionNumber,
    /// The actor.
    pub actor: u64,
    /// The fencing token.
    pub token: Position,
}

/// All grants that are to be kept.
pub(super) type Granted = BTreeMap<NameId, GrantedName>;

/// What an answer grants to its caller.
pub(super) fn granted_by(answer: &Answer) -> Option<&callsign::cores::Granted> {
    match answer {
        Answer::Registered(Ok(granted))
        | Answer::Started(Ok(StartedAs::Ours(granted)))
        | Answer::Taken(Ok(TakenAs { granted, .. })) => Some(granted),
        _ => None,
    }
}

/// The text of a name.
pub fn name_of(number: u8) -> Name {
    format!("n{number}").into()
}

/// The same, or the name of a membership.
pub fn name_of_id(id: NameId) -> Name {
    u8::try_from(id).map_or_else(|_| name_of_member(id), name_of)
}

/// Metadata that only this call brings.
fn said(call: u64) -> Meta {
    // A number is a few bytes, and no more can be wrong with it.
    Meta::new(&call).expect("a number is metadata")
}

/// The number of a name.
pub fn number_of(name: &str) -> NameId {
    let of_user = || name.get(1..).and_then(|digits| digits.parse().ok());
    number_of_member(name).or_else(of_user).unwrap_or(NameId::MAX)
}

impl World {
    pub(super) fn call(&mut self, node: NodeId, want: &Want) -> bool {
        let Some(process) = self.awake(node) else { return false };
        if process.parts.is_none() {
            return false;
        }
        let incarnation = process.incarnation;
        let name = name_of(want.name());
        let mut expected = None;
        let mut id_of = None;
        // Most say nothing of themselves.
        let meta = (self.next_call % 4 == 1).then(|| said(self.next_call));
        // Some give their names to nobody.
        let on_take = match self.next_call {
            nth if nth.is_multiple_of(5) => OnTake::Refuse,
            nth if self.setup.offers && !nth.is_multiple_of(7) => OnTake::Offer,
            _ => OnTake::Give,
        };
        let mut taken = None;
        let (call, actor) = match want {
            Want::Register { stops, .. } => {
                let actor = self.next_actor;
                self.next_actor += 1;
                let on_lapse = if *stops { OnLapse::Stop } else { OnLapse::Suspend };
                (Call::Register { name, actor, kind: Kind(7), on_lapse, on_take, meta }, actor)
            }
            Want::RegisterPatiently { .. } => {
                let actor = self.next_actor;
                self.next_actor += 1;
                (
                    Call::Register { name, actor, kind: Kind(7), on_lapse: OnLapse::Suspend, on_take, meta },
                    actor,
                )
            }
            Want::RegisterAgain { .. } => {
                let held = self.granted.values().filter(|grant| grant.node == node);
                let Some(actor) = held.map(|grant| grant.actor).max() else { return false };
                (
                    Call::Register { name, actor, kind: Kind(7), on_lapse: OnLapse::Suspend, on_take, meta },
                    actor,
                )
            }
            Want::RegisterBeside { .. } => {
                // One that is yet to be started asks for nothing.
                let is_there = |asked: &Asked| !matches!(asked.want, Want::Start { .. }) && asked.actor != 0;
                let asks = |asked: &&Asked| asked.node == node && is_there(asked) && !asked.is_void;
                let Some(actor) = self.asked.values().filter(asks).map(|asked| asked.actor).max() else {
                    return false;
                };
                (
                    Call::Register { name, actor, kind: Kind(7), on_lapse: OnLapse::Suspend, on_take, meta },
                    actor,
                )
            }
            Want::Start { stops, .. } => {
                let actor = self.next_actor;
                self.next_actor += 1;
                let on_lapse = if *stops { OnLapse::Stop } else { OnLapse::Suspend };
                let (kind, limit, patience) = (Kind(7), START_LIMIT, CLIENT_TIMEOUT);
                (Call::Start { name, kind, on_lapse, on_take, meta, limit, patience }, actor)
            }
            Want::Take { stops, .. } => {
                let parts = self.process(node).and_then(|process| process.parts.as_ref());
                let row = parts.and_then(|parts| parts.core.member().replica().row(&name));
                let Some(token) = row.map(|row| row.position) else { return false };
                taken = Some(token);
                let actor = self.next_actor;
                self.next_actor += 1;
                let on_lapse = if *stops { OnLapse::Stop } else { OnLapse::Suspend };
                (Call::Take { name, token, actor, kind: Kind(7), on_lapse, on_take }, actor)
            }
            Want::Offer { to, .. } => {
                let Some(to) = self.setup.names.get(usize::from(*to)).cloned() else { return false };
                (Call::Offer { name, to }, 0)
            }
            Want::Join { .. } | Want::Acquire { .. } | Want::Withdraw { .. } => {
                let Some((call, actor, name, token)) = self.group_call(node, want) else { return false };
                id_of = Some((name, token));
                (call, actor)
            }
            Want::Unregister { name: number } => {
                self.granted.retain(|held, grant| *held != NameId::from(*number) || grant.node != node);
                for asked in self.asked.values_mut() {
                    asked.is_void |= asked.node == node && asked.want.may_be(0, (*number).into());
                }
                (Call::Unregister { name }, 0)
            }
            Want::Update { guarded, name: number } => {
                let token = self.claimed_as(node, *number);
                let seen = self.process(node).and_then(|process| process.parts.as_ref());
                let seen = seen.and_then(|parts| parts.core.member().replica().row(&name));
                let seen = seen.filter(|row| row.position == token && *guarded);
                expected = seen.map(|row| row.revision());
                // Each says something that nobody else says. Every fourth takes it back.
                let meta = (!self.next_call.is_multiple_of(4)).then(|| said(self.next_call));
                (Call::Update { name, token, revision: expected, meta }, 0)
            }
            Want::Consistent { .. } => (Call::Consistent { name }, 0),
            Want::Lookup { name } => {
                self.look_up(node, *name);
                return true;
            }
        };
        if !matches!(want, Want::Start { .. }) {
            self.export(node, actor);
        }
        let id = self.call_id();
        let is_void = self.is_overtaking(node, want);
        self.asked.insert(id, Asked { node, want: want.clone(), actor, is_void });
        let (name, target) = id_of.unwrap_or_else(|| {
            (want.name().into(), taken.unwrap_or_else(|| self.claimed_as(node, want.name())))
        });
        self.oracle.asked(id, node, incarnation, (want, name), (actor, target, expected));
        if matches!(want, Want::RegisterPatiently { .. }) {
            self.call_patiently(id, node, call);
        } else {
            self.tell_member(node, Queue::OfMember, Input::Call { id, call, wait: CLIENT_TIMEOUT });
        }
        self.settle(node);
        true
    }

    /// Whether a call may be done before an `unregister` of the same name that was asked for first, which may then take away what was
    /// granted. Who waits for trust asks by another queue; and a name that is on its way to another actor is asked for at once, while
    /// an `unregister` waits for what becomes of it.
    pub(super) fn is_overtaking(&self, node: NodeId, want: &Want) -> bool {
        let (Want::RegisterPatiently { name } | Want::Take { name, .. }) = want else { return false };
        let gives_up = Want::Unregister { name: *name };
        self.asked.values().any(|asked| asked.node == node && asked.want == gives_up)
    }

    /// The token under which a node claims a name.
    fn claimed_as(&self, node: NodeId, name: u8) -> Position {
        let parts = self.process(node).and_then(|process| process.parts.as_ref());
        let mut claims = parts.into_iter().flat_map(|parts| parts.core.member().holds());
        claims
            .find(|(held, ..)| number_of(held) == NameId::from(name))
            .map_or(Position(0), |(_, _, token)| token)
    }

    /// Looks a name up as `Registry::whereis` does: only on a member that is synced and trusts its session.
    fn look_up(&mut self, node: NodeId, name: u8) {
        let now = self.local(node);
        let Some(process) = self.process(node) else { return };
        let Some(parts) = process.parts.as_ref() else { return };
        if process.trusted(now).is_none() || !parts.core.member().is_synced() {
            return;
        }
        let replica = parts.core.member().replica();
        let found = replica.row(&name_of(name)).map(|row| row.position);
        let (position, incarnation) = (replica.position(), process.incarnation);
        self.oracle.looked_up(node, incarnation, name.into(), position, found);
    }

    pub(super) fn call_id(&mut self) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        id
    }

    /// The member has decided to tell a caller of a grant. What happens until the caller hears it is another matter.
    pub(super) fn grants(
        &mut self,
        node: NodeId,
        call: CallId,
        (token, session): (Position, SessionNumber),
        is_trusted: bool,
    ) {
        let Some((want, actor)) = self.asked.get(&call).map(|asked| (asked.want.clone(), asked.actor)) else {
            return;
        };
        self.oracle.grant_told(node, is_trusted);
        let number = self.granted_name(node, &want, actor, session);
        // After your own register returns, your local `whereis` sees it.
        let parts = self.process(node).and_then(|process| process.parts.as_ref());
        let seen = parts.and_then(|parts| parts.core.member().replica().row(&name_of_id(number)));
        let has_it = seen.is_some_and(|row| row.position == token);
        self.oracle.own_register_seen(node, number, token, has_it);
    }

    pub(super) fn answered(&mut self, node: NodeId, call: CallId, answer: Answer) {
        if let Some(aside) = self.asides.get_mut(&call) {
            *aside = Some(answer);
        } else if !self.is_for_a_patient(call, &answer) {
            self.answer_client(node, call, answer, true);
        }
    }

    /// A client hears the answer to its call. `is_claim` says that what was granted has not ended meanwhile.
    pub(super) fn answer_client(&mut self, node: NodeId, call: CallId, answer: Answer, is_claim: bool) {
        let asked = self.asked.remove(&call);
        self.answer_offered(node, call, asked.as_ref(), &answer);
        match answer {
            Answer::Left if asked.is_none() => {
                if let Some(incarnation) = self.process(node).map(|process| process.incarnation) {
                    self.oracle.member_left(incarnation, self.local(node));
                }
                let registry = self.setup.registry.clone();
                return self.step_leaving(node, LeavingInput::Dropped(registry, true));
            }
            Answer::Drained(drained) => {
                let Some(incarnation) = self.process(node).map(|process| process.incarnation) else { return };
                let mut oracle = std::mem::take(&mut self.oracle);
                oracle.drained(node, incarnation, &drained);
                oracle.drained_row(self, node, &drained);
                oracle.drained_names(self, node, &drained);
                self.oracle = oracle;
                let registry = self.setup.registry.clone();
                return self.step_leaving(node, LeavingInput::Drained(registry, drained));
            }
            _ => {}
        }
        if let Answer::Offered(result) = &answer {
            let mut oracle = std::mem::take(&mut self.oracle);
            oracle.offer_told(self, call, result);
            self.oracle = oracle;
        }
        let incarnation = self.process(node).map(|process| process.incarnation);
        let granted = granted_by(&answer);
        let name_of = |asked: &Asked, granted: &callsign::cores::Granted| {
            self.granted_name(node, &asked.want, asked.actor, granted.session)
        };
        let name = asked.as_ref().zip(granted).map(|(asked, granted)| name_of(asked, granted));
        if let (Some(asked), Some(granted), Some(name)) = (&asked, granted, name)
            && !asked.is_void
            && let Some(incarnation) = incarnation
        {
            let grant = GrantedName {
                node,
                incarnation,
                session: granted.session,
                actor: asked.actor,
                token: granted.token,
            };
            self.granted.insert(name, grant);
        }
        if let (Some(name), Some(granted), true) = (name, granted, is_claim) {
            let acting =
                CallerRegistration { name, holds: false, token: granted.token, session: granted.session };
            if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                // It may be on its way to another actor already.
                match parts.suspended.get_mut(&granted.claim) {
                    Some(suspended) => *suspended = Some(acting),
                    None => _ = parts.acting.insert(granted.claim, acting),
                }
            }
        }
        self.oracle.answered(call, node, (asked.as_ref(), name), answer);
    }

    /// An actor ends, whoever ended it.
    pub(super) fn actor_ended(&mut self, node: NodeId, actor: u64) {
        self.granted.retain(|_, grant| grant.actor != actor);
        // Nobody joins again with it.
        self.left.retain(|_, left| left.actor != actor);
        for asked in self.asked.values_mut() {
            asked.is_void |= asked.actor == actor;
        }
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
            parts.ended.insert(actor);
        }
        self.refers_to_the_ended(node, actor);
        self.oracle.actor_ended(actor);
        self.tell_member(node, Queue::OfMember, Input::ActorEnded { actor });
    }

    pub(super) fn end_nth_actor(&mut self, node: NodeId, nth: u8) -> bool {
        let Some(parts) = self.awake(node).and_then(|process| process.parts.as_ref()) else { return false };
        let Some(actor) = parts.watched.iter().nth(usize::from(nth)).copied() else { return false };
        self.actor_ended(node, actor);
        self.settle(node);
        true
    }
}
