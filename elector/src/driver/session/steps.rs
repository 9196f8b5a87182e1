//! What the driver of a session steps: a session is a part of its node, and is stepped with it.

use callsign_store::time::Time;

use crate::core::session::{Effect, Input, Session};

/// The core that a session is a part of.
pub trait Steps: Send + Sync + 'static {
    /// Tells the session, and has done what follows: what the session asks for by `driver`, in its order among what else is asked for.
    fn step(&self, now: Time, input: Input, driver: &mut dyn CarriesOut);

    /// What other parts of the node have to tell the session: the first of it, which is to be told by [`step`](Self::step).
    fn take(&self) -> Option<Input>;

    /// The driver broke, maybe in the midst of a step. What closes the session that it left open is to be taken next.
    fn start_over(&self);
}

/// Whoever carries out what a session asks for.
pub trait CarriesOut {
    /// The session has taken the input: so it is now, and all this it asks for. Nothing was done yet.
    fn has_stepped(&mut self, session: &Session, asked: &mut dyn Iterator<Item = &Effect>);

    /// Carries out the next of what it asks for.
    fn carry_out(&mut self, effect: Effect);
}
