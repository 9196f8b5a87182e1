//! The guard of a program that only one node may run: a process of its own between the node and the program.
//! The node is `callsign run`, or `callsign hold`.
//!
//! ```text
//!   callsign run  --- socket: trusted until T; stop --->  callsign guard  --- parent of ---> the program, a group of its own
//!    (the node)   <-- started, ending, ended, gone ---     (one thread)                      and whomever it starts
//! ```
//!
//! The node may be stopped, hang, or be killed; the guard then still knows until when the node was trusted. What holds:
//!
//! - trust ends: the program is asked to end, and killed when its grace is over, by the guard alone if need be;
//! - the node ends, in whatever way: the socket closes, and the guard kills the program at once; a guard that was
//!   stopped is continued by the kernel (its parent-death signal is SIGCONT);
//! - the guard ends: the kernel kills the program (its parent-death signal), and whoever else there was becomes a child of
//!   the node, which kills it;
//! - the program is its whole group and everybody who descends from it, also after a double fork and `setsid`: orphans
//!   become children of the guard (a child subreaper), which ends only when it has none left.
//!
//! A guard of its own session is not reached by a terminal's Ctrl-C and Ctrl-Z, nor by signals to the node's group. What
//! is outside: a node *and* a guard that are both stopped; a program that gets other privileges as it starts, which the
//! kernel and the guard may not kill; a process that the kernel cannot kill now. The fencing token is for those.

mod control;
mod core;
mod handle;
mod processes;
mod watch;

pub(crate) use core::{Ended, GuardReport, Why};
pub(crate) use handle::GuardHandle;
pub(crate) use processes::{kill_descendants, own_no_orphans};
pub(crate) use watch::{GuardArgs, Owner, StartArgs, guard, start};
