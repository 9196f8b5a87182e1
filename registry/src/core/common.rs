//! What the registries of one node have in common: its session, and its links.

use std::collections::{BTreeMap, BTreeSet};

use callsign_elector::{
    ids::{NodeName, RegistryName},
    session,
};

/// What is known of all registries that a node has joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Common {
    me: NodeName,
    /// The registries that it leads.
    leads: BTreeSet<RegistryName>,
    /// The members of each, and where they are.
    members: BTreeMap<RegistryName, Vec<(NodeName, String)>>,
}

impl Common {
    /// Of a node that has joined none.
    pub fn new(me: NodeName) -> Self {
        Self { me, leads: BTreeSet::new(), members: BTreeMap::new() }
    }

    /// What the session is to be told when a registry has something to say to it.
    pub fn for_session(&mut self, registry: &RegistryName, input: session::Input) -> session::Input {
        match input {
            // The node leads while it leads some registry.
            session::Input::Leads(leads) => {
                if leads {
                    self.leads.insert(registry.clone());
                } else {
                    self.leads.remove(registry);
                }
                session::Input::Leads(!self.leads.is_empty())
            }
            input => input,
        }
    }

    /// The nodes that this one is to be linked to, when the members of a registry are others than before: those of all its
    /// registries. One that says two addresses is where the last registry, in the order of their names, has it.
    pub fn peers(
        &mut self,
        registry: &RegistryName,
        members: Vec<(NodeName, String)>,
    ) -> BTreeMap<NodeName, String> {
        self.members.insert(registry.clone(), members);
        let others = self.members.values().flatten().filter(|(node, _)| *node != self.me);
        others.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(name: &str) -> RegistryName {
        RegistryName::new(name).unwrap()
    }

    fn members(nodes: &[&str]) -> Vec<(NodeName, String)> {
        nodes.iter().map(|node| (NodeName::new(*node).unwrap(), format!("{node}:1"))).collect()
    }

    fn common() -> Common {
        Common::new(NodeName::new("a").unwrap())
    }

    #[test]
    fn a_node_leads_while_it_leads_some_registry() {
        let mut common = common();
        let mut tell = |name, leads| common.for_session(&registry(name), session::Input::Leads(leads));
        assert_eq!(tell("x", true), session::Input::Leads(true));
        assert_eq!(tell("y", true), session::Input::Leads(true));
        assert_eq!(tell("x", false), session::Input::Leads(true), "it leads y");
        assert_eq!(tell("z", false), session::Input::Leads(true));
        assert_eq!(tell("y", false), session::Input::Leads(false));
    }

    #[test]
    fn a_node_is_linked_to_the_members_of_all_its_registries_and_not_to_itself() {
        let mut common = common();
        let linked = |peers: BTreeMap<NodeName, String>| peers.into_iter().collect::<Vec<_>>();
        assert_eq!(linked(common.peers(&registry("x"), members(&["a", "b"]))), members(&["b"]));
        assert_eq!(linked(common.peers(&registry("y"), members(&["a", "b", "c"]))), members(&["b", "c"]));
        assert_eq!(linked(common.peers(&registry("x"), members(&["a", "d"]))), members(&["b", "c", "d"]));
        assert_eq!(linked(common.peers(&registry("y"), members(&["a"]))), members(&["d"]));
    }
}
