//! The suite of all oracles, over this one: as it is, and with a fence. One server for each election.

use std::{collections::BTreeMap, sync::Mutex};

use callsign_election::{
    conformance::{Authority, Player, Promise, Withheld},
    election_rows,
};

use super::{ClusterName, Duration, ElectionName, Fenced, HttpLease, MemberId, SharedStore, server};
use crate::server::Server;

/// Longer than the suite takes: time passes when it says so.
const LEASE: Duration = Duration::from_secs(60);

/// Servers of elections.
#[derive(Default)]
struct Servers(Mutex<BTreeMap<ElectionName, Server>>);

impl Servers {
    async fn lease(&self, election: &ElectionName) -> HttpLease {
        let known = self.0.lock().unwrap().get(election).cloned();
        let server = match known {
            Some(server) => server,
            None => server::serve().await.unwrap(),
        };
        let server = self.0.lock().unwrap().entry(election.clone()).or_insert(server).clone();
        HttpLease::new(format!("http://{}", server.address), LEASE)
    }
}

const SHARED: [Withheld; 2] = [
    Withheld { promise: Promise::CutsOff, because: "an example has no network of its own to cut" },
    Withheld { promise: Promise::Record, because: "what the server stores is in its answers" },
];

impl Authority for Servers {
    type Oracle = HttpLease;

    async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<HttpLease> {
        Player::new(self.lease(election).await, election, member)
    }

    async fn pass(&self, time: Duration) {
        self.0.lock().unwrap().values().for_each(|server| server.pass(time));
    }

    fn withholds(&self) -> Vec<Withheld> {
        let because = "the server counts terms in memory: with a fence added it is run, too";
        let without =
            [Promise::Fenced, Promise::BallotPerRefresh].map(|promise| Withheld { promise, because });
        [&SHARED[..], &without].concat()
    }
}

/// The same, with numbers from a store.
struct WithFence(Servers, SharedStore);

impl Authority for WithFence {
    type Oracle = Fenced<HttpLease>;

    async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<Self::Oracle> {
        let (lease, cluster) = (self.0.lease(election).await, ClusterName::new("example").unwrap());
        Player::new(Fenced::new(lease, self.1.clone(), &cluster), election, member)
    }

    async fn pass(&self, time: Duration) {
        self.0.pass(time).await;
    }

    fn withholds(&self) -> Vec<Withheld> {
        SHARED.into()
    }
}

mod as_it_is {
    use super::*;
    election_rows!({ Some(Servers::default()) });
}

mod with_a_fence {
    use super::*;
    election_rows!({ Some(WithFence(Servers::default(), callsign_store::open("memory:").unwrap())) });
}
