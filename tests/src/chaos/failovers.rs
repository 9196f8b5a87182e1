//! How soon names are granted again after another primary of the store was promoted.

use std::time::Duration;

use super::{Fault, event::At};

/// Within this a cluster serves again.
const SERVES: Duration = Duration::from_secs(5);

/// What is counted of it.
pub(super) const JUDGED: &str = "promotions after which names were granted within 5 s";

/// How long it took after each promotion, and what took too long. What else is done to the cluster may take its own time: a promotion
/// beside which something was is not judged if it took longer.
#[derive(Debug, Default)]
pub(super) struct Failovers {
    pub(super) took: Vec<Duration>,
    pub(super) not_judged: usize,
    pub(super) breaches: Vec<String>,
}

/// The times when names were granted or given up are in order.
pub(super) fn judge(promotions: &[At], changed: &[At], faults: &[Fault], begun: At) -> Failovers {
    let mut judged = Failovers::default();
    for promoted in promotions {
        let next = changed.iter().find(|at| *at > promoted);
        let took = next.map(|at| Duration::from_nanos(at - promoted));
        if let Some(took) = took.filter(|took| *took <= SERVES) {
            judged.took.push(took);
        } else if faults.iter().any(|fault| is_beside(fault, *promoted)) {
            judged.not_judged += 1;
        } else {
            let at = Duration::from_nanos(promoted.saturating_sub(begun));
            let took = took.map_or("never".to_owned(), |took| format!("after {took:.1?}"));
            judged.breaches.push(format!(
                "P8: a standby was promoted at {at:.1?}, and a name was granted {took}: {SERVES:?} is promised"
            ));
        }
    }
    judged
}

/// Whether something else was done to the cluster from shortly before a promotion on.
fn is_beside(fault: &Fault, promoted: At) -> bool {
    let serves = nanos(SERVES);
    !fault.kind.fails_over()
        && fault.from < promoted.saturating_add(serves)
        && fault.to.saturating_add(serves) > promoted
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
        Fault { kind, node, how, from: seconds(from), to: seconds(to), lacks: None }
    }

    #[test]
    fn a_name_has_to_be_granted_within_five_seconds_of_a_promotion_that_came_alone() {
        let changed = [99, 102, 205, 306].map(seconds);
        let judge =
            |faults: &[Fault]| judge(&[100, 200, 300, 400].map(seconds), &changed, faults, seconds(90));
        let all =
            judge(&[fault(Kind::PgKill, 299, 310), fault(Kind::Kill, 394, 395), fault(Kind::Cut, 406, 407)]);
        assert_eq!(all.took, [2, 5].map(Duration::from_secs));
        assert_eq!(all.not_judged, 0);
        let [late, never] = all.breaches.as_slice() else { panic!("{:?}", all.breaches) };
        assert!(late.contains("promoted at 210.0s, and a name was granted after 6.0s"), "{late}");
        assert!(never.contains("promoted at 310.0s, and a name was granted never"), "{never}");
        let beside = judge(&[fault(Kind::Kill, 304, 310), fault(Kind::Freeze, 350, 396)]);
        assert_eq!((beside.breaches.len(), beside.not_judged, beside.took), (0, 2, all.took));
    }
}
