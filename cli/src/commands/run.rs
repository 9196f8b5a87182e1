//! `callsign run`: any program, on exactly one of the nodes where it is started.
//!
//! Each node takes part in an election by leases ([`LeaseOracle`]); who leads runs the program, under a guard
//! ([`crate::guard`]) that ends it when the lead is lost, whatever became of this process. The lease is given back only when
//! nobody is left of the program.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use callsign::{OpenError, SharedStore, open_store_patiently};
use callsign_election::{
    Campaign, CampaignSettings, CampaignStarted, Election, ElectionConfig, Fault, LeaseOptions, LeaseOracle,
    Lost, Policy, Timing,
    campaign::{CampaignEvent, CampaignEventKind, CampaignStartError, Release},
    lease::ElectionError,
};
use callsign_store::{
    Clock,
    ids::{ClusterName, ElectionName, MemberId},
};
use tokio::sync::{mpsc, watch};

use crate::{
    commands::demo::shared_store,
    duration,
    guard::{Ended, Owner},
    lease, logging,
    output::{LossyLines, tell},
    program::{Ends, OnExit, Plan, Say, can_be_run, grace, hand_on, nobody_is_left, own_name, status_of},
    reply, runtime, service,
    usage::{Usage, exit_status},
};

mod release;
mod role;

use release::AfterTheProgram;
use role::{Program, Seat};

/// How long to wait before a store that does not answer is tried again.
const START_AGAIN: Duration = Duration::from_secs(1);

/// Nodes that wait and hear of a free lease claim it within this time. Longer: it is idle for longer; shorter: more of them
/// claim it at once, of which one gets it. There are few.
const SPREAD: Duration = Duration::from_millis(20);

/// Arguments of `callsign run`.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct Args {
    /// What there is one of. Nodes that name the same one, in the same cluster and store, take turns.
    #[arg(long)]
    singleton: String,
    /// The store that all nodes share: `sqlite:PATH` on one machine, `postgres://USER@HOST/DATABASE` or `etcd://HOST/PREFIX` on several.
    /// Default: a file of this user, for this machine.
    #[arg(long, env = "CALLSIGN_STORE", hide_env_values = true, value_parser = shared_store)]
    store: Option<String>,
    /// The cluster. Singletons of different clusters have nothing to do with each other.
    #[arg(long, default_value = "default")]
    cluster: String,
    /// This node's name among those that take part; no other process may have it. Default: the host's name and some
    /// random digits.
    #[arg(long, visible_alias = "node")]
    member: Option<String>,
    /// How long a node leads without a word to the store. When it is killed, another takes over after this and a poll.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    lease: Duration,
    /// Take a lease below 1 s, or below 20 times the median of five commits at the start, which are refused otherwise.
    #[arg(long)]
    lease_anyway: bool,
    /// How often a node that waits looks at the store; up to half of it is added at random. Default: a fifth of the lease.
    #[arg(long, value_parser = duration::parse)]
    poll: Option<Duration>,
    /// How long the program may take to stop: asked by SIGTERM, killed before it is over. Default: a fifth of the lease.
    #[arg(long, value_parser = duration::parse)]
    stop_budget: Option<Duration>,
    /// What to do when the program ends by itself, whatever its exit status.
    #[arg(long, value_enum, default_value_t = OnExit::Restart)]
    on_exit: OnExit,
    #[command(flatten)]
    log: logging::LogArgs,
    /// The program and its arguments. It has no standard input, and stays in the foreground.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

const EXIT_STATUS: &str = "\
The program finds CALLSIGN_SINGLETON, CALLSIGN_MEMBER, CALLSIGN_EPOCH (its fencing token: greater for each new leader) and
CALLSIGN_BALLOT in its environment.

SIGTERM, SIGINT: the program is ended, then the lease is given back. A second one: the program is killed at once.
SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH are handed on to the program. SIGPIPE, SIGALRM, SIGQUIT do nothing.

Exit status: 0 stopped by a signal, the lease is given back, or had ended before; 1 failed; 2 wrong usage, nothing was started;
3 stopped, but whether the lease was given back is not known (others take over when it ends). With --on-exit stop: the program's
own, or 128 + its signal.";

/// Runs the command. Whatever it says, nobody has to listen.
pub(crate) fn run(args: &Args) -> ExitCode {
    let Ok((lines, _written)) = LossyLines::to(std::io::stderr()) else {
        tell("callsign run: no thread can be started to write with");
        return ExitCode::FAILURE;
    };
    let say = Say::new(format!("callsign run {}", args.singleton), lines.clone());
    let result = Candidacy::new(args).map_err(anyhow::Error::from).and_then(|part| {
        // What the campaign warns of is said in words.
        logging::begin(&args.log, "warn,callsign::election=error", &lines, false)?;
        runtime::run(Some(2), take_part(args, part, say.clone()))
    });
    result.unwrap_or_else(|error| {
        say.line(format_args!("{error:#}"));
        exit_status(&error).into()
    })
}

/// Who takes part, in what, and how: all that can be wrong with it was found.
struct Candidacy {
    cluster: ClusterName,
    singleton: ElectionName,
    member: MemberId,
    timing: Timing,
    /// What was asked for, and goes for any lease.
    poll: Option<Duration>,
    stop_budget: Option<Duration>,
    store: String,
    lease_anyway: bool,
}

/// The durations for a lease; those that were asked for are as they were asked for.
fn timing(lease: Duration, poll: Option<Duration>, stop_budget: Option<Duration>) -> Result<Timing, Usage> {
    let usual = Timing::for_lease(lease);
    let poll = poll.unwrap_or(usual.poll);
    let timing = Timing {
        poll,
        jitter: poll / 2,
        stop_budget: stop_budget.unwrap_or(usual.stop_budget),
        spread: usual.spread.min(SPREAD),
        ..usual
    };
    timing
        .validate()
        .map_err(|why| Usage(format!("{why}; give a longer --lease, or a shorter --stop-budget")))?;
    Ok(timing)
}

impl Candidacy {
    fn new(args: &Args) -> Result<Self, Usage> {
        let named = |what: &str, why: &dyn std::fmt::Display| Usage(format!("{what}: {why}"));
        let cluster = ClusterName::new(&args.cluster).map_err(|why| named("--cluster", &why))?;
        let singleton = ElectionName::new(&args.singleton).map_err(|why| named("--singleton", &why))?;
        let member = args.member.clone().unwrap_or_else(own_name);
        let member = MemberId::new(member).map_err(|why| named("--member", &why))?;
        if !args.lease_anyway {
            lease::is_sensible(args.lease)?;
        }
        let (poll, stop_budget) = (args.poll, args.stop_budget);
        let timing = timing(args.lease, poll, stop_budget)?;
        let program = args.command.first().map(OsString::as_os_str).unwrap_or_default();
        can_be_run(program)?;
        let store = match &args.store {
            Some(store) => store.clone(),
            None => own_store()?,
        };
        let lease_anyway = args.lease_anyway;
        Ok(Self { cluster, singleton, member, timing, poll, stop_budget, store, lease_anyway })
    }
}

/// A file that all processes of this user find.
fn own_store() -> Result<String, Usage> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let why = "give --store: there is no home directory to keep a file in";
    let directory = state.or_else(home).ok_or_else(|| Usage(why.to_owned()))?.join("callsign");
    let told = |error| Usage(format!("give --store: {} cannot be created: {error}", directory.display()));
    std::fs::create_dir_all(&directory).map_err(told)?;
    Ok(format!("sqlite:{}", directory.join("run.db").display()))
}

async fn take_part(args: &Args, mut part: Candidacy, say: Say) -> Result<ExitCode> {
    let mut signals = Ends::new()?;
    let handed_on = hand_on(&say)?;
    let (hurry, hurried) = watch::channel(false);
    let store = tokio::select! {
        biased;
        store = agree(&mut part, &say) => store?,
        signal = signals.next() => {
            say.line(format_args!("{signal}: nothing was started"));
            return Ok(ExitCode::SUCCESS);
        }
    };
    let plan = Arc::new(Plan {
        of: Owner::Run,
        command: args.command.clone(),
        grace: grace(part.timing.stop_budget),
        say: say.clone(),
        hurry: hurried,
        handed_on,
    });
    let (over, mut is_over) = mpsc::unbounded_channel();
    let campaign = tokio::select! {
        biased;
        campaign = begin(&part, &plan, args.on_exit, store, over) => campaign?,
        signal = signals.next() => {
            say.line(format_args!("{signal}: nothing was started"));
            return Ok(ExitCode::SUCCESS);
        }
    };
    service::is_ready(&format!("takes part as {}", part.member));
    tokio::spawn(service::lives(Vec::new()));
    let ended = tokio::select! {
        biased;
        signal = signals.next() => {
            say.line(format_args!("{signal}: stops"));
            service::is_stopping();
            None
        }
        ended = is_over.recv() => ended,
        end = campaign.ended() => {
            let end = end.context("the election has ended by itself")?;
            anyhow::bail!("the election has ended by itself: {}", end.why);
        }
    };
    let mut stopping = std::pin::pin!(campaign.stop());
    let stopped = loop {
        tokio::select! {
            biased;
            stopped = &mut stopping => break stopped,
            signal = signals.next() => {
                say.line(format_args!("{signal} again: the program is killed"));
                hurry.send_replace(true);
            }
        }
    };
    match (stopped, ended) {
        (Ok(()), None) => {
            // A lease that was over before is nobody's concern any more; a process that is left is.
            if let Err(cause) = nobody_is_left().await {
                say.line(cause);
                return Ok(reply::Verdict::Unknown.exit_status().into());
            }
            match campaign.ended().await.map(|end| end.release) {
                Ok(Release::NotHeld) | Err(_) => say.line("stopped: the program did not run here"),
                Ok(Release::Expired(_) | Release::WasGone) => {
                    say.line("stopped: nothing of the program is left, and the lease had ended before");
                }
                Ok(_) => say.line("stopped: nothing of the program is left, and the lease is given back"),
            }
            Ok(ExitCode::SUCCESS)
        }
        (Err(error), None) => {
            say.line(error);
            Ok(reply::Verdict::Unknown.exit_status().into())
        }
        (stopped, Some(ended)) => {
            if let Err(error) = stopped {
                say.line(error);
            }
            Ok(status_of(ended))
        }
    }
}

fn config(lease: Duration) -> ElectionConfig {
    ElectionConfig::new(Policy::sticky(), lease)
}

/// Opens the store, and takes the lease that the nodes of this singleton have agreed on: the first one's. It is in the
/// store, and by it a former node is waited for; with another one, a node could not use what it is granted.
async fn agree(part: &mut Candidacy, say: &Say) -> Result<SharedStore> {
    let store = open(&part.store, say).await?;
    let election = Election::new(store.clone(), &part.cluster, &part.singleton, Clock::boot());
    loop {
        let found = match election.config().await {
            // The first node writes it.
            Err(ElectionError::NotInitialized) => return Ok(store),
            found => found.map_err(Fault::from),
        };
        match found {
            Ok(found) => {
                let (agreed, asked) = (found.lease, part.timing.lease);
                if agreed != asked {
                    say.line(format_args!(
                        "this singleton has a lease of {agreed:?}: --lease {asked:?} does not count"
                    ));
                    part.timing = timing(agreed, part.poll, part.stop_budget)?;
                }
                return Ok(store);
            }
            Err(fault @ Fault::Transient { .. }) => {
                say.line(format_args!("{fault}; tries again"));
                tokio::time::sleep(START_AGAIN).await;
            }
            Err(fault) => return Err(fault.into()),
        }
    }
}

/// Takes part, as soon as the store lets it.
async fn begin(
    part: &Candidacy,
    plan: &Arc<Plan>,
    on_exit: OnExit,
    store: SharedStore,
    over: mpsc::UnboundedSender<Ended>,
) -> Result<Campaign<AfterTheProgram<LeaseOracle>>> {
    let lease = part.timing.lease;
    if !part.lease_anyway {
        lease::suits(&store, part.member.as_str(), lease).await?;
    }
    plan.say.line(format_args!(
        "takes part as {} over {}; a lease of {lease:?}, the program has {:?} to stop",
        part.member,
        store.describe(),
        part.timing.stop_budget,
    ));
    loop {
        let options = LeaseOptions { config: Some(config(lease)), ..LeaseOptions::default() };
        let oracle = AfterTheProgram(LeaseOracle::new(store.clone(), &part.cluster, options));
        let mut settings =
            CampaignSettings::new(part.singleton.clone(), part.member.clone()).with_timing(part.timing);
        settings.observer = Some(observer(plan.say.clone()));
        let (plan, over) = (Arc::clone(plan), over.clone());
        let say = plan.say.clone();
        let (singleton, member) = (part.singleton.clone(), part.member.clone());
        let started = Campaign::start_with(oracle, settings, move |leadership| {
            Program::new(plan, on_exit, Seat { leadership, singleton, member }, over)
        });
        match started.await {
            Ok(CampaignStarted::Running(campaign)) => return Ok(campaign),
            Ok(CampaignStarted::Ignored) => anyhow::bail!("there is no such election"),
            Err(CampaignStartError::Oracle(fault @ Fault::Transient { .. })) => {
                say.line(format_args!("{fault}; tries again"));
                tokio::time::sleep(START_AGAIN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn open(url: &str, say: &Say) -> Result<SharedStore, OpenError> {
    let waits = |error: &_| say.line(format_args!("{error}; tries again, once a second"));
    open_store_patiently(url, &Clock::boot(), None, waits).await
}

/// Says what of the election people should know. The rest is in the log.
fn observer(say: Say) -> callsign_election::campaign::Observer {
    let (is_silent, is_told) = (AtomicBool::new(false), AtomicBool::new(false));
    Arc::new(move |event: &CampaignEvent| match &event.what {
        CampaignEventKind::UnknownOutcome { fault } => {
            let left = event.trust_left;
            let cause = fault.cause();
            if is_silent.swap(true, Relaxed) {
                return;
            }
            if left.is_zero() {
                say.line(format_args!("the store does not answer: {cause}; asks again"));
            } else {
                say.line(format_args!(
                    "the store does not answer: {cause}; leads for another {left:.1?} at most"
                ));
            }
        }
        CampaignEventKind::Claimed | CampaignEventKind::Rejected { .. } | CampaignEventKind::Refreshed
            if is_silent.swap(false, Relaxed) =>
        {
            say.line("the store answers again");
        }
        CampaignEventKind::DuplicateIdentity if !is_told.swap(true, Relaxed) => say.line(format_args!(
            "another process takes part as {}, or did until a moment ago: waits (give each its own --member)",
            event.member
        )),
        CampaignEventKind::ResignFailed { fault } => {
            say.line(format_args!("the lease was not given back: {fault}"));
        }
        CampaignEventKind::Lost { why } => say.line(format_args!("leads no more: {}", lost_in_words(*why))),
        CampaignEventKind::RoleAborted { .. } => say.line("the program did not end in time: killed"),
        _ => {}
    })
}

fn lost_in_words(why: Lost) -> &'static str {
    match why {
        Lost::Denied => "the store says that its term is over",
        Lost::TrustLapsed => "it did not refresh its lease in time",
        Lost::ResignRequested => "it was asked to resign",
        Lost::Shutdown => "it stops",
        Lost::RoleFailed => "the program does not run here",
        _ => "its term is over",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use callsign_election::Refusal;
    use callsign_store::ids::Incarnation;

    use super::*;

    fn event(what: CampaignEventKind, trust_left: Duration) -> CampaignEvent {
        let (election, member) = (ElectionName::new("x").unwrap(), MemberId::new("a").unwrap());
        let mut event = CampaignEvent::new(election, member, Incarnation(1), what);
        event.trust_left = trust_left;
        event
    }

    /// What people read of these events.
    fn said(events: &[CampaignEvent]) -> Vec<String> {
        let (mut read, write) = pipe().unwrap();
        let (lines, writing) = LossyLines::to(&write).unwrap();
        drop(write);
        let observe = observer(Say::new("run".to_owned(), lines));
        for event in events {
            observe(event);
        }
        drop(writing);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn that_the_store_does_not_answer_is_said_once_until_it_does_again() {
        let unknown = |left| {
            let fault = Fault::Transient { maybe_committed: true, cause: "busy".to_owned() };
            event(CampaignEventKind::UnknownOutcome { fault }, left)
        };
        let answered = |what| event(what, Duration::ZERO);
        let said = said(&[
            answered(CampaignEventKind::Refreshed),
            unknown(Duration::ZERO),
            unknown(Duration::ZERO),
            answered(CampaignEventKind::Refreshed),
            answered(CampaignEventKind::Refreshed),
            unknown(Duration::from_secs(2)),
            answered(CampaignEventKind::Claimed),
            unknown(Duration::ZERO),
            answered(CampaignEventKind::Rejected { why: Refusal::Held }),
        ]);
        let asks = "run: the store does not answer: busy; asks again";
        let leads = "run: the store does not answer: busy; leads for another 2.0s at most";
        let again = "run: the store answers again";
        assert_eq!(said, [asks, again, leads, again, asks, again]);
    }

    #[test]
    fn another_process_of_that_name_is_said_once_and_the_end_of_a_term_each_time() {
        let lost = |why| CampaignEventKind::Lost { why };
        let events = [
            CampaignEventKind::DuplicateIdentity,
            lost(Lost::Denied),
            CampaignEventKind::DuplicateIdentity,
            lost(Lost::TrustLapsed),
            lost(Lost::ResignRequested),
            lost(Lost::Shutdown),
            lost(Lost::RoleFailed),
            CampaignEventKind::ResignFailed { fault: Fault::Fatal("it is read-only".to_owned()) },
            CampaignEventKind::RoleAborted { took: Duration::ZERO },
            CampaignEventKind::Resigned { was_there: true },
        ];
        let said = said(&events.map(|what| event(what, Duration::ZERO)));
        assert_eq!(
            said,
            [
                "run: another process takes part as a, or did until a moment ago: waits \
                 (give each its own --member)",
                "run: leads no more: the store says that its term is over",
                "run: leads no more: it did not refresh its lease in time",
                "run: leads no more: it was asked to resign",
                "run: leads no more: it stops",
                "run: leads no more: the program does not run here",
                "run: the lease was not given back: the oracle cannot decide: it is read-only",
                "run: the program did not end in time: killed",
            ]
        );
    }

    #[test]
    fn the_durations_are_those_of_the_lease_but_for_those_that_were_asked_for() {
        let ms = Duration::from_millis;
        let usual = timing(ms(10_000), None, None).unwrap();
        assert_eq!((usual.lease, usual.poll, usual.jitter), (ms(10_000), ms(2000), ms(1000)));
        assert_eq!((usual.stop_budget, usual.spread), (ms(2000), ms(20)));
        let asked = timing(ms(10_000), Some(ms(500)), Some(ms(1200))).unwrap();
        assert_eq!((asked.poll, asked.jitter, asked.stop_budget), (ms(500), ms(250), ms(1200)));
        assert_eq!(timing(ms(200), None, None).unwrap().spread, ms(10));
        let wrong = timing(ms(10_000), None, Some(ms(9000))).unwrap_err().to_string();
        assert!(wrong.ends_with("give a longer --lease, or a shorter --stop-budget"), "{wrong}");
    }
}
