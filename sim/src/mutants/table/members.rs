//! Who is a member, who leads, whose session counts: the queue, the seat, the lock, sessions.

use crate::mutants::{Mutant, STANDARD, table::mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    // the membership queue and the seat
    mutant("token-check-off", "elector/src/core/state.rs")
        .does("Believes that a member is down whatever join of it was meant, and whatever its session is.")
        .found("store", 1_000, "roadmap; dgen H20, N5"),
    mutant("entry-of-any-epoch", "elector/src/core/state.rs")
        .does("Applies what was said in an epoch that is over: an accusation, a resignation, a `Synced`.")
        .found("snapshots", 1_000, "election 4.4 (epoch check on messages)"),
    mutant("settings-forget-the-rest", "elector/src/core/settings.rs")
        .does("Takes what an entry does not name for something that it unsets.")
        .found("configured", 1_000, "design 4 (Configure)"),
    mutant("rank-ignored", "elector/src/core/policy.rs")
        .does("Gives a vacant seat to whoever proposes itself, although members are ranked.")
        .found("configured", 1_000, "design 4 (Policy)"),
    mutant("resurrecting-join", "elector/src/core/state.rs")
        .does("Lets a member join whose session was closed while its entry waited.")
        .found("links", 2_000, "roadmap; dgen H21; style B5.7"),
    mutant("restarted-leader-keeps-epoch", "elector/src/core/state.rs")
        .does("Leaves a leader that joins again in its seat, in the same epoch.")
        .found("forsaken", 2_000, "roadmap; dgen N6; election 4.4"),
    mutant("restarted-member-still-synced", "elector/src/core/state.rs")
        .does("Lets a member that joins again inherit that its row says synced.")
        .found("links", 1_000, "roadmap"),
    mutant("term-rewritten-on-join", "elector/src/core/state.rs")
        .does("Writes the leader's record anew, with a new ballot, whenever somebody joins.")
        .found(STANDARD, 1_000, "roadmap; dgen N7"),
    mutant("leaver-keeps-seat", "elector/src/core/state.rs")
        .does("Removes a leader that leaves from the members, and forgets the seat.")
        .found(STANDARD, 1_000, "election 4.4 I5"),
    mutant("dead-leader-keeps-seat", "elector/src/core/state.rs")
        .does("Removes a leader whose session is closed from the members, and forgets the seat.")
        .found("lapses", 1_000, "dgen H22; election 4.4 I5"),
    mutant("votes-outlive-epoch", "elector/src/core/state.rs")
        .does("Counts accusations of former leaders against the present one.")
        .found("clocks", 1_000, "DESIGN 4 (an accusation dies with its epoch)"),
    mutant("votes-without-contact-count", "elector/src/core/state.rs")
        .does("Counts the votes of members that never had contact with the leader like all others.")
        .found("slow", 1_000, "DESIGN 4 (halves do not depose each other)"),
    mutant("one-vote-deposes", "elector/src/core/state.rs")
        .does("Deposes a leader as soon as one member calls it silent.")
        .found("crashes", 1_000, "dgen H22; DESIGN 4 (one isolated member deposes nobody)"),
    mutant("epoch-reset-on-vacancy", "elector/src/core/state.rs")
        .does("Begins the epochs anew when the seat falls vacant.")
        .found("bulk", 1_000, "election 4.1 F, 4.4 (ballot reset on resign)"),
    mutant("opens-empty-while-session-lives", "elector/src/core/state.rs")
        .does("Lets a member without a base empty the registry although a session with names lives.")
        .found("lapses", 2_000, "roadmap; dgen H9"),
    mutant("synced-below-floor", "elector/src/core/state.rs")
        .does("Takes a replica for synced whose position the log no longer reaches.")
        .found("slow", 30_000, "DESIGN 5 (dropped below floor - 1)"),
    mutant("unsynced-elected", "elector/src/core/policy.rs")
        .does("Elects members that do not hold the log's end while others do.")
        .found("lapses", 1_000, "dgen H9; registries, gproc"),
    mutant("dead-elected", "elector/src/core/policy.rs")
        .does("Elects members without looking whether their sessions are open.")
        .found(STANDARD, 3_000, "dgen H21, H22"),
    mutant("deposed-takes-seat-back", "elector/src/core/policy.rs")
        .does("Lets the leader that was just deposed, or resigned, take the seat before another synced member.")
        .found("slow", 1_000, "election 4.1 R (#286)"),
    mutant("former-row-taken-for-own", "elector/src/core/elector/act.rs")
        .does("Takes the row of this node's former incarnation, or former join, for its own.")
        .found("lapses", 2_000, "election 4.1 A2, Oban; dgen N6"),
    mutant("dead-member-never-accused", "elector/src/core/elector/act.rs")
        .does("Leaves it to others to report a member whose session is closed.")
        .found("crashes", 1_000, "style B5.6; dgen H22"),
    mutant("queue-out-of-order", "elector/src/core/elector/act.rs")
        .does("Takes the second entry of the queue before the first.")
        .found(STANDARD, 1_000, "roadmap (each entry once, in order)"),
    mutant("watch-without-poll", "elector/src/core/elector/taking_in.rs")
        .does("Relies on watches, and reads the store only when one fires.")
        .found("leaders", 20_000, "election 4.4 (notification without polling); dgen N14"),
    mutant("entry-not-checked", "elector/src/core/elector/plan.rs")
        .does("Applies an entry without checking that it is still in the queue.")
        .found("forming", 2_000, "roadmap (each entry once, in order); style B5.7"),
    mutant("author-number-not-checked", "elector/src/core/elector/plan.rs")
        .does("Enqueues without checking the author's last number, so that a join whose outcome was unknown lands twice.")
        .found("forming", 2_000, "style B5.2"),
    mutant("election-without-term", "elector/src/core/elector/plan.rs")
        .does("Writes a decision without checking that the term is the one it was made from.")
        .found("traces/decision-of-a-former-term", 1, "election 4.1 D5; style B5.7"),
    // the lock
    mutant("vacating-stuck-behind-lock", "elector/src/core/state.rs")
        .does("Makes an entry that vacates the seat wait until the handoff of the very leader that is gone has ended.")
        .found("cuts", 1_000, "roadmap; dgen H12"),
    mutant("lock-ignored", "elector/src/core/elector/act.rs")
        .does("Applies every membership event in the middle of a handoff.")
        .found(STANDARD, 1_000, "dgen H13"),
    mutant("lock-never-taken-over", "elector/src/core/elector/act.rs")
        .does("Waits for the owner of a lock for ever.")
        .found("slow", 10_000, "roadmap; dgen H12; election 4.1 D"),
    mutant("lock-without-nonce", "elector/src/core/elector/plan.rs")
        .does("Clears or replaces whatever lock there is.")
        .found("cuts", 10_000, "roadmap; dgen H13; election 4.4"),
    // sessions
    mutant("trust-from-end-of-beat", "elector/src/core/session/own.rs")
        .does("Counts trust from the answer to a beat, not from its start.")
        .found("clocks", 5_000, "roadmap; election 4.4 (anchor trust at the reply)"),
    mutant("window-without-margin", "elector/src/core/session/timing.rs")
        .does("Trusts the session for the whole lease, without margin and drift.")
        .found(STANDARD, 10_000, "election 4.1 F, C12"),
    mutant("unknown-beat-trusted", "elector/src/core/session/own.rs")
        .does("Takes a beat whose outcome is unknown for committed.")
        .found("forming", 1_000, "election 4.4 (merge Denied and Fault)"),
    mutant("beat-unconditional", "elector/src/core/session/own/asking.rs")
        .does("Writes its beat over whatever the session record is by now, closed or another's.")
        .found("crashes", 1_000, "election 4.1 D5, Oban #1488; 4.4 (drop the expiry test)"),
    mutant("former-not-waited-for", "elector/src/core/session/own/asking.rs")
        .does("Opens its session over the open one of the incarnation before it.")
        .found("crashes", 1_000, "election 4.1 A2, Z (CURATOR-696)"),
    mutant("session-number-reused", "elector/src/core/session/own/asking.rs")
        .does("Opens a session again under the number of the one that was closed.")
        .found(STANDARD, 1_000, "election 4.1 A3 (explicit terms), C13"),
    mutant("closes-before-lapsing", "elector/src/core/session/own.rs")
        .does("Closes its session when it leaves, and stops trusting it later.")
        .found("bulk", 1_000, "election 4.4 (release before stop), K PR #139991"),
    mutant("close-not-conditional", "elector/src/core/session/observe.rs")
        .does("Closes a silent session whatever its beat is by now.")
        .found(STANDARD, 1_000, "roadmap; election 4.1 R (#1213)"),
    mutant("silence-from-start-of-read", "elector/src/core/session/observe.rs")
        .does("Counts a session's silence from the start of the read that showed its beat.")
        .found("lapses", 10_000, "election 4.4 (age it from before the read)"),
    mutant("opens-below-floor", "elector/src/core/session/own/asking.rs")
        .does("Opens a session where there is no record without asking for the floor.")
        .found("sweeping", 1_000, "12.8; DESIGN 4 (numbers outlive records)"),
    mutant("session-floor-not-raised", "elector/src/core/session/sweeper.rs")
        .does("Sweeps closed sessions away, and leaves the floor as it is.")
        .found("sweeping", 1_000, "12.8; DESIGN 4 (numbers outlive records)"),
    mutant("session-floor-lowered", "elector/src/core/session/sweeper.rs")
        .does("Writes the number of what it swept to the floor, also if the floor is higher.")
        .found("sweeping", 1_000, "12.8; DESIGN 4 (a floor is never lowered)"),
    mutant("sweep-without-floor-check", "elector/src/core/session/sweeper.rs")
        .does("Sweeps without checking that the floor is as it was read.")
        .found("sweeping", 20_000, "12.8; DESIGN 4 (a floor is never lowered)"),
    mutant("sweep-without-record-check", "elector/src/core/session/sweeper.rs")
        .does("Sweeps a record away without checking that it is the one that was read.")
        .found("sweeping", 10_000, "12.8; DESIGN 4 (a sweep checks the record)"),
    mutant("sweeps-open-sessions", "elector/src/core/session/sweeper.rs")
        .does("Sweeps whatever record did not change, also that of an open session.")
        .found("sweeping", 10_000, "12.8; DESIGN 4 (closed session records are swept)"),
    mutant("enqueues-below-floor", "elector/src/core/elector/reading.rs")
        .does("Counts an author without a record from 1.")
        .found("sweeping", 1_000, "12.8; DESIGN 4 (a first enqueue takes a number above the floor)"),
    mutant("author-floor-not-raised", "elector/src/core/elector/sweeper.rs")
        .does("Sweeps authors away, and leaves the floor as it is.")
        .found("sweeping", 1_000, "12.8; DESIGN 4 (numbers outlive records)"),
    mutant("sweeps-authors-that-are-members", "elector/src/core/elector/sweeper.rs")
        .does("Sweeps an author away that is a member, or whose session is open.")
        .found("sweeping", 1_000, "12.8; DESIGN 4 (only if its member row is absent)"),
    mutant("proof-of-another-incarnation", "elector/src/core/session/observe.rs")
        .does("Closes the session of a node when a former incarnation of it is proven dead.")
        .found("bulk", 1_000, "dgen N5; election 4.1 A1"),
    mutant("says-links-of-its-view", "registry/src/core/member/their_links.rs")
        .does("Says that it has links to all members that it knows.")
        .found(STANDARD, 100, "the page: what a node says of others is what they said"),
    mutant("says-position-of-its-view", "registry/src/core/member/their_links.rs")
        .does("Says that its replica is where the log ended when it last read the store.")
        .found(STANDARD, 100, "the page: a lag is that of a replica"),
    mutant("keeps-first-position", "registry/src/core/member/their_links.rs")
        .does("Goes on to show how far a member was behind when it first said so, while its links are the same.")
        .found(STANDARD, 100, "the page: a lag is of the last answer"),
    mutant("keeps-links-of-a-lost-link", "registry/src/core/member/links.rs")
        .does("Goes on to show the links of a member that it has lost its own link to.")
        .found(STANDARD, 100, "the page: not known is not none"),
];
