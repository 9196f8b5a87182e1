//! Good recordings pass; each rule is broken once, by a small history made by hand.

mod files;
mod rules;
