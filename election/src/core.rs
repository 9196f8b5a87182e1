//! What is decided, as pure cores: the folder `driver` carries it out.

pub mod campaign;
pub mod config;
pub(crate) mod lease;
pub mod policy;
mod said;
pub mod state;
pub mod term;
pub mod timing;
