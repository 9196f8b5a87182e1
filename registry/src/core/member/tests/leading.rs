//! Taking the seat, and leaving it.

use super::*;

impl One {
    /// It is elected to epoch 5, and has begun to read the end of the log.
    fn elected() -> (Self, OpId) {
        let mut one = Self::new();
        one.links("l", 1);
        let id = read(&one.sees(5, Some("m")));
        (one, id)
    }

    /// The log's end, as the store has it.
    pub(super) fn end_of_log(&self, end: LogEnd) -> [Option<Value>; 3] {
        [Some(self.view.term.to_value()), end.to_record(), None]
    }

    /// It leads epoch 5, which it has opened at position 1.
    pub(super) fn leading_with(tuning: Tuning) -> Self {
        let mut one = Self::with(tuning);
        one.member.replica.base_on_nothing();
        one.sees(1, None);
        one.links("l", 1);
        let id = read(&one.sees(5, Some("m")));
        let values = one.end_of_log(LogEnd::default());
        let (id, _) = commit(&one.reads(id, &values));
        let outcome = CommitOutcome::Committed(Version(9));
        one.step(Input::CommitDone { id, outcome });
        assert!(one.member.is_serving());
        one
    }

    pub(super) fn leading() -> Self {
        Self::leading_with(Tuning::default())
    }
}

#[test]
fn who_is_elected_reads_the_end_of_the_log_opens_its_epoch_and_says_so() {
    let (mut one, id) = One::elected();
    assert!(!one.member.is_serving());
    // Somebody spoke of a log that was lost.
    one.member.catchup.want(one.now.time, Position(9));
    let values = one.end_of_log(LogEnd::default());
    let (id, transaction) = commit(&one.reads(id, &values));
    assert_eq!(transaction.writes.len(), 2);
    assert_eq!(one.wakes_after(10), [], "it is being committed");
    let effects = one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    let serving = Event::Serving { epoch: Epoch(5), position: Position(1) };
    assert_eq!(events(&effects), [serving]);
    assert!(tells(&effects).contains(&Tell::LeaderContact(Epoch(5))));
    assert!(tells(&effects).contains(&Tell::Applied(one.member.replica.end())));
    let told: Vec<_> = sends(&effects).into_iter().map(|(to, _, message)| (to, message.kind())).collect();
    assert_eq!(told, [("l".to_owned(), "apply_names_snapshot")]);
    assert_eq!((one.member.is_serving(), one.member.leader()), (true, Some((Epoch(5), &node("m")))));
    assert!(one.member.catchup.is_complete(&one.member.replica));
    // A node that comes is told where the log ends.
    let effects = one.links("o", 2);
    let end = one.member.replica.end();
    assert_eq!(sends(&effects), [("o".to_owned(), 2, Message::Heartbeat { epoch: Epoch(5), end })]);
    // Another join, and another incarnation, of the same node are not elected.
    for (token, incarnation) in [(4, 1), (3, 2)] {
        let mut one = One::new();
        one.view.term = term(5, Some("m"));
        let leader = one.view.term.leader.as_mut().unwrap();
        (leader.token, leader.incarnation) = (Token(token), Incarnation(incarnation));
        let effects = one.shown();
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Read { .. })), "{effects:?}");
    }
    let mut one = One::new();
    one.view.me = None;
    assert!(!one.sees(5, Some("m")).iter().any(|effect| matches!(effect, Effect::Read { .. })));
}

#[test]
fn the_leader_before_is_asked_to_step_down_if_it_is_another_one_and_linked() {
    for (old, is_linked, asked) in [("l", true, true), ("l", false, false), ("m", true, false)] {
        let mut one = One::new();
        one.view.members.get_mut(&node("m")).unwrap().synced = false;
        if is_linked {
            one.links("l", 1);
        }
        one.sees(4, Some(old));
        let effects = one.sees(5, Some("m"));
        let asks = sends(&effects)
            .iter()
            .any(|(_, _, message)| *message == Message::TransferSnapshot { epoch: Epoch(5) });
        assert_eq!(asks, asked, "{old}");
        let reads = effects.iter().any(|effect| matches!(effect, Effect::Read { .. }));
        assert_eq!(reads, !asked);
        if asked {
            assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MEMBER_TICK);
            let transferred = Message::Transferred { epoch: Epoch(5), position: Position(0) };
            let mut other = One { member: one.member.clone(), now: one.now, view: one.view.clone() };
            read(&one.hears("l", transferred));
            // Nor is it waited for when its link is down.
            let effects = other.unlinks("l", 1);
            assert!(effects.iter().any(|effect| matches!(effect, Effect::Read { .. })), "{effects:?}");
        }
    }
}

#[test]
fn a_leader_serves_what_is_of_its_epoch_only() {
    let mut one = One::leading();
    let fetch = |epoch| Message::Fetch { epoch: Epoch(epoch), after: Position(0) };
    assert_eq!(sends(&one.hears("l", fetch(4))), []);
    let effects = one.hears("l", fetch(5));
    let batches = one.member.leader.as_ref().unwrap().remembered(Position(0));
    assert_eq!(batches.len(), 1);
    let fetched = Message::Fetched { epoch: Epoch(5), after: Position(0), batches };
    assert_eq!(sends(&effects), [("l".to_owned(), 1, fetched)]);
    let has = |one: &One| one.member.leader.as_ref().unwrap().progress_of(&node("l"));
    one.hears("l", progress(4, 1));
    assert_eq!(has(&one), None);
    one.hears("l", progress(5, 1));
    assert_eq!(has(&one), Some(Position(1)));
    one.unlinks("l", 1);
    assert_eq!(has(&one), None);
    // A node asks in its own session only.
    one.links("l", 1);
    for message in [requests(5, "o"), requests(4, "l")] {
        let effects = one.hears("l", message);
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Commit { .. })), "{effects:?}");
    }
    commit(&one.hears("l", requests(5, "l")));
}

#[test]
fn an_elector_that_sees_the_lock_is_told_when_the_epoch_is_open() {
    let done = |epoch| Message::HandoffDone { epoch: Epoch(epoch) };
    let run = |epoch| Message::RunHandoff { epoch: Epoch(epoch) };
    let own = |epoch| Input::RunHandoff { leader: node("m"), epoch: Epoch(epoch) };
    let mut one = One::leading();
    assert_eq!(sends(&one.hears("l", run(5))), [("l".to_owned(), 1, done(5))]);
    assert_eq!(sends(&one.hears("l", run(4))), []);
    assert!(tells(&one.step(own(5))).contains(&Tell::HandoffDone(Epoch(5))));
    assert!(!tells(&one.step(own(4))).contains(&Tell::HandoffDone(Epoch(5))), "that one is over");
    assert!(one.member.to_run.is_empty());
    // Of another leader it is asked for.
    let other = |leader: &str| Input::RunHandoff { leader: node(leader), epoch: Epoch(6) };
    assert_eq!(sends(&one.step(other("l"))), [("l".to_owned(), 1, run(6))]);
    assert_eq!(sends(&one.step(other("o"))), [], "it is not linked");
    // Before it is open nobody is told, and then both are, but for one whose link is down.
    let (mut one, id) = One::elected();
    one.links("o", 2);
    for from in ["l", "o"] {
        assert_eq!(sends(&one.hears(from, run(5))), []);
    }
    assert_eq!(tells(&one.step(own(5))), []);
    one.unlinks("o", 2);
    let values = one.end_of_log(LogEnd::default());
    let (id, _) = commit(&one.reads(id, &values));
    one.links("o", 3);
    let effects = one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    let told: Vec<_> = sends(&effects).into_iter().filter(|(_, _, message)| *message == done(5)).collect();
    assert_eq!(told, [("l".to_owned(), 1, done(5))]);
    assert!(tells(&effects).contains(&Tell::HandoffDone(Epoch(5))));
    // What was asked for an epoch that is over is forgotten.
    let mut one = One::following();
    one.hears("l", run(5));
    assert_eq!(one.member.to_run.len(), 1);
    one.sees(6, Some("l"));
    assert!(one.member.to_run.is_empty());
}

#[test]
fn a_leader_steps_down_when_another_term_is_read_and_says_where_it_ended() {
    let mut one = One::leading();
    // It hears of that before it has read it.
    let effects = one.hears("l", Message::TransferSnapshot { epoch: Epoch(6) });
    assert_eq!((sends(&effects), one.member.is_serving()), (vec![], true));
    let effects = one.sees(6, Some("l"));
    assert!(events(&effects).contains(&Event::Deposed { epoch: Epoch(5) }) && !one.member.is_serving());
    let ended = Message::Transferred { epoch: Epoch(6), position: Position(1) };
    assert_eq!(sends(&effects), [("l".to_owned(), 1, ended)]);
    // One that leads no more answers at once.
    let effects = one.hears("l", Message::TransferSnapshot { epoch: Epoch(6) });
    assert_eq!(sends(&effects).len(), 1);
    // What it asked for as a leader is of no account.
    let mut one = One::leading();
    let (id, _) = commit(&one.registers(1, "x"));
    one.sees(6, Some("l"));
    let effects = one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    assert_eq!((events(&effects), one.member.replica.position()), (vec![], Position(1)));
    // Elected again it begins anew, and by the same term it does not.
    let mut one = One::leading();
    assert!(!one.shown().iter().any(|effect| matches!(effect, Effect::Read { .. })));
    let effects = one.sees(6, Some("m"));
    assert_eq!(events(&effects)[1..], [Event::Deposed { epoch: Epoch(5) }]);
    read(&effects);
    // So it does in a store that went back to an earlier term of its own.
    let mut one = One::leading();
    let effects = one.sees(4, Some("m"));
    assert_eq!(events(&effects), [Event::Deposed { epoch: Epoch(5) }]);
    read(&effects);
    // A handoff of a term that is over ends.
    let (mut one, id) = One::elected();
    one.sees(6, Some("l"));
    let values = [Some(term(5, Some("m")).to_value()), None, None];
    assert!(!one.reads(id, &values).iter().any(|effect| matches!(effect, Effect::Commit { .. })));
    assert!(one.member.handoff.is_none());
}

#[test]
fn a_leader_that_finds_another_term_in_the_store_has_the_elector_look() {
    let mut one = One::leading();
    let (id, _) = commit(&one.registers(1, "x"));
    let settling = read(&one.step(Input::CommitDone { id, outcome: CommitOutcome::Conflict }));
    let values = [Some(term(6, Some("l")).to_value()), end(1).to_record(), None, None];
    let effects = one.reads(settling, &values);
    assert_eq!(events(&effects), [Event::Deposed { epoch: Epoch(5) }]);
    assert_eq!(tells(&effects), [Tell::Applied(one.member.replica.end()), Tell::Refresh]);
    assert_eq!(one.member.leader(), None);
    // It is elected as before, and tries again when it is woken.
    read(&one.wakes_after(1));
}

#[test]
fn a_leader_that_lacks_batches_fetches_them_before_it_opens() {
    let (mut one, id) = One::elected();
    let values = one.end_of_log(end(2));
    let effects = one.reads(id, &values);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Commit { .. })), "{effects:?}");
    // Nobody else leads, so that the log is read.
    let id = read(&effects);
    let key = |position| one.member.config.keys.log(Position(position));
    let entries = [1, 2].map(|position| (key(position), batch(position, vec![]).encode().to_vec()));
    let answers = vec![vec![], vec![(Vec::new(), end(2).to_value())], entries.to_vec()];
    let result = Ok(ReadResult { version: Version(9), answers });
    let (_, transaction) = commit(&one.step(Input::ReadDone { id, result }));
    assert_eq!(one.member.replica.position(), Position(2));
    let opening = transaction.writes.iter().find_map(|write| match write {
        callsign_store::Write::Put { key, value } if *key == one.member.config.keys.log(Position(3)) => {
            Some(Batch::decode(value).unwrap())
        }
        _ => None,
    });
    assert_eq!(opening.unwrap().ops, [Op::Open], "it resets nothing");
    // The log ends before what was applied: it is another one.
    let (mut one, id) = One::elected();
    one.member.replica.apply(&batch(1, vec![]));
    let values = one.end_of_log(LogEnd::default());
    let effects = one.reads(id, &values);
    assert!(tells(&effects).contains(&Tell::Refresh));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Commit { .. })));
    one.now.time = one.now.time + MILLIS(50);
    read(&one.wakes_after(0));
}

#[test]
fn a_registry_that_was_never_opened_is_reset_and_one_that_was_only_if_nobody_has_a_base() {
    let opens = |row: MemberRow, end: LogEnd, is_based: bool, has_donor: bool| {
        let mut one = One::with(Tuning::default());
        for name in ["l", "m", "o"] {
            let token = one.view.members[&node(name)].token;
            let row = MemberRow { token, session: session(name), ..row.clone() };
            one.view.members.insert(node(name), row);
        }
        if is_based {
            one.member.replica.base_on_nothing();
        }
        if has_donor {
            one.links("o", 2);
            one.view.members.get_mut(&node("o")).unwrap().synced = true;
        }
        one.sees(1, None);
        let id = read(&one.sees(5, Some("m")));
        let values = one.end_of_log(end);
        let effects = one.reads(id, &values);
        let commit = effects.iter().find_map(|effect| match effect {
            Effect::Commit { transaction, .. } => Some(transaction.clone()),
            _ => None,
        });
        let ops = commit.map(|transaction| match &transaction.writes[0] {
            callsign_store::Write::Put { value, .. } => Batch::decode(value).unwrap().ops,
            other => panic!("{other:?}"),
        });
        (ops, one)
    };
    let none = MemberRow { synced: false, empty: true, ..row("l", 1) };
    let some = MemberRow { synced: false, empty: false, ..row("l", 1) };
    let reset = Some(vec![Op::Reset, Op::Open]);
    assert_eq!(opens(none.clone(), LogEnd::default(), true, false).0, reset);
    assert_eq!(
        opens(none.clone(), end(7), true, false).0,
        None,
        "it has a base, and the log goes on from there"
    );
    assert_eq!(opens(none.clone(), end(7), false, true).0, None, "somebody can give one");
    let (ops, one) = opens(none, end(7), false, false);
    assert_eq!((ops, one.member.replica.end()), (reset, end(7)));
    assert!(!one.member.replica.is_based(), "it is when this was committed");
    assert_eq!(opens(some, end(7), false, false).0, None, "they may hold names");
}

#[test]
fn the_log_is_cut_by_a_leader_alone_and_memory_with_it() {
    let mut one = One::leading_with(Tuning { cut_worth: 1, ..Tuning::default() });
    for name in ["l", "o"] {
        one.view.members.get_mut(&node(name)).unwrap().synced = false;
    }
    one.shown();
    let has = |one: &One| one.member.leader.as_ref().unwrap().remembered(Position(0)).len();
    assert_eq!(has(&one), 1);
    let (id, _) = commit(&one.wakes_after(0));
    assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MILLIS(500), "its members are told");
    let effects = one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    assert_eq!((has(&one), effects), (0, vec![]));
}

#[test]
fn what_a_leader_frees_itself_is_said_as_what_another_one_does() {
    let mut one = One::leading();
    let committed = || CommitOutcome::Committed(Version(9));
    let (id, _) = commit(&one.hears("l", requests(5, "l")));
    one.step(Input::CommitDone { id, outcome: committed() });
    one.view.sessions.insert(node("l"), Some(record(false)));
    one.shown();
    let (id, _) = commit(&one.wakes_after(5));
    let effects = one.step(Input::CommitDone { id, outcome: committed() });
    assert_eq!(events(&effects), [Event::HostGone { session: session("l"), names: 1 }]);
}

/// The node of a session asks for the name x.
fn requests(epoch: u64, of: &str) -> Message {
    let wish = crate::core::message::Wish::Register { actor: Some(1), kind: Kind(7), meta: None };
    let (number, name) = (RequestNumber(1), "x".into());
    let requests = vec![crate::core::message::Request { number, name, wish }];
    let (session, acknowledged) = (Arc::new(session(of)), RequestNumber(0));
    Message::Requests { epoch: Epoch(epoch), session, acknowledged, requests }
}

#[test]
fn a_leader_whose_epoch_another_node_has_won_in_a_store_that_went_back_leads_no_more() {
    let mut one = One::leading();
    assert_eq!(events(&one.sees(5, Some("m"))), []);
    assert!(one.member.is_serving());
    let effects = one.sees(5, Some("l"));
    assert!(events(&effects).contains(&Event::Deposed { epoch: Epoch(5) }), "{effects:?}");
    assert!(!one.member.is_serving());
    // It follows the other one.
    one.hears("l", heartbeat(5, 1));
    assert_eq!(one.member.leader(), Some((Epoch(5), &node("l"))));
}

#[test]
fn a_handoff_of_an_epoch_that_another_node_has_won_is_over() {
    let (mut one, _) = One::elected();
    assert!(one.member.handoff.is_some());
    one.sees(5, Some("l"));
    assert!(one.member.handoff.is_none());
}

#[test]
fn names_of_a_session_that_was_closed_before_the_epoch_opened_are_freed_without_another_view() {
    let mut one = One::new();
    let sessions = vec![Arc::new(session("l"))];
    one.member.replica.apply(&Batch { epoch: Epoch(4), sessions, ..batch(1, vec![register("x")]) });
    one.view.sessions.insert(node("l"), Some(record(false)));
    let id = read(&one.sees(5, Some("m")));
    let values = one.end_of_log(end(1));
    let (id, _) = commit(&one.reads(id, &values));
    one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    assert!(one.member.is_serving());
    let (_, transaction) = commit(&one.wakes_after(5));
    let freeing = one.member.config.keys.log(Position(3));
    let ops = transaction.writes.iter().find_map(|write| match write {
        callsign_store::Write::Put { key, value } if *key == freeing => {
            Some(Batch::decode(value).unwrap().ops)
        }
        _ => None,
    });
    assert_eq!(ops, Some(vec![Op::HostGone { session: 0 }]));
}

#[test]
fn the_batches_of_two_terms_of_one_member_have_different_nonces() {
    let mut one = One::leading();
    let first = one.member.replica.end();
    let id = read(&one.sees(6, Some("m")));
    let values = one.end_of_log(first);
    let (id, _) = commit(&one.reads(id, &values));
    one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    let second = one.member.replica.end();
    assert_eq!(second.position, first.position.next());
    assert_ne!(second.nonce, first.nonce);
}

#[test]
fn a_member_that_is_elected_reads_at_once_what_the_old_leader_says_there_is() {
    let reads_after = |position: u64| {
        let mut one = One::new();
        one.links("l", 1);
        one.sees(4, Some("l"));
        one.sees(5, Some("m"));
        let message = Message::Transferred { epoch: Epoch(5), position: Position(position) };
        let effects = one.hears("l", message);
        effects.iter().filter(|effect| matches!(effect, Effect::Read { .. })).count()
    };
    assert_eq!(reads_after(0), 1, "the end of the log");
    assert_eq!(reads_after(3), 2, "the log, too");
}

#[test]
fn an_elector_that_sees_the_lock_before_its_member_sees_the_term_is_told_when_the_epoch_is_open() {
    let mut one = One::new();
    one.step(Input::RunHandoff { leader: node("m"), epoch: Epoch(5) });
    let id = read(&one.sees(5, Some("m")));
    let values = one.end_of_log(LogEnd::default());
    let (id, _) = commit(&one.reads(id, &values));
    let effects = one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    assert!(tells(&effects).contains(&Tell::HandoffDone(Epoch(5))), "{effects:?}");
}
