//! What must hold after every step.

use super::*;

impl World {
    /// P1: of all nodes that trust their session, at most one claims a name.
    pub(super) fn check_one_holder(&mut self) {
        let claims: usize = self.nodes.values().map(|n| n.member().claims()).sum();
        // With many claims a step is looked at now and then: the rule is about states that last.
        if claims > 200 && !self.order.is_multiple_of(256) {
            return;
        }
        for (node, n) in &self.nodes {
            if let Some(actor) = n.member().claimants().find(|actor| !n.watched.contains(actor)) {
                panic!("{actor} holds a name on {node} and is not watched\n{}", self.picture());
            }
        }
        let mut holders: BTreeMap<&Name, &NodeName> = BTreeMap::new();
        // A claim of a session that is over, of which the member has not heard, is not trusted.
        let holds = |n: &Node| n.trusted && n.member().session() == n.session.as_ref();
        for (node, n) in self.nodes.iter().filter(|(_, n)| holds(n)) {
            for claimed in n.member().claimed() {
                if let Some(other) = holders.insert(claimed, node) {
                    panic!("{claimed:?} is held by {other} and {node}\n{}", self.picture());
                }
            }
        }
        *self.hit.entry("claims compared").or_default() += u64::from(!holders.is_empty());
    }

    /// P5: replicas at the same position are the same.
    pub(crate) fn check_replicas(&self) {
        let mut by_position: BTreeMap<Position, (&NodeName, BTreeMap<_, _>)> = BTreeMap::new();
        for (node, n) in self.nodes.iter().filter(|(_, n)| n.member().replica().is_based()) {
            let position = n.member().replica().position();
            let table: BTreeMap<_, _> = n.member().replica().rows().collect();
            if let Some((other, rows)) = by_position.insert(position, (node, table.clone())) {
                assert_eq!(rows, table, "{other} and {node} differ at {position}");
            }
        }
    }

    pub(super) fn picture(&self) -> String {
        use std::fmt::Write;
        let mut text = format!(
            "at {:?}: term {:?} lock {:?} commit {:?}\n",
            self.now.0,
            self.term(),
            self.lock(),
            self.history.keys().next_back()
        );
        for (node, n) in &self.nodes {
            let row = n.member().view().members.get(node);
            let _ = writeln!(
                text,
                "{node}: session {:?} trusted {} position {} based {} synced {} leader {:?} view epoch {} row {row:?} events {:?}",
                n.session.as_ref().map(|s| s.number),
                n.trusted,
                n.member().replica().position(),
                n.member().replica().is_based(),
                n.member().is_synced(),
                n.member().leader(),
                n.member().view().term.epoch,
                n.events.iter().rev().take(6).collect::<Vec<_>>(),
            );
        }
        text
    }
}
