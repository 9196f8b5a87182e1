//! What leading means.

use std::{future::Future, time::Duration};

use super::oracle::Grant;
use crate::core::term::Term;

/// Why leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The oracle said no.
    #[error("the seat is somebody else's")]
    Denied,
    /// No refresh came through in time.
    #[error("no refresh came through in time")]
    TrustLapsed,
    /// Somebody asked for it.
    #[error("somebody asked for it")]
    ResignRequested,
    /// The campaign stops.
    #[error("the campaign stops")]
    Shutdown,
    /// The role did not get going, or ended by itself.
    #[error("the role did not get going, or ended by itself")]
    RoleFailed,
}

/// The role cannot be taken up. The term is given back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the role cannot be taken up: {0}")]
pub struct Abort(pub String);

/// The work that only one may do.
pub trait Role<F>: Send + 'static {
    /// Takes it up. Runs after the grant, and before anybody is told; trust may end meanwhile, and it is dropped then.
    fn activate(&mut self, grant: &Grant<F>) -> impl Future<Output = Result<(), Abort>> + Send;

    /// Puts it down. Runs after the handle has lapsed and subscribers were told, and before the seat is given back.
    /// Dropped when `budget` is over; what still runs then must be ended by [`abort`](Self::abort).
    fn deactivate(&mut self, why: Lost, budget: Duration) -> impl Future<Output = ()> + Send;

    /// Ends at once what [`deactivate`](Self::deactivate) or [`activate`](Self::activate) did not end in time. Does not
    /// wait.
    fn abort(&mut self) {}

    /// Ends when nothing of the role runs any more, after [`abort`](Self::abort). The seat is not given back before: a role
    /// that blocks its thread keeps it until its lease ends. Default: at once, for roles whose work is in the futures above.
    fn aborted(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Another leads, or nobody.
    fn follow(&mut self, leader: Option<&Term>) -> impl Future<Output = ()> + Send {
        let _ = leader;
        async {}
    }

    /// Ends when the work has ended by itself while leading: the term is given back then.
    fn ended(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}
