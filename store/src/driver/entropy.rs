//! Where a node draws what must differ from that of any other.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use crate::{core::random::SplitMix64, driver::lock::lock};

/// Where a node draws what must differ from that of any other: its incarnation, nonces, the seeds of its jitter, the keys of
/// its handshakes. Clones draw from the same source.
#[derive(Clone, Default)]
pub struct Entropy(Option<Arc<Mutex<SplitMix64>>>);

impl Entropy {
    /// The operating system's, which nobody can guess. The default.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// Whether it is the operating system's.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.0.is_none()
    }

    /// Numbers that repeat with the seed, and that anybody can guess: for simulations.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(Mutex::new(SplitMix64::new(seed)))))
    }

    /// A number.
    #[must_use]
    pub fn draw(&self) -> u64 {
        self.0.as_ref().map_or_else(rand::random, |numbers| lock(numbers).draw())
    }

    /// Fills bytes.
    pub fn fill(&self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.draw().to_le_bytes()[..piece.len()]);
        }
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Entropy(seeded)" } else { "Entropy(system)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_drawn_from_by_all_clones_and_the_system_never_repeats() {
        let numbers = |entropy: &Entropy| {
            let mut bytes = [0; 11];
            entropy.clone().fill(&mut bytes);
            (entropy.draw(), bytes)
        };
        assert_eq!(numbers(&Entropy::seeded(7)), numbers(&Entropy::seeded(7)));
        assert_ne!(numbers(&Entropy::seeded(7)), numbers(&Entropy::seeded(8)));
        let one = Entropy::seeded(7);
        assert_ne!(numbers(&one), numbers(&one));
        assert_ne!(numbers(&Entropy::system()), numbers(&Entropy::default()));
    }
}
