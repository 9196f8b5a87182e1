//! Checks of what callers are told who had a name offered to another node.

use callsign::{
    OfferError,
    cores::{Answer, Effect},
};
use callsign_sim::{
    oracle::Check,
    world::{Action, Setup, Want},
};
use callsign_store::ids::Position;

use super::Scene;
use crate::cluster::{Cluster, SECOND, frames};

impl Scene {
    /// The scene's host is asked to have name 0 taken by another node, and nothing that it says to that one arrives.
    fn offers(&mut self, to: u8) {
        let host = self.host;
        self.cluster.hold(frames(host, to));
        self.cluster.must(&Action::Call { node: host, want: Want::Offer { name: 0, to } });
    }

    /// The host says what became of that.
    fn says(&mut self, answer: Result<Position, OfferError>) {
        let asked = &self.cluster.world.asked;
        let is_its = |(_, asked): &(_, &callsign_sim::world::Asked)| asked.node == self.host;
        let call = *asked.iter().find(is_its).unwrap().0;
        self.parts(self.host).core.forge([Effect::Answer { call, answer: Answer::Offered(answer) }]);
        self.cluster.until_fired();
        self.fires(Check::OfferTold);
    }
}

fn not_here() -> OfferError {
    OfferError::NotHeldHere { name: "n0".to_owned(), holder: None }
}

#[test]
fn what_is_said_of_an_offer_is_what_the_log_says() {
    // It went nowhere: it is still under its token here.
    let mut scene = Scene::new();
    let token = scene.cluster.holder(scene.host, 0).unwrap().position;
    scene.offers(scene.other);
    scene.says(Ok(token));

    // It is another node that holds it.
    let mut scene = Scene::new();
    let token = scene.cluster.holder(scene.host, 1).unwrap().position;
    scene.offers(scene.leader);
    scene.says(Ok(token));

    // It is here, and is said not to be.
    let mut scene = Scene::new();
    scene.offers(scene.other);
    scene.says(Err(not_here()));
}

#[test]
fn what_is_said_to_stay_is_there() {
    let name = || "n5".to_owned();
    for wrong in [OfferError::Busy { name: name() }, OfferError::NotGiven { name: name() }] {
        // The call waits in a queue.
        let cluster = Cluster::formed(Setup { eager: false, ..Setup::new(3) }, 3);
        let mut scene = Scene { cluster, leader: 0, host: 1, other: 2 };
        scene.cluster.must(&Action::Call { node: 1, want: Want::Offer { name: 5, to: 2 } });
        scene.says(Err(wrong));
    }
}

#[test]
fn what_has_gone_is_not_said_to_stay() {
    let mut cluster = Cluster::formed(Setup { offers: true, ..Setup::new(3) }, 3);
    let leader = cluster.leader().unwrap();
    let others: Vec<_> = cluster.world.ids().filter(|id| *id != leader).collect();
    let (host, other) = (others[0], others[1]);
    // Not every holder gives what it has: that of name 2 does.
    for name in [0, 1, 2] {
        cluster.obtain(host, name);
    }
    cluster.rest();
    let mut scene = Scene { cluster, leader, host, other };
    scene.cluster.must(&Action::Call { node: host, want: Want::Offer { name: 2, to: other } });
    // It goes there, and its former node does not hear of it.
    let is_there = move |cluster: &Cluster| {
        cluster.holder(leader, 2).is_some_and(|row| row.session.node == cluster.name(other))
    };
    let asks = move |cluster: &Cluster| cluster.requests(host, leader).is_some();
    scene.cluster.until("the leader is asked", asks);
    scene.cluster.hold(frames(leader, host));
    scene.cluster.hold(frames(other, host));
    scene.cluster.until("it has moved", is_there);
    let (name, node) = ("n2".to_owned(), scene.cluster.name(other));
    scene.says(Err(OfferError::Silent { name, node, waited: SECOND }));
}
