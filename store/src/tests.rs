//! Tests of what is in several modules.

mod golden;
mod ids;
