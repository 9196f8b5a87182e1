//! Noise, for nodes that know each other by a secret.

use std::sync::Arc;

use snow::{
    Builder, HandshakeState,
    params::{CipherChoice, DHChoice, HashChoice},
    resolvers::{CryptoResolver, DefaultResolver, FallbackResolver, RingResolver},
    types::{Cipher, Dh, Hash, Random},
};

use callsign_store::Entropy;

use super::wire::{WireRead, WireWrite};
use crate::{driver::secret::Secret, error::Refused};

/// Noise cannot go on.
#[derive(Debug)]
pub(crate) struct NoiseError(snow::Error);

impl From<snow::Error> for NoiseError {
    fn from(error: snow::Error) -> Self {
        Self(error)
    }
}

impl From<NoiseError> for Refused {
    fn from(NoiseError(error): NoiseError) -> Self {
        Self::Malformed(format!("Noise: {error}"))
    }
}

pub(crate) const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// The Noise of one handshake.
pub(crate) struct Noise<'a> {
    secrets: &'a [Secret],
    initiator: bool,
    entropy: &'a Entropy,
    /// One, or, until the dialler has shown which it uses, one for each secret.
    states: Vec<HandshakeState>,
}

impl<'a> Noise<'a> {
    pub(crate) fn new(secrets: &'a [Secret], initiator: bool, entropy: &'a Entropy) -> Self {
        Self { secrets, initiator, entropy, states: Vec::new() }
    }

    pub(crate) fn begin(&mut self, prologue: &[u8]) -> Result<(), NoiseError> {
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
        if self.entropy.is_system() {
            return Ok(Builder::new(noise));
        }
        // What `Builder::new` takes, but for what is drawn.
        let rest = FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver));
        let drawn = FallbackResolver::new(Box::new(Drawn(self.entropy.clone())), Box::new(rest));
        Ok(Builder::with_resolver(noise, Box::new(drawn)))
    }

    pub(crate) fn write(&mut self) -> Result<Vec<u8>, NoiseError> {
        let state = self.states.first_mut().ok_or(snow::Error::Input)?;
        let mut message = vec![0; 256];
        let length = state.write_message(&[], &mut message)?;
        message.truncate(length);
        Ok(message)
    }

    pub(crate) fn read(&mut self, message: &[u8]) -> Result<(), NoiseError> {
        // Each is tried, so that the time it takes does not say which it was.
        self.states.retain_mut(|state| state.read_message(message, &mut [0; 4096]).is_ok());
        self.states.truncate(1);
        if self.states.is_empty() { Err(snow::Error::Decrypt.into()) } else { Ok(()) }
    }

    /// From the last of the handshake's messages on, everything is sealed.
    pub(crate) fn seal(&mut self, read: &mut WireRead, write: &mut WireWrite) -> Result<(), NoiseError> {
        if let Some(state) = self.states.pop_if(|state| state.is_handshake_finished()) {
            let state = Arc::new(state.into_stateless_transport_mode()?);
            read.open_with(state.clone());
            write.seal_with(state);
        }
        Ok(())
    }
}

/// What the node draws for Noise; everything else of it is as ever.
#[derive(Clone)]
struct Drawn(Entropy);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill(bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(texts: &[&str]) -> Vec<Secret> {
        texts.iter().map(|text| Secret::new(text).unwrap()).collect()
    }

    const OLD: &str = "an old secret of sixteen";
    const NEW: &str = "a new one, as long as that";

    #[test]
    fn whoever_shows_the_first_of_its_secrets_is_believed_by_whoever_has_it_anywhere_even_twice() {
        let entropy = Entropy::system();
        for (shown, accepted) in [
            (&[OLD, NEW][..], &[OLD][..]),
            (&[OLD], &[NEW, OLD]),
            (&[OLD], &[OLD, OLD]),
            (&[OLD], &[NEW, OLD, OLD]),
        ] {
            let (shown, accepted) = (secrets(shown), secrets(accepted));
            let mut dialler = Noise::new(&shown, true, &entropy);
            let mut listener = Noise::new(&accepted, false, &entropy);
            dialler.begin(b"").unwrap();
            listener.begin(b"").unwrap();
            listener.read(&dialler.write().unwrap()).unwrap();
            assert_eq!(listener.states.len(), 1);
            dialler.read(&listener.write().unwrap()).unwrap();
            for noise in [&dialler, &listener] {
                assert!(noise.states.iter().all(HandshakeState::is_handshake_finished));
            }
        }
        let (shown, accepted) = (secrets(&[NEW, OLD]), secrets(&[OLD]));
        let mut dialler = Noise::new(&shown, true, &entropy);
        let mut listener = Noise::new(&accepted, false, &entropy);
        dialler.begin(b"").unwrap();
        listener.begin(b"").unwrap();
        assert!(listener.read(&dialler.write().unwrap()).is_err(), "another one is shown");
    }

    #[test]
    fn keys_are_drawn_from_what_the_node_was_given() {
        let secrets = secrets(&[OLD]);
        let first = |entropy: &Entropy| {
            let mut noise = Noise::new(&secrets, true, entropy);
            noise.begin(b"").unwrap();
            noise.write().unwrap()
        };
        assert_eq!(first(&Entropy::seeded(1)), first(&Entropy::seeded(1)));
        assert_ne!(first(&Entropy::seeded(1)), first(&Entropy::seeded(2)));
        assert_ne!(first(&Entropy::system()), first(&Entropy::system()));
    }
}
