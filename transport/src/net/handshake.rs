//! Drives [`Hello`] over a connection, and with it TLS and Noise.

use std::{collections::VecDeque, sync::Arc};

use bytes::{BufMut, BytesMut};
use snow::{
    Builder, HandshakeState,
    params::{CipherChoice, DHChoice, HashChoice},
    resolvers::{CryptoResolver, DefaultResolver, FallbackResolver},
    types::{Cipher, Dh, Hash, Random},
};

use super::{
    tls,
    wire::{ReadError, WireRead, WireWrite},
};
use crate::{
    draws::{Draws, Fill},
    error::Refused,
    frame,
    hello::{Effect, Hello, Input, noise_frame},
    keys::Keys,
    peer::PeerId,
    secret::Secret,
};

pub(crate) const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// The Noise of one handshake.
struct Noise<'a> {
    secrets: &'a [Secret],
    initiator: bool,
    draws: &'a Draws,
    /// One, or, until the dialler has shown which it uses, one for each secret.
    states: Vec<HandshakeState>,
}

impl Noise<'_> {
    fn begin(&mut self, prologue: &[u8]) -> Result<(), snow::Error> {
        let used = if self.initiator { self.secrets.get(..1) } else { Some(self.secrets) };
        for secret in used.ok_or(snow::Error::Input)? {
            let builder = self.builder()?.psk(0, secret.key())?.prologue(prologue)?;
            self.states.push(if self.initiator {
                builder.build_initiator()?
            } else {
                builder.build_responder()?
            });
        }
        Ok(())
    }

    fn builder(&self) -> Result<Builder<'static>, snow::Error> {
        let noise = NOISE.parse()?;
        Ok(match self.draws.filler() {
            None => Builder::new(noise),
            Some(fill) => {
                let drawn = Box::new(Drawn(fill.clone()));
                let rest = Box::new(DefaultResolver);
                Builder::with_resolver(noise, Box::new(FallbackResolver::new(drawn, rest)))
            }
        })
    }

    fn write(&mut self) -> Result<Vec<u8>, snow::Error> {
        let state = self.states.first_mut().ok_or(snow::Error::Input)?;
        let mut message = vec![0; 256];
        let length = state.write_message(&[], &mut message)?;
        message.truncate(length);
        Ok(message)
    }

    fn read(&mut self, message: &[u8]) -> Result<(), snow::Error> {
        // Each is tried, so that the time it takes does not say which it was.
        self.states.retain_mut(|state| state.read_message(message, &mut [0; 4096]).is_ok());
        self.states.truncate(1);
        if self.states.is_empty() { Err(snow::Error::Decrypt) } else { Ok(()) }
    }

    /// From the last of the handshake's messages on, everything is sealed.
    fn seal(&mut self, read: &mut WireRead, write: &mut WireWrite) -> Result<(), snow::Error> {
        if self.states.first().is_some_and(HandshakeState::is_handshake_finished)
            && let Some(state) = self.states.pop()
        {
            let state = Arc::new(state.into_stateless_transport_mode()?);
            read.open_with(state.clone());
            write.seal_with(state);
        }
        Ok(())
    }
}

/// What the node draws for Noise; everything else of it is as ever.
#[derive(Clone)]
struct Drawn(Arc<Fill>);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        (self.0)(bytes);
        Ok(())
    }
}

impl CryptoResolver for Drawn {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(self.clone()))
    }

    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
        None
    }

    fn resolve_hash(&self, _: &HashChoice) -> Option<Box<dyn Hash>> {
        None
    }

    fn resolve_cipher(&self, _: &CipherChoice) -> Option<Box<dyn Cipher>> {
        None
    }
}

/// Runs one side of a handshake to its end. `check` says whether a peer is welcome.
///
/// Has no deadline of its own: the caller drops it.
pub(crate) async fn shake(
    read: &mut WireRead,
    write: &mut WireWrite,
    mut hello: Hello,
    keys: &Keys,
    initiator: bool,
    draws: &Draws,
    check: impl Fn(&PeerId) -> Result<(), Refused>,
) -> Result<PeerId, Refused> {
    let mut noise = Noise { secrets: &keys.secrets, initiator, draws, states: Vec::new() };
    let mut inputs = VecDeque::from([Input::Start]);
    let mut effects = Vec::new();
    loop {
        let input = match inputs.pop_front() {
            Some(input) => input,
            None => Input::Frame(next_frame(read).await?),
        };
        hello.step(input, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send(frame) => send(write, &frame).await?,
                Effect::Tls { preambles } => {
                    let Some(certificate) = &keys.tls else {
                        return Err(Refused::Tls("no certificate".into())); // the core asks for what there is
                    };
                    let encrypted = tls::encrypt(certificate, initiator, &preambles, read, write).await;
                    inputs.push_back(match encrypted {
                        Ok(tls::Encrypted { names, binding }) => {
                            Input::TlsDone { names, binding: binding.into() }
                        }
                        Err(why) => Input::TlsFailed(why),
                    });
                }
                Effect::NoiseBegin { prologue } => noise.begin(&prologue).map_err(|e| broken(&e))?,
                Effect::NoiseWrite => {
                    let message = noise.write().map_err(|e| broken(&e))?;
                    send(write, &noise_frame(&message)).await?;
                    noise.seal(read, write).map_err(|e| broken(&e))?;
                }
                Effect::NoiseRead(message) => {
                    let done = noise.read(&message).and_then(|()| noise.seal(read, write));
                    inputs.push_back(if done.is_ok() { Input::NoiseDone } else { Input::NoiseFailed });
                }
                Effect::Check(peer) => inputs.push_back(match check(&peer) {
                    Ok(()) => Input::Welcome,
                    Err(why) => Input::Unwelcome(why),
                }),
                Effect::Accept(peer) => {
                    read.trust();
                    tracing::debug!(%peer, version = hello.version(), "authenticated");
                    return Ok(peer);
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

fn broken(error: &snow::Error) -> Refused {
    Refused::Malformed(format!("Noise: {error}"))
}
