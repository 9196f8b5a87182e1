//! `callsign doctor`: looks at a store, and says in words what is wrong with it.
//!
//! First from outside ([`examine`]), then by opening it as a node would, which makes what is missing, and trying what nodes do
//! there: reads, fenced commits, watches, proofs of death. All that is in a range of its own, which is removed again.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use callsign::{Permits, SharedStore, open_store};
use callsign_store::{
    CommitOutcome, Proof,
    examine::{Finding, Verdict, examine},
    ids::{Incarnation, NodeName},
};
use serde_json::json;

use crate::{
    directory::once_up,
    fenced::FencedCommits,
    keys::KeyFiles,
    measure::{as_us, now_ns, quantile},
    output::{Work, answer, printable},
    reply,
};

/// How many fenced commits are timed.
const COMMITS: u32 = 30;
/// A median above it is worth a warning: a lease of 10 s has room for it, its users have not.
const SLOW_COMMIT: Duration = Duration::from_millis(100);
/// A watch that takes so long ended by looking, which is done once a second, not by being told.
const NOT_TOLD: Duration = Duration::from_millis(600);
/// A certificate that is good for fewer days is worth a warning.
const EXPIRES_SOON: u64 = 7;
/// How long what was tried may take, all together.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `callsign doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The store: `sqlite:PATH`, `postgres://USER@HOST/DATABASE`, `etcd://HOST/PREFIX` or `fdb:CLUSTER_FILE`. It is made ready for nodes if it is not.
    #[arg(long, env = "CALLSIGN_STORE", hide_env_values = true)]
    store: String,
    #[command(flatten)]
    keys: KeyFiles,
    /// The node that the certificate has to be for.
    #[arg(long, requires = "tls_cert")]
    name: Option<String>,
    /// The cluster of the node.
    #[arg(long, default_value = "default")]
    cluster: String,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// What was found, in order.
#[derive(Default)]
struct DoctorReport {
    store: Option<String>,
    findings: Vec<Finding>,
    /// Of one fenced commit, in microseconds: the median, and the slowest.
    commit: Option<(f64, f64)>,
}

impl DoctorReport {
    fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn verdict(&self) -> Verdict {
        self.findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut report = DoctorReport::default();
    keys(args, &mut report);
    diagnose(&args.store, &mut report)?;
    let status = match report.verdict() {
        Verdict::Ok | Verdict::Warning => 0,
        Verdict::No => reply::Verdict::No.exit_status(),
        Verdict::Usage => reply::Verdict::Usage.exit_status(),
        Verdict::Unknown => reply::Verdict::Unknown.exit_status(),
    };
    let text = if args.json { format!("{}\n", as_json(&report)) } else { in_words(&report) };
    Ok(answer(&text, Work::Asks, status))
}

/// Looks at the files that a node would be started with, if any are given.
fn keys(args: &Args, report: &mut DoctorReport) {
    match args.keys.secrets() {
        Ok(secrets) if secrets.is_empty() => {}
        Ok(secrets) => {
            let said = match secrets.len() {
                1 => "a secret".to_owned(),
                count => format!("{count} secrets, of which the first is shown to others"),
            };
            report.push(Finding::new("secret", Verdict::Ok, said));
        }
        Err(error) => report.push(Finding::new("secret", Verdict::No, format!("{error:#}"))),
    }
    if !args.keys.has_certificates() {
        return;
    }
    let tls = match args.keys.tls() {
        Ok(Some(tls)) => tls,
        Ok(None) => return,
        Err(error) => return report.push(Finding::new("certificate", Verdict::No, format!("{error:#}"))),
    };
    if let Some(name) = &args.name
        && let Err(error) = tls.check_node(&args.cluster, name)
    {
        return report.push(
            Finding::new("certificate", Verdict::No, error.to_string())
                .advise("have it issued with that name as a URI among its subject alternative names"),
        );
    }
    let names = if tls.names().is_empty() { "no node".to_owned() } else { tls.names().join(", ") };
    let days = tls.expires_in().map(|left| left.as_secs() / 86_400);
    let of_node = args.name.as_ref().and_then(|name| tls.permits(&args.cluster, name));
    let permits = of_node.filter(|permits| *permits != Permits::default());
    let said = format!(
        "a certificate for {names}, good for {} days more{}",
        days.map_or("many".into(), |d| d.to_string()),
        permits.map_or(String::new(), |permits| format!("; {permits}")),
    );
    report.push(if tls.names().is_empty() {
        Finding::new("certificate", Verdict::No, said)
            .advise("it needs callsign://CLUSTER/NODE as a URI among its subject alternative names")
    } else if days.is_some_and(|days| days < EXPIRES_SOON) {
        Finding::new("certificate", Verdict::Warning, said)
            .advise("renew it: nodes take the new one without being started again")
    } else {
        Finding::new("certificate", Verdict::Ok, said)
    });
}

/// What is left of a database whose file is gone. Nodes may have it open, and whoever opens the path makes another one in its place.
fn left_behind(url: &str) -> Option<Finding> {
    let path = url.strip_prefix("sqlite:")?.split('?').next().filter(|path| !path.is_empty())?;
    if Path::new(path).exists() {
        return None;
    }
    let beside = |suffix: &str| PathBuf::from(format!("{path}{suffix}"));
    let (log, lives) = (beside("-wal"), beside("-lives"));
    let log = log.exists().then(|| log.display().to_string());
    let entries = std::fs::read_dir(&lives).map_or(0, Iterator::count);
    let lives = (entries > 0).then(|| format!("{} (entries: {entries})", lives.display()));
    let left: Vec<_> = [log, lives].into_iter().flatten().collect();
    if left.is_empty() {
        return None;
    }
    let left = left.join(", ");
    let said = format!("{path} is not there, and this is left of it: {left}; nodes may have it open");
    let advice =
        format!("end all nodes; then put the file back, or remove {path}-wal, -shm, -notify and -lives");
    Some(Finding::new("reach", Verdict::No, said).advise(advice))
}

fn diagnose(url: &str, report: &mut DoctorReport) -> Result<()> {
    if let Some(finding) = left_behind(url) {
        report.push(finding);
        return Ok(());
    }
    let found = examine(url);
    let is_final = found.iter().any(|finding| finding.verdict.is_final());
    report.findings.extend(found);
    if is_final {
        return Ok(());
    }
    let store = match open_store(url) {
        Ok(store) => store,
        Err(error) => {
            report.push((&error).into());
            return Ok(());
        }
    };
    report.store = Some(store.describe());
    if !report.findings.iter().any(|finding| finding.check == "reach") {
        report.push(Finding::new("reach", Verdict::Ok, format!("{} is open", store.describe())));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        if tokio::time::timeout(TRIAL_TIMEOUT, attempt(&store, report)).await.is_err() {
            let said = format!("what was tried was not done within {TRIAL_TIMEOUT:?}");
            report.push(Finding::new("commits", Verdict::Unknown, said));
        }
    });
    Ok(())
}

/// Tries what nodes do. Stops at the first thing that cannot be done.
async fn attempt(store: &SharedStore, report: &mut DoctorReport) {
    match once_up(|| store.read(vec![])).await {
        Ok(read) => {
            let said = format!("the store is at version {}", read.version.0);
            report.push(Finding::new("reads", Verdict::Ok, said));
        }
        Err(error) => return report.push(Finding::new("reads", Verdict::Unknown, error.to_string())),
    }
    let prefix = format!("callsign-doctor/{}-{}", std::process::id(), now_ns());
    let begin = || FencedCommits::begin(store.clone(), prefix.as_str());
    let mut commits = match once_up(begin).await {
        Ok(commits) => commits,
        Err(error) => return report.push(not_committed(&error)),
    };
    let tried = try_commits(store, &mut commits, report).await;
    let removed = commits.remove().await;
    if let Err(error) = tried {
        report.push(not_committed(&error));
    }
    report.push(match removed {
        Ok(()) => Finding::new("cleaned", Verdict::Ok, "what was written for this is removed again"),
        Err(error) => {
            let said = format!("what was written for this may be left, some kilobytes: {error}");
            Finding::new("cleaned", Verdict::Warning, said).advise("it does no harm")
        }
    });
    report.push(deaths(store).await);
}

fn not_committed(error: &anyhow::Error) -> Finding {
    Finding::new("commits", Verdict::Unknown, error.to_string())
        .advise("something holds up whoever writes: another process, a full disk, a lock; ask again")
}

async fn try_commits(
    store: &SharedStore,
    commits: &mut FencedCommits,
    report: &mut DoctorReport,
) -> Result<()> {
    let mut took = Vec::new();
    for _ in 0..COMMITS {
        let began = Instant::now();
        commits.commit().await?;
        took.push(as_us(began.elapsed()));
    }
    let median = quantile(&mut took, 0.5).unwrap_or_default();
    let slowest = quantile(&mut took, 1.0).unwrap_or_default();
    report.commit = Some((median, slowest));
    let said = format!("{COMMITS} fenced commits: median {median} us, slowest {slowest} us");
    report.push(if median > as_us(SLOW_COMMIT) {
        Finding::new("commits", Verdict::Warning, said + ": slow")
            .advise("no registration is faster than that; a longer lease makes room for it")
    } else {
        Finding::new("commits", Verdict::Ok, said)
    });
    report.push(match commits.commit_stale().await {
        CommitOutcome::Conflict => {
            Finding::new("fence", Verdict::Ok, "a commit that builds on something old is refused")
        }
        other => Finding::new(
            "fence",
            Verdict::No,
            format!("a commit that builds on something old was not refused: {other}"),
        )
        .advise("do not use this store"),
    });

    let began = Instant::now();
    let watch = store.watch(commits.key("commit"), commits.at());
    commits.commit().await?;
    report.push(match watch.await {
        Ok(()) if began.elapsed() > NOT_TOLD => {
            let said = format!("a change was noticed after {} us, by looking", as_us(began.elapsed()));
            Finding::new("watches", Verdict::Warning, said)
                .advise("nobody is told of changes: is there a pooler between, or no inotify left?")
        }
        Ok(()) => Finding::new(
            "watches",
            Verdict::Ok,
            format!("a change was told after {} us", as_us(began.elapsed())),
        ),
        Err(error) => Finding::new("watches", Verdict::Unknown, error.to_string()),
    });
    Ok(())
}

/// Whether a death can be proven.
async fn deaths(store: &SharedStore) -> Finding {
    let Ok(node) = NodeName::new("callsign-doctor") else {
        return Finding::new("deaths", Verdict::Unknown, "not asked");
    };
    let incarnation = Incarnation(now_ns());
    let guard = match store.guard_life(&node, incarnation) {
        Ok(Some(guard)) => guard,
        Ok(None) => {
            let said = "a death is not proven: the names of a killed node stay taken for its lease";
            return Finding::new("deaths", Verdict::Ok, said);
        }
        Err(error) => return Finding::new("deaths", Verdict::Unknown, error.to_string()),
    };
    let alive = store.proof_of_death(&node, incarnation).await;
    drop(guard);
    let dead = store.proof_of_death(&node, incarnation).await;
    match (alive, dead) {
        (Proof::None, Proof::Dead) => Finding::new(
            "deaths",
            Verdict::Ok,
            "a death is proven at once: the names of a killed node are free",
        ),
        (Proof::None, Proof::None) => {
            let said = "a death is not proven: the names of a killed node stay taken for its lease";
            Finding::new("deaths", Verdict::Warning, said).advise("the file system has no locks that hold")
        }
        (Proof::Dead, _) => Finding::new("deaths", Verdict::No, "a living process was proven dead")
            .advise("do not use this store: the locks of the file system do not hold"),
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Warning => "warning",
        Verdict::No => "no",
        Verdict::Unknown => "unknown",
        Verdict::Usage => "usage",
    }
}

fn as_json(report: &DoctorReport) -> serde_json::Value {
    let check = |finding: &Finding| {
        json!({
            "check": finding.check, "verdict": word(finding.verdict),
            "said": finding.said, "advice": finding.advice,
        })
    };
    let verdict = report.verdict();
    json!({
        "ok": !verdict.is_final(), "verdict": word(verdict), "store": report.store,
        "checks": report.findings.iter().map(check).collect::<Vec<_>>(),
        "commit_p50_us": report.commit.map(|commit| commit.0),
        "commit_max_us": report.commit.map(|commit| commit.1),
    })
}

fn in_words(report: &DoctorReport) -> String {
    use std::fmt::Write as _;

    let mut text = String::new();
    for Finding { check, verdict, said, advice } in &report.findings {
        let word = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "WARNING",
            Verdict::No | Verdict::Usage => "FAILED",
            Verdict::Unknown => "UNKNOWN",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{word:<8} {check:<12} {}", printable(said));
        if let Some(advice) = advice.as_ref().filter(|_| *verdict != Verdict::Ok) {
            let _ = writeln!(text, "{:<21} -> {}", "", printable(advice));
        }
    }
    text + match report.verdict() {
        Verdict::Ok => "All is well.\n",
        Verdict::Warning => "It works. Mind the warnings.\n",
        Verdict::No | Verdict::Usage => "It cannot be used so.\n",
        Verdict::Unknown => {
            "Nobody knows: something does not answer. Whatever comes after it was not tried.\n"
        }
    }
}

#[cfg(test)]
mod tests;
