//! Who takes part in the tests.

use std::{collections::BTreeSet, time::Duration};

use callsign_store::{
    CommitOutcome, Read, Transaction, Version,
    ids::{Incarnation, MemberId},
    keys::ClusterKeys,
};
use futures::{StreamExt, stream::BoxStream};

use super::{
    beds::{Stores, cluster},
    counting::Counting,
};
use crate::{
    Candidate, ElectionConfig, Policy,
    core::{policy::Preempt, term::Term},
    driver::{
        conformance::{Bed, Player},
        lease::{Election, ElectionError, LeaseOptions, LeaseOracle},
    },
    oracle::{Oracle, Signal},
};

pub(super) const MS: Duration = Duration::from_millis(1);

/// As a candidate timeout: nobody has to ask only to be signals, so everybody is told how long the seat stays empty.
pub(super) const PATIENT: Duration = Duration::from_secs(24 * 3600);

pub(super) fn id(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

pub(super) fn registration(name: &str, priority: u32) -> Candidate {
    Candidate { member: id(name), incarnation: Incarnation(rand::random()), priority, tags: BTreeSet::new() }
}

/// Does it again while the store is busy with others.
pub(super) async fn surely<T>(what: impl AsyncFn() -> Result<T, ElectionError>) -> T {
    loop {
        match what().await {
            Ok(done) => return done,
            Err(ElectionError::Unavailable(_) | ElectionError::Contended { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub(super) async fn refused<T: std::fmt::Debug>(
    what: impl AsyncFn() -> Result<T, ElectionError>,
) -> ElectionError {
    loop {
        match what().await {
            Err(ElectionError::Unavailable(_) | ElectionError::Contended { .. }) => {}
            Err(error) => return error,
            Ok(done) => panic!("done: {done:?}"),
        }
    }
}

/// What a handle says that does not know yet whether the leader that is written still lives.
pub(super) async fn not_known_yet<T: std::fmt::Debug>(
    what: impl AsyncFn() -> Result<T, ElectionError>,
) -> (Term, Duration) {
    match refused(what).await {
        ElectionError::NotKnownYet { term, again_within } => (term, again_within),
        error => panic!("{error}"),
    }
}

/// An election on a store, and its handle.
pub(super) struct Place<'a> {
    pub(super) stores: &'a Stores,
    pub(super) bed: Bed<'a, Stores>,
    pub(super) admin: Election,
}

impl<'a> Place<'a> {
    /// Initialised with what the stores are configured with.
    pub(super) async fn new(stores: &'a Stores) -> Self {
        let place = Self::empty(stores);
        surely(async || place.admin.initialise(&stores.config).await).await;
        place
    }

    pub(super) fn empty(stores: &'a Stores) -> Self {
        let bed = Bed::new(stores);
        let admin = stores.admin(&bed.election);
        Self { stores, bed, admin }
    }

    pub(super) async fn player(&self, name: &str) -> Player<LeaseOracle> {
        self.bed.player(name).await
    }

    /// With this priority.
    pub(super) async fn ranked(&self, name: &str, priority: u32) -> Player<LeaseOracle> {
        self.with(name, LeaseOptions { priority, ..self.stores.options() }).await
    }

    pub(super) async fn with(&self, name: &str, options: LeaseOptions) -> Player<LeaseOracle> {
        self.bed.join(self.stores.oracle_with(options), name).await
    }

    /// One that registers only if somebody does it for it.
    pub(super) async fn stranger(&self, name: &str) -> Player<LeaseOracle> {
        self.with(name, LeaseOptions { register: false, ..self.stores.options() }).await
    }

    pub(super) async fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.stores.rows(&self.bed.election).await
    }

    pub(super) async fn names(&self) -> Vec<String> {
        let list = surely(async || self.admin.list().await).await;
        list.into_iter().map(|listed| listed.member.to_string()).collect()
    }

    pub(super) async fn config(&self, config: &ElectionConfig) {
        surely(async || self.admin.configure(config).await).await;
    }
}

/// By priority, whoever asks first among equals.
pub(super) fn preempting() -> Policy {
    assert_eq!(Policy::preempting().preempt, Preempt::HigherPriority);
    Policy::preempting()
}

/// What a member's oracle notices.
pub(super) struct Listener {
    signals: BoxStream<'static, Signal>,
    store: Counting,
}

impl Place<'_> {
    /// A member, and what it hears. It has looked at what is there now.
    pub(super) async fn listening(&self, name: &str, priority: u32) -> (Player<LeaseOracle>, Listener) {
        let store = Counting::new(self.stores.store());
        let options = LeaseOptions { priority, ..self.stores.options() };
        let oracle = LeaseOracle::new(std::sync::Arc::new(store.clone()), &cluster(), options);
        let mut player = self.bed.join(oracle, name).await;
        let mut listener = Listener { signals: player.oracle.signals(), store };
        assert_eq!(self.signals_of(&mut listener).await, []);
        (player, listener)
    }

    /// Everything that is signals of what was done so far.
    pub(super) async fn signals_of(&self, listener: &mut Listener) -> Vec<Signal> {
        let version = self.touch().await;
        let mut signals = Vec::new();
        loop {
            tokio::select! {
                biased;
                signal = listener.signals.next() => signals.push(signal.expect("it does not end")),
                () = listener.store.watched_since(version) => return signals,
            }
        }
    }

    /// Writes a record anew as it is, so that whoever watches looks.
    async fn touch(&self) -> Version {
        let key = ClusterKeys::new(&cluster()).election(&self.bed.election).control();
        loop {
            let store = self.stores.store();
            let Ok(read) = store.read(vec![Read::Key(key.clone())]).await else { continue };
            let value = read.value(0).unwrap().clone();
            let again = Transaction::new().check(key.clone(), Some(value.clone())).put(key.clone(), value);
            if let CommitOutcome::Committed(version) = store.commit(again).await {
                return version;
            }
        }
    }
}
