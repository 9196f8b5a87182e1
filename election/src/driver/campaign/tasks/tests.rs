//! Under paused time: the runtime's clock moves only when everybody waits.

mod dying;
mod edges;
mod leading;
mod listening;
mod playing;
mod stopping;
mod toy;
