//! References to actors of another node, in a small world of their own: the two cores that say when a reference ends.
//!
//! One node has actors, and others hold references to them. Everything else may happen in any order: an end is noticed late,
//! links go down and come back, references are dropped where they are held, questions come late, the node of the actors starts anew. Then the world is at rest, and
//! each reference must be to an actor that lives. The world of whole clusters has references, too, and its checks.

mod side;

use std::collections::VecDeque;

use callsign_transport::LinkId;

pub use self::side::{Broken, Heard, Resolved, Rule, Said, Side, check_at_rest};
use crate::rng::Rng;

/// The name of this world where scenarios have names.
pub const NAME: &str = "references";

const ACTORS: u64 = 5;
const HOLDERS: usize = 2;
const STEPS: usize = 300;

/// What was found to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceViolation {
    /// Which check.
    pub check: &'static str,
    /// In words.
    pub what: String,
}

/// One link, and what is on its way.
struct Link {
    id: LinkId,
    asks: VecDeque<Said>,
    words: VecDeque<Said>,
}

struct ReferenceWorld {
    rng: Rng,
    /// The node of the actors.
    home: Side,
    /// The nodes that hold references.
    holders: Vec<Side>,
    links: Vec<Option<Link>>,
    last: u64,
}

/// Runs a seed: what was found to be wrong, if anything.
pub fn run(seed: u64) -> Option<ReferenceViolation> {
    let mut world = ReferenceWorld {
        rng: Rng::new(seed),
        home: inhabited(),
        holders: vec![Side::default(); HOLDERS],
        links: (0..HOLDERS).map(|_| None).collect(),
        last: 0,
    };
    let Broken { rule, what } = world.run().err()?;
    Some(ReferenceViolation { check: rule.name(), what })
}

fn inhabited() -> Side {
    let mut home = Side::default();
    (0..ACTORS).for_each(|actor| home.export(actor));
    home
}

impl Rule {
    /// Its name in this world.
    fn name(self) -> &'static str {
        match self {
            Self::EndedIsTrue => "EndedIsTrue",
            Self::NotAgain => "NotAgain",
            Self::EndsOnce => "EndsOnce",
            Self::Ends => "Ends",
            Self::Monitored => "Monitored",
            Self::Bounded => "Bounded",
            Self::NothingIsKept => "NothingIsKept",
            Self::AtHome => "AtHome",
        }
    }
}

impl ReferenceWorld {
    fn run(&mut self) -> Result<(), Broken> {
        for _ in 0..STEPS {
            self.act()?;
            self.check()?;
        }
        self.rest()
    }

    fn act(&mut self) -> Result<(), Broken> {
        let holder = self.rng.index(HOLDERS);
        let actor = self.rng.below(ACTORS);
        match self.rng.weighted(&[6, 12, 2, 2, 2, 1, 12, 12, 1, 1]) {
            0 => self.up(holder),
            1 => self.resolve(holder, actor)?,
            2 => self.home.end(actor),
            3 => _ = self.home.notice(),
            4 => self.drop_one(holder, actor),
            5 => self.down(holder)?,
            6 => self.travel(holder),
            7 => self.arrive(holder)?,
            8 => self.restart()?,
            _ => {
                // A question that was under way when its link ended.
                let link = LinkId(self.rng.below(self.last + 1));
                if self.links.iter().flatten().all(|up| up.id != link) {
                    self.home.asked(link, actor)?;
                }
            }
        }
        Ok(())
    }

    fn up(&mut self, holder: usize) {
        if self.links[holder].is_none() {
            self.last += 1;
            let id = LinkId(self.last);
            self.home.link_up(id);
            self.holders[holder].link_up(id);
            self.links[holder] = Some(Link { id, asks: VecDeque::new(), words: VecDeque::new() });
        }
    }

    fn down(&mut self, holder: usize) -> Result<(), Broken> {
        if let Some(link) = self.links[holder].take() {
            self.holders[holder].link_down(link.id)?;
            self.home.link_down(link.id)?;
        }
        Ok(())
    }

    fn resolve(&mut self, holder: usize, actor: u64) -> Result<(), Broken> {
        if let Some(link) = &self.links[holder] {
            self.holders[holder].resolve(link.id, actor, self.home.has_ended(actor))?;
        }
        Ok(())
    }

    fn drop_one(&mut self, holder: usize, actor: u64) {
        if let Some(link) = &self.links[holder] {
            self.holders[holder].drop_reference(link.id, actor);
        }
    }

    /// The node of the actors starts anew: its actors are others.
    fn restart(&mut self) -> Result<(), Broken> {
        (0..HOLDERS).try_for_each(|holder| self.down(holder))?;
        self.home.check()?;
        self.home = inhabited();
        Ok(())
    }

    /// What waits on either side goes onto the link.
    fn travel(&mut self, holder: usize) {
        let Some(link) = &mut self.links[holder] else { return };
        link.asks.extend(self.holders[holder].speak(link.id, 1));
        link.words.extend(self.home.speak(link.id, 1));
    }

    /// What is on a link comes.
    fn arrive(&mut self, holder: usize) -> Result<(), Broken> {
        let Some(link) = &mut self.links[holder] else { return Ok(()) };
        let (id, word) = (link.id, link.words.pop_front());
        if let Some(Said::Ask { actor }) = link.asks.pop_front() {
            self.home.asked(id, actor)?;
        }
        if let Some(said) = word {
            let Said::Word(word) = &said else { return Ok(()) };
            let has_ended = self.home.has_ended(word.actor());
            self.holders[holder].take_said(id, &said, has_ended)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Broken> {
        self.home.check()?;
        self.holders.iter().try_for_each(Side::check)
    }

    /// Everything that is under way comes to its end. Then what is left must be right.
    fn rest(&mut self) -> Result<(), Broken> {
        for _ in 0..STEPS {
            while self.home.notice() {}
            for holder in 0..HOLDERS {
                self.travel(holder);
                self.arrive(holder)?;
            }
        }
        for holder in 0..HOLDERS {
            for (link, actor) in self.holders[holder].references() {
                check_at_rest(actor, Some((&self.home, link)))?;
            }
            self.down(holder)?;
        }
        self.home.check()
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
