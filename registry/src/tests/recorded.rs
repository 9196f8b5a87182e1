//! What a node records of its cores: what they were made with, what they were told, and what they asked for.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use callsign_elector::{
    elector::{self, ElectorConfig},
    recording::{Core, Recording, read_header},
};
use callsign_store::{
    CommitOutcome, LifeGuard, Limits, Proof, SharedStore, Store, StoreError, Time, Transaction,
    ids::{Incarnation, NodeName},
    memory::MemoryStore,
};
use futures::future::BoxFuture;

use crate::{
    Config, Name, Registry,
    core::{
        input::{Answer, Effect, Input, Now},
        member::MemberConfig,
        registry::{QUEUES, RegistryCore, RegistryEffect, Told},
        table::Row,
        tuning::Tuning,
    },
    tests::driver::{Cluster, TEST_DEADLINE, counter},
};

/// A store that says of its limits what the test makes of them.
pub(super) struct Limited<F> {
    pub(super) store: MemoryStore,
    pub(super) limits: F,
}

impl<F> fmt::Debug for Limited<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<F: Fn(Limits) -> Limits + Send + Sync + 'static> Store for Limited<F> {
    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        self.store.commit(transaction)
    }

    fn limits(&self) -> Limits {
        (self.limits)(self.store.limits())
    }

    fn describe(&self) -> String {
        self.store.describe()
    }

    fn guard_life(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> Result<Option<Box<dyn LifeGuard>>, StoreError> {
        self.store.guard_life(node, incarnation)
    }

    fn guards_at_once(&self) -> bool {
        self.store.guards_at_once()
    }

    fn proof_of_death(&self, node: &NodeName, incarnation: Incarnation) -> BoxFuture<'static, Proof> {
        self.store.proof_of_death(node, incarnation)
    }

    callsign_store::forward_to_store! { store: read watch }
}

type OfMember = Recording<MemberConfig, Now, Input, Effect>;

type OfElector = Recording<ElectorConfig, Time, elector::Input, elector::Effect>;

/// The recording of a core.
fn file(dir: &Path, core: Core) -> PathBuf {
    let mut files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    files.find(|path| read_header(path).unwrap().core == core).expect("it is recorded")
}

fn of_member(dir: &Path) -> OfMember {
    OfMember::open(&file(dir, Core::Member), Core::Member).unwrap()
}

fn of_elector(dir: &Path) -> OfElector {
    OfElector::open(&file(dir, Core::Elector), Core::Elector).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_recording_has_what_a_core_was_told_and_asked_for_as_soon_as_that_is_done() {
    let (cluster, dir) = (Cluster::new(), tempfile::tempdir().unwrap());
    let node = Registry::join(cluster.config("a").record(dir.path())).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    let other = cluster.node("b").await;
    let held = node.register("x", &counter().await).await.unwrap();
    other.wait_for(held.token(), TEST_DEADLINE).await.unwrap();

    // The node runs on, and does not end what it records.
    let mut recording = of_member(dir.path());
    let mut core = RegistryCore::of_member(recording.config.clone(), BTreeMap::<Name, Row>::new());
    let is_granted = |effect: &&Effect| {
        matches!(
            effect,
            Effect::Answer { answer: Answer::Registered(Ok(granted)), .. } if granted.token == held.token()
        )
    };
    let mut granted = 0;
    while let Some(frame) = recording.next_frame().unwrap() {
        let mut asked = Vec::new();
        core.step_member(frame.now, frame.input, &mut asked);
        assert_eq!(asked, frame.effects, "a fresh core that is told the same asks for the same");
        granted += asked.iter().filter(is_granted).count();
    }
    assert_eq!(granted, 1, "the caller has its answer, so it is recorded");

    let mut recording = of_elector(dir.path());
    let (member, table) = (of_member(dir.path()).config, BTreeMap::<Name, Row>::new());
    let (mut core, mut steps) = (RegistryCore::new(recording.config.clone(), member, table), 0);
    while let Some(frame) = recording.next_frame().unwrap() {
        let mut asked = Vec::new();
        core.step(Now { time: frame.now, trusted: None }, Told::Elector(frame.input), &mut asked);
        while QUEUES.iter().any(|queue| core.take(*queue).is_some()) {}
        let asked = asked.into_iter().filter_map(|effect| match effect {
            RegistryEffect::Elector(effect) => Some(effect),
            _ => None,
        });
        assert_eq!(
            asked.collect::<Vec<_>>(),
            frame.effects,
            "a fresh elector that is told the same asks for the same"
        );
        steps += 1;
    }
    assert!(steps > 5, "{steps} steps lead to a leader and two members");
}

/// What the cores of a node are made with.
async fn made(config: Config) -> (ElectorConfig, MemberConfig) {
    let dir = tempfile::tempdir().unwrap();
    let _node = Registry::join(config.record(dir.path())).await.unwrap();
    (of_elector(dir.path()).config, of_member(dir.path()).config)
}

#[tokio::test(start_paused = true)]
async fn cores_are_made_with_what_their_node_is_configured_with_and_what_its_store_takes() {
    let (elector, member) = made(Cluster::new().config("a")).await;
    assert_eq!((elector.most_checks, elector.priority, elector.admin), (None, 1, None));
    assert_eq!(member.tuning, Tuning::default());

    let cluster = Cluster::new();
    let limits = |limits: Limits| -> Limits { Limits { checks: Some(99), ..limits } };
    let store: SharedStore = Arc::new(Limited { store: cluster.store.connect("a"), limits });
    let config = Config { store: store.into(), ..cluster.config("a") }
        .snapshot_chunk(7)
        .observers(1)
        .watch_memory(1000)
        .priority(5)
        .advertise("a.example:1")
        .admin_address("http://a.example:2");
    let (elector, member) = made(config).await;
    assert_eq!((elector.most_checks, elector.priority), (Some(99), 5));
    assert_eq!(
        (elector.address.as_str(), elector.admin.as_deref()),
        ("a.example:1", Some("http://a.example:2"))
    );
    let tuning = Tuning {
        chunk_names: 7,
        observers: 1,
        watch_bytes: 1000,
        // One reader misses no more than is remembered for all.
        missed_bytes: 1000,
        counts_checks: true,
        ..Tuning::default()
    };
    assert_eq!(member.tuning, tuning);
}
