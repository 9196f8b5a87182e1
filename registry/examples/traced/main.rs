//! One trace over two nodes: the caller, the leader that commits, and the actor that is called.
//!
//! `cargo run --example traced` runs both nodes in one process, with a collector of OpenTelemetry in memory, and shows the trace.
//! In an application each node is a process, and the exporter is one of the network.

use std::time::Duration;

use callsign::{Config, Registry, trace};
use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use propagator::OpenTelemetry;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call_t};
use tracing::{Instrument, info_span, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

mod propagator;

#[callsign::message("example.traced.pricing/1")]
enum Pricing {
    Ask(String, RpcReplyPort<u64>),
}

struct PricingActor;

impl Actor for PricingActor {
    type Msg = Pricing;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Pricing>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Pricing>,
        Pricing::Ask(what, reply): Pricing,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        // Its parent is the span in which the call came, so this is in the trace of the caller.
        let price = info_span!("find_price", what).in_scope(|| 240);
        let _ = reply.send(price);
        Ok(())
    }
}

/// Nothing of this is Callsign's, but for its target of spans and the last line.
fn traces() -> Result<(SdkTracerProvider, InMemorySpanExporter), Box<dyn std::error::Error>> {
    let collector = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(collector.clone()).build();
    let wanted =
        Targets::new().with_target(trace::SPANS, LevelFilter::DEBUG).with_target("traced", LevelFilter::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("traced"));
    tracing_subscriber::registry().with(layer.with_filter(wanted)).try_init()?;
    trace::install(OpenTelemetry)?;
    Ok((provider, collector))
}

/// What a customer wants of paris: it registers a name, which berlin commits, and asks an actor of berlin.
async fn check_out(paris: &Registry) -> Result<u64, Box<dyn std::error::Error>> {
    let (cart, _) = Actor::spawn(None, PricingActor, ()).await?;
    paris.register("cart/7", &cart).await?;
    let pricing: ActorRef<Pricing> = paris.whereis("pricing")?;
    Ok(call_t!(pricing, Pricing::Ask, 5000, "tea".to_owned())?)
}

/// Prints a span, and those below it.
fn show(spans: &[SpanData], parent: SpanId, depth: usize) {
    for span in spans.iter().filter(|span| span.parent_span_id == parent) {
        println!("{:depth$}{}", "", span.name);
        show(spans, span.span_context.span_id(), depth + 2);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (provider, collector) = traces()?;
    let directory = tempfile::tempdir()?;
    let store = format!("sqlite:{}", directory.path().join("cluster.db").display());
    // The first to join leads.
    let berlin = Registry::join(Config::new("berlin", store.as_str())).await?;
    berlin.ready(Duration::from_secs(10)).await?;
    let paris = Registry::join(Config::new("paris", store.as_str())).await?;
    paris.ready(Duration::from_secs(10)).await?;
    let (actor, _) = Actor::spawn(None, PricingActor, ()).await?;
    let held = berlin.register("pricing", &actor).await?;
    paris.wait_for(held.token(), Duration::from_secs(5)).await?;

    let price = check_out(&paris).instrument(info_span!("check_out")).await?;
    println!("paris asked berlin: tea costs {price}");

    // What is under way then ends, and so do its spans.
    paris.leave().await?;
    berlin.leave().await?;
    provider.force_flush()?;
    let all = collector.get_finished_spans()?;
    let root = all.iter().find(|span| span.name == "check_out").ok_or("the caller has no span")?;
    let trace = root.span_context.trace_id();
    let of_it: Vec<_> = all.iter().filter(|span| span.span_context.trace_id() == trace).cloned().collect();
    show(&of_it, SpanId::INVALID, 0);

    for (name, parent) in [
        ("register", "check_out"),
        ("commit", "register"),
        ("call", "check_out"),
        ("callee", "call"),
        ("find_price", "callee"),
    ] {
        let span = of_it.iter().find(|span| span.name == name).ok_or(format!("{name} is not in it"))?;
        let above = of_it.iter().find(|above| above.span_context.span_id() == span.parent_span_id);
        let above = above.map(|above| &*above.name);
        if above != Some(parent) {
            return Err(format!("{name} is below {above:?}, and not below {parent}").into());
        }
    }
    println!("one trace has {} spans: the caller, the leader's commit, and the actor", of_it.len());
    Ok(())
}
