use std::{sync::Arc, time::Duration};

use callsign_elector::{
    elector::{Input as ElectorInput, Notice, View},
    lineage::{LineageId, LineageNumber},
    record::{Lineage, MemberRow, SessionRecord},
    session::{Effect as SessionEffect, SessionTiming},
};
use callsign_store::{
    Limits, StoreError, Transaction,
    ids::{Beat, ClusterName, Incarnation, Nonce, SessionId, SessionNumber, Token},
    keys::ClusterKeys,
    mvcc::Mvcc,
    record::Record,
};

use super::*;
use crate::core::{
    input::{Input, Now},
    member::{MemberConfig, nothing_known},
    name::Name,
    registry::{RegistryCore, RegistryEffect},
    table::Row,
    tuning::Tuning,
};

fn registry(name: &str) -> RegistryName {
    RegistryName::new(name).unwrap()
}

fn members(nodes: &[&str]) -> Vec<(NodeName, String)> {
    nodes.iter().map(|node| (NodeName::new(*node).unwrap(), format!("{node}:1"))).collect()
}

fn session(number: u64) -> SessionId {
    let node = NodeName::new("a").unwrap();
    SessionId { node, incarnation: Incarnation(1), number: SessionNumber(number) }
}

/// A node, and its store.
struct Node {
    core: NodeCore,
    store: Mvcc,
    now: Time,
    /// The store does not answer.
    is_out: bool,
}

impl Node {
    fn new() -> Self {
        let second = Duration::from_secs(1);
        let times = LeavingTimes { drain: second, decide: second, say: second, close: second };
        let config = SessionConfig {
            cluster: ClusterName::new("c").unwrap(),
            node: NodeName::new("a").unwrap(),
            incarnation: Incarnation(1),
            timing: SessionTiming::default(),
            seed: 1,
        };
        let core = NodeCore::new(config, times).unwrap();
        Self { core, store: Mvcc::new(Limits::FOUNDATIONDB, 1000), now: Time(second * 100), is_out: false }
    }

    /// What is asked for, but for what the session asks of the store and of time: that is done at once.
    fn step(&mut self, input: NodeInput) -> Vec<NodeEffect> {
        let (mut inputs, mut asked) = (VecDeque::from([input]), Vec::new());
        while let Some(input) = inputs.pop_front() {
            let mut effects = Vec::new();
            self.core.step(self.now, input, &mut effects);
            for effect in effects {
                match effect {
                    NodeEffect::Session(_) if self.is_out => {}
                    NodeEffect::Session(SessionEffect::Read { id, reads }) => {
                        let result = self.store.read(&reads, None);
                        let result = result.map_err(|_| StoreError::Unavailable("not kept".into()));
                        inputs.push_back(NodeInput::Session(session::Input::ReadDone { id, result }));
                    }
                    NodeEffect::Session(SessionEffect::Commit { id, transaction }) => {
                        let outcome = self.store.apply(&transaction);
                        inputs.push_back(NodeInput::Session(session::Input::CommitDone { id, outcome }));
                    }
                    NodeEffect::Session(_) => {}
                    other => asked.push(other),
                }
            }
        }
        asked
    }

    fn opens(&mut self) -> Vec<NodeEffect> {
        self.step(NodeInput::Session(session::Input::Start))
    }

    /// What is asked for while these seconds pass.
    fn waits(&mut self, seconds: u64) -> Vec<NodeEffect> {
        let mut asked = Vec::new();
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            asked.extend(self.step(NodeInput::Session(session::Input::Wake)));
        }
        asked
    }

    fn lapses(&mut self) -> Vec<NodeEffect> {
        self.is_out = true;
        self.waits(20)
    }

    fn resumes(&mut self) -> Vec<NodeEffect> {
        self.is_out = false;
        self.waits(20)
    }

    fn joins(&mut self, name: &str) -> Vec<NodeEffect> {
        let mut effects = Vec::new();
        assert!(self.core.join(&registry(name), &mut effects));
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

fn opened(name: &str, number: u64) -> Vec<NodeEffect> {
    let told = told(name, Input::SessionOpened(session(number)));
    vec![said(name, Some(session(number))), told, NodeEffect::Trusted(registry(name))]
}

fn lapsed(name: &str, number: u64) -> Vec<NodeEffect> {
    vec![said(name, None), told(name, Input::SessionLapsed(session(number)))]
}

#[test]
fn a_node_leads_while_it_leads_some_registry() {
    let mut node = Node::new();
    let mut says = |name, leads| {
        let asked = node.step(NodeInput::Tells(registry(name), session::Input::Leads(leads)));
        assert_eq!(asked, [NodeEffect::SessionIsTold]);
        node.core.take() == Some(session::Input::Leads(true))
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
    assert_eq!(node.opens(), [opened("x", 1), opened("y", 1)].concat());
    assert_eq!(node.lapses(), [lapsed("x", 1), lapsed("y", 1)].concat());
    let of = |name| {
        let told = told(name, Input::SessionResumed(session(1)));
        [said(name, Some(session(1))), told, NodeEffect::Trusted(registry(name))]
    };
    assert_eq!(node.resumes(), [of("x"), of("y")].concat());
}

#[test]
fn a_registry_that_joins_is_told_first_how_the_session_is() {
    let mut node = Node::new();
    node.opens();
    assert_eq!(node.joins("x"), opened("x", 1));
    node.lapses();
    assert_eq!(node.joins("y"), lapsed("y", 1));
    node.resumes();
    assert_eq!(node.joins("z"), opened("z", 1));
    // The store goes back, and somebody else has said so.
    let lineage = LineageId { number: LineageNumber(1), nonce: Nonce(7) };
    let record = Lineage { id: lineage, greatest_lease: Duration::from_secs(10) };
    let keys = ClusterKeys::new(&ClusterName::new("c").unwrap());
    node.store.apply(&Transaction::new().put(keys.lineage(), record.to_value()));
    node.waits(20);
    let first = node.joins("w");
    let [NodeEffect::ToRegistry(_, Told::Elector(ElectorInput::Notice(notice))), begins, ..] = &first[..]
    else {
        panic!("{first:?}")
    };
    assert!(matches!(notice, Notice::Lineage { lineage: said, .. } if *said == lineage));
    assert_eq!(begins, &told("w", Input::Lineage(lineage)));
    let number = node.core.session().session().unwrap().number.0;
    assert!(number > 1);
    assert_eq!(first[2..], opened("w", number));
}

#[test]
fn a_registry_that_is_refused_is_told_nothing() {
    let mut node = Node::new();
    node.joins("x");
    node.step(NodeInput::Leaving(LeavingInput::Leave(1)));
    assert!(node.core.leaving().has_begun());
    let mut effects = Vec::new();
    assert!(!node.core.join(&registry("y"), &mut effects));
    assert_eq!(effects, []);
    assert_eq!(node.opens(), opened("x", 1));
}

/// A node that leaves, up to where its session is told to be closed.
fn closing() -> Node {
    let mut node = Node::new();
    node.opens();
    node.step(NodeInput::Leaving(LeavingInput::Leave(1)));
    let asked = node.step(NodeInput::Leaving(LeavingInput::Ended));
    assert_eq!(asked[asked.len() - 2..], CLOSES);
    node
}

const CLOSES: [NodeEffect; 2] = [NodeEffect::Leaving(LeavingEffect::Close), NodeEffect::SessionIsTold];

#[test]
fn a_node_is_gone_when_its_session_says_that_it_is_closed() {
    let mut node = closing();
    let closes = node.core.take().expect("it is told");
    assert_eq!((&closes, node.core.take()), (&session::Input::Leave, None));
    let asked = node.step(NodeInput::Session(closes));
    assert_eq!(asked, [NodeEffect::Leaving(LeavingEffect::Part)]);
    assert!(node.core.session().is_over());
}

#[test]
fn the_links_stay_until_the_store_has_closed_the_session() {
    let mut node = closing();
    let closes = node.core.take().expect("it is told");
    node.is_out = true;
    assert_eq!(node.step(NodeInput::Session(closes)), [], "the store does not answer");
    assert!(!node.core.session().is_over());
}

#[test]
fn where_the_driver_of_the_session_broke_what_it_left_open_is_closed() {
    // Before it was to be closed, or after that.
    for broke_first in [true, false] {
        let mut node = if broke_first { Node::new() } else { closing() };
        if broke_first {
            node.opens();
            assert_eq!(node.step(NodeInput::SessionBroke), []);
            assert_eq!(node.step(NodeInput::Leaving(LeavingInput::Failed)), CLOSES);
        } else {
            assert_eq!(node.step(NodeInput::SessionBroke), [NodeEffect::SessionIsTold]);
        }
        let closes = node.core.take().expect("it is told");
        assert_eq!((&closes, node.core.take()), (&session::Input::Close(SessionNumber(1)), None));
        let asked = node.step(NodeInput::Session(closes));
        assert_eq!(asked, [NodeEffect::Leaving(LeavingEffect::Part)], "{broke_first}");
    }
}

#[test]
fn a_session_that_is_over_already_is_not_waited_for() {
    let mut node = Node::new();
    node.step(NodeInput::Session(session::Input::Leave));
    assert!(node.core.session().is_over());
    let asked = node.step(NodeInput::Leaving(LeavingInput::Failed));
    assert_eq!(asked, [LeavingEffect::Close, LeavingEffect::Part].map(NodeEffect::Leaving));
}

#[test]
fn a_registry_hears_what_its_node_may_do_before_it_joins_and_at_each_change() {
    let mut node = Node::new();
    let told = |effects: Vec<NodeEffect>| {
        let of = |effect| match effect {
            NodeEffect::ToRegistry(
                registry,
                Told::Elector(ElectorInput::Notice(Notice::MayLead(may_lead))),
            ) => Some((registry, Some(may_lead), None)),
            NodeEffect::ToRegistry(registry, Told::Member(Input::Permits(permits))) => {
                Some((registry, None, Some(permits)))
            }
            _ => None,
        };
        effects.into_iter().map(of).collect::<Vec<_>>()
    };
    let permits = |query| Permits::read(query).unwrap();
    let both = |name: &str, permits: Permits| {
        [(registry(name), Some(permits.may_lead()), None), (registry(name), None, Some(permits))].map(Some)
    };
    node.step(NodeInput::Session(session::Input::Start));
    let join = |node: &mut Node, name| {
        let mut effects = Vec::new();
        assert!(node.core.join(&registry(name), &mut effects));
        told(effects)
    };
    assert!(!join(&mut node, "x").iter().any(Option::is_some), "it may do everything");
    let first = permits("names=shop/&lead=no");
    assert_eq!(told(node.step(NodeInput::Permits(first.clone()))), both("x", first.clone()));
    assert!(told(node.step(NodeInput::Permits(first.clone()))).is_empty(), "that is nothing new");
    assert_eq!(join(&mut node, "y")[..2], both("y", first));
    let all = Permits::default();
    let again = told(node.step(NodeInput::Permits(all.clone())));
    assert_eq!(again, [both("x", all.clone()), both("y", all)].concat());
}

#[test]
fn a_node_observes_all_unless_others_look_after_each_of_its_registries() {
    let mut node = Node::new();
    let only =
        |names: &[&str]| Observed::Only(names.iter().map(|name| NodeName::new(name).unwrap()).collect());
    let says = |node: &mut Node, name, observed: Observed| {
        node.step(NodeInput::Tells(registry(name), session::Input::Observe(observed)));
        match node.core.take() {
            Some(session::Input::Observe(observed)) => observed,
            other => panic!("{other:?}"),
        }
    };
    for name in ["x", "y"] {
        node.joins(name);
        assert_eq!(node.core.take(), None);
    }
    assert_eq!(says(&mut node, "x", only(&["l"])), Observed::All, "of y nothing was said");
    assert_eq!(says(&mut node, "y", only(&["k"])), only(&["k", "l"]));
    assert_eq!(says(&mut node, "y", only(&["l"])), only(&["l"]));
    // One more registry.
    let asked = node.joins("z");
    assert!(asked.contains(&NodeEffect::SessionIsTold));
    assert_eq!(node.core.take(), Some(session::Input::Observe(Observed::All)));
    assert_eq!(says(&mut node, "z", only(&["l"])), only(&["l"]));
    assert_eq!(says(&mut node, "x", Observed::All), Observed::All);
}

#[test]
fn the_session_hears_what_registries_say_in_the_order_in_which_they_say_it() {
    let mut node = Node::new();
    for leads in [true, false] {
        node.step(NodeInput::Tells(registry("x"), session::Input::Leads(leads)));
    }
    let mut take = || node.core.take();
    assert_eq!(take(), Some(session::Input::Leads(true)));
    assert_eq!(take(), Some(session::Input::Leads(false)));
    assert_eq!(take(), None);
}

#[test]
fn a_registry_says_who_its_members_are_when_they_change_and_whose_sessions_are_open_but_its_own() {
    let of = |name: &str| {
        let (node, incarnation, number) = (NodeName::new(name).unwrap(), Incarnation(2), SessionNumber(1));
        SessionId { node, incarnation, number }
    };
    let mut view = nothing_known();
    for name in ["a", "b", "c"] {
        let row = MemberRow {
            token: Token(1),
            session: of(name),
            address: format!("{name}:1"),
            admin: None,
            priority: 1,
            synced: true,
            empty: false,
            accuses: None,
            draining: false,
        };
        view.members.insert(of(name).node, row);
        let (incarnation, number, lease) = (Incarnation(2), SessionNumber(1), Duration::from_secs(9));
        let record = SessionRecord { incarnation, number, lease, beat: Beat(1), open: name != "c" };
        view.sessions.insert(of(name).node, Some(record));
    }
    let cluster = ClusterKeys::new(&ClusterName::new("c").unwrap());
    let (me, incarnation, keys) = (of("a").node, Incarnation(2), cluster.registry(&registry("alone")));
    let config = MemberConfig { me, incarnation, keys, seed: 1, tuning: Tuning::default() };
    let mut core = RegistryCore::of_member(config, BTreeMap::<Name, Row>::new());
    let mut shows = |view: &View| {
        let (now, mut effects) = (Now { time: Time(Duration::from_secs(100)), trusted: None }, Vec::new());
        core.step(now, Told::Member(Input::View(Arc::new(view.clone()))), &mut effects);
        effects
    };
    let open = || RegistryEffect::ToNode(NodeInput::Open(vec![of("b")]));
    let are = |nodes: &[&str]| RegistryEffect::ToNode(NodeInput::Members(registry("alone"), members(nodes)));
    assert_eq!(shows(&view), [open(), are(&["a", "b", "c"])]);
    assert_eq!(shows(&view), [open()], "they are the same");
    view.members.remove(&of("c").node);
    assert_eq!(shows(&view), [open(), are(&["a", "b"])]);
    view.members.remove(&of("b").node);
    assert_eq!(shows(&view), [are(&["a"])], "nobody else is known to be there");
}

#[test]
fn a_registry_that_knows_of_a_former_session_only_does_not_have_its_incarnation_taken_for_the_last_one() {
    let mut node = Node::new();
    node.joins("x");
    node.joins("y");
    let session = |name: &str, incarnation, number| SessionId {
        node: NodeName::new(name).unwrap(),
        incarnation: Incarnation(incarnation),
        number: SessionNumber(number),
    };
    let last = |name: &str, incarnation| {
        NodeEffect::Confirmed(NodeName::new(name).unwrap(), Incarnation(incarnation))
    };
    let mut open = |sessions: &[SessionId]| node.step(NodeInput::Open(sessions.to_vec()));
    assert_eq!(open(&[session("b", 7, 1), session("c", 3, 1)]), [last("b", 7), last("c", 3)]);
    // It came back. Incarnations are random numbers: the later one may be less.
    assert_eq!(open(&[session("b", 5, 2)]), [last("b", 5)]);
    assert_eq!(open(&[session("b", 7, 1), session("c", 3, 1)]), [last("c", 3)]);
    // It is said again: a link may have been dialled meanwhile.
    assert_eq!(open(&[session("b", 5, 2)]), [last("b", 5)]);
    // A node that is a member of no registry any more is forgotten.
    let are = |name: &str, nodes: &[&str]| NodeInput::Members(registry(name), members(nodes));
    node.step(are("x", &["a", "b"]));
    node.step(are("y", &["a", "b"]));
    node.step(are("x", &["a"]));
    assert_eq!(node.step(NodeInput::Open(vec![session("b", 7, 1)])), [], "y has it still");
    node.step(are("y", &["a"]));
    assert_eq!(node.step(NodeInput::Open(vec![session("b", 7, 1)])), [last("b", 7)]);
}

#[test]
fn a_session_counts_as_the_last_one_again_once_the_store_went_back() {
    let mut node = Node::new();
    node.opens();
    node.joins("x");
    let (of_b, lineage) =
        (NodeName::new("b").unwrap(), LineageId { number: LineageNumber(1), nonce: Nonce(7) });
    let open = |incarnation, number| {
        let (incarnation, number) = (Incarnation(incarnation), SessionNumber(number));
        NodeInput::Open(vec![SessionId { node: of_b.clone(), incarnation, number }])
    };
    let last = |incarnation| NodeEffect::Confirmed(of_b.clone(), Incarnation(incarnation));
    assert_eq!(node.step(open(7, 5)), [last(7)]);
    assert_eq!(node.step(open(3, 4)), []);
    let record = Lineage { id: lineage, greatest_lease: Duration::from_secs(10) };
    let keys = ClusterKeys::new(&ClusterName::new("c").unwrap());
    node.store.apply(&Transaction::new().put(keys.lineage(), record.to_value()));
    node.waits(20);
    assert_eq!(node.step(open(3, 4)), [last(3)]);
}
