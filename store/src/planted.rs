//! Defects that the simulator plants in the cores, to show that it would find them.
//!
//! A core says `if planted!("down-without-token") { ... }` where somebody might get it wrong. Without the feature `planted`
//! that is `if false`, and nothing of it is left in the library; with it, the process-wide `plant` decides.

/// Whether the defect of this name is planted now.
#[cfg(not(feature = "planted"))]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        false
    };
}

/// Whether the defect of this name is planted now.
#[cfg(feature = "planted")]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {{
        const ID: u64 = $crate::planted::id($name);
        $crate::planted::is_planted(ID)
    }};
}

#[cfg(feature = "planted")]
mod on {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    static PLANTED: AtomicU64 = AtomicU64::new(0);

    /// Plants one defect in this process, in place of any other; `None` plants none.
    pub fn plant(name: Option<&str>) {
        PLANTED.store(name.map_or(0, id), Relaxed);
    }

    #[doc(hidden)]
    pub fn is_planted(id: u64) -> bool {
        PLANTED.load(Relaxed) == id
    }

    /// FNV-1a, never 0.
    #[doc(hidden)]
    pub const fn id(name: &str) -> u64 {
        let (bytes, mut hash, mut i) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
            i += 1;
        }
        hash | 1
    }
}

#[cfg(feature = "planted")]
pub use on::{id, is_planted, plant};
