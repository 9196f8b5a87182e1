//! What a peer says of actors and is told of them, byte by byte: by one that is no endpoint.

use std::time::Duration;

use crate::{
    strangers::{linked_by_hand, plain_node},
    support::*,
};
use callsign_transport::{ActorAddress, Carrier, Endpoint, Kind, P, RactorClusterMessage, remote_message};
use ractor::{ActorRef, RpcReplyPort};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

#[derive(RactorClusterMessage)]
enum Say {
    Word(P<u64>),
    #[rpc]
    Ask(RpcReplyPort<P<u64>>),
}
remote_message!(Say, "test.byhand.Say");

const SOON: Duration = Duration::from_secs(60);

/// A node, and "z", which is linked to it.
async fn linked_stream() -> (Endpoint, TcpStream) {
    let a = plain_node(Carrier::Connection).await;
    let stream = linked_by_hand(Carrier::Connection, &a).await.into_stream();
    (a, stream)
}

/// The next frame of a link with this tag.
async fn next_with_tag(stream: &mut TcpStream, tag: u8) -> Vec<u8> {
    let reading = async {
        loop {
            let length = stream.read_u32().await.unwrap();
            let mut frame = vec![0; length as usize];
            stream.read_exact(&mut frame).await.unwrap();
            if frame[0] == tag {
                return frame;
            }
        }
    };
    timeout(SOON, reading).await.expect("it is said")
}

/// The actor 5 of "z".
fn of_z(a: &Endpoint) -> ActorRef<Say> {
    let kind = Kind::of("test.byhand.Say");
    a.resolve(&ActorAddress::new("z", 7, 5, kind)).unwrap()
}

fn kind() -> [u8; 8] {
    Kind::of("test.byhand.Say").0.to_be_bytes()
}

#[tokio::test]
async fn a_cast_to_an_actor_that_nobody_exported_is_answered_though_nobody_asked_for_it() {
    let (_a, mut stream) = linked_stream().await;
    stream.write_all(&frame(b"\x05\x95\x7f\x02\xc0\xa1x\xc4\x00")).await.unwrap();
    let said = next_with_tag(&mut stream, 9).await;
    assert_eq!(said, b"\x09\x93\x7f\x02\xabNotExported", "{}", said.escape_ascii());
}

#[tokio::test]
async fn a_reference_ends_when_a_message_to_it_was_not_delivered() {
    let (a, mut stream) = linked_stream().await;
    let remote = of_z(&a);
    remote.cast(Say::Word(P(1))).unwrap();
    let cast = next_with_tag(&mut stream, 5).await;
    assert_eq!(cast[..12], [&[5, 0x95, 5, 0xcf], &kind()[..]].concat());
    stream.write_all(&frame(&[&b"\x09\x93\x05\xcf"[..], &kind(), b"\xa4Gone"].concat())).await.unwrap();
    remote.wait(Some(SOON)).await.unwrap();
    assert!(remote.cast(Say::Word(P(2))).is_err());
    assert!(a.link_to("z").is_some(), "not because its link is down");
}

#[tokio::test]
async fn the_node_of_an_actor_waits_a_second_longer_for_an_answer_than_the_caller() {
    let (a, mut stream) = linked_stream().await;
    let remote = of_z(&a);
    let call = tokio::spawn(async move { remote.call(Say::Ask, Some(SOON)).await });
    let said = next_with_tag(&mut stream, 6).await;
    let milliseconds = 61_000_u16.to_be_bytes();
    let expected = [&[6, 0x97, 5, 0xcf], &kind()[..], &[1, 0xcd], &milliseconds, b"\xc0\xa3Ask"].concat();
    assert_eq!(said[..expected.len()], expected, "{}", said.escape_ascii());
    drop(stream);
    assert!(call.await.unwrap().is_ok_and(|answer| !answer.is_success()));
}
