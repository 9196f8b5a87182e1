//! What lets a program run here: a term of an election, or a name that is held.

use std::future::Future;

use callsign_store::{Clock, time::Time};

/// By what right the program is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// In words: "leads in epoch 7".
    pub(crate) in_words: String,
    /// Variables for the program, and their values.
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// The right to run the program, as long as it lasts.
pub(crate) trait Mandate: Send + Sync + 'static {
    /// By what right the program is started, if it may run at this moment.
    fn check(&self) -> Option<Allowed>;

    /// When the program is asked to end, if nothing else happens. It has its grace after that. `None`: it may not run.
    fn until(&self) -> Option<Time>;

    /// Returns when [`until`](Self::until) may have changed. May be dropped and called again.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// The clock of [`until`](Self::until): boot time.
    fn clock(&self) -> &Clock;

    /// What is said when the program is asked to end because nobody extended that time.
    fn not_extended(&self) -> &'static str;
}
