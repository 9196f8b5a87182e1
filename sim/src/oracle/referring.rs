//! References to actors of other nodes: the rules are those of their own small world.

use super::{Check, Inner, Oracle};
use crate::{
    references::{Broken, Rule, Side, check_at_rest},
    world::{NodeId, World},
};

/// What a rule is called here.
fn check_of(rule: Rule) -> Check {
    match rule {
        Rule::EndedIsTrue => Check::ReferenceEndTrue,
        Rule::NotAgain => Check::ReferenceNotAgain,
        Rule::EndsOnce => Check::ReferenceEndsOnce,
        Rule::Ends => Check::ReferenceEnds,
        Rule::Monitored => Check::EndsMonitored,
        Rule::Bounded => Check::ReferencesBounded,
        Rule::NothingIsKept => Check::NoneOverDownLinks,
        Rule::AtHome => Check::AskedAtHome,
    }
}

impl Oracle {
    /// Whether an actor has ended, as nobody else can know.
    pub(crate) fn has_ended(&self, actor: u64) -> bool {
        self.inner().is_some_and(|inner| inner.ended.contains_key(&actor))
    }

    /// A rule of references does not hold at a node.
    pub(crate) fn breaks(&mut self, node: NodeId, broken: Broken) {
        if let Some(inner) = self.edit() {
            inner.breaks(node, broken);
        }
    }
}

impl Inner {
    fn breaks(&mut self, node: NodeId, Broken { rule, what }: Broken) {
        self.fail(check_of(rule), format!("node {node}: {what}"));
    }

    /// What must hold of references at any time.
    pub(super) fn check_references(&mut self, world: &World) {
        for node in world.ids() {
            let Some(side) = world.side(node) else { continue };
            if side.monitored().next().is_some() {
                self.counts.add(Check::EndsMonitored, 1);
            }
            if side.references().next().is_some() {
                self.counts.add(Check::ReferencesBounded, 1);
            }
            if let Err(broken) = side.check() {
                self.breaks(node, broken);
            }
        }
    }

    /// At rest, each reference is to an actor of whose end somebody will tell.
    pub(super) fn check_references_at_rest(&mut self, world: &World) {
        for node in world.ids() {
            for (link, actor) in world.side(node).into_iter().flat_map(Side::references) {
                self.counts.add(Check::ReferenceEnds, 1);
                if let Err(broken) = check_at_rest(actor, world.home_over(node, link)) {
                    self.breaks(node, broken);
                }
            }
        }
    }
}
