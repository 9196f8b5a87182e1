//! What is decided, as pure cores: the folder `driver` carries it out.

pub(crate) mod elector;
pub mod lineage;
pub mod member_rows;
pub mod past;
pub mod policy;
pub mod record;
pub(crate) mod session;
pub mod sessions;
pub mod settings;
pub mod state;
pub(crate) mod sweep;
pub mod wipe;
