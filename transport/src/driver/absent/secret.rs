//! In place of secrets where Noise is left out.

/// How many secrets may be valid at once.
pub const MAX_SECRETS: usize = 0;

/// A cluster's shared secret. There is none in a build without the feature `noise`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {}
