//! What fuzzing drives: whatever bytes come, nothing panics, and what is said in each function holds.
//!
//! The functions are called by `tests/fuzz/`, and by a test with every file that fuzzing left in `tests/fuzz/corpus/`.
#![allow(missing_docs)] // it is hidden

use std::sync::{Arc, LazyLock};

use bytes::BytesMut;
use futures::executor::block_on;
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::{
    core::{
        agreed::{Carrier, Security},
        ends::{self, End, Ends},
        frame::{self, Assembly, Frame, NotDelivered},
        held::Held,
        hello::{Certified, Effect, Hello, Input, Me, Side},
        link::{self, Link},
        outbox::Outbox,
        peer::{LinkId, PeerId, is_valid_name},
        permits::Permits,
        versions::Versions,
    },
    driver::{
        net::{
            handshake::shake,
            noise::NOISE,
            stream::Connection,
            wire::{ReadError, WireRead, wire},
        },
        secret::Secret,
    },
    error::Refused,
    keys::Keys,
    tuning::{LinkLimits, LinkTiming},
};

/// The longest frame of a link here, in bytes.
const LIMIT: usize = 64 << 10;

static SECRET: LazyLock<Secret> =
    LazyLock::new(|| Secret::new([7; 32]).expect("32 bytes are enough for a secret"));

fn me(security: Security, carrier: Carrier) -> Me {
    let peer = PeerId::new("b", 7);
    Me { cluster: "prod".into(), peer, security, carrier, versions: Versions::OURS }
}

fn side(dials: bool) -> Side {
    if dials { Side::Dialler { expected: "a".into() } } else { Side::Listener }
}

/// A connection that brings these bytes, and takes everything.
fn connection(bytes: &[u8]) -> Connection {
    let (read, write) = (Box::new(std::io::Cursor::new(bytes.to_vec())), Box::new(tokio::io::sink()));
    Connection { read, write, remote: std::net::SocketAddr::from(([127, 0, 0, 1], 1)) }
}

/// A handshake. The first byte says on which side, with a secret or without, over which carrier; and whether the others are
/// a connection's bytes, or, as if the peer knew the secret, the frames of the core, behind two bytes of length each. The
/// core's may be with certificates, too: as if node `a` had shown its own.
pub fn handshake(bytes: &[u8]) {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let security = match (mode & 2 != 0, mode & 0x18 == 0x18) {
        (false, false) => Security::Plain,
        (true, false) => Security::Secured,
        (false, true) => Security::Certified,
        (true, true) => Security::Both,
    };
    let carrier = if mode & 4 == 0 { Carrier::Connection } else { Carrier::NodeServer };
    let hello = Hello::new(me(security, carrier), side(mode & 1 == 0));
    if mode & 8 == 0 {
        over_a_connection(hello, security, mode & 1 == 0, bytes);
    } else {
        of_the_core(hello, security, bytes);
    }
}

fn must_be_welcome(peer: &PeerId) {
    assert!(is_valid_name(&peer.node), "{peer} was accepted");
    assert_ne!(&*peer.node, "b", "a node accepted its own name");
}

fn over_a_connection(hello: Hello, security: Security, dials: bool, bytes: &[u8]) {
    let (mut read, mut write) = wire(connection(bytes), LIMIT);
    let secrets = if security.has_secret() { vec![SECRET.clone()] } else { Vec::new() };
    let keys = Keys { secrets, tls: None };
    let peer = block_on(shake(
        &mut read,
        &mut write,
        hello,
        &keys,
        dials,
        &callsign_store::Entropy::default(),
        |_| Ok(()),
    ));
    if let Ok((peer, _)) = peer {
        assert!(keys.secrets.is_empty(), "{peer} was accepted without the secret");
        must_be_welcome(&peer);
        take_frames(&mut read);
    }
}

fn of_the_core(mut hello: Hello, security: Security, mut bytes: &[u8]) {
    let mut effects = Vec::new();
    hello.step(Input::Start, &mut effects);
    let (mut ended, mut refused) = (0, 0);
    loop {
        let mut next = Vec::new();
        for effect in effects.drain(..) {
            match effect {
                Effect::NoiseRead(_) => next.push(Input::NoiseDone),
                Effect::Tls { .. } => {
                    let (cluster, node, permits) = ("prod".into(), "a".into(), Permits::default());
                    let certified = Certified { cluster, node, permits };
                    next.push(Input::TlsDone { names: Ok(vec![certified]), binding: vec![7; 32] });
                }
                Effect::Check(peer) => {
                    must_be_welcome(&peer);
                    let superseded = peer.incarnation == 0;
                    next.push(if superseded {
                        Input::Unwelcome(Refused::Superseded)
                    } else {
                        Input::Welcome
                    });
                }
                Effect::Accept(peer, _) => {
                    must_be_welcome(&peer);
                    assert!(
                        !security.has_certificates() || &*peer.node == "a",
                        "{peer} is another than certified"
                    );
                    ended += 1;
                }
                Effect::Refuse(why) => {
                    let _ = why.to_string();
                    refused += 1;
                }
                Effect::Send(frame) => assert!(frame.len() <= frame::HANDSHAKE_FRAME, "a frame too long"),
                Effect::NoiseBegin { .. } | Effect::NoiseWrite => {}
            }
        }
        assert!(ended + refused <= 1, "a handshake ended twice");
        if next.is_empty() {
            let Some(frame) = take_piece(&mut bytes) else { return };
            next.push(Input::Frame(frame.to_vec()));
        }
        for input in next {
            hello.step(input, &mut effects);
        }
    }
}

/// The next piece, behind two bytes of length, or what there is of it.
fn take_piece<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (piece, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
    *bytes = rest;
    Some(piece)
}

/// Two ends of Noise that know each other.
static NOISE_PAIR: LazyLock<[Arc<StatelessTransportState>; 2]> = LazyLock::new(|| {
    let builder = || {
        let name = NOISE.parse().expect("a pattern that snow knows");
        Builder::new(name).psk(0, SECRET.key()).expect("a key of 32 bytes")
    };
    let mut a = builder().build_initiator().expect("nothing is missing");
    let mut b = builder().build_responder().expect("nothing is missing");
    let (mut message, mut payload) = ([0; 256], [0; 256]);
    let mut pass = |from: &mut HandshakeState, to: &mut HandshakeState| {
        let length = from.write_message(&[], &mut message).expect("it is its turn");
        to.read_message(&message[..length], &mut payload).expect("they have one secret");
    };
    pass(&mut a, &mut b);
    pass(&mut b, &mut a);
    [a, b].map(|end| Arc::new(end.into_stateless_transport_mode().expect("the handshake is done")))
});

/// What comes over an established link. The first byte says whether the others are the connection's bytes in the clear,
/// sealed as they are, or what the peer has sealed.
pub fn frames(bytes: &[u8]) {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let [sealer, opener] = &*NOISE_PAIR;
    let mut read = match mode % 3 {
        1 => wire(connection(&seal(sealer, bytes)), LIMIT).0,
        _ => wire(connection(bytes), LIMIT).0,
    };
    if mode % 3 > 0 {
        read.open_with(opener.clone());
    }
    if mode & 128 == 0 {
        read.trust();
    }
    take_frames(&mut read);
}

fn seal(sealer: &StatelessTransportState, mut bytes: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::new();
    for nonce in 0.. {
        let Some(piece) = take_piece(&mut bytes) else { break };
        let mut record = vec![0; piece.len() + 16];
        let Ok(length) = sealer.write_message(nonce, piece, &mut record) else { break };
        sealed.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        sealed.extend(&record[..length]);
    }
    sealed
}

/// Does with each frame what a link does.
fn take_frames(read: &mut WireRead) {
    let limits = LinkLimits { frame: LIMIT, ..LinkLimits::default() };
    let (mut assembly, mut outbox) = (Assembly::default(), Outbox::new(LinkId(1), limits));
    let mut link = Link::new(std::time::Duration::ZERO, LinkTiming::default());
    let mut references = References::new();
    link.step(std::time::Duration::ZERO, link::Input::Established, &mut Vec::new());
    loop {
        match read.take() {
            Ok(Some(bytes)) => {
                assert!(bytes.len() <= LIMIT, "a frame above the limit");
                let Ok(frame) = Frame::get(&bytes) else { return };
                reads_back(&frame);
                if !references.receive(&frame) {
                    return;
                }
                match frame {
                    Frame::Piece { channel, rest, body } => match assembly.add(channel, rest, body, LIMIT) {
                        Ok(Some((_, whole))) => assert!(whole.len() <= LIMIT, "a message above the limit"),
                        Ok(None) => {}
                        Err(_) => return,
                    },
                    Frame::Read(count)
                        if outbox.on_read(usize::try_from(count).unwrap_or(usize::MAX)).is_err() =>
                    {
                        return;
                    }
                    Frame::Farewell(why) => {
                        let mut effects = Vec::new();
                        link.step(std::time::Duration::ZERO, link::Input::Farewell(why), &mut effects);
                        let ends =
                            effects.iter().filter(|effect| matches!(effect, link::Effect::End(_))).count();
                        assert!(ends <= 1, "a link ended twice");
                    }
                    _ => {}
                }
            }
            Ok(None) => match block_on(read.fill()) {
                Ok(true) => {}
                Ok(false) | Err(ReadError::Broken(_) | ReadError::Violation(_)) => return,
            },
            Err(_) => return,
        }
    }
}

/// What a peer says and asks of actors: some are there, and to some this side has references.
struct References {
    ends: Ends,
    held: Held<()>,
}

impl References {
    const LIMIT: usize = 8;

    fn new() -> Self {
        let (mut ends, mut held) = (Ends::new(Self::LIMIT), Held::new(Self::LIMIT));
        ends.step(ends::Input::LinkUp { link: LinkId(1) }, &mut Vec::new());
        for actor in 0..4 {
            held.add(actor, actor, ());
        }
        Self { ends, held }
    }

    /// Whether the link goes on.
    fn receive(&mut self, frame: &Frame<'_>) -> bool {
        let link = LinkId(1);
        let input = match *frame {
            Frame::Watch { to, kind } => {
                let is_there = if to % 4 == 3 { Err(NotDelivered::Gone) } else { Ok(()) };
                ends::Input::Asked { link, actor: to, kind, is_there }
            }
            Frame::Watching { to, kind } => {
                let known = self.held.watched(to, kind).is_some();
                assert!(!known || to < 4, "nobody asked for {to}");
                return true;
            }
            Frame::Ended { to, kind, how } => {
                let end = End::of(how);
                let ended = self.held.ended(to, kind, &end);
                assert!(ended.is_empty() || to < 4, "nobody asked for {to}");
                assert_eq!(self.held.ended(to, kind, &end), [], "it ended twice");
                ends::Input::Ended { actor: to, how: end }
            }
            _ => return true,
        };
        let mut effects = Vec::new();
        self.ends.step(input, &mut effects);
        assert!(self.ends.monitored() <= Self::LIMIT, "more is kept than may be");
        let is_overrun = effects.contains(&ends::Effect::Overrun { link });
        if effects.len() % 2 == 0 {
            let _ = self.ends.next(link);
        }
        !is_overrun
    }
}

fn reads_back(frame: &Frame<'_>) {
    let mut out = BytesMut::new();
    frame.put(&mut out);
    assert!(out.len() <= frame.length() + frame::PREFIX, "a frame is longer than it said");
    let taken = frame::take(&mut out, usize::MAX).ok().flatten();
    let bytes = taken.unwrap_or_else(|| panic!("{frame:?} is written as no frame"));
    assert_eq!(Frame::get(&bytes).as_ref(), Ok(frame));
}

#[cfg(test)]
mod tests {
    use callsign_golden::corpus;

    #[test]
    fn nothing_in_the_corpus_of_handshakes_panics() {
        corpus("handshake", super::handshake);
    }

    #[test]
    fn nothing_in_the_corpus_of_frames_panics() {
        corpus("frames", super::frames);
    }
}
