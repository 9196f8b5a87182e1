//! All elections by leases of a cluster, for people who look.

use callsign_store::{
    SharedStore,
    ids::{ClusterName, ElectionName},
    keys::{ClusterKeys, read_key, read_range},
    record::Record,
};

use super::admin::Seated;
use crate::core::{lease::error::ElectionError, state::Seat};

/// An election, and who has its seat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElectionSeat {
    /// The election.
    pub election: ElectionName,
    /// The seat as it is written, whether or not its lease is over. `None`: nobody has it.
    pub seated: Option<Seated>,
}

/// The elections by leases that a store has of a cluster, behind one of them, at most so many, in the order of their keys. Reads once for each of
/// them, and writes nothing.
///
/// # Errors
/// `Unavailable` and `Corrupt`.
pub async fn seats(
    store: &SharedStore,
    cluster: &ClusterName,
    after: Option<&ElectionName>,
    most: usize,
) -> Result<Vec<ElectionSeat>, ElectionError> {
    let cluster = ClusterKeys::new(cluster);
    let (mut rest, mut found) = (cluster.elections(), Vec::new());
    if let Some(after) = after {
        rest.start = cluster.election(after).all().end;
    }
    // From each election to the first key behind it: its candidates may be many.
    let mut seat = None::<ElectionName>;
    while seat.is_some() || found.len() < most {
        let mut reads = vec![read_range(rest.clone(), 1)];
        reads.extend(seat.as_ref().map(|election| read_key(cluster.election(election).seat())));
        let read = store.read(reads).await.map_err(|error| ElectionError::Unavailable(error.to_string()))?;
        if let Some(election) = seat.take() {
            let seat = read.value(1).map(|value| Seat::from_value(value)).transpose();
            let seat = seat.map_err(|why| ElectionError::Corrupt { what: "seat", why })?;
            found.push(ElectionSeat { election, seated: seat.as_ref().and_then(Seated::of) });
        }
        let Some((key, _)) = read.entries(0).first().filter(|_| found.len() < most) else { break };
        seat = cluster.election_name(key);
        rest.start = match &seat {
            Some(election) => cluster.election(election).all().end,
            // It is of no election.
            None => [key.as_slice(), &[0]].concat(),
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc, time::Duration};

    use callsign_store::{
        Clock, CommitOutcome, Transaction,
        ids::{Incarnation, MemberId},
        memory::MemoryStore,
    };

    use super::*;
    use crate::{
        Candidate, Election, ElectionConfig, LeaseOptions, LeaseOracle, Policy, driver::conformance::Player,
    };

    #[tokio::test]
    async fn each_election_of_a_cluster_is_found_once_page_by_page() {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let cluster = ClusterName::new("c").unwrap();
        let election = |name: &str| ElectionName::new(name).unwrap();
        let config = ElectionConfig::new(Policy::sticky(), Duration::from_secs(10));
        // As keys, `a.b/` and `a-b/` come before `a/`. Another cluster's are not its own.
        for (of, name) in [("c", "b"), ("c", "a"), ("c", "a.b"), ("c", "a-b"), ("cc", "x")] {
            let cluster = ClusterName::new(of).unwrap();
            let election = Election::new(store.clone(), &cluster, &election(name), Clock::boot());
            election.initialise(&config).await.unwrap();
            for member in ["one", "other"] {
                let (member, tags) = (MemberId::new(member).unwrap(), BTreeSet::new());
                let candidate = Candidate { member, incarnation: Incarnation(1), priority: 1, tags };
                election.register(&candidate).await.unwrap();
            }
        }
        let page = async |after: Option<&str>, most| {
            let found = seats(&store, &cluster, after.map(election).as_ref(), most).await.unwrap();
            found.into_iter().map(|seat| seat.election.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(page(None, 9).await, ["a-b", "a.b", "a", "b"]);
        assert_eq!(page(None, 2).await, ["a-b", "a.b"]);
        assert_eq!(page(Some("a.b"), 2).await, ["a", "b"]);
        assert_eq!(page(Some("a"), 9).await, ["b"]);
        assert!(page(Some("b"), 9).await.is_empty() && page(None, 0).await.is_empty());
    }

    #[tokio::test]
    async fn whoever_has_a_seat_is_shown_and_what_cannot_be_read_is_an_error() {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let cluster = ClusterName::new("c").unwrap();
        let keys = ClusterKeys::new(&cluster);
        let (election, member) = (ElectionName::new("b").unwrap(), MemberId::new("one").unwrap());
        let oracle = LeaseOracle::new(store.clone(), &cluster, LeaseOptions::default());
        let mut player = Player::new(oracle, &election, &member);
        player.init().await;
        let held = player.win().await;
        // It is of no election, and comes before all that are.
        let stray = [keys.elections().start, b"(none)".to_vec()].concat();
        let put = Transaction::new().put(stray, vec![1]);
        assert!(matches!(store.commit(put).await, CommitOutcome::Committed(_)));
        let lease = ElectionConfig::default().lease;
        let seated = Seated { term: held.term, fence: held.fence, lease };
        let found = seats(&store, &cluster, None, 9).await;
        assert_eq!(found, Ok(vec![ElectionSeat { election: election.clone(), seated: Some(seated) }]));

        let put = Transaction::new().put(keys.election(&election).seat(), b"garbage".to_vec());
        assert!(matches!(store.commit(put).await, CommitOutcome::Committed(_)));
        let found = seats(&store, &cluster, None, 9).await;
        assert!(matches!(found, Err(ElectionError::Corrupt { what: "seat", .. })), "{found:?}");
    }
}
