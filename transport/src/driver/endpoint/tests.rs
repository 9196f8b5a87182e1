use bytes::Bytes;
use futures::FutureExt;

use super::*;
use crate::{
    LinkEvent, Secret,
    driver::{
        handle::tests::idle,
        net::{memory::MemoryNetwork, network::Network},
    },
};

async fn start(node: &str, network: &MemoryNetwork) -> Endpoint {
    let mut config = EndpointConfig::new("prod", node, 1, "127.0.0.1:0".parse().unwrap());
    config.network = Network::Memory(network.clone());
    Endpoint::start(config).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_the_handshakes_that_are_over() {
    let network = MemoryNetwork::new();
    let (a, b) = (start("a", &network).await, start("b", &network).await);
    b.set_peers(vec![("a".into(), a.local_addr().to_string())]);
    for _ in 0..3 {
        while b.link_to("a").is_none() || a.link_to("b").is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(read(&a.inner.state).pending.is_empty(), "a handshake that ended well");
        assert_eq!(a.inner.reach.count(), 1, "and nothing of the links before it");
        a.forget("b");
    }
    assert_eq!(a.inner.reach.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn links_are_numbered_listed_and_ended_in_the_order_in_which_they_began() {
    let network = MemoryNetwork::new();
    let a = start("a", &network).await;
    let mut events = a.subscribe("names");
    let mut others = Vec::new();
    for name in ["b", "c", "d", "e", "f", "g", "h", "i"] {
        let other = start(name, &network).await;
        other.set_peers(vec![("a".into(), a.local_addr().to_string())]);
        assert!(matches!(events.recv().await, Some(LinkEvent::Up { .. })));
        others.push(other);
    }
    let expected: Vec<_> = (1..=8).map(LinkId).collect();
    assert_eq!(a.links().iter().map(|status| status.link).collect::<Vec<_>>(), expected);
    drop(a);
    let mut ended = Vec::new();
    while let Some(LinkEvent::Down { link, .. }) = events.recv().await {
        ended.push(link);
    }
    assert_eq!(ended, expected);
}

#[tokio::test]
async fn links_are_written_to_once_the_first_was_and_if_that_cannot_be_now() {
    let network = MemoryNetwork::new();
    let a = start("a", &network).await;
    let mut events = a.subscribe("names");
    let (mut peers, mut links, mut heard) = (Vec::new(), Vec::new(), Vec::new());
    for name in ["b", "c"] {
        let peer = start(name, &network).await;
        heard.push(peer.subscribe("names"));
        peer.set_peers(vec![("a".into(), a.local_addr().to_string())]);
        let Some(LinkEvent::Up { link, .. }) = events.recv().await else { panic!("no link") };
        links.push(link);
        peers.push(peer);
    }
    let [b, c] = [links[0], links[1]];
    let handles = [b, c].map(|link| a.inner.handles.get(&link).unwrap().clone());
    let arrives = async |heard: &mut LinkEvents| {
        while !matches!(heard.recv().await, Some(LinkEvent::Message { .. })) {}
    };
    let post = |link| a.post(link, Lane::Control, "names", Bytes::from_static(b"x")).unwrap();

    // Both that are told, in either order.
    for (first, other) in [(b, c), (c, b)] {
        post(first);
        post(other);
        a.flush_first(first, &[other]);
        for heard in &mut heard {
            arrives(heard).await;
        }
    }
    // The other is told when the first has had its turn, and not before.
    let ended = handles[1].clone();
    a.forget("c");
    while !matches!(events.recv().await, Some(LinkEvent::Down { .. })) {}
    // Its own task waits no more.
    while ended.written.notified().now_or_never().is_some() {}
    handles[0].write_before([ended.clone()].into_iter());
    assert!(ended.written.notified().now_or_never().is_none());
    post(b);
    arrives(&mut heard[0]).await;
    assert!(ended.written.notified().now_or_never().is_some());
    // If the first is gone, the others are told at once.
    post(b);
    ended.write_before([handles[0].clone()].into_iter());
    arrives(&mut heard[0]).await;
    post(b);
    a.flush_first(c, &[b]);
    arrives(&mut heard[0]).await;
    let is_told = || ended.written.notified().now_or_never().is_some();
    // It reads, and may be held up there; then it writes again when it has its turn.
    handles[0].has_written(false);
    handles[0].write_before([ended.clone()].into_iter());
    assert!(is_told());
    handles[0].has_read();
    handles[0].write_before([ended.clone()].into_iter());
    assert!(!is_told());
    // Its task ends before it has written.
    handles[0].has_written(true);
    assert!(is_told());
    handles[0].has_read();
    handles[0].write_before([ended.clone()].into_iter());
    assert!(is_told());
}

#[test]
fn a_node_may_have_so_many_secrets_and_no_more() {
    let keys = |count| Keys { secrets: vec![Secret::new([7; 32]).unwrap(); count], tls: None };
    assert_eq!(check_keys(&keys(MAX_SECRETS), "prod", "a"), Ok(()));
    let count = MAX_SECRETS + 1;
    assert_eq!(check_keys(&keys(count), "prod", "a"), Err(KeysRefused::TooManySecrets { count }));
}

/// Of each pair, the first is taken and the second is refused, with this text.
type Bound = (&'static str, fn(&mut EndpointConfig), fn(&mut EndpointConfig));

#[test]
fn each_setting_has_its_bounds() {
    const KIB: usize = 1024;
    const GIB: usize = 1 << 30;
    const NONE: Duration = Duration::ZERO;
    const CLOCK_TICK: Duration = Duration::from_nanos(1);
    let bounds: &[Bound] = &[
        (
            "fit into each queue",
            |c| c.limits.control_queue = 4 * KIB,
            |c| c.limits.control_queue = 4 * KIB - 1,
        ),
        ("fit into each queue", |c| c.limits.bulk_queue = 4 * KIB, |c| c.limits.bulk_queue = 4 * KIB - 1),
        ("1 KiB to 1 GiB", |c| c.limits.frame = KIB, |c| c.limits.frame = KIB - 1),
        ("1 KiB to 1 GiB", |c| c.limits.frame = GIB, |c| c.limits.frame = GIB + 1),
        (
            "one connection of a stranger",
            |c| c.limits.unauthenticated_per_address = 1,
            |c| c.limits.unauthenticated_per_address = 0,
        ),
        (
            "one connection of a stranger",
            |c| c.limits.reserved = c.limits.unauthenticated - 1,
            |c| c.limits.reserved = c.limits.unauthenticated,
        ),
        ("one message", |c| c.limits.inbox = KIB, |c| c.limits.inbox = KIB - 1),
        (
            "some handshakes a second",
            |c| c.limits.handshakes_per_second = 1,
            |c| c.limits.handshakes_per_second = 0,
        ),
        (
            "some bytes a second",
            |c| c.limits.received_per_second = 1024,
            |c| c.limits.received_per_second = 1023,
        ),
        ("some calls", |c| c.limits.open_calls = KIB, |c| c.limits.open_calls = KIB - 1),
        ("room for a reference", |c| c.limits.references = 1, |c| c.limits.references = 0),
        ("room for a link", |c| c.limits.links = 1, |c| c.limits.links = 0),
        ("pings", |c| c.timing.ping = CLOCK_TICK, |c| c.timing.ping = NONE),
        (
            "pings",
            |c| c.timing.ping = c.timing.silence.saturating_sub(CLOCK_TICK),
            |c| c.timing.ping = c.timing.silence,
        ),
        ("redialling", |c| c.timing.redial_min = CLOCK_TICK, |c| c.timing.redial_min = NONE),
        ("redialling", |c| c.timing.handshake = CLOCK_TICK, |c| c.timing.handshake = NONE),
        ("a year", |c| c.timing.handshake = LONGEST, |c| c.timing.handshake = LONGEST + CLOCK_TICK),
        ("a year", |c| c.timing.silence = LONGEST, |c| c.timing.silence = LONGEST + CLOCK_TICK),
        ("a year", |c| c.timing.redial_min = LONGEST, |c| c.timing.redial_min = LONGEST + CLOCK_TICK),
        ("a year", |c| c.timing.redial_max = LONGEST, |c| c.timing.redial_max = LONGEST + CLOCK_TICK),
        ("a year", |c| c.timing.leave = LONGEST, |c| c.timing.leave = Duration::MAX),
        ("a year", |c| c.timing.leave = LONGEST, |c| c.timing.leave = LONGEST + CLOCK_TICK),
    ];
    for (n, (text, taken, refused)) in bounds.iter().enumerate() {
        let with = |change: fn(&mut EndpointConfig)| {
            let mut config = EndpointConfig::new("prod", "a", 1, "127.0.0.1:0".parse().unwrap());
            config.limits.frame = 4 * KIB;
            config.limits.control_queue = GIB + 1;
            config.limits.bulk_queue = GIB + 1;
            change(&mut config);
            check(&config)
        };
        with(*taken).unwrap_or_else(|error| panic!("{n}: {error}"));
        let why = with(*refused).expect_err(text);
        assert!(
            matches!(why, StartError::BadSettings { .. }) && why.to_string().contains(text),
            "{n}: {why}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_dialled_connection_was_given_up_before_it_was_a_link_is_dialled_again() {
    let network = MemoryNetwork::new();
    let (a, b) = (start("a", &network).await, start("b", &network).await);
    network.hold(b.local_addr(), a.local_addr());
    b.set_peers(vec![("a".into(), a.local_addr().to_string())]);
    let next_dial = || read(&b.inner.state).links.next_wake();
    let dialled = async {
        while next_dial().is_some() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), dialled).await.unwrap();
    b.inner.lost(LinkId(99), a.inner.me.clone(), false);
    assert_eq!(next_dial(), None, "one that was accepted has nothing to do with the one that is dialled");
    b.inner.lost(LinkId(99), a.inner.me.clone(), true);
    assert!(next_dial().is_some());
}

#[tokio::test]
async fn what_was_posted_waits_for_its_flush_which_comes_though_the_link_before_it_is_gone() {
    let a = start("a", &MemoryNetwork::new()).await;
    let link = idle(7, Duration::ZERO).await;
    a.inner.handles.insert(link.id, link.clone());
    let is_told = || link.written.notified().now_or_never().is_some();
    a.post(link.id, Lane::Control, "names", Bytes::from_static(b"x")).unwrap();
    assert!(!is_told());
    a.flush_first(LinkId(8), &[link.id]);
    assert!(is_told());
    a.flush(link.id);
    assert!(is_told());
    a.flush_first(link.id, &[LinkId(8)]);
    assert!(is_told());
}
