//! What other versions send, and read: `tests/golden/files/transport`, and `docs/compatibility.md`.

use bytes::BytesMut;
use callsign_golden::{Golden, seed};

use crate::{
    Secret, Versions,
    core::permits::BadPermits,
    core::{
        agreed::{Carrier, Security},
        frame::{self, Farewell, Frame, FrameError, How, NotDelivered},
        headers::{Headers, tests::TRACED},
        hello::{HelloWord, Me, preamble, read_preamble, word},
        peer::PeerId,
    },
    error::{CertificateFault, Refused, Whose},
};

fn refusals() -> Vec<Refused> {
    let text = || "a".to_owned();
    let (oldest, newest) = (1, 2);
    vec![
        Refused::NotCallsign,
        Refused::Version { ours: Versions { oldest, newest }, theirs: Versions { oldest: 3, newest: 4 } },
        Refused::Cluster { ours: text(), theirs: "b".into() },
        Refused::Security { ours: Security::Plain, theirs: Security::Secured },
        Refused::Carrier { ours: Carrier::Connection, theirs: Carrier::NodeServer },
        Refused::Session(text()),
        Refused::Secret,
        Refused::Certificate { of: Whose::Theirs, why: CertificateFault::UnknownIssuer },
        Refused::Tls(text()),
        Refused::SecretNeeded,
        Refused::OwnName { node: "a".into() },
        Refused::BadName,
        Refused::WrongNode { expected: "a".into(), found: "b".into() },
        Refused::WrongDirection,
        Refused::Superseded,
        Refused::Deadline,
        Refused::Crowded,
        Refused::TooFast,
        Refused::Full { limit: 300 },
        Refused::Unknown(text()),
        Refused::Malformed(text()),
        Refused::Unreachable(text()),
        Refused::Leaving,
    ]
}

fn faults() -> Vec<CertificateFault> {
    let text = || "a".to_owned();
    vec![
        CertificateFault::Expired { at_unix: Some(1) },
        CertificateFault::NotYetValid,
        CertificateFault::UnknownIssuer,
        CertificateFault::Missing,
        CertificateFault::Purpose,
        CertificateFault::OtherCluster { cluster: text(), certified: vec![text()] },
        CertificateFault::OtherNode { said: text(), certified: vec![text()] },
        CertificateFault::Permits { name: text(), why: BadPermits::Unknown { part: text() } },
        CertificateFault::Other(text()),
    ]
}

/// The name of the variant, as it is written.
fn variant(written: &[u8]) -> String {
    // Either the name, or a map with one key, which is the name.
    let name = if written[0] & 0xf0 == 0x80 { &written[1..] } else { written };
    rmp_serde::from_slice(name).unwrap()
}

fn handshake() -> Golden {
    let mut golden = Golden::new(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_VERSION"));
    for (name, security, carrier) in [
        ("preamble/Plain", Security::Plain, Carrier::Connection),
        ("preamble/Secured", Security::Secured, Carrier::Connection),
        ("preamble/Certified", Security::Certified, Carrier::Connection),
        ("preamble/Both", Security::Both, Carrier::Connection),
        ("preamble/over/Connection", Security::Secured, Carrier::Connection),
        ("preamble/over/NodeServer", Security::Secured, Carrier::NodeServer),
    ] {
        let versions = Versions { oldest: 1, newest: 1 };
        let me = Me { cluster: "prod".into(), peer: PeerId::new("b", 7), security, carrier, versions };
        let read = |bytes: &[u8]| match read_preamble(bytes, Versions::OURS) {
            Ok((1, read)) => Ok((read.cluster, read.security, read.carrier)),
            other => Err(format!("{:?}", other.map(|(version, _)| version))),
        };
        golden.sample(name, ("prod".to_owned(), security, carrier), |_| preamble(&me), read);
    }
    let read = |bytes: &[u8]| rmp_serde::from_slice::<HelloWord>(bytes).map_err(|error| error.to_string());
    golden.sample("word/Noise", HelloWord::Noise(vec![0, 1, 255]), word, read);
    golden.sample("word/Hello", HelloWord::Hello { node: "b".into(), incarnation: u64::MAX }, word, read);
    golden.sample("word/Ready", HelloWord::Ready, word, read);
    golden.sample("word/Refused", HelloWord::Refused(Refused::Secret), word, read);
    for why in faults() {
        let name = variant(&rmp_serde::to_vec(&why).unwrap());
        let refused = HelloWord::Refused(Refused::Certificate { of: Whose::Ours, why });
        golden.sample(format!("fault/{name}"), refused, word, read);
    }
    golden.must_cover::<CertificateFault>("fault");
    for why in refusals() {
        let name = variant(&rmp_serde::to_vec(&why).unwrap());
        golden.sample(format!("refused/{name}"), HelloWord::Refused(why), word, read);
    }
    golden.must_cover::<Security>("preamble");
    golden.must_cover::<Carrier>("preamble/over");
    golden.must_cover::<HelloWord>("word");
    golden.must_cover::<Refused>("refused");
    golden
}

const FAREWELLS: [Farewell; 5] =
    [Farewell::Leaving, Farewell::Evicted, Farewell::Replaced, Farewell::Forgotten, Farewell::Broken];

const UNDELIVERED: [NotDelivered; 4] =
    [NotDelivered::Gone, NotDelivered::NotExported, NotDelivered::WrongKind, NotDelivered::NoAnswer];

fn frames() -> Vec<(String, Frame<'static>)> {
    let (channel, body, kind, variant, args) =
        ("names", &b"body"[..], 0x0123_4567_89ab_cdef, "Say", &b"hi"[..]);
    let headers = Headers::NONE;
    let ended = |how| Frame::Ended { to: 300, kind, how };
    let call =
        |timeout_ms, headers| Frame::Call { to: 300, kind, tag: 9, timeout_ms, headers, variant, args };
    let mut frames: Vec<(String, Frame<'static>)> = [
        ("Ping", Frame::Ping),
        ("Read", Frame::Read(70_000)),
        ("Message", Frame::Message { channel, body }),
        ("Message/empty", Frame::Message { channel, body: b"" }),
        ("Piece", Frame::Piece { channel, rest: 70_000, body }),
        ("Cast", Frame::Cast { to: 300, kind, headers, variant, args }),
        ("CastAll", Frame::CastAll { to: b"\x92\x01\x02", kind, headers, variant, args }),
        ("Cast/with-headers", Frame::Cast { to: 300, kind, headers: TRACED, variant, args }),
        ("Call", call(Some(5000), headers)),
        ("Call/for-ever", call(None, headers)),
        ("Call/with-headers", call(None, TRACED)),
        ("Reply", Frame::Reply { tag: 9, body }),
        ("Watch", Frame::Watch { to: 300, kind }),
        ("Watching", Frame::Watching { to: 300, kind }),
        ("Ended/Stopped", ended(How::Stopped(None))),
        ("Ended/Stopped/why", ended(How::Stopped(Some("on request")))),
        ("Ended/Failed", ended(How::Failed("it panicked"))),
        ("Ended/Not", ended(How::Not(NotDelivered::Gone))),
        ("Ended/TooMany", ended(How::TooMany(70_000))),
    ]
    .map(|(name, frame)| (format!("frame/{name}"), frame))
    .into();
    frames.extend(FAREWELLS.map(|why| (format!("frame/Farewell/{why:?}"), Frame::Farewell(why))));
    for why in UNDELIVERED {
        frames.push((format!("frame/NoReply/{why:?}"), Frame::NoReply { tag: 9, why }));
        frames.push((format!("frame/Undelivered/{why:?}"), Frame::Undelivered { to: 300, kind, why }));
    }
    frames
}

fn put(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame.put(&mut out);
    out.to_vec()
}

fn of_links() -> Golden {
    let mut golden = handshake();
    for (name, frame) in frames() {
        let read = move |bytes: &[u8]| {
            let taken =
                frame::take(&mut BytesMut::from(bytes), 1 << 20).map_err(|error| error.to_string())?;
            let taken = taken.ok_or("a part of a frame")?;
            match Frame::get(&taken) {
                Ok(read) if read == frame => Ok(()),
                other => Err(format!("{other:?}")),
            }
        };
        golden.sample(name, (), |()| put(&frame), read);
    }
    golden.must_cover::<How<'_>>("frame/Ended");
    golden.must_cover::<Farewell>("frame/Farewell");
    golden.must_cover::<NotDelivered>("frame/NoReply");
    golden.must_cover::<NotDelivered>("frame/Undelivered");
    let secret = Secret::new("sixteen bytes...").unwrap();
    golden.sample("key-of-a-secret", (), |()| secret.key().to_vec(), |_| Ok(()));
    golden
}

#[test]
fn what_nodes_send_each_other_is_what_former_versions_read_and_sent() {
    of_links().check();
}

#[test]
fn each_frame_that_is_read_has_a_golden_line() {
    for tag in 0..=255 {
        let is_known = !matches!(Frame::get(&[tag]), Err(FrameError::UnknownTag(_)));
        let has_line = frames().iter().any(|(_, frame)| put(frame)[4] == tag);
        assert_eq!(is_known, has_line, "tag {tag}");
    }
}

#[test]
fn golden_lines_are_where_fuzzing_begins() {
    let secret = |mode: u8, bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[mode][..], &length, bytes].concat()
    };
    let me = |security| Me {
        cluster: "prod".into(),
        peer: PeerId::new("c", 7),
        security,
        carrier: Carrier::Connection,
        versions: Versions::OURS,
    };
    let framed = |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
    for (dialled, node) in [(false, "a"), (true, "c")] {
        let words = [
            HelloWord::Noise(vec![1; 48]),
            HelloWord::Hello { node: node.into(), incarnation: 1 },
            HelloWord::Ready,
        ];
        let plain: Vec<u8> = [framed(&preamble(&me(Security::Plain)))]
            .into_iter()
            .chain(words[1..].iter().map(|w| framed(&word(w))))
            .flatten()
            .collect();
        let side = u8::from(dialled);
        seed("handshake", &format!("whole-{side}"), &[&[side][..], &plain].concat());
        let mut secured = vec![side | 2 | 8];
        for bytes in [preamble(&me(Security::Secured))].into_iter().chain(words.iter().map(word)) {
            secured.extend(&secret(0, &bytes)[1..]);
        }
        seed("handshake", &format!("secured-{side}"), &secured);
    }
    for (name, bytes) in handshake().written() {
        if !name.starts_with("preamble") {
            let preamble = preamble(&me(Security::Plain));
            let all = [&[8 | 1][..], &secret(0, &preamble)[1..], &secret(0, bytes)[1..]].concat();
            seed("handshake", name, &all);
        }
    }
    for (name, frame) in frames() {
        seed("frames", &name, &[&[0][..], &put(&frame)].concat());
        seed("frames", &format!("sealed-{name}"), &secret(1, &put(&frame)));
    }
}
