//! One node's part in references to actors of other nodes: the two cores, and what a driver keeps beside them.
//!
//! The small world and the big one step it. What a rule forbids comes back as [`Broken`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use callsign_transport::{
    LinkId,
    cores::{End, Ends, EndsEffect, EndsInput, Held, NoReference, NotDelivered, Word},
};

/// How many references a node may hold over a link, and of how many actors a node tells over one. Few, and the second less
/// than the first, so that both are met.
pub(super) const REFERENCES: usize = 4;
pub(super) const TOLD: usize = 3;

/// What all actors take.
pub(super) const KIND: u64 = 7;

/// A rule of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// An actor that is said to have ended has.
    EndedIsTrue,
    /// A reference to an actor that is known to have ended is not made again.
    NotAgain,
    /// A reference ends once.
    EndsOnce,
    /// A reference ends with its actor and with its link, and until then somebody will tell.
    Ends,
    /// Those actors are monitored of which somebody is to be told, and no others.
    Monitored,
    /// There are no more references, and no more monitors, than there may be.
    Bounded,
    /// Nothing is kept of a link that is down.
    NothingIsKept,
    /// An actor is asked for where it runs.
    AtHome,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub rule: Rule,
    /// In words.
    pub what: String,
}

fn broken(rule: Rule, what: impl Into<String>) -> Result<(), Broken> {
    Err(Broken { rule, what: what.into() })
}

/// What the cores and the drivers say over a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// Tell me when this actor ends.
    Ask {
        /// The actor.
        actor: u64,
    },
    /// The answer, or the end.
    Word(Word),
    /// A message for this actor.
    Cast {
        /// The actor.
        actor: u64,
    },
    /// It did not get a message.
    Undelivered {
        /// The actor.
        actor: u64,
        /// Why.
        why: NotDelivered,
    },
}

/// What came of a wish for a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// There is a new one.
    Made,
    /// There was one.
    Found,
    /// There is none: the actor has ended, there are too many, or no link is up.
    None,
}

/// What became of a reference because of what the peer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// The actor is gone, and with it the references to it.
    Ended,
    /// The peer does not tell of so many.
    Refused,
}

/// The references over one link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holding {
    /// A reference is a number.
    held: Held<u64>,
    made: u64,
    /// Those that somebody has, and the actor of each.
    live: BTreeMap<u64, u64>,
    /// Those that were dropped, of which the core need not know.
    dropped: BTreeSet<u64>,
    /// The actors that are known to have ended.
    known: BTreeSet<u64>,
}

/// The two cores, and what the driver of one process keeps beside them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Side {
    ends: Ends,
    /// The actors that peers may reach, and those of them that have ended.
    exported: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    monitored: BTreeSet<u64>,
    /// Monitored actors that have ended and whose monitor has not said so yet, in their order.
    untold: VecDeque<u64>,
    links: BTreeMap<LinkId, Holding>,
    /// The links over which there may be something to say.
    to_say: BTreeSet<LinkId>,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            ends: Ends::new(TOLD),
            exported: BTreeSet::new(),
            ended: BTreeSet::new(),
            monitored: BTreeSet::new(),
            untold: VecDeque::new(),
            links: BTreeMap::new(),
            to_say: BTreeSet::new(),
        }
    }
}

impl Side {
    // ---- links

    /// A link is up.
    pub fn link_up(&mut self, link: LinkId) {
        self.tell(EndsInput::LinkUp { link });
        let holding = Holding {
            held: Held::new(REFERENCES),
            made: 0,
            live: BTreeMap::new(),
            dropped: BTreeSet::new(),
            known: BTreeSet::new(),
        };
        self.links.insert(link, holding);
    }

    /// A link is down. How many references have ended with it.
    pub fn link_down(&mut self, link: LinkId) -> Result<usize, Broken> {
        self.tell(EndsInput::LinkDown { link });
        self.to_say.remove(&link);
        let Some(mut holding) = self.links.remove(&link) else { return Ok(0) };
        let count = holding.live.len();
        for reference in holding.held.take_all() {
            holding.end(reference)?;
        }
        if let Some(actor) = holding.live.values().next() {
            broken(Rule::Ends, format!("{link} is down, and a reference to actor {actor} has not ended"))?;
        }
        Ok(count)
    }

    // ---- the actors of this node

    /// Peers may reach this actor from now on.
    pub fn export(&mut self, actor: u64) {
        self.exported.insert(actor);
    }

    /// An actor ends. Its monitor says so later.
    pub fn end(&mut self, actor: u64) {
        if self.ended.insert(actor) && self.monitored.contains(&actor) {
            self.untold.push_back(actor);
        }
    }

    /// The monitor of an actor that has ended says so. `false`: none has to.
    pub fn notice(&mut self) -> bool {
        let Some(actor) = self.untold.pop_front() else { return false };
        self.monitored.remove(&actor);
        let how = if actor % 2 == 0 { End::stopped(None) } else { End::failed("it panicked") };
        self.tell(EndsInput::Ended { actor, how });
        true
    }

    /// Whether a monitor has something to say.
    pub fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Whether an actor has ended.
    pub fn has_ended(&self, actor: u64) -> bool {
        self.ended.contains(&actor)
    }

    /// The actors of whose ends somebody is to be told.
    pub fn monitored(&self) -> impl Iterator<Item = u64> {
        self.monitored.iter().copied()
    }

    fn find(&self, actor: u64) -> Result<(), NotDelivered> {
        match () {
            () if self.ended.contains(&actor) => Err(NotDelivered::Gone),
            () if self.exported.contains(&actor) => Ok(()),
            () => Err(NotDelivered::NotExported),
        }
    }

    /// Whether the end of an actor will be told over a link.
    pub fn will_tell(&self, link: LinkId, actor: u64) -> bool {
        self.ends.waits(link, actor).is_some()
    }

    // ---- what peers say

    /// A peer asks for an actor, maybe over a link that is down. `true`: it does not read what it is answered.
    pub fn asked(&mut self, link: LinkId, actor: u64) -> Result<bool, Broken> {
        let is_there = self.find(actor);
        if is_there == Err(NotDelivered::NotExported) {
            broken(Rule::AtHome, format!("actor {actor} is asked for over {link}, and never ran here"))?;
        }
        Ok(self.tell(EndsInput::Asked { link, actor, kind: KIND, is_there }))
    }

    /// A message comes for an actor: what is said of it at once, if anything.
    pub fn take_cast(&self, link: LinkId, actor: u64) -> Option<Said> {
        let why = self.find(actor).err()?;
        // If its end is on the way, that says more.
        let waits = self.ends.waits(link, actor);
        let is_on_its_way = waits.is_some_and(|waits| waits || self.untold.contains(&actor));
        (!is_on_its_way).then_some(Said::Undelivered { actor, why })
    }

    /// A peer says what became of one of its actors. `has_ended`: whether that has ended, which nobody here can know.
    pub fn take_said(&mut self, link: LinkId, said: &Said, has_ended: bool) -> Result<Heard, Broken> {
        let Some(holding) = self.links.get_mut(&link) else { return Ok(Heard::Nothing) };
        let undelivered;
        let (actor, end) = match said {
            Said::Word(word) => (word.actor(), word.end()),
            Said::Undelivered { actor, why } => {
                undelivered = End::Not(*why);
                (*actor, Some(&undelivered))
            }
            Said::Ask { .. } | Said::Cast { .. } => return Ok(Heard::Nothing),
        };
        let Some(end) = end else {
            let _ = holding.held.watched(actor, KIND);
            return Ok(Heard::Nothing);
        };
        let ended = holding.held.ended(actor, KIND, end);
        for reference in &ended {
            holding.end(*reference)?;
        }
        if !end.is_final() {
            let is_refused = matches!(end, End::TooMany(_)) && !ended.is_empty();
            return Ok(if is_refused { Heard::Refused } else { Heard::Nothing });
        }
        if !has_ended {
            broken(Rule::EndedIsTrue, format!("actor {actor} lives, and was said to have ended: {end:?}"))?;
        }
        if holding.live.values().any(|of| *of == actor) {
            broken(Rule::Ends, format!("actor {actor} has ended, and a reference to it is left"))?;
        }
        if ended.is_empty() {
            return Ok(Heard::Nothing);
        }
        holding.known.insert(actor);
        Ok(Heard::Ended)
    }

    // ---- the references that are held here

    /// Somebody wants a reference to an actor of a peer.
    pub fn resolve(&mut self, link: LinkId, actor: u64, has_ended: bool) -> Result<Resolved, Broken> {
        let Some(Holding { held, made, live, known, .. }) = self.links.get_mut(&link) else {
            return Ok(Resolved::None);
        };
        match held.find(actor, KIND, |reference| live.contains_key(reference)) {
            Ok(_) if known.contains(&actor) => {
                broken(Rule::NotAgain, format!("actor {actor} was made a reference again"))?;
                Ok(Resolved::None)
            }
            Ok(None) => {
                *made += 1;
                live.insert(*made, actor);
                held.add(actor, KIND, *made);
                self.to_say.insert(link);
                Ok(Resolved::Made)
            }
            Ok(Some(_)) => Ok(Resolved::Found),
            Err(NoReference::Ended(end)) if !has_ended => {
                let what = format!("actor {actor} lives, and is said to have ended: {end:?}");
                broken(Rule::EndedIsTrue, what)?;
                Ok(Resolved::None)
            }
            Err(_) => Ok(Resolved::None),
        }
    }

    /// Somebody drops the references to an actor of a peer, which nobody is told.
    pub fn drop_reference(&mut self, link: LinkId, actor: u64) {
        if let Some(holding) = self.links.get_mut(&link) {
            let dropped = holding.live.extract_if(.., |_, of| *of == actor).map(|(reference, _)| reference);
            holding.dropped.extend(dropped);
        }
    }

    /// The references that somebody has: the link, and the actor.
    pub fn references(&self) -> impl Iterator<Item = (LinkId, u64)> {
        self.links.iter().flat_map(|(link, holding)| holding.live.values().map(|actor| (*link, *actor)))
    }

    // ---- saying

    /// The links over which there may be something to say.
    pub fn to_say(&self) -> impl Iterator<Item = LinkId> {
        self.to_say.iter().copied()
    }

    /// What goes onto a link that has room for so much: first what is asked.
    pub fn speak(&mut self, link: LinkId, room: usize) -> Vec<Said> {
        let Some(holding) = self.links.get_mut(&link) else { return Vec::new() };
        let asks = std::iter::from_fn(|| holding.held.take_next()).map(|(actor, _)| Said::Ask { actor });
        let mut said: Vec<Said> = asks.take(room).collect();
        let words = std::iter::from_fn(|| self.ends.next(link)).map(Said::Word);
        said.extend(words.take(room - said.len()));
        if said.len() < room {
            self.to_say.remove(&link);
        }
        said
    }

    /// Steps the core of ends, and does what it wants. `true`: the link is overrun.
    fn tell(&mut self, input: EndsInput) -> bool {
        let (mut inputs, mut is_overrun) = (vec![input], false);
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            self.ends.step(input, &mut effects);
            for effect in effects {
                match effect {
                    EndsEffect::Monitor { actor } if self.ended.contains(&actor) => {
                        inputs.push(EndsInput::Ended { actor, how: End::Not(NotDelivered::Gone) });
                    }
                    EndsEffect::Monitor { actor } => _ = self.monitored.insert(actor),
                    EndsEffect::Unmonitor { actor } => {
                        self.monitored.remove(&actor);
                        self.untold.retain(|untold| *untold != actor);
                    }
                    EndsEffect::Speak { link } => _ = self.to_say.insert(link),
                    EndsEffect::Overrun { .. } => is_overrun = true,
                }
            }
        }
        is_overrun
    }

    // ---- rules

    /// What must hold at any time.
    pub fn check(&self) -> Result<(), Broken> {
        let monitored = self.monitored.len();
        if self.ends.monitored() != monitored {
            let what = format!("{monitored} are, {} are thought to be", self.ends.monitored());
            broken(Rule::Monitored, what)?;
        }
        if self.links.is_empty() && self.ends != Ends::new(TOLD) {
            broken(Rule::NothingIsKept, format!("no link is up: {:?}", self.ends))?;
        }
        for link in self.links.keys() {
            let told = self.monitored.iter().filter(|actor| self.will_tell(*link, **actor)).count();
            if told > TOLD {
                broken(Rule::Bounded, format!("{told} are watched for {link}"))?;
            }
        }
        if self.links.values().any(|holding| holding.held.count() > REFERENCES) {
            broken(Rule::Bounded, "a node holds more references than it may")?;
        }
        Ok(())
    }
}

impl Holding {
    /// The core says that a reference has ended.
    fn end(&mut self, reference: u64) -> Result<(), Broken> {
        if self.live.remove(&reference).is_none() && !self.dropped.remove(&reference) {
            broken(Rule::EndsOnce, format!("reference {reference} has ended before"))?;
        }
        Ok(())
    }
}

/// At rest, whoever has a reference to an actor that lives will be told of its end. `home`: the node of the actor, and its
/// number for the link; `None`: there is no such process any more.
pub fn check_at_rest(actor: u64, home: Option<(&Side, LinkId)>) -> Result<(), Broken> {
    match home {
        Some((home, link)) if !home.has_ended(actor) => {
            if !home.will_tell(link, actor) {
                let what =
                    format!("nobody will tell of the end of actor {actor}, and there is a reference to it");
                broken(Rule::Ends, what)?;
            }
            Ok(())
        }
        _ => broken(Rule::Ends, format!("actor {actor} has ended, and a reference to it has not")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_monitored_if_and_only_if_somebody_is_to_be_told_of_its_end() {
        let (link, mut side) = (LinkId(1), Side::default());
        side.link_up(link);
        side.export(5);
        assert_eq!(side.asked(link, 5), Ok(false));
        assert_eq!((side.monitored().collect::<Vec<_>>(), side.check()), (vec![5], Ok(())));
        let rule = |side: &Side| side.check().map_err(|broken| broken.rule);
        let mut forgets = side.clone();
        forgets.monitored.clear();
        assert_eq!(rule(&forgets), Err(Rule::Monitored));
        side.monitored.insert(6);
        assert_eq!(rule(&side), Err(Rule::Monitored));
    }
}
