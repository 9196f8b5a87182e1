//! `callsign hold`: any program holds a name while it runs.
//!
//! The command is a node of its own. It registers the name, and runs the program under a guard ([`crate::guard`]) while the name
//! is held. The guard ends the program before the name can be another's, whatever became of this process.

use std::{ffi::OsString, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Result;
use callsign::{Meta, NodeName, Registry, SessionTiming, check_name};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    address,
    commands::ask::{ADDRESS, each_once, field},
    duration, echo,
    guard::Owner,
    joining::{self, JoinArgs},
    logging,
    output::{LossyLines, tell},
    program::{Ends, Plan, Say, can_be_run, grace, hand_on, nobody_is_left, own_name},
    reply::Verdict,
    runtime, service,
    usage::{Usage, exit_status},
};

mod holder;
mod holding;

use holder::{End, Holder};

/// Arguments of `callsign hold`.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct Args {
    /// The name.
    name: String,
    /// What the name says of itself, as FIELD=VALUE. May be given several times.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field)]
    meta: Vec<(String, String)>,
    /// Where the program can be reached. `whereis` shows it, and nobody looks at it before: it is the metadata's field `address`.
    #[arg(long, value_name = "HOST:PORT", value_parser = address::parse)]
    address: Option<String>,
    /// Wait for the name while another one holds it. Without it, the command ends with status 1 then.
    #[arg(long)]
    wait: bool,
    /// This node's name; no other live node may have it. Default: the host's name and some random digits.
    #[arg(long, visible_alias = "node")]
    member: Option<String>,
    /// The registry.
    #[arg(long, default_value = "default")]
    registry: String,
    #[command(flatten)]
    joining: JoinArgs,
    /// How long the program may take to stop: asked by SIGTERM, killed before it is over. Default: a fifth of the lease.
    #[arg(long, value_parser = duration::parse)]
    stop_budget: Option<Duration>,
    #[command(flatten)]
    log: logging::LogArgs,
    /// The program and its arguments. It has no standard input, and stays in the foreground.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

const EXIT_STATUS: &str = "\
The program finds CALLSIGN_NAME, CALLSIGN_TOKEN (the fencing token of the name: greater for each new holder) and CALLSIGN_MEMBER in
its environment. When it ends, the name is given up, and the command ends with its exit status, or 128 + its signal.

When the node cannot renew its session in time, the program is ended, and started again once the name is held again.

SIGTERM, SIGINT: the program is ended, then the name is given up. A second one: the program is killed at once.
SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH are handed on to the program. At SIGHUP the secrets are read again, too.

Exit status: 0 stopped by a signal, the name is given up; 1 another one holds the name, or failed; 2 wrong usage, nothing was
started; 3 stopped, but whether the name was given up is not known (it is free when the session has ended).";

/// Runs the command. Whatever it says, nobody has to listen.
pub(crate) fn run(args: &Args) -> ExitCode {
    let Ok((lines, _written)) = LossyLines::to(std::io::stderr()) else {
        tell("callsign hold: no thread can be started to write with");
        return ExitCode::FAILURE;
    };
    let say = Say::new(format!("callsign hold {}", args.name), lines.clone());
    let result = Wanted::new(args).map_err(anyhow::Error::from).and_then(|wanted| {
        logging::begin(&args.log, "warn", &lines, false)?;
        runtime::run(Some(2), hold(args, &wanted, &say))
    });
    result.unwrap_or_else(|error| {
        say.line(format_args!("{error:#}"));
        exit_status(&error).into()
    })
}

/// What is wanted: all that can be wrong with it was found.
struct Wanted {
    node: String,
    meta: Option<Meta>,
    stop_budget: Duration,
}

impl Wanted {
    fn new(args: &Args) -> Result<Self, Usage> {
        let named = |what: &str, why: &dyn std::fmt::Display| Usage(format!("{what}: {why}"));
        check_name(&args.name).map_err(|why| named("NAME", &why))?;
        let node = args.member.clone().unwrap_or_else(own_name);
        NodeName::new(&node).map_err(|why| named("--member", &why))?;
        args.joining.check()?;
        let meta = said(&args.meta, args.address.as_deref())?;
        let stop_budget = stop_budget(&args.joining.session_timing(), args.stop_budget)?;
        let program = args.command.first().map(OsString::as_os_str).unwrap_or_default();
        can_be_run(program)?;
        Ok(Self { node, meta, stop_budget })
    }
}

/// What the name says of itself.
fn said(fields: &[(String, String)], address: Option<&str>) -> Result<Option<Meta>, Usage> {
    let fields = fields.iter().map(|(field, value)| (field.as_str(), value.as_str()));
    let said = each_once(fields.chain(address.map(|address| (ADDRESS, address))))?;
    if said.is_empty() { Ok(None) } else { Meta::new(&said).map(Some).map_err(Usage::because) }
}

/// The time that the program has to stop. It is taken off the time for which a session is trusted, which has to have room for it
/// and for the beats that renew it.
fn stop_budget(timing: &SessionTiming, asked: Option<Duration>) -> Result<Duration, Usage> {
    let budget = asked.unwrap_or(timing.lease / 5);
    let most = timing.trust_window().saturating_sub(timing.beat_every * 2);
    if budget > most {
        let lease = timing.lease;
        return Err(Usage(format!(
            "a lease of {lease:?} has room for {most:?} to stop in, not for {budget:?}; give a longer --lease, or a shorter \
             --stop-budget"
        )));
    }
    Ok(budget)
}

async fn hold(args: &Args, wanted: &Wanted, say: &Say) -> Result<ExitCode> {
    let mut signals = Ends::new()?;
    let handed_on = hand_on(say)?;
    let hang_up = signal(SignalKind::hangup())?;
    let (hurry, hurried) = watch::channel(false);
    let keys = args.joining.keys.read().map_err(|error| Usage(format!("{error:#}")))?;
    let join = async {
        let store = args.joining.open(&wanted.node).await?;
        let config = args.joining.config(&wanted.node, store, &args.registry, keys.clone());
        Registry::join(config).await.map_err(joining::usage)
    };
    let registry = tokio::select! {
        biased;
        registry = join => registry?,
        signal = signals.next() => {
            say.line(format_args!("{signal}: nothing was started"));
            return Ok(ExitCode::SUCCESS);
        }
    };
    tokio::spawn(args.joining.keys.clone().keep(keys, registry.clone(), hang_up));
    tokio::spawn(service::lives(vec![registry.clone()]));
    let plan = Plan {
        of: Owner::Hold,
        command: args.command.clone(),
        grace: grace(wanted.stop_budget),
        say: say.clone(),
        hurry: hurried,
        handed_on,
    };
    let actor = echo::spawn(&wanted.node).await?;
    let mut holder = Holder {
        args,
        wanted,
        plan: Arc::new(plan),
        registry: registry.clone(),
        actor,
        told: Arc::default(),
        hurry,
    };
    let end = holder.until_the_end(&mut signals).await;
    service::is_stopping();
    // The name is another's only when nobody is left of the program.
    if let Err(cause) = nobody_is_left().await {
        say.line(format_args!("{cause}; the name is free when the session has ended"));
        return Ok(Verdict::Unknown.exit_status().into());
    }
    let end = end?;
    let given_up = tokio::select! {
        biased;
        given_up = give_up(&registry, &args.name, matches!(end, End::Taken)) => given_up,
        signal = signals.next() => Err(anyhow::anyhow!("{signal} again")),
    };
    match (end, given_up) {
        (End::Told, Ok(())) => {
            say.line("stopped: nothing of the program is left, and the name is given up");
            Ok(ExitCode::SUCCESS)
        }
        (End::Program(status), given_up) => {
            if let Err(error) = given_up {
                say.line(format_args!("{error:#}; the name is free when the session has ended"));
            }
            Ok(status)
        }
        (End::Told | End::Node, Err(error)) => {
            say.line(format_args!("stopped: {error:#}; the name is free when the session has ended"));
            Ok(Verdict::Unknown.exit_status().into())
        }
        (End::Taken, _) | (End::Node, Ok(())) => Ok(ExitCode::FAILURE),
    }
}

/// Gives the name up, and has the node leave.
async fn give_up(registry: &Registry, name: &str, is_taken: bool) -> Result<()> {
    if !is_taken {
        // At once, and not when the node has found another one to lead. What comes of it does not matter: who leaves frees all.
        let _ = registry.unregister(name).await;
    }
    Ok(registry.leave().await?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_a_name_says_of_itself_has_each_field_once() {
        let fields = [("zone".to_owned(), "eu".to_owned())];
        let meta = said(&fields, Some("db:5432")).unwrap().unwrap();
        let read: BTreeMap<String, String> = meta.read().unwrap();
        let expected = [("address", "db:5432"), ("zone", "eu")].map(|(f, v)| (f.to_owned(), v.to_owned()));
        assert_eq!(read, expected.into());
        assert!(said(&[], None).unwrap().is_none());
        let twice = [("address".to_owned(), "x:1".to_owned())];
        assert!(said(&twice, Some("db:5432")).unwrap_err().to_string().contains("address twice"));
        let large = [("text".to_owned(), "x".repeat(5000))];
        assert!(said(&large, None).is_err());
    }

    #[test]
    fn a_session_has_room_for_the_program_to_stop_in_and_for_two_beats() {
        let timing = SessionTiming::for_lease(Duration::from_secs(10));
        assert_eq!(stop_budget(&timing, None), Ok(Duration::from_secs(2)));
        // Trusted for 9.49 s, and renewed every 2 s.
        assert!(stop_budget(&timing, Some(Duration::from_millis(5490))).is_ok());
        let refused = stop_budget(&timing, Some(Duration::from_millis(5491))).unwrap_err().to_string();
        assert!(refused.contains("5.49s"), "{refused}");
    }
}
