//! The page of an application that has it below a path of its own, in a real browser: with groups and singletons, which the pages of all other nodes
//! show, too.

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
    time::Duration,
};

use axum::Router;
use callsign::{Config, Registry, Singleton, admin};
use callsign_tests::{Cluster, StartOptions, TEST_DEADLINE, callsign, eventually};
use futures::future::try_join_all;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::page::{browser, keep_picture, lines, shows};

const LEASE: Duration = Duration::from_secs(10);

#[callsign::message("shop.desk/1")]
enum Desk {
    Ask(String),
}

struct DeskActor;

impl Actor for DeskActor {
    type Msg = Desk;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Desk>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Desk>, asked: Desk, (): &mut ()) -> Result<(), ActorProcessingErr> {
        let Desk::Ask(what) = asked;
        Err(what.into())
    }
}

async fn desk() -> ActorRef<Desk> {
    Actor::spawn(None, DeskActor, ()).await.unwrap().0
}

/// An application with a page of its own, and ours below `/callsign`.
async fn serve(registry: &Registry) -> SocketAddr {
    let site = Router::new()
        .route("/", axum::routing::get(async || "the shop"))
        .nest("/callsign", admin::router(registry));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let site = site.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, site).await });
    at
}

/// An address of another machine, a loopback address for one, may be that of another node here.
#[test]
fn a_name_is_not_asked_of_whatever_node_is_where_its_holder_says_that_it_is() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let of_a = format!("http://{}", cluster.node("a").client.address());
    let own = Config::new("shop", cluster.place.url.as_str()).cluster(&cluster.place.cluster);
    let registry = runtime.block_on(async {
        let registry = Registry::join(own.admin_address(&of_a)).await.unwrap();
        registry.ready(TEST_DEADLINE).await.unwrap();
        registry.register("till", &desk().await).await.unwrap();
        registry
    });
    eventually("the others know where it says that it is", TEST_DEADLINE, || {
        let members = cluster.node("b").client.get("/members", &[]).ok();
        let rows = members["members"].as_array().unwrap();
        let is_known = rows.iter().any(|row| row["node"] == "shop" && row["admin"] == of_a.as_str());
        if is_known { Ok(()) } else { Err(members.to_string()) }
    });
    let node = cluster.node("b").client.address();
    let words = ["transfer", "till", "--to", "b", "--node", node];
    let said = Command::new(callsign()).args(words).output().unwrap();
    let why = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(3), "nobody knows whether it would move: {why}");
    assert!(why.contains("is another node here"), "{why}");
    runtime.block_on(registry.leave()).unwrap();
}

#[test]
fn an_application_has_the_page_below_a_path_and_groups_and_singletons_are_on_every_page() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let own = Config::new("shop", cluster.place.url.as_str()).cluster(&cluster.place.cluster);
    let (registry, singleton, at) = runtime.block_on(async {
        let registry = Registry::join(own).await.unwrap();
        registry.ready(TEST_DEADLINE).await.unwrap();
        let actor = desk().await;
        let rooms = (0..120).map(|nth| registry.group::<Desk>(&format!("room/{nth:03}")));
        let joins = rooms.map(|room| {
            let actor = actor.clone();
            async move { room.join(&actor, None).await }
        });
        try_join_all(joins).await.unwrap();
        registry.group("hall<b>").join(&actor, None).await.unwrap();
        registry.group("hall<b>").join(&desk().await, None).await.unwrap();
        // They are kept by the node, until it leaves.
        std::mem::forget(registry.lock("printer").acquire().await.unwrap());
        std::mem::forget(registry.semaphore("presses", 3).acquire().await.unwrap());
        let reports = Singleton::builder(&registry, "reports").leader(|_| (DeskActor, ()));
        let singleton = reports.start().await.unwrap();
        let at = serve(&registry).await;
        (registry, singleton, at)
    });

    browser.resize(1200, 1800);
    browser.open(&format!("http://{at}/callsign"));
    shows(&browser, "where", "Node shop: it is ready.");
    lines(&browser, "members", 3);
    let is_hidden = |id: &str| browser.run(&format!("return document.getElementById({id:?}).hidden"));
    // The application has handed in nothing that was counted.
    assert_eq!(is_hidden("rates"), true);

    // Groups, page by page and by how they begin, by the keyboard alone.
    shows(&browser, "groups", "hall<b>\tgroup\t2");
    shows(&browser, "groups", "presses\tsemaphore of 3\t1");
    shows(&browser, "groups", "printer\tlock\t1");
    lines(&browser, "groups", 50);
    let press = |id: &str, keys: &str| {
        browser.run(&format!("document.getElementById({id:?}).focus()"));
        browser.keys(keys);
    };
    press("groups-next", "\u{e007}");
    shows(&browser, "groups", "room/096\t");
    press("groups-next", "\u{e007}");
    shows(&browser, "groups", "room/119\tgroup\t1");
    lines(&browser, "groups", 23);
    assert_eq!(browser.run("return document.getElementById('groups-next').disabled"), true);
    press("groups-first", "\u{e007}");
    shows(&browser, "groups", "hall<b>\tgroup\t2");
    press("groups-prefix", "room/11\u{e007}");
    lines(&browser, "groups", 10);

    // Who runs the singleton, as the store says, and who holds its name.
    shows(&browser, "singletons", "reports\tshop\t");
    shows(&browser, "singletons", "on shop");
    // Links to the pages of other members, and none to this one.
    let links = browser.run("return [...document.querySelectorAll('#members a')].map((link) => link.href)");
    let addresses = ["a", "b"].map(|node| format!("http://{}/", cluster.node(node).client.address()));
    assert_eq!(links, serde_json::json!(addresses));
    keep_picture(&browser, "embedded");
    browser.prefer_dark();
    let colour = |of: &str, what: &str| {
        browser.run(&format!("return getComputedStyle(document.querySelector({of:?})).{what}"))
    };
    assert_eq!(colour("body", "backgroundColor"), "rgb(20, 23, 26)");
    assert_eq!(colour("#members a", "color"), "rgb(108, 181, 245)");
    browser.resize(360, 740);
    let width = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]");
    assert!(width[0].as_i64() <= width[1].as_i64(), "{width}");
    browser.run("document.getElementById('h-groups').scrollIntoView()");
    keep_picture(&browser, "embedded-phone");
    browser.resize(1200, 1800);

    // The pages of other nodes have the same, although no actor of a group runs there, and no part of the singleton.
    browser.open(&addresses[0]);
    shows(&browser, "where", "Node a: it is ready.");
    shows(&browser, "groups", "hall<b>\tgroup\t2");
    shows(&browser, "singletons", "reports\tshop\t");
    shows(&browser, "singletons", "on shop");
    assert_eq!(is_hidden("rates"), false);
    assert_eq!(browser.run("return document.querySelectorAll('b').length"), 0, "what others say is text");

    // A program that nobody refreshes the lease of any more.
    let mut run = Command::new(callsign());
    run.args(["run", "--singleton", "mails", "--member", "rome", "--lease", "1s", "--lease-anyway"]);
    run.args(["--store", &cluster.place.url, "--cluster", &cluster.place.cluster, "--", "sleep", "1000"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    shows(&browser, "singletons", "mails\trome\t");
    run.kill().unwrap();
    run.wait().unwrap();
    shows(&browser, "singletons", "not refreshed for 1 s and more");
    assert!(!browser.text("singletons").contains("not refreshed for 10 s"), "that of the application is");

    // It ends, and nobody follows.
    runtime.block_on(singleton.stop()).unwrap();
    shows(&browser, "singletons", "reports\tnobody");
    runtime.block_on(registry.leave()).unwrap();
    eventually("the groups are empty", TEST_DEADLINE, || {
        let text = browser.text("groups");
        if text.is_empty() { Ok(()) } else { Err(text) }
    });
    cluster.check();
}
