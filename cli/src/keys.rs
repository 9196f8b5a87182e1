//! The secrets and certificates of a node, from files, and again when they change.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use callsign::{Keys, Registry, Secret, Tls};
use tokio::{
    signal::unix::Signal,
    time::{MissedTickBehavior, interval},
};

use crate::duration;

/// Where a node's secrets and certificates are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KeyFiles {
    /// A file with the cluster's secret, 16 to 1024 bytes, in a line. Several lines: the first is shown to other nodes, each is
    /// accepted from them. Default: the environment's `CALLSIGN_SECRET`, or none. Read again at SIGHUP.
    #[arg(long)]
    secret_file: Option<PathBuf>,
    /// A PEM file with this node's certificate, for `callsign://CLUSTER/NODE`, and those between it and its authority. Read
    /// again at SIGHUP, and when it changes.
    #[arg(long, requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the private key of the certificate.
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A PEM file with the certificates of the authorities whose nodes are believed.
    #[arg(long, requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// How often these three are looked at: whatever renews them need not tell the node.
    #[arg(long, default_value = "1m", value_parser = look)]
    tls_look: Duration,
}

fn look(text: &str) -> Result<Duration, String> {
    let every = duration::parse(text)?;
    if every.is_zero() { Err("all the time is too often".to_owned()) } else { Ok(every) }
}

impl KeyFiles {
    /// Reads everything.
    pub(crate) fn read(&self) -> Result<Keys> {
        Ok(Keys { secrets: self.secrets()?, tls: self.tls()? })
    }

    /// Whether there are certificates.
    pub(crate) fn has_certificates(&self) -> bool {
        [&self.tls_cert, &self.tls_key, &self.tls_ca].into_iter().any(Option::is_some)
    }

    /// Reads the secrets.
    pub(crate) fn secrets(&self) -> Result<Vec<Secret>> {
        let (bytes, place) = match &self.secret_file {
            Some(path) => {
                let read = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                (read, path.display().to_string())
            }
            None => match std::env::var_os("CALLSIGN_SECRET") {
                Some(secret) => (secret.into_encoded_bytes(), "CALLSIGN_SECRET".to_owned()),
                None => return Ok(vec![]),
            },
        };
        let secrets = Secret::from_lines(bytes).with_context(|| place.clone())?;
        // An empty file is no wish for a cluster without a secret.
        anyhow::ensure!(!secrets.is_empty(), "{place} has no secret in it");
        Ok(secrets)
    }

    /// Reads the certificate, its key and the authorities.
    pub(crate) fn tls(&self) -> Result<Option<Tls>> {
        let (certificate, key, authorities) = match (&self.tls_cert, &self.tls_key, &self.tls_ca) {
            (None, None, None) => return Ok(None),
            (Some(certificate), Some(key), Some(authorities)) => (certificate, key, authorities),
            // Clap asks for the others of what is typed, and not of what a file of options says.
            _ => bail!("--tls-cert, --tls-key and --tls-ca belong together: one of them is missing"),
        };
        let read = Tls::from_files(certificate, key, authorities);
        Ok(Some(read.with_context(|| format!("the certificate in {}", certificate.display()))?))
    }

    /// Gives the node what changes in the files, at each signal and now and then. What cannot be used is logged, and the former
    /// stays in force.
    pub(crate) async fn keep(self, mut current: Keys, registry: Registry, mut hang_up: Signal) {
        let mut look = interval(self.tls_look);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.tick().await; // the first comes at once
        let mut last_error = String::new();
        loop {
            let told = tokio::select! {
                biased;
                told = hang_up.recv() => told.is_some(),
                _ = look.tick() => false,
            };
            // An order of steps goes with secrets: they change when the operator says so.
            let read = if told { self.read() } else { self.tls().map(|tls| Keys { tls, ..current.clone() }) };
            match read.and_then(|keys| Ok((registry.set_keys(keys.clone())?, keys))) {
                Ok((changed, keys)) => {
                    if changed {
                        let names = keys.tls.iter().flat_map(Tls::names).collect::<Vec<_>>().join(", ");
                        tracing::info!(
                            secrets = keys.secrets.len(),
                            certificate = names,
                            "the keys have changed"
                        );
                    } else if told {
                        tracing::info!("the keys have not changed");
                    }
                    current = keys;
                    last_error.clear();
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if told || error != last_error {
                        tracing::error!("the keys stay as they were: {error}");
                    }
                    last_error = error;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use callsign::{Clock, Config, MemoryNetwork, Network, SharedStore};
    use callsign_store::{lock::lock, memory::MemoryStore};
    use clap::{Args as _, FromArgMatches as _};
    use tokio::signal::unix::{SignalKind, signal};

    use super::*;

    #[test]
    fn certificates_that_a_file_of_options_names_in_part_are_not_taken_for_none() {
        for missing in ["tls_cert", "tls_key", "tls_ca"] {
            let mut command = KeyFiles::augment_args(clap::Command::new("node"));
            for id in ["tls_cert", "tls_key", "tls_ca"].into_iter().filter(|id| *id != missing) {
                // As `config_file` does it.
                command = command.mut_arg(id, |argument| argument.default_value("/of-file"));
            }
            let keys = KeyFiles::from_arg_matches(&command.get_matches_from(["node"])).unwrap();
            assert!(keys.has_certificates(), "{missing}");
            let error = keys.tls().expect_err(missing).to_string();
            assert!(error.contains("belong together"), "{error}");
        }
        let command = KeyFiles::augment_args(clap::Command::new("node"));
        let keys = KeyFiles::from_arg_matches(&command.get_matches_from(["node"])).unwrap();
        assert!(!keys.has_certificates());
        assert!(keys.tls().unwrap().is_none());
    }

    /// What was logged.
    #[derive(Clone, Default)]
    struct Logged(Arc<Mutex<Vec<u8>>>);

    impl Write for Logged {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Logged {
        fn count(&self, text: &str) -> usize {
            String::from_utf8_lossy(&lock(&self.0)).matches(text).count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_wrong_with_the_files_is_logged_once_until_it_is_something_else() {
        let logged = Logged::default();
        let writer = logged.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let _logging = tracing::subscriber::set_default(subscriber);
        let store: SharedStore = Arc::new(MemoryStore::new());
        let config = Config::new("a", store)
            .network(Network::Memory(MemoryNetwork::new()))
            .listen(([127, 0, 0, 1], 7001).into())
            .clock(Clock::runtime());
        let registry = Registry::join(config).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let of = |file: &str| Some(directory.path().join(file));
        let every = Duration::from_secs(60);
        let files = KeyFiles {
            secret_file: None,
            tls_cert: of("cert.pem"),
            tls_key: of("key.pem"),
            tls_ca: of("ca.pem"),
            tls_look: every,
        };
        let hang_up = signal(SignalKind::user_defined2()).unwrap();
        let kept = tokio::spawn(files.keep(Keys::default(), registry.clone(), hang_up));
        let five_looks = || tokio::time::sleep(every * 5 + every / 2);
        five_looks().await;
        assert_eq!(logged.count("the keys stay as they were"), 1, "nothing is there, which is said once");
        std::fs::write(directory.path().join("cert.pem"), "not looked at before the others are there")
            .unwrap();
        five_looks().await;
        assert_eq!(logged.count("the keys stay as they were"), 2, "another file is missing");
        std::fs::remove_file(directory.path().join("cert.pem")).unwrap();
        five_looks().await;
        assert_eq!(logged.count("the keys stay as they were"), 3);
        assert!(!kept.is_finished(), "it goes on looking");
        kept.abort();
    }

    #[test]
    fn files_are_looked_at_as_often_as_is_said_and_not_all_the_time() {
        let keys = |every: &str| {
            let command = KeyFiles::augment_args(clap::Command::new("node"));
            command.try_get_matches_from(["node", "--tls-look", every])
        };
        let found = KeyFiles::from_arg_matches(&keys("5s").unwrap()).unwrap();
        assert_eq!(found.tls_look, Duration::from_secs(5));
        let refused = keys("0s").unwrap_err().to_string();
        assert!(refused.contains("all the time is too often"), "{refused}");
    }
}
