//! Drives [`Hello`] over a connection, and with it TLS and Noise.

use bytes::{BufMut, BytesMut};
use callsign_store::{Entropy, logged};

use super::{
    noise::Noise,
    tls,
    wire::{ReadError, WireRead, WireWrite},
};
use crate::{
    core::{
        frame,
        hello::{Effect, Hello, Input, noise_frame},
        peer::PeerId,
        permits::Permits,
    },
    error::Refused,
    keys::Keys,
};

/// Runs one side of a handshake to its end: who the peer is, and what it may do. `check` says whether a peer is welcome.
///
/// Has no deadline of its own: the caller drops it.
pub(crate) async fn shake(
    read: &mut WireRead,
    write: &mut WireWrite,
    mut hello: Hello,
    keys: &Keys,
    initiator: bool,
    entropy: &Entropy,
    check: impl Fn(&PeerId) -> Result<(), Refused>,
) -> Result<(PeerId, Permits), Refused> {
    let mut noise = Noise::new(&keys.secrets, initiator, entropy);
    let mut next = Some(Input::Start);
    let mut effects = Vec::new();
    loop {
        let input = match next.take() {
            Some(input) => input,
            None => Input::Frame(next_frame(read).await?),
        };
        hello.step(input, &mut effects);
        // At most one of them is to be answered.
        for effect in effects.drain(..) {
            match effect {
                Effect::Send(frame) => send(write, &frame).await?,
                Effect::Tls { preambles } => {
                    let Some(certificate) = &keys.tls else {
                        return Err(Refused::Tls("no certificate".into())); // the core asks for what there is
                    };
                    let encrypted = tls::encrypt(certificate, initiator, &preambles, read, write).await;
                    next = Some(match encrypted {
                        Ok(tls::Encrypted { names, binding }) => {
                            Input::TlsDone { names, binding: binding.into() }
                        }
                        Err(why) => Input::TlsFailed(why),
                    });
                }
                Effect::NoiseBegin { prologue } => noise.begin(&prologue)?,
                Effect::NoiseWrite => {
                    let message = noise.write()?;
                    send(write, &noise_frame(&message)).await?;
                    noise.seal(read, write)?;
                }
                Effect::NoiseRead(message) => {
                    let done = noise.read(&message).and_then(|()| noise.seal(read, write));
                    next = Some(if done.is_ok() { Input::NoiseDone } else { Input::NoiseFailed });
                }
                Effect::Check(peer) => {
                    next = Some(check(&peer).map_or_else(Input::Unwelcome, |()| Input::Welcome));
                }
                Effect::Accept(peer, permits) => {
                    read.trust();
                    logged!(debug, %peer, version = hello.version(), "authenticated");
                    return Ok((peer, permits));
                }
                Effect::Refuse(why) => {
                    write.shutdown().await;
                    return Err(why);
                }
            }
        }
    }
}

/// Waits for a frame of a connection that has no link yet.
pub(crate) async fn next_frame(read: &mut WireRead) -> Result<Vec<u8>, Refused> {
    loop {
        match read.take() {
            Ok(Some(frame)) => return Ok(frame.into()),
            Ok(None) => {}
            Err(why) => return Err(Refused::Malformed(why.to_string())),
        }
        match read.fill().await {
            Ok(true) => {}
            Ok(false) => return Err(Refused::Unreachable("closed within the handshake".into())),
            Err(ReadError::Violation(why)) => return Err(Refused::Malformed(why)),
            Err(ReadError::Broken(error)) => return Err(Refused::Unreachable(error.to_string())),
        }
    }
}

/// Sends a frame over a connection that has no link yet.
pub(crate) async fn send(write: &mut WireWrite, frame: &[u8]) -> Result<(), Refused> {
    let mut out = BytesMut::new();
    frame::put_with(&mut out, |out| out.put_slice(frame));
    write.write(&out).await.map_err(|error| Refused::Unreachable(error.to_string()))
}
