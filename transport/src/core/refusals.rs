//! Refused connections, remembered for whoever asks why two nodes do not link up, and logged without flooding.

use std::{collections::BTreeMap, time::Duration};

use crate::{core::bucket::Bucket, error::Refused};

/// How many different refusals are remembered.
const REMEMBERED: usize = 64;

/// The same refusal is logged again after this.
const QUIET: Duration = Duration::from_secs(60);

/// Refusals of so many addresses and reasons are logged at once, and one of a new address or reason in a second thereafter:
/// strangers with many addresses do not fill the log.
const LOGGED: u64 = 30;

/// By the word for why: how often.
pub type RefusalCounts = BTreeMap<&'static str, u64>;

/// A connection that did not become a link, as often as it did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The other side: the address dialled, or the IP address that dialled.
    pub address: String,
    /// Why.
    pub why: Refused,
    /// How often.
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Row {
    count: u64,
    last: Duration,
    logged: Duration,
}

/// The latest refusals by address and reason, and how many there were of each kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Refusals {
    rows: BTreeMap<(String, Refused), Row>,
    counts: RefusalCounts,
    log: Bucket,
}

impl Default for Refusals {
    fn default() -> Self {
        let log = Bucket::new(Duration::ZERO, 1, LOGGED);
        Self { rows: BTreeMap::new(), counts: RefusalCounts::new(), log }
    }
}

impl Refusals {
    /// Counts a refusal. Returns how often it has come now if it is worth a line in the log.
    pub(crate) fn note(&mut self, now: Duration, address: &str, why: &Refused) -> Option<u64> {
        self.count(why.word());
        if let Some(row) = self.rows.get_mut(&(address.to_owned(), why.clone())) {
            row.count += 1;
            row.last = now;
            if now < row.logged + QUIET {
                return None;
            }
            row.logged = now;
            return Some(row.count);
        }
        if self.rows.len() >= REMEMBERED {
            let oldest = self.rows.iter().min_by_key(|(_, row)| row.last).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.rows.remove(&oldest);
            }
        }
        self.rows.insert((address.to_owned(), why.clone()), Row { count: 1, last: now, logged: now });
        self.log.take(now).then_some(1)
    }

    /// Counts something that was refused; returns how often it was.
    pub(crate) fn count(&mut self, word: &'static str) -> u64 {
        let count = self.counts.entry(word).or_default();
        *count += 1;
        *count
    }

    /// How many there were of each kind.
    pub(crate) fn counts(&self) -> &RefusalCounts {
        &self.counts
    }

    /// All that are remembered.
    pub(crate) fn list(&self) -> Vec<Refusal> {
        let refusal = |((address, why), row): (&(String, Refused), &Row)| Refusal {
            address: address.clone(),
            why: why.clone(),
            count: row.count,
        };
        self.rows.iter().map(refusal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_is_logged_once_a_minute_and_always_counted() {
        let mut refusals = Refusals::default();
        let logged: Vec<_> = (0..130)
            .filter_map(|s| refusals.note(Duration::from_secs(s), "1.2.3.4", &Refused::Secret))
            .collect();
        assert_eq!(logged, [1, 61, 121]);
        assert_eq!(refusals.note(Duration::from_secs(130), "1.2.3.5", &Refused::Secret), Some(1));
        assert_eq!(refusals.list()[0].count, 130);
    }

    #[test]
    fn many_addresses_do_not_fill_the_log_and_are_counted_all() {
        let mut refusals = Refusals::default();
        let admit = |refusals: &mut Refusals, n: u32, at| {
            refusals.note(Duration::from_secs(at), &n.to_string(), &Refused::Crowded).is_some()
        };
        assert_eq!((0..10_000).filter(|n| admit(&mut refusals, *n, 5)).count(), 30);
        assert_eq!((0..10_000).filter(|n| admit(&mut refusals, 10_000 + n, 8)).count(), 3);
        assert_eq!(refusals.counts(), &RefusalCounts::from([("crowded", 20_000)]));
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let mut refusals = Refusals::default();
        for n in 0..1000 {
            refusals.note(Duration::from_secs(n), &n.to_string(), &Refused::Secret);
        }
        let list = refusals.list();
        assert_eq!(list.len(), REMEMBERED);
        assert!(list.iter().all(|refusal| refusal.address.parse::<u64>().unwrap() >= 936));
        // One that comes again is one of the latest.
        let at = Duration::from_secs(1000);
        refusals.note(at, "936", &Refused::Secret);
        refusals.note(at, "another", &Refused::Secret);
        let list = refusals.list();
        let is_there = |address: &str| list.iter().any(|refusal| refusal.address == address);
        assert!(is_there("936") && is_there("another") && !is_there("937"));
    }
}
