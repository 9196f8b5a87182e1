//! `callsign node`: one node, until it is told to leave. Its HTTP routes are listed in [`crate::admin`].

use std::{
    io::{ErrorKind, IsTerminal},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use callsign::{
    Keys, Registry,
    admin::{AdminToken, Registries},
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    admin, echo,
    hosted::Hosted,
    joining::{JoinArgs, is_no_address_here, usage},
    logging, metrics,
    node_url::FIRST_PORT,
    output::{LossyLines, tell},
    reply::exact,
    runtime, service, token,
    usage::{Usage, exit_status},
};

/// How many ports are tried, one for each node of a machine.
const MOST_PORTS: usize = 256;
/// How long the last answers may take after the node has left.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Arguments of `callsign node`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The node's name: stable, and no other live node's.
    #[arg(long)]
    name: String,
    /// A registry to join. May be given several times; the first is the one meant when none is named.
    #[arg(long, default_value = "default")]
    registry: Vec<String>,
    #[command(flatten)]
    joining: JoinArgs,
    /// Where to answer HTTP. Who can reach it can do everything: anything but a loopback address needs a token, which
    /// travels in the clear. Default: 127.0.0.1:7077, or the next port that is free.
    #[arg(long)]
    admin: Option<SocketAddr>,
    /// A file with the token that who asks over HTTP has to present: 16 to 1024 visible characters. Default: none.
    #[arg(long)]
    admin_token_file: Option<PathBuf>,
    /// Print the line that says where the node can be reached as JSON.
    #[arg(long)]
    print_json: bool,
    #[command(flatten)]
    log: logging::LogArgs,
}

/// Who is let in. Refuses an address that others can reach and nothing to know them by.
fn access(args: &Args) -> Result<Option<AdminToken>, Usage> {
    let token = args.admin_token_file.as_deref().map(token::read).transpose();
    let token = token.map_err(|error| Usage(format!("{error:#}")))?;
    if let Some(admin) = args.admin.filter(|admin| !admin.ip().to_canonical().is_loopback())
        && token.is_none()
    {
        return Err(Usage(format!(
            "{} is not a loopback address: who can reach the admin endpoint can do everything, so it needs \
             --admin-token-file",
            admin.ip()
        )));
    }
    Ok(token)
}

/// Runs the command. Whatever it says, nobody has to listen.
pub(crate) fn run(args: &Args) -> ExitCode {
    let said = (LossyLines::to(std::io::stdout()), LossyLines::to(std::io::stderr()));
    let (Ok((out, _written)), Ok((log, _logged))) = said else {
        tell("callsign: no thread can be started to write with");
        return ExitCode::FAILURE;
    };
    node(args, &out, &log).unwrap_or_else(|error| {
        log.say(&format!("callsign: {error:#}\n"));
        exit_status(&error).into()
    })
}

fn node(args: &Args, out: &LossyLines, log: &LossyLines) -> Result<ExitCode> {
    logging::begin(&args.log, "info", log, std::io::stderr().is_terminal())?;
    let token = access(args)?;
    args.joining.check()?;
    runtime::run(None, serve(args, token, out, log))
}

async fn bind(admin: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(admin).await.map_err(|error| {
        let why = format!("cannot listen on {admin} for HTTP: {error}");
        if is_no_address_here(&error) { Usage(why).into() } else { anyhow::Error::msg(why) }
    })
}

/// The first of the ports for nodes of this machine that is free.
async fn bind_to_next() -> Result<TcpListener> {
    for port in (FIRST_PORT..).take(MOST_PORTS) {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            bound => return bound.with_context(|| format!("cannot listen on 127.0.0.1:{port} for HTTP")),
        }
    }
    bail!(
        "{MOST_PORTS} ports from 127.0.0.1:{FIRST_PORT} on are taken: say with --admin where to answer HTTP"
    )
}

async fn join(args: &Args, admin: SocketAddr, keys: Keys) -> Result<Hosted> {
    let Some((first, others)) = args.registry.split_first() else { bail!("no registry to join") };
    let store = args.joining.open(&args.name).await?;
    let mut config = args.joining.config(&args.name, store, first, keys);
    if let Some(admin) = args.joining.advertised(admin) {
        config = config.admin_address(format!("http://{admin}"));
    }
    let registry = Registry::join(config).await.map_err(usage)?;
    let mut registries = Registries::of(&registry);
    for other in others {
        registries = registries.beside(&registry.join_beside(other).await.map_err(usage)?);
    }
    let shared = echo::spawn(&args.name).await?;
    Ok(Hosted::new(args.name.clone(), registries, shared))
}

async fn serve(
    args: &Args,
    token: Option<AdminToken>,
    out: &LossyLines,
    log: &LossyLines,
) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = match args.admin {
        Some(admin) => bind(admin).await?,
        None => bind_to_next().await?,
    };
    let admin = listener.local_addr()?;
    // Before anything that counts.
    let metrics = metrics::install(log.clone())?;

    // Not the end of the process from here on, also before there is anything to be read again.
    let hang_up = signal(SignalKind::hangup())?;
    let keys = args.joining.keys.read().map_err(|error| Usage(format!("{error:#}")))?;
    let hosted = tokio::select! {
        biased;
        hosted = join(args, admin, keys.clone()) => Arc::new(hosted?),
        // Whatever of the session was opened is proven dead with this process.
        _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
        _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
    };
    let registry = hosted.registries.first().clone();
    tokio::spawn(args.joining.keys.clone().keep(keys, registry.clone(), hang_up));
    let registries = hosted.registries.iter().map(|(_, registry)| registry.clone());
    tokio::spawn(service::of_node([registry.clone()].into_iter().chain(registries).collect()));
    out.say(&ready_line(args, admin, &registry));

    let _receiving = hosted.receive();
    let (left, leaving) = watch::channel(false);
    let mut has_left = leaving.clone();
    let routes = admin::routes(hosted, left.clone(), token, metrics);
    let served = tokio::spawn(admin::serve(listener, routes, admin::Limits::default(), leaving));
    let mut is_told = async || {
        tokio::select! {
            biased;
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let result = tokio::select! {
        biased;
        // It says again how that went.
        _ = has_left.wait_for(|left| *left) => registry.leave().await,
        // Nothing of it goes on. The supervisor of this process starts another.
        _ = registry.failed() => registry.leave().await,
        signal = is_told() => {
            tracing::info!(signal, "this node leaves");
            service::is_stopping();
            tokio::select! {
                biased;
                result = registry.leave() => result,
                signal = is_told() => bail!(
                    "{signal} again: ends at once. The others free this node's names when its session is found closed, \
                     after its lease at the latest"
                ),
            }
        }
    };
    left.send_replace(true);
    if tokio::time::timeout(LAST_ANSWERS, served).await.is_err() {
        tracing::debug!("some answers were not fetched");
    }
    result.context("the node has left, but not in good order")?;
    Ok(ExitCode::SUCCESS)
}

fn ready_line(args: &Args, admin: SocketAddr, registry: &Registry) -> String {
    let (pid, listen) = (std::process::id(), registry.local_addr());
    if args.print_json {
        let ready = json!({
            "node": registry.node(), "incarnation": exact(registry.incarnation()), "pid": pid,
            "admin": format!("http://{admin}"), "listen": listen.to_string(),
            "cluster": args.joining.cluster, "registries": args.registry,
        });
        format!("{ready}\n")
    } else {
        format!("node {} (pid {pid}): ask it at http://{admin}, linked at {listen}\n", registry.node())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct NodeCli {
        #[command(flatten)]
        args: Args,
    }

    #[tokio::test]
    async fn nodes_of_one_machine_listen_at_ports_of_their_own_that_people_know() {
        let (one, other) = (bind_to_next().await.unwrap(), bind_to_next().await.unwrap());
        let [one, other] = [&one, &other].map(|bound| bound.local_addr().unwrap());
        for address in [one, other] {
            let nth = usize::from(address.port() - FIRST_PORT);
            assert!(address.ip() == Ipv4Addr::LOCALHOST && nth < MOST_PORTS, "{address}");
        }
        assert_ne!(one, other);
    }

    fn opens(admin: &str, token: Option<&str>) -> Result<bool> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("token");
        let mut words = vec!["node", "--name", "a", "--store", "memory:", "--admin", admin];
        if let Some(token) = token {
            std::fs::write(&file, token)?;
            words.extend(["--admin-token-file", file.to_str().context("a path")?]);
        }
        Ok(access(&NodeCli::try_parse_from(words)?.args)?.is_some())
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

    #[tokio::test]
    async fn an_address_that_no_interface_has_is_wrong_usage_and_one_that_is_taken_is_a_failure() {
        let taken = bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let failed = bind(taken.local_addr().unwrap()).await.unwrap_err();
        assert!(failed.to_string().contains("for HTTP"), "{failed}");
        assert_eq!(exit_status(&failed), 1, "{failed}");
        // Of the addresses for documentation.
        let wrong = bind(([192, 0, 2, 1], 0).into()).await.unwrap_err();
        assert_eq!(exit_status(&wrong), 2, "{wrong}");
    }
}
