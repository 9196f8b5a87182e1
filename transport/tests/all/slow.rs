//! Readers that are slow and peers that stop: what is delivered, and who is noticed to be silent.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests wait, and may panic

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::support::*;
use bytes::Bytes;
use callsign_transport::{
    Carrier, DownReason, Endpoint, Lane, LinkEvent, LinkEvents, LinkId, LinkLimits, SendError, Tasks,
};

/// Many times what a small inbox holds.
const MESSAGES: u64 = 200;

/// "a", whose readers have room for four messages, and "b", which dials it.
async fn narrow_pair(network: &Over) -> (Endpoint, Endpoint) {
    let mut narrow = config("a", 1, network);
    narrow.limits.inbox = 4 << 10;
    let (a, b) = (start(narrow).await, start(config("b", 2, network)).await);
    dial(&b, &[&a]);
    (a, b)
}

fn send_numbers(from: &Endpoint, link: LinkId) {
    for n in 0..MESSAGES {
        from.send(link, Lane::Control, CHANNEL, n.to_be_bytes().to_vec().into()).unwrap();
    }
}

async fn read_numbers(events: &mut LinkEvents) {
    for n in 0..MESSAGES {
        assert_eq!(number(&message(events).await), n, "each message once, in order");
    }
}

/// The link waits for its reader for many times the silence limit, and is up all the while.
async fn is_held_back(a: &Endpoint, link: LinkId) {
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(a.link_to("b").map(|(link, _)| link), Some(link));
}

async fn a_peer_that_falls_silent_after_a_slow_reader_caught_up_is_noticed(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let (a, b) = narrow_pair(&network).await;
    let mut events = a.subscribe(CHANNEL);
    let (to_a, to_b) = (link(&b, &a).await, link(&a, &b).await);
    up(&mut events).await;
    send_numbers(&b, to_a);
    is_held_back(&a, to_b).await;
    read_numbers(&mut events).await;
    faults.hold(address(&b), address(&a));
    assert_eq!(down(&mut events).await.2, DownReason::Silent);
}

async fn a_slow_way_delivers_all_in_order_and_late(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let Linked { a, b, mut events, to_a, to_b } =
        linked(config("a", 1, &network), config("b", 2, &network)).await;
    faults.slow(address(&b), address(&a), Duration::from_millis(20), 256);
    let begun = tokio::time::Instant::now();
    send_numbers(&b, to_a);
    read_numbers(&mut events).await;
    assert!(begun.elapsed() >= Duration::from_millis(200), "in {:?}", begun.elapsed());
    assert_eq!(a.link_to("b").map(|(link, _)| link), Some(to_b), "a slow link is no silent one");
    faults.heal(address(&a), address(&b));
    let begun = tokio::time::Instant::now();
    send_numbers(&b, to_a);
    read_numbers(&mut events).await;
    assert!(begun.elapsed() < Duration::from_millis(100), "in {:?}", begun.elapsed());
}

async fn a_peer_that_falls_silent_after_it_sent_too_fast_is_noticed(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let mut slow = config("a", 1, &network);
    slow.limits.received_per_second = 64 << 10;
    let Linked { a, b, mut events, to_a, .. } = linked(slow, config("b", 2, &network)).await;
    // For some seconds longer than the silence limit.
    for _ in 0..40 {
        b.send(to_a, Lane::Control, CHANNEL, vec![0; 16 << 10].into()).unwrap();
    }
    for _ in 0..40 {
        message(&mut events).await;
    }
    faults.hold(address(&b), address(&a));
    assert_eq!(down(&mut events).await.2, DownReason::Silent);
}

async fn a_peer_that_sends_too_fast_is_not_called_silent_while_it_is_not_read(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let mut slow = config("a", 1, &network);
    slow.limits.received_per_second = 1 << 10;
    let Linked { a, b, mut events, to_a, to_b } = linked(slow, config("b", 2, &network)).await;
    for n in 0..5_u64 {
        let body = [&n.to_be_bytes()[..], &[0; 16 << 10]].concat();
        b.send(to_a, Lane::Control, CHANNEL, body.into()).unwrap();
    }
    // What came at once is more than may come in many times the silence limit.
    is_held_back(&a, to_b).await;
    for n in 0..5 {
        assert_eq!(number(&message(&mut events).await), n);
    }
}

async fn a_peer_that_stops_is_noticed_while_a_write_to_it_blocks(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    // One that stops does not close its end either.
    let mut stopped = config("b", 2, &network);
    stopped.timing.silence = Duration::from_secs(3600);
    let Linked { a, b, mut events, to_b, .. } = linked(config("a", 1, &network), stopped).await;
    faults.hold(address(&a), address(&b));
    faults.hold(address(&b), address(&a));
    // More than the way holds, so that the writer is in the middle of it.
    let limit = LinkLimits::default().control_queue;
    while a.send(to_b, Lane::Control, CHANNEL, vec![0; 64 << 10].into()).is_ok() {}
    until("a write is under way", || (a.links()[0].control_queued < limit - (128 << 10)).then_some(())).await;
    assert_eq!(down(&mut events).await.2, DownReason::Silent);
    assert_eq!(control(&a, to_b, "late"), Err(SendError::NotUp { link: to_b }));
    faults.heal(address(&a), address(&b));
    assert_eq!(up(&mut events).await.0, *b.peer_id(), "and it comes back");
}

async fn two_readers_of_a_channel_get_each_message_once_though_one_of_them_is_slow(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (a, b) = narrow_pair(&network).await;
    // Whoever comes first is served first.
    for slow_is_first in [false, true] {
        let mut readers = [a.subscribe(CHANNEL), a.subscribe(CHANNEL)];
        let (to_a, to_b) = (link(&b, &a).await, link(&a, &b).await);
        let [first, second] = &mut readers;
        up(first).await;
        up(second).await;
        let (fast, slow) = if slow_is_first { (second, first) } else { (first, second) };
        send_numbers(&b, to_a);
        let slowly = async {
            is_held_back(&a, to_b).await;
            read_numbers(slow).await;
        };
        tokio::join!(read_numbers(fast), slowly);
        b.send(to_a, Lane::Control, CHANNEL, Bytes::from_static(b"the end")).unwrap();
        assert_eq!((&message(fast).await[..], &message(slow).await[..]), (&b"the end"[..], &b"the end"[..]));
    }
}

async fn leaving_ends_in_time_though_a_peer_has_stopped(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let (a, b) = pair(&network).await;
    let to_b = link(&a, &b).await;
    faults.hold(address(&a), address(&b));
    faults.hold(address(&b), address(&a));
    control(&a, to_b, "last words").unwrap();
    let left = tokio::time::timeout(Duration::from_secs(60), a.leave()).await;
    assert!(left.is_ok(), "it leaves for ever");
}

/// Starts the tasks of an endpoint, and counts those that have this in their names and are not over.
pub(crate) fn counted(part: &'static str) -> (Tasks, Arc<AtomicUsize>) {
    let (runtime, tasks) = (tokio::runtime::Handle::current(), Arc::new(AtomicUsize::new(0)));
    let count = tasks.clone();
    let starts = Tasks::started_by(move |what, work| {
        let (count, one) = (count.clone(), usize::from(what.contains(part)));
        runtime.spawn(async move {
            count.fetch_add(one, SeqCst);
            work.await;
            count.fetch_sub(one, SeqCst);
        });
    });
    (starts, tasks)
}

async fn nothing_is_left_of_a_link_to_a_peer_that_stopped(carrier: Carrier) {
    for writes in [false, true] {
        let (faults, network) = memory(carrier);
        let mut stopped = config("b", 2, &network);
        stopped.timing.silence = Duration::from_secs(3600);
        let (mut counting, (tasks, links)) = (config("a", 1, &network), counted("link that"));
        counting.tasks = tasks;
        let (a, b) = (start(counting).await, start(stopped).await);
        dial(&b, &[&a]);
        let mut events = a.subscribe(CHANNEL);
        let to_b = link(&a, &b).await;
        up(&mut events).await;
        faults.hold(address(&a), address(&b));
        faults.hold(address(&b), address(&a));
        while writes && a.send(to_b, Lane::Control, CHANNEL, vec![0; 64 << 10].into()).is_ok() {}
        assert_eq!(down(&mut events).await.2, DownReason::Silent);
        until("its task is over", || (links.load(SeqCst) == 0).then_some(())).await;
    }
}

async fn the_room_of_a_message_that_was_not_delivered_is_given_back(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (a, b) = narrow_pair(&network).await;
    let mut events = a.subscribe(CHANNEL);
    // Many times, since what a link that ends sees first is not determined.
    for _ in 0..40 {
        let (_, to_b) = up(&mut events).await;
        let to_a = link(&b, &a).await;
        send_numbers(&b, to_a);
        is_held_back(&a, to_b).await;
        // There is room at once, and nobody to have it.
        message(&mut events).await;
        a.forget("b");
        while !matches!(next(&mut events).await, LinkEvent::Down { .. }) {}
    }
}

#[tokio::test(start_paused = true)]
async fn last_words_reach_a_peer_that_reads_again_in_time() {
    let (faults, network) = memory(Carrier::Connection);
    let (a, b) = pair(&network).await;
    let mut at_b = b.subscribe("links");
    let to_b = link(&a, &b).await;
    up(&mut at_b).await;
    faults.hold(address(&a), address(&b));
    // More than the way holds, so that the writer is in the middle of it.
    for _ in 0..3 {
        a.send(to_b, Lane::Control, CHANNEL, vec![0; 64 << 10].into()).unwrap();
    }
    until("a write is under way", || (a.links()[0].control_queued == 0).then_some(())).await;
    a.forget("b");
    tokio::time::sleep(Duration::from_secs(1)).await;
    faults.heal(address(&a), address(&b));
    assert_eq!(down(&mut at_b).await.2, DownReason::Forgotten);
}

suite! {
    paused: [
        nothing_is_left_of_a_link_to_a_peer_that_stopped,
        the_room_of_a_message_that_was_not_delivered_is_given_back,
        leaving_ends_in_time_though_a_peer_has_stopped,
        a_slow_way_delivers_all_in_order_and_late,
        a_peer_that_falls_silent_after_a_slow_reader_caught_up_is_noticed,
        a_peer_that_falls_silent_after_it_sent_too_fast_is_noticed,
        a_peer_that_sends_too_fast_is_not_called_silent_while_it_is_not_read,
        a_peer_that_stops_is_noticed_while_a_write_to_it_blocks,
        two_readers_of_a_channel_get_each_message_once_though_one_of_them_is_slow,
    ];
}
