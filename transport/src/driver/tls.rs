//! A node's certificate and the authorities that it believes, ready for handshakes.
//!
//! A certificate names nodes by URIs among its subject alternative names: `callsign://CLUSTER/NODE`. Not by DNS names:
//! names of nodes and clusters may be longer than a label, differ in case only, and have `_`; the characters that they may
//! have are exactly those that a URI takes as they are, so a name is compared byte by byte, and there are no wildcards. A
//! certificate may have several names; each must be of a node that its key is meant for, and may say what that node may do
//! ([`Permits`]). A node is client and server, so
//! a certificate that says what it may be used for says both.
//!
//! TLS 1.3 only. Sessions are never resumed: a resumed one would skip the look at the certificate.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ::ring::digest;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::{ParsedCertificate, WebPkiClientVerifier},
};
use tokio_rustls::rustls;
use webpki::EndEntityCert;

use crate::{
    core::{
        hello::{Certified, SCHEME},
        peer::is_valid_name,
        permits::{BadPermits, Permits},
    },
    error::{CertificateFault, KeysRefused},
};

/// More names of a certificate than these are not looked at.
const MOST_NAMES: usize = 64;

/// Whether a certificate will be good for longer, nobody asks: a hundred years.
const HORIZON: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A certificate that shows that a node is who it says, its private key, and the authorities whose certificates are
/// believed. Checked when it is made. Cloning gives another handle to the same.
#[derive(Clone)]
pub struct Tls(Arc<Material>);

struct Material {
    client: ClientConfig,
    server: ServerConfig,
    names: Vec<Certified>,
    expires: Option<UnixTime>,
    /// Of everything that was given.
    fingerprint: [u8; 32],
}

/// Why files were not taken for a node's certificate, key and authorities.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadTls {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What should be PEM is not, or is of something else.
    #[error("{what}: {why}")]
    Malformed {
        /// `certificate`, `key` or `authorities`.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The key is another certificate's. A file of the two may not have been replaced yet.
    #[error("the key does not belong to the certificate")]
    OtherKey,
    /// The authorities given do not vouch for the certificate, at this moment or at all: others would not take it.
    #[error("the certificate is not good")]
    NotGood(#[source] CertificateFault),
}

impl Tls {
    /// Reads three PEM files: the certificate, with those between it and the authority behind it; its private key; and the
    /// certificates of the authorities that are believed, of which one must have issued this one.
    pub fn from_files(
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
        authorities: impl AsRef<Path>,
    ) -> Result<Self, BadTls> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| BadTls::Unreadable { path: path.to_owned(), source })
        };
        Self::from_pem(read(certificate.as_ref())?, read(key.as_ref())?, read(authorities.as_ref())?)
    }

    /// As [`from_files`](Self::from_files), from what is in them.
    pub fn from_pem(
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
        authorities: impl AsRef<[u8]>,
    ) -> Result<Self, BadTls> {
        let (certificate, key, authorities) = (certificate.as_ref(), key.as_ref(), authorities.as_ref());
        let chain = certificates("certificate", certificate)?;
        let private = PrivateKeyDer::from_pem_slice(key).map_err(|error| malformed("key", &error))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates("authorities", authorities)? {
            roots.add(authority).map_err(|error| malformed("authorities", &error))?;
        }
        let names = names(&chain[0]).map_err(|error| malformed("certificate", &error))?;
        let names = names.map_err(BadTls::NotGood)?;
        let believer = Believer { roots: Arc::new(roots), provider: Arc::new(ring::default_provider()) };
        let now = UnixTime::now();
        believer.check(&chain, now).map_err(BadTls::NotGood)?;
        Ok(Self(Arc::new(Material {
            names,
            expires: believer.expires(&chain, now),
            fingerprint: fingerprint(&[certificate, key, authorities]),
            server: believer.server(&chain, private.clone_key())?,
            client: believer.client(chain, private)?,
        })))
    }

    /// The nodes that the certificate is for, `callsign://CLUSTER/NODE` each.
    pub fn names(&self) -> Vec<String> {
        self.0.names.iter().map(ToString::to_string).collect()
    }

    /// For how long the certificate, or whatever is between it and its authority, will be good. `None`: for longer than
    /// anybody asks.
    pub fn expires_in(&self) -> Option<Duration> {
        let expires = Duration::from_secs(self.0.expires?.as_secs());
        Some(expires.saturating_sub(Duration::from_secs(UnixTime::now().as_secs())))
    }

    /// Refuses a certificate that is not for this node.
    pub fn check_node(&self, cluster: &str, node: &str) -> Result<(), KeysRefused> {
        if self.permits(cluster, node).is_some() {
            return Ok(());
        }
        let (cluster, node, permits) = (cluster.to_owned(), node.to_owned(), Permits::default());
        let wanted = Certified { cluster, node, permits };
        Err(KeysRefused::NotThisNode { wanted: wanted.to_string(), certified: self.names() })
    }

    /// What a node may do by the certificate. `None`: it is not for that node.
    pub fn permits(&self, cluster: &str, node: &str) -> Option<Permits> {
        let is_it = |name: &&Certified| name.cluster == cluster && name.node == node;
        self.0.names.iter().find(is_it).map(|name| name.permits.clone())
    }

    pub(crate) fn client(&self) -> &ClientConfig {
        &self.0.client
    }

    pub(crate) fn server(&self) -> &ServerConfig {
        &self.0.server
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint == other.0.fingerprint
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.names()).finish()
    }
}

fn fingerprint(parts: &[&[u8]]) -> [u8; 32] {
    let each: Vec<[u8; 32]> = parts.iter().map(|part| sha256(&[part])).collect();
    sha256(&each.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>())
}

/// Of all parts, one after the other.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = digest::Context::new(&digest::SHA256);
    for part in parts {
        hash.update(part);
    }
    hash.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn malformed(what: &'static str, why: &dyn fmt::Display) -> BadTls {
    BadTls::Malformed { what, why: why.to_string() }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BadTls> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| malformed(what, &error))?;
    if found.is_empty() { Err(malformed(what, &"no certificate is in it")) } else { Ok(found) }
}

/// The nodes that a certificate names, and what each may do; unless that cannot be read, of whichever of them.
pub(crate) fn names(
    certificate: &CertificateDer<'_>,
) -> Result<Result<Vec<Certified>, CertificateFault>, webpki::Error> {
    let certificate = EndEntityCert::try_from(certificate)?;
    let mut names: Vec<Certified> = Vec::new();
    for uri in certificate.valid_uri_names() {
        let (name, query) = uri.split_once('?').map_or((uri, None), |(name, query)| (name, Some(query)));
        let Some((cluster, node)) = name.strip_prefix(SCHEME).and_then(|name| name.split_once('/')) else {
            continue;
        };
        if !is_valid_name(cluster) || !is_valid_name(node) {
            continue;
        }
        let is_same = |known: &&Certified| known.cluster == cluster && known.node == node;
        let known = names.iter().find(is_same).map(|known| &known.permits);
        let permits = query.map_or_else(|| Ok(Permits::default()), Permits::read);
        match permits {
            Ok(permits) if known.is_none_or(|known| *known == permits) => {
                let (cluster, node) = (cluster.to_owned(), node.to_owned());
                names.push(Certified { cluster, node, permits });
            }
            said => {
                let why = said.err().unwrap_or(BadPermits::SaidTwice);
                return Ok(Err(CertificateFault::Permits { name: name.to_owned(), why }));
            }
        }
        if names.len() == MOST_NAMES {
            break;
        }
    }
    Ok(Ok(names))
}

/// Believes whatever the authorities vouch for. Who it is that they vouch for is asked by the handshake's core.
#[derive(Debug)]
struct Believer {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl Believer {
    fn server(
        &self,
        chain: &[CertificateDer<'static>],
        key: PrivateKeyDer<'static>,
    ) -> Result<ServerConfig, BadTls> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), self.provider.clone())
            .build()
            .map_err(|error| malformed("authorities", &error))?;
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| malformed("certificate", &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.to_vec(), key)
            .map_err(|error| unusable(&error))?;
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    fn client(
        self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<ClientConfig, BadTls> {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| malformed("certificate", &error))?
            .dangerous() // because names are compared elsewhere; everything else is verified
            .with_custom_certificate_verifier(Arc::new(self))
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&error))?;
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(config)
    }

    /// Whether others who believe the same would take the certificate, on either side of a connection.
    fn check(&self, chain: &[CertificateDer<'_>], at: UnixTime) -> Result<(), CertificateFault> {
        let as_client =
            WebPkiClientVerifier::builder_with_provider(self.roots.clone(), self.provider.clone());
        let as_client = as_client.build().map_err(|error| CertificateFault::Other(error.to_string()))?;
        self.vouch(&chain[0], &chain[1..], at)
            .and_then(|()| as_client.verify_client_cert(&chain[0], &chain[1..], at).map(|_| ()))
            .map_err(|error| fault(&error))
    }

    fn vouch(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        at: UnixTime,
    ) -> Result<(), rustls::Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        let certificate = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, between, at, algorithms)
    }

    /// Asks what would be said then.
    fn expires(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Option<UnixTime> {
        let later = Duration::from_secs(now.as_secs()) + HORIZON;
        match self.vouch(&chain[0], &chain[1..], UnixTime::since_unix_epoch(later)) {
            Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
                not_after, ..
            })) => Some(not_after),
            _ => None,
        }
    }
}

fn unusable(error: &rustls::Error) -> BadTls {
    match error {
        rustls::Error::InconsistentKeys(_) => BadTls::OtherKey,
        error => malformed("key", error),
    }
}

/// Why a certificate was not believed.
pub(crate) fn fault(error: &rustls::Error) -> CertificateFault {
    use CertificateError::{
        Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext, NotValidYet, NotValidYetContext,
        UnknownIssuer,
    };
    match error {
        rustls::Error::NoCertificatesPresented => CertificateFault::Missing,
        rustls::Error::InvalidCertificate(error) => match error {
            ExpiredContext { not_after, .. } => {
                CertificateFault::Expired { at_unix: Some(not_after.as_secs()) }
            }
            Expired => CertificateFault::Expired { at_unix: None },
            NotValidYet | NotValidYetContext { .. } => CertificateFault::NotYetValid,
            UnknownIssuer => CertificateFault::UnknownIssuer,
            InvalidPurpose | InvalidPurposeContext { .. } => CertificateFault::Purpose,
            error => CertificateFault::Other(error.to_string()),
        },
        error => CertificateFault::Other(error.to_string()),
    }
}

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.vouch(certificate, between, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
