//! What commands ask of a node, and what they make of its answers. In place of a node, something answers as it is told.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use callsign_tests::{Sink, callsign};
use serde_json::{Value, json};

/// Answers as it is told, and keeps what it was asked.
struct Stub {
    address: String,
    asked: Receiver<Question>,
}

/// The first line of a request, without the version, and the body. Of one without a body that is null.
type Question = (String, Value);

/// A status, and a body.
type Said = (u16, String);

impl Stub {
    fn answers(mut answer: impl FnMut(&str) -> Said + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (keep, asked) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (line, body) = question(&stream);
                let (status, text) = answer(&line);
                let length = text.len();
                let head =
                    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                // Nobody may want to know any more.
                let _ = keep.send((line, body));
                let _ = stream.write_all((head + &text).as_bytes());
            }
        });
        Self { address, asked }
    }

    /// What it was asked since the last time.
    fn asked(&self) -> Vec<Question> {
        self.asked.try_iter().collect()
    }
}

fn question(stream: &TcpStream) -> Question {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let line = head.first().map_or("", |line| line.trim_end_matches(" HTTP/1.1"));
    let line = line.replace("%3D", "=").replace("%2C", ",");
    (line, serde_json::from_slice(&body).unwrap_or_default())
}

fn ok(body: &Value) -> Said {
    (200, body.to_string())
}

/// What a node answers that knows nothing yet, and what people read of that.
fn starts() -> Said {
    (503, json!({"error": "not_ready", "verdict": "unknown", "message": "it starts"}).to_string())
}

const STARTS: &str = "callsign: it starts\n";

fn not_found() -> Said {
    (404, json!({"error": "not_found", "verdict": "no", "message": "nobody holds it"}).to_string())
}

fn get(path: &str) -> Question {
    (format!("GET {path}"), Value::Null)
}

fn post(path: &str, body: Value) -> Question {
    (format!("POST {path}"), body)
}

fn command(stub: &Stub, words: &[&str]) -> Command {
    let mut command = Command::new(callsign());
    command.args(words).args(["--node", &stub.address]);
    for variable in ["CALLSIGN_STORE", "CALLSIGN_TOKEN_FILE", "CALLSIGN_CONFIG"] {
        command.env_remove(variable);
    }
    command
}

/// How a command ends, and what it says on standard output and standard error.
fn ask(stub: &Stub, words: &[&str]) -> (Option<i32>, String, String) {
    let output = command(stub, words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn what_is_typed_of_a_name_reaches_the_node_and_nothing_else_does() {
    let stub = Stub::answers(|_| ok(&json!({"name": "desk", "node": "a", "token": 7, "revision": 9})));
    let (code, said, errors) = ask(&stub, &["register", "desk"]);
    assert_eq!((code, said.as_str()), (Some(0), "desk is registered on a, token 7\n"), "{errors}");
    assert_eq!(stub.asked(), [post("/register", json!({"name": "desk", "wait_ms": 5000}))]);
    let words = ["register", "desk", "--meta", "zone=eu", "--moves", "--wait", "2s", "--registry", "r"];
    let (code, _, errors) = ask(&stub, &words);
    assert_eq!(code, Some(0), "{errors}");
    let whole =
        json!({"name": "desk", "wait_ms": 2000, "meta": {"zone": "eu"}, "moves": true, "registry": "r"});
    assert_eq!(stub.asked(), [post("/register", whole)]);

    let (code, said, errors) = ask(&stub, &["update", "desk"]);
    assert_eq!((code, said.as_str()), (Some(0), "desk is updated, revision 9\n"), "{errors}");
    assert_eq!(stub.asked(), [post("/update", json!({"name": "desk", "meta": null, "expected": null}))]);
    ask(&stub, &["update", "desk", "--meta", "zone=us", "--expected", "7"]);
    let whole = json!({"name": "desk", "meta": {"zone": "us"}, "expected": 7});
    assert_eq!(stub.asked(), [post("/update", whole)]);
}

#[test]
fn a_field_that_is_given_twice_or_without_a_name_is_wrong_usage_and_no_node_is_asked() {
    let stub = Stub::answers(|_| ok(&json!({"name": "desk", "node": "a", "token": 7, "revision": 9})));
    for command in ["register", "update"] {
        let (code, said, errors) = ask(&stub, &[command, "desk", "--meta", "zone=eu", "--meta", "zone=us"]);
        let why = "callsign: the metadata has the field zone twice\n";
        assert_eq!((code, said.as_str(), errors.as_str()), (Some(2), "", why), "{command}");
        let (code, _, errors) = ask(&stub, &[command, "desk", "--meta", "=eu"]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains("the field has no name"), "{errors}");
    }
    assert!(stub.asked().is_empty());
}

#[test]
fn whoever_registers_a_name_anew_reads_that_it_stays_as_it_was() {
    let granted = json!({"name": "desk", "node": "a", "token": 7, "revision": 9, "already": true});
    let body = granted.clone();
    let stub = Stub::answers(move |_| ok(&body));
    let (code, said, errors) = ask(&stub, &["register", "desk", "--meta", "zone=eu"]);
    assert_eq!((code, said.as_str()), (Some(0), "desk is registered on a, token 7\n"), "{errors}");
    for part in ["desk was registered already", "as they were", "`callsign update desk`"] {
        assert!(errors.contains(part), "{errors}");
    }
    let (code, said, errors) = ask(&stub, &["register", "desk", "--meta", "zone=eu", "--json"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), granted);
}

#[test]
fn whom_a_node_knew_last_is_said_when_its_session_has_lapsed() {
    let lapsed = "callsign: this node's session has lapsed\n";
    for (known, says) in
        [(json!({"node": "b", "token": 140}), "last known: on b, token 140\n"), (Value::Null, "")]
    {
        let refused = json!({
            "error": "lapsed", "verdict": "unknown", "message": "this node's session has lapsed", "last_known": known,
        });
        let stub = Stub::answers(move |_| (503, refused.to_string()));
        let (code, said, errors) = ask(&stub, &["whereis", "desk"]);
        assert_eq!((code, said.as_str(), errors), (Some(3), "", format!("{lapsed}{says}")));
        let (code, _, errors) = ask(&stub, &["whereis", "desk", "--json"]);
        assert_eq!((code, errors.as_str()), (Some(3), ""), "the answer has it");
    }
}

#[test]
fn a_list_that_was_cut_off_says_where_it_goes_on() {
    let entry = json!({"name": "job/03", "node": "b", "token": 7, "meta": null});
    let stub = Stub::answers(move |line| {
        let next = if line.contains("after=") { Value::Null } else { json!("job/03") };
        ok(&json!({"entries": [entry], "next": next}))
    });
    for (words, says) in [
        (&["ls", "--limit", "1"][..], "more: --after job/03\n"),
        (&["ls", "--limit", "1", "--json"], ""),
        (&["ls", "--limit", "1", "--after", "job/02"], ""),
        (&["ls"], ""),
    ] {
        let (code, _, errors) = ask(&stub, words);
        assert_eq!((code, errors.as_str()), (Some(0), says), "{words:?}");
    }
    stub.asked();
    let (code, _, errors) = ask(&stub, &["ls", "--limit", "0"]);
    assert_eq!(code, Some(2), "that is no list: {errors}");
    assert!(stub.asked().is_empty());
}

#[test]
fn a_watch_that_ends_with_its_node_names_it() {
    let stub = Stub::answers(|_| (200, "event: current\ndata: {\"position\":3}\nid: 3\n\n".to_owned()));
    let (code, said, errors) = ask(&stub, &["watch"]);
    assert_eq!((code, said.as_str()), (Some(3), "-- this is all, at 3\n"), "{errors}");
    let begins = format!("callsign: the watch at http://{} has ended: ", stub.address);
    assert!(errors.starts_with(&begins), "{errors}");
    assert!(errors.ends_with("; `--from 3` goes on from here\n"), "{errors}");
}

#[test]
fn a_cluster_is_not_taken_beside_the_node_that_is_asked() {
    let stub = Stub::answers(|_| ok(&json!({"name": "desk", "node": "a", "token": 7})));
    let (code, said, errors) = ask(&stub, &["whereis", "desk", "--cluster", "c1"]);
    assert_eq!((code, said.as_str()), (Some(2), ""), "{errors}");
    assert!(errors.contains("--cluster") && errors.contains("CALLSIGN_NODE"), "{errors}");
    assert!(stub.asked().is_empty());
}

#[test]
fn a_question_has_its_registry_and_all_that_narrows_it() {
    let entry = json!({"name": "desk", "node": "b", "token": 7, "meta": null});
    let stub = Stub::answers(move |line| {
        if line.starts_with("GET /entries") { ok(&json!({"entries": [entry]})) } else { ok(&entry) }
    });
    let table = "NAME  NODE  TOKEN\ndesk  b     7\n";
    let (code, said, errors) = ask(&stub, &["whereis", "desk", "--registry", "r"]);
    assert_eq!((code, said.as_str()), (Some(0), table), "{errors}");
    assert_eq!(stub.asked(), [get("/whereis?name=desk&consistent=false&wait_ms=5000&registry=r")]);

    let narrowed = ["--held-on", "b", "--meta", "zone=eu", "--meta", "size=2", "--after", "dd"];
    let words = [&["ls", "de", "--limit", "1", "--registry", "r"][..], &narrowed].concat();
    let (code, said, errors) = ask(&stub, &words);
    assert_eq!((code, said.as_str()), (Some(0), table), "{errors}");
    assert_eq!(
        stub.asked(),
        [get("/entries?prefix=de&node=b&meta=zone=eu,size=2&after=dd&registry=r&limit=1")]
    );
    let (code, _, errors) = ask(&stub, &["ls"]);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(stub.asked(), [get("/entries?prefix=")]);
}

#[test]
fn the_node_that_holds_a_name_is_told_where_it_is_to_go() {
    let holder = Stub::answers(|line| match line {
        "POST /transfer" => ok(&json!({"name": "desk", "node": "c", "token": 9})),
        _ => ok(&json!({"node": "b", "incarnation": "5"})),
    });
    let members = json!([{"node": "a"}, {"node": "b", "admin": holder.address}]);
    let asked = Stub::answers(move |line| {
        if line.starts_with("GET /whereis") {
            ok(&json!({"node": "b", "incarnation": "5"}))
        } else {
            ok(&json!({"node": "a", "members": members}))
        }
    });
    let (code, said, errors) = ask(&asked, &["transfer", "desk", "--to", "c", "--registry", "r"]);
    assert_eq!((code, said.as_str()), (Some(0), "desk is held on c, token 9\n"), "{errors}");
    let found = get("/whereis?name=desk&consistent=true&wait_ms=5000&registry=r");
    assert_eq!(asked.asked(), [found, get("/status?registry=r")]);
    let wanted = json!({"name": "desk", "to": "c", "wait_ms": 5000, "registry": "r"});
    assert_eq!(holder.asked(), [get("/status?registry=r"), post("/transfer", wanted)]);
}

#[test]
fn a_name_is_not_given_away_by_what_is_not_its_holder() {
    let found = || ok(&json!({"node": "b", "incarnation": "5"}));
    // Another node listens where the holder did.
    let stranger = Stub::answers(|_| ok(&json!({"node": "b", "incarnation": "6"})));
    let starting = Stub::answers(|_| starts());
    for (admin, says) in [
        (Some(&stranger), "is another node here"),
        (Some(&starting), STARTS),
        (None, "does not say where it is administered"),
    ] {
        let members = json!([{"node": "b", "admin": admin.map(|stub| stub.address.clone())}]);
        let asked = Stub::answers(move |line| {
            if line.starts_with("GET /whereis") {
                found()
            } else {
                ok(&json!({"node": "a", "members": members}))
            }
        });
        let (code, said, errors) = ask(&asked, &["transfer", "desk", "--to", "c"]);
        assert_eq!((code, said.as_str()), (Some(3), ""), "{errors}");
        assert!(errors.starts_with("callsign: ") && errors.contains(says), "{errors}");
    }
    assert_eq!(stranger.asked(), [get("/status")], "it is not told to give anything away");
    assert_eq!(starting.asked(), [get("/status")]);

    let asked = Stub::answers(move |line| if line.starts_with("GET /whereis") { found() } else { starts() });
    let (code, _, errors) = ask(&asked, &["transfer", "desk", "--to", "c"]);
    assert_eq!((code, errors.as_str()), (Some(3), STARTS));
}

#[test]
fn a_status_says_who_leads_and_whether_that_node_serves() {
    for (leader, says) in [
        (json!({"node": "b", "serving": true}), "leader b"),
        (json!({"node": "b", "serving": false}), "leader b (not serving yet)"),
        (Value::Null, "leader nobody"),
    ] {
        let body = json!({
            "node": "a", "pid": 1, "listen": "127.0.0.1:1", "registry": "r", "ready": true, "synced": false,
            "leader": leader, "epoch": 3, "position": 9, "names": null, "claims": 2, "members": [],
        });
        let stub = Stub::answers(move |_| ok(&body));
        let (code, said, errors) = ask(&stub, &["status"]);
        assert_eq!(code, Some(0), "{errors}");
        let lines: Vec<_> =
            said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for expected in [says, "ready yes", "synced no", "names not known, 2 of them here"] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {said}");
        }
    }
}

#[test]
fn a_name_that_a_node_has_not_heard_of_is_explained_by_the_holder_that_was_found() {
    let found = json!({"name": "desk", "node": "b", "token": 7});
    let held = json!({"name": "desk", "node": "b", "token": 7, "since": 3});
    for (state, known, holder) in [("unknown", &Value::Null, &found), ("held", &held, &held)] {
        let whereis = ok(&found);
        let explained = json!({"state": state, "said": "x", "holder": known, "node": "a", "members": []});
        let stub =
            Stub::answers(
                move |line| {
                    if line.starts_with("GET /whereis") { whereis.clone() } else { ok(&explained) }
                },
            );
        let (code, said, errors) = ask(&stub, &["explain", "desk", "--json", "--registry", "r"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((code, &said["holder"]), (Some(0), holder), "{said} {errors}");
        let first = get("/whereis?name=desk&consistent=true&wait_ms=5000&registry=r");
        assert_eq!(stub.asked(), [first, get("/explain?name=desk&registry=r")]);
    }
    let stub = Stub::answers(|line| {
        if line.starts_with("GET /whereis") {
            not_found()
        } else {
            ok(&json!({"state": "unknown", "said": "x", "holder": null, "node": "a", "members": []}))
        }
    });
    let (code, said, errors) = ask(&stub, &["explain", "desk", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["holder"]), (Some(1), &Value::Null), "{said} {errors}");
}

#[test]
fn a_node_that_cannot_answer_explains_nothing() {
    for refused in ["GET /whereis", "GET /explain"] {
        let stub = Stub::answers(move |line| {
            if line.starts_with(refused) {
                starts()
            } else {
                ok(&json!({"state": "free", "said": "x", "holder": null, "node": "a", "members": []}))
            }
        });
        let (code, said, errors) = ask(&stub, &["explain", "desk"]);
        assert_eq!((code, said.as_str(), errors.as_str()), (Some(3), "", STARTS));
        let asked = stub.asked();
        assert!(asked.last().is_some_and(|(line, _)| line.starts_with(refused)), "{asked:?}");
    }
}

#[test]
fn each_member_says_itself_where_it_is_and_of_the_others_it_is_said_why_not() {
    let rows = json!([
        {"node": "a", "why_draining": "failed"},
        {"node": "b", "why_draining": "asked_to_leave"},
    ]);
    let answers = Stub::answers(move |_| ok(&json!({"node": "b", "position": 7, "members": rows})));
    let another = Stub::answers(|_| ok(&json!({"node": "z", "position": 99, "members": []})));
    let members = json!([
        {"node": "a"}, {"node": "b", "admin": answers.address},
        {"node": "c"}, {"node": "d", "admin": another.address},
    ]);
    let explained = json!({
        "state": "free", "said": "x", "holder": null, "node": "a", "position": 10, "members": members,
    });
    let stub = Stub::answers(
        move |line| {
            if line.starts_with("GET /whereis") { not_found() } else { ok(&explained) }
        },
    );
    let (_, said, errors) = ask(&stub, &["explain", "desk", "--json"]);
    let said: Value = serde_json::from_str(&said).expect(&errors);
    let [asked, told, silent, moved] = &said["members"].as_array().unwrap()[..] else { panic!("{said}") };
    assert_eq!((&asked["position"], &asked["behind"]), (&json!(10), &json!(0)), "{said}");
    assert_eq!((&told["position"], &told["behind"]), (&json!(7), &json!(3)), "{said}");
    assert_eq!((&asked["why_draining"], &told["why_draining"]), (&Value::Null, &json!("asked_to_leave")));
    for (member, why) in [(silent, "does not say where it is administered"), (moved, "is another node here")]
    {
        let is_said = member["not_asked"].as_str().is_some_and(|said| said.contains(why));
        assert!(is_said && member["position"].is_null() && member["behind"].is_null(), "{member}");
    }
}

fn status_of_a() -> Said {
    let status = json!({
        "node": "a", "registry": "r", "leader": null, "epoch": 3, "position": 9, "names": 1, "members": [],
    });
    ok(&status)
}

#[test]
fn a_node_that_stops_answering_is_looked_at_again_and_one_that_never_answered_is_not() {
    for (answers, code, looks, questions) in
        [([true, false, true], 0, 2, 3), ([true, true, false], 3, 2, 3), ([false, true, true], 3, 0, 1)]
    {
        let mut each = answers.into_iter();
        let stub =
            Stub::answers(move |_| if each.next().unwrap_or_default() { status_of_a() } else { starts() });
        let (ended, said, errors) = ask(&stub, &["top", "--every", "1ms", "--times", "3"]);
        assert_eq!((ended, errors.as_str()), (Some(code), STARTS), "{answers:?}: {said}");
        assert_eq!(said.matches("registry r, as a sees it").count(), looks, "{answers:?}: {said}");
        assert_eq!(stub.asked().len(), questions, "{answers:?}");
    }
}

#[test]
fn a_command_that_goes_on_ends_well_when_nobody_reads_it_any_more() {
    let stub = Stub::answers(|line| {
        if line.starts_with("GET /watch") {
            (200, "event: current\ndata: {\"position\":3}\nid: 3\n\n".repeat(2))
        } else {
            status_of_a()
        }
    });
    for words in [&["top", "--every", "1ms", "--times", "3"][..], &["watch"]] {
        let (out, _unread) = Sink::Gone.open("unused".as_ref());
        let ended = command(&stub, words).stdout(out).stderr(Stdio::null()).status().unwrap();
        assert_eq!(ended.code(), Some(0), "{words:?}");
        assert_eq!(stub.asked().len(), 1, "{words:?}");
    }
}

#[test]
fn why_the_registries_of_a_store_are_not_known_is_said_to_programs_and_to_people() {
    let run = |more: &[&str]| {
        let words = ["registries", "--store", "sqlite:/nowhere/x.db"];
        let output = Command::new(callsign()).args(words).args(more).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for (more, status, error) in
        [(&["--json"][..], 3, "no_answer"), (&["--json", "--cluster", "a/b"], 2, "usage")]
    {
        let (code, said, errors) = run(more);
        let said: Value = serde_json::from_str(&said).expect(&errors);
        assert_eq!((code, &said["error"], errors.as_str()), (Some(status), &json!(error), ""), "{said}");
    }
    let (code, said, errors) = run(&[]);
    assert_eq!((code, said.as_str()), (Some(3), ""), "{errors}");
    assert!(errors.starts_with("callsign: ") && errors.lines().count() == 1, "{errors}");
}
