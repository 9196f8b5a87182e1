//! Checks of what certificates let nodes do.

use callsign::{
    RegisterError,
    cores::{Answer, Op},
};
use callsign_sim::{
    oracle::Check,
    world::{Action, Want},
};
use callsign_transport::Permits;

use super::{Scene, register};
use crate::cluster::frames;

impl Scene {
    /// Three nodes at rest. The one at `who` has this certificate, and what it had before does not count any more.
    fn certified(who: impl Fn(&Self) -> u8, permits: &str) -> Self {
        let mut scene = Self::new();
        let node = who(&scene);
        let permits = Permits::read(permits).unwrap();
        scene.cluster.must(&Action::Certify { node, permits });
        scene.cluster.rest();
        scene.cluster.world.begins_with_its_certificates();
        scene
    }

    /// A node says that its certificate is in the way of what it was asked for last.
    fn refuses(&mut self, node: u8, name: &str) {
        let call = *self.cluster.world.asked.keys().next_back().unwrap();
        let error = RegisterError::NotPermitted { name: name.to_owned(), allowed: Vec::new() };
        let effect = callsign::cores::Effect::Answer { call, answer: Answer::Registered(Err(error)) };
        self.parts(node).core.forge([effect]);
    }
}

/// The operation of [`register`], for the scene's host.
fn register_for_host(name: u8) -> Op {
    match register(name, 900) {
        Op::Register { name, request, actor, kind, meta, .. } => {
            Op::Register { name, session: 0, request, actor, kind, meta }
        }
        op => op,
    }
}

#[test]
fn a_name_that_no_certificate_allows_fires() {
    let mut scene = Scene::certified(|scene| scene.host, "names=n0&names=n7");
    scene.ops(vec![register_for_host(8)]);
    scene.fires(Check::Permitted);

    // The one before it counts until the cluster has come to rest. What is allowed is nothing to this check.
    let mut scene = Scene::certified(|scene| scene.host, "names=n0&names=n8");
    let permits = Permits::read("names=n0&names=n7").unwrap();
    scene.cluster.must(&Action::Certify { node: scene.host, permits });
    scene.ops(vec![register_for_host(8)]);
    scene.fires(Check::OwnEpoch);
}

#[test]
fn the_election_of_a_barred_node_fires() {
    let mut scene = Scene::certified(|scene| scene.other, "lead=no");
    scene.seat(&scene.cluster.row(scene.other).unwrap());
    scene.fires(Check::MayLead);

    // The one before it let it lead.
    let mut scene = Scene::certified(|scene| scene.other, "names=n");
    scene.cluster.must(&Action::Certify { node: scene.other, permits: Permits::read("lead=no").unwrap() });
    scene.seat(&scene.cluster.row(scene.other).unwrap());
    assert_eq!(scene.cluster.world.oracle.violation(), None);
}

#[test]
fn a_refusal_by_a_certificate_that_allows_the_name_fires() {
    for permits in ["", "names=n0&names=n5"] {
        let mut scene = Scene::new();
        if !permits.is_empty() {
            scene = Scene::certified(|scene| scene.host, permits);
        }
        scene.asks(scene.host, Want::Register { name: 5, stops: false });
        scene.refuses(scene.host, "n5");
        scene.cluster.until_fired();
        scene.fires(Check::NotPermitted);
    }

    // It is in the way of another name.
    let mut scene = Scene::certified(|scene| scene.host, "names=n0");
    let (host, leader) = (scene.host, scene.leader);
    scene.cluster.hold(frames(host, leader));
    let call = scene.cluster.register(host, 5);
    scene.refuses(host, "n5");
    scene.cluster.until("an answer", |cluster| cluster.outcome(call).is_some());
}
