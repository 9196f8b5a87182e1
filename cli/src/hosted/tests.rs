use callsign::{Clock, Config, MemoryNetwork, Network, SharedStore};
use callsign_store::memory::MemoryStore;
use futures::FutureExt;

use super::*;

const CONDITION_TIMEOUT: Duration = Duration::from_secs(60);

/// Two nodes of a cluster in memory.
async fn two() -> [Hosted; 2] {
    let (store, network) = (MemoryStore::new(), MemoryNetwork::new());
    let node = async |name: &str, port: u16| {
        let store: SharedStore = Arc::new(store.connect(name));
        let config = Config::new(name, store)
            .listen(([127, 0, 0, 1], port).into())
            .network(Network::Memory(network.clone()))
            .clock(Clock::runtime());
        let registry = Registry::join(config).await.unwrap();
        assert!(registry.ready(Duration::from_secs(60)).await.is_ok(), "{:?}", registry.status());
        Hosted::new(name.to_owned(), Registries::of(&registry), echo::spawn(name).await.unwrap())
    };
    [node("a", 7001).await, node("b", 7002).await]
}

/// How requests ended that ask for a name at one node, two at a time, while it comes and goes there and elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_ends_no_actor_that_another_request_asks_for() {
    let nodes = two().await;
    let churn = async |node: &Hosted| {
        let (mut granted, mut refused) = (0, Vec::new());
        for _ in 0..200 {
            let (one, other) = tokio::join!(
                node.register(None, "x", How::default()),
                node.register(None, "x", How::default())
            );
            let is_held = one.is_ok() || other.is_ok();
            for result in [one, other] {
                match result {
                    Ok(_) => granted += 1,
                    Err(refusal) => refused.push(refusal.code),
                }
            }
            if is_held {
                // Beside it, somebody asks anew.
                let (given_up, again) =
                    tokio::join!(node.unregister(None, "x"), node.register(None, "x", How::default()));
                given_up.map_err(|refusal| refusal.code).unwrap();
                refused.extend(again.err().map(|refusal| refusal.code));
                let _ = node.unregister(None, "x").await;
            }
        }
        (granted, refused)
    };
    let ((a, refused_by_a), (b, refused_by_b)) = tokio::join!(churn(&nodes[0]), churn(&nodes[1]));
    assert!(a > 0 && b > 0, "both got it sometimes: {a}, {b}");
    let others: Vec<_> = refused_by_a.iter().chain(&refused_by_b).filter(|code| **code != "taken").collect();
    assert!(others.is_empty(), "{others:?}");
    // Nobody needs an actor any more.
    for node in &nodes {
        assert!(node.held().is_empty());
        assert!(lock(&node.actors).is_empty());
    }
}

#[tokio::test]
async fn an_actor_that_a_request_asks_with_ends_when_the_name_moves_here() {
    let [here, there] = two().await.map(Arc::new);
    let _receiving = here.receive();
    let moves = How { moves: true, ..How::default() };
    there.register(None, "x", moves).await.map_err(|refusal| refusal.code).unwrap();
    let asking = echo::spawn("here").await.unwrap();
    lock(&here.actors).insert(here.place(None, "x"), Hosting::new(asking.clone()));
    let (to, patience) = (NodeName::new("a").unwrap(), Duration::from_secs(60));
    there.transfer(None, "x", &to, patience).await.map_err(|refusal| refusal.code).unwrap();
    asking.wait(Some(patience)).await.expect("nobody needs it");
    let held = here.registration(None, "x").map_err(|refusal| refusal.code).unwrap();
    assert!(held.check().is_ok());
}

fn code<T>(result: Result<T, Refusal>) -> Option<&'static str> {
    result.err().map(|refusal| refusal.code)
}

/// The actor of a request for a name that went without a verdict.
async fn asked_before(node: &Hosted, name: &str) -> ActorRef<Echo> {
    let actor = echo::spawn(&node.node).await.unwrap();
    let hosting = Hosting { is_unknown: true, ..Hosting::new(actor.clone()) };
    lock(&node.actors).insert(node.place(None, name), hosting);
    actor
}

#[tokio::test]
async fn the_actor_of_a_request_that_was_given_up_is_kept_for_the_next_one() {
    let [node, _other] = two().await;
    let (place, actor) = (node.place(None, "x"), echo::spawn("a").await.unwrap());
    lock(&node.actors).insert(place.clone(), Hosting::new(actor.clone()));
    assert!(node.register(None, "x", How::default()).now_or_never().is_none());
    assert!(lock(&node.actors).contains_key(&place), "it may hold the name by now");
    assert_eq!(code(node.register(None, "x", How::default()).await), None);
    let holder = lock(&node.actors).get(&place).map(|hosting| hosting.actor.get_id());
    assert_eq!(holder, Some(actor.get_id()));
    // From here on it is known what became of it.
    node.registries.first().unregister("x").await.unwrap();
    assert!(node.held().is_empty());
    assert!(lock(&node.actors).is_empty());
    actor.wait(Some(CONDITION_TIMEOUT)).await.expect("nobody needs it");
}

#[tokio::test]
async fn an_actor_ends_with_a_no_of_the_registry_and_not_because_nothing_was_asked() {
    let [here, there] = two().await;
    assert_eq!(code(there.register(None, "x", How::default()).await), None);
    let actor = asked_before(&here, "x").await;
    assert_eq!(code(here.register(None, "x", How::default()).await), Some("taken"));
    assert!(lock(&here.actors).is_empty());
    actor.wait(Some(CONDITION_TIMEOUT)).await.expect("it does not hold the name, and never will");

    there.registries.first().drain().await;
    let actor = asked_before(&there, "y").await;
    assert_eq!(code(there.register(None, "y", How::default()).await), Some("draining"));
    assert!(lock(&there.actors).contains_key(&there.place(None, "y")), "it may hold the name");
    assert!(is_running(&actor));
}

#[tokio::test]
async fn an_actor_that_ended_by_itself_is_not_asked_with_and_has_ended() {
    let [node, _other] = two().await;
    for name in ["x", "y"] {
        let ended = asked_before(&node, name).await;
        ended.stop(None);
        ended.wait(Some(CONDITION_TIMEOUT)).await.expect("it ends");
    }
    assert_eq!(code(node.register(None, "x", How::default()).await), None, "another one has it");
    assert_eq!(code(node.end_actor(None, "y").await), None);
    assert_eq!(code(node.end_actor(None, "y").await), Some("not_found"));
}

#[tokio::test]
async fn an_actor_ends_when_its_name_is_given_up_unless_it_serves_others() {
    let [node, _other] = two().await;
    let own = asked_before(&node, "own").await;
    let shared = How { shared: true, ..How::default() };
    for (name, how) in [("own", How::default()), ("one", shared.clone()), ("other", shared)] {
        assert_eq!(code(node.register(None, name, how).await), None, "{name}");
    }
    for name in ["own", "one"] {
        // Whatever was asked before is decided with it.
        lock(&node.actors).get_mut(&node.place(None, name)).unwrap().is_unknown = true;
        assert_eq!(code(node.unregister(None, name).await), None, "{name}");
    }
    assert_eq!(lock(&node.actors).keys().cloned().collect::<Vec<_>>(), [node.place(None, "other")]);
    own.wait(Some(CONDITION_TIMEOUT)).await.expect("nobody needs it");
    assert!(is_running(&node.shared));
}

#[tokio::test]
async fn a_name_is_elsewhere_if_another_node_has_got_it_since() {
    let [here, there] = two().await;
    let registered = here.register(None, "x", How::default()).await;
    let token = registered.map_err(|refusal| refusal.code).unwrap().token();
    there.registries.first().wait_for(token, CONDITION_TIMEOUT).await.unwrap();
    let held = |name: &str, token| Held {
        registry: "default".to_owned(),
        name: name.to_owned(),
        token,
        trusted: true,
        notices: Vec::new(),
    };
    let before = Position(token.0 - 1);
    assert!(there.is_elsewhere(&held("x", before)));
    assert!(!there.is_elsewhere(&held("x", token)), "that is no later one");
    assert!(!here.is_elsewhere(&held("x", before)), "it is here, once more");
    assert!(!there.is_elsewhere(&held("y", before)), "nobody has it");
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waits = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(CONDITION_TIMEOUT, waits).await.is_ok(), "not so: {what}");
}

#[tokio::test]
async fn a_name_that_has_moved_here_moves_on_when_this_node_drains() {
    let [a, b] = two().await.map(Arc::new);
    let _receiving = [a.receive(), b.receive()];
    for node in [&a, &b] {
        let members = || node.registries.first().members();
        let is_known = || members().iter().filter(|member| member.synced && member.linked).count() == 2;
        until("they know each other", is_known).await;
    }
    assert_eq!(code(a.register(None, "x", How::default()).await), None);
    assert_eq!(code(a.transfer(None, "x", &NodeName::new("b").unwrap(), CONDITION_TIMEOUT).await), None);
    until("b has it", || b.held().len() == 1).await;
    let held = b.held();
    b.registries.first().drain().await;
    assert!(b.is_elsewhere(&held[0]), "{}", held[0].name);
    until("a has it", || a.held().len() == 1).await;
}
