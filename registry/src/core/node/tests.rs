use std::time::Duration;

use callsign_elector::{
    elector::{Input as ElectorInput, Notice},
    lineage::LineageId,
};
use callsign_store::ids::{Incarnation, SessionId, SessionNumber};

use super::*;
use crate::core::input::Input;

fn registry(name: &str) -> RegistryName {
    RegistryName::new(name).unwrap()
}

fn members(nodes: &[&str]) -> Vec<(NodeName, String)> {
    nodes.iter().map(|node| (NodeName::new(*node).unwrap(), format!("{node}:1"))).collect()
}

fn session() -> SessionId {
    let node = NodeName::new("a").unwrap();
    SessionId { node, incarnation: Incarnation(1), number: SessionNumber(4) }
}

struct Node(NodeCore);

impl Node {
    fn new() -> Self {
        let second = Duration::from_secs(1);
        let times = LeavingTimes { drain: second, decide: second, say: second, close: second };
        Self(NodeCore::new(NodeName::new("a").unwrap(), times))
    }

    fn step(&mut self, input: NodeInput) -> Vec<NodeEffect> {
        let mut effects = Vec::new();
        self.0.step(Time::ZERO, input, &mut effects);
        effects
    }

    fn joins(&mut self, name: &str) -> Vec<NodeEffect> {
        let mut effects = Vec::new();
        assert!(self.0.join(&registry(name), &mut effects));
        effects
    }
}

fn told(name: &str, input: Input) -> NodeEffect {
    NodeEffect::ToRegistry(registry(name), Told::Member(input))
}

fn said(name: &str, session: Option<SessionId>) -> NodeEffect {
    let notice = ElectorInput::Notice(Notice::Session(session));
    NodeEffect::ToRegistry(registry(name), Told::Elector(notice))
}

#[test]
fn a_node_leads_while_it_leads_some_registry() {
    let mut node = Node::new();
    let mut says = |name, leads| {
        let [NodeEffect::ToSession(session::Input::Leads(leads))] =
            node.step(NodeInput::Tells(registry(name), session::Input::Leads(leads)))[..]
        else {
            panic!("it says something else")
        };
        leads
    };
    assert!(says("x", true));
    assert!(says("y", true));
    assert!(says("x", false), "it leads y");
    assert!(says("z", false));
    assert!(!says("y", false));
}

#[test]
fn a_node_is_linked_to_the_members_of_all_its_registries_and_not_to_itself() {
    let mut node = Node::new();
    let mut linked = |name, nodes: &[&str]| {
        let effects = node.step(NodeInput::Members(registry(name), members(nodes)));
        let [NodeEffect::Peers(peers)] = &effects[..] else { panic!("{effects:?}") };
        peers.clone().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(linked("x", &["a", "b"]), members(&["b"]));
    assert_eq!(linked("y", &["a", "b", "c"]), members(&["b", "c"]));
    assert_eq!(linked("x", &["a", "d"]), members(&["b", "c", "d"]));
    assert_eq!(linked("y", &["a"]), members(&["d"]));
}

#[test]
fn what_the_session_says_comes_to_every_registry_and_then_to_its_callers() {
    let mut node = Node::new();
    assert_eq!(node.joins("x"), [], "nothing is known of the session");
    assert_eq!(node.joins("y"), []);
    let opened = node.step(NodeInput::Session(SessionEvent::Opened { session: session() }));
    let of = |name| {
        let told = told(name, Input::SessionOpened(session()));
        [said(name, Some(session())), told, NodeEffect::Trusted(registry(name))]
    };
    assert_eq!(opened, [of("x"), of("y")].concat());
    let lapsed = node.step(NodeInput::Session(SessionEvent::Lapsed { session: session() }));
    let of = |name| [said(name, None), told(name, Input::SessionLapsed(session()))];
    assert_eq!(lapsed, [of("x"), of("y")].concat());
}

#[test]
fn a_registry_that_joins_is_told_first_how_the_session_is() {
    let (lineage, since) = (LineageId::default(), Time::ZERO);
    let mut node = Node::new();
    node.step(NodeInput::Session(SessionEvent::Lineage { lineage, since }));
    node.step(NodeInput::Session(SessionEvent::Opened { session: session() }));
    let of_lineage = |name| {
        let notice = ElectorInput::Notice(Notice::Lineage { lineage, since });
        [NodeEffect::ToRegistry(registry(name), Told::Elector(notice)), told(name, Input::Lineage(lineage))]
    };
    let open = |name| {
        let told = told(name, Input::SessionOpened(session()));
        vec![said(name, Some(session())), told, NodeEffect::Trusted(registry(name))]
    };
    assert_eq!(node.joins("x"), [of_lineage("x").to_vec(), open("x")].concat());
    node.step(NodeInput::Session(SessionEvent::Lapsed { session: session() }));
    let lapsed = vec![said("y", None), told("y", Input::SessionLapsed(session()))];
    assert_eq!(node.joins("y"), [of_lineage("y").to_vec(), lapsed].concat());
    node.step(NodeInput::Session(SessionEvent::Resumed { session: session() }));
    assert_eq!(node.joins("z"), [of_lineage("z").to_vec(), open("z")].concat());
    node.step(NodeInput::Session(SessionEvent::Lost { session: session() }));
    assert_eq!(node.joins("w"), of_lineage("w"));
}

#[test]
fn a_registry_that_is_refused_is_told_nothing() {
    let mut node = Node::new();
    node.joins("x");
    node.step(NodeInput::Leaving(LeavingInput::Leave(1)));
    assert!(node.0.leaving().has_begun());
    let mut effects = Vec::new();
    assert!(!node.0.join(&registry("y"), &mut effects));
    assert_eq!(effects, []);
    let opened = node.step(NodeInput::Session(SessionEvent::Opened { session: session() }));
    assert!(
        opened.iter().all(|effect| !matches!(effect, NodeEffect::ToRegistry(to, _) if *to == registry("y")))
    );
}
