//! How soon names are granted again after another primary of the store was promoted.

use std::time::Duration;

use super::{Fault, event::At};

/// Within this a cluster serves again.
const SERVES: Duration = Duration::from_secs(5);

/// What is counted of it.
pub(super) const JUDGED: &str = "promotions after which names were granted within 5 s";

/// How long it took after each promotion that came alone, and what took too long.
#[derive(Debug, Default)]
pub(super) struct Failovers {
    pub(super) took: Vec<Duration>,
    pub(super) breaches: Vec<String>,
}

/// The times when names were granted or given up are in order.
pub(super) fn judge(promotions: &[At], changed: &[At], faults: &[Fault], begun: At) -> Failovers {
    let mut judged = Failovers::default();
    for promoted in promotions {
        let until = promoted.saturating_add(nanos(SERVES));
        // What else is done to the cluster may take its own time.
        let is_beside = |fault: &&Fault| {
            !fault.kind.fails_over() && fault.from < until && fault.to.saturating_add(nanos(SERVES)) > *promoted
        };
        if faults.iter().any(|fault| is_beside(&fault)) {
            continue;
        }
        let next = changed.iter().find(|at| *at > promoted);
        let took = next.map(|at| Duration::from_nanos(at - promoted));
        judged.took.extend(took.filter(|took| *took <= SERVES));
        if took.is_none_or(|took| took > SERVES) {
            let at = Duration::from_nanos(promoted.saturating_sub(begun));
            let took = took.map_or("never".to_owned(), |took| format!("after {took:.1?}"));
            judged.breaches.push(format!(
                "P8: a standby was promoted at {at:.1?}, and a name was granted {took}: {SERVES:?} is promised"
            ));
        }
    }
    judged
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{super::nemesis::Kind, *};

    fn seconds(of: u64) -> At {
        nanos(Duration::from_secs(of))
    }

    fn fault(kind: Kind, from: u64, to: u64) -> Fault {
        let (node, how) = ("a".to_owned(), String::new());
        Fault { kind, node, how, from: seconds(from), to: seconds(to) }
    }

    #[test]
    fn a_name_has_to_be_granted_within_five_seconds_of_a_promotion_that_came_alone() {
        let changed = [99, 102, 205].map(seconds);
        let judge = |faults: &[Fault]| judge(&[100, 200, 300].map(seconds), &changed, faults, seconds(90));
        let all = judge(&[fault(Kind::PgKill, 99, 110)]);
        assert_eq!(all.took, [2, 5].map(Duration::from_secs), "the other faults are the failover itself");
        let [breach] = all.breaches.as_slice() else { panic!("{:?}", all.breaches) };
        assert!(breach.contains("promoted at 210.0s, and a name was granted never"), "{breach}");
        let late = judge(&[fault(Kind::Kill, 304, 310), fault(Kind::Freeze, 150, 194)]);
        assert!(late.breaches.is_empty(), "{:?}", late.breaches);
        assert_eq!(late.took.len(), 2);
        let beside = judge(&[fault(Kind::Freeze, 150, 196)]);
        assert_eq!(beside.took, [Duration::from_secs(2)]);
    }
}
