//! Where other versions look for things in the store: `tests/golden/files/store`, and `docs/compatibility.md`.

use callsign_golden::Golden;

use crate::core::{
    ids::{ClusterName, ElectionName, MemberId, NodeName, Position, RegistryName},
    keys::ClusterKeys,
};

#[test]
fn things_are_in_the_store_where_former_versions_look_for_them() {
    let mut golden = Golden::new(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_VERSION"));
    let node = NodeName::new("a").unwrap();
    let cluster = ClusterKeys::new(&ClusterName::new("prod").unwrap());
    let registry = cluster.registry(&RegistryName::new("names").unwrap());
    let election = cluster.election(&ElectionName::new("reports").unwrap());
    let member = MemberId::new("a").unwrap();
    for (name, key) in [
        ("session", cluster.session(&node)),
        ("session_floor", cluster.session_floor()),
        ("lineage", cluster.lineage()),
        ("open", cluster.open_mark(&node)),
        ("queue", registry.queue()),
        ("author", registry.author(&node)),
        ("author_floor", registry.author_floor()),
        ("member", registry.member(&node)),
        ("term", registry.term()),
        ("lock", registry.lock()),
        ("commit", registry.commit()),
        ("floor", registry.floor()),
        ("log", registry.log(Position(70_000))),
        ("seat", election.seat()),
        ("fence", election.fence()),
        ("control", election.control()),
        ("count", election.count()),
        ("candidate", election.candidate(&member)),
    ] {
        golden.sample(format!("key/{name}"), (), |()| key.clone(), |_| Ok(()));
    }
    golden.check();
}
