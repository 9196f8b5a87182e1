//! What is left of candidates: who removes a row, and when there must be none.

use callsign_election::{
    campaign::{End, Release},
    state::{Row, SWEPT_AFTER},
};
use callsign_store::time::Time;

use super::{Judge, Records, member, read};
use crate::elections::{
    Slot,
    checks::Check,
    process::{Author, ElectionProcess, Intent, OracleCallKind},
    world::ElectionWorld,
};

impl Judge {
    /// Rows were written, and some are not there any more.
    pub(super) fn rows_changed(
        &mut self,
        world: &ElectionWorld,
        before: &Records,
        after: &Records,
        author: Option<Author>,
    ) {
        for (name, row) in &before.rows {
            let Some(author) = author.filter(|_| !after.rows.contains_key(name)) else { continue };
            let is_own = member(world, author.at) == Some(name) && row.incarnation == author.incarnation;
            let since = self.rows_since.get(name).copied().unwrap_or_default();
            let silent = world.now.saturating_sub(since);
            let is_long = silent >= self.less_drift(row.timeout * SWEPT_AFTER);
            let holder = before.seat.as_ref().and_then(|seat| seat.holder.as_ref());
            let holds = holder.is_some_and(|h| h.incarnation == author.incarnation);
            let may = match author.intent {
                Intent::Leave => is_own,
                Intent::Sweep => is_long && holds && !is_own,
                _ => false,
            };
            self.hold(Check::Removed, may, || {
                format!("{author:?} removed {name} of {row:?}, unchanged for {silent:?}")
            });
            if author.intent == Intent::Sweep {
                self.met(Check::Swept);
                self.swept.insert(row.incarnation);
            }
        }
        for (name, row) in &after.rows {
            if before.rows.get(name) != Some(row) {
                self.rows_since.insert(name.clone(), world.now);
            }
            if !before.rows.contains_key(name) && self.swept.remove(&row.incarnation) {
                self.met(Check::CameBack);
            }
        }
    }

    /// A campaign has ended.
    pub(in crate::elections) fn ended(&mut self, world: &ElectionWorld, at: Slot, end: &End) {
        let Some((process, name)) = world.process(at).zip(member(world, at)) else { return };
        // What may still work is not taken for gone; and what the store did not answer may not have been done.
        if end.release == Release::RoleStuck || process.may_leave_some {
            return;
        }
        let row: Option<Row> = read(world, &world.setup.keys.candidate(name));
        let left = row.filter(|row| row.incarnation == process.incarnation);
        self.hold(Check::LeavesNothing, left.is_none(), || format!("machine {at} ended, and left {left:?}"));
    }

    /// A holder that tidies up stops when a refresh is due.
    pub(super) fn yields(&mut self, now: Time, process: &ElectionProcess) {
        let is_tidying =
            process.asking.as_ref().is_some_and(|asking| asking.asked.kind == OracleCallKind::Tidy);
        if let Some(due) = process.refresh_due.filter(|_| is_tidying) {
            self.hold(Check::Yields, now < due, || {
                format!("{:?} sweeps at {now:?}, and was to refresh at {due:?}", process.incarnation)
            });
        }
    }

    /// All was at rest for so long that nothing of those that are gone is left.
    pub(in crate::elections) fn rows_left(&mut self, world: &ElectionWorld) {
        let lives = |row: &Row| {
            let mut processes = world.slots().filter_map(|at| world.process(at));
            processes.any(|process| process.incarnation == row.incarnation)
        };
        for (name, row) in self.records(world).rows {
            self.hold(Check::NothingIsLeft, lives(&row), || format!("of {name} there is still {row:?}"));
        }
    }
}
