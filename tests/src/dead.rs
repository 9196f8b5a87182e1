//! What nodes leave behind that came, were members, and went.

use std::time::Duration;

use callsign_elector::record::{AuthorRecord, SessionRecord};
use callsign_store::{
    self, CommitOutcome, Transaction,
    ids::{Beat, ClusterName, Incarnation, NodeName, RegistryName, Sequence, SessionNumber},
    keys::ClusterKeys,
    record::Record,
};

/// How many nodes' records are left behind by one transaction. Each node has two, and a transaction of etcd takes 128.
const TOGETHER: usize = 60;

/// Writes what so many nodes `pod-000000`, `pod-000001`, ... left behind, which had this lease.
///
/// # Panics
/// If the store cannot be reached.
pub async fn leave_behind(url: &str, cluster: &str, lease: Duration, dead: usize) {
    let cluster = ClusterKeys::new(&ClusterName::new(cluster).expect("a name"));
    let registry = cluster.registry(&RegistryName::new("default").expect("a name"));
    let store = callsign_store::open(url).expect("the store opens");
    for from in (0..dead).step_by(TOGETHER) {
        let mut transaction = Transaction::new();
        for nth in from..dead.min(from + TOGETHER) {
            let node = NodeName::new(format!("pod-{nth:06}")).expect("a name");
            let record = SessionRecord {
                incarnation: Incarnation(7),
                number: SessionNumber(1),
                lease,
                beat: Beat(3),
                open: false,
            };
            transaction = transaction
                .put(cluster.session(&node), record.to_value())
                .put(registry.author(&node), AuthorRecord { sequence: Sequence(3) }.to_value());
        }
        let outcome = store.commit(transaction).await;
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }
}
