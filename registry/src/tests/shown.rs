//! What a node shows to those who look after it: what it warns of, and what it measures.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusBuilder;
use tracing::{
    Dispatch, Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

use crate::{
    Registry,
    tests::driver::{Cluster, TEST_DEADLINE, counter, until},
};

/// What this thread was warned of.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

/// The fields of one warning.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?};", field.name()).unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::WARN {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_no_member_may_lead_is_warned_of_once_each_time() {
    let warnings = Warnings::default();
    let subscriber = || tracing_subscriber::registry().with(warnings.clone());
    // While there is only one, a call site that another thread comes to first is switched off for all.
    let (_second, _guard) = (Dispatch::new(subscriber()), tracing::subscriber::set_default(subscriber()));
    let warned = || {
        let all = warnings.0.lock().unwrap();
        all.iter().filter(|said| said.contains("nobody leads") && said.contains("node=a;")).count()
    };
    let cluster = Cluster::new();
    let node = Registry::join(cluster.config("a").priority(0)).await.unwrap();
    until("it is warned of", || warned() == 1).await;
    let _other = Registry::join(cluster.config("b").priority(0)).await.unwrap();
    until("both are members", || node.members().len() == 2).await;
    assert_eq!(warned(), 1, "it is as it was");
    let leader = cluster.node("c").await;
    until("somebody leads", || node.leader().is_some_and(|leader| leader.serving)).await;
    leader.leave().await.unwrap();
    until("it is warned of again", || warned() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_alone_shows_that_it_has_no_links() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let cluster = Cluster::new();
    let _node = cluster.node("a").await;
    let none = "callsign_registry_links{registry=\"default\"} 0";
    assert!(counted.render().lines().any(|line| line == none), "{}", counted.render());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_shown_with_how_long_its_caller_has_waited() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    let (actor, hold) = (counter().await, cluster.store.connect("a").hold_commits());
    let begun = tokio::time::Instant::now();
    let (registered, ()) = tokio::join!(node.register("x", &actor), async {
        until("its caller has waited", || begun.elapsed() >= Duration::from_secs(2)).await;
        drop(hold);
    });
    registered.unwrap();
    let of_calls = "callsign_registry_call_seconds_sum{registry=\"default\",call=\"register\"} ";
    let seconds = || -> Option<f64> {
        counted.render().lines().find_map(|line| line.strip_prefix(of_calls)?.parse().ok())
    };
    until("all of it is shown", || seconds().is_some_and(|seconds| seconds >= 2.0)).await;
}
