//! Checks of references to actors of other nodes.

use callsign_sim::{
    oracle::Check,
    references::Said,
    world::{Action, Frame, NodeId, Setup},
};
use callsign_transport::cores::NotDelivered;

use super::Scene;
use crate::cluster::{Cluster, SECOND};

impl Scene {
    /// The scene's other node has a reference to the actor of the host that holds name 0: that actor.
    fn with_a_reference() -> (Self, u64) {
        let mut cluster = Cluster::formed(Setup { references: true, ..Setup::new(3) }, 3);
        let leader = cluster.leader().unwrap();
        let others: Vec<_> = cluster.world.ids().filter(|id| *id != leader).collect();
        let (host, other) = (others[0], others[1]);
        cluster.obtain(host, 0);
        cluster.rest();
        let actor = cluster.holder(other, 0).unwrap().actor;
        cluster.must(&Action::Refer { node: other, nth: 0 });
        cluster.pass(SECOND);
        let scene = Self { cluster, leader, host, other };
        assert_eq!(scene.referred(other), [actor]);
        (scene, actor)
    }

    fn referred(&self, node: NodeId) -> Vec<u64> {
        self.cluster.world.side(node).unwrap().references().map(|(_, actor)| actor).collect()
    }

    /// Something is said of actors that nobody has to say.
    fn speaks(&mut self, from: NodeId, to: NodeId, said: Said) {
        let between = |conn: &callsign_sim::world::Conn| conn.end_of(from).zip(conn.end_of(to));
        let conn = self.cluster.world.conns.iter_mut().find(|conn| between(conn).is_some()).unwrap();
        let end = conn.end_of(to).unwrap();
        conn.edit().to[end].control.push_front(Frame::OfActors(said));
        assert!(self.cluster.world.apply(&Action::Frame { from, to, nth: 0, bulk: false }));
    }
}

#[test]
fn who_is_said_to_have_ended_has() {
    let (mut scene, actor) = Scene::with_a_reference();
    scene.speaks(scene.host, scene.other, Said::Undelivered { actor, why: NotDelivered::NotExported });
    assert_eq!(scene.cluster.world.oracle.violation(), None, "that is no end");
    let (mut scene, actor) = Scene::with_a_reference();
    scene.speaks(scene.host, scene.other, Said::Undelivered { actor, why: NotDelivered::Gone });
    scene.fires(Check::ReferenceEndTrue);
}

#[test]
fn who_is_asked_for_runs_here() {
    let (mut scene, actor) = Scene::with_a_reference();
    scene.speaks(scene.other, scene.leader, Said::Ask { actor });
    scene.fires(Check::AskedAtHome);
}

#[test]
fn a_reference_ends_with_its_actor_and_with_its_link() {
    let (mut scene, actor) = Scene::with_a_reference();
    let host = scene.host;
    scene.cluster.hold(move |_, action| *action == Action::NoticeEnd { node: host });
    scene.cluster.must(&Action::EndActor { node: host, nth: 0 });
    // A message does not get there, and its sender hears nothing: the end itself is on its way.
    scene.cluster.must(&Action::Cast { node: scene.other, nth: 0 });
    scene.cluster.pass(SECOND);
    assert_eq!(scene.referred(scene.other), [actor]);
    scene.cluster.release();
    scene.cluster.pass(SECOND);
    assert!(scene.referred(scene.other).is_empty());
    // The address is remembered, and leads to nobody.
    scene.cluster.must(&Action::Refer { node: scene.other, nth: 0 });
    assert!(scene.referred(scene.other).is_empty());

    let (mut scene, _) = Scene::with_a_reference();
    scene.cluster.must(&Action::Crash { node: scene.host });
    scene.cluster.pass(SECOND);
    assert!(scene.referred(scene.other).is_empty());
}
