//! The page of a node, in a real browser.

use std::time::{Duration, Instant};

use callsign_tests::{Browser, Cluster, StartOptions, TEST_DEADLINE, eventually};
use serde_json::json;

const LEASE: Duration = Duration::from_secs(10);

/// The page shows the next leader within this time after the former one was killed.
const NEXT_LEADER_SHOWN: Duration = Duration::from_secs(2);

/// A browser, or a line that says that none is installed. One that is installed has to start.
pub(crate) fn browser() -> Option<Browser> {
    if !Browser::is_installed() {
        println!("skipped: Debian's chromium-driver is not installed");
        return None;
    }
    Some(Browser::start().unwrap_or_else(|why| panic!("Chromium is installed, and does not start: {why}")))
}

pub(crate) fn shows(browser: &Browser, id: &str, wanted: &str) {
    shows_one_of(browser, id, &[wanted.to_owned()], TEST_DEADLINE);
}

/// Waits until an element shows one of these texts, and says which.
fn shows_one_of(browser: &Browser, id: &str, wanted: &[String], wait: Duration) -> usize {
    eventually(&format!("{id} shows one of {wanted:?}"), wait, || {
        let text = browser.text(id);
        wanted.iter().position(|wanted| text.contains(wanted)).ok_or(text)
    })
}

pub(crate) fn lines(browser: &Browser, id: &str, wanted: i64) {
    eventually(&format!("{id} has {wanted} lines"), TEST_DEADLINE, || {
        let count = browser.run(&format!("return document.getElementById({id:?}).children.length"));
        if count == wanted { Ok(()) } else { Err(count.to_string()) }
    });
}

/// How the graph has the link between two members, in the order of their names.
fn graph_shows(browser: &Browser, [one, other]: [&str; 2], kind: &str) {
    let [first, last] = if one < other { [one, other] } else { [other, one] };
    let script = format!(
        "const lines = [...document.querySelectorAll('#graph line')];
        return lines.filter((line) => line.textContent.startsWith('{first} and {last}: ')).map((line) => line.getAttribute('class'));"
    );
    eventually(&format!("the graph has {one} and {other} as {kind:?}"), TEST_DEADLINE, || {
        let found = browser.run(&script);
        if found == json!([kind]) { Ok(()) } else { Err(found.to_string()) }
    });
}

pub(crate) fn keep_picture(browser: &Browser, name: &str) {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(format!("{name}.png")), browser.picture()).unwrap();
}

#[test]
fn the_page_shows_names_as_they_come_and_the_next_leader_without_being_loaded_again() {
    let Some(browser) = browser() else { return };
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let leader = cluster.leader();
    let [shown, other] = &cluster.others(&[&leader])[..] else { panic!("three nodes") };
    let ask = |node: &str| cluster.node(node).client.clone();
    let markup = json!({"room": "<b>4</b>"});
    ask(shown).post("/register", &json!({"name": "desk", "meta": markup})).ok();
    browser.resize(1200, 1250);
    browser.open(&format!("http://{}/", ask(shown).address()));
    browser.run("window.isTheSame = true");
    shows(&browser, "where", &format!("Node {shown}: it is ready."));
    shows(&browser, "where", &format!("{leader} leads in epoch"));
    lines(&browser, "members", 3);
    // The lag is what the others say.
    shows(&browser, "members", &format!("{leader}\tleads\topen\tsynced\t0\tup"));
    shows(&browser, "members", &format!("{other}\tfollows\topen\tsynced\t0\tup"));
    shows(&browser, "members", &format!("{shown} (this node)\tfollows\topen\tsynced\t0\tup"));
    shows(&browser, "leaders", &format!("{leader} leads, epoch"));
    // Its own links, and the one that the two others have to each other.
    for pair in [[shown, &leader], [shown, other], [other, &leader]] {
        graph_shows(&browser, pair.map(String::as_str), "link");
    }
    // What others say is text.
    shows(&browser, "names", r#"{"room":"<b>4</b>"}"#);
    assert_eq!(browser.run("return document.querySelectorAll('b').length"), 0);

    // What comes while it is open.
    ask(other).post("/register", &json!({"name": "chair"})).ok();
    shows(&browser, "events", &format!("chair: registered on {other}"));
    shows(&browser, "names", "chair");
    ask(other).post("/unregister", &json!({"name": "chair"})).ok();
    shows(&browser, "events", &format!("chair: unregistered, it was on {other}"));
    lines(&browser, "names", 1);

    // Search and pages, by the keyboard alone.
    let many = json!({"prefix": "n", "from": 0, "to": 120, "shared": true});
    assert_eq!(ask(shown).post("/register-many", &many).ok()["registered"], 120);
    browser.run("document.getElementById('prefix').focus()");
    browser.keys("n1\u{e007}");
    lines(&browser, "names", 31);
    browser.run("document.getElementById('prefix').select()");
    browser.keys("n\u{e007}");
    lines(&browser, "names", 50);
    browser.run("document.getElementById('names-next').focus()");
    browser.keys("\u{e007}");
    shows(&browser, "names", "n54\t");
    shows(&browser, "count", "121 in this node's replica");
    // These calls are in the curves of what calls take.
    eventually("times of calls are drawn", TEST_DEADLINE, || {
        let drawn = browser.run(
            "const took = seen.points.map((point) => point.callTook).filter(([half]) => half !== null);
            const curves = [...document.querySelectorAll('#curves div')].find((shown) => shown.textContent.startsWith('ms a call took: '));
            const drawn = curves && [...curves.querySelectorAll('polyline')].map((curve) => curve.getAttribute('points').trim().split(' ').length > 1);
            return [took.length > 0 && took.every(([half, most]) => 0 < half && half <= most), drawn];",
        );
        if drawn == json!([true, [true, true]]) { Ok(()) } else { Err(drawn.to_string()) }
    });
    browser.run("document.getElementById('meta').focus()");
    browser.keys("nonsense\u{e007}");
    shows(&browser, "names-refused", "field=value");
    browser.run("document.getElementById('meta').select()");
    browser.keys("room=<b>4</b>\u{e007}");
    browser.run("document.getElementById('prefix').select()");
    browser.keys("d\u{e007}");
    lines(&browser, "names", 1);
    assert_eq!(browser.text("names-refused"), "");

    let killed = Instant::now();
    cluster.kill(&leader);
    let others = [shown, other];
    let wanted = others.map(|node| format!("{node} leads in epoch"));
    let next =
        others[shows_one_of(&browser, "where", &wanted, NEXT_LEADER_SHOWN.saturating_sub(killed.elapsed()))];
    println!("the page showed the next leader {:?} after the former was killed", killed.elapsed());
    assert_eq!(&cluster.leader(), next);
    shows(&browser, "leaders", &format!("{next} leads, epoch"));
    shows(&browser, "events", &format!("{leader} is a member no more"));
    lines(&browser, "members", 2);
    graph_shows(&browser, [shown, other], "link");
    assert_eq!(browser.run("return document.querySelectorAll('#graph line').length"), 1);
    browser.run("scrollTo(0, 0)");
    keep_picture(&browser, "failover");

    // On a phone nothing is cut off.
    browser.resize(360, 740);
    fits(&browser);
    keep_picture(&browser, "phone");

    assert_eq!(browser.run("return window.isTheSame"), true);
}

#[test]
fn the_page_says_how_far_members_are_behind_and_what_calls_took_by_their_bounds() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    browser.open(&format!("http://{}/", cluster.node("a").client.address()));
    shows(&browser, "where", "Node a: it is ready.");
    let lags = browser.run("return [0, 1, 1234, null].map((behind) => row([lag(behind)]).innerHTML)");
    let faint = "<td class=\"faint\">not known</td>";
    assert_eq!(lags, json!(["<td>0</td>", "<td>1 behind</td>", "<td>1,234 behind</td>", faint]));
    // 100 calls between two looks: half of them up to 10 ms, half up to 100 ms. What other registries count is not theirs.
    let took = browser.run(
        r#"const lines = (counts, of) => ["0.001", "0.01", "0.1", "+Inf"].map((most, i) => `x_bucket{registry="${of}",call="register",le="${most}"} ${counts[i]}`);
        const text = (counts, sum) => [...lines(counts, "r"), ...lines([9, 9, 9, 9], "other"), `x_sum{registry="r"} ${sum}`, `x_count{registry="r"} ${counts[3]}`].join("\n");
        const look = (...of) => histogram(text(...of), "x", 'registry="r"');
        const between = betweenLooks(look([10, 10, 10, 10], 0.01), look([10, 60, 110, 110], 3));
        const shares = (of) => [0.25, 0.5, 0.99].map((share) => { const found = quantile(of, share); return found === null ? null : Math.round(found * 10) / 10; });
        const beyond = betweenLooks(look([0, 0, 0, 0], 0), look([0, 0, 0, 4], 9));
        const none = betweenLooks(look([1, 1, 1, 1], 1), look([1, 1, 1, 1], 1));
        return [between, beyond, none, { count: 4, sum: 1, bounds: [] }].map(shares);"#,
    );
    assert_eq!(took, json!([[5.5, 10, 98.2], [100, 100, 100], [null, null, null], [250, 250, 250]]));
}

#[test]
fn what_the_page_was_refused_it_asks_for_again_though_nothing_has_changed() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let client = &cluster.node("a").client;
    browser.open(&format!("http://{}/", client.address()));
    shows(&browser, "where", "Node a: it is ready.");
    browser.run(
        "const real = window.fetch;
        window.fetch = async (...asked) => {
            if (!String(asked[0]).includes('entries')) return real(...asked);
            window.fetch = real;
            window.wasRefused = true;
            return new Response(JSON.stringify({ error: 'lapsed', message: 'it has lapsed' }), { status: 503 });
        };",
    );
    client.post("/register", &json!({"name": "lamp"})).ok();
    eventually("it is refused", TEST_DEADLINE, || {
        (browser.run("return window.wasRefused === true") == true).then_some(()).ok_or(String::new())
    });
    shows(&browser, "names", "lamp\t");
}

#[test]
fn the_page_of_a_node_that_began_anew_while_nobody_looked_shows_all_that_it_saw_since() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    browser.open(&format!("http://{}/", cluster.node("a").client.address()));
    shows(&browser, "leaders", "a leads, epoch");
    // As if the page had last heard of another incarnation, which had seen as much as this one.
    browser.run(
        "seen.incarnation = 'the one before';
        seen.leaders = [];
        document.getElementById('leaders').replaceChildren();",
    );
    shows(&browser, "leaders", "a leads, epoch");
}

#[test]
fn what_is_asked_for_while_the_page_waits_for_an_answer_is_what_it_shows() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let client = &cluster.node("a").client;
    client.post("/register", &json!({"name": "lamp"})).ok();
    browser.open(&format!("http://{}/", client.address()));
    shows(&browser, "names", "lamp\t");
    // The next answer with names comes only when it is let go.
    browser.run(
        "const real = window.fetch;
        window.fetch = async (...asked) => {
            const answer = await real(...asked);
            if (!String(asked[0]).includes('entries')) return answer;
            window.fetch = real;
            await new Promise((goOn) => { window.goOn = goOn; });
            return answer;
        };",
    );
    client.post("/register", &json!({"name": "table"})).ok();
    eventually("an answer is held back", TEST_DEADLINE, || {
        (browser.run("return window.goOn !== undefined") == true).then_some(()).ok_or(String::new())
    });
    browser.run("document.getElementById('prefix').focus()");
    browser.keys("ta\u{e007}");
    browser.run("window.goOn()");
    lines(&browser, "names", 1);
    shows(&browser, "names", "table\t");
}

/// As many names as the page has to work with.
const MANY: u64 = 100_000;

#[test]
fn the_page_works_with_a_hundred_thousand_names_on_a_phone_too() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let client = &cluster.node("a").client;
    browser.resize(360, 740);
    browser.open(&format!("http://{}/", client.address()));
    shows(&browser, "where", "Node a: it is ready.");
    let begin = Instant::now();
    for from in (0..MANY).step_by(10_000) {
        let range =
            json!({"prefix": "n", "from": from, "to": from + 10_000, "concurrency": 2_000, "shared": true});
        assert_eq!(client.post("/register-many", &range).ok()["registered"], 10_000);
    }
    println!("{MANY} names were registered in {:?}", begin.elapsed());
    shows(&browser, "count", "100,000 in this node's replica");
    // All of them came as events, of which the last are kept.
    lines(&browser, "events", 200);

    // Names of a prefix, page by page: 111 of them, in their order.
    let press = |id: &str| {
        browser.run(&format!("document.getElementById({id:?}).focus()"));
        browser.keys("\u{e007}");
    };
    browser.run("document.getElementById('prefix').focus()");
    browser.keys("n777\u{e007}");
    shows(&browser, "names", "n777\t");
    lines(&browser, "names", 50);
    press("names-next");
    shows(&browser, "names", "n77744\t");
    press("names-next");
    lines(&browser, "names", 11);
    shows(&browser, "names", "n77799\t");
    assert_eq!(browser.run("return document.getElementById('names-next').disabled"), true);
    press("names-first");
    lines(&browser, "names", 50);
    // All names, and the last of them alone.
    browser.run("document.getElementById('prefix').select()");
    browser.keys("n\u{e007}");
    shows(&browser, "names", "n0\t");
    press("names-next");
    shows(&browser, "names", "n10041\t");
    browser.run("document.getElementById('prefix').select()");
    browser.keys("n99999\u{e007}");
    lines(&browser, "names", 1);

    // What comes now is shown, too, and nothing is cut off.
    client.post("/register", &json!({"name": "newcomer"})).ok();
    shows(&browser, "events", "newcomer: registered on a");
    shows(&browser, "count", "100,001 in this node's replica");
    fits(&browser);
    keep_picture(&browser, "many");
}

/// Nothing of the page is cut off at its sides.
fn fits(browser: &Browser) {
    let width = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]");
    assert!(width[0].as_i64() <= width[1].as_i64(), "{width}");
}

#[test]
fn the_page_shows_which_of_the_others_have_no_link_to_each_other_and_when_they_have_one_again() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::start(StartOptions::lease(LEASE).linked(), &["a", "b", "c"]);
    // The leader goes on, so that the seat stays.
    let leader = cluster.leader();
    let [one, other] = &cluster.others(&[&leader])[..] else { panic!("three nodes") };
    let others = [one.as_str(), other.as_str()];
    browser.resize(1200, 1250);
    browser.open(&format!("http://{}/", cluster.node(&leader).client.address()));
    graph_shows(&browser, others, "link");
    cluster.links().cut(one, other);
    graph_shows(&browser, others, "cut");
    for to in others {
        graph_shows(&browser, [&leader, to], "link");
    }
    let said = browser.run("return document.getElementById('graph').getAttribute('aria-label')");
    let [first, last] = if one < other { [one, other] } else { [other, one] };
    assert_eq!(said, format!("Members, and the links between them. Not linked: {first} and {last}."));
    keep_picture(&browser, "cut");
    browser.prefer_dark();
    keep_picture(&browser, "cut-dark");
    cluster.links().heal(one, other);
    graph_shows(&browser, others, "link");
    cluster.check();
}

#[test]
fn the_page_asks_for_the_token_and_forgets_a_wrong_one() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "0123456789abcdef").unwrap();
    let mut options = StartOptions::lease(LEASE);
    options.arguments.extend(["--admin-token-file", file.to_str().unwrap()].map(Into::into));
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let locked = cluster.launch_aside("b", &options);
    browser.open(&format!("http://{}/", locked.client.address()));
    let is_hidden = |id: &str| browser.run(&format!("return document.getElementById({id:?}).hidden"));
    eventually("it asks", TEST_DEADLINE, || (is_hidden("lock") == false).then_some(()).ok_or(String::new()));
    assert_eq!((is_hidden("shown"), browser.text("wrong")), (true.into(), String::new()));
    let say = |token: &str| {
        browser.run("document.getElementById('token').focus()");
        browser.keys(&format!("{token}\u{e007}"));
    };
    say("wrong");
    shows(&browser, "wrong", "That is not its token.");
    assert_eq!(browser.run("return Object.keys(sessionStorage).length"), 0);
    // A look without a token is refused only after the right one was given: that costs the right one nothing.
    browser.run(
        "const real = window.fetch;
        window.fetch = async (...asked) => {
            const answer = await real(...asked);
            window.fetch = real;
            await new Promise((goOn) => { window.goOn = goOn; });
            return answer;
        };",
    );
    eventually("a look waits for its answer", TEST_DEADLINE, || {
        (browser.run("return window.goOn !== undefined") == true).then_some(()).ok_or(String::new())
    });
    say("0123456789abcdef");
    browser.run("window.goOn()");
    shows(&browser, "where", "Node b");
    assert_eq!((is_hidden("lock"), is_hidden("shown")), (true.into(), false.into()));
    lines(&browser, "members", 2);
    // One that is halted answers nothing, and the page says so.
    locked.stop();
    shows(&browser, "where", "The node does not answer");
    locked.go_on();
    shows(&browser, "where", "Node b");
}
