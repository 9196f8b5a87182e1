//! Whether a lease is long enough: by itself, and for the store, whose commits are timed at the start.
//!
//! A lease that ends while a beat is on its way lapses and resumes all the time, and each lapse stops what a node runs.

use std::time::{Duration, Instant};

use callsign::SharedStore;

use crate::{
    fenced::FencedCommits,
    measure::{as_ms, quantile},
    usage::Usage,
};

/// The shortest lease that is taken without being asked for twice.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// How many commits are timed.
const COMMITS: usize = 5;
/// How long to wait for the first answer: others may keep everybody from writing for a while.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How many times the median of them a lease has to last.
const COMMITS_PER_LEASE: f64 = 20.0;

/// Refuses a lease that is too short for any store.
pub(crate) fn is_sensible(lease: Duration) -> Result<(), Usage> {
    if lease >= SHORTEST_LEASE {
        return Ok(());
    }
    Err(Usage(format!(
        "a lease of {lease:?} is too short, {SHORTEST_LEASE:?} is the least: a pause of the process or of the store would cost it; \
         give a longer --lease, or --lease-anyway"
    )))
}

/// Refuses a lease that is too short for this store. What is written for it, under this name, is removed again if the store
/// still answers then. A store that does not answer at all refuses nothing: whoever opens a session there waits for it.
pub(crate) async fn suits(store: &SharedStore, name: &str, lease: Duration) -> Result<(), Usage> {
    let begun = FencedCommits::begin(store.clone(), format!("callsign-start/{name}"));
    let why = match tokio::time::timeout(FIRST_ANSWER_TIMEOUT, begun).await {
        Ok(Ok(mut commits)) => {
            let mut took = Vec::new();
            match tokio::time::timeout(lease, time(&mut commits, &mut took)).await {
                Ok(Ok(())) => return is_long_enough(lease, &mut took),
                Ok(Err(error)) => error.to_string(),
                Err(_) => {
                    // Those that were not answered in all that time took as long at least.
                    took.resize(COMMITS, as_ms(lease));
                    return is_long_enough(lease, &mut took);
                }
            }
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it does not answer within {FIRST_ANSWER_TIMEOUT:?}"),
    };
    tracing::warn!("whether the lease is long enough for the store is not known: {why}");
    Ok(())
}

/// How long each of some commits takes, in milliseconds.
async fn time(commits: &mut FencedCommits, took: &mut Vec<f64>) -> anyhow::Result<()> {
    for _ in 0..COMMITS {
        let began = Instant::now();
        commits.commit().await?;
        took.push(as_ms(began.elapsed()));
    }
    commits.remove().await
}

fn is_long_enough(lease: Duration, took: &mut [f64]) -> Result<(), Usage> {
    let median = quantile(took, 0.5).unwrap_or_default();
    let least = median * COMMITS_PER_LEASE;
    if as_ms(lease) >= least {
        return Ok(());
    }
    Err(Usage(format!(
        "a lease of {lease:?} is too short for this store: the median of {COMMITS} commits was {median} ms, and {COMMITS_PER_LEASE} times \
         that is {least:.0} ms; give a longer --lease, or --lease-anyway"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_a_second_and_twenty_commits() {
        assert!(is_sensible(Duration::from_millis(999)).is_err());
        assert!(is_sensible(SHORTEST_LEASE).is_ok());
        let lease = Duration::from_secs(10);
        // The median, not the slowest one.
        assert!(is_long_enough(lease, &mut [1.0, 500.0, 9_000.0, 2.0, 9_000.0]).is_ok());
        let refused = is_long_enough(lease, &mut [600.0, 501.5, 1.0, 2.0, 600.0]).unwrap_err().to_string();
        for number in ["10s", "501.5 ms", "10030 ms", "--lease-anyway"] {
            assert!(refused.contains(number), "{refused}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_does_not_answer_refuses_nothing_and_one_that_does_keeps_nothing() {
        use callsign_store::{Read, memory::MemoryStore};

        let memory = MemoryStore::new();
        let store: SharedStore = std::sync::Arc::new(memory.connect("a"));
        memory.outage_for_all();
        assert_eq!(suits(&store, "a", SHORTEST_LEASE).await, Ok(()));
        memory.heal_all();
        assert_eq!(suits(&store, "a", SHORTEST_LEASE).await, Ok(()));
        let all = store.read(vec![Read::Range { range: vec![]..vec![0xff], limit: 10 }]).await.unwrap();
        assert!(all.entries(0).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn commits_that_are_not_answered_take_as_long_as_the_lease_at_least() {
        use callsign_store::memory::MemoryStore;

        let memory = MemoryStore::new();
        let store: SharedStore = std::sync::Arc::new(memory.clone());
        let hold = memory.hold_commits();
        hold.let_one_pass();
        let refused = suits(&store, "a", SHORTEST_LEASE).await.unwrap_err().to_string();
        for part in ["a lease of 1s is too short for this store", "was 1000 ms", "is 20000 ms"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
