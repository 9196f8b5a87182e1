//! Nodes with certificates, and strangers who show one or none.

use std::{io, sync::Arc};

use callsign_transport::{Carrier, Endpoint, Tls};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
        version::TLS13,
    },
    server,
};

use super::authority::{Authority, Wish};

impl Authority {
    /// What a node of the cluster "prod" is started with, that believes this authority.
    pub fn tls(&self, node: &str) -> Tls {
        self.tls_believing(node, &[self])
    }

    /// As [`tls`](Self::tls), for a node that believes these.
    pub fn tls_believing(&self, node: &str, authorities: &[&Self]) -> Tls {
        let (certificate, key) = self.issue(&Wish::of(&[&format!("callsign://prod/{node}")]));
        Tls::from_pem(certificate, key, Self::believed(authorities)).unwrap()
    }
}

pub fn frame(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

/// What a node of the cluster "prod" says first that has certificates and no secret.
pub fn preamble(carrier: Carrier) -> Vec<u8> {
    match carrier {
        Carrier::Connection => b"CALLSIGN\0\x01\x92\xa4prod\xa9Certified\0\x01".to_vec(),
        Carrier::NodeServer => b"CALLSIGN\0\x01\x93\xa4prod\xa9Certified\xaaNodeServer\0\x01".to_vec(),
    }
}

/// Comes up to and through TLS with a node, showing a certificate and its key, or none; bound to what was said before, or not.
pub async fn tls_by_hand(
    carrier: Carrier,
    to: &Endpoint,
    shown: Option<&(String, String)>,
    bound: bool,
) -> io::Result<TlsStream<TcpStream>> {
    let mut stream = TcpStream::connect(to.local_addr()).await?;
    let mine = preamble(carrier);
    stream.write_all(&frame(&mine)).await?;
    let mut theirs = frame(&mine);
    stream.read_exact(&mut theirs).await?;
    assert_eq!(theirs[4..], mine);

    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    let mut config = match shown {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    if bound {
        config.alpn_protocols = vec![protocol(carrier)];
    }
    let name = ServerName::try_from("callsign.invalid").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Is the listener's end of TLS, with its certificate and its key, for a dialler of the same preamble.
pub async fn tls_listening(
    carrier: Carrier,
    stream: TcpStream,
    (certificate, key): &(String, String),
) -> io::Result<server::TlsStream<TcpStream>> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![protocol(carrier)];
    TlsAcceptor::from(Arc::new(config)).accept(stream).await
}

/// The name that binds TLS to what was said before it.
fn protocol(carrier: Carrier) -> Vec<u8> {
    let said = preamble(carrier);
    let both = ::ring::digest::digest(&::ring::digest::SHA256, &[&said[..], &said].concat());
    [&b"callsign/1 "[..], both.as_ref()].concat()
}

/// Asks nothing of whoever is dialled.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
