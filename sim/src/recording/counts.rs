//! How often each check of recordings was exercised.

use crate::counted::{self, counted};

counted! {
    /// Something that is checked. A cluster in which no name passed on has no claims that were handed on.
    Count, spared: [Handed];

    Steps "steps replayed",
    Effects "effects compared",
    Batches "batches of the log seen",
    Shared "batches seen by several nodes, the same",
    Committers "epochs with one committing leader",
    Leaders "epochs with one leader, said by several nodes",
    Forward "steps of replicas, forward",
    Prefixes "replicas that hold what the log says",
    Views "views of the registry, in order",
    Trusts "sessions trusted only after they were granted",
    Claims "claims by a trusted session",
    Handed "claims on a name that another node held before",
    Grants "grants found in the log",
    Messages "messages to the process that they were asked for",
    Answers "calls answered once",
    Entries "queue entries taken once",
}

/// How often each was.
pub type RecordingCounts = counted::Counts<Count>;
