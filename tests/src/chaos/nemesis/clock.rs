//! The wall clock of one process is set. Nothing may come of it: nobody compares wall clocks.
//!
//! `libfaketime` stands between the process and `clock_gettime`, and reads how far to shift from a file. The monotonic and the
//! boot-time clock stay as they are. Each node writes down how far its wall clock is off, so that the report can say how often
//! the shift was seen inside.

use super::{Aim, Nemesis};
use crate::chaos::world::World;

pub(super) struct Shift;

impl Nemesis for Shift {
    fn missing(&self, world: &World) -> Option<String> {
        world.why_no_clocks()
    }

    fn begin(&self, world: &mut World, aim: &Aim) -> String {
        const SECONDS: [i64; 6] = [-86_400, -3_600, -30, 30, 3_600, 86_400];
        let by = SECONDS[usize::try_from(aim.draw % 6).unwrap_or(0)];
        world.set_wall_clock(&aim.node, by);
        format!("{by:+} s")
    }

    fn end(&self, world: &mut World, aim: &Aim) {
        world.set_wall_clock(&aim.node, 0);
    }
}
