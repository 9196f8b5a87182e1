//! How two nodes find out whether they belong together: a pure handshake machine.
//!
//! ```text
//!   dialler                                     listener
//!   preamble {versions, cluster, security} -->            in the clear, so that a mismatch
//!                                         <---  preamble  has a name on both sides
//!   TLS, where certificates are asked for <-->            expired, or of another authority
//!   Noise: psk, e                         --->            a wrong secret is noticed here,
//!                                         <---  Noise: e, ee, or Refused::Secret
//!   hello {node, incarnation}             --->            encrypted from here on
//!                                         <---  hello {node, incarnation}
//!   ready                                 --->
//! ```
//!
//! Takes as given: frames arrive whole and in order, from anybody. Both preambles are bound into TLS and into Noise (its
//! prologue, with a number that only the two ends of that TLS know), so changing them on the way ends there. Without
//! certificates TLS is left out, without secrets Noise is. Which of them is done is this node's own setting: what the
//! preamble of the other side says can only end the handshake, not lessen it.
//!
//! ```text
//!   +----------+----------------+---------------------------------+----------------+
//!   | CALLSIGN | oldest, u16 BE | MessagePack, as the oldest says | newest, u16 BE |      a preamble
//!   +----------+----------------+---------------------------------+----------------+
//! ```
//!
//! The newest version that both speak is spoken. Behind the `MessagePack` of any frame a newer version may add what
//! older ones do not read.
//!
//! The listener believes nothing before it has opened the encrypted hello: the first Noise message can be replayed.
//!
//! Promises: a mismatch ends in the same [`Refused`] on both sides, each from its own point of view. Does not
//! decide whether this incarnation is welcome: it asks (`Effect::Check`).

use std::{fmt, io::Cursor, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    core::{
        agreed::{Carrier, Security},
        peer::{PeerId, is_valid_name},
        permits::Permits,
        variant::VariantName,
        versions::Versions,
    },
    error::{CertificateFault, Refused, Whose},
};

/// As many names of a certificate are told to its owner.
const NAMES_SHOWN: usize = 8;

/// How every preamble of every version begins. The oldest version that its node speaks follows, and the newest is at its
/// end: so much is read of a preamble of any version.
pub(crate) const MAGIC: &[u8; 8] = b"CALLSIGN";

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Me {
    pub(crate) cluster: String,
    pub(crate) peer: PeerId,
    pub(crate) security: Security,
    pub(crate) carrier: Carrier,
    pub(crate) versions: Versions,
}

/// A node that a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Certified {
    pub(crate) cluster: String,
    pub(crate) node: String,
    /// What it may do.
    pub(crate) permits: Permits,
}

/// What a name in a certificate begins with.
pub(crate) const SCHEME: &str = "callsign://";

impl fmt::Display for Certified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.cluster, self.node)
    }
}

/// Which end of the connection this is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// It dialled, looking for this node.
    Dialler { expected: Arc<str> },
    /// It was dialled.
    Listener,
}

/// What can happen in a handshake.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Input {
    /// The connection is there.
    Start,
    /// A frame came; opened, once Noise is done.
    Frame(Vec<u8>),
    /// TLS is done: the peer's certificate is believed, and is for these, unless it says what cannot be read. `binding` is
    /// this connection's alone.
    TlsDone { names: Result<Vec<Certified>, CertificateFault>, binding: Vec<u8> },
    /// TLS failed. The peer was told as far as can be.
    TlsFailed(Refused),
    /// The asked for Noise step went well.
    NoiseDone,
    /// The asked for Noise step failed: the secrets differ, or somebody meddled.
    NoiseFailed,
    /// The checked peer is welcome.
    Welcome,
    /// It is not.
    Unwelcome(Refused),
}

/// What the driver is to do, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// Send this as a frame; sealed, once Noise is done.
    Send(Vec<u8>),
    /// Have everything that follows encrypted by TLS, as client if this side dialled, with these preambles bound into it;
    /// answer with `TlsDone` or `TlsFailed`.
    Tls { preambles: Vec<u8> },
    /// Begin Noise with this prologue, as initiator if this side dialled. Never fails.
    NoiseBegin { prologue: Vec<u8> },
    /// Send Noise's next message, as a frame.
    NoiseWrite,
    /// Read this as Noise's next message; answer with `NoiseDone` or `NoiseFailed`.
    NoiseRead(Vec<u8>),
    /// Ask whether the peer may link up; answer with `Welcome` or `Unwelcome`.
    Check(PeerId),
    /// The link is up, to a peer that may do so much.
    Accept(PeerId, Permits),
    /// Close. What was sent is to be flushed before.
    Refuse(Refused),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Until the peer's preamble.
    Preamble,
    /// Until TLS is done.
    Tls,
    /// Until the peer's Noise message.
    Noise,
    /// Until the driver has read it.
    Reading,
    /// Until the peer's hello.
    Hello,
    /// Until it was checked.
    Checking(PeerId),
    /// Listener: until the dialler is ready.
    Ready(PeerId),
    /// Accepted or refused; everything else is ignored.
    Done,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Preamble {
    pub(crate) cluster: String,
    pub(crate) security: Security,
    #[serde(default, skip_serializing_if = "Carrier::is_connection")]
    pub(crate) carrier: Carrier,
}

/// Frames after the preamble.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum HelloWord {
    Noise(#[serde(with = "serde_bytes")] Vec<u8>),
    Hello { node: String, incarnation: u64 },
    Ready,
    Refused(Refused),
}

/// One side of one handshake.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hello {
    me: Me,
    side: Side,
    phase: Phase,
    /// Both preambles, the dialler's first; then what binds Noise to TLS.
    prologue: Vec<u8>,
    /// Who the peer's certificate is for. Empty without one.
    certified: Vec<Certified>,
    /// The one that both speak, once that is known.
    version: Option<u16>,
}

impl Hello {
    pub(crate) fn new(me: Me, side: Side) -> Self {
        let prologue = Vec::new();
        Self { me, side, phase: Phase::Preamble, prologue, certified: Vec::new(), version: None }
    }

    /// The version of the protocol that both speak. `None` before the peer's preamble.
    pub(crate) fn version(&self) -> Option<u16> {
        self.version
    }

    /// Takes one input and appends what to do about it.
    pub(crate) fn step(&mut self, input: Input, effects: &mut Vec<Effect>) {
        match (input, std::mem::replace(&mut self.phase, Phase::Done)) {
            (_, Phase::Done) => {}
            (Input::Start, phase) => {
                self.phase = phase;
                if self.dialled() {
                    effects.push(Effect::Send(preamble(&self.me)));
                }
            }
            (Input::Frame(frame), Phase::Preamble) => self.on_preamble(&frame, effects),
            (Input::Frame(frame), phase) => self.on_word(&frame, phase, effects),
            (Input::TlsDone { names, binding }, Phase::Tls) => {
                self.prologue.extend(binding);
                let checked = names.and_then(|names| {
                    self.certified = names;
                    let cluster = self.me.cluster.clone();
                    self.check_certificate(|_| true)
                        .map_err(|certified| CertificateFault::OtherCluster { cluster, certified })
                });
                match checked {
                    Ok(()) => self.show_secret(effects),
                    Err(why) => refuse(Refused::Certificate { of: Whose::Theirs, why }, effects),
                }
            }
            (Input::TlsFailed(why), Phase::Tls) => effects.push(Effect::Refuse(why)),
            (Input::NoiseDone, Phase::Reading) => {
                if self.dialled() {
                    effects.push(Effect::Send(self.hello()));
                } else {
                    effects.push(Effect::NoiseWrite);
                }
                self.phase = Phase::Hello;
            }
            (Input::NoiseFailed, Phase::Reading) => {
                if !self.dialled() {
                    effects.push(Effect::Send(word(&HelloWord::Refused(Refused::Secret))));
                }
                effects.push(Effect::Refuse(Refused::Secret));
            }
            (Input::Welcome, Phase::Checking(peer)) => {
                if self.dialled() {
                    effects.push(Effect::Send(word(&HelloWord::Ready)));
                    effects.push(self.accept(peer));
                } else {
                    effects.push(Effect::Send(self.hello()));
                    self.phase = Phase::Ready(peer);
                }
            }
            (Input::Unwelcome(why), Phase::Checking(_)) => refuse(why, effects),
            (input, phase) => debug_assert!(false, "the driver sent {input:?} in {phase:?}"),
        }
    }

    fn dialled(&self) -> bool {
        matches!(self.side, Side::Dialler { .. })
    }

    fn on_preamble(&mut self, frame: &[u8], effects: &mut Vec<Effect>) {
        let theirs = read_preamble(frame, self.me.versions);
        // A stranger gets no answer; whoever speaks our language in any version gets ours, to see for itself.
        if !self.dialled() && theirs != Err(Refused::NotCallsign) {
            effects.push(Effect::Send(preamble(&self.me)));
        }
        let agreed = theirs.and_then(|(version, theirs)| self.compare(&theirs).map(|()| version));
        match agreed {
            Ok(version) => self.version = Some(version),
            Err(why) => {
                effects.push(Effect::Refuse(why));
                return;
            }
        }
        let ours = preamble(&self.me);
        self.prologue = if self.dialled() { [&ours, frame].concat() } else { [frame, &ours[..]].concat() };
        if self.me.security.has_certificates() {
            effects.push(Effect::Tls { preambles: self.prologue.clone() });
            self.phase = Phase::Tls;
        } else {
            self.show_secret(effects);
        }
    }

    /// Begins Noise, where there are secrets; else says hello.
    fn show_secret(&mut self, effects: &mut Vec<Effect>) {
        let dialled = self.dialled();
        if self.me.security.has_secret() {
            effects.push(Effect::NoiseBegin { prologue: self.prologue.clone() });
            if dialled {
                effects.push(Effect::NoiseWrite);
            }
            self.phase = Phase::Noise;
        } else {
            if dialled {
                effects.push(Effect::Send(self.hello()));
            }
            self.phase = Phase::Hello;
        }
    }

    /// Whether the peer's certificate is for a node of this cluster that `fits`. An error is what it is for.
    fn check_certificate(&self, fits: impl Fn(&str) -> bool) -> Result<(), Vec<String>> {
        let mut names = self.certified.iter();
        let is_good = names.any(|name| name.cluster == self.me.cluster && fits(&name.node));
        // Told to the peer, so not more than a frame of the handshake takes.
        let shown = || self.certified.iter().take(NAMES_SHOWN).map(ToString::to_string).collect();
        if is_good { Ok(()) } else { Err(shown()) }
    }

    fn accept(&self, peer: PeerId) -> Effect {
        let is_it = |name: &&Certified| name.cluster == self.me.cluster && name.node == *peer.node;
        // Without certificates nothing is kept from anybody. With them, this node's name was looked for before.
        let permits = self.certified.iter().find(is_it).map(|name| name.permits.clone());
        Effect::Accept(peer, permits.unwrap_or_default())
    }

    fn compare(&self, theirs: &Preamble) -> Result<(), Refused> {
        if theirs.cluster != self.me.cluster {
            return Err(Refused::Cluster { ours: self.me.cluster.clone(), theirs: theirs.cluster.clone() });
        }
        if theirs.security != self.me.security {
            return Err(Refused::Security { ours: self.me.security, theirs: theirs.security });
        }
        if theirs.carrier != self.me.carrier {
            return Err(Refused::Carrier { ours: self.me.carrier, theirs: theirs.carrier });
        }
        Ok(())
    }

    fn on_word(&mut self, frame: &[u8], phase: Phase, effects: &mut Vec<Effect>) {
        let Ok(word) = rmp_serde::from_slice::<HelloWord>(frame) else {
            effects.push(Effect::Refuse(unread(frame)));
            return;
        };
        match (word, phase) {
            (HelloWord::Refused(why), _) => effects.push(Effect::Refuse(mirrored(why))),
            (HelloWord::Noise(message), Phase::Noise) => {
                effects.push(Effect::NoiseRead(message));
                self.phase = Phase::Reading;
            }
            (HelloWord::Hello { node, incarnation }, Phase::Hello) => match self.check_name(&node) {
                Ok(()) => {
                    let peer = PeerId::new(node, incarnation);
                    effects.push(Effect::Check(peer.clone()));
                    self.phase = Phase::Checking(peer);
                }
                Err(why) => refuse(why, effects),
            },
            (HelloWord::Ready, Phase::Ready(peer)) => effects.push(self.accept(peer)),
            _ => effects.push(Effect::Refuse(Refused::Malformed("a frame out of turn".into()))),
        }
    }

    fn check_name(&self, node: &str) -> Result<(), Refused> {
        if !is_valid_name(node) {
            return Err(Refused::BadName);
        }
        let order = node.cmp(&self.me.peer.node);
        if order.is_eq() {
            return Err(Refused::OwnName { node: node.into() });
        }
        if self.me.security.has_certificates() {
            self.check_certificate(|certified| certified == node).map_err(|certified| {
                let why = CertificateFault::OtherNode { said: node.to_owned(), certified };
                Refused::Certificate { of: Whose::Theirs, why }
            })?;
        }
        match &self.side {
            Side::Dialler { expected } if **expected != *node => {
                Err(Refused::WrongNode { expected: expected.clone(), found: node.into() })
            }
            Side::Listener if order.is_lt() => Err(Refused::WrongDirection),
            _ => Ok(()),
        }
    }

    fn hello(&self) -> Vec<u8> {
        let PeerId { node, incarnation } = &self.me.peer;
        word(&HelloWord::Hello { node: node.to_string(), incarnation: *incarnation })
    }
}

/// What to send for a Noise message.
pub(crate) fn noise_frame(message: &[u8]) -> Vec<u8> {
    word(&HelloWord::Noise(message.to_vec()))
}

/// A frame that is no word that this version knows. Of a newer version's refusal at least the name is told.
fn unread(frame: &[u8]) -> Refused {
    #[derive(Deserialize)]
    enum UnreadWord {
        Refused(VariantName),
    }
    let why =
        rmp_serde::from_slice(frame).ok().and_then(|UnreadWord::Refused(why)| why.unknown_to::<Refused>());
    why.map_or_else(|| Refused::Malformed("a frame that is none".into()), Refused::Unknown)
}

/// Tells the peer why, then closes.
fn refuse(why: Refused, effects: &mut Vec<Effect>) {
    effects.push(Effect::Send(word(&HelloWord::Refused(why.clone()))));
    effects.push(Effect::Refuse(why));
}

/// What the peer refused, seen from here.
fn mirrored(why: Refused) -> Refused {
    match why {
        Refused::Version { ours, theirs } => Refused::Version { ours: theirs, theirs: ours },
        Refused::Cluster { ours, theirs } => Refused::Cluster { ours: theirs, theirs: ours },
        Refused::Security { ours, theirs } => Refused::Security { ours: theirs, theirs: ours },
        Refused::Carrier { ours, theirs } => Refused::Carrier { ours: theirs, theirs: ours },
        Refused::Certificate { of, why } => Refused::Certificate { of: of.mirrored(), why },
        why => why,
    }
}

pub(crate) fn word(word: &HelloWord) -> Vec<u8> {
    rmp_serde::to_vec(word).expect("these types encode")
}

pub(crate) fn preamble(me: &Me) -> Vec<u8> {
    let Me { cluster, security, carrier, versions, .. } = me.clone();
    let rest = rmp_serde::to_vec(&Preamble { cluster, security, carrier }).expect("these types encode");
    [&MAGIC[..], &versions.oldest.to_be_bytes(), &rest, &versions.newest.to_be_bytes()].concat()
}

/// Reads a preamble, and the version that both speak.
pub(crate) fn read_preamble(frame: &[u8], ours: Versions) -> Result<(u16, Preamble), Refused> {
    let rest = frame.strip_prefix(MAGIC).ok_or(Refused::NotCallsign)?;
    let (oldest, rest) = rest.split_first_chunk::<2>().ok_or(Refused::NotCallsign)?;
    let oldest = u16::from_be_bytes(*oldest);
    let newest = |end: &[u8]| end.last_chunk::<2>().map_or(oldest, |newest| u16::from_be_bytes(*newest));
    // Compared before the rest is read: another version may say the rest in other words.
    if oldest > ours.newest {
        return Err(Refused::Version { ours, theirs: Versions { oldest, newest: newest(rest) } });
    }
    let malformed = || Refused::Malformed("a preamble that is none".into());
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(rest));
    let preamble = Preamble::deserialize(&mut reader).map_err(|_| malformed())?;
    let read = usize::try_from(reader.position()).map_err(|_| malformed())?;
    let theirs = Versions { oldest, newest: newest(rest.get(read..).unwrap_or_default()) };
    match ours.common(theirs) {
        Some(version) => Ok((version, preamble)),
        None => Err(Refused::Version { ours, theirs }),
    }
}

#[cfg(test)]
mod tests;
