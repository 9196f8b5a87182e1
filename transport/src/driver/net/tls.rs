//! Drives TLS over a connection whose preambles were exchanged.

use std::{io, sync::Arc};

use rustls::{AlertDescription, ConnectionCommon, pki_types::ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream, rustls};

use super::wire::{WireRead, WireWrite};
use crate::{
    core::hello::Certified,
    driver::tls::{self, Tls, sha256},
    error::{CertificateFault, Refused, Whose},
};

/// What the listener says first: the dialler's certificate is believed. The dialler is done before the listener has seen
/// it, and would not hear of a refusal while it talks.
const BELIEVED: u8 = 1;

/// What is known after it.
pub(crate) struct Encrypted {
    /// The nodes that the peer's certificate is for.
    pub(crate) names: Result<Vec<Certified>, CertificateFault>,
    /// Of this connection alone, the same on both sides.
    pub(crate) binding: [u8; 32],
}

/// Puts TLS between a connection and its frames. `preambles` are bound into it: if the two sides have not seen the same, it
/// fails.
pub(crate) async fn encrypt(
    tls: &Tls,
    initiator: bool,
    preambles: &[u8],
    read: &mut WireRead,
    write: &mut WireWrite,
) -> Result<Encrypted, Refused> {
    // What came before its turn is not covered by TLS.
    let reader = read.detach().ok_or_else(|| Refused::Malformed("bytes before TLS".into()))?;
    let connection = tokio::io::join(reader, write.detach());
    let protocol = [&b"callsign/1 "[..], &sha256(&[preambles])].concat();
    let mut stream: TlsStream<_> = if initiator {
        let mut config = tls.client().clone();
        config.alpn_protocols = vec![protocol.clone()];
        let nobody = ServerName::try_from("callsign.invalid").expect("a name"); // not sent, not compared
        let connecting = TlsConnector::from(Arc::new(config)).connect(nobody, connection);
        connecting.await.map_err(|error| refused(&error))?.into()
    } else {
        let mut config = tls.server().clone();
        config.alpn_protocols = vec![protocol.clone()];
        let accepting = TlsAcceptor::from(Arc::new(config)).accept(connection);
        accepting.await.map_err(|error| refused(&error))?.into()
    };
    let encrypted = match &stream {
        TlsStream::Client(stream) => look(stream.get_ref().1, &protocol)?,
        TlsStream::Server(stream) => look(stream.get_ref().1, &protocol)?,
    };
    if initiator {
        let said = stream.read_u8().await.map_err(|error| refused(&error))?;
        if said != BELIEVED {
            return Err(Refused::Malformed("not what a listener says first".into()));
        }
    } else {
        stream.write_u8(BELIEVED).await.map_err(|error| refused(&error))?;
        stream.flush().await.map_err(|error| refused(&error))?;
    }
    let (reader, writer) = tokio::io::split(stream);
    read.attach(Box::new(reader));
    write.attach(Box::new(writer));
    Ok(encrypted)
}

fn look<D>(connection: &ConnectionCommon<D>, protocol: &[u8]) -> Result<Encrypted, Refused> {
    let broken = |why: &dyn std::fmt::Display| Refused::Tls(why.to_string());
    if connection.alpn_protocol() != Some(protocol) {
        return Err(meddled());
    }
    let certificate = connection.peer_certificates().and_then(|chain| chain.first());
    let certificate =
        certificate.ok_or(Refused::Certificate { of: Whose::Theirs, why: CertificateFault::Missing })?;
    let names = tls::names(certificate).map_err(|error| broken(&error))?;
    let binding = connection.export_keying_material(<[u8; 32]>::default(), b"EXPORTER-callsign-link", None);
    Ok(Encrypted { names, binding: binding.map_err(|error| broken(&error))? })
}

fn meddled() -> Refused {
    Refused::Tls("what was said before it was changed on the way".into())
}

/// What an error of TLS means: for this side's certificate, or for the other's.
fn refused(error: &io::Error) -> Refused {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let ours = |why| Refused::Certificate { of: Whose::Ours, why };
    match inner {
        Some(error @ (rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)) => {
            Refused::Certificate { of: Whose::Theirs, why: tls::fault(error) }
        }
        Some(rustls::Error::AlertReceived(alert)) => match *alert {
            AlertDescription::CertificateExpired => ours(CertificateFault::Expired { at_unix: None }),
            AlertDescription::UnknownCA => ours(CertificateFault::UnknownIssuer),
            AlertDescription::CertificateRequired => ours(CertificateFault::Missing),
            AlertDescription::UnsupportedCertificate => ours(CertificateFault::Purpose),
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied => ours(CertificateFault::Other(format!("{alert:?}"))),
            AlertDescription::NoApplicationProtocol => meddled(),
            alert => Refused::Tls(format!("the other side gave up: {alert:?}")),
        },
        Some(rustls::Error::NoApplicationProtocol) => meddled(),
        Some(error) => Refused::Tls(error.to_string()),
        None => Refused::Unreachable(error.to_string()),
    }
}
