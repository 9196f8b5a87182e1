//! Strangers who connect, and peers that ask for too much: they cost themselves.

use std::{net::SocketAddr, time::Duration};

use crate::support::*;
use bytes::Bytes;
use callsign_transport::{
    Carrier, Endpoint, Keys, Lane, LinkLimits, P, RactorClusterMessage, Refused, StartError, remote_message,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, rpc::CallResult};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// Few enough that a test can use them up.
fn small() -> LinkLimits {
    LinkLimits::default().with(|limits| {
        limits.unauthenticated = 8;
        limits.unauthenticated_per_address = 3;
        limits.reserved = 4;
        limits.handshakes_per_second = 1000;
    })
}

async fn besieged(carrier: Carrier, name: &str, limits: LinkLimits) -> Endpoint {
    let mut settings = config(name, 1, &tcp(carrier));
    settings.limits = limits;
    start(settings).await
}

/// A socket from 127.0.0.`last`.
async fn from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

async fn is_closed(mut stream: TcpStream) {
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut [0])).await;
    assert_eq!(read.expect("it is still open").unwrap_or(0), 0);
}

fn count(endpoint: &Endpoint, word: &str) -> u64 {
    endpoint.refusal_counts().get(word).copied().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_could_not_accept_a_connection_accepts_the_next() {
    let (faults, network) = memory(Carrier::Connection);
    let (a, b) = (start(config("a", 1, &network)).await, start(config("b", 2, &network)).await);
    faults.fail_accept(address(&a));
    dial(&b, &[&a]);
    until("they are linked", || b.link_to("a")).await;
}

async fn one_address_has_its_share_of_the_room_and_loses_its_own_oldest(carrier: Carrier) {
    let a = besieged(carrier, "a", small()).await;
    let other = from(3, address(&a)).await;
    let mut silent = Vec::new();
    for n in 0..4 {
        silent.push(from(2, address(&a)).await);
        until("it is let in", || (a.unauthenticated() == 4.min(n + 2)).then_some(())).await;
    }
    is_closed(silent.remove(0)).await;
    until("it is noted", || (count(&a, "crowded") == 1).then_some(())).await;
    assert_eq!(a.refusals()[0].address, "127.0.0.2");
    let waits = tokio::time::timeout(Duration::from_millis(300), is_closed(other)).await;
    assert!(waits.is_err(), "the other address keeps its place");
}

/// Strangers that come by the thousand, until it is aborted.
fn siege(to: SocketAddr) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut sockets = std::collections::VecDeque::new();
        for n in 0_u32.. {
            let mut socket = from(2 + u8::try_from(n % 200).unwrap(), to).await;
            let _ = socket.write_all(b"\0\0\0\x20CALL").await;
            sockets.push_back(socket);
            if sockets.len() > 500 {
                sockets.pop_front();
            }
        }
    })
}

async fn strangers_do_not_keep_a_node_out_that_was_there_before(carrier: Carrier) {
    let a = besieged(carrier, "a", small().with(|limits| limits.handshakes_per_second = 1)).await;
    // Nobody has said where it would be dialled.
    let b = besieged(carrier, "b", small()).await;
    dial(&b, &[&a]);
    let before = link(&b, &a).await;
    let siege = siege(address(&a));
    until("the house is full", || (count(&a, "too-fast") > 50).then_some(())).await;
    a.forget("b");
    let is_another = || b.link_to("a").filter(|(link, _)| *link != before);
    until("it is back", is_another).await;
    siege.abort();
}

async fn strangers_that_fill_the_house_do_not_keep_a_known_node_out(carrier: Carrier) {
    // So few that nobody gets in by chance: strangers come by the thousand.
    let limits = small().with(|limits| limits.handshakes_per_second = 1);
    let a = besieged(carrier, "a", limits).await;
    // Where it would be dialled if it were not the one that dials.
    a.set_peers(vec![("b".into(), "127.0.0.1:9".into())]);
    let siege = siege(address(&a));
    until("the house is full", || (count(&a, "too-fast") > 50).then_some(())).await;
    let mut bystanders = Bystanders::of(&a, &tcp(carrier)).await;
    bystanders.assert_unaffected().await;
    assert!(a.unauthenticated() <= 8);
    let before = count(&a, "too-fast");
    until("the siege goes on", || (count(&a, "too-fast") > before).then_some(())).await;
    bystanders.assert_unaffected().await;
    siege.abort();
}

async fn a_node_that_admits_nobody_still_dials(carrier: Carrier) {
    // Nobody who comes is let in for the next minutes, not even from its own address.
    let limits = small().with(|limits| limits.handshakes_per_second = 1);
    let z = besieged(carrier, "z", limits).await;
    let to = address(&z);
    for _ in 0..20 {
        from(1, to).await;
    }
    until("the admission are shut", || (count(&z, "too-fast") > 5).then_some(())).await;
    let a = besieged(carrier, "a", small()).await;
    dial(&z, &[&a]);
    link(&z, &a).await;
}

async fn sockets_that_say_a_byte_now_and_then_are_closed_at_the_deadline(carrier: Carrier) {
    let mut settings = config("a", 1, &tcp(carrier));
    settings.timing.handshake = Duration::from_millis(600);
    let a = start(settings).await;
    let mut bystanders = Bystanders::of(&a, &tcp(carrier)).await;
    let loris = (0..20).map(|n| {
        let to = address(&a);
        tokio::spawn(async move {
            let mut stream = from(2 + n, to).await;
            // A frame of 200 bytes, one at a time: it would take 20 s.
            for byte in [0, 0, 0, 200].into_iter().chain([b'C'; 200]) {
                if stream.write_all(&[byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            panic!("it could say everything");
        })
    });
    for loris in loris.collect::<Vec<_>>() {
        loris.await.unwrap();
    }
    until("all are counted", || (count(&a, "deadline") == 20).then_some(())).await;
    bystanders.assert_unaffected().await;
}

async fn limits_that_cannot_work_are_refused_at_the_start(carrier: Carrier) {
    let none = [
        small().with(|limits| limits.unauthenticated = 0),
        small().with(|limits| limits.unauthenticated_per_address = 0),
        small().with(|limits| limits.reserved = 8),
        small().with(|limits| limits.handshakes_per_second = 0),
        small().with(|limits| limits.received_per_second = 0),
        small().with(|limits| limits.open_calls = 0),
        small().with(|limits| limits.links = 0),
    ];
    for limits in none {
        let mut settings = config("a", 1, &memory(carrier).1);
        settings.limits = limits;
        assert!(matches!(try_start(settings).await, Err(StartError::BadSettings { .. })), "{limits:?}");
    }
}

// ---- what a peer may ask for

async fn what_waits_for_a_reader_keeps_its_own_bytes_only(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let Linked { a: _a, b, mut events, to_a, .. } = linked_over(&network).await;
    // Nobody reads the large ones; with them comes a small one that somebody reads, late.
    for _ in 0..3 {
        b.send(to_a, Lane::Control, "nobody", vec![1; 1 << 20].into()).unwrap();
        control(&b, to_a, "small").unwrap();
    }
    for _ in 0..3 {
        let body = message(&mut events).await;
        let kept = body.try_into_mut().expect("nobody else has it").capacity();
        assert!(kept < 1024, "a message of 5 bytes keeps {kept}");
    }
}

async fn a_peer_that_sends_too_fast_is_read_at_its_rate_and_loses_nothing(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let mut slow = config("a", 1, &network);
    slow.limits.received_per_second = 64 << 10;
    let Linked { a, b, mut events, to_a, .. } = linked(slow, config("b", 2, &network)).await;
    let began = tokio::time::Instant::now();
    for n in 0..64_u64 {
        let body: Bytes = [&n.to_be_bytes()[..], &[0; 16 << 10]].concat().into();
        b.send(to_a, Lane::Control, CHANNEL, body).unwrap();
    }
    for n in 0..64 {
        assert_eq!(number(&message(&mut events).await), n);
    }
    // One second's worth goes at once.
    let took = began.elapsed();
    assert!(took > Duration::from_secs(14), "1 MiB at 64 KiB/s came within {took:?}");
    assert_eq!(link(&b, &a).await, to_a, "nobody was declared dead");
}

#[derive(RactorClusterMessage)]
enum Ask {
    Note(P<u64>),
    #[rpc]
    Notes(RpcReplyPort<P<u64>>),
    /// Is not answered while the actor lives.
    #[rpc]
    Wait(P<Vec<u8>>, RpcReplyPort<P<u64>>),
    #[rpc]
    LetGo(RpcReplyPort<P<u64>>),
}
remote_message!(Ask, "test.admission.Ask");

struct Asked;

impl Actor for Asked {
    type Msg = Ask;
    type State = (u64, Vec<RpcReplyPort<P<u64>>>);
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Ask>, (): ()) -> Result<Self::State, ActorProcessingErr> {
        Ok((0, vec![]))
    }

    async fn handle(
        &self,
        _: ActorRef<Ask>,
        message: Ask,
        (notes, waiting): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Ask::Note(P(n)) => *notes += n,
            Ask::Notes(port) => drop(port.send(P(*notes))),
            Ask::Wait(_, port) => waiting.push(port),
            Ask::LetGo(port) => {
                waiting.clear();
                let _ = port.send(P(*notes));
            }
        }
        Ok(())
    }
}

async fn asked() -> ActorRef<Ask> {
    Actor::spawn(None, Asked, ()).await.unwrap().0
}

async fn notes(actor: &ActorRef<Ask>) -> Option<u64> {
    match actor.call(Ask::Notes, Some(Duration::from_secs(30))).await {
        Ok(CallResult::Success(P(notes))) => Some(notes),
        _ => None,
    }
}

async fn a_forged_address_of_an_actor_that_was_not_exported_gets_nothing(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (a, b) = pair(&network).await;
    tokio::join!(link(&a, &b), link(&b, &a));
    let (public, private) = (asked().await, asked().await);
    let address = a.address_of(&public);
    // Numbers of actors are small and follow each other: whoever has one has all.
    let mut forged = address.clone();
    forged.pid = private.get_id().pid();
    let reference: ActorRef<Ask> = b.resolve(&forged).unwrap();
    reference.cast(Ask::Note(P(7))).unwrap();
    // To ask for it is refused, too, and counted with what is sent to it.
    until("the cast is refused", || (count(&a, "no-such-actor") == 2).then_some(())).await;
    let reference: ActorRef<Ask> = b.resolve(&forged).unwrap();
    assert_eq!(notes(&reference).await, None);
    until("to ask for it and to call it is, too", || (count(&a, "no-such-actor") == 4).then_some(())).await;
    // Nor does one of the endpoint's own: its links have actors, too.
    for pid in 0..forged.pid + 16 {
        if pid == public.get_id().pid() {
            continue;
        }
        forged.pid = pid;
        let reference: ActorRef<Ask> = b.resolve(&forged).unwrap();
        assert_eq!(notes(&reference).await, None, "actor {pid}");
    }
    assert_eq!(notes(&private).await, Some(0), "it got nothing");
    let reference: ActorRef<Ask> = b.resolve(&address).unwrap();
    assert_eq!(notes(&reference).await, Some(0), "the link is none the worse");
}

async fn a_peer_has_so_many_calls_open_and_no_more(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let mut few = config("a", 1, &network);
    few.limits.open_calls = 64 << 10;
    let (a, b) = (start(few).await, start(config("b", 2, &network)).await);
    dial(&b, &[&a]);
    tokio::join!(link(&a, &b), link(&b, &a));
    let asked = asked().await;
    let remote: ActorRef<Ask> = b.resolve(&a.address_of(&asked)).unwrap();
    let wait = || async { remote.call(|port| Ask::Wait(P(vec![0; 2048]), port), None).await };
    let mut calls: Vec<_> = (0..40).map(|_| Box::pin(wait())).collect();
    // Each counts some 3 to 5 KiB, so that some are open and the others fail at once.
    let refused = || count(&a, "too-many-calls");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    let mut failed = 0;
    while failed < 10 {
        assert!(tokio::time::Instant::now() < deadline, "{failed} failed");
        let mut open = Vec::new();
        for mut call in calls {
            match tokio::time::timeout(Duration::from_millis(1), &mut call).await {
                Ok(Ok(CallResult::SenderError)) => failed += 1,
                Ok(other) => panic!("{:?}", other.is_ok()),
                Err(_) => open.push(call),
            }
        }
        calls = open;
    }
    assert_eq!(refused(), failed);
    assert!(calls.len() >= 10, "those that were there first stay: {}", calls.len());
    assert_eq!(asked.call(Ask::LetGo, None).await.unwrap().unwrap().0, 0);
    // What is answered, or not to be answered any more, makes room.
    until("room", || (b.links()[0].control_queued == 0).then_some(())).await;
    for call in calls {
        assert!(matches!(call.await, Ok(CallResult::SenderError)));
    }
    assert_eq!(notes(&remote).await, Some(0));
}

async fn nobody_gets_in_who_knows_the_secret_of_another_cluster_however_often(carrier: Carrier) {
    let a = besieged(carrier, "a", small()).await;
    let mut bystanders = Bystanders::of(&a, &tcp(carrier)).await;
    let mut others = Vec::new();
    for n in 0..5 {
        let mut settings = config(&format!("other-{n}"), 1, &tcp(carrier));
        let secret = callsign_transport::Secret::new("the secret of another cluster").unwrap();
        settings.keys = Keys { secrets: vec![secret], tls: None };
        let other = start(settings).await;
        dial(&other, &[&a]);
        others.push(other);
    }
    until("each was refused", || (count(&a, "secret") >= 5).then_some(())).await;
    for other in &others {
        refused(other, |why| *why == Refused::Secret).await;
    }
    bystanders.assert_unaffected().await;
    assert_eq!(a.links().len(), 1);
}

suite! {
    paused: [
        limits_that_cannot_work_are_refused_at_the_start,
        what_waits_for_a_reader_keeps_its_own_bytes_only,
        a_peer_that_sends_too_fast_is_read_at_its_rate_and_loses_nothing,
        a_forged_address_of_an_actor_that_was_not_exported_gets_nothing,
        a_peer_has_so_many_calls_open_and_no_more,
    ];
    real: [
        one_address_has_its_share_of_the_room_and_loses_its_own_oldest,
        strangers_do_not_keep_a_node_out_that_was_there_before,
        strangers_that_fill_the_house_do_not_keep_a_known_node_out,
        a_node_that_admits_nobody_still_dials,
        sockets_that_say_a_byte_now_and_then_are_closed_at_the_deadline,
        nobody_gets_in_who_knows_the_secret_of_another_cluster_however_often,
    ];
}
