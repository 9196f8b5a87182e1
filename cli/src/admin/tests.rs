//! Who gets in, and what silent or greedy connections cost.

mod own;

use std::{io::ErrorKind, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode, header, request::Builder},
    routing::get,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
};

use super::{Limits, serve};
use crate::fuzz::{TOKEN, ask};

fn asking(method: &str, path: &str) -> Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:80")
}

fn answer(locked: bool, request: Builder, body: impl Into<Body>) -> (StatusCode, Value) {
    ask(locked, request.body(body.into()).unwrap())
}

#[test]
fn behind_a_lock_nothing_is_answered_without_the_token() {
    for (method, path) in [("GET", "/status"), ("POST", "/leave"), ("POST", "/register"), ("GET", "/nothing")]
    {
        let wrong = ["Bearer 0123456789abcdeF", "Basic MDEyMzQ1Njc4OWFiY2RlZg==", "Bearer", ""];
        for wrong in wrong.map(Some).into_iter().chain([None]) {
            let request = asking(method, path);
            let request = match wrong {
                Some(wrong) => request.header(header::AUTHORIZATION, wrong),
                None => request,
            };
            let (status, body) = answer(true, request, "");
            assert_eq!(
                (status, &body["error"]),
                (StatusCode::UNAUTHORIZED, &"unauthorized".into()),
                "{path}"
            );
        }
    }
    let with_token = |host: &str| {
        let request = Request::builder().uri("/status").header(header::HOST, host);
        request.header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
    };
    for host in ["127.0.0.1:80", "node-a.example:80"] {
        assert_eq!(answer(true, with_token(host), "").0, StatusCode::OK, "{host}");
    }
}

#[test]
fn a_web_page_is_refused_also_if_it_has_the_token() {
    let page = |name: &'static str, value: &'static str| asking("GET", "/status").header(name, value);
    for locked in [false, true] {
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:80"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let request = page(name, value).header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
            let (status, body) = answer(locked, request, "");
            assert_eq!(
                (status, &body["error"]),
                (StatusCode::FORBIDDEN, &"forbidden".into()),
                "{name}: {value}"
            );
        }
    }
    // Typed into the address bar it is nobody's page.
    assert_eq!(answer(false, page("sec-fetch-site", "none"), "").0, StatusCode::OK);
}

#[test]
fn the_page_of_a_node_reads_and_does_nothing_else() {
    let own = |method: &str, path: &str| asking(method, path).header("sec-fetch-site", "same-origin");
    for path in ["/status", "/history", "/entries"] {
        assert_eq!(answer(false, own("GET", path), "").0, StatusCode::OK, "{path}");
        let (status, body) = answer(true, own("GET", path), "");
        assert_eq!((status, &body["error"]), (StatusCode::UNAUTHORIZED, &"unauthorized".into()));
        let with_token = own("GET", path).header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        assert_eq!(answer(true, with_token, "").0, StatusCode::OK, "{path}");
    }
    for path in ["/register", "/leave", "/"] {
        assert_eq!(answer(false, own("POST", path), "").0, StatusCode::FORBIDDEN, "{path}");
    }
    let elsewhere = Request::builder().uri("/status").header(header::HOST, "evil.example:80");
    let elsewhere = elsewhere.header("sec-fetch-site", "same-origin");
    assert_eq!(
        answer(false, elsewhere, "").0,
        StatusCode::FORBIDDEN,
        "a name that was made to resolve to loopback"
    );
}

#[test]
fn the_files_of_the_page_need_no_token_and_are_opened_from_anywhere_but_used_by_no_other_page() {
    for (path, locked) in
        [("/", true), ("/page.js", true), ("/rates.js", true), ("/page.css", true), ("/", false)]
    {
        assert_eq!(answer(locked, asking("GET", path), "").0, StatusCode::OK, "{path}");
    }
    let from_elsewhere = |path: &str, wanted: &str| {
        asking("GET", path).header("sec-fetch-site", "cross-site").header("sec-fetch-dest", wanted)
    };
    assert_eq!(answer(true, from_elsewhere("/", "document"), "").0, StatusCode::OK, "a link is followed");
    for (path, wanted) in [("/", "iframe"), ("/page.js", "script"), ("/status", "document")] {
        assert_eq!(answer(false, from_elsewhere(path, wanted), "").0, StatusCode::FORBIDDEN, "{path}");
    }
}

#[test]
fn a_name_that_was_made_to_resolve_to_loopback_is_refused() {
    let by = |host: &str| Request::builder().uri("/status").header(header::HOST, host);
    assert_eq!(answer(false, by("evil.example:80"), "").0, StatusCode::FORBIDDEN);
    assert_eq!(
        answer(false, Request::builder().uri("/status"), "").0,
        StatusCode::FORBIDDEN,
        "no name at all"
    );
    assert_eq!(answer(false, by("localhost:80"), "").0, StatusCode::OK);
}

#[test]
fn a_body_above_the_limit_and_a_range_without_an_end_are_refused_at_once() {
    let json = |path| asking("POST", path).header(header::CONTENT_TYPE, "application/json");
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(64 << 10));
    let (status, body) = answer(false, json("/register"), long);
    assert_eq!((status, &body["error"]), (StatusCode::PAYLOAD_TOO_LARGE, &"too_large".into()));
    let endless = format!(r#"{{"prefix":"p","from":0,"to":{}}}"#, u64::MAX);
    let (status, body) = answer(false, json("/register-many"), endless);
    assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &"too_many".into()));
    let query = format!("/contains-all?prefix=p&from=0&to={}", u64::MAX);
    let (status, body) = answer(false, asking("GET", &query), "");
    assert_eq!((status, &body["error"]), (StatusCode::BAD_REQUEST, &"too_many".into()));
}

fn told(request: Builder, body: &Value) -> (StatusCode, Value) {
    answer(false, request.header(header::CONTENT_TYPE, "application/json"), body.to_string())
}

#[test]
fn a_field_that_a_route_does_not_know_is_refused_and_named() {
    for (path, body) in [
        ("/register", json!({"name": "desk", "when_lasped": "tell"})),
        ("/register-many", json!({"prefix": "p", "from": 0, "to": 1, "when_lasped": "tell"})),
        ("/unregister", json!({"name": "desk", "when_lasped": "tell"})),
        ("/end-actor", json!({"name": "desk", "when_lasped": "tell"})),
        ("/call", json!({"name": "desk", "text": "hi", "when_lasped": "tell"})),
        ("/drain", json!({"when_lasped": "tell"})),
        ("/leave", json!({"when_lasped": "tell"})),
    ] {
        let (status, said) = told(asking("POST", path), &body);
        assert_eq!((status, &said["verdict"]), (StatusCode::BAD_REQUEST, &"usage".into()), "{path}: {said}");
        assert!(said["message"].as_str().unwrap().contains("`when_lasped`"), "{path}: {said}");
    }
    for path in [
        "/whereis?name=desk",
        "/explain?name=desk",
        "/entries?prefix=p",
        "/count?node=a",
        "/members?x=y",
        "/ready?x=y",
    ] {
        let (status, said) = answer(false, asking("GET", &format!("{path}&consistant=true")), "");
        assert_eq!(
            (status, &said["error"]),
            (StatusCode::BAD_REQUEST, &"bad_query".into()),
            "{path}: {said}"
        );
    }
    let (status, said) = answer(false, asking("GET", "/whereis?name=desk"), "");
    assert_eq!((status, &said["error"]), (StatusCode::NOT_FOUND, &"not_found".into()), "nothing was done");
}

#[test]
fn a_path_that_is_asked_by_another_method_says_so_in_json() {
    for (method, path) in [("GET", "/register"), ("POST", "/status"), ("DELETE", "/leave"), ("GET", "/drain")]
    {
        let (status, said) = answer(false, asking(method, path), "");
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}: {said}");
        assert_eq!((&said["error"], &said["verdict"]), (&"method_not_allowed".into(), &"usage".into()));
        assert!(said["message"].is_string());
    }
}

#[test]
fn numbers_that_parsers_round_are_strings() {
    let is_exact = |value: &Value| {
        let digits = value.as_str().unwrap_or_default();
        assert!(digits.len() == 16 && u64::from_str_radix(digits, 16).is_ok(), "{value}");
    };
    let (status, said) = told(asking("POST", "/register"), &json!({"name": "exact"}));
    assert_eq!(status, StatusCode::OK, "{said}");
    let (_, whereis) = answer(false, asking("GET", "/whereis?name=exact"), "");
    let (_, entries) = answer(false, asking("GET", "/entries?prefix=exact"), "");
    for entry in [&whereis, &entries["entries"][0]] {
        is_exact(&entry["incarnation"]);
        is_exact(&entry["kind"]);
        assert!(entry["token"].is_u64(), "{entry}");
    }
    let (_, status) = answer(false, asking("GET", "/status"), "");
    is_exact(&status["incarnation"]);
    assert_eq!(status["incarnation"], whereis["incarnation"]);
}

#[test]
fn a_name_is_explained_whoever_holds_it_and_also_if_nobody_does() {
    let explained = |name: &str| answer(false, asking("GET", &format!("/explain?name={name}")), "");
    let (status, never) = explained("explained");
    assert_eq!((status, &never["state"], &never["holder"]), (StatusCode::OK, &"free".into(), &Value::Null));
    assert_eq!((&never["why_free"]["why"], &never["why_free"]["position"]), (&"reset".into(), &1.into()));
    assert_eq!((&never["session"], &never["changes"]), (&Value::Null, &json!([])));
    let (_, registered) =
        told(asking("POST", "/register"), &json!({"name": "explained", "meta": {"zone": "eu"}}));
    let (_, held) = explained("explained");
    let (_, holder) = answer(false, asking("GET", "/whereis?name=explained"), "");
    assert_eq!((&held["state"], &held["holder"]), (&"held".into(), &holder));
    let said = held["said"].as_str().unwrap();
    let begin = format!("explained is held on a: registered at position {} (", registered["token"]);
    assert!(said.starts_with(&begin) && said.ends_with("which is its token"), "{said}");
    let session = &held["session"];
    assert_eq!(
        (&session["node"], &session["open"], &session["trusted"]),
        (&"a".into(), &true.into(), &true.into())
    );
    for field in [&held["ago_ms"], &held["changed_ago_ms"], &session["last_beat_ms"], &session["lease_ms"]] {
        assert!(field.is_u64(), "{held}");
    }
    assert_eq!((&held["trusted"], &held["synced"], &held["node"]), (&true.into(), &true.into(), &"a".into()));
    assert_eq!((&held["leader"]["node"], &held["members"][0]["node"]), (&"a".into(), &"a".into()));
    let (_, freed) = told(asking("POST", "/unregister"), &json!({"name": "explained"}));
    let (_, free) = explained("explained");
    let why = &free["why_free"];
    assert_eq!((&why["why"], &why["position"]), (&"unregistered".into(), &freed["position"]));
    assert_eq!((&why["was"]["token"], &why["now"]), (&registered["token"], &Value::Null));
    assert_eq!((&free["changes"][0], &free["remembers_from"]), (why, &1.into()));
    let (status, bad) = explained("");
    assert_eq!((status, &bad["error"]), (StatusCode::BAD_REQUEST, &"bad_name".into()));
}

/// An endpoint with these routes and limits.
async fn endpoint_of(
    routes: Router,
    limits: Limits,
) -> (std::net::SocketAddr, watch::Sender<bool>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (leave, leaving) = watch::channel(false);
    (address, leave, tokio::spawn(serve(listener, routes, limits, leaving)))
}

/// An endpoint that answers "here", with these limits.
async fn endpoint(
    limits: Limits,
) -> (std::net::SocketAddr, watch::Sender<bool>, tokio::task::JoinHandle<()>) {
    endpoint_of(Router::new().route("/", get(async || "here")), limits).await
}

/// Everything that comes until the other side closes; a minute is for ever.
async fn rest(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut said)).await;
    assert!(read.is_ok(), "the connection is still open");
    String::from_utf8_lossy(&said).into_owned()
}

const QUESTION: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_connection_that_says_too_little_is_closed() {
    let limits = Limits { head: Duration::from_millis(100), ..Limits::default() };
    let (address, _leave, _served) = endpoint(limits).await;
    for said in [&b""[..], b"GET / HTTP/1.1\r\nhost:", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        // The last one got its answer, and is closed because nothing follows.
        assert_eq!(rest(stream).await.contains("here"), said.ends_with(b"\r\n\r\n"));
    }
}

#[tokio::test]
async fn when_all_places_are_taken_others_wait_for_the_silent_to_be_closed() {
    let limits = Limits { head: Duration::from_millis(200), connections: 2, spare: 0, ..Limits::default() };
    let (address, _leave, _served) = endpoint(limits).await;
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(QUESTION).await.unwrap();
    assert!(rest(stream).await.contains("here"));
}

#[tokio::test]
async fn leaving_closes_what_is_silent_and_takes_nobody_any_more() {
    let (address, leave, served) = endpoint(Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    leave.send_replace(true);
    tokio::time::timeout(Duration::from_secs(60), served).await.expect("it still serves").unwrap();
    assert!(rest(stream).await.ends_with("here"));
    assert!(TcpStream::connect(address).await.is_err());
}

/// Asks over a connection that stays, and gets the answer.
async fn ask_over(stream: &mut TcpStream) {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut said = Vec::<u8>::new();
    while !said.ends_with(b"here") {
        assert!(stream.read_buf(&mut said).await.unwrap() > 0, "it is closed");
    }
}

#[tokio::test]
async fn no_more_connections_are_served_at_once_than_there_are_places() {
    let limits = Limits { connections: 1, spare: 0, ..Limits::default() };
    let (address, _leave, _served) = endpoint(limits).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    ask_over(&mut first).await;
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(QUESTION).await.unwrap();
    // The endpoint has had the time to answer both.
    for _ in 0..3 {
        ask_over(&mut first).await;
    }
    let early = second.try_read(&mut [0; 1]);
    assert!(early.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{early:?}");
    drop(first);
    assert!(rest(second).await.contains("here"));
}

#[tokio::test]
async fn an_answer_that_nobody_reads_gives_its_place_back() {
    // Longer than what the systems of both sides take in.
    let routes =
        Router::new().route("/", get(async || "here")).route("/long", get(async || vec![b'x'; 64 << 20]));
    let unread = Duration::from_millis(200);
    let limits = Limits { unread, connections: 1, spare: 0, ..Limits::default() };
    let (address, _leave, _served) = endpoint_of(routes, limits).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(b"GET /long HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut begins = [0; 12];
    first.read_exact(&mut begins).await.unwrap();
    assert_eq!(&begins, b"HTTP/1.1 200");
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(QUESTION).await.unwrap();
    assert!(rest(second).await.contains("here"));
    drop(first);
}

#[tokio::test]
async fn probes_have_places_of_their_own() {
    let paths = ["/", "/live", "/ready", "/metrics"];
    let here = |routes: Router, path: &str| routes.route(path, get(async || "here"));
    let routes = paths.into_iter().fold(Router::new(), here);
    let limits = Limits { connections: 1, spare: 1, ..Limits::default() };
    let (address, _leave, _served) = endpoint_of(routes, limits).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    ask_over(&mut first).await;
    let asked = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let question = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(question.as_bytes()).await.unwrap();
        rest(stream).await
    };
    for path in ["/live", "/ready", "/metrics", "/ready?"] {
        let said = asked(path).await;
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("here"), "{path}: {said}");
    }
    for path in ["/", "/ready?wait_ms=60000"] {
        let said = asked(path).await;
        assert!(said.starts_with("HTTP/1.1 503") && said.contains("too_many_connections"), "{path}: {said}");
    }
    drop(first);
    let is_served = async { while !asked("/").await.ends_with("here") {} };
    tokio::time::timeout(Duration::from_secs(60), is_served).await.expect("the place is free again");
}

#[tokio::test]
async fn an_answer_that_is_under_way_when_the_node_leaves_is_given() {
    let (begun, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let of_route = (begun.clone(), goes_on.clone());
    let slow = move || {
        let (begun, goes_on) = of_route.clone();
        async move {
            begun.notify_one();
            goes_on.notified().await;
            "here"
        }
    };
    let (address, leave, served) = endpoint_of(Router::new().route("/", get(slow)), Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(QUESTION).await.unwrap();
    begun.notified().await;
    leave.send_replace(true);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!served.is_finished(), "somebody waits for an answer");
    goes_on.notify_one();
    tokio::time::timeout(Duration::from_secs(60), served).await.expect("it still serves").unwrap();
    assert!(rest(stream).await.contains("here"));
}
