//! A name that is held: its handle.

use std::{fmt, sync::Arc, time::Duration};

use callsign_store::ids::{Position, SessionNumber};

use crate::{
    core::{
        input::{Answer, Call, Granted},
        meta::Meta,
        name::Name,
    },
    driver::actor::{AskedClaim, Flag, Flagged, Shared},
    error::{UnregisterError, UpdateError},
};

/// A name that an actor of this node holds, and for how long it may believe so.
#[derive(Clone)]
pub struct Registration {
    name: Name,
    token: Position,
    /// That of the grant.
    revision: Position,
    session: SessionNumber,
    shared: Arc<Shared>,
    /// Shared by all handles of the same claim.
    flag: Flag,
}

/// What was granted, and the flag of its claim.
pub(super) struct HeldClaim {
    pub(super) granted: Granted,
    pub(super) flag: Flag,
}

impl HeldClaim {
    /// What was granted to this request, or to an earlier one of the same actor.
    pub(super) fn by(asked: Option<AskedClaim>, granted: Granted, shared: &Shared) -> Self {
        let flag = asked.and_then(|asked| asked.flag_of(granted.claim));
        Self { granted, flag: flag.unwrap_or_else(|| shared.flag_of(granted.claim)) }
    }
}

/// Why an actor may not act under its name now: the name may be another's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotHeld {
    /// This node's session is not trusted. The name is held again if the session is found open, which
    /// [`Notice::Resumed`](crate::Notice::Resumed) says.
    #[error("the session of this registration is not trusted")]
    NotTrusted,
    /// The name is being handed to another actor, as the policy of this registration allows. It is held again if that does not
    /// come about.
    #[error("the name of this registration is being handed to another actor")]
    Moving,
    /// The registration has ended: the name was given up, handed over or lost, its actor has ended, or its session was closed. It
    /// never holds again.
    #[error("this registration has ended")]
    Ended,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("name", &self.name)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl Registration {
    pub(super) fn new(name: Name, HeldClaim { granted, flag }: HeldClaim, shared: Arc<Shared>) -> Self {
        let Granted { token, revision, session, claim: _ } = granted;
        Self { name, token, revision, session, shared, flag }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn session(&self) -> SessionNumber {
        self.session
    }

    /// The fencing token: where the registration is in the registry's log. It only grows, from holder to holder, so
    /// that whatever the actor writes to can refuse an older one.
    pub fn token(&self) -> Position {
        self.token
    }

    /// Asks before an act whether the name can still be held by nobody else. Five atomic loads and a reading of the
    /// clock: no lock, no I/O.
    ///
    /// It fails as soon as the session is not trusted, while the name is handed to another actor, and for good from the moment at which this node begins to give the
    /// name up or finds it lost, or its actor has ended. All handles of the same registration fail together.
    pub fn check(&self) -> Result<(), NotHeld> {
        let trusted = self.shared.trust.check_session(self.session);
        // After the trust: a flag that is not raised now was not raised then either, so there was a moment at which both held.
        match self.flag.get() {
            Flagged::No => {}
            Flagged::Suspended => return Err(NotHeld::Moving),
            Flagged::Ended => return Err(NotHeld::Ended),
        }
        trusted.map_err(|lapsed| match lapsed.session {
            Some(other) if other > self.session => NotHeld::Ended,
            _ => NotHeld::NotTrusted,
        })
    }

    /// Where the metadata was changed last when this registration was granted: at its token, or later if the same actor held
    /// the name already, and has changed its metadata since.
    pub fn revision(&self) -> Position {
        self.revision
    }

    /// Replaces what the actor says of itself; `None` takes it back. Returns the new revision. The token stays.
    ///
    /// With `expected`, only if the last change is at that revision: of two who read the same revision and write, one is
    /// refused. Without it, whatever the last change is. When it returns `Ok`, this node's own lookups see it. Costs one
    /// commit of the store, shared with whatever else is asked for meanwhile.
    ///
    /// # Errors
    /// See [`UpdateError`]. After `Unknown` the change may come yet: read the revision
    /// ([`Registry::lookup_consistent`](crate::Registry::lookup_consistent)), and give it as `expected`.
    pub async fn update(
        &self,
        expected: Option<Position>,
        meta: Option<Meta>,
    ) -> Result<Position, UpdateError> {
        if let Some(lasting) = self.shared.calls.refused() {
            return Err(UpdateError::StoreUnavailable { lasting });
        }
        let call = Call::Update { name: self.name.clone(), token: self.token, revision: expected, meta };
        match self.shared.call(call, self.shared.calls.timeout).await {
            Some(Answer::Updated(result)) => result,
            _ => Err(self.shared.failure().cloned().map_or(UpdateError::Left, UpdateError::Failed)),
        }
    }

    /// Gives up the name, which a membership has beside that of its group, if it is held under this registration: what another actor of this
    /// node has by now is left alone.
    pub(super) async fn withdraw(&self, name: Name) -> Result<Position, UnregisterError> {
        if let Some(lasting) = self.shared.calls.refused() {
            return Err(UnregisterError::StoreUnavailable { lasting });
        }
        let call = Call::Withdraw { name, token: self.token };
        match self.shared.call(call, self.shared.calls.timeout).await {
            Some(Answer::Unregistered(result)) => result,
            _ => Err(self.shared.failure().cloned().map_or(UnregisterError::Left, UnregisterError::Failed)),
        }
    }

    /// For how long the name can be held by nobody else from now on, if this node does not hear from the store again. It is
    /// extended while the node does.
    ///
    /// It counts from the moment of the call. To hand it on as a moment of the boot-time clock, read that clock *before* the call.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn trusted_for(&self) -> Result<Duration, NotHeld> {
        // Read before the check: trust that ran out in between is not passed on.
        let remaining = self.shared.trust.remaining();
        self.check().map(|()| remaining)
    }
}
