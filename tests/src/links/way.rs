//! One direction between two ends.

use std::time::Duration;

/// What becomes of bytes that go one way. Default: they are passed on at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether anything passes. What does not is kept by proxies, and passes later; namespaces lose it, and TCP sends it again.
    pub is_open: bool,
    /// How long everything takes.
    pub delay: Duration,
    /// Up to how much longer, drawn afresh for each piece. Order is kept.
    pub jitter: Duration,
    /// Of a thousand pieces, so many are lost and sent again by TCP, after 200 ms and more: all behind them wait. In namespaces,
    /// of a thousand packets, so many are lost.
    pub lost_per_mille: u64,
    /// Of a thousand pieces, at so many the connection breaks instead. By proxies only.
    pub broken_per_mille: u64,
}

/// A way, as it is now.
#[derive(Clone, Debug, Default)]
pub(super) struct Now {
    pub(super) way: Way,
    /// Grows when the connections that are there are to break.
    pub(super) breaks: u64,
}

/// After how long a piece that was lost is sent again, at first.
pub(super) const RESENT: Duration = Duration::from_millis(200);

impl Default for Way {
    fn default() -> Self {
        Self {
            is_open: true,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            lost_per_mille: 0,
            broken_per_mille: 0,
        }
    }
}

impl Way {
    /// Nothing passes.
    pub fn cut() -> Self {
        Self { is_open: false, ..Self::default() }
    }

    /// Everything takes this long, and up to half of it longer.
    pub fn slow(delay: Duration) -> Self {
        Self { delay, jitter: delay / 2, ..Self::default() }
    }

    /// So many of a thousand pieces are lost.
    pub fn lossy(lost_per_mille: u64) -> Self {
        Self { lost_per_mille, ..Self::default() }
    }

    /// What both make of a way.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let either = |one: u64, other: u64| one + other - one * other / 1000;
        Self {
            is_open: self.is_open && other.is_open,
            delay: self.delay + other.delay,
            jitter: self.jitter + other.jitter,
            lost_per_mille: either(self.lost_per_mille, other.lost_per_mille),
            broken_per_mille: either(self.broken_per_mille, other.broken_per_mille),
        }
    }
}
