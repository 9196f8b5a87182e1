//! Up, messages, Down: over TCP and over memory, under load, across reconnects.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests wait, and may panic

use std::{collections::BTreeMap, time::Duration};

use crate::support::*;
use bytes::Bytes;
use callsign_transport::{
    Carrier, DownReason, Endpoint, Lane, LinkEvent, LinkEvents, LinkId, LinkLimits, PeerId, SendError,
};

const MESSAGES: u64 = 20_000;

/// Reads until the stream ends or `MESSAGES` came; panics when the order is wrong.
async fn read_in_order(mut events: LinkEvents) -> u64 {
    let mut linked: Option<LinkId> = None;
    let (mut expected, mut batch) = (0, Vec::new());
    while expected < MESSAGES && events.recv_many(&mut batch, 256).await > 0 {
        for event in batch.drain(..) {
            match event {
                LinkEvent::Up { link, .. } => assert_eq!(linked.replace(link), None),
                LinkEvent::Message { link, body, .. } => {
                    assert_eq!(linked, Some(link));
                    assert_eq!(number(&body), expected);
                    expected += 1;
                }
                LinkEvent::Down { link, .. } => assert_eq!(linked.take(), Some(link)),
            }
        }
    }
    expected
}

/// Sends all messages; waits where the queue is full.
async fn send_all(from: &Endpoint, link: LinkId, channel: &str) {
    for n in 0..MESSAGES {
        let mut body = n.to_be_bytes().to_vec();
        body.resize(8 + usize::try_from(n % 100).unwrap(), 0);
        let body = Bytes::from(body);
        while let Err(error) = from.send(link, Lane::Control, channel, body.clone()) {
            assert!(matches!(error, SendError::QueueFull { .. }), "{error}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn two_channels_both_ways(network: Over) {
    let (a, b) = pair(&network).await;
    let early = [a.subscribe("one"), a.subscribe("two")];
    let (to_a, to_b) = (link(&b, &a).await, link(&a, &b).await);
    let late = [b.subscribe("one"), b.subscribe("two")];
    let readers: Vec<_> = early.into_iter().chain(late).map(|e| tokio::spawn(read_in_order(e))).collect();
    tokio::join!(
        send_all(&b, to_a, "one"),
        send_all(&b, to_a, "two"),
        send_all(&a, to_b, "one"),
        send_all(&a, to_b, "two")
    );
    for reader in readers {
        assert_eq!(reader.await.unwrap(), MESSAGES);
    }
}

async fn every_channel_is_in_order_over_tcp(carrier: Carrier) {
    two_channels_both_ways(tcp(carrier)).await;
}

async fn every_channel_is_in_order_over_memory_under_a_paused_clock(carrier: Carrier) {
    two_channels_both_ways(memory(carrier).1).await;
}

async fn a_late_reader_hears_of_the_links_that_are_up(carrier: Carrier) {
    let (a, b) = pair(&memory(carrier).1).await;
    let id = link(&a, &b).await;
    assert_eq!(up(&mut a.subscribe("late")).await, (PeerId::new("b", 2), id));
}

async fn a_link_that_is_cut_goes_down_once_and_the_next_comes_after_it(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let (a, b) = pair(&network).await;
    let mut events = a.subscribe(CHANNEL);
    let mut links = Vec::new();
    for round in 0..20_u64 {
        let (peer, id) = up(&mut events).await;
        assert_eq!(peer, *b.peer_id());
        links.push(id);
        let to_a = link(&b, &a).await;
        for n in 0..100_u64 {
            b.send(to_a, Lane::Control, CHANNEL, (round * 100 + n).to_be_bytes().to_vec().into()).unwrap();
        }
        assert_eq!(number(&message(&mut events).await), round * 100, "the first of this link");
        faults.cut(address(&a), address(&b));
        let mut last = round * 100;
        let reason = loop {
            match next(&mut events).await {
                LinkEvent::Message { link, body, .. } => {
                    assert_eq!((link, number(&body)), (id, last + 1));
                    last += 1;
                }
                LinkEvent::Down { link, reason, .. } => {
                    assert_eq!(link, id);
                    break reason;
                }
                LinkEvent::Up { .. } => panic!("up before down"),
            }
        };
        assert_eq!(reason, DownReason::Closed);
        assert_eq!(control(&b, to_a, "late").and(Ok(())), control(&b, to_a, "late"), "an answer either way");
        faults.heal(address(&a), address(&b));
    }
    links.dedup();
    assert_eq!(links.len(), 20, "link numbers are not used twice");
}

/// The table takes a link down while its reader is in the middle of what it brought.
async fn nothing_of_a_link_comes_after_its_end_however_much_is_under_way(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (mut a, mut b) = (config("a", 1, &network), config("b", 2, &network));
    a.keys.secrets.clear();
    b.keys.secrets.clear();
    a.limits.inbox = 512 << 10;
    b.limits.control_queue = 4 << 20; // the largest message, no more
    let (a, b) = (start(a).await, start(b).await);
    dial(&b, &[&a]);
    let mut events = a.subscribe(CHANNEL);
    let flood = tokio::spawn({
        let b = b.clone();
        async move {
            let mut n = 0_u64;
            loop {
                let Some((to_a, _)) = b.link_to("a") else {
                    tokio::task::yield_now().await;
                    continue;
                };
                if b.send(to_a, Lane::Control, CHANNEL, n.to_be_bytes().to_vec().into()).is_err() {
                    tokio::task::yield_now().await;
                }
                n += 1;
            }
        }
    });
    let (mut linked, mut ended, mut seen, mut batch) = (None, 0, 0, Vec::new());
    // The flood leaves a `NodeServer` little time to make the next session.
    let rounds = if carrier == Carrier::Connection { 20 } else { 5 };
    while ended < rounds {
        events.recv_many(&mut batch, 256).await;
        for event in batch.drain(..) {
            match event {
                LinkEvent::Up { link, .. } => {
                    assert_eq!(linked.replace(link), None);
                    seen = 0;
                }
                LinkEvent::Message { link, .. } => {
                    assert_eq!(linked, Some(link));
                    seen += 1;
                    if seen == 200 {
                        a.forget("b");
                    }
                }
                LinkEvent::Down { link, .. } => {
                    assert_eq!(linked.take(), Some(link));
                    ended += 1;
                }
            }
        }
    }
    flood.abort();
}

async fn goodbye_comes_after_everything_that_was_queued(carrier: Carrier) {
    let Linked { a, b, mut events, to_a, .. } = linked_over(&memory(carrier).1).await;
    let mut own = b.subscribe(CHANNEL);
    up(&mut own).await;
    b.send(to_a, Lane::Bulk, CHANNEL, vec![7; 3 << 20].into()).unwrap();
    for n in 0..10_000_u64 {
        b.send(to_a, Lane::Control, CHANNEL, n.to_be_bytes().to_vec().into()).unwrap();
    }
    let leaving = tokio::spawn({
        let b = b.clone();
        async move { b.leave().await }
    });
    let mut seen = BTreeMap::new();
    let reason = loop {
        match next(&mut events).await {
            LinkEvent::Message { body, .. } => *seen.entry(body.len()).or_insert(0) += 1,
            LinkEvent::Down { reason, .. } => break reason,
            LinkEvent::Up { .. } => panic!("up twice"),
        }
    };
    assert_eq!(reason, DownReason::Goodbye);
    assert_eq!(seen, BTreeMap::from([(8, 10_000), (3 << 20, 1)]));
    leaving.await.unwrap();
    assert_eq!(down(&mut own).await.2, DownReason::Left);
    assert_eq!(own.recv().await, None, "the streams of a node that left end");
    assert!(a.link_to("b").is_none() && b.links().is_empty());
    assert_eq!(control(&b, to_a, "late"), Err(SendError::NotUp { link: to_a }));
}

async fn goodbye_over_tcp_loses_nothing(carrier: Carrier) {
    let Linked { a, b, mut events, to_a, .. } = linked_over(&tcp(carrier)).await;
    // The other direction is busy too: unread bytes at a close would reset the connection.
    let to_b = link(&a, &b).await;
    for n in 0..2_000_u64 {
        b.send(to_a, Lane::Control, CHANNEL, n.to_be_bytes().to_vec().into()).unwrap();
        a.send(to_b, Lane::Control, CHANNEL, n.to_be_bytes().to_vec().into()).unwrap();
    }
    b.leave().await;
    for n in 0..2_000 {
        assert_eq!(number(&message(&mut events).await), n);
    }
    assert_eq!(down(&mut events).await.2, DownReason::Goodbye);
}

async fn dropping_an_endpoint_looks_like_a_crash(carrier: Carrier) {
    let (a, b) = pair(&memory(carrier).1).await;
    let mut events = a.subscribe(CHANNEL);
    link(&b, &a).await;
    up(&mut events).await;
    drop(b);
    assert_eq!(down(&mut events).await.2, DownReason::Closed);
}

async fn a_reader_that_comes_after_the_end_is_told_that_nothing_will_come(carrier: Carrier) {
    let (a, b) = pair(&memory(carrier).1).await;
    link(&b, &a).await;
    a.leave().await;
    let mut events = a.subscribe(CHANNEL);
    let told = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
    assert_eq!(told.expect("it waits for ever"), None);
}

async fn a_slow_reader_holds_its_link_back_and_loses_nothing_nor_is_anybody_declared_dead(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let limits = LinkLimits::default().with(|limits| {
        (limits.inbox, limits.control_queue, limits.frame) = (64 << 10, 64 << 10, 32 << 10);
    });
    let mut ends = Vec::new();
    for (node, incarnation) in [("a", 1), ("b", 2)] {
        let mut config = config(node, incarnation, &network);
        config.limits = limits;
        ends.push(start(config).await);
    }
    let (a, b) = (&ends[0], &ends[1]);
    dial(b, &[a]);
    let mut events = a.subscribe(CHANNEL);
    let to_a = link(b, a).await;
    let mut sent = 0_u64;
    // Until everything on the way is full, and for much longer than the silence limit after that.
    for _ in 0..2000 {
        match b.send(to_a, Lane::Control, CHANNEL, [&sent.to_be_bytes()[..], &[0; 992]].concat().into()) {
            Ok(()) => sent += 1,
            Err(SendError::QueueFull { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < 500, "{sent} messages of 1 KiB found room");
    assert_eq!(link(b, a).await, to_a);
    up(&mut events).await;
    for n in 0..sent {
        assert_eq!(number(&message(&mut events).await), n);
    }
}

async fn a_reader_that_goes_away_holds_nobody_back(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let mut small = config("a", 1, &network);
    small.limits.inbox = 4 << 10;
    let (a, b) = (start(small).await, start(config("b", 2, &network)).await);
    dial(&b, &[&a]);
    let to_a = link(&b, &a).await;
    let sleeper = a.subscribe("sleeper");
    let mut events = a.subscribe(CHANNEL);
    up(&mut events).await;
    for _ in 0..100 {
        b.send(to_a, Lane::Control, "sleeper", Bytes::from_static(b"x")).unwrap();
    }
    control(&b, to_a, "behind them").unwrap();
    assert!(
        tokio::time::timeout(Duration::from_secs(30), events.recv()).await.is_err(),
        "the link waits for the sleeper"
    );
    drop(sleeper);
    assert_eq!(&message(&mut events).await[..], b"behind them");
}

async fn a_control_message_overtakes_the_bulk_that_was_queued_before_it(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let Linked { a, b, mut events, to_a, .. } = linked_over(&network).await;
    faults.hold(address(&b), address(&a));
    for _ in 0..4 {
        b.send(to_a, Lane::Bulk, CHANNEL, vec![1; 1 << 20].into()).unwrap();
    }
    // Let the writer fill all that the network holds.
    tokio::time::sleep(Duration::from_millis(100)).await;
    control(&b, to_a, "urgent").unwrap();
    faults.heal(address(&a), address(&b));
    assert_eq!(&message(&mut events).await[..], b"urgent");
    for _ in 0..4 {
        assert_eq!(message(&mut events).await.len(), 1 << 20);
    }
}

async fn a_message_of_the_greatest_length_passes_and_a_greater_is_refused_at_the_sender(carrier: Carrier) {
    let Linked { a: _a, b, mut events, to_a, .. } = linked_over(&memory(carrier).1).await;
    for lane in [Lane::Control, Lane::Bulk] {
        let limit = LinkLimits::default().frame;
        let refused = b.send(to_a, lane, CHANNEL, vec![0; limit].into());
        assert!(matches!(refused, Err(SendError::TooLarge { .. })), "{refused:?}");
        b.send(to_a, lane, CHANNEL, vec![0; limit - 200].into()).unwrap();
        assert_eq!(message(&mut events).await.len(), limit - 200);
    }
}

#[tokio::test(start_paused = true)]
async fn leaving_is_done_as_soon_as_the_peers_have_closed() {
    let (a, b) = pair(&memory(Carrier::Connection).1).await;
    tokio::join!(link(&a, &b), link(&b, &a));
    let begun = tokio::time::Instant::now();
    b.leave().await;
    assert!(begun.elapsed() < Duration::from_secs(1), "in {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_was_posted_is_written_when_it_is_flushed() {
    let Linked { a: _a, b, mut events, to_a, .. } = linked_over(&memory(Carrier::Connection).1).await;
    b.post(to_a, Lane::Control, CHANNEL, Bytes::from_static(b"posted")).unwrap();
    b.flush(to_a);
    // The next ping would take it along, later.
    let came = tokio::time::timeout(Duration::from_millis(100), message(&mut events)).await;
    assert_eq!(&came.expect("nobody writes it")[..], b"posted");
}

suite! {
    paused: [
        every_channel_is_in_order_over_memory_under_a_paused_clock,
        a_late_reader_hears_of_the_links_that_are_up,
        a_link_that_is_cut_goes_down_once_and_the_next_comes_after_it,
        goodbye_comes_after_everything_that_was_queued,
        dropping_an_endpoint_looks_like_a_crash,
        a_reader_that_comes_after_the_end_is_told_that_nothing_will_come,
        a_slow_reader_holds_its_link_back_and_loses_nothing_nor_is_anybody_declared_dead,
        a_reader_that_goes_away_holds_nobody_back,
        a_control_message_overtakes_the_bulk_that_was_queued_before_it,
        a_message_of_the_greatest_length_passes_and_a_greater_is_refused_at_the_sender,
    ];
    threads: [
        every_channel_is_in_order_over_tcp,
        nothing_of_a_link_comes_after_its_end_however_much_is_under_way,
    ];
    real: [
        goodbye_over_tcp_loses_nothing,
    ];
}
