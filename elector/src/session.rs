//! A node's lease in the store: one per node and cluster, for all its registries.
//!
//! Decides whether this node may trust what it holds, and when the session of a silent node is over.
//!
//! Takes as given: serializable commits; a clock that advances while the process is stopped; clocks of two nodes
//! that drift apart no faster than configured. Not given: that a commit is answered, or answered in time; that it
//! does not land later; that anybody's process runs when it should.
//!
//! Promises:
//!
//! - while a node trusts its session, the session is open (P1): trust counts from the *start* of a beat that
//!   committed, closing from the *end* of a read that showed it, and closing is atomic with the beat it races;
//! - a node that died is closed within S and one observation of whoever observes it, at once where the store proves the death (P8);
//! - every closing of a session that this node [observes](Observed) and saw open is reported once.
//!
//! Does not promise that a node with a session can be reached, or that one without is dead.
//!
//! ```text
//! host       |-- beat 7 --|                         trusted until here |
//!            ^ start      ^ committed                                  |
//!            |------------------ S - margin - drift ------------------>|
//! observer        |-- read --|  ...  |-- read --|   ...            ...   |-- read --|-- close if still 7 --|
//!                            ^ first shows 7                                       ^ still shows 7
//!                            |---------------------- S ----------------------------|
//! ```
//!
//! [`Session`] is the pure core, a part of the core of its node, which alone steps it ([`Steps`]). [`NodeSession`] drives it, and
//! hands out the [`TrustHandle`] that everything which acts on behalf of the node asks first.

pub use crate::{
    core::session::{
        Effect, Input, RequestId, Session,
        config::SessionConfig,
        event::{Obstacle, SessionEvent, SessionFailure},
        observe::{Observed, SessionSight},
        timing::{self, SessionTiming, TimingError},
    },
    driver::{
        session::{CarriesOut, LeaveError, NodeSession, OpenSessionError, Patience, SessionOpening, Steps},
        trust::{Lapsed, TrustHandle},
    },
};
