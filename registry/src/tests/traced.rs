//! Traces of calls: from whoever asks, by the leader's commit, to the actor; with the propagator of the example.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use callsign_transport::trace;
use futures::future::join_all;
use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call_t};
use tracing::{
    Dispatch, Instrument, Span, field::Empty, info_span, level_filters::LevelFilter, subscriber::DefaultGuard,
};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt};

use crate::{
    NodeName, Position, RegisterOptions, Started,
    core::traced::MOST_TRACED,
    driver::traces::in_span,
    tests::driver::{Cluster, TEST_DEADLINE, counter, until},
};

#[path = "../../examples/traced/propagator.rs"]
mod propagator;

/// The spans of this thread, for as long as it lives.
struct Collected {
    spans: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _guard: DefaultGuard,
    /// While there is only one, a call site that another thread comes to first is switched off for all.
    _second: Dispatch,
}

impl Collected {
    fn begin() -> Self {
        // Another test of this process may have done so.
        let _ = trace::install(propagator::OpenTelemetry);
        let spans = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let subscriber = || {
            let wanted = Targets::new()
                .with_target(trace::SPANS, LevelFilter::DEBUG)
                .with_target("test", LevelFilter::INFO);
            let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
            tracing_subscriber::registry().with(layer.with_filter(wanted))
        };
        let (second, guard) = (Dispatch::new(subscriber()), tracing::subscriber::set_default(subscriber()));
        Self { spans, _provider: provider, _guard: guard, _second: second }
    }

    /// Those that are over.
    fn named(&self, name: &str) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap().into_iter().filter(|span| span.name == name).collect()
    }

    /// The only one of a name, once it is over.
    async fn one(&self, name: &str) -> SpanData {
        until(&format!("{name} is over"), || !self.named(name).is_empty()).await;
        let mut named = self.named(name);
        assert_eq!(named.len(), 1, "{name}: {named:?}");
        named.remove(0)
    }

    fn forget(&self) {
        self.spans.reset();
    }
}

fn field(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|pair| pair.key.as_str() == name);
    found.map(|pair| pair.value.to_string())
}

fn id(span: &SpanData) -> SpanId {
    span.span_context.span_id()
}

/// Whether the first is below the second, and in its trace.
fn is_below(below: &SpanData, above: &SpanData) -> bool {
    below.parent_span_id == id(above) && below.span_context.trace_id() == above.span_context.trace_id()
}

#[tokio::test(start_paused = true)]
async fn a_registration_is_committed_in_the_trace_of_whoever_asked_on_whichever_node() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    for (node, name) in nodes.iter().zip(["x", "y", "z"]) {
        let spans = Collected::begin();
        let outer = info_span!(target: "test", "outer");
        let held = node.register(name, &counter().await).instrument(outer).await.unwrap();
        let (outer, register) = (spans.one("outer").await, spans.one("register").await);
        let commit = spans.one("commit").await;
        assert!(is_below(&register, &outer) && is_below(&commit, &register), "{commit:?}");
        let fields = ["registry", "name", "token", "error"].map(|name| field(&register, name));
        let token = held.token().0.to_string();
        assert_eq!(fields, [Some("default".into()), Some(name.into()), Some(token), None]);
        let fields = ["registry", "operations"].map(|name| field(&commit, name));
        assert_eq!(fields, [Some("default".into()), Some("1".into())]);
        assert!(commit.links.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_for_several_traces_is_in_the_first_and_has_links_to_the_others() {
    let cluster = Cluster::new();
    let [_a, b, _c] = cluster.three().await;
    let spans = Collected::begin();
    let actor = counter().await;
    let (one, other) = tokio::join!(
        b.register("x", &actor).instrument(info_span!(target: "test", "one")),
        b.register("y", &actor).instrument(info_span!(target: "test", "other")),
    );
    assert!(one.unwrap().token() == other.unwrap().token(), "one batch has both");
    let commit = spans.one("commit").await;
    let registers = spans.named("register");
    let first = registers.iter().find(|span| id(span) == commit.parent_span_id).expect("it is in a trace");
    let linked: Vec<_> = commit.links.iter().map(|link| link.span_context.span_id()).collect();
    let others: Vec<_> = registers.iter().map(id).filter(|other| *other != id(first)).collect();
    assert_eq!((registers.len(), linked), (2, others));
}

#[tokio::test(start_paused = true)]
async fn of_many_traces_of_one_batch_the_first_go_on() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let leader = nodes.iter().position(|node| node.status().leads).unwrap();
    for (n, node) in [leader, leader + 1].into_iter().enumerate() {
        let (node, spans, actor) = (&nodes[node % 3], Collected::begin(), counter().await);
        let names: Vec<_> = (0..70).map(|m| format!("{n}/{m}")).collect();
        let all = join_all(names.iter().map(|name| node.register(name, &actor))).await;
        assert!(all.into_iter().all(|held| held.is_ok()));
        assert_eq!(spans.one("commit").await.links.len(), MOST_TRACED - 1);
    }
    assert_eq!(nodes[leader].shared.traces.count_asked(), MOST_TRACED, "and no more were sent");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_nobody_traces_has_no_span() {
    let cluster = Cluster::new();
    let [_a, b, _c] = cluster.three().await;
    let spans = Collected::begin();
    let actor = counter().await;
    b.register("x", &actor).await.unwrap();
    spans.one("commit").await;
    spans.forget();
    // Its end is no call of anybody's.
    actor.stop(None);
    until("the name is free", || b.lookup("x") == Ok(None)).await;
    assert!(spans.named("commit").is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_call_has_a_span_with_what_came_of_it() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let spans = Collected::begin();
    let actor = counter().await;
    let held = b.register("x", &actor).await.unwrap();
    let taken = a.register("x", &counter().await).await.unwrap_err();
    let registers = spans.named("register");
    assert_eq!(field(&registers[1], "error"), Some(taken.to_string()));
    assert_eq!(field(&registers[1], "token"), None);
    a.lookup_consistent("x", TEST_DEADLINE).await.unwrap();
    let lookup = spans.one("lookup_consistent").await;
    assert_eq!(field(&lookup, "token"), Some(held.token().0.to_string()));
    let error = a.offer("x", &NodeName::new("b").unwrap(), TEST_DEADLINE).await.unwrap_err();
    let transfer = spans.one("transfer").await;
    let fields = ["name", "to", "error"].map(|name| field(&transfer, name));
    assert_eq!(fields, [Some("x".into()), Some("b".into()), Some(error.to_string())]);
    spans.forget();
    b.unregister("x").await.unwrap();
    let unregister = spans.one("unregister").await;
    assert!(is_below(&spans.one("commit").await, &unregister));
    assert_eq!(field(&unregister, "name"), Some("x".into()));
}

/// A span of the application's may have fields of the same names.
#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_listens_to_says_nothing_in_the_span_of_its_caller() {
    let spans = Collected::begin();
    let call = in_span(Span::none(), async { Ok::<_, crate::LookupError>(()) }, |()| Some(Position(7)));
    call.instrument(info_span!(target: "test", "outer", token = Empty)).await.unwrap();
    assert_eq!(field(&spans.one("outer").await, "token"), None);
}

#[tokio::test(start_paused = true)]
async fn what_starts_an_actor_runs_in_the_span_of_the_start() {
    let cluster = Cluster::new();
    let [_a, b, _c] = cluster.three().await;
    let spans = Collected::begin();
    let started = b.start("x", |_| async {
        info_span!(target: "test", "starts").in_scope(|| {});
        Ok(counter().await)
    });
    let Started::Ours(held) = started.await.unwrap() else { panic!("nobody else starts it") };
    let (start, starts) = (spans.one("start").await, spans.one("starts").await);
    assert!(is_below(&starts, &start));
    assert_eq!(field(&start, "token"), Some(held.token().0.to_string()));
    until("both commits are over", || spans.named("commit").len() == 2).await;
    assert!(
        spans.named("commit").iter().all(|commit| is_below(commit, &start)),
        "to hold it, and to bind it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_in_the_trace_of_the_taker_though_the_holder_asks_the_leader() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let leader = nodes.iter().position(|node| node.status().leads).unwrap();
    let [holder, taker] = [1, 2].map(|n| &nodes[(leader + n) % 3]);
    for (holder, taker) in [(holder, taker), (holder, &nodes[leader]), (&nodes[leader], taker)] {
        let give = RegisterOptions::default().give(|_| async { Ok(Vec::new()) });
        let held = holder.register_with("x", &counter().await, give).await.unwrap();
        taker.wait_for(held.token(), TEST_DEADLINE).await.unwrap();
        let spans = Collected::begin();
        let taken = taker.take("x", &counter().await, held.token(), TEST_DEADLINE).await.unwrap();
        let take = spans.one("take").await;
        assert_eq!(field(&take, "token"), Some(taken.registration.token().0.to_string()));
        assert!(is_below(&spans.one("commit").await, &take));
        taker.unregister("x").await.unwrap();
        until("all know", || nodes.iter().all(|node| node.lookup("x") == Ok(None))).await;
    }
}

#[callsign_transport::message("test.traced.question/1", crate = callsign_transport)]
enum Question {
    Ask(RpcReplyPort<u64>),
}

struct Answers;

impl Actor for Answers {
    type Msg = Question;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Question>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Question>,
        Question::Ask(reply): Question,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let _ = info_span!(target: "test", "answers").in_scope(|| reply.send(7));
        Ok(())
    }
}

/// The references that a registry gives export their actors with the type of their messages.
#[tokio::test(start_paused = true)]
async fn an_actor_that_is_found_by_its_name_answers_in_the_trace_of_its_caller() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let (actor, _) = Actor::spawn(None, Answers, ()).await.unwrap();
    let held = a.register("x", &actor).await.unwrap();
    b.wait_for(held.token(), TEST_DEADLINE).await.unwrap();
    let spans = Collected::begin();
    let found: ActorRef<Question> = b.whereis("x").unwrap();
    assert_eq!(call_t!(found, Question::Ask, 5000).unwrap(), 7);
    let [call, callee, answers] =
        [spans.one("call").await, spans.one("callee").await, spans.one("answers").await];
    assert!(is_below(&callee, &call) && is_below(&answers, &callee));
}

/// The sources below a folder.
fn sources(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read =
        |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![fs::read_to_string(path).unwrap()] };
    entries.flat_map(read).collect()
}

/// The name of a span and of its fields, from what is behind the target where it is made.
fn made(arguments: &str) -> (String, Vec<String>) {
    let (_, rest) = arguments.split_once('"').unwrap();
    let (name, fields) = rest.split_once('"').unwrap();
    let fields = fields.split(',').map(|field| field.split('=').next().unwrap());
    let fields = fields.map(|field| field.trim().trim_start_matches('%').to_owned());
    (name.to_owned(), fields.filter(|field| !field.is_empty()).collect())
}

#[test]
fn the_page_of_traces_has_every_span_with_its_fields() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut made_here = BTreeMap::new();
    for source in
        ["registry/src/driver", "transport/src/driver"].iter().flat_map(|of| sources(&workspace.join(of)))
    {
        for found in source.split("debug_span!(").skip(1) {
            let arguments = found.trim_start().strip_prefix("target: SPANS,").expect("all have one target");
            made_here.extend([made(arguments.split_once(')').unwrap().0)]);
        }
    }
    let page = include_str!("../../../docs/tracing.md");
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
    let rows = page.lines().filter(|line| line.starts_with("| `")).map(cells);
    let said = rows.map(|cells| (cells[1].clone(), cells[4].split(", ").map(str::to_owned).collect()));
    assert_eq!(made_here, said.collect::<BTreeMap<_, Vec<_>>>());
}
