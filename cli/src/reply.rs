//! What a node answers over HTTP when it does not say yes, as the library has it.

pub(crate) use callsign::admin::{HttpRefusal as Refusal, HttpVerdict as Verdict, command::exact};
