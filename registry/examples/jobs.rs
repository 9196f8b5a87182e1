//! Jobs that run on one of three nodes each, and move with their count when their node drains. A page says how far they are.
//!
//! `cargo run --example jobs` runs three nodes in one process, and ends by itself. In an application each is a process of its own.

#![allow(clippy::disallowed_methods)] // it waits by the clock

use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::BTreeSet, error::Error, net::SocketAddr, sync::Arc, sync::OnceLock, time::Duration};

use axum::{Router, extract::State, http::StatusCode, response::Html, routing::get};
use callsign::{
    Config, Entry, Meta, Name, Received, Receiving, Registration, Registry, Select, StartOptions, Started,
    TakeOptions, Taken, WatchEvent, WhenTaken, admin, open_store,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call_t};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

const STEP_TIMEOUT: Duration = Duration::from_secs(20);
const JOBS: [&str; 4] = ["job/invoices", "job/mails", "job/reports", "job/thumbnails"];

/// What a job takes.
#[callsign::message("example.job/1")]
enum Job {
    /// Do a step.
    Step,
    /// The job moves, and does no step more here: how many were done?
    Save(RpcReplyPort<u64>),
}

/// What a job and its holder share.
#[derive(Default)]
struct Progress {
    actor: OnceLock<ActorRef<Job>>,
    /// Nothing is done before the name is the job's.
    held: OnceLock<Registration>,
    done: AtomicU64,
}

struct Worker(Arc<Progress>);

impl Actor for Worker {
    type Msg = Job;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, me: ActorRef<Job>, (): ()) -> Result<(), ActorProcessingErr> {
        me.send_interval(Duration::from_millis(20), || Job::Step);
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Job>, job: Job, (): &mut ()) -> Result<(), ActorProcessingErr> {
        match job {
            Job::Save(reply) => reply.send(self.0.done.load(Ordering::Relaxed))?,
            Job::Step => {
                // Before each act that must not be done twice.
                let Some(held) = self.0.held.get().filter(|held| held.check().is_ok()) else { return Ok(()) };
                let done = self.0.done.fetch_add(1, Ordering::Relaxed) + 1;
                if done.is_multiple_of(10) {
                    // In a task: a change waits while the name moves, and the move waits for what this actor saves.
                    tokio::spawn(says(held.clone(), done));
                }
            }
        }
        Ok(())
    }
}

/// Writes how far a job has come where everybody reads it. What cannot be written now is written with later steps.
async fn says(held: Registration, done: u64) {
    let Ok(meta) = Meta::new(&done) else { return };
    _ = held.update(None, Some(meta)).await;
}

async fn spawn(progress: &Arc<Progress>) -> Result<ActorRef<Job>, ActorProcessingErr> {
    let (actor, _) = Actor::spawn(None, Worker(progress.clone()), ()).await?;
    Ok(progress.actor.get_or_init(|| actor).clone())
}

/// The job goes to another node if that asks for it, and is offered to others when its node drains. It goes with its count.
fn offers(progress: &Arc<Progress>) -> WhenTaken {
    let progress = progress.clone();
    WhenTaken::offer(move |_to| {
        let actor = progress.actor.get().cloned();
        async move { Ok(call_t!(actor.ok_or("it has not begun")?, Job::Save, 1000)?.to_be_bytes().to_vec()) }
    })
}

/// Has a job run: here, if it does not run anywhere yet.
async fn start(node: &Registry, name: &str) -> Result<(), Box<dyn Error>> {
    let progress = Arc::<Progress>::default();
    let options = StartOptions::default().meta(Meta::new(&0_u64)?).when_taken(offers(&progress));
    let spawns = progress.clone();
    let started = node.start_with(name, options, |_| async move { spawn(&spawns).await });
    if let Started::Ours(held) = started.await? {
        println!("{name} was started on {}", node.node());
        _ = progress.held.set(held);
    }
    Ok(())
}

/// Takes the jobs of nodes that drain, and goes on with them.
fn receive(node: &Registry) -> Receiving {
    node.receive(|_| async {
        let progress = Arc::<Progress>::default();
        let options = TakeOptions::default().when_taken(offers(&progress));
        Ok(Received::new(spawn(&progress).await?, |taken| resume(progress, taken)).options(options))
    })
}

async fn resume(progress: Arc<Progress>, taken: Taken) -> Result<(), ActorProcessingErr> {
    let done = u64::from_be_bytes(taken.data[..].try_into()?);
    progress.done.store(done, Ordering::Relaxed);
    _ = progress.held.set(taken.registration.clone());
    says(taken.registration, done).await;
    Ok(())
}

/// How far a job has come, as it said last.
fn done(job: &Entry) -> u64 {
    job.meta().ok().flatten().unwrap_or_default()
}

/// A table of all jobs, as this node knows them.
async fn page(State(node): State<Registry>) -> Result<Html<String>, StatusCode> {
    let found = node.select(&Select::prefix("job/")).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let row = |(name, job): &(Name, Entry)| format!("<tr><td>{name}<td>{}<td>{}", job.node(), done(job));
    Ok(Html(format!("<table>{}</table>", found.names.iter().map(row).collect::<String>())))
}

/// Whether this node may be sent work.
async fn health(State(node): State<Registry>) -> Result<&'static str, (StatusCode, String)> {
    node.ready(Duration::ZERO).await.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    Ok("ready")
}

/// What an HTTP server answers.
async fn fetch(at: SocketAddr, path: &str) -> Result<String, Box<dyn Error>> {
    let (mut stream, mut answer) = (tokio::net::TcpStream::connect(at).await?, String::new());
    stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: {at}\r\n\r\n").as_bytes()).await?;
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Waits until each job was as it should be, as this node heard. None may be free meanwhile.
async fn until(node: &Registry, is_so: impl Fn(&Entry) -> bool) -> Result<(), Box<dyn Error>> {
    let (mut events, deadline) = (node.watch(Select::prefix("job/"))?, Instant::now() + STEP_TIMEOUT);
    let mut met = BTreeSet::new();
    while met.len() < JOBS.len() {
        let (name, entry) = match timeout_at(deadline, events.next()).await?.ok_or("the watch has ended")? {
            WatchEvent::Present { name, entry } => (name, entry),
            WatchEvent::Change(change) => (change.name.clone(), change.now.clone().ok_or("a job is free")?),
            _ => continue,
        };
        met.extend(is_so(&entry).then_some(name));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = open_store("memory:")?;
    let join = async |name| {
        let node = Registry::join(Config::new(name, store.clone())).await?;
        node.ready(STEP_TIMEOUT).await?;
        Ok::<_, Box<dyn Error>>(node)
    };
    let (a, b, c) = (join("a").await?, join("b").await?, join("c").await?);
    let _receiving = [&a, &b, &c].map(receive);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let site = Router::new().route("/", get(page)).route("/health", get(health)).with_state(c.clone());
    // The whole cluster in a browser, for people on this machine.
    let site = site.nest("/callsign", admin::router(&c)).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, site).into_future());
    println!("the page is http://{at}/, and the cluster is at http://{at}/callsign");

    // Every node starts every job; each of them runs once.
    for job in JOBS {
        for node in [&a, &b, &c] {
            start(node, job).await?;
        }
    }
    until(&c, |job| done(job) >= 10).await?;
    println!("{}", fetch(at, "/").await?);

    println!("a drains: {:?}", a.drain().await);
    until(&c, |job| job.node().as_str() != "a" && done(job) >= 10).await?;
    a.leave().await?;
    until(&c, |job| done(job) >= 30).await?;
    println!("{}", fetch(at, "/").await?);
    println!("{}", fetch(at, "/health").await?);
    println!("{}", fetch(at, "/callsign/entries?prefix=job/").await?);

    b.leave().await?;
    Ok(c.leave().await?)
}
