//! References to actors of another node, in a small world of their own: the two cores that say when a reference ends.
//!
//! One node has actors, and others hold references to them. Everything else may happen in any order: an end is noticed late,
//! links go down and come back, references are dropped where they are held, questions come late, the node of the actors starts anew. Then the world is at rest, and
//! each reference must be to an actor that lives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use callsign_transport::{
    LinkId,
    cores::{End, Ends, EndsEffect, EndsInput, Held, NoReference, NotDelivered, Word},
};

use crate::rng::Rng;

/// The name of this world where scenarios have names.
pub const NAME: &str = "references";

const ACTORS: u64 = 5;
const HOLDERS: usize = 2;
/// How many references a node may hold over a link, and of how many actors a node tells over one. Less than there are actors, and
/// the second less than the first, so that both are met.
const REFERENCES: usize = 4;
const TOLD: usize = 3;
const KIND: u64 = 7;
const STEPS: usize = 300;

/// What was found to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which check.
    pub check: &'static str,
    /// In words.
    pub what: String,
}

#[derive(Default)]
struct Actor {
    is_dead: bool,
    is_monitored: bool,
    /// It has ended, and the monitor has not said so yet.
    is_untold: bool,
}

/// One link, and the references over it.
struct Link {
    id: LinkId,
    /// The references, and whether each was dropped where it is held.
    held: Held<(u64, bool)>,
    dropped: BTreeSet<u64>,
    asks: VecDeque<u64>,
    words: VecDeque<Word>,
    /// The actors that are known to have ended.
    known: BTreeSet<u64>,
}

struct World {
    rng: Rng,
    ends: Ends,
    actors: BTreeMap<u64, Actor>,
    links: Vec<Option<Link>>,
    last: u64,
    violation: Option<Violation>,
}

/// Runs a seed: what was found to be wrong, if anything.
pub fn run(seed: u64) -> Option<Violation> {
    let mut world = World {
        rng: Rng::new(seed),
        ends: Ends::new(TOLD),
        actors: (0..ACTORS).map(|actor| (actor, Actor::default())).collect(),
        links: (0..HOLDERS).map(|_| None).collect(),
        last: 0,
        violation: None,
    };
    for _ in 0..STEPS {
        world.act();
        world.check();
    }
    world.rest();
    world.violation
}

impl World {
    fn fail(&mut self, check: &'static str, what: String) {
        self.violation.get_or_insert(Violation { check, what });
    }

    fn act(&mut self) {
        let holder = self.rng.index(HOLDERS);
        let actor = self.rng.below(ACTORS);
        match self.rng.weighted(&[6, 12, 2, 2, 2, 1, 12, 12, 1, 1]) {
            0 => self.up(holder),
            1 => self.resolve(holder, actor),
            2 => self.die(actor),
            3 => self.notice(actor),
            4 => self.drop_one(holder, actor),
            5 => self.down(holder),
            6 => self.travel(holder),
            7 => self.arrive(holder),
            8 => self.restart(),
            _ => {
                // A question that was under way when its link ended.
                let link = LinkId(self.rng.below(self.last + 1));
                if self.links.iter().flatten().all(|up| up.id != link) {
                    self.tell(EndsInput::Asked { link, actor, kind: KIND, is_there: Ok(()) });
                }
            }
        }
    }

    fn up(&mut self, holder: usize) {
        if self.links[holder].is_none() {
            self.last += 1;
            let id = LinkId(self.last);
            self.tell(EndsInput::LinkUp { link: id });
            self.links[holder] = Some(Link {
                id,
                held: Held::new(REFERENCES),
                dropped: BTreeSet::new(),
                asks: VecDeque::new(),
                words: VecDeque::new(),
                known: BTreeSet::new(),
            });
        }
    }

    fn down(&mut self, holder: usize) {
        if let Some(mut link) = self.links[holder].take() {
            link.held.take_all().for_each(drop);
            self.tell(EndsInput::LinkDown { link: link.id });
        }
    }

    fn resolve(&mut self, holder: usize, actor: u64) {
        let is_dead = self.actors[&actor].is_dead;
        let Some(link) = &mut self.links[holder] else { return };
        let dropped = &link.dropped;
        let is_known = link.known.contains(&actor);
        match link.held.find(actor, KIND, |(actor, _)| !dropped.contains(actor)).map(|found| found.is_some())
        {
            Ok(_) if is_known => self.fail("NotAgain", format!("actor {actor} was made a reference again")),
            Ok(false) => {
                link.dropped.remove(&actor);
                link.held.add(actor, KIND, (actor, false));
            }
            Err(NoReference::Ended(end)) if !is_dead => {
                self.fail("EndedIsTrue", format!("actor {actor} lives, and is said to have ended: {end:?}"));
            }
            Ok(true) | Err(_) => {}
        }
    }

    fn drop_one(&mut self, holder: usize, actor: u64) {
        if let Some(link) = &mut self.links[holder] {
            link.dropped.insert(actor);
        }
    }

    fn die(&mut self, actor: u64) {
        let actor = self.actors.entry(actor).or_default();
        if !std::mem::replace(&mut actor.is_dead, true) {
            actor.is_untold = actor.is_monitored;
        }
    }

    /// The node of the actors starts anew: its actors are others.
    fn restart(&mut self) {
        (0..HOLDERS).for_each(|holder| self.down(holder));
        self.nothing_is_kept();
        self.actors = (0..ACTORS).map(|actor| (actor, Actor::default())).collect();
    }

    fn nothing_is_kept(&mut self) {
        if self.ends != Ends::new(TOLD) {
            self.fail("NothingIsKept", format!("no link is up: {:?}", self.ends));
        }
    }

    fn notice(&mut self, actor: u64) {
        let state = self.actors.entry(actor).or_default();
        if std::mem::take(&mut state.is_untold) && std::mem::take(&mut state.is_monitored) {
            self.tell(EndsInput::Ended { actor, how: End::stopped(None) });
        }
    }

    /// What waits on either side goes onto the link.
    fn travel(&mut self, holder: usize) {
        let Some(link) = &mut self.links[holder] else { return };
        link.asks.extend(link.held.take_next().map(|(actor, _)| actor));
        link.words.extend(self.ends.next(link.id));
    }

    /// What is on a link comes.
    fn arrive(&mut self, holder: usize) {
        let Some(link) = &mut self.links[holder] else { return };
        let (id, word) = (link.id, link.words.pop_front());
        if let Some(actor) = link.asks.pop_front() {
            let is_there = if self.actors[&actor].is_dead { Err(NotDelivered::Gone) } else { Ok(()) };
            self.tell(EndsInput::Asked { link: id, actor, kind: KIND, is_there });
        }
        if let Some(word) = word {
            self.hear(holder, &word);
        }
    }

    fn hear(&mut self, holder: usize, word: &Word) {
        let actor = word.actor();
        let is_dead = self.actors[&actor].is_dead;
        let Some(link) = &mut self.links[holder] else { return };
        let Some(end) = word.end() else {
            let _ = link.held.watched(actor, KIND);
            return;
        };
        let ended = link.held.ended(actor, KIND, end);
        if end.is_final() && !ended.is_empty() {
            link.known.insert(actor);
        }
        if end.is_final() && !is_dead {
            self.fail("EndedIsTrue", format!("actor {actor} lives, and was said to have ended: {end:?}"));
        }
    }

    fn tell(&mut self, input: EndsInput) {
        let mut effects = Vec::new();
        self.ends.step(input, &mut effects);
        for effect in effects {
            match effect {
                EndsEffect::Monitor { actor } => {
                    let state = self.actors.entry(actor).or_default();
                    state.is_monitored = !state.is_dead;
                    if state.is_dead {
                        self.tell(EndsInput::Ended { actor, how: End::Not(NotDelivered::Gone) });
                    }
                }
                EndsEffect::Unmonitor { actor } => {
                    let state = self.actors.entry(actor).or_default();
                    (state.is_monitored, state.is_untold) = (false, false);
                }
                EndsEffect::Speak { .. } | EndsEffect::Overrun { .. } => {}
            }
        }
    }

    fn check(&mut self) {
        let monitored = self.actors.values().filter(|actor| actor.is_monitored).count();
        if self.ends.monitored() != monitored {
            self.fail("Monitored", format!("{monitored} are, {} are thought to be", self.ends.monitored()));
        }
        let up = self.links.iter().flatten().count();
        if monitored > TOLD * up {
            self.fail("Bounded", format!("{monitored} are watched over {up} links"));
        }
        if self.links.iter().flatten().any(|link| link.held.count() > REFERENCES) {
            self.fail("Bounded", "a node holds more references than it may".into());
        }
    }

    /// Everything that is under way comes to its end. Then what is left must be right.
    fn rest(&mut self) {
        for _ in 0..STEPS {
            (0..ACTORS).for_each(|actor| self.notice(actor));
            for holder in 0..HOLDERS {
                self.travel(holder);
                self.arrive(holder);
            }
        }
        for holder in 0..HOLDERS {
            for actor in 0..ACTORS {
                let is_dead = self.actors[&actor].is_dead;
                let Some(link) = &mut self.links[holder] else { continue };
                let dropped = &link.dropped;
                let is_there = |(actor, _): &(u64, bool)| !dropped.contains(actor);
                if is_dead && matches!(link.held.find(actor, KIND, is_there), Ok(Some(_))) {
                    self.fail("Ends", format!("actor {actor} has ended, and a reference to it has not"));
                }
            }
            self.down(holder);
        }
        self.nothing_is_kept();
    }
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn references_end_with_their_actors_whatever_happens() {
        for seed in 1..=500 {
            assert_eq!(run(seed), None, "seed {seed}");
        }
    }
}
