//! What programs that run clusters have in common: numbers they are given, their seed, and where a run is written.

use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use tempfile::TempDir;

/// A number of minutes or seconds that an argument may be. An error says what it has to be.
pub fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "a number".to_owned())?;
    if value > 0.0 && value < 100_000.0 { Ok(value) } else { Err("more than 0, less than 100000".to_owned()) }
}

/// The seed that was asked for, or a fresh one.
pub fn seed(asked: Option<u64>) -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    asked.unwrap_or_else(|| now().into())
}

/// Where a run is written.
#[derive(Debug)]
pub enum Place {
    /// Where it was asked for. It stays.
    Asked(PathBuf),
    /// In a directory that is gone when this is dropped.
    Temporary(TempDir),
}

impl Place {
    /// The directory that was asked for, or a temporary one whose name begins so. An error: that cannot be made.
    pub fn new(asked: Option<PathBuf>, begin: &str) -> Result<Self> {
        Ok(match asked {
            Some(directory) => Self::Asked(directory),
            None => Self::Temporary(tempfile::Builder::new().prefix(begin).tempdir()?),
        })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        match self {
            Self::Asked(directory) => directory,
            Self::Temporary(temporary) => temporary.path(),
        }
    }

    /// Keeps it, and returns the directory.
    pub fn keep(self) -> PathBuf {
        match self {
            Self::Asked(directory) => directory,
            Self::Temporary(temporary) => temporary.keep(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_more_than_none() {
        assert_eq!(positive("0.2"), Ok(0.2));
        for wrong in ["0", "-1", "100000", "NaN", "x"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_seed_that_was_asked_for_is_taken() {
        assert_eq!(seed(Some(7)), 7);
    }

    #[test]
    fn what_was_not_asked_for_is_gone_unless_it_is_kept() {
        let [dropped, kept] = [0, 1].map(|_| Place::new(None, "callsign-place-").unwrap());
        let directory = dropped.directory().to_owned();
        assert!(directory.exists());
        drop(dropped);
        assert!(!directory.exists());
        let directory = kept.keep();
        assert!(directory.exists());
        let asked = Place::new(Some(directory.clone()), "callsign-place-").unwrap();
        assert_eq!(asked.directory(), directory);
        assert_eq!(asked.keep(), directory);
        std::fs::remove_dir(directory).unwrap();
    }
}
