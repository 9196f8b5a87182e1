//! Stories told step by step, under virtual time.

mod answers;
mod cooling;
mod ends;
mod leaving;
mod losses;
mod overtaken;
mod polling;
mod roles;
mod story;
mod tidying;
mod waking;
mod worth;
