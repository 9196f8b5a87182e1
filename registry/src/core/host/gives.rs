//! Names that actors of this node give to other actors: the side that has them.
//!
//! ```text
//! --asked--> the policy says yes: the claim is flagged --the data--> handed --received--> the leader is asked --transferred--> it ends
//!     | no                            |                       |                                 | kept
//!     v                               '-- fails, too slow, link lost: the flag is taken back <--'
//!  refused                                                    v
//!                                                          refused, for good
//! ```
//!
//! Promises: nobody acts on a claim from the moment at which its name may go to somebody else; once the leader is asked, only its
//! verdict takes the flag back, neither time nor another leader does; a request of a taker is answered once, and the same is said
//! again when it asks again.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Not,
};

use bytes::Bytes;
use callsign_store::planted;

use super::{
    Applied, Arc, CallId, Duration, Effect, Event, GivenUp, Host, Kind, Message, Name, NodeName, Notice, Now,
    OnLapse, OnTake, Open, Position, Replica, SessionId, Table, Time, Verdict, Wish, starts::clip,
};
use crate::core::{
    permitted::{NotPermitted, Permitted},
    taking::{MAX_HANDED_BYTES, TakeRefusal, Taker, Taking},
};

/// How long a claim may be flagged before the leader is asked. Shorter: holders with much to say give nothing. Longer: a name whose
/// taker died is of no use for longer.
const GIVE_LIMIT: Duration = Duration::from_secs(10);

/// How many refusals are remembered. One that is forgotten, and asked for again, may become a consent, which is of no use to a taker that
/// heard it.
const MOST_REFUSALS: usize = 4096;

/// How many names may be on their way at once.
const MOST_GIVEN: usize = 1024;

/// How many bytes are kept for takers at once.
const MOST_BYTES: usize = 64 << 20;

/// A name that is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Giving {
    claim: CallId,
    token: Position,
    taker: Taker,
    actor: u64,
    kind: Kind,
    consent: u64,
    /// The flag is taken back then, and why.
    until: Time,
    why: TakeRefusal,
    stage: GiveStage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GiveStage {
    /// The actor says what goes with the name.
    Asked,
    /// The taker is told.
    Handed(Bytes),
    /// The leader is asked.
    Deciding,
}

/// All of them, and what was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Gives {
    by_name: BTreeMap<Name, Giving>,
    refused: BTreeMap<Taker, TakeRefusal>,
    in_order: VecDeque<Taker>,
    last_consent: u64,
    bytes: usize,
}

impl Gives {
    pub(super) fn is_giving(&self, name: &Name) -> bool {
        self.by_name.contains_key(name)
    }

    /// The names that are on their way, and their tokens here.
    #[cfg(feature = "cores")]
    pub(super) fn tokens(&self) -> impl Iterator<Item = (&Name, Position)> {
        self.by_name.iter().map(|(name, giving)| (name, giving.token))
    }

    pub(super) fn count(&self) -> usize {
        self.by_name.len()
    }

    fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES || self.count() >= MOST_GIVEN
    }

    /// A claim ends with its session, or with its log: nobody has to be told.
    /// Whether the leader was asked, so that nobody here knows where the name is.
    pub(super) fn forget(&mut self, name: &Name) -> bool {
        self.end(name).is_some_and(|giving| giving.stage == GiveStage::Deciding)
    }

    fn end(&mut self, name: &Name) -> Option<Giving> {
        let giving = self.by_name.remove(name)?;
        self.bytes -= giving.bytes();
        Some(giving)
    }

    /// What a taker was told, to be said again.
    fn remember(&mut self, taker: Taker, why: TakeRefusal) {
        if self.refused.insert(taker.clone(), why).is_none() {
            self.in_order.push_back(taker);
        }
        while self.in_order.len() > MOST_REFUSALS
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.refused.remove(&oldest);
        }
    }

    /// The name that goes to this taker.
    fn name_for(&self, taker: &Taker) -> Option<Name> {
        let mut all = self.by_name.iter();
        all.find(|(_, giving)| giving.taker == *taker).map(|(name, _)| name.clone())
    }
}

impl Giving {
    fn bytes(&self) -> usize {
        if let GiveStage::Handed(data) = &self.stage { data.len() } else { 0 }
    }
}

impl Host {
    /// The other side of a transfer says this.
    pub(crate) fn on_taking<T: Table>(
        &mut self,
        now: Now,
        from: &NodeName,
        taking: Taking,
        replica: &Replica<T>,
        permitted: &Permitted,
        effects: &mut Vec<Effect>,
    ) {
        let taking = match taking {
            Taking::Offer(offered) if offered.holder.node == *from => {
                return self.on_offered(now, offered, effects);
            }
            Taking::Declined { holder, number, why } => {
                return self.on_declined(from, &holder, number, why);
            }
            taking => taking,
        };
        // What is lost by this is said again.
        if self.is_busy() {
            return;
        }
        match taking {
            Taking::Ask { taker, holder, name, token, actor, kind } if taker.session.node == *from => {
                let asked = AskedTake { taker, name, token, actor, kind };
                self.on_asked(now, &holder, asked, replica, permitted, effects);
            }
            Taking::Received { taker, consent } if taker.session.node == *from => {
                self.on_received(now, &taker, consent);
            }
            Taking::Over { taker } if taker.session.node == *from => {
                if let Some(name) = self.gives.name_for(&taker) {
                    self.take_back(now, &name, TakeRefusal::TakerGone, replica, effects);
                }
            }
            Taking::Data { taker, holder, consent, data } if holder.node == *from => {
                self.on_handed(now, from, (taker, &holder), (consent, data), effects);
            }
            Taking::Refused { taker, holder, why } if holder.node == *from => {
                self.on_take_refused(now, (&taker, &holder), why, replica, effects);
            }
            // Of somebody who speaks for another.
            _ => {}
        }
    }

    fn on_asked<T: Table>(
        &mut self,
        now: Now,
        holder: &SessionId,
        asked: AskedTake,
        replica: &Replica<T>,
        permitted: &Permitted,
        effects: &mut Vec<Effect>,
    ) {
        let AskedTake { taker, name, token, actor, kind } = asked;
        // In another session this node can say nothing; while it is not trusted it may not flag and unflag.
        if self.session.as_deref() != Some(holder) || !self.is_trusted(now) {
            return;
        }
        if let Some(giving) = self.gives.by_name.get(&name).filter(|giving| giving.taker == taker) {
            if let GiveStage::Handed(data) = &giving.stage {
                let (consent, data) = (giving.consent, data.clone());
                self.hand(taker, consent, data, effects);
            }
            return;
        }
        if let Some(why) = self.gives.refused.get(&taker).cloned() {
            return self.say_no(taker, why, effects);
        }
        let claim = self.claims.get(&name).filter(|claim| claim.position == token);
        let Some(claim) = claim else {
            let is_its = |row: &crate::core::table::Row| row.is_of(&taker.session, taker.number);
            // It has the name already, or what becomes of it here is not known yet.
            if !self.by_name.contains_key(&name) && !replica.row(&name).as_ref().is_some_and(is_its) {
                self.refuse_taker(taker, TakeRefusal::NotHeld, effects);
            }
            return;
        };
        // The leader looks as well, at what it knows then. Here it is looked at before anything is handed out, or flagged.
        let by_certificate = match permitted.check(&taker.session, &name) {
            Err(NotPermitted::Others(allowed)) if !planted!("take-ignores-permits") => {
                Some(TakeRefusal::NotPermitted { allowed: allowed.to_vec() })
            }
            Err(_) | Ok(()) => None,
        };
        let by_certificate = by_certificate.filter(|_| !planted!("kept-and-still-flagged"));
        let refused = match claim {
            _ if by_certificate.is_some() => by_certificate,
            _ if self.by_name.contains_key(&name) || self.gives.is_giving(&name) => Some(TakeRefusal::Busy),
            claim if claim.actor.is_none() => Some(TakeRefusal::Starting),
            claim if claim.on_take == OnTake::Refuse => Some(TakeRefusal::NotGiven),
            claim if claim.kind != kind => Some(TakeRefusal::OtherMessages),
            _ => self.gives.is_full().then_some(TakeRefusal::Overloaded),
        };
        if let Some(why) = refused {
            return self.refuse_taker(taker, why, effects);
        }
        let claim = claim.id;
        self.gives.last_consent += 1;
        let consent = self.gives.last_consent;
        let to = taker.session.node.clone();
        let (until, why, stage) =
            (now.time + GIVE_LIMIT, TakeRefusal::TooSlow { limit: GIVE_LIMIT }, GiveStage::Asked);
        let giving = Giving { claim, token, taker, actor, kind, consent, until, why, stage };
        self.gives.by_name.insert(name.clone(), giving);
        if !planted!("consent-without-flag") {
            effects.push(Effect::Suspend { claim });
        }
        effects.push(Effect::Give { name, claim, consent, to });
    }

    fn hand(&self, taker: Taker, consent: u64, data: Bytes, effects: &mut Vec<Effect>) {
        let Some(holder) = self.session.clone() else { return };
        let to = taker.session.node.clone();
        effects.push(Effect::send(to, Message::Take(Taking::Data { taker, holder, consent, data })));
    }

    fn say_no(&self, taker: Taker, why: TakeRefusal, effects: &mut Vec<Effect>) {
        let Some(holder) = self.session.clone() else { return };
        let to = taker.session.node.clone();
        effects.push(Effect::send(to, Message::Take(Taking::Refused { taker, holder, why })));
    }

    fn refuse_taker(&mut self, taker: Taker, why: TakeRefusal, effects: &mut Vec<Effect>) {
        self.gives.remember(taker.clone(), why.clone());
        self.say_no(taker, why, effects);
    }

    /// The actor has said what goes with the name, or that it gives nothing.
    pub(crate) fn on_given<T: Table>(
        &mut self,
        now: Now,
        (name, consent): (Name, u64),
        data: Result<Bytes, String>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let giving = self.gives.by_name.get(&name);
        let Some(giving) = giving.filter(|it| it.consent == consent && it.stage == GiveStage::Asked) else {
            return;
        };
        let taker = giving.taker.clone();
        match data {
            Ok(data) if data.len() <= MAX_HANDED_BYTES => {
                self.gives.bytes += data.len();
                if let Some(giving) = self.gives.by_name.get_mut(&name) {
                    giving.stage = GiveStage::Handed(data.clone());
                }
                self.hand(taker.clone(), consent, data, effects);
                if planted!("leader-asked-before-the-taker-has-it") {
                    self.on_received(now, &taker, consent);
                }
            }
            Ok(data) => {
                let why = TakeRefusal::TooLarge { bytes: data.len() };
                self.gives_nothing(now, &name, why, replica, effects);
            }
            Err(reason) => {
                self.gives_nothing(
                    now,
                    &name,
                    TakeRefusal::Failed { reason: clip(reason) },
                    replica,
                    effects,
                );
            }
        }
    }

    /// At once, or, where claims may be about to end, when that is done.
    fn gives_nothing<T: Table>(
        &mut self,
        now: Now,
        name: &Name,
        why: TakeRefusal,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if !self.is_busy() {
            return self.take_back(now, name, why, replica, effects);
        }
        if let Some(giving) = self.gives.by_name.get_mut(name) {
            (giving.until, giving.why) = (now.time, why);
        }
    }

    /// The taker has the data: the leader is asked.
    fn on_received(&mut self, now: Now, taker: &Taker, consent: u64) {
        let Some(name) = self.gives.name_for(taker) else { return };
        // While a name is given nothing else is asked for it: that is not looked at again.
        if !self.is_trusted(now) {
            return;
        }
        let Some(giving) = self.gives.by_name.get_mut(&name) else { return };
        if giving.consent != consent || !matches!(giving.stage, GiveStage::Handed(_)) {
            return;
        }

        self.gives.bytes -= giving.bytes();
        giving.stage = GiveStage::Deciding;
        if planted!("flag-taken-back-by-time") {
            giving.until = now.time + Duration::from_millis(200);
        }
        let Giving { token: position, actor, kind, .. } = *giving;
        let (to, number) = (taker.session.clone(), taker.number);
        let wish = Wish::Transfer { position, to, number, actor, kind };
        self.ask(Open { name, ..Open::of(wish) });
    }

    /// The name stays where it is: the flag is taken back, and the taker will never have the name by this request. Only before the
    /// leader is asked.
    fn take_back<T: Table>(
        &mut self,
        now: Now,
        name: &Name,
        why: TakeRefusal,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let is_before =
            |giving: &Giving| giving.stage != GiveStage::Deciding || planted!("flag-taken-back-by-time");
        if !self.gives.by_name.get(name).is_some_and(is_before) {
            return;
        }
        let Some(giving) = self.gives.end(name) else { return };
        self.unflag(name, &giving, effects);
        self.refuse_taker(giving.taker, why, effects);
        self.next_queued(now, name, replica, effects);
    }

    fn unflag(&self, name: &Name, giving: &Giving, effects: &mut Vec<Effect>) {
        if self.claims.get(name).is_some_and(|claim| claim.id == giving.claim) {
            effects.push(Effect::Unflag { claim: giving.claim });
        }
    }

    /// The claim of a name ends, so that it goes to nobody, unless the leader was asked already.
    pub(super) fn end_giving(&mut self, name: &Name, effects: &mut Vec<Effect>) {
        let giving = self.gives.end(name);
        let is_asked = giving.as_ref().is_some_and(|giving| giving.stage == GiveStage::Deciding);
        self.offers.forget(name, is_asked);
        if let Some(giving) = giving.filter(|_| !is_asked) {
            self.refuse_taker(giving.taker, TakeRefusal::NotHeld, effects);
        }
    }

    /// The link to a node is lost: what was not asked of the leader stays here.
    pub(crate) fn on_peer_lost<T: Table>(
        &mut self,
        now: Now,
        node: &NodeName,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        // Otherwise time does it.
        if self.is_busy() {
            return;
        }
        let is_for =
            |giving: &Giving| giving.taker.session.node == *node && giving.stage != GiveStage::Deciding;
        let all = self.gives.by_name.iter().filter(|(_, giving)| is_for(giving));
        let names: Vec<Name> = all.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.take_back(now, &name, TakeRefusal::LinkLost, replica, effects);
        }
    }

    /// Time: what takes too long stays here.
    pub(super) fn wake_gives<T: Table>(&mut self, now: Now, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        if self.gives.count() == 0 || self.is_busy() {
            return;
        }
        let is_over = |giving: &Giving| {
            now.time >= giving.until
                && ((giving.stage == GiveStage::Deciding).not() || planted!("flag-taken-back-by-time"))
        };
        let over = self.gives.by_name.iter().filter(|(_, giving)| is_over(giving));
        let over: Vec<_> = over.map(|(name, giving)| (name.clone(), giving.why.clone())).collect();
        for (name, why) in over {
            self.take_back(now, &name, why, replica, effects);
        }
    }

    /// As somebody would who thinks that another leader begins with nothing undecided.
    pub(super) fn unflag_for_new_leader(&mut self, effects: &mut Vec<Effect>) {
        if planted!("flag-taken-back-by-new-leader") {
            for (name, giving) in &self.gives.by_name {
                self.unflag(name, giving, effects);
            }
        }
    }

    /// The leader has decided.
    pub(super) fn settle_transfer(&mut self, open: Open, verdict: &Verdict, effects: &mut Vec<Effect>) {
        let Wish::Transfer { position: token, to, number, .. } = open.wish else { return };
        let name = open.name;
        let giving = self.gives.by_name.get(&name).filter(|giving| giving.stage == GiveStage::Deciding);
        let is_giving = giving.is_some_and(|it| it.token == token && it.taker.number == number);
        let giving = if is_giving { self.gives.end(&name) } else { None };
        if let Verdict::Kept { allowed } = verdict {
            if let Some(giving) = giving.as_ref().filter(|_| !planted!("kept-and-still-flagged")) {
                self.unflag(&name, giving, effects);
            }
            let refused = |allowed: &Arc<[String]>| TakeRefusal::NotPermitted { allowed: allowed.to_vec() };
            let why = allowed.as_ref().map_or(TakeRefusal::TakerGone, refused);
            self.refuse_taker(Taker { session: to, number }, why, effects);
            if open.is_orphan {
                self.give_up(name, token, GivenUp::ActorEnded, None);
            }
            return;
        }
        // The actor of this node that got it has ended since.
        if let Verdict::Transferred { token } = *verdict
            && open.is_orphan
            && self.session.as_ref() == Some(&to)
            && !self.claims.contains_key(&name)
            && !self.takes.is_taking(&name)
            && !planted!("orphan-of-a-transfer-kept")
        {
            return self.give_up(name, token, GivenUp::ActorEnded, None);
        }
        // Whether it went there or is gone: as a rule the entry has said so before.
        if self.claims.get(&name).is_some_and(|claim| claim.position == token) {
            let is_moved = matches!(verdict, Verdict::Transferred { .. });
            match verdict {
                Verdict::Transferred { token: at } => self.offers.has_moved(&name, token, (&to.node, *at)),
                _ => self.offers.is_unknown(&name),
            }
            self.end_claim(&name, Some(if is_moved { Notice::Transferred } else { Notice::Lost }), effects);
        }
    }

    /// Names of this node that the log gave to others.
    pub(super) fn on_given_away(&mut self, applied: &Applied, effects: &mut Vec<Effect>) {
        for (name, row, to, token) in &applied.given {
            self.offers.has_moved(name, row.position, (to, *token));
            let is_ours = self.session.as_deref() == Some(&*row.session);
            if is_ours && self.claims.get(name).is_some_and(|claim| claim.position == row.position) {
                self.end_claim(name, Some(Notice::Transferred), effects);
                effects.push(Effect::Event(Event::GivenAway { name: name.clone() }));
            }
        }
    }
}

/// What a taker asks for.
struct AskedTake {
    taker: Taker,
    name: Name,
    token: Position,
    actor: u64,
    kind: Kind,
}

impl Open {
    /// A request that nobody waits for.
    pub(super) fn of(wish: Wish) -> Self {
        Self {
            name: Name::default(),
            wish,
            on_lapse: OnLapse::Stop,
            on_take: OnTake::Refuse,
            claim: None,
            caller: None,
            starter: None,
            sent: None,
            is_orphan: false,
            takes: false,
        }
    }
}

#[cfg(test)]
mod tests;
