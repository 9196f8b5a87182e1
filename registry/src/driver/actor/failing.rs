//! What becomes of a registry on a node that has failed: nothing of it goes on, and everybody is told.

use callsign_store::supervision::NodeFailure;

use super::Shared;
use crate::{core::input::Notice, status::Status};

impl Shared {
    /// The node has failed. Its session is not trusted any more, for good. The member may be gone, or broken, or alive.
    pub(crate) fn fails(&self, failure: &NodeFailure) {
        let _ = self.failure.set(failure.clone()); // only the first counts
        // An actor that is told knows what it has to do; one that hears nothing must not go on.
        let told = self.end_all_claims(Notice::Lost);
        self.ends();
        for (actor, cell) in self.watched.take_all() {
            if !told.contains(&actor) {
                cell.stop(Some("callsign: the node has failed".into()));
            }
        }
        self.answers_nobody();
        self.trusted.tell();
    }

    /// How the node has failed, if it has.
    pub(crate) fn failure(&self) -> Option<&NodeFailure> {
        self.failure.get()
    }

    /// What is known here of the registry.
    pub(crate) fn status(&self) -> Status {
        let status = (**self.status.load()).clone();
        match self.failure() {
            None => status,
            Some(failure) => status.of_failed(failure.clone()),
        }
    }
}
