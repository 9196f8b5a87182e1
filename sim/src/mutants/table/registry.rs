//! The names: leaders, handoffs, replicas, hosts.

use crate::mutants::{Mutant, STANDARD, table::mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    // the leader
    mutant("epoch-only-fence", "registry/src/core/member/state.rs")
        .does("Takes itself for the leader of an epoch by its name, without looking at incarnation and token.")
        .found("forsaken", 2_000, "roadmap; dgen H2, N6"),
    mutant("term-not-checked", "registry/src/core/leader/flight.rs")
        .does("Commits without checking the term.")
        .found("lapses", 1_000, "dgen H1"),
    mutant("commit-not-checked", "registry/src/core/leader/flight.rs")
        .does("Commits without checking where the log ends.")
        .found("bulk", 1_000, "roadmap"),
    mutant("answer-before-commit", "registry/src/core/leader/flight.rs")
        .does("Answers as soon as it has decided.")
        .found("forming", 1_000, "roadmap; dgen H4"),
    mutant("apply-before-commit", "registry/src/core/leader/flight.rs")
        .does("Sends the batch to the replicas while it is being committed.")
        .found(STANDARD, 1_000, "roadmap; dgen H25, N11"),
    mutant("unknown-taken-for-yes", "registry/src/core/leader/flight.rs")
        .does("Takes an unknown outcome for committed.")
        .found("slow", 1_000, "roadmap"),
    mutant("nonce-not-compared", "registry/src/core/leader/flight.rs")
        .does("Takes whatever entry it finds at its position for its own.")
        .found("clocks", 5_000, "DESIGN 5 (an unknown outcome is settled by nonce)"),
    mutant("several-messages-per-version", "registry/src/core/leader/flight.rs")
        .does("Sends a batch as one message for each operation, all with the batch's position.")
        .found("forming", 1_000, "roadmap; dgen H7"),
    mutant("two-operations-of-one-name", "registry/src/core/leader/batches.rs")
        .does("Puts two operations of one name into a batch, each decided on the table before it.")
        .found("store", 1_000, "roadmap; dgen H29"),
    mutant("unguarded-unregister", "registry/src/core/leader/decide.rs")
        .does("Frees a name whoever holds it by now.")
        .found("bulk", 5_000, "roadmap; dgen H27, H30"),
    mutant("request-not-deduplicated", "registry/src/core/leader/requests.rs")
        .does("Decides a request again that it has decided, or has waiting.")
        .found("slow", 1_000, "roadmap"),
    mutant("request-not-in-row", "registry/src/core/leader/decide.rs")
        .does("Does not recognise in a row the request that made it.")
        .found("cuts", 1_000, "design review; dgen H19"),
    mutant("session-not-read-open", "registry/src/core/leader/requests.rs")
        .does("Decides requests of a session without having read it open.")
        .found("clocks", 10_000, "design review"),
    mutant("queue-of-closed-session-kept", "registry/src/core/leader/requests.rs")
        .does("Decides what waits although the session that asked was closed meanwhile.")
        .found("lapses", 1_000, "design review"),
    mutant("host-gone-not-logged", "registry/src/core/leader/batches.rs")
        .does("Forgets the names of a closed session.")
        .found(STANDARD, 1_000, "design review; registries, gproc #30"),
    mutant("free-by-silence", "registry/src/core/member/links.rs")
        .does("Frees the names of a node when the link to it is down.")
        .found("crashes", 1_000, "roadmap; dgen N10"),
    mutant("rider-without-fence", "registry/src/core/leader/batches.rs")
        .does("Answers what needs no entry at once, from its own table.")
        .found("forsaken", 5_000, "design review; dgen H3"),
    mutant("request-of-any-epoch", "registry/src/core/member/messages.rs")
        .does("Decides requests that were addressed to another epoch.")
        .found("slow", 5_000, "DESIGN 5 (a leader decides only requests of its own epoch)"),
    // the handoff
    mutant("handoff-reads-commit-too-early", "registry/src/core/leader/flight.rs, registry/src/core/member/state.rs")
        .does("Catches up to what `commit` was before its term, and opens without checking it.")
        .found("leaders", 1_000, "roadmap; dgen H10"),
    mutant("opens-without-catching-up", "registry/src/core/member/seat.rs, registry/src/core/leader/flight.rs")
        .does("Opens its epoch on whatever its own replica holds, without checking `commit`.")
        .found("bulk", 1_000, "roadmap; dgen H9"),
    mutant("base-given-up-with-claims", "registry/src/core/member/standing.rs")
        .does("Says that it has no base and no claims, and keeps its claims.")
        .found("snapshots", 10_000, "DESIGN 4 (empty: has dropped its claims)"),
    mutant("synced-before-end", "registry/src/core/member/standing.rs")
        .does("Says that it is synced before its replica holds the log's end.")
        .found(STANDARD, 1_000, "design review"),
    // replicas, snapshots, the cut of the log
    mutant("no-gap-check", "registry/src/core/replica.rs")
        .does("Applies a batch without looking whether it follows the one before.")
        .found("cuts", 2_000, "roadmap; dgen H6"),
    mutant("gap-seen-by-traffic-only", "registry/src/core/member/messages.rs")
        .does("Does not look at the position in a heartbeat.")
        .found("bulk", 1_000, "dgen H8; election 4.4 (notification without polling)"),
    mutant("gap-in-memory-not-seen", "registry/src/core/leader/memory.rs")
        .does("Sends from memory what comes after a position although memory begins later.")
        .found("bulk", 1_000, "dgen H6"),
    mutant("replica-goes-back", "registry/src/core/catchup.rs, registry/src/core/replica/installing.rs")
        .does("Closes every gap with a snapshot, also with one that is older than what it has.")
        .found("cuts", 1_000, "design review; dgen H11, N1"),
    mutant("snapshot-without-touched", "registry/src/core/snapshot.rs")
        .does("Ends a snapshot without the names that changed while it was sent.")
        .found("bulk", 3_000, "roadmap"),
    mutant("base-before-it-is-installed", "registry/src/core/replica/installing.rs")
        .does("Takes a replica for complete while a snapshot is put in its place.")
        .found("snapshots", 20_000, "what is installed a few names at a time"),
    mutant("gone-rows-are-read", "registry/src/core/rows.rs")
        .does("Reads rows of a session that is gone until they are removed.")
        .found("crashes", 20_000, "what is removed a few names at a time"),
    mutant("sweep-takes-what-is-new", "registry/src/core/rows.rs")
        .does("Removes the row of a name that somebody else registered after its holder's session was gone.")
        .found("crashes", 20_000, "what is removed a few names at a time"),
    mutant("gone-names-counted", "registry/src/core/rows.rs")
        .does("Counts the names of a session that is gone until they are removed.")
        .found("crashes", 20_000, "what is removed a few names at a time"),
    mutant("host-gone-not-touched", "registry/src/core/replica/applying.rs")
        .does("Does not count the names that a closed session loses among those that changed while a snapshot is sent.")
        .found("crashes", 20_000, "roadmap (touched set)"),
    mutant("chunk-of-another-snapshot", "registry/src/core/catchup.rs")
        .does("Puts chunks of different snapshots together.")
        .found("snapshots", 10_000, "style B5.1"),
    mutant("snapshot-without-window", "registry/src/core/snapshot.rs")
        .does("Sends all chunks of a snapshot at once, whatever the receiver has room for.")
        .found("snapshots", 1_000, "several chunks on their way"),
    mutant("refused-when-it-has-ended", "registry/src/core/member/messages.rs")
        .does("Refuses more of a snapshot whose last chunks are still on their way, so that the receiver gives up what it is about to have.")
        .found("sluggish", 1_000, "several chunks on their way"),
    mutant("peer-epoch-believed", "registry/src/core/member/messages.rs")
        .does("Takes whoever names the greatest epoch for the leader.")
        .found("liars", 1_000, "outside testing"),
    mutant("effect-by-bare-name", "registry/src/core/member.rs")
        .does("Sends, when all inputs are taken, to whoever has the node's name by then.")
        .found("links", 5_000, "outside testing"),
    mutant("abandoned-walk-kept", "registry/src/core/snapshot.rs")
        .does("Keeps what a receiver asks nothing more of, and every name that is changed meanwhile, until somebody else begins.")
        .found("snapshots", 5_000, "outside testing"),
    mutant("log-cut-too-far", "registry/src/core/trim.rs")
        .does("Cuts the log at its own position, wherever the synced members are.")
        .found(STANDARD, 1_000, "roadmap"),
    mutant("cut-ignores-laggards", "registry/src/core/trim.rs")
        .does("Cuts the log without regard to synced members that it has not heard of.")
        .found(STANDARD, 1_000, "design review"),
    mutant("cut-without-floor", "registry/src/core/trim.rs")
        .does("Moves the floor without checking where it is, so that an abandoned cut takes it back.")
        .found("lapses", 2_000, "design review"),
    mutant("cut-without-member-rows", "registry/src/core/trim.rs")
        .does("Cuts the log without checking that the members' rows are still those it looked at.")
        .found("snapshots", 4_000, "design review"),
    mutant("cut-without-queue-mark", "registry/src/core/trim.rs")
        .does("Cuts the log without checking that nobody joined since the view that it goes by.")
        .found("traces/cut-passes-a-joiner", 1, "found by the simulator"),
    mutant("leaver-keeps-claims", "registry/src/core/member/leaving.rs")
        .does("Keeps its claims until its session is closed, when its row is long gone.")
        .found("snapshots", 40_000, "found by the simulator"),
    mutant("drainer-takes-seat", "elector/src/core/policy.rs")
        .does("Elects whoever is about to leave like anybody else, so that the seat goes from one to the other.")
        .found("draining", 1_000, "draining"),
    mutant("drains-names-first", "registry/src/core/member/leaving.rs")
        .does("Gives up its names when it begins to drain, before anybody else leads.")
        .found("draining", 1_000, "draining"),
    mutant("drains-and-registers", "registry/src/core/host/away.rs")
        .does("Registers new names while it drains, which are lost with it.")
        .found("draining", 1_000, "draining"),
    // hosts and their callers
    mutant("grant-while-installing", "registry/src/core/replica.rs")
        .does("Tells a grant while a snapshot is being put in its place, so that the node's own lookup does not see it.")
        .found("traces/granted-while-installing", 1, "found by the simulator"),
    mutant("grant-before-replica", "registry/src/core/host/verdicts.rs")
        .does("Tells its caller of a grant before its own replica has it.")
        .found("cuts", 2_000, "design review; dgen H5; registries, Horde #223"),
    mutant("grant-believed-while-lapsed", "registry/src/core/host/verdicts.rs")
        .does("Makes a claim of a grant that arrives while the session is not trusted.")
        .found(STANDARD, 3_000, "roadmap"),
    mutant("foreign-session-verdict", "registry/src/core/host/duties.rs, registry/src/core/host/verdicts.rs")
        .does("Numbers requests anew in each session, and does not look whose verdict arrives.")
        .found("lapses", 1_000, "design review; style B5.1"),
    mutant("verdict-of-old-epoch", "registry/src/core/host/verdicts.rs, registry/src/core/member/messages.rs")
        .does("Believes a verdict of an epoch other than the one that it asked in last.")
        .found("leaders", 20_000, "design review; dgen H25"),
    mutant("not-asked-again-in-new-epoch", "registry/src/core/host/verdicts.rs, registry/src/core/host/waiting.rs")
        .does("Sends a request once, and waits for whatever comes of it.")
        .found("cuts", 1_000, "design review; dgen H26; style B5.5"),
    mutant("unsynced-member-registers", "registry/src/core/host/verdicts.rs")
        .does("Registers names while its member is not synced, or says that it is empty.")
        .found("crashes", 1_000, "DESIGN 5 (only a synced member registers names)"),
    mutant("actor-end-forgotten", "registry/src/core/host/claims.rs")
        .does("Forgets that an actor ended while its register was undecided.")
        .found("cuts", 1_000, "registries, gproc #30"),
    mutant("orphan-not-given-up", "registry/src/core/host/reconcile.rs, registry/src/core/host/verdicts.rs")
        .does("Does not give up a name that was granted to an actor that had ended.")
        .found(STANDARD, 1_000, "design review; dgen H34"),
    mutant("claim-puts-row-back", "registry/src/core/host/reconcile.rs")
        .does("Registers again what it claims and the log has freed, and keeps the claim meanwhile.")
        .found("snapshots", 10_000, "roadmap; dgen H28"),
    mutant("claim-outlives-unregister", "registry/src/core/host/calls.rs")
        .does("Asks to free a name first, and drops the claim when the log says so.")
        .found(STANDARD, 2_000, "DESIGN 5 (the host drops the claim first)"),
    mutant("lapsed-session-not-adopted", "registry/src/core/host/session.rs")
        .does("Takes no session over from a lapse or its end: a registry that is joined meanwhile never has one.")
        .found("joining", 100, "DESIGN 4 (a lapsed session that is still open is trusted again, with all names)"),
    mutant("lost-claim-not-flagged", "registry/src/core/host/duties.rs, registry/src/core/host/claims.rs")
        .does("Drops a claim that the log has not, or that is given up with the base, and lets whoever checks it go on.")
        .found("snapshots", 10_000, "DESIGN 10 (anything that ends a claim flags it first)"),
    mutant("freed-claim-not-flagged", "registry/src/core/host/claims.rs")
        .does("Asks to free a name, and lets whoever checks the claim on it go on.")
        .found(STANDARD, 1_000, "DESIGN 10 (anything that ends a claim flags it first)"),
    mutant("session-end-not-flagged", "registry/src/core/host/duties.rs")
        .does("Leaves, and lets whoever checks a claim go on until the session is closed.")
        .found("draining", 1_000, "DESIGN 10 (anything that ends a claim flags it first)"),
    mutant("unwatched-while-asking", "registry/src/core/host/claims.rs")
        .does("Stops watching an actor that is refused a name, although it asks for another one, or is being granted it.")
        .found("claims", 1_000, "outside testing"),
    mutant("lost-session-keeps-claims", "registry/src/core/host/duties.rs")
        .does("Takes the claims of a lost session along into the next one.")
        .found(STANDARD, 1_000, "design review"),
    mutant("unknown-taken-for-no", "registry/src/core/host/waiting.rs")
        .does("Answers a request of which nothing was heard in time with an error that says that nothing was done.")
        .found(STANDARD, 2_000, "roadmap; dgen H19, N4"),
    mutant("consistent-read-from-old-commit", "registry/src/core/reads.rs")
        .does("Lets a read of `commit` that has begun already serve whoever asks meanwhile.")
        .found("sluggish", 10_000, "roadmap; dgen H3"),
    mutant("consistent-read-of-own-replica", "registry/src/core/reads.rs")
        .does("Reads `commit`, and answers from the replica as it is.")
        .found(STANDARD, 1_000, "dgen H3, N2"),
    mutant("term-reencoded", "registry/src/core/handoff.rs")
        .does("Takes the term for another's unless its bytes are those that this version would write.")
        .found("versions", 1_000, "DESIGN 4 (check what it builds on); docs/compatibility.md"),
    mutant("reset-reencodes", "registry/src/core/handoff.rs")
        .does("Checks before a reset for the bytes that this version would write, not for those that it read.")
        .found("versions", 1_000, "DESIGN 4 (check what it builds on); docs/compatibility.md"),
    mutant("cut-reencodes", "registry/src/core/trim.rs")
        .does("Checks before a cut for the rows that this version would write, not for those that it read.")
        .found("versions", 1_000, "DESIGN 4 (check what it builds on); docs/compatibility.md"),
    mutant("refused-commit-not-paused", "registry/src/core/leader/flight.rs")
        .does("Tries a commit that was refused, or of unknown outcome, at once again.")
        .found("store", 1_000, "a full disk: 0.9 of a core, thousands of commits a second"),
    mutant("concerned-not-named", "registry/src/core/leader/requests.rs")
        .does("Does not have the sessions read of nodes that have names and are members no more.")
        .found("crashes", 1_000, "12.8; DESIGN 5 (freed by one HostGone)"),
    mutant("rest-of-a-lapse-forgotten", "registry/src/core/host/session.rs")
        .does("Forgets the actors that were not told of a lapse yet when trust resumes.")
        .found("claims", 1_000, "DESIGN 11 (a step is short)"),
    mutant("second-slice-of-a-loss-forgotten", "registry/src/core/host/duties.rs")
        .does("Ends the claims of the first slice of a loss, and of no other.")
        .found("claims", 1_000, "DESIGN 11 (a step is short)"),
    mutant("second-slice-of-an-end-forgotten", "registry/src/core/host/duties.rs")
        .does("Gives up the names of the first slice of an actor that has ended, and no other.")
        .found("claims", 1_000, "DESIGN 11 (a step is short)"),
    mutant("left-amid-its-claims", "registry/src/core/member/behind.rs")
        .does("Says that it has left when the first slice of its claims has ended.")
        .found("draining", 1_000, "DESIGN 11 (a step is short)"),
];
