//! The router as a program embeds it.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::ConnectInfo,
    http::{Request, StatusCode, header, request::Builder},
    routing::post,
};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Admin, AdminToken, HttpRefusal, Registries, router};
use crate::{
    Clock, Config, MemoryNetwork, MemoryStore, Meta, Network, RegisterError, RegisterOptions, Registry,
    Settings, SharedStore,
    driver::seat::seat,
    tests::driver::{Cluster, until},
};

const TOKEN: &str = "0123456789abcdef";

async fn node() -> Registry {
    node_over(&MemoryStore::new()).await
}

async fn node_over(store: &MemoryStore) -> Registry {
    let config = Config::new("a", Arc::new(store.clone()) as SharedStore)
        .listen(([127, 0, 0, 1], 7001).into())
        .network(Network::Memory(MemoryNetwork::new()))
        .clock(Clock::runtime());
    let registry = Registry::join(config).await.unwrap();
    registry.ready(Duration::from_secs(60)).await.unwrap();
    registry
}

fn asking(method: &str, path: &str) -> Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:80")
}

async fn answer(router: &Router, request: Builder) -> (StatusCode, Value) {
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 5000))));
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let text = || Value::from(String::from_utf8_lossy(&body).into_owned());
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
}

async fn get(router: &Router, path: &str) -> Value {
    let (status, body) = answer(router, asking("GET", path)).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

#[tokio::test(start_paused = true)]
async fn below_a_path_there_are_the_page_and_what_it_asks_and_the_site_is_as_it_was() {
    let registry = node().await;
    let site = Router::new()
        .route("/", axum::routing::get(async || "the shop"))
        .nest("/callsign", router(&registry))
        .fallback(async || (StatusCode::NOT_FOUND, "not in this shop"));
    assert_eq!(get(&site, "/").await, "the shop");
    assert_eq!(answer(&site, asking("GET", "/status")).await.1, "not in this shop");
    let page = get(&site, "/callsign").await;
    assert!(page.as_str().unwrap().contains("src=\"./callsign/page.js\""), "{page}");
    for file in ["page.js", "rates.js", "page.css"] {
        get(&site, &format!("/callsign/{file}")).await;
    }
    for path in
        ["members", "names", "entries", "count", "live", "ready", "groups", "history", "wait-for?position=1"]
    {
        get(&site, &format!("/callsign/{path}")).await;
    }
    let status = get(&site, "/callsign/status").await;
    assert_eq!((&status["node"], &status["registries"]), (&"a".into(), &json!(["default"])));
    let (status, body) = answer(&site, asking("GET", "/callsign/nothing")).await;
    assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &"no_such_route".into()));
    // Nobody handed in what was counted.
    let (_, body) = answer(&site, asking("GET", "/callsign/metrics")).await;
    assert_eq!(body["error"], "no_such_route");
    let counting = Admin::new(&registry).metrics(|| "calls 7\n".to_owned()).router();
    assert_eq!(get(&counting, "/metrics").await, "calls 7\n");
}

#[tokio::test(start_paused = true)]
async fn the_others_are_asked_for_their_links_when_that_is_wanted_and_what_they_say_is_shown() {
    let [a, ..] = &Cluster::new().three().await;
    let router = router(a);
    let linked = || a.members().iter().filter(|member| member.linked).count();
    until("a is linked to both", || linked() == 3).await;
    let links_of =
        async |node: usize, path: &str| get(&router, path).await["members"][node]["links_to"].clone();
    for path in ["/status", "/members", "/status?ask_links=false"] {
        assert_eq!(links_of(0, path).await, json!(["b", "c"]), "its own it knows");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(links_of(1, path).await, Value::Null, "nobody was asked by {path}");
        assert_eq!(get(&router, path).await["members"][1]["behind"], Value::Null);
    }
    assert_eq!(links_of(1, "/status?ask_links=true").await, Value::Null, "it waits for nobody");
    until("b has answered", || a.members()[1].links_to.is_some()).await;
    for path in ["/status", "/members"] {
        assert_eq!(links_of(1, path).await, json!(["a", "c"]));
        assert_eq!(get(&router, path).await["members"][1]["behind"], 0, "it is where a is");
    }
    let (status, body) = answer(&router, asking("GET", "/status?ask_links=perhaps")).await;
    assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &"bad_query".into()));
}

#[tokio::test(start_paused = true)]
async fn it_only_reads() {
    let router = router(&node().await);
    let paths = ["", "whereis", "explain", "names", "entries", "watch", "count", "groups", "singletons"];
    let more =
        ["wait-for", "members", "live", "ready", "status", "history", "page.js", "rates.js", "page.css"];
    for path in paths.into_iter().chain(more) {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let (status, body) = answer(&router, asking(method, &format!("/{path}"))).await;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} /{path}: {body}");
        }
    }
    // What a node of the command has beyond that.
    for path in ["register", "register-many", "transfer", "update", "unregister", "end-actor", "call"] {
        assert_eq!(answer(&router, asking("POST", &format!("/{path}"))).await.1["error"], "no_such_route");
    }
    for path in ["configure", "drain", "leave"] {
        assert_eq!(answer(&router, asking("POST", &format!("/{path}"))).await.1["error"], "no_such_route");
    }
}

#[tokio::test(start_paused = true)]
async fn routes_of_ones_own_are_behind_the_same_check_and_answer_in_the_same_way() {
    let (registry, token) = (node().await, AdminToken::new(TOKEN).unwrap());
    let no = async || Err::<Json<()>, HttpRefusal>(RegisterError::NoLeader.into());
    let own = Router::new().route("/resign", post(async || "resigned")).route("/no", post(no));
    let router = Admin::new(&registry).token(token.clone()).routes(own).router();
    let asked = async |method, path, right: bool| {
        let request = asking(method, path);
        let authorization = token.authorization();
        answer(&router, if right { request.header(header::AUTHORIZATION, authorization) } else { request })
            .await
    };
    for (method, path) in [("GET", "/status"), ("POST", "/resign"), ("GET", "/nothing")] {
        let (status, body) = asked(method, path, false).await;
        assert_eq!((status, &body["error"]), (StatusCode::UNAUTHORIZED, &"unauthorized".into()), "{path}");
    }
    assert_eq!(asked("POST", "/resign", true).await, (StatusCode::OK, "resigned".into()));
    assert_eq!(asked("GET", "/resign", true).await.1["error"], "method_not_allowed");
    let (status, body) = asked("POST", "/no", true).await;
    assert_eq!((status, &body["error"]), (StatusCode::SERVICE_UNAVAILABLE, &"no_leader".into()));
    // Its files say nothing of the node.
    assert_eq!(asked("GET", "/", false).await.0, StatusCode::OK);
    let from_a_page = asking("POST", "/resign").header("sec-fetch-site", "same-origin");
    let from_a_page = from_a_page.header(header::AUTHORIZATION, token.authorization());
    assert_eq!(answer(&router, from_a_page).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn who_is_let_in_is_said_before() {
    let registry = node().await;
    let elsewhere = || Request::builder().uri("/status").header(header::HOST, "shop.example");
    let ask = async |router: Router, from: Option<SocketAddr>| {
        let mut request = elsewhere().body(Body::empty()).unwrap();
        if let Some(from) = from {
            request.extensions_mut().insert(ConnectInfo(from));
        }
        router.oneshot(request).await.unwrap().status()
    };
    let far = Some(SocketAddr::from(([10, 0, 0, 1], 5000)));
    assert_eq!(ask(router(&registry), far).await, StatusCode::FORBIDDEN);
    assert_eq!(ask(router(&registry), None).await, StatusCode::FORBIDDEN);
    let open = || Admin::new(&registry).let_everyone_in().router();
    assert_eq!((ask(open(), far).await, ask(open(), None).await), (StatusCode::OK, StatusCode::OK));
    let of_a_page = elsewhere().header(header::ORIGIN, "https://evil.example");
    assert_eq!(answer(&open(), of_a_page).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn each_registry_answers_for_itself_and_the_first_where_none_is_named() {
    let first = node().await;
    let other = first.join_beside("other").await.unwrap();
    other.ready(Duration::from_secs(60)).await.unwrap();
    other.register("x", &seat().await.unwrap()).await.unwrap();
    let router = Admin::new(Registries::of(&first).beside(&other)).router();
    assert_eq!(get(&router, "/count").await["count"], 0);
    assert_eq!(get(&router, "/count?registry=other").await["count"], 1);
    assert_eq!(get(&router, "/status").await["registries"], json!(["default", "other"]));
    let (status, body) = answer(&router, asking("GET", "/count?registry=third")).await;
    assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &"unknown_registry".into()));
    assert_eq!(body["joined"], json!(["default", "other"]));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_ready_when_it_serves_in_all_of_its_registries() {
    let (store, network) = (MemoryStore::new(), MemoryNetwork::new());
    let config = Config::new("a", Arc::new(store.connect("a")) as SharedStore)
        .listen(([127, 0, 0, 1], 7001).into())
        .network(Network::Memory(network))
        .clock(Clock::runtime());
    let first = Registry::join(config).await.unwrap();
    assert!(first.ready(Duration::from_secs(60)).await.is_ok());
    store.outage_for_all();
    let other = first.join_beside("other").await.unwrap();
    let router = Admin::new(Registries::of(&first).beside(&other)).router();
    assert_eq!(get(&router, "/ready?registry=default").await["ready"], true);
    for path in ["/ready", "/ready?registry=other"] {
        let (status, body) = answer(&router, asking("GET", path)).await;
        assert_eq!((status, &body["registry"]), (StatusCode::SERVICE_UNAVAILABLE, &"other".into()), "{body}");
    }
    let (status, body) = answer(&router, asking("GET", "/ready?registry=third")).await;
    assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &"unknown_registry".into()));
    store.heal_all();
    assert_eq!(get(&router, "/ready?wait_ms=60000").await["ready"], true);
}

#[tokio::test(start_paused = true)]
async fn metadata_that_is_nested_deeper_than_parsers_of_json_go_harms_no_other_name() {
    let registry = node().await;
    for (name, depth) in [("deep", 200), ("flat", 20)] {
        let nested = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        let options =
            RegisterOptions { meta: Some(Meta::new(&nested).unwrap()), ..RegisterOptions::default() };
        registry.register_with(name, &seat().await.unwrap(), options).await.unwrap();
    }
    let page = get(&router(&registry), "/entries").await;
    let [deep, flat] = &page["entries"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&deep["name"], &deep["meta"]), (&"deep".into(), &Value::Null));
    assert!(flat["meta"][0][0][0].is_array(), "{flat}");
}

#[tokio::test(start_paused = true)]
async fn groups_come_page_by_page_with_their_sizes() {
    let registry = node().await;
    let router = router(&registry);
    for name in ["room/1", "room/2", "hall"] {
        for _ in 0..2 {
            registry.group(name).join(&seat().await.unwrap(), None).await.unwrap();
        }
    }
    let _guard = registry.semaphore("room/1", 3).acquire().await.unwrap();
    let group = |name: &str, limit: Option<u32>, members: u32| json!({"name": name, "limit": limit, "members": members});
    let all = [
        group("hall", None, 2),
        group("room/1", None, 2),
        group("room/1", Some(3), 1),
        group("room/2", None, 2),
    ];
    let page = get(&router, "/groups").await;
    assert_eq!((&page["groups"], &page["next"]), (&json!(all), &Value::Null));
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&router, &format!("/groups?limit=1{after}")).await;
        assert_eq!(page["groups"].as_array().unwrap().len(), 1);
        seen.extend(page["groups"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, all);
    assert_eq!(get(&router, "/groups?prefix=room").await["groups"], json!(all[1..]));
    assert_eq!(answer(&router, asking("GET", "/groups?after=x")).await.1["error"], "bad_after");
}

#[cfg(feature = "election")]
mod singletons {
    use callsign_store::ids::ElectionName;
    use ractor::{Actor, ActorProcessingErr, ActorRef};

    use super::*;
    use crate::{Singleton, WatchEvent, driver::seat::Never, election};

    struct Child;

    impl Actor for Child {
        type Msg = Never;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Never>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn they_come_page_by_page_with_who_leads_and_who_holds_their_names() {
        let registry = node().await;
        let router = router(&registry);
        assert_eq!(get(&router, "/singletons").await, json!({"singletons": [], "next": null}));
        // Of others nobody takes part.
        for name in ["mails", "thumbnails"] {
            let (node, name) = (&registry.node, ElectionName::new(name).unwrap());
            let clock = registry.clock().clone();
            let election = election::Election::new(node.store.clone(), &node.cluster, &name, clock);
            let config = election::ElectionConfig::new(election::Policy::sticky(), Duration::from_secs(10));
            election.initialise(&config).await.unwrap();
        }
        let mut watch = registry.watch(crate::Select::prefix("reports")).unwrap();
        let singleton =
            Singleton::builder(&registry, "reports").leader(|_| (Child, ())).start().await.unwrap();
        while !matches!(watch.next().await, Some(WatchEvent::Change(_))) {}
        let page = get(&router, "/singletons?limit=2").await;
        let of = |nth: usize, field: &str| page["singletons"][nth][field].clone();
        assert_eq!(
            (of(0, "name"), of(1, "name"), of(2, "name")),
            ("mails".into(), "reports".into(), Value::Null)
        );
        assert_eq!(
            (of(0, "leader"), of(0, "epoch"), of(0, "child")),
            (Value::Null, Value::Null, Value::Null)
        );
        assert_eq!((of(1, "leader"), of(1, "lease_ms")), ("a".into(), 10_000.into()));
        assert!(of(1, "epoch").is_u64() && of(1, "ballot").is_u64(), "{page}");
        assert_eq!((&of(1, "child")["node"], &page["next"]), (&"a".into(), &"reports".into()));
        let page = get(&router, "/singletons?after=reports").await;
        assert_eq!((&page["singletons"][0]["name"], &page["next"]), (&"thumbnails".into(), &Value::Null));
        assert_eq!(answer(&router, asking("GET", "/singletons?after=a/b")).await.1["error"], "bad_after");
        singleton.stop().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_fails_or_does_not_answer_is_told_from_one_without_any() {
        let store = MemoryStore::new();
        let router = router(&node_over(&store).await);
        let asked = async || {
            let (status, body) = answer(&router, asking("GET", "/singletons")).await;
            assert_eq!((&body["error"], &body["verdict"]), (&"store_unavailable".into(), &"unknown".into()));
            status
        };
        store.outage();
        assert_eq!(asked().await, StatusCode::SERVICE_UNAVAILABLE);
        store.heal();
        store.set_latency(Duration::from_secs(600));
        assert_eq!(asked().await, StatusCode::GATEWAY_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_node_remembers_for_its_page_is_gone_with_the_router() {
    let registry = node().await;
    let holders = || Arc::strong_count(&registry.node);
    let before = holders();
    let until = async |is_so: &dyn Fn() -> bool| {
        let deadline = registry.clock().now() + Duration::from_secs(60);
        while !is_so() {
            assert!(registry.clock().now() < deadline, "{} hold the node, {before} did before", holders());
            registry.clock().sleep_until(registry.clock().now() + Duration::from_millis(10)).await;
        }
    };
    let router = router(&registry);
    assert!(holders() > before);
    until(&|| registry.status().leader.is_some_and(|leader| leader.serving)).await;
    registry.clock().sleep_until(registry.clock().now() + Duration::from_secs(2)).await;
    let said = get(&router, "/history").await["changes"].to_string();
    assert!(said.contains("a leads, epoch ") && said.contains("a joined"), "{said}");
    drop(router);
    until(&|| holders() <= before).await;
}

#[tokio::test(start_paused = true)]
async fn probes_need_no_token_and_all_else_does() {
    let router = Admin::new(&node().await).token(AdminToken::new(TOKEN).unwrap()).router();
    for path in ["/live", "/ready"] {
        get(&router, path).await;
    }
    // Nobody unknown has the node wait for it.
    for path in ["/ready?wait_ms=1", "/live?x=1", "/status", "/members", "/names"] {
        assert_eq!(answer(&router, asking("GET", path)).await.0, StatusCode::UNAUTHORIZED, "{path}");
    }
}

/// Nobody is to restart it for that: it serves again by itself.
#[tokio::test(start_paused = true)]
async fn a_node_that_has_lost_its_store_and_its_session_is_live_and_not_ready() {
    let store = MemoryStore::new();
    let registry = node_over(&store).await;
    let router = router(&registry);
    store.outage();
    until("its session is not trusted", || registry.lookup("x").is_err()).await;
    let (status, body) = answer(&router, asking("GET", "/ready")).await;
    assert_eq!((status, &body["error"]), (StatusCode::SERVICE_UNAVAILABLE, &"not_ready".into()));
    assert_eq!(get(&router, "/live").await["live"], true);
    store.heal();
    registry.ready(Duration::from_secs(60)).await.unwrap();
    registry.leave().await.unwrap();
    assert_eq!(get(&router, "/live").await["live"], true, "it ends in good order");
}

#[tokio::test(start_paused = true)]
async fn whoever_lacks_the_token_is_told_how_to_show_it_and_nobody_else_is() {
    let router = Admin::new(&node().await).token(AdminToken::new(TOKEN).unwrap()).router();
    let asked = async |request: Builder| {
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let how = answer.headers().get(header::WWW_AUTHENTICATE).map(|how| how.as_bytes().to_vec());
        (answer.status(), how)
    };
    let told = Some(b"Bearer".to_vec());
    assert_eq!(asked(asking("GET", "/status")).await, (StatusCode::UNAUTHORIZED, told));
    let of_a_page = asking("GET", "/status").header(header::ORIGIN, "https://evil.example");
    assert_eq!(asked(of_a_page).await, (StatusCode::FORBIDDEN, None));
}

#[tokio::test(start_paused = true)]
async fn a_node_says_which_process_it_is_and_what_it_has() {
    let registry = node().await;
    registry.register("x", &seat().await.unwrap()).await.unwrap();
    let other = registry.join_beside("other").await.unwrap();
    other.ready(Duration::from_secs(60)).await.unwrap();
    let router = Admin::new(Registries::of(&registry).beside(&other)).router();
    for (path, name, names) in [("/status", "default", 1), ("/status?registry=other", "other", 0)] {
        let status = get(&router, path).await;
        assert_eq!(status["pid"], std::process::id());
        assert_eq!(status["listen"], registry.local_addr().to_string());
        assert_eq!((&status["registry"], &status["names"]), (&name.into(), &names.into()));
        assert_eq!(status["ready"], true);
        assert_eq!(status["settings"]["set"], json!([]));
        let admission = &status["admission"];
        assert_eq!(admission["unauthenticated"], 0);
        assert_eq!(admission["certificate_expires_in_s"], Value::Null);
        assert!(admission["refused"].is_object(), "{admission}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_come_page_by_page_and_only_those_that_are_wanted() {
    let registry = node().await;
    for name in ["desk/1", "desk/2"] {
        registry.register(name, &seat().await.unwrap()).await.unwrap();
    }
    let zone = Meta::new(&BTreeMap::from([("zone", "eu"), ("rack", "7")])).unwrap();
    let options = RegisterOptions::default().meta(zone);
    registry.register_with("lamp", &seat().await.unwrap(), options).await.unwrap();
    let router = router(&registry);
    for (query, names, next) in [
        ("", json!(["desk/1", "desk/2", "lamp"]), Value::Null),
        ("?limit=2", json!(["desk/1", "desk/2"]), "desk/2".into()),
        ("?limit=2&after=desk/2", json!(["lamp"]), Value::Null),
        ("?prefix=desk/", json!(["desk/1", "desk/2"]), Value::Null),
        ("?node=a&limit=1", json!(["desk/1"]), "desk/1".into()),
        ("?node=b", json!([]), Value::Null),
        ("?meta=zone=eu,rack=7", json!(["lamp"]), Value::Null),
        ("?meta=zone=eu,rack=8", json!([]), Value::Null),
    ] {
        let page = get(&router, &format!("/names{query}")).await;
        assert_eq!(page, json!({"names": names, "next": next}), "{query}");
        let page = get(&router, &format!("/entries{query}")).await;
        let of_entries: Vec<_> =
            page["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
        assert_eq!((json!(of_entries), &page["next"]), (names, &next), "{query}");
    }
    assert_eq!(get(&router, "/entries?prefix=lamp").await["entries"][0]["meta"]["zone"], "eu");
    assert_eq!(answer(&router, asking("GET", "/names?meta=zone")).await.1["error"], "bad_meta");
    for (query, count) in [("", 3), ("?node=a", 3), ("?node=b", 0)] {
        assert_eq!(get(&router, &format!("/count{query}")).await["count"], count, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_wants_the_present_holder_is_told_when_the_store_does_not_say_it() {
    let store = MemoryStore::new();
    let registry = node_over(&store).await;
    registry.register("x", &seat().await.unwrap()).await.unwrap();
    let router = router(&registry);
    assert_eq!(get(&router, "/whereis?name=x&consistent=true").await["name"], "x");
    store.outage();
    assert_eq!(get(&router, "/whereis?name=x").await["name"], "x");
    let (status, body) = answer(&router, asking("GET", "/whereis?name=x&consistent=true&wait_ms=100")).await;
    assert_eq!((status, &body["error"]), (StatusCode::SERVICE_UNAVAILABLE, &"store_unavailable".into()));
    // It is not so for long.
    let (status, _) = answer(&router, asking("GET", "/whereis?name=x")).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn what_is_set_for_the_elections_is_shown_and_named() {
    let registry = node().await;
    let router = router(&registry);
    let before = get(&router, "/members").await["settings"].clone();
    let change = Settings::default().silence(Duration::from_millis(4000));
    registry.configure(change, Duration::from_secs(60)).await.unwrap();
    let after = get(&router, "/members").await["settings"].clone();
    assert_eq!((&before["set"], &after["set"]), (&json!([]), &json!(["silence_ms"])));
    assert_eq!((&after["silence_ms"], &after["lock_timeout_ms"]), (&4000.into(), &before["lock_timeout_ms"]));
}
