//! What is decided, as pure cores: the folder `driver` carries it out.

pub(crate) mod caller;
pub(crate) mod catchup;
pub(crate) mod entry;
pub(crate) mod explained;
pub(crate) mod fence;
pub(crate) mod group;
pub(crate) mod handoff;
pub(crate) mod host;
pub(crate) mod input;
pub(crate) mod leader;
pub(crate) mod leaving;
pub(crate) mod log;
pub(crate) mod member;
pub(crate) mod message;
pub(crate) mod meta;
pub(crate) mod name;
pub(crate) mod node;
pub(crate) mod permitted;
pub(crate) mod rank;
pub(crate) mod reads;
pub(crate) mod registry;
pub(crate) mod replica;
pub(crate) mod rows;
mod said;
pub(crate) mod select;
#[cfg(feature = "election")]
pub(crate) mod singleton;
pub(crate) mod snapshot;
pub(crate) mod table;
pub(crate) mod taking;
pub(crate) mod traced;
pub(crate) mod trim;
pub(crate) mod tuning;
pub(crate) mod watch;
pub(crate) mod why;
