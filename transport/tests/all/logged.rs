//! What is logged: what happens once, always; what peers can bring about, at every power of two.

use std::time::Duration;

use crate::support::*;
use callsign_store::testing::log::Listening;
use callsign_transport::{Carrier, Kind, Lane, P, RactorClusterMessage, remote_message};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

#[derive(RactorClusterMessage)]
enum Note {
    Word(P<u64>),
    #[rpc]
    Ask(RpcReplyPort<P<u64>>),
}
remote_message!(Note, "test.logged.Note");

struct Noted;

impl Actor for Noted {
    type Msg = Note;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Note>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

async fn noted() -> ActorRef<Note> {
    Actor::spawn(None, Noted, ()).await.unwrap().0
}

/// A field of each event whose message begins so.
fn said(log: &Listening, message: &str, field: &str) -> Vec<String> {
    let begins = |event: &std::collections::BTreeMap<String, String>| event["message"].starts_with(message);
    log.all().into_iter().filter(begins).map(|event| event[field].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_link_is_said_with_its_reason() {
    let log = Listening::to("callsign_transport");
    let Linked { a, b: _b, mut events, .. } = linked_over(&memory(Carrier::Connection).1).await;
    a.forget("b");
    let (_, _, reason) = down(&mut events).await;
    assert_eq!(said(&log, &format!("the link is down: {reason}"), "peer")[0], "b@2");
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_sends_to_actors_that_it_cannot_reach_is_said_ever_more_rarely() {
    let log = Listening::to("callsign_transport");
    let Linked { a, b, .. } = linked_over(&memory(Carrier::Connection).1).await;
    let address = a.address_of(&noted().await);
    for n in 0..20 {
        b.resolve::<Note>(&altered(&address, |it| it.pid = (1 << 40) + n)).unwrap();
    }
    let refused = || a.refusal_counts().get("no-such-actor").copied() == Some(20);
    until("all are refused", || refused().then_some(())).await;
    let text = "a message was for an actor that peers cannot reach";
    assert_eq!(said(&log, text, "count"), ["1", "2", "4", "8", "16"]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_refused_are_said_ever_more_rarely() {
    let log = Listening::to("callsign_transport");
    let (_, network) = memory(Carrier::Connection);
    let mut none = config("a", 1, &network);
    none.limits.open_calls = 1024;
    let Linked { a, b, .. } = linked(none, config("b", 2, &network)).await;
    let remote: ActorRef<Note> = b.resolve(&a.address_of(&noted().await)).unwrap();
    for _ in 0..20 {
        let answer = remote.call(Note::Ask, None).await.unwrap();
        assert!(!answer.is_success());
    }
    assert_eq!(said(&log, "call refused", "count"), ["1", "2", "4", "8", "16"]);
}

#[tokio::test(start_paused = true)]
async fn messages_that_found_no_room_are_counted_and_said_ever_more_rarely() {
    let log = Listening::to("callsign_transport");
    let (faults, network) = memory(Carrier::Connection);
    let mut small = config("b", 2, &network);
    (small.limits.frame, small.limits.control_queue) = (1024, 1024);
    let Linked { a, b, to_a, .. } = linked(config("a", 1, &network), small).await;
    let remote: ActorRef<Note> =
        b.resolve_live(&a.address_of(&noted().await), Duration::from_secs(60)).await.unwrap();
    faults.hold(b.local_addr(), a.local_addr());
    while b.send(to_a, Lane::Control, CHANNEL, vec![0; 500].into()).is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(b.links()[0].dropped, 0);
    for n in 0..100 {
        remote.cast(Note::Word(P(n))).unwrap();
    }
    remote.drain().unwrap();
    remote.wait(None).await.unwrap();
    let dropped = said(&log, "message to a remote actor dropped", "dropped");
    let powers: Vec<_> = (0..dropped.len()).map(|n| (1_u64 << n).to_string()).collect();
    assert!(dropped.len() > 4 && dropped == powers, "{dropped:?}");
    let all = b.links()[0].dropped;
    assert!(all <= 100 && all.ilog2() as usize + 1 == dropped.len(), "{all}");
    assert_eq!(a.address_of(&remote).kind, Kind::of("test.logged.Note"));
}
