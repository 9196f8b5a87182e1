//! In place of Noise where it is left out: nobody has a secret then, and nobody is asked for one.

use callsign_store::Entropy;

use super::wire::{WireRead, WireWrite};
use crate::{driver::secret::Secret, error::Refused};

/// This build was made without the feature `noise`.
#[derive(Debug, thiserror::Error)]
#[error("this build is without Noise (feature `noise`)")]
pub(crate) struct NoiseError;

impl From<NoiseError> for Refused {
    fn from(error: NoiseError) -> Self {
        Self::Malformed(error.to_string())
    }
}

pub(crate) struct Noise;

#[allow(clippy::unused_self)] // as the one that it stands for
impl Noise {
    pub(crate) fn new(_: &[Secret], _: bool, _: &Entropy) -> Self {
        Self
    }

    pub(crate) fn begin(&mut self, _: &[u8]) -> Result<(), NoiseError> {
        Err(NoiseError)
    }

    pub(crate) fn write(&mut self) -> Result<Vec<u8>, NoiseError> {
        Err(NoiseError)
    }

    pub(crate) fn read(&mut self, _: &[u8]) -> Result<(), NoiseError> {
        Err(NoiseError)
    }

    pub(crate) fn seal(&mut self, _: &mut WireRead, _: &mut WireWrite) -> Result<(), NoiseError> {
        Err(NoiseError)
    }
}
