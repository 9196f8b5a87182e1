//! Requests that come late, twice, or from somebody else.

use std::{sync::Arc, time::Duration};

use callsign::cores::{GivenUp, Message, Request, RequestNumber, Wish};
use callsign_sim::{
    oracle::Outcome,
    world::{Action, CoreId, NodeId, name_of},
};
use callsign_store::ids::{Position, SessionId};

use crate::cluster::{Cluster, store_ops};

const SHORTLY_AFTER: Duration = Duration::from_millis(200);

/// A host asks its leader for a name. The call, and what it has sent.
fn asks(cluster: &mut Cluster, host: NodeId, leader: NodeId, name: u8) -> (usize, Message) {
    let call = cluster.register(host, name);
    (call, cluster.requests(host, leader).unwrap())
}

/// What was sent arrives once more, with another number below which everything is acknowledged.
fn again(message: &Message, below: u64) -> Message {
    let mut message = message.clone();
    if let Message::Requests { acknowledged, .. } = &mut message {
        *acknowledged = RequestNumber(below);
    }
    message
}

/// A request that nobody has asked for.
fn forged(cluster: &Cluster, session: SessionId, name: u8, wish: Wish) -> Message {
    let number = RequestNumber(900);
    let requests = vec![Request { number, name: name_of(name), wish }];
    let epoch = cluster.term().epoch;
    Message::Requests { epoch, session: Arc::new(session), acknowledged: number, requests }
}

#[test]
fn an_unregister_frees_only_the_registration_that_it_quotes_and_only_for_its_own_session() {
    let (mut cluster, leader, host, other) = Cluster::of_three();
    let token = cluster.obtain(host, 1);
    cluster.rest();
    for (from, position) in [(host, Position(token.0 - 1)), (other, token)] {
        let message = forged(
            &cluster,
            cluster.session_id(from),
            1,
            Wish::Unregister { position, why: GivenUp::Unregistered },
        );
        cluster.say(from, leader, message);
        cluster.pass(SHORTLY_AFTER);
        assert!(cluster.holder(leader, 1).is_some(), "asked by {from} for {position}");
    }
}

#[test]
fn a_late_copy_of_a_register_does_not_bring_back_a_name_that_was_given_up() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    let (_, sent) = asks(&mut cluster, host, leader, 1);
    cluster.rest();
    assert!(cluster.holder(leader, 1).is_some());
    cluster.unregister(host, 1);
    cluster.rest();
    // Before the host has acknowledged the answer, and after.
    for below in [1, 1, 3, 1] {
        cluster.say(host, leader, again(&sent, below));
        cluster.pass(SHORTLY_AFTER);
        assert!(cluster.holder(leader, 1).is_none());
    }
}

#[test]
fn a_refused_request_that_arrives_again_is_refused_again_although_the_name_is_free_by_now() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    cluster.obtain(leader, 1);
    cluster.rest();
    let (call, sent) = asks(&mut cluster, host, leader, 1);
    cluster.rest();
    assert!(matches!(cluster.outcome(call), Some(Outcome::Taken { .. })));
    cluster.unregister(leader, 1);
    cluster.rest();
    cluster.say(host, leader, sent);
    cluster.pass(SHORTLY_AFTER);
    assert!(cluster.holder(leader, 1).is_none());
}

#[test]
fn a_request_asked_twice_before_it_is_decided_is_decided_once() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    // Another batch is in flight.
    cluster.hold(store_ops(leader, CoreId::Member));
    cluster.register(leader, 2);
    let (call, mut twice) = asks(&mut cluster, host, leader, 1);
    cluster.until("it has arrived", |c| c.arrived(leader, "requests") == 1);
    if let Message::Requests { requests, .. } = &mut twice {
        requests.extend_from_within(..);
        assert_eq!(requests.len(), 2);
    }
    cluster.say(host, leader, twice);
    cluster.release();
    let before = cluster.arrived(host, "verdicts");
    cluster.pass(SHORTLY_AFTER);
    assert_eq!(cluster.arrived(host, "verdicts"), before + 1);
    assert!(cluster.granted(call).is_some());
}

#[test]
fn a_session_that_was_read_closed_is_not_served_any_more() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    cluster.obtain(host, 1);
    cluster.rest();
    let session = cluster.session_id(host);
    cluster.must(&Action::Outage { node: host, is_out: true });
    cluster.until("freed", |c| c.holder(leader, 1).is_none());
    let message = forged(
        &cluster,
        session,
        2,
        Wish::Register { actor: Some(1001), kind: callsign::Kind(7), meta: None },
    );
    cluster.say(host, leader, message);
    cluster.pass(SHORTLY_AFTER);
    assert!(cluster.holder(leader, 2).is_none());
}
