//! Stories told step by step, under virtual time.

mod answers;
mod losses;
mod polling;
mod random;
mod story;
