//! Who draws the keys of handshakes.

use std::{fmt, sync::Arc};

pub(crate) type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// Who draws the keys of Noise's handshakes. Default: the operating system. What TLS draws is always the system's.
#[derive(Clone, Default)]
pub struct Draws(Option<Arc<Fill>>);

impl Draws {
    /// This function fills the bytes.
    pub fn by(fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(fill)))
    }

    pub(crate) fn filler(&self) -> Option<&Arc<Fill>> {
        self.0.as_ref()
    }
}

impl fmt::Debug for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Draws(by a function)" } else { "Draws(by the system)" })
    }
}
