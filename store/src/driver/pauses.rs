//! How long to wait before connecting again.

use std::time::Duration;

/// Shorter would burden a server that comes back to all its clients at once.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longer would be felt.
const LONGEST: Duration = Duration::from_secs(1);
/// After a connection that lived longer, the first pause again.
const LIVED: Duration = Duration::from_secs(5);

/// Pauses between connections: each twice the one before it, while connections do not last.
#[derive(Debug)]
pub struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// The pause after a connection that lived for so long, from half to one and a half of what is due, as chance has it.
    pub fn after(&mut self, lived: Duration) -> Duration {
        self.due(lived).mul_f64(rand::random_range(0.5..1.5))
    }

    fn due(&mut self, lived: Duration) -> Duration {
        let due = if lived > LIVED { FIRST_PAUSE } else { self.0 };
        self.0 = (due * 2).min(LONGEST);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_a_connection_has_lasted() {
        let mut pauses = Pauses::default();
        let due: Vec<_> = (0..7).map(|_| pauses.due(LIVED).as_millis()).collect();
        assert_eq!(due, [50, 100, 200, 400, 800, 1000, 1000]);
        let lasted = LIVED + Duration::from_nanos(1);
        assert_eq!([lasted, LIVED].map(|lived| pauses.due(lived).as_millis()), [50, 100]);
    }

    #[test]
    fn clients_do_not_come_back_all_at_once() {
        let drawn: Vec<_> = (0..100).map(|_| Pauses::default().after(Duration::ZERO)).collect();
        assert!(
            drawn.iter().all(|pause| *pause >= FIRST_PAUSE / 2 && *pause <= FIRST_PAUSE * 3 / 2),
            "{drawn:?}"
        );
        assert!(drawn.iter().any(|pause| *pause != drawn[0]), "{drawn:?}");
    }
}
