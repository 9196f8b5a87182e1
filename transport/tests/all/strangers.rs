//! Whoever connects over TCP and does not behave: a clear reason, and nobody else notices.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests wait, and may panic

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use crate::{slow::counted, support::*};
use callsign_store::testing::log::Listening;
use callsign_transport::{Carrier, DownReason, Endpoint, Keys, Refused, Versions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const ANY: &str = "127.0.0.1:0";

fn frame(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

/// `MessagePack` by hand, so that what is on the wire is pinned here too.
fn preamble(carrier: Carrier, version: u16, cluster: &str, security: &str) -> Vec<u8> {
    let text = |s: &str| [&[0xa0 | u8::try_from(s.len()).unwrap()], s.as_bytes()].concat();
    let (fields, over) = match carrier {
        Carrier::Connection => (0x92, vec![]),
        Carrier::NodeServer => (0x93, text("NodeServer")),
    };
    let said = [&[fields], &text(cluster)[..], &text(security), &over].concat();
    let version = version.to_be_bytes();
    frame(&[b"CALLSIGN", &version[..], &said, &version].concat())
}

/// A refusal for want of a common version.
fn version(theirs: u16) -> Refused {
    let theirs = Versions { oldest: theirs, newest: theirs };
    Refused::Version { ours: Versions::OURS, theirs }
}

fn hello(node: &str) -> Vec<u8> {
    let node = [&[0xa0 | u8::try_from(node.len()).unwrap()], node.as_bytes()].concat();
    frame(&[b"\x81\xa5Hello\x92", &node[..], &[7]].concat())
}

fn ready() -> Vec<u8> {
    frame(b"\xa5Ready")
}

async fn node(carrier: Carrier) -> Endpoint {
    start(config("a", 1, &tcp(carrier))).await
}

fn plain(carrier: Carrier) -> Settings {
    let mut config = config("a", 1, &tcp(carrier));
    config.keys.secrets.clear();
    config
}

pub(crate) async fn plain_node(carrier: Carrier) -> Endpoint {
    start(plain(carrier)).await
}

async fn connect(to: &Endpoint) -> TcpStream {
    TcpStream::connect(address(to)).await.unwrap()
}

/// Sends, and reads until the node closes.
async fn say(to: &Endpoint, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(to).await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await.unwrap();
    answer
}

async fn garbage_is_refused_unanswered_and_concerns_nobody_else(carrier: Carrier) {
    let a = node(carrier).await;
    let mut bystanders = Bystanders::of(&a, &tcp(carrier)).await;
    assert_eq!(say(&a, b"GET / HTTP/1.1\r\n\r\n").await, b"", "a frame of absurd length");
    refused(&a, |why| matches!(why, Refused::Malformed(_))).await;
    assert_eq!(say(&a, &frame(b"EHLO example.org")).await, b"");
    refused(&a, |why| *why == Refused::NotCallsign).await;
    bystanders.assert_unaffected().await;
}

async fn a_frame_above_the_limit_for_strangers_is_refused_from_its_length_alone(carrier: Carrier) {
    let a = node(carrier).await;
    say(&a, &4097_u32.to_be_bytes()).await;
    let why = refused(&a, |why| matches!(why, Refused::Malformed(_))).await;
    assert_eq!(why, Refused::Malformed("a frame of 4097 bytes, 4096 are allowed".into()));
}

async fn another_version_gets_our_preamble_and_a_reason_is_noted(carrier: Carrier) {
    let a = node(carrier).await;
    assert_eq!(
        say(&a, &preamble(carrier, 2, "prod", "Secured")).await,
        preamble(carrier, 1, "prod", "Secured")
    );
    refused(&a, |why| *why == version(2)).await;
}

async fn a_dialled_node_of_another_version_is_refused(carrier: Carrier) {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let b = start(config("b", 1, &tcp(carrier))).await;
    b.set_peers(vec![("a".into(), listener.local_addr().unwrap().to_string())]);
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(&preamble(carrier, 9, "prod", "Secured")).await.unwrap();
    refused(&b, |why| *why == version(9)).await;
}

async fn a_handshake_cut_short_is_refused(carrier: Carrier) {
    let a = node(carrier).await;
    let mut stream = connect(&a).await;
    let whole = preamble(carrier, 1, "prod", "Secured");
    stream.write_all(&whole[..whole.len() - 3]).await.unwrap();
    drop(stream);
    refused(&a, |why| matches!(why, Refused::Unreachable(_))).await;
}

async fn a_forged_noise_message_is_a_wrong_secret_and_says_so(carrier: Carrier) {
    let a = node(carrier).await;
    let noise = frame(&[b"\x81\xa5Noise\xc4\x30", &[5; 48][..]].concat());
    let answer = say(&a, &[preamble(carrier, 1, "prod", "Secured"), noise].concat()).await;
    assert!(answer.ends_with(b"\x81\xa7Refused\xa6Secret"), "{}", answer.escape_ascii());
    refused(&a, |why| *why == Refused::Secret).await;
}

async fn what_a_stranger_gives_as_its_reason_is_one_line_of_the_log(carrier: Carrier) {
    let log = Listening::to("callsign_transport");
    let a = node(carrier).await;
    let said = frame(b"\x81\xa7Refused\x81\xa3Tls\xacx\n2026 ERROR");
    say(&a, &[preamble(carrier, 1, "prod", "Secured"), said].concat()).await;
    refused(&a, |why| *why == Refused::Tls("x\n2026 ERROR".into())).await;
    let lines = log.all().into_iter().filter_map(|event| event.get("message").cloned());
    let lines: Vec<_> = lines.filter(|line| line.starts_with("link refused")).collect();
    assert_eq!(lines, ["link refused: TLS: x\\n2026 ERROR"]);
}

async fn silent_sockets_are_closed_at_the_deadline_and_nobody_waits_for_them(carrier: Carrier) {
    let mut config = config("a", 1, &tcp(carrier));
    config.timing.handshake = Duration::from_millis(500);
    let a = start(config).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(connect(&a).await);
    }
    let mut bystanders = Bystanders::of(&a, &tcp(carrier)).await;
    bystanders.assert_unaffected().await;
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0, "closed");
    }
    refused(&a, |why| *why == Refused::Deadline).await;
    bystanders.assert_unaffected().await;
}

async fn a_crowd_of_strangers_loses_its_oldest_and_a_node_still_gets_in(carrier: Carrier) {
    let a = node(carrier).await;
    let mut silent = Vec::new();
    for _ in 0..65 {
        silent.push(connect(&a).await);
    }
    refused(&a, |why| *why == Refused::Crowded).await;
    let mut oldest = silent.remove(0);
    assert_eq!(oldest.read(&mut [0]).await.unwrap_or(0), 0, "closed");
    Bystanders::of(&a, &tcp(carrier)).await.assert_unaffected().await;
}

/// Links up as "z" without a secret, by hand, and stays so until it is dropped.
pub(crate) async fn linked_by_hand(carrier: Carrier, a: &Endpoint) -> Hand {
    let mut stream = connect(a).await;
    let said = [preamble(carrier, 1, "prod", "Plain"), hello("z"), ready()].concat();
    stream.write_all(&said).await.unwrap();
    let hand = match carrier {
        Carrier::Connection => Hand::Stream(stream),
        #[cfg(feature = "node-server")]
        Carrier::NodeServer => Hand::Session(Box::new(SessionByHand::over(stream).await)),
        #[cfg(not(feature = "node-server"))]
        Carrier::NodeServer => unreachable!("needs the feature `node-server`"),
    };
    until("the link", || a.link_to("z")).await;
    hand
}

pub(crate) enum Hand {
    Stream(TcpStream),
    #[cfg(feature = "node-server")]
    Session(Box<SessionByHand>),
}

impl Hand {
    pub(crate) fn into_stream(self) -> TcpStream {
        match self {
            Self::Stream(stream) => stream,
            #[cfg(feature = "node-server")]
            Self::Session(_) => panic!("there is a session in between"),
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Stream(stream) => stream.write_all(bytes).await.unwrap(),
            #[cfg(feature = "node-server")]
            Self::Session(session) => session.write(bytes),
        }
    }
}

/// One message, for so many actors.
fn cast_to_all(actors: u16) -> Vec<u8> {
    let list = [&[0xdc], &actors.to_be_bytes()[..], &vec![1; actors.into()]].concat();
    let length = u16::try_from(list.len()).unwrap().to_be_bytes();
    frame(&[&b"\x0d\x95\xc5"[..], &length, &list, b"\x07\xc0\xa1x\xc4\x00"].concat())
}

async fn what_breaks_the_protocol_after_authentication_ends_that_link_only_and_nothing_is_delivered(
    carrier: Carrier,
) {
    let a = plain_node(carrier).await;
    let mut events = a.subscribe(CHANNEL);
    let oversized = (5_u32 << 20).to_be_bytes();
    let unread = frame(b"\x02\x05");
    for (what, garbage) in [
        ("an unknown frame tag 200", frame(&[200, 1, 2, 3])),
        ("a malformed frame with tag 3", frame(b"\x03\xc1\xc1")),
        ("a frame of 5242880 bytes, 4194304 are allowed", oversized.to_vec()),
        ("an empty frame", vec![0, 0, 0, 0]),
        ("more bytes read than were sent", unread),
        ("an empty piece", frame(b"\x04\x93\xa1x\x05\xc4\x00")),
        ("a list of actors that is none", frame(b"\x0d\x95\xc4\x01\xc1\x07\xc0\xa1x\xc4\x00")),
        ("a message for too many actors", cast_to_all(4097)),
        ("a message in pieces that is too long", frame(b"\x04\x93\xa1x\xce\xff\xff\xff\xff\xc4\x01x")),
    ] {
        let mut stream = linked_by_hand(carrier, &a).await;
        let (_, link) = up(&mut events).await;
        // A good message before it, one behind it.
        let good = frame(&[&b"\x03\x92\xafregistry/orders\xc4\x02"[..], b"ok"].concat());
        stream.write(&[&good[..], &garbage, &good].concat()).await;
        assert_eq!(&message(&mut events).await[..], b"ok");
        let (_, down_link, reason) = down(&mut events).await;
        assert_eq!((down_link, reason), (link, DownReason::Protocol(what.into())));
    }
}

/// Both were welcome when they were asked about. By hand, without a `NodeServer`: only so the two meet.
#[tokio::test]
async fn of_two_that_come_to_the_last_place_at_once_nothing_is_left_of_the_one_that_is_refused() {
    let carrier = Carrier::Connection;
    let mut settings = plain(carrier);
    settings.limits.links = 1;
    settings.timing.silence = Duration::from_secs(3600);
    let (tasks, references) = counted("references");
    settings.tasks = tasks;
    let a = start(settings).await;
    let mut events = a.subscribe(CHANNEL);
    let mut both = Vec::new();
    for node in ["y", "z"] {
        let mut stream = connect(&a).await;
        stream.write_all(&[preamble(carrier, 1, "prod", "Plain"), hello(node)].concat()).await.unwrap();
        // Its hello says that it found this one welcome.
        for _ in ["preamble", "hello"] {
            let length = stream.read_u32().await.unwrap();
            stream.read_exact(&mut vec![0; length as usize]).await.unwrap();
        }
        both.push(stream);
    }
    let [mut first, mut second] = <[TcpStream; 2]>::try_from(both).unwrap();
    first.write_all(&ready()).await.unwrap();
    up(&mut events).await;
    second.write_all(&ready()).await.unwrap();
    refused(&a, |why| matches!(why, Refused::Full { .. })).await;
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(30), second.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "its connection is open");
    let nodes: Vec<_> = a.links().into_iter().map(|status| status.peer.node).collect();
    assert_eq!(nodes, ["y".into()]);
    until("one link has references", || (references.load(SeqCst) == 1).then_some(())).await;
}

async fn a_link_cut_in_the_middle_of_a_frame_delivers_nothing_of_it(carrier: Carrier) {
    let a = plain_node(carrier).await;
    let mut events = a.subscribe(CHANNEL);
    let mut stream = linked_by_hand(carrier, &a).await;
    up(&mut events).await;
    let good = frame(&[&b"\x03\x92\xafregistry/orders\xc4\x02"[..], b"ok"].concat());
    stream.write(&good[..good.len() - 1]).await;
    drop(stream);
    assert_eq!(down(&mut events).await.2, DownReason::Closed);
}

/// Passes bytes on between a dialler and `to`; from the trigger on, turns one bit of what the dialler sends.
async fn meddler(
    to: std::net::SocketAddr,
    meddle: std::sync::Arc<tokio::sync::Semaphore>,
) -> std::net::SocketAddr {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((from, _)) = listener.accept().await {
            let (mut from_read, mut from_write) = from.into_split();
            let (mut to_read, mut to_write) = TcpStream::connect(to).await.unwrap().into_split();
            let meddle = meddle.clone();
            tokio::spawn(async move { tokio::io::copy(&mut to_read, &mut from_write).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(length @ 1..) = from_read.read(&mut buffer).await {
                    if let Ok(permit) = meddle.try_acquire() {
                        permit.forget();
                        buffer[length - 1] ^= 1;
                    }
                    to_write.write_all(&buffer[..length]).await?;
                }
                std::io::Result::Ok(())
            });
        }
    });
    address
}

async fn a_bit_that_turned_on_the_way_ends_the_link_and_is_not_delivered(carrier: Carrier) {
    let authority = Authority::new("ours");
    for (certified, why) in
        [(false, "a record that was not sealed by the peer"), (true, "cannot decrypt peer's message")]
    {
        let node = |name, incarnation| {
            let mut settings = config(name, incarnation, &tcp(carrier));
            if certified {
                settings.keys = Keys { secrets: vec![], tls: Some(authority.tls(name)) };
            }
            start(settings)
        };
        let a = node("a", 1).await;
        let mut events = a.subscribe(CHANNEL);
        let meddle = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let through = meddler(address(&a), meddle.clone()).await;
        let (b, c) = (node("b", 2).await, node("c", 3).await);
        dial(&c, &[&a]);
        up(&mut events).await;
        let bystander = link(&c, &a).await;
        b.set_peers(vec![("a".into(), through.to_string())]);
        assert_eq!(up(&mut events).await.0, *b.peer_id());
        let to_a = link(&b, &a).await;
        control(&b, to_a, "clear").unwrap();
        assert_eq!(&message(&mut events).await[..], b"clear");
        meddle.add_permits(1);
        control(&b, to_a, "meddled with").unwrap();
        assert_eq!(down(&mut events).await.2, DownReason::Protocol(why.into()));
        assert_eq!(up(&mut events).await.0, *b.peer_id(), "and it comes back");
        control(&c, bystander, "still here").unwrap();
        assert_eq!(&message(&mut events).await[..], b"still here", "nobody else notices");
    }
}

async fn a_preamble_that_was_changed_on_the_way_is_noticed_by_both_sides(carrier: Carrier) {
    let a = node(carrier).await;
    let listener = TcpListener::bind(ANY).await.unwrap();
    let b = start(config("b", 2, &tcp(carrier))).await;
    b.set_peers(vec![("a".into(), listener.local_addr().unwrap().to_string())]);
    let (from, _) = listener.accept().await.unwrap();
    let (mut from_read, mut from_write) = from.into_split();
    let (mut to_read, mut to_write) = connect(&a).await.into_split();
    let mut first = preamble(carrier, 1, "prod", "Secured");
    from_read.read_exact(&mut first).await.unwrap();
    assert_eq!(first, preamble(carrier, 1, "prod", "Secured"));
    // It still says the same, in one byte more.
    let longer = frame(&[&first[4..], b" "].concat());
    to_write.write_all(&longer).await.unwrap();
    tokio::spawn(async move { tokio::io::copy(&mut to_read, &mut from_write).await });
    tokio::spawn(async move { tokio::io::copy(&mut from_read, &mut to_write).await });
    refused(&a, |why| *why == Refused::Secret).await;
    refused(&b, |why| *why == Refused::Secret).await;
}

async fn a_refusing_address_is_dialled_until_somebody_listens_there(carrier: Carrier) {
    let free = TcpListener::bind(ANY).await.unwrap().local_addr().unwrap();
    let b = start(config("b", 2, &tcp(carrier))).await;
    b.set_peers(vec![("a".into(), free.to_string())]);
    refused(&b, |why| matches!(why, Refused::Unreachable(_))).await;
    let mut config = config("a", 1, &tcp(carrier));
    config.listen = free;
    let a = start(config).await;
    link(&b, &a).await;
}

/// Until nobody is in his handshake any more.
async fn admission_is_free(a: &Endpoint, after: &str) {
    until(&format!("free admission after {after}"), || (a.unauthenticated() == 0).then_some(())).await;
}

async fn a_place_at_admission_is_given_back_however_the_handshake_ends(carrier: Carrier) {
    let mut settings = config("a", 1, &tcp(carrier));
    settings.timing.handshake = Duration::from_millis(500);
    let a = start(settings).await;
    // Nobody has a place that could be taken from him: who is forgotten here would be there at the end.
    let held: Vec<_> = [connect(&a).await, connect(&a).await].into();
    until("they are let in", || (a.unauthenticated() == 2).then_some(())).await;
    refused(&a, |why| *why == Refused::Deadline).await;
    admission_is_free(&a, "the deadline").await;
    drop(held);

    say(&a, &frame(b"EHLO example.org")).await;
    refused(&a, |why| *why == Refused::NotCallsign).await;
    admission_is_free(&a, "garbage").await;

    let mut cut = connect(&a).await;
    cut.write_all(&preamble(carrier, 1, "prod", "Secured")[..9]).await.unwrap();
    drop(cut);
    refused(&a, |why| matches!(why, Refused::Unreachable(_))).await;
    admission_is_free(&a, "a socket that closed").await;

    let mut bystanders = Bystanders::of(&a, &tcp(carrier)).await;
    admission_is_free(&a, "a handshake that succeeded").await;
    bystanders.assert_unaffected().await;
}

suite! {
    real: [
        a_place_at_admission_is_given_back_however_the_handshake_ends,
        what_breaks_the_protocol_after_authentication_ends_that_link_only_and_nothing_is_delivered,
        a_link_cut_in_the_middle_of_a_frame_delivers_nothing_of_it,
        garbage_is_refused_unanswered_and_concerns_nobody_else,
        a_frame_above_the_limit_for_strangers_is_refused_from_its_length_alone,
        another_version_gets_our_preamble_and_a_reason_is_noted,
        a_dialled_node_of_another_version_is_refused,
        a_handshake_cut_short_is_refused,
        a_forged_noise_message_is_a_wrong_secret_and_says_so,
        what_a_stranger_gives_as_its_reason_is_one_line_of_the_log,
        silent_sockets_are_closed_at_the_deadline_and_nobody_waits_for_them,
        a_crowd_of_strangers_loses_its_oldest_and_a_node_still_gets_in,
        a_bit_that_turned_on_the_way_ends_the_link_and_is_not_delivered,
        a_preamble_that_was_changed_on_the_way_is_noticed_by_both_sides,
        a_refusing_address_is_dialled_until_somebody_listens_there,
    ];
}
