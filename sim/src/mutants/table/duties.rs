//! What a node owes to those who hold names, to those who stay when it leaves, and to those who wait.

use crate::mutants::{Mutant, table::mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    // lapses, and sessions that are lost
    mutant("second-lapse-tells-nobody", "registry/src/core/host/duties.rs")
        .does("Does not forget a lapse when the session is lost and the next one is opened, so that the next lapse stops and tells nobody.")
        .found("lapses", 1_000, "outside testing"),
    mutant("lost-session-leaves-names-asked", "registry/src/core/host/duties.rs")
        .does("Takes names whose requests ended with a lost session for undecided for ever.")
        .found("lapses", 1_000, "outside testing"),
    mutant("own-lapse-counts-as-silence", "elector/src/core/session/observe.rs")
        .does("Counts the time in which this node itself could not beat as the silence of others.")
        .found("refusing", 1_000, "outside testing; DESIGN 4 (a node beats before it observes)"),
    // nodes that fail
    mutant("inherited-session-not-closed", "elector/src/core/session/own.rs")
        .does("Says that the session of a node whose session's driver broke is closed, and asks nobody to close it.")
        .found("failing", 1_000, "outside testing; DESIGN 3 (the node must close as a crash would close it)"),
    // leaving
    mutant("drained-before-known", "registry/src/core/member/leaving.rs")
        .does("Says that a member has drained before its row says so.")
        .found("draining", 1_000, "outside testing"),
    mutant("leaver-leads-on", "registry/src/core/member/leaving.rs")
        .does("Goes on leading after the names were given up and the caller was told that the member left.")
        .found("draining", 1_000, "outside testing"),
    mutant("drain-said-once", "elector/src/core/elector.rs")
        .does("Says that the member drains for its first join only.")
        .found("parting", 2_000, "outside testing"),
    mutant("left-before-it-is-said", "elector/src/core/elector/taking_in.rs")
        .does("Says that the member has left while its row is still there, so that the session closes before the others hear of it.")
        .found("draining", 1_000, "outside testing"),
    // whoever waits
    mutant("look-cut-short", "registry/src/core/host/waiting.rs")
        .does("Begins anew, each time, with the first of those who wait, and comes to no more of them than it looks at in a step.")
        .found("snapshots", 1_000, "what is looked at some calls at a time"),
    mutant("unread-session-not-read", "registry/src/core/leader/requests.rs")
        .does("Waits for the next view when a session asks that the leader has not read open.")
        .found("parting", 1_000, "outside testing"),
    mutant("freeing-starves", "registry/src/core/leader/batches.rs")
        .does("Frees the names of a closed session only when nobody asks for anything.")
        .found("bulk", 2_000, "outside testing; DESIGN P8"),
    mutant("freeing-wakes-in-vain", "registry/src/core/leader/waking.rs")
        .does("Has itself woken to free names of the dead while a batch is in flight, again and again.")
        .found("mute", 1_000, "found by the world `mute`"),
    mutant("gaps-grow-with-reads", "elector/src/core/session/observe.rs, elector/src/core/session/own/former.rs")
        .does("Reads others' records so long after the end of the last read, so that with a slow store silence is never counted.")
        .found("sluggish", 1_000, "found by the world `sluggish`"),
    mutant("nonces-of-terms-overlap", "registry/src/core/member/seat.rs")
        .does("Begins the nonces of each term where those of the term before it go on.")
        .found("forsaken", 1_000, "found by a check of this table's"),
    // stores and donors that hang, that are slow, that take less than was thought
    mutant("large-batch-not-halved", "registry/src/core/leader/flight.rs")
        .does("Offers a batch that the store found too large again, as large as it was.")
        .found("oversize", 1_000, "outside testing; DESIGN P8"),
    mutant("requeued-request-waits-for-ever", "registry/src/core/leader/flight.rs")
        .does("Forgets an unregister whose batch was too large, and takes it for one that still waits when its host asks again.")
        .found("oversize", 1_000, "outside testing; DESIGN P8"),
    mutant("commit-waited-for-ever", "registry/src/core/leader/waking.rs")
        .does("Waits for the answer to a commit of a batch for ever.")
        .found("mute", 1_000, "outside testing; DESIGN P8"),
    mutant("settling-waited-for-ever", "registry/src/core/leader/waking.rs")
        .does("Waits for the read for ever that says what became of a batch.")
        .found("mute", 5_000, "outside testing; DESIGN P8"),
    mutant("fence-waited-for-ever", "registry/src/core/leader/waking.rs")
        .does("Waits for the read of the fence for ever.")
        .found("mute", 1_000, "outside testing; DESIGN P8"),
    mutant("handoff-waits-for-a-read", "registry/src/core/handoff.rs")
        .does("Waits for the read for ever that says where the log of the term before ends.")
        .found("mute", 2_000, "outside testing; DESIGN P8"),
    mutant("read-waited-for-ever", "registry/src/core/reads.rs")
        .does("Waits for the read of a consistent lookup for ever.")
        .found("mute", 1_000, "outside testing; DESIGN P8"),
    mutant("log-waited-for-ever", "registry/src/core/catchup.rs")
        .does("Waits for the store's log for ever when it lacks something.")
        .found("mute", 1_000, "outside testing; DESIGN P8"),
    mutant("beat-waited-for-ever", "elector/src/core/session/own/asking.rs")
        .does("Waits for the answer to a beat for ever.")
        .found("mute", 1_000, "outside testing; DESIGN P8"),
    mutant("closing-waited-for-ever", "elector/src/core/session/observe.rs")
        .does("Waits for the answer to the closing of another's session for ever.")
        .found("mute", 2_000, "outside testing; DESIGN P8"),
    mutant("observing-waited-for-ever", "elector/src/core/session/observe.rs")
        .does("Waits for a read of the others' records for ever.")
        .found("mute", 2_000, "outside testing; DESIGN P8"),
    mutant("snapshot-timed-as-a-whole", "registry/src/core/catchup.rs")
        .does("Gives a snapshot up that takes longer than a chunk may.")
        .found("sluggish", 1_000, "outside testing; DESIGN P8"),
    mutant("donors-take-no-turns", "registry/src/core/catchup.rs")
        .does("Asks the donor that did not answer again and again.")
        .found("sluggish", 1_000, "outside testing; DESIGN P8"),
    // who rests, and who observes
    mutant("leader-rests-too", "registry/src/core/member/duty.rs")
        .does("Rests also as the leader, so that nobody observes the others but those whom it names.")
        .found("crashes", 2_000, "DESIGN 11 (leaders and three observers observe)"),
    mutant("rests-on-as-the-next-leader", "registry/src/core/member/duty.rs")
        .does("Goes on to rest when it takes the seat of a leader that is gone.")
        .found("perishing", 2_000, "DESIGN 11 (leaders and three observers observe)"),
    mutant("delta-without-leavers", "elector/src/core/elector/delta.rs")
        .does("Says of members that came, and not of those that left.")
        .found("crashes", 2_000, "DESIGN 11 (members that do not act get the view from the leader)"),
    mutant("delta-while-an-entry-waits", "elector/src/core/elector/view.rs")
        .does("Says which members are other ones while an entry waits that will change them again.")
        .found("crashes", 2_000, "DESIGN 11 (members that do not act get the view from the leader)"),
    mutant("lag-between-two-looks", "elector/src/core/elector/delta.rs")
        .does("Does not say again how a member stands that lagged between two looks of the leader, and no more.")
        .found("traces/lag-between-two-looks", 1, "DESIGN 11 (as a delta with its version)"),
    mutant("delta-ahead-of-the-look", "elector/src/core/elector/delta.rs")
        .does("Goes by what the leader read later than it has looked itself.")
        .found("large", 10_000, "DESIGN 11 (as a delta with its version)"),
    mutant("delta-from-elsewhere", "elector/src/core/elector/delta.rs")
        .does("Goes by what the leader says, though it has missed what the leader said before.")
        .found("perishing", 2_000, "DESIGN 11 (as a delta with its version)"),
    mutant("untold-passes-for-told", "elector/src/core/elector/reading.rs")
        .does("Shows the members of before as if nothing waited, though nobody has told it what the next leader found.")
        .found("perishing", 2_000, "DESIGN 11 (members that do not act get the view from the leader)"),
    mutant("observes-few-for-ever", "elector/src/core/session/observe.rs")
        .does("Observes no more than the leader again, once it has rested.")
        .found("perishing", 2_000, "DESIGN 11 (a death is found in 2 S + 2 polls if every observer died with it)"),
    mutant("observes-no-more-after-a-lapse", "elector/src/core/session/observe.rs")
        .does("Observes nobody again, once it was stopped for so long that its trust lapsed.")
        .found("perishing", 2_000, "DESIGN 11 (a death is found in S + poll)"),
    mutant("closing-left-to-leaders", "elector/src/core/session/observe.rs")
        .does("Leaves the closing of a silent session to the leader, also when that one is gone.")
        .found("perishing", 2_000, "DESIGN 11 (a death is found in 2 S + 2 polls if every observer died with it)"),
    mutant("marks-not-read", "elector/src/core/session/observe.rs")
        .does("Observes the sessions that it knows, and does not look for others, as of nodes that have joined nothing.")
        .found("perishing", 2_000, "DESIGN 11 (observers observe all sessions)"),
    mutant("counts-anew-at-each-read", "elector/src/core/session/watch.rs")
        .does("Counts a session's silence from the last read on, however often it was read.")
        .found("perishing", 2_000, "DESIGN 11 (a death is found in S + poll)"),
    mutant("observes-seldom-unless-it-leads", "elector/src/core/session/observe.rs")
        .does("Reads the sessions of others so seldom while it does not lead that no silence counts.")
        .found("perishing", 2_000, "DESIGN 11 (a death is found in S + poll)"),
];
