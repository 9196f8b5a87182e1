//! Elections: leases and campaigns. Four of the fifteen defects of election 4.4 are those of the queue and are in the table
//! of members: `token-check-off`, `restarted-leader-keeps-epoch`, `lock-without-nonce`, `entry-of-any-epoch`.

use crate::mutants::{Mutant, table::mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("lease-resign-resets-ballot", "election/src/core/state/seat.rs")
        .does("Clears the seat's record at a resignation, and its counter with it.")
        .found("elections", 200, "election 4.1 F, 4.4 (reset ballot on resign)"),
    mutant("lease-refresh-by-member", "election/src/core/state/seat.rs")
        .does("Refreshes and resigns whatever term a member of this name has.")
        .found("elections-pauses", 200, "election 4.1 Oban #1488; 4.4 (refresh by member id only)"),
    mutant("lease-refresh-of-expired", "election/src/core/state/seat.rs")
        .does("Refreshes a term whose lease is over, if nobody took it.")
        .found("elections-pauses", 200, "election 4.1 F, C10; 4.4 (drop the expiry test in refresh)"),
    mutant("lease-own-duration", "election/src/core/state/seat.rs")
        .does("Waits for the lease that is configured now, not for the holder's.")
        .found("elections-admin", 200, "election D17; 4.4 (own instead of persisted duration)"),
    mutant("lease-shortened-at-once", "election/src/core/state/seat.rs")
        .does("A refresh writes a lease that was made shorter, although its holder may not hear of it.")
        .found("elections-admin", 2000, "election H2"),
    mutant("lease-heir-forgotten", "election/src/core/state/seat.rs")
        .does("A seat that was given up for a better candidate goes to whoever asks first.")
        .found("elections", 200, "election E11, E13"),
    mutant("lease-adopts-uncommitted", "election/src/core/lease/operation.rs")
        .does("Believes in its own refresh before it is committed.")
        .found("elections-store", 200, "election F'; 4.4 (adopt an observation before commit)"),
    mutant("lease-ages-from-before-read", "election/src/core/lease/memory.rs")
        .does("Counts the age of a record from before it was read.")
        .found("elections-pauses", 200, "election F'; 4.4 (age it from before the read)"),
    mutant("campaign-trust-from-the-reply", "election/src/core/campaign/grants.rs")
        .does("Counts trust from when the grant came.")
        .found("elections-pauses", 200, "election 4.3, 4.4 (anchor trust at the reply)"),
    mutant("campaign-late-grant-is-used", "election/src/core/campaign/grants.rs")
        .does("Uses a grant whose window is over.")
        .found("elections-pauses", 200, "election C6"),
    mutant("campaign-refresh-at-the-end", "election/src/core/campaign/grants.rs")
        .does("Refreshes when trust ends, and has no time left for it.")
        .found("elections", 200, "election C12; 4.1 R (#217)"),
    mutant("campaign-denied-as-fault", "election/src/core/campaign/calls.rs")
        .does("Takes a denial for a failure, and leads on until trust ends.")
        .found("elections", 200, "election 4.1 Oban; 4.4 (merge Denied and Fault)"),
    mutant("campaign-fault-as-denied", "election/src/core/campaign/calls.rs")
        .does("Takes a failure for a denial, and stops at the first.")
        .found("elections", 200, "election 4.1 P #3404; 4.4 (merge Denied and Fault)"),
    mutant("campaign-release-before-stop", "election/src/core/campaign/role.rs")
        .does("Gives the seat back while the role still stops.")
        .found("elections", 200, "election 4.1 R, K PR #139991; 4.4 (release before stop)"),
    mutant("campaign-request-outlives-its-term", "election/src/core/campaign/calls.rs, election/src/core/campaign/release.rs, election/src/core/campaign/signals.rs")
        .does("Keeps a request to resign for the next term.")
        .found("elections-admin", 200, "election I5; 4.1 R"),
    mutant("campaign-notification-without-polling", "election/src/core/campaign/calls.rs, election/src/core/campaign/signals.rs")
        .does("Asks again only when it is told to.")
        .found("elections", 200, "election D10; 4.4 (notification without polling)"),
    mutant("campaign-leaves-its-row", "election/src/core/campaign/leaving.rs")
        .does("Ends, and leaves its candidate's row where it is.")
        .found("elections", 200, "election E7; DESIGN 11 (nodes that come and go)"),
    mutant("campaign-sweep-instead-of-refresh", "election/src/core/campaign/tidying.rs")
        .does("Goes on with a sweep although a refresh is due.")
        .found("elections-pauses", 200, "election E6, D10"),
    mutant("lease-leaves-for-a-namesake", "election/src/core/state/candidates.rs")
        .does("Removes the row of whichever incarnation has it when it leaves.")
        .found("elections", 200, "election E7, A2"),
    mutant("lease-sweep-of-the-living", "election/src/core/state/candidates.rs")
        .does("Sweeps candidates away that were not silent for long.")
        .found("elections", 200, "election E6"),
    mutant("lease-never-swept", "election/src/core/lease/sweep.rs")
        .does("Waits for its next sweep again and again.")
        .found("elections", 200, "election E6; DESIGN 11 (nodes that come and go)"),
    mutant("campaign-monotonic-clock", "store/src/driver/clock.rs")
        .does("Measures trust by a clock that stands still in suspend.")
        .found("elections-pauses", 200, "election 4.3, 4.4 (plain monotonic clock under suspend)"),
];
