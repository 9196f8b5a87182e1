//! Stories told step by step, under virtual time.

mod answers;
mod cooling;
mod ends;
mod leaving;
mod losses;
mod polling;
mod story;
mod tidying;
