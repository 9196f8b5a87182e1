//! `callsign wipe`: removes a registry from the store. What goes, what stays, and in which order: [`callsign_elector::wipe`].

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use callsign::{Clock, SessionTiming, SharedStore};
use callsign_elector::{
    session::SessionConfig,
    wipe::{Found, Sweep, fence, forget, reads},
};
use callsign_store::{
    CommitOutcome, Transaction,
    examine::{self, Finding},
    ids::{Beat, ClusterName, Incarnation, NodeName, RegistryName},
    keys::{ClusterKeys, RegistryKeys},
    open_existing,
};
use serde_json::{Value, json};

use super::demo::shared_store;
use crate::{
    duration,
    measure::now_ns,
    output::{Work, answer, printable, tell},
    reply::Verdict,
};

/// The name under which sessions are observed. One at a time.
const OBSERVER: &str = "callsign-wipe";
/// Between two looks at the sessions of others.
const SESSION_INTERVAL: Duration = Duration::from_millis(200);
/// How often a commit that met somebody else's, or was not answered, is tried again with what is there then.
const COMMIT_ATTEMPTS: u32 = 20;

/// Arguments of `callsign wipe`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The store: `sqlite:PATH`, `postgres://USER@HOST/DATABASE`, `etcd://HOST/PREFIX` or `fdb:CLUSTER_FILE`.
    #[arg(long, env = "CALLSIGN_STORE", hide_env_values = true, value_parser = shared_store)]
    store: String,
    /// The cluster.
    #[arg(long, default_value = "default")]
    cluster: String,
    /// The registry that is removed, with all its names. There is no way back.
    #[arg(long)]
    registry: String,
    /// How long to wait for the sessions of members that died without proof. Default: twice the longest lease of them.
    #[arg(long, value_parser = duration::parse)]
    wait: Option<Duration>,
    /// Also while nodes of the registry live: their sessions are closed, which takes all names from them, in all registries.
    #[arg(long, conflicts_with = "forget_tokens")]
    force: bool,
    /// Forget the counters, too: fencing tokens begin again at 1. Only if nothing remembers one.
    #[arg(long)]
    forget_tokens: bool,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// Why nothing was removed, or not all.
struct Refused {
    verdict: Verdict,
    code: &'static str,
    message: String,
    facts: Value,
}

fn refused<T>(verdict: Verdict, code: &'static str, message: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { verdict, code, message: message.into(), facts: json!({}) })
}

/// What does not answer, and whatever else is not known.
impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        let message = format!("{error:#}; ask again: what was done is not done twice");
        Self { verdict: Verdict::Unknown, code: "unknown", message, facts: json!({}) }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> ExitCode {
    let (result, status) = match wipe(args) {
        Ok(done) => (done, 0),
        Err(Refused { verdict, code, message, facts }) => {
            if !args.json {
                tell(format_args!("callsign: {}", printable(&message)));
            }
            let mut body = facts;
            body["error"] = code.into();
            body["verdict"] = json!(verdict);
            body["message"] = message.into();
            (body, verdict.exit_status())
        }
    };
    if args.json {
        return answer(&format!("{result}\n"), Work::Changes, status);
    }
    if status == 0 {
        return answer(&in_words(args, &result), Work::Changes, status);
    }
    status.into()
}

/// What was removed, and what stays.
fn in_words(args: &Args, result: &Value) -> String {
    let kept = if args.forget_tokens {
        "nothing is left of it".to_owned()
    } else {
        format!(
            "epoch {} and position {} stay, so that tokens only grow",
            result["epoch"], result["position"]
        )
    };
    let count = |field: &str, one: &str| match result[field].as_u64() {
        Some(1) => format!("1 {one}"),
        _ => format!("{} {one}s", result[field]),
    };
    let (members, logged) = (count("members", "member"), count("logged", "position"));
    format!("{} is removed: {members}, {logged} of its log; {kept}\n", args.registry)
}

fn wipe(args: &Args) -> Result<Value, Refused> {
    // Clap refuses what is typed so, and not what a file of options adds.
    if args.force && args.forget_tokens {
        let why = "--force and --forget-tokens do not go together: who lives may remember a token";
        return refused(Verdict::Usage, "usage", why);
    }
    let names =
        || -> Result<_> { Ok((ClusterName::new(&args.cluster)?, RegistryName::new(&args.registry)?)) };
    let (cluster, registry) = match names() {
        Ok(names) => names,
        Err(error) => return refused(Verdict::Usage, "bad_name", error.to_string()),
    };
    let keys = ClusterKeys::new(&cluster).registry(&registry);
    let store = open_existing(&args.store).map_err(|error| {
        let Finding { verdict, said, .. } = (&error).into();
        let (verdict, code) = match verdict {
            examine::Verdict::Usage => (Verdict::Usage, "bad_store"),
            examine::Verdict::No => (Verdict::No, "bad_store"),
            _ => (Verdict::Unknown, "store_unavailable"),
        };
        Refused { verdict, code, message: said, facts: json!({}) }
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("no runtime")?;
    let wipe = Wipe { store, keys, cluster, args };
    runtime.block_on(wipe.run())
}

/// What came of one step.
#[derive(PartialEq, Eq)]
enum Step {
    Done,
    /// There was nothing to do.
    Nothing,
}

struct Wipe<'a> {
    store: SharedStore,
    keys: RegistryKeys,
    cluster: ClusterName,
    args: &'a Args,
}

impl Wipe<'_> {
    async fn look(&self) -> Result<Found> {
        // Whose sessions have to be read is seen in what was read.
        let mut nodes = BTreeSet::new();
        for _ in 0..COMMIT_ATTEMPTS {
            let read = self.store.read(reads(&self.keys, &nodes)).await.context("the store was not read")?;
            let found = Found::new(&self.keys, &nodes, &read);
            match found.lacks() {
                Some(lacks) => nodes.extend(lacks.iter().cloned()),
                None => return Ok(found),
            }
        }
        Err(anyhow!("nodes join it all the time"))
    }

    async fn run(&self) -> Result<Value, Refused> {
        let first = self.look().await?;
        if !first.exists() {
            let message =
                format!("there is no registry {} in cluster {}", self.args.registry, self.args.cluster);
            return refused(Verdict::No, "no_such_registry", message);
        }
        if !first.open().is_empty() && !self.args.force {
            self.outlive().await?;
        }
        let closed: Vec<_> = first.open().keys().map(|node| node.as_str().to_owned()).collect();
        let step = |found: &Found| {
            if found.is_fenced() {
                return Ok(None);
            }
            self.judge(found).map(|()| Some(fence(&self.keys, found)))
        };
        self.once(step).await?;
        let (epoch, position) = self.look().await?.counters();
        let sweep = Sweep::new(&self.keys, position.next());
        while self.once(|found| Ok(sweep.next(found))).await? == Step::Done {}
        if self.args.forget_tokens {
            let last = |found: &Found| {
                if !found.exists() {
                    return Ok(None);
                }
                if found.is_fenced() {
                    return Ok(Some(forget(&self.keys, found)));
                }
                refused(Verdict::No, "in_use", "somebody has come to it meanwhile: its tokens stay")
            };
            self.once(last).await?;
        }
        Ok(json!({
            "registry": self.args.registry, "cluster": self.args.cluster, "members": first.members(),
            "queued": first.queued(), "logged": first.logged(), "epoch": epoch, "position": position,
            "closed": if self.args.force { closed } else { Vec::new() }, "forgotten": self.args.forget_tokens,
        }))
    }

    /// What stands against the fence.
    fn judge(&self, found: &Found) -> Result<(), Refused> {
        if let Some(what) = found.counters_unread().first()
            && !self.args.forget_tokens
        {
            let message = format!("{what}: what cannot be read cannot be kept; --forget-tokens removes it");
            return refused(Verdict::No, "corrupt", message);
        }
        if self.args.force {
            return Ok(());
        }
        if let Some(what) = found.others_unread().first() {
            let message = format!("{what}: nobody knows whether that node lives; --force takes it for dead");
            return refused(Verdict::No, "corrupt", message);
        }
        if found.open().is_empty() {
            Ok(())
        } else {
            Err(in_use(found.open().keys(), ["has", "have"], "come to it meanwhile"))
        }
    }

    /// Does one thing, once; tries again, by what is there then, what met somebody else's, or was not answered.
    async fn once(
        &self,
        next: impl Fn(&Found) -> Result<Option<Transaction>, Refused>,
    ) -> Result<Step, Refused> {
        let mut failed = 0;
        loop {
            let found = self.look().await?;
            let Some(transaction) = next(&found)? else { return Ok(Step::Nothing) };
            let why = match self.store.commit(transaction).await {
                CommitOutcome::Committed(_) => return Ok(Step::Done),
                CommitOutcome::Conflict => "others write to it all the time".to_owned(),
                CommitOutcome::Unknown => "the store does not say what became of a commit".to_owned(),
                CommitOutcome::Unavailable(why) => why,
                CommitOutcome::TooLarge(what) => return refused(Verdict::No, "too_large", what.to_string()),
            };
            failed += 1;
            if failed >= COMMIT_ATTEMPTS {
                return Err(anyhow!(why).context("not all was removed").into());
            }
            tokio::time::sleep(SESSION_INTERVAL).await;
        }
    }

    /// Waits until the sessions of all members are closed, as every node would: by observing them, and by closing those that are
    /// silent for their lease, or proven dead. Refuses as soon as one is seen to live.
    async fn outlive(&self) -> Result<(), Refused> {
        let found = self.look().await?;
        let leases = || found.open().values().map(|record| record.lease);
        let (Some(longest), Some(shortest)) = (leases().max(), leases().min()) else { return Ok(()) };
        let first: BTreeMap<NodeName, (Incarnation, Beat)> = found
            .open()
            .iter()
            .map(|(node, record)| (node.clone(), (record.incarnation, record.beat)))
            .collect();
        let config = SessionConfig {
            cluster: self.cluster.clone(),
            node: NodeName::new(OBSERVER).context("a good name")?,
            incarnation: Incarnation(now_ns() | 1),
            // So that it looks often enough for the shortest of them.
            timing: SessionTiming::for_lease(shortest),
            seed: now_ns(),
        };
        let wait = self.args.wait.unwrap_or(longest * 2 + SESSION_INTERVAL * 10);
        let nodes: Vec<_> = found.open().keys().map(NodeName::as_str).collect();
        let nodes = agreeing(&nodes, ["has an open session", "have open sessions"]);
        tell(format_args!("waiting for at most {wait:?}: {nodes}"));
        let observer = callsign::observe(self.store.clone(), Clock::boot(), config, shortest * 2);
        let observer = observer.await.context("the sessions cannot be observed")?;
        let watched = async {
            loop {
                let found = self.look().await?;
                let lives = found
                    .open()
                    .iter()
                    .filter(|(node, record)| first.get(*node) != Some(&(record.incarnation, record.beat)));
                let lives: Vec<_> = lives.map(|(node, _)| node).collect();
                if !lives.is_empty() {
                    return Err(in_use(lives, ["is", "are"], "alive: stop all nodes first, or use --force"));
                }
                if found.open().is_empty() {
                    return Ok(());
                }
                tokio::time::sleep(SESSION_INTERVAL).await;
            }
        };
        let outlived = tokio::time::timeout(wait, watched).await;
        // If it cannot leave, others close its session after its lease.
        let _ = observer.leave().await;
        outlived.unwrap_or_else(|_| {
            let what = "silent, and not known to be dead: wait longer";
            Err(in_use(found.open().keys(), ["is", "are"], what))
        })
    }
}

/// Nodes with what is said of them, of one or of several: `a is`, `a, b and c are`.
fn agreeing(nodes: &[&str], [one, several]: [&str; 2]) -> String {
    match nodes.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last} {several}", others.join(", ")),
        _ => format!("{} {one}", nodes.concat()),
    }
}

/// `verb` is what is said of one, and of several.
fn in_use<'a>(nodes: impl IntoIterator<Item = &'a NodeName>, verb: [&str; 2], what: &str) -> Refused {
    let nodes: Vec<_> = nodes.into_iter().map(NodeName::as_str).collect();
    let message = format!("nothing was removed: {} {what}", agreeing(&nodes, verb));
    Refused { verdict: Verdict::No, code: "in_use", message, facts: json!({ "nodes": nodes }) }
}

#[cfg(test)]
mod tests;
