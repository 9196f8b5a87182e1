//! How a command's node joins its cluster: the options that `node` and `hold` share.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Result;
use callsign::{
    Config, JOIN_TIMEOUT, JoinError, Keys, SessionTiming, SharedStore, StartError, in_full,
    open_store_patiently,
};
use callsign_store::{
    Clock,
    examine::{Finding, Verdict},
    ids::NodeName,
};

use crate::{address, duration, keys::KeyFiles, lease, usage::Usage};

/// Where the cluster is, and what this node is in it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JoinArgs {
    /// Where the cluster keeps what it agrees on: `sqlite:PATH`, `postgres://USER@HOST/DATABASE`, `etcd://HOST/PREFIX` or `fdb:CLUSTER_FILE`.
    #[arg(long, env = "CALLSIGN_STORE", hide_env_values = true)]
    store: String,
    /// The cluster. Nodes of different clusters refuse each other.
    #[arg(long, default_value = "default")]
    pub(crate) cluster: String,
    /// Where to listen for other nodes. Anything but a loopback address needs a secret or certificates.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where other nodes reach this one. The host may be a name. Default: where it listens.
    #[arg(long, value_name = "HOST:PORT", value_parser = address::parse)]
    advertise: Option<String>,
    #[command(flatten)]
    pub(crate) keys: KeyFiles,
    /// 0: this node never leads.
    #[arg(long, default_value_t = 1)]
    priority: u32,
    /// How long the node may be silent before the others free its names.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    pub(crate) lease: Duration,
    /// Take a lease below 1 s, or below 20 times the median of five commits at the start, which are refused otherwise.
    #[arg(long)]
    lease_anyway: bool,
    /// How long to wait at most until the store can be reached, and then for the node's session. Default: 15 s for each, and for a
    /// former node of this name that is silent as long as the lease that it had asks.
    #[arg(long, value_parser = duration::parse)]
    join_timeout: Option<Duration>,
    /// How long to wait, when told to leave, for another node to serve in this one's place.
    #[arg(long, default_value = "5s", value_parser = duration::parse)]
    drain_timeout: Duration,
    /// What calls that write do while the store is gone: wait, or fail at once.
    #[arg(long, value_enum, default_value_t = OnOutage::Wait)]
    on_outage: OnOutage,
    /// Record what the node does in this directory, for `callsign-sim check-recordings`. Grows without a bound.
    #[arg(long)]
    record: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
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

impl JoinArgs {
    /// The durations of the node's session.
    pub(crate) fn session_timing(&self) -> SessionTiming {
        SessionTiming::for_lease(self.lease)
    }

    /// Where others reach what listens at this address: of an address that is none, by the host that the node advertises, or at which it
    /// listens for others. `None`: the node does not know.
    pub(crate) fn advertised(&self, listens: SocketAddr) -> Option<String> {
        if !listens.ip().to_canonical().is_unspecified() {
            return Some(listens.to_string());
        }
        let port = listens.port();
        if let Some(advertise) = &self.advertise {
            let (host, _) = advertise.rsplit_once(':')?;
            return Some(format!("{host}:{port}"));
        }
        let ip = self.listen.ip();
        (!ip.to_canonical().is_unspecified()).then(|| SocketAddr::new(ip, port).to_string())
    }

    /// Refuses a lease that is too short for any store.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        if self.lease_anyway { Ok(()) } else { lease::is_sensible(self.lease) }
    }

    /// Opens the store, for which it waits, and sees whether the lease is long enough for it.
    pub(crate) async fn open(&self, node: &str) -> Result<SharedStore> {
        let patience = self.join_timeout.unwrap_or(JOIN_TIMEOUT);
        let waits = |error: &callsign::OpenError| {
            tracing::warn!("{}; it is tried again for {patience:?}", in_full(error));
        };
        let opened = open_store_patiently(&self.store, &Clock::boot(), Some(patience), waits).await;
        let store = opened.map_err(|error| usage(error.into()))?;
        // A name that is none is refused by whoever joins.
        if !self.lease_anyway && NodeName::new(node).is_ok() {
            lease::suits(&store, node, self.lease).await?;
        }
        Ok(store)
    }

    /// How a node of this name joins this registry.
    pub(crate) fn config(&self, node: &str, store: SharedStore, registry: &str, keys: Keys) -> Config {
        let mut config = Config::new(node, store)
            .cluster(&self.cluster)
            .registry(registry)
            .listen(self.listen)
            .priority(self.priority)
            .session_timing(self.session_timing())
            .on_outage(self.on_outage.into())
            .drain_timeout(self.drain_timeout)
            .secrets(keys.secrets);
        if let Some(timeout) = self.join_timeout {
            config = config.join_timeout(timeout);
        }
        if let Some(advertise) = &self.advertise {
            config = config.advertise(advertise);
        }
        if let Some(directory) = &self.record {
            config = config.record(directory);
        }
        if let Some(tls) = keys.tls {
            config = config.tls(tls);
        }
        config
    }
}

/// Whether a node was not started for what it was started with, and nothing else.
pub(crate) fn usage(error: JoinError) -> anyhow::Error {
    let is_usage = match &error {
        JoinError::BadName(_) | JoinError::Timing(_) | JoinError::AlreadyJoined { .. } => true,
        JoinError::Store(error) => Finding::from(error).verdict == Verdict::Usage,
        JoinError::Transport(error) => match error {
            StartError::Listen { source, .. } => is_no_address_here(source),
            StartError::NodeServer { .. } => false,
            _ => true,
        },
        _ => false,
    };
    if is_usage { Usage::because(in_full(&error)).into() } else { error.into() }
}

/// Whether that is what the system says of an address that no interface has.
pub(crate) fn is_no_address_here(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::AddrNotAvailable
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn args(words: &[&'static str]) -> JoinArgs {
        let command = JoinArgs::augment_args(clap::Command::new("node"));
        let words = [&["node", "--store", "memory:"], words].concat();
        JoinArgs::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn an_address_that_is_none_is_given_to_nobody() {
        let advertised =
            |listens: &str, words: &[&'static str]| args(words).advertised(listens.parse().unwrap());
        let by = ["--advertise", "pod-1.callsign:7000"];
        assert_eq!(advertised("10.0.0.1:7077", &by).as_deref(), Some("10.0.0.1:7077"));
        for nowhere in ["0.0.0.0:7077", "[::]:7077", "[::ffff:0.0.0.0]:7077"] {
            assert_eq!(advertised(nowhere, &by).as_deref(), Some("pod-1.callsign:7077"), "{nowhere}");
            assert_eq!(advertised(nowhere, &[]).as_deref(), Some("127.0.0.1:7077"), "{nowhere}");
            assert_eq!(advertised(nowhere, &["--listen", "0.0.0.0:7000"]), None, "{nowhere}");
            let listen = ["--listen", "[fe80::1]:7000"];
            assert_eq!(advertised(nowhere, &listen).as_deref(), Some("[fe80::1]:7077"), "{nowhere}");
        }
        let six = advertised("[::]:7077", &["--advertise", "[::1]:7000"]);
        assert_eq!(six.as_deref(), Some("[::1]:7077"));
    }

    #[test]
    fn where_nobody_could_be_reached_is_wrong_usage() {
        for wrong in ["nonsense", ":7000", "pod-1:", "pod-1:http", "pod-1:0"] {
            let command = JoinArgs::augment_args(clap::Command::new("node"));
            let words = ["node", "--store", "memory:", "--advertise", wrong];
            let error = command.try_get_matches_from(words).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation, "{wrong}: {error}");
        }
    }

    #[test]
    fn a_node_joins_as_the_options_say() {
        let store = callsign::open_store("memory:").unwrap();
        let config = |words: &[&'static str]| {
            let config = args(words).config("a", store.clone(), "r", Keys::default());
            format!("{config:?}")
        };
        let of_node = config(&[
            "--cluster=shop",
            "--priority=7",
            "--advertise=pod-1:7000",
            "--join-timeout=3s",
            "--drain-timeout=4s",
            "--on-outage=fail",
            "--lease=20s",
            "--record=/var/recorded",
        ]);
        for part in [
            "cluster: \"shop\"",
            "registry: \"r\"",
            "priority: 7",
            "advertise: Some(\"pod-1:7000\")",
            "join_timeout: Some(3s)",
            "drain_timeout: 4s",
            "on_outage: Fail",
            "lease: 20s",
            "record: Some(\"/var/recorded\")",
        ] {
            assert!(of_node.contains(part), "{part}: {of_node}");
        }
        let by_default = config(&[]);
        for part in ["advertise: None", "join_timeout: None", "on_outage: Wait", "record: None"] {
            assert!(by_default.contains(part), "{part}: {by_default}");
        }
    }

    #[test]
    fn a_short_lease_is_taken_if_that_is_said() {
        assert!(args(&["--lease=900ms"]).check().is_err());
        assert!(args(&["--lease=900ms", "--lease-anyway"]).check().is_ok());
        assert!(args(&["--lease=1s"]).check().is_ok());
    }

    #[test]
    fn what_a_node_was_started_with_is_wrong_usage_and_what_it_met_is_not() {
        let is_usage = |error: JoinError| usage(error).is::<Usage>();
        let listen: SocketAddr = ([10, 0, 0, 1], 7000).into();
        let cannot_listen =
            |kind: std::io::ErrorKind| JoinError::from(StartError::Listen { listen, source: kind.into() });
        assert!(is_usage(JoinError::AlreadyJoined { registry: "r".to_owned() }));
        assert!(is_usage(NodeName::new("a/b").unwrap_err().into()));
        assert!(is_usage(callsign::open_store("mysql:there").err().unwrap().into()));
        assert!(is_usage(StartError::SecretNeeded { listen }.into()));
        assert!(is_usage(cannot_listen(std::io::ErrorKind::AddrNotAvailable)));
        assert!(!is_usage(cannot_listen(std::io::ErrorKind::AddrInUse)));
        assert!(!is_usage(JoinError::Left));
    }
}
