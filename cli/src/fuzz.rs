//! What fuzzing drives: whatever is typed, or asked over HTTP, nothing panics, and what is said in each function holds.
//!
//! The functions are called by `tests/fuzz/`, and by a test with every file that fuzzing left in `tests/fuzz/corpus/`.
#![allow(missing_docs)] // it is hidden

use std::{cell::RefCell, mem::ManuallyDrop, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::ConnectInfo,
    http::{Request, StatusCode, header},
};
use callsign::{
    Config, MemoryNetwork, Network, Registry, SessionTiming,
    admin::{AdminToken, Registries},
};
use callsign_store::{Clock, memory::MemoryStore};
use clap::Parser;
use futures::StreamExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;
use tokio::{runtime::Runtime, sync::watch};
use tower::ServiceExt;

use crate::{admin, duration, echo, hosted::Hosted, metrics::Counted, output::printable, reply::Verdict};

/// The words of a command line, each on its line; and each of them by itself.
pub fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    drop(crate::Cli::try_parse_from(std::iter::once("callsign").chain(text.lines())));
    for word in text.lines() {
        if let Ok(lease) = duration::parse(word) {
            let timing = SessionTiming::for_lease(lease);
            assert_eq!(timing.lease, lease);
        }
        assert!(!printable(word).contains(char::is_control));
        // Tests of those crates do the same.
        #[cfg(feature = "fuzz")]
        {
            callsign::fuzz::name(word);
            callsign_store::fuzz::names(word);
        }
    }
}

/// The paths of the endpoint, and how each is asked for.
const ROUTES: [(&str, &str); 30] = [
    ("POST", "/register"),
    ("POST", "/register-many"),
    ("POST", "/unregister"),
    ("POST", "/end-actor"),
    ("GET", "/whereis"),
    ("POST", "/call"),
    ("GET", "/names"),
    ("GET", "/entries"),
    ("GET", "/count"),
    ("GET", "/contains-all"),
    ("GET", "/wait-for"),
    ("GET", "/held"),
    ("GET", "/members"),
    ("GET", "/status"),
    ("GET", "/ready"),
    ("POST", "/leave"),
    ("GET", "/"),
    ("POST", "/names"),
    ("GET", "/metrics"),
    ("POST", "/drain"),
    ("POST", "/configure"),
    ("POST", "/update"),
    ("GET", "/watch"),
    ("GET", "/history"),
    ("GET", "/nothing"),
    ("GET", "/explain"),
    ("GET", "/groups"),
    ("GET", "/singletons"),
    ("GET", "/live"),
    ("POST", "/transfer"),
];

/// The token of the endpoint here, if it has one.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// How many questions a node answers before it is replaced, so that what one leaves does not matter for long.
const QUESTIONS: u32 = 500;

/// A question to a node's admin endpoint: a byte for the route, one for how it is asked, a query up to the first zero, a body.
pub fn admin(bytes: &[u8]) {
    let [route, how, rest @ ..] = bytes else { return };
    let (method, path) = ROUTES[usize::from(*route) % ROUTES.len()];
    let (query, body) = rest.split_at(rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len()));
    let body = body.get(1..).unwrap_or_default();
    let query = String::from_utf8_lossy(query);
    let locked = how & 1 != 0;
    let is_page = path == "/" && method == "GET";
    // The page itself says nothing of the node, and needs no token.
    let admitted = how & 0b1110 == 0 || (is_page && locked && how & 0b1100 == 0);
    // A node that goes or has gone, or that makes a million actors, answers nothing new.
    if (matches!(path, "/leave" | "/drain") && admitted) || asks_for_many(body) {
        return;
    }
    let mut request = Request::builder().method(method).uri(format!("{path}?{query}"));
    let host = if how & 2 != 0 && !locked { "evil.example:80" } else { "127.0.0.1:80" };
    request = request.header(header::HOST, host);
    if how & 4 != 0 {
        request = request.header(header::ORIGIN, "https://evil.example");
    }
    if how & 8 != 0 {
        request = request.header("sec-fetch-site", "cross-site");
    }
    if how & 32 != 0 {
        request = request.header("last-event-id", body);
    }
    if how & 16 == 0 {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    if locked {
        let token = if how & 2 == 0 { TOKEN } else { "0123456789abcdeF" };
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let Ok(request) = request.body(Body::from(body.to_vec())) else { return };
    let (status, answer) = ask(locked, request);
    if status == StatusCode::OK {
        assert!(admitted, "{path} was answered");
        let is_event = |text: &str| text.starts_with("event: ") || text.starts_with(':');
        let is_stream = path == "/watch" && answer.as_str().is_some_and(is_event);
        assert!(answer.is_object() || path == "/metrics" || is_page || is_stream, "{answer}");
    } else {
        assert!(answer["error"].is_string(), "{path}: {status} {answer}");
        assert!(serde::Deserialize::deserialize(&answer["verdict"]).is_ok_and(|_: Verdict| true), "{answer}");
        if !admitted {
            assert!(matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), "{status} {answer}");
        }
    }
}

fn asks_for_many(body: &[u8]) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return false };
    let number = |field: &str| body[field].as_u64().unwrap_or(0);
    number("to").saturating_sub(number("from")) > 50
}

/// A node in virtual time.
struct World {
    runtime: Runtime,
    open: Router,
    locked: Router,
    left: u32,
}

thread_local! {
    // What is left at the end of a thread is not dropped: a node ends with its runtime, which a thread that ends has not.
    static WORLD: RefCell<Option<ManuallyDrop<World>>> = const { RefCell::new(None) };
}

/// Asks a node, with a token or without.
pub(crate) fn ask(locked: bool, mut request: Request<Body>) -> (StatusCode, Value) {
    // As the server says it.
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 5000))));
    WORLD.with_borrow_mut(|world| {
        if let Some(spent) = world.take_if(|world| world.left == 0) {
            ManuallyDrop::into_inner(spent).end();
        }
        let world = world.get_or_insert_with(|| ManuallyDrop::new(World::new()));
        world.left -= 1;
        let router = if locked { &world.locked } else { &world.open }.clone();
        world.runtime.block_on(async {
            let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
            let status = response.status();
            if response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
                // It comes for as long as the node lives.
                let first = response.into_body().into_data_stream().next().await;
                let first = first.and_then(Result::ok).unwrap_or_default();
                return (status, String::from_utf8_lossy(&first).into_owned().into());
            }
            let body = to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
            (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
        })
    })
}

impl World {
    fn new() -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().expect("a runtime without sockets");
        let (open, locked) = runtime.block_on(async {
            let config = Config::new("a", Arc::new(MemoryStore::new()) as callsign::SharedStore)
                .listen(([127, 0, 0, 1], 7001).into())
                .network(Network::Memory(MemoryNetwork::new()))
                .clock(Clock::runtime());
            let registry = Registry::join(config).await.expect("a store in memory takes everybody");
            assert!(registry.ready(Duration::from_secs(60)).await.is_ok(), "{:?}", registry.status());
            let shared = echo::spawn("a").await.expect("an actor starts");
            let hosted = Arc::new(Hosted::new("a".to_owned(), Registries::of(&registry), shared));
            let token = AdminToken::new(TOKEN).expect("sixteen letters");
            let metrics = Counted::by(PrometheusBuilder::new().build_recorder().handle());
            let routes =
                |token| admin::routes(hosted.clone(), watch::channel(false).0, token, metrics.clone());
            (routes(None), routes(Some(token)))
        });
        Self { runtime, open, locked, left: QUESTIONS }
    }

    fn end(self) {
        let Self { runtime, open, locked, .. } = self;
        let inside = runtime.enter();
        drop((open, locked));
        drop(inside);
        drop(runtime);
    }
}

#[cfg(test)]
mod tests {
    use callsign_golden::{corpus, seed};

    #[test]
    fn nothing_in_the_corpus_of_command_lines_panics() {
        for (nth, words) in [
            "node --name a --store sqlite:/var/lib/x.db?synchronous=normal --lease 10s --admin 127.0.0.1:0",
            "whereis pricing --node http://127.0.0.1:80 --consistent --wait 250ms --registry r --json",
            "run --singleton reports --store postgres://u:p@h:1/d?sslmode=require -- /bin/true x",
            "wipe --store fdb:/etc/x --registry r --cluster c --force",
            "doctor --store memory: --json",
        ]
        .into_iter()
        .enumerate()
        {
            seed("text", &nth.to_string(), words.replace(' ', "\n").as_bytes());
        }
        corpus("text", super::text);
    }

    #[test]
    fn nothing_in_the_corpus_of_questions_panics() {
        let bodies = [
            (0, "", r#"{"name":"a","shared":true,"when_lapsed":"tell","wait_ms":10,"registry":"default"}"#),
            (1, "", r#"{"prefix":"p","from":0,"to":9,"concurrency":3}"#),
            (2, "", r#"{"name":"a"}"#),
            (3, "", r#"{"name":"p1"}"#),
            (4, "name=a&consistent=true&wait_ms=5", ""),
            (5, "", r#"{"name":"a","text":"hi","consistent":true,"wait_ms":9}"#),
            (6, "prefix=p", ""),
            (7, "", ""),
            (8, "node=a", ""),
            (9, "prefix=p&from=0&to=9", ""),
            (10, "position=1&wait_ms=1", ""),
            (13, "registry=default", ""),
            (14, "wait_ms=1", ""),
            (16, "", ""),
            (21, "", r#"{"name":"a","meta":{"zone":"eu"},"expected":1}"#),
            (29, "", r#"{"name":"a","to":"b","wait_ms":9}"#),
            (23, "after=1", ""),
            (24, "", ""),
            (25, "name=a", ""),
            (26, "prefix=r&after=gr&limit=1", ""),
            (27, "after=a&limit=1", ""),
            (22, "prefix=p&meta=zone=eu&node=a&from=1", "1"),
        ];
        for (route, query, body) in bodies {
            for how in [0, 1, 2, 4, if route == 22 { 32 } else { 17 }] {
                let bytes = [&[route, how], query.as_bytes(), &[0], body.as_bytes()].concat();
                seed("admin", &format!("{route}-{how}"), &bytes);
            }
        }
        corpus("admin", super::admin);
    }
}
