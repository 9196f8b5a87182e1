//! What the routes do that a node of the command has beyond those of the library.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::ConnectInfo,
    http::{Request, StatusCode, header},
};
use callsign::{Config, MAX_NAME_BYTES, MemoryNetwork, Network, Registry, SharedStore, admin::Registries};
use callsign_store::{Clock, memory::MemoryStore};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::{
    admin::{Limits, MAX_RANGE, numbers, routes},
    echo,
    hosted::Hosted,
    metrics::Counted,
};

/// Longer than any answer takes, in virtual time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// A node alone that has joined two registries, `default` and `second`.
struct Alone {
    store: MemoryStore,
    routes: Router,
    left: watch::Receiver<bool>,
}

impl Alone {
    async fn start() -> Self {
        let store = MemoryStore::new();
        let config = Config::new("a", Arc::new(store.connect("a")) as SharedStore)
            .listen(([127, 0, 0, 1], 7001).into())
            .network(Network::Memory(MemoryNetwork::new()))
            .clock(Clock::runtime());
        let first = Registry::join(config).await.unwrap();
        let second = first.join_beside("second").await.unwrap();
        for registry in [&first, &second] {
            assert!(registry.ready(ANSWER_TIMEOUT).await.is_ok(), "{:?}", registry.status());
        }
        let registries = Registries::of(&first).beside(&second);
        let hosted = Arc::new(Hosted::new("a".to_owned(), registries, echo::spawn("a").await.unwrap()));
        let metrics = Counted::by(PrometheusBuilder::new().build_recorder().handle());
        let (leave, left) = watch::channel(false);
        Self { store, routes: routes(hosted, leave, None, metrics), left }
    }

    async fn ask(&self, method: &str, path: &str, body: Body) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:80");
        let mut request = request.header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
        // As the server says it.
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 5000))));
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, self.routes.clone().oneshot(request)).await;
        let response = answered.expect("it answers").unwrap_or_else(|never| match never {});
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask("GET", path, Body::empty()).await
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.ask("POST", path, Body::from(body.to_string())).await
    }

    /// What is answered to something that is done.
    async fn done(&self, path: &str, body: &Value) -> Value {
        let (status, said) = self.post(path, body).await;
        assert_eq!(status, StatusCode::OK, "{path}: {said}");
        said
    }

    /// The status and the code of what is answered to something that is refused.
    async fn refused(&self, path: &str, body: &Value) -> (u16, String) {
        let (status, said) = self.post(path, body).await;
        (status.as_u16(), said["error"].as_str().unwrap_or("none").to_owned())
    }

    async fn held(&self) -> Vec<Value> {
        self.get("/held").await.1["held"].as_array().unwrap().clone()
    }

    /// The names that are held here, as they are listed.
    async fn names(&self) -> Vec<String> {
        let held = self.held().await;
        held.iter().map(|held| held["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_range_has_a_million_names_at_the_most() {
    let range = |from, to| numbers(from, to).ok();
    assert_eq!(range(7, 7 + MAX_RANGE), Some(7..7 + MAX_RANGE));
    assert_eq!(range(7, 8 + MAX_RANGE), None);
    assert!(range(5, 2).is_some_and(|names| names.is_empty()));
}

#[test]
fn the_page_of_limits_says_what_the_endpoint_takes() {
    let page = include_str!("../../../../docs/limits.md");
    let Limits { connections, spare, .. } = Limits::default();
    for row in [
        format!("| connections to the admin endpoint | {connections}, and {spare} for probes |"),
        format!("| names of a range that the admin endpoint is asked for | {MAX_RANGE} |"),
    ] {
        assert!(page.contains(&row), "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_range_of_names_it_is_said_how_many_are_registered_and_how_the_others_failed() {
    let node = Alone::start().await;
    let said = node.done("/register-many", &json!({"prefix": "p", "from": 2, "to": 5})).await;
    assert_eq!((&said["registered"], &said["failed"]), (&json!(3), &json!({})), "{said}");
    assert_eq!(said["first_failure"], Value::Null);
    // Those of two digits are too long.
    let prefix = "x".repeat(MAX_NAME_BYTES - 1);
    let range = json!({"prefix": prefix, "from": 8, "to": 12, "concurrency": 1});
    let said = node.done("/register-many", &range).await;
    assert_eq!((&said["registered"], &said["failed"]), (&json!(2), &json!({"bad_name": 2})));
    assert_eq!(said["first_failure"], json!({"name": format!("{prefix}10"), "error": "bad_name"}));
    assert!(said["elapsed_ms"].is_u64());
    let none_at_once = json!({"prefix": "z", "from": 0, "to": 2, "concurrency": 0});
    assert_eq!(node.done("/register-many", &none_at_once).await["registered"], 2);

    for (query, present, missing, first_missing) in [
        ("from=0&to=6", 3, 3, json!("p0")),
        ("from=2&to=6", 3, 1, json!("p5")),
        ("from=2&to=5", 3, 0, Value::Null),
        ("from=5&to=2", 0, 0, Value::Null),
        ("from=2&to=5&registry=second", 0, 3, json!("p2")),
    ] {
        let (status, said) = node.get(&format!("/contains-all?prefix=p&{query}")).await;
        let expected = json!({"present": present, "missing": missing, "first_missing": first_missing});
        assert_eq!((status, said), (StatusCode::OK, expected), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_held_here_are_listed_by_registry_and_name() {
    let node = Alone::start().await;
    node.done("/register", &json!({"name": "a", "registry": "second"})).await;
    let range = json!({"prefix": "n", "from": 0, "to": 9});
    assert_eq!(node.done("/register-many", &range).await["registered"], 9);
    let held = node.held().await;
    let places = held.iter().map(|held| (held["registry"].clone(), held["name"].clone()));
    let expected = (0..9).map(|nth| (json!("default"), json!(format!("n{nth}"))));
    let expected = expected.chain([(json!("second"), json!("a"))]);
    assert_eq!(places.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    for held in held {
        assert_eq!((&held["trusted"], &held["notices"]), (&json!(true), &json!([])), "{held}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_actor_that_serves_many_names_is_not_ended_with_one_of_them() {
    let node = Alone::start().await;
    node.done("/register", &json!({"name": "one", "shared": true})).await;
    let range = json!({"prefix": "p", "from": 0, "to": 2, "shared": true});
    assert_eq!(node.done("/register-many", &range).await["registered"], 2);
    for name in ["one", "p0"] {
        let refused = node.refused("/end-actor", &json!({"name": name})).await;
        assert_eq!(refused, (400, "shared_actor".to_owned()), "{name}");
    }
    assert_eq!(node.names().await, ["one", "p0", "p1"]);
    node.done("/unregister", &json!({"name": "p0"})).await;
    assert_eq!(node.names().await, ["one", "p1"]);
    for consistent in [false, true] {
        let call = json!({"name": "p1", "text": "hello", "consistent": consistent});
        assert_eq!(node.done("/call", &call).await, json!({"answer": "node a says hello"}));
        let nobody = json!({"name": "p0", "text": "hello", "consistent": consistent});
        assert_eq!(node.refused("/call", &nobody).await, (404, "not_found".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_ended_frees_its_name() {
    let node = Alone::start().await;
    let registered = node.done("/register", &json!({"name": "desk"})).await;
    assert_eq!((&registered["name"], &registered["node"]), (&json!("desk"), &json!("a")));
    assert_eq!(registered["revision"], registered["token"]);
    assert_eq!(registered["already"], false);
    let otherwise = json!({"name": "desk", "meta": {"zone": "eu"}, "moves": true});
    let mut again = node.done("/register", &otherwise).await;
    assert_eq!(again["already"], true, "{again}");
    again["already"] = false.into();
    assert_eq!(again, registered, "it is for the same actor");
    assert_eq!(node.get("/whereis?name=desk").await.1["meta"], Value::Null, "it says what it said");
    assert_eq!(node.done("/end-actor", &json!({"name": "desk"})).await, json!({"name": "desk"}));
    assert!(node.held().await.is_empty());
    let freed = registered["token"].as_u64().unwrap() + 1;
    let (status, said) = node.get(&format!("/wait-for?position={freed}&wait_ms=60000")).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert_eq!(node.get("/whereis?name=desk").await.0, StatusCode::NOT_FOUND);
    for name in ["desk", "nobody"] {
        assert_eq!(node.refused("/end-actor", &json!({"name": name})).await, (404, "not_found".to_owned()));
        assert_eq!(
            node.refused("/unregister", &json!({"name": name})).await,
            (404, "not_held_here".to_owned())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_name_says_of_itself_is_changed_by_who_knows_its_last_change() {
    let node = Alone::start().await;
    let registered = node.done("/register", &json!({"name": "desk", "meta": {"zone": "eu"}})).await;
    let meta = async || node.get("/whereis?name=desk").await.1["meta"].clone();
    assert_eq!(meta().await, json!({"zone": "eu"}));
    let update = json!({"name": "desk", "meta": {"zone": "us"}, "expected": registered["revision"]});
    let updated = node.done("/update", &update).await;
    assert!(updated["revision"].as_u64() > registered["revision"].as_u64(), "{updated}");
    assert_eq!(meta().await, json!({"zone": "us"}));
    let (status, late) = node.post("/update", &update).await;
    assert_eq!((status, &late["error"]), (StatusCode::CONFLICT, &json!("changed")), "{late}");
    assert_eq!(late["revision"], updated["revision"]);
    // Without `expected` it is changed in any case, and without `meta` it says nothing any more.
    node.done("/update", &json!({"name": "desk"})).await;
    assert_eq!(meta().await, Value::Null);

    let nobody = json!({"name": "nobody", "meta": {"zone": "us"}});
    assert_eq!(node.refused("/update", &nobody).await, (404, "not_held_here".to_owned()));
    let nowhere = json!({"name": "desk", "registry": "nowhere"});
    assert_eq!(node.refused("/update", &nowhere).await, (400, "unknown_registry".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_is_set_is_set_for_the_registry_that_is_named() {
    let node = Alone::start().await;
    let change = json!({"lock_timeout_ms": 4000, "registry": "second"});
    let said = node.done("/configure", &change).await;
    let settings = &said["settings"];
    assert_eq!((&settings["lock_timeout_ms"], &settings["set"]), (&json!(4000), &json!(["lock_timeout_ms"])));
    let said = node.done("/configure", &json!({"silence_ms": 3000, "registry": "second"})).await;
    let settings = &said["settings"];
    assert_eq!((&settings["lock_timeout_ms"], &settings["silence_ms"]), (&json!(4000), &json!(3000)));
    let (_, first) = node.get("/status").await;
    assert_eq!(first["settings"]["set"], json!([]), "{first}");
}

#[tokio::test(start_paused = true)]
async fn a_node_alone_that_drains_keeps_its_names_until_it_leaves_and_tells_who_wants_to_know() {
    let node = Alone::start().await;
    node.done("/register", &json!({"name": "told", "when_lapsed": "tell"})).await;
    node.done("/register", &json!({"name": "untold"})).await;
    node.done("/register", &json!({"name": "far", "registry": "second"})).await;
    let drained = node.done("/drain", &json!({})).await;
    assert_eq!(drained, json!({"drained": "alone", "moved": 0, "stay": 3}));
    for held in node.held().await {
        let notices = if held["name"] == "told" { json!(["draining"]) } else { json!([]) };
        assert_eq!((&held["trusted"], &held["notices"]), (&json!(true), &notices), "{held}");
    }
    assert_eq!(node.names().await, ["told", "untold", "far"]);
    assert_eq!(node.refused("/register", &json!({"name": "late"})).await, (503, "draining".to_owned()));
    assert!(!*node.left.borrow());

    assert_eq!(node.done("/leave", &json!({})).await, json!({"left": true}));
    assert!(*node.left.borrow());
    assert_eq!(node.done("/drain", &json!({})).await["drained"], "left");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_store_is_gone_says_that_it_does_not_know_and_ends_all_the_same() {
    let node = Alone::start().await;
    node.store.outage_for_all();
    let (status, said) = node.post("/register", &json!({"name": "desk", "wait_ms": 1500})).await;
    assert_eq!((status, &said["error"]), (StatusCode::GATEWAY_TIMEOUT, &json!("unknown")), "{said}");
    // As long as it was told, which is not what it waits by itself.
    assert!(said["waited_ms"].as_u64().is_some_and(|waited| (1500..5000).contains(&waited)), "{said}");
    let (status, said) = node.post("/leave", &json!({})).await;
    assert_eq!((status, &said["error"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("store_unavailable")));
    assert_eq!(said["verdict"], "unknown");
    assert!(*node.left.borrow());
}
