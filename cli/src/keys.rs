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
    use clap::{Args as _, FromArgMatches as _};

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
}
