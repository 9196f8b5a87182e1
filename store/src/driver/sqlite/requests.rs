//! What the reader is asked for.

use std::{
    sync::{Arc, mpsc},
    time::Instant,
};

use tokio::sync::oneshot;

use super::{looks::LookState, wake::Wakes, watches::Watch};
use crate::{
    core::transaction::{Read, ReadResult},
    error::StoreError,
};

pub(super) enum ReaderRequest {
    Read {
        reads: Vec<Read>,
        deadline: Instant,
        reply: oneshot::Sender<Result<ReadResult, StoreError>>,
        /// Dropped after the reply.
        wakes: Wakes,
    },
    Watch {
        watch: Watch,
        deadline: Instant,
    },
    /// Something may have changed, or the notifier is gone.
    Look,
}

/// Asks the reader to look at the watched keys. Many asking at once make one look.
#[derive(Clone)]
pub(super) struct Looks {
    requests: mpsc::Sender<ReaderRequest>,
    state: Arc<LookState>,
}

impl Looks {
    pub(super) fn new(requests: mpsc::Sender<ReaderRequest>, state: Arc<LookState>) -> Self {
        Self { requests, state }
    }

    pub(super) fn ask(&self) {
        if self.state.is_wanted() {
            // It fails when the store is closed: then nobody watches.
            let _ = self.requests.send(ReaderRequest::Look);
        }
    }

    /// From now on the reader looks on its own, slowly. Says whether it did not before.
    pub(super) fn look_slowly(&self) -> bool {
        let was_notified = self.state.look_slowly();
        if was_notified {
            let _ = self.requests.send(ReaderRequest::Look);
        }
        was_notified
    }
}
