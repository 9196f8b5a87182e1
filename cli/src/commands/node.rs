//! `callsign node`: one node, until it is told to leave. Its HTTP routes are listed in [`crate::admin`].

use std::{
    collections::BTreeMap, io::IsTerminal, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use callsign::{Config, Keys, Registry, SessionTiming};
use serde_json::json;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tracing_subscriber::EnvFilter;

use crate::{
    admin::{self, Door},
    duration, echo,
    hosted::Hosted,
    keys::KeyFiles,
    metrics,
    token::Token,
};

/// How long the last answers may take after the node has left.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The exit status of a command that was given what makes no sense.
const WRONG_USAGE: u8 = 2;

/// Arguments of `callsign node`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The node's name: stable, and no other live node's.
    #[arg(long)]
    name: String,
    /// Where the cluster keeps what it agrees on: `sqlite:PATH`, `postgres://USER@HOST/DATABASE` or `fdb:CLUSTER_FILE`.
    #[arg(long)]
    store: String,
    /// The cluster. Nodes of different clusters refuse each other.
    #[arg(long, default_value = "default")]
    cluster: String,
    /// A registry to join. May be given several times; the first is the one meant when none is named.
    #[arg(long, default_value = "default")]
    registry: Vec<String>,
    /// Where to listen for other nodes. Anything but a loopback address needs a secret or certificates.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where other nodes reach this one, host:port. Default: where it listens.
    #[arg(long)]
    advertise: Option<String>,
    #[command(flatten)]
    keys: KeyFiles,
    /// 0: this node never leads.
    #[arg(long, default_value_t = 1)]
    priority: u32,
    /// How long the node may be silent before the others free its names.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    lease: Duration,
    /// How long to wait for the session of a former node of this name to end. Default: the lease and half of it.
    #[arg(long, value_parser = duration::parse)]
    join_timeout: Option<Duration>,
    /// How long to wait, when told to leave, for another node to serve in this one's place.
    #[arg(long, default_value = "5s", value_parser = duration::parse)]
    drain_timeout: Duration,
    /// What calls that write do while the store is gone: wait, or fail at once.
    #[arg(long, value_enum, default_value_t = OnOutage::Wait)]
    on_outage: OnOutage,
    /// Where to answer HTTP. Who can reach it can do everything: anything but a loopback address needs a token, which
    /// travels in the clear.
    #[arg(long, default_value = "127.0.0.1:0")]
    admin: SocketAddr,
    /// A file with the token that who asks over HTTP has to present: 16 to 1024 visible characters. Default: none.
    #[arg(long)]
    admin_token_file: Option<PathBuf>,
    /// Record what the node does in this directory, for `callsign-sim check-recordings`. Grows without a bound.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Print the line that says where the node can be reached as JSON.
    #[arg(long)]
    print_json: bool,
    /// What to log to standard error, such as `info` or `callsign=debug`. Default: the environment's `RUST_LOG`, or info.
    #[arg(long)]
    log: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OnOutage {
    Wait,
    Fail,
}

impl From<OnOutage> for callsign::OnOutage {
    fn from(on_outage: OnOutage) -> Self {
        match on_outage {
            OnOutage::Wait => Self::Wait,
            OnOutage::Fail => Self::Fail,
        }
    }
}

/// Who is let in. Refuses an address that others can reach and nothing to know them by.
fn door(args: &Args) -> Result<Door> {
    let token = args.admin_token_file.as_deref().map(Token::read).transpose()?;
    if token.is_none() && !args.admin.ip().to_canonical().is_loopback() {
        bail!(
            "{} is not a loopback address: who can reach the admin endpoint can do everything, so it needs \
             --admin-token-file",
            args.admin.ip()
        );
    }
    Ok(Door { token })
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    log_to_stderr(args.log.as_deref())?;
    let door = match door(args) {
        Ok(door) => door,
        Err(error) => {
            eprintln!("callsign: {error:#}");
            return Ok(WRONG_USAGE.into());
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(args, door));
    // What still runs has nothing to say any more.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

fn log_to_stderr(directives: Option<&str>) -> Result<()> {
    let given = directives.map(str::to_owned).or_else(|| std::env::var("RUST_LOG").ok());
    let filter = EnvFilter::try_new(given.as_deref().unwrap_or("info")).context("--log or RUST_LOG")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

fn config(args: &Args, registry: &str, keys: Keys) -> Config {
    let mut config = Config::new(&args.name, args.store.as_str())
        .cluster(&args.cluster)
        .registry(registry)
        .listen(args.listen)
        .priority(args.priority)
        .session_timing(SessionTiming::for_lease(args.lease))
        .on_outage(args.on_outage.into())
        .drain_timeout(args.drain_timeout)
        .join_timeout(args.join_timeout.unwrap_or(args.lease + args.lease / 2));
    if let Some(advertise) = &args.advertise {
        config = config.advertise(advertise);
    }
    if let Some(directory) = &args.record {
        config = config.record(directory);
    }
    config = config.secrets(keys.secrets);
    if let Some(tls) = keys.tls {
        config = config.tls(tls);
    }
    config
}

async fn join(args: &Args, keys: Keys) -> Result<Hosted> {
    let Some((first, others)) = args.registry.split_first() else { bail!("no registry to join") };
    let registry = Registry::join(config(args, first, keys)).await?;
    let mut registries = BTreeMap::new();
    for other in others {
        registries.insert(other.clone(), registry.join_beside(other).await?);
    }
    registries.insert(first.clone(), registry);
    let shared = echo::spawn(&args.name).await?;
    Ok(Hosted::new(args.name.clone(), registries, first.clone(), shared))
}

async fn serve(args: &Args, door: Door) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(args.admin).await;
    let listener = listener.with_context(|| format!("cannot listen on {} for HTTP", args.admin))?;
    let admin = listener.local_addr()?;
    // Before anything that counts.
    let metrics = metrics::install()?;

    // Not the end of the process from here on, also before there is anything to be read again.
    let hang_up = signal(SignalKind::hangup())?;
    let keys = args.keys.read()?;
    let hosted = tokio::select! {
        hosted = join(args, keys.clone()) => Arc::new(hosted?),
        // Whatever of the session was opened is proven dead with this process.
        _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
        _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
    };
    let registry =
        hosted.registry(None).map_err(|_| anyhow::anyhow!("the first registry is missing"))?.clone();
    let kept = tokio::spawn(args.keys.clone().keep(keys, registry.clone(), hang_up));
    say_ready(args, admin, &registry);

    let (left, leaving) = watch::channel(false);
    let mut has_left = leaving.clone();
    let routes = admin::routes(hosted, left.clone(), door, metrics);
    let served = tokio::spawn(admin::serve(listener, routes, admin::Limits::default(), leaving));
    let mut is_told = async || {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let result = tokio::select! {
        _ = has_left.wait_for(|left| *left) => Ok(()),
        signal = is_told() => {
            tracing::info!(signal, "leaves");
            tokio::select! {
                result = registry.leave() => result,
                signal = is_told() => bail!(
                    "{signal} again: ends at once. The others free this node's names when its session is found closed, \
                     after its lease at the latest"
                ),
            }
        }
    };
    kept.abort();
    left.send_replace(true);
    if tokio::time::timeout(LAST_ANSWERS, served).await.is_err() {
        tracing::debug!("some answers were not fetched");
    }
    result.context("the node has left, but not in good order")?;
    Ok(ExitCode::SUCCESS)
}

fn say_ready(args: &Args, admin: SocketAddr, registry: &Registry) {
    let (pid, listen) = (std::process::id(), registry.local_addr());
    if args.print_json {
        let ready = json!({
            "node": registry.node(), "incarnation": registry.incarnation(), "pid": pid,
            "admin": format!("http://{admin}"), "listen": listen.to_string(),
            "cluster": args.cluster, "registries": args.registry,
        });
        println!("{ready}");
    } else {
        println!("node {} (pid {pid}): ask it at http://{admin}, linked at {listen}", registry.node());
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn opens(admin: &str, token: Option<&str>) -> Result<bool> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("token");
        let mut words = vec!["node", "--name", "a", "--store", "memory:", "--admin", admin];
        if let Some(token) = token {
            std::fs::write(&file, token)?;
            words.extend(["--admin-token-file", file.to_str().context("a path")?]);
        }
        Ok(door(&Cli::try_parse_from(words)?.args)?.token.is_some())
    }

    #[test]
    fn without_a_token_the_admin_endpoint_takes_loopback_addresses_only() {
        for admin in ["127.0.0.1:0", "[::1]:8080"] {
            assert!(!opens(admin, None).unwrap(), "{admin}");
        }
        for admin in ["0.0.0.0:80", "192.168.1.1:80", "[::]:80", "[::ffff:10.0.0.1]:80"] {
            let refused = opens(admin, None).unwrap_err().to_string();
            assert!(refused.contains("--admin-token-file"), "{refused}");
            assert!(opens(admin, Some("0123456789abcdef")).unwrap(), "{admin}");
            assert!(opens(admin, Some("short")).is_err(), "{admin}");
        }
        for admin in ["localhost", "", "80"] {
            assert!(opens(admin, Some("0123456789abcdef")).is_err(), "{admin}");
        }
    }
}
