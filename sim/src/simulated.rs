//! What both simulators have in common, the registry's and that of elections: scenarios, seeds, runs, counts.

use std::fmt;

use callsign_store::hash::{FNV_BASIS, fnv1a};
use clap::ValueEnum;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    counted::{Counted, Counts},
    world::Violation,
};

/// The scenarios of a simulator: which worlds are drawn from seeds.
pub trait Simulated: Copy + fmt::Debug + Send + Sync + ValueEnum + 'static {
    /// What can happen in such a world.
    type Action: Clone + fmt::Debug + Send + Serialize + DeserializeOwned;
    /// What is checked.
    type Check: Counted + PartialEq + fmt::Debug + Send;
    /// What runs on one thread leave for the next one.
    type Kept: Default + Send;
    /// The check that a core which panics has failed.
    const PANICS: &'static str;

    /// Its name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Which kind of action it is.
    fn kind(action: &Self::Action) -> &'static str;

    /// Runs a seed.
    fn run(self, seed: u64, kept: &mut Self::Kept) -> Ran<Self>;
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ran<S: Simulated> {
    /// The seed.
    pub seed: u64,
    /// Everything that happened.
    pub trace: Vec<S::Action>,
    /// How many of these were drawn before the healing.
    pub faulty: usize,
    /// How often each check was exercised.
    pub counts: Counts<S::Check>,
    /// What was found wrong.
    pub violation: Option<Violation>,
}

impl<S: Simulated> Ran<S> {
    /// A digest of the trace: the same seed gives the same.
    pub fn digest(&self) -> u64 {
        self.trace.iter().fold(FNV_BASIS, |hash, action| fnv1a(hash, format!("{action:?}").as_bytes()))
    }
}
