//! Links, sessions and lineages that change, and when a member is to be woken.

use super::*;
use crate::core::{
    message::{Chunk, Verdict},
    select::Select,
    watch::{WatchEvent, WatchId},
};

/// What a watch is given.
fn given(effects: &[Effect]) -> Vec<WatchEvent> {
    let given = effects.iter().filter_map(|effect| match effect {
        Effect::Given { events, .. } => Some(events.iter().map(|given| given.event.clone())),
        _ => None,
    });
    given.flatten().collect()
}

fn watch() -> Input {
    Input::OpenWatch { id: WatchId(1), select: Select::all(), from: None, room: 100 }
}

#[test]
fn a_reader_of_a_watch_is_told_what_becomes_of_the_session() {
    let mut one = One::new();
    assert_eq!(given(&one.step(watch())), [WatchEvent::Current { position: Position(0) }]);
    for (input, event) in [
        (Input::SessionLapsed(session("m")), WatchEvent::Lapsed),
        (Input::SessionResumed(session("m")), WatchEvent::Resumed),
        (Input::SessionLost, WatchEvent::Lapsed),
        (Input::SessionOpened(session("m")), WatchEvent::Resumed),
    ] {
        assert_eq!(given(&one.step(input.clone())), [event], "{input:?}");
    }
}

#[test]
fn a_call_is_answered_after_a_watch_was_given_what_the_answer_builds_on() {
    let few = Tuning { watch_looks: 2, ..Tuning::default() };
    let mut one = One::with(few);
    one.member.replica.base_on_nothing();
    one.links("l", 1);
    one.sees(5, Some("l"));
    one.hears("l", heartbeat(5, 0));
    one.step(watch());
    while one.member.watchers.owes() {
        one.step(Input::Idle);
    }
    one.registers(1, "x");
    one.calls(2, Call::WaitFor { position: Position(1) }, 5000);
    let names = ["r", "s", "t", "u", "v", "w", "x"].map(register);
    let granted = Verdict::Granted { token: Position(1), revision: Position(1) };
    let verdicts = Message::Verdicts {
        epoch: Epoch(5),
        session: Arc::new(session("m")),
        position: Position(1),
        verdicts: vec![(RequestNumber(1), granted)],
    };
    let mut effects = one.hears("l", replicate(&batch(1, names.to_vec())));
    effects.extend(one.hears("l", verdicts));
    let mut all: Vec<Effect> = effects;
    for _ in 0..30 {
        assert!(!one.member.watchers.owes() || one.member.wakes_at(one.now.time) == one.now.time);
        all.extend(one.step(Input::Idle));
    }
    let at = |is_it: &dyn Fn(&Effect) -> bool| all.iter().position(is_it).unwrap();
    let is_of_x = |effect: &Effect| {
        given(std::slice::from_ref(effect))
            .iter()
            .any(|event| matches!(event, WatchEvent::Change(change) if change.name.as_str() == "x"))
    };
    let seen = at(&is_of_x);
    for call in [1, 2] {
        let is_answer = |effect: &Effect| matches!(effect, Effect::Answer { call: of, .. } if of.0 == call);
        assert!(at(&is_answer) > seen, "{all:?}");
    }
}

#[test]
fn what_was_asked_of_a_leader_is_asked_again_by_a_new_link_and_soon_where_it_was_not_sent() {
    let asked = |effects: &[Effect]| {
        let of = |(to, link, message): (String, u64, Message)| match message {
            Message::Requests { requests, .. } => Some((to, link, requests.len())),
            _ => None,
        };
        sends(effects).into_iter().filter_map(of).collect::<Vec<_>>()
    };
    let mut one = One::following();
    assert_eq!(asked(&one.registers(1, "x")), [("l".to_owned(), 1, 1)]);
    assert_eq!(asked(&one.links("o", 2)), []);
    assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MEMBER_TICK);
    one.unlinks("l", 1);
    assert_eq!(asked(&one.links("l", 3)), [("l".to_owned(), 3, 1)]);
    for (to, is_asked) in [("o", false), ("l", true)] {
        one.step(Input::SendFailed { to: node(to) });
        assert_eq!(asked(&one.wakes_after(100)).len(), usize::from(is_asked), "{to}");
    }
    // In the next epoch the next leader is asked.
    one.sees(6, Some("o"));
    assert_eq!(asked(&one.hears("o", heartbeat(6, 1))), [("o".to_owned(), 2, 1)]);
}

#[test]
fn what_a_node_may_do_is_known_while_it_is_linked_or_a_member() {
    let mut one = One::new();
    for (name, stays) in [("l", true), ("x", false)] {
        let may = |one: &One| one.member.permitted.check(&session(name), "shop").is_ok();
        assert!(!may(&one));
        one.links(name, 1);
        assert!(may(&one));
        one.unlinks(name, 1);
        assert_eq!(may(&one), stays);
    }
}

#[test]
fn what_lags_is_waited_for_a_moment_and_then_fetched_from_whoever_leads() {
    let mut one = One::following();
    one.links("o", 2);
    assert!(one.hears("l", heartbeat(5, 3)).iter().all(|effect| !matches!(effect, Effect::Read { .. })));
    assert!(sends(&one.wakes_after(149)).is_empty());
    let fetch = Message::Fetch { epoch: Epoch(5), after: Position(1) };
    assert_eq!(sends(&one.wakes_after(1)), [("l".to_owned(), 1, fetch)]);
    assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MEMBER_TICK);
    // What it sends is applied.
    let batches = [2, 3].map(|position| (Position(position), batch(position, vec![]).encode()));
    let fetched = Message::Fetched { epoch: Epoch(5), after: Position(1), batches: batches.to_vec() };
    let mut other = One { member: one.member.clone(), now: one.now, view: one.view.clone() };
    other.hears("l", fetched);
    assert_eq!(other.member.replica.position(), Position(3));
    // When it leads no more, its answer is not waited for.
    read(&one.sees(6, Some("o")));
    // So is what comes when an epoch is opened, and its author is told how far that brought it.
    let mut one = One::following();
    let batches = vec![(Position(2), batch(2, vec![]).encode())];
    let effects = one.hears("l", Message::ApplyNamesSnapshot { epoch: Epoch(5), batches });
    assert!(sends(&effects).contains(&("l".to_owned(), 1, progress(5, 2))));
    // Of what anybody who leads says it is known that there is so much.
    let is_complete = |one: &One| one.member.catchup.is_complete(&one.member.replica);
    let later = batch(4, vec![]);
    let opening =
        Message::ApplyNamesSnapshot { epoch: Epoch(5), batches: vec![(Position(4), later.encode())] };
    let (session, verdicts) = (Arc::new(session("m")), Vec::new());
    let verdicts = Message::Verdicts { epoch: Epoch(5), session, position: Position(4), verdicts };
    for message in [heartbeat(5, 4), replicate(&later), opening, verdicts] {
        let mut one = One::following();
        assert!(is_complete(&one));
        one.links("o", 2);
        one.hears("o", message.clone());
        assert!(is_complete(&one), "{message:?} of somebody else");
        one.hears("l", message.clone());
        assert!(!is_complete(&one), "{message:?}");
    }
}

#[test]
fn without_a_leader_the_store_is_the_only_news() {
    let mut one = One::following();
    one.view.commit = Some(end(3));
    assert!(one.shown().iter().all(|effect| !matches!(effect, Effect::Read { .. })));
    assert!(one.member.catchup.is_complete(&one.member.replica), "batches are on the way");
    let id = read(&one.sees(6, None));
    // What it has there does not follow what was applied: the node is told.
    let (key, log) = (one.member.config.keys.log(Position(2)), one.member.config.keys.log(Position(3)));
    let other = Batch { prev: LogEnd { nonce: Nonce(9), ..end(1) }, ..batch(2, vec![]) }.encode().to_vec();
    let entries = vec![(key.clone(), other.clone()), (log, batch(3, vec![]).encode().to_vec())];
    let answers = vec![vec![], vec![(Vec::new(), end(3).to_value())], entries];
    let effects = one.step(Input::ReadDone { id, result: Ok(ReadResult { version: Version(9), answers }) });
    let contradicted = Tell::Contradicted { lineage: LineageNumber(0), key, value: other };
    assert!(tells(&effects).contains(&contradicted), "{effects:?}");
}

#[test]
fn a_member_without_a_base_asks_those_that_have_one() {
    let without = || {
        let mut one = One::with(Tuning::default());
        one.view.members.insert(node("p"), MemberRow { synced: false, ..row("p", 4) });
        one.sees(5, Some("l"));
        one
    };
    let wanted = |effects: &[Effect]| {
        let of = |(to, _, message): (String, u64, Message)| match message {
            Message::SnapshotWanted { id, .. } => Some((to, id)),
            _ => None,
        };
        sends(effects).into_iter().find_map(of)
    };
    let mut one = without();
    one.links("p", 4);
    one.hears("l", heartbeat(5, 3));
    let (to, _) = {
        let effects = one.links("o", 2);
        let later = one.wakes_after(1000);
        wanted(&effects).or(wanted(&later)).unwrap()
    };
    assert_eq!(to, "o", "not one that is not synced");
    let mut one = without();
    one.links("l", 1);
    one.links("o", 2);
    let mut one = One { member: one.member.clone(), ..one };
    let effects = one.hears("l", heartbeat(5, 3));
    let asked = wanted(&effects).or_else(|| wanted(&one.wakes_after(1000)));
    let (first, id) = asked.unwrap();
    // Its link is down: the next one is asked at once.
    let (link, other) = if first == "l" { (1, "o") } else { (2, "l") };
    let mut cut = One { member: one.member.clone(), now: one.now, view: one.view.clone() };
    assert_eq!(wanted(&cut.unlinks(&first, link)).map(|(to, _)| to).as_deref(), Some(other));
    // It comes, and is put in its place.
    let chunk =
        Message::SnapshotChunk { id, index: 0, chunk: Chunk::default(), end: Some((Epoch(5), end(3))) };
    let effects = one.hears(&first, chunk);
    assert!(events(&effects).contains(&Event::SnapshotInstalled { position: Position(3), names: 0 }));
    assert_eq!(one.member.replica.position(), Position(3));
}

#[test]
fn a_snapshot_for_a_node_that_is_cut_off_is_forgotten() {
    let tuning = Tuning { chunk_names: 1, ..Tuning::default() };
    let sends_one = || {
        let mut one = One::with(tuning);
        one.member.replica.base_on_nothing();
        one.sees(1, None);
        one.links("o", 2);
        one.member.replica.apply(&batch(1, vec![register("x"), register("y"), register("z")]));
        let effects = one.hears("o", Message::SnapshotWanted { id: 7, below: 1 });
        assert!(matches!(&sends(&effects)[..], [(_, 2, Message::SnapshotChunk { id: 7, index: 0, .. })]));
        one
    };
    let mut one = sends_one();
    let effects = one.hears("o", Message::SnapshotNext { id: 7, below: 2 });
    assert!(matches!(&sends(&effects)[..], [(_, 2, Message::SnapshotChunk { id: 7, index: 1, .. })]));
    one.unlinks("o", 2);
    assert_eq!(one.member.walks, Walks::new(tuning));
    let mut one = sends_one();
    one.wakes_after(3001);
    assert_eq!(one.member.walks, Walks::new(tuning), "nobody asked for it");
}

#[test]
fn a_donor_goes_on_unasked_while_its_receiver_has_room_and_refuses_nothing_that_is_on_its_way() {
    let mut one = One::with(Tuning { chunk_names: 1, snapshot_window: 3, ..Tuning::default() });
    one.sees(1, None);
    one.links("o", 2);
    let refused = |id| [("o".to_owned(), 2, Message::SnapshotRefused { id })];
    assert_eq!(sends(&one.hears("o", Message::SnapshotWanted { id: 6, below: 3 })), refused(6), "no base");
    one.member.replica.base_on_nothing();
    one.member.replica.apply(&batch(1, (0..5).map(|number| register(&format!("n{number}"))).collect()));
    let index = |effects: &[Effect]| match &sends(effects)[..] {
        [(_, 2, Message::SnapshotChunk { id: 7, index, end, .. })] => Some((*index, end.is_some())),
        [] => None,
        sent => panic!("{sent:?}"),
    };
    let mut effects = one.hears("o", Message::SnapshotWanted { id: 7, below: 3 });
    for chunk in 0..5 {
        assert_eq!(index(&effects), Some((chunk, chunk == 4)));
        // The last credit comes when the whole is on its way.
        let is_stopped = chunk == 2 || chunk == 4;
        assert_eq!(one.member.wakes_at(one.now.time) == one.now.time, !is_stopped, "chunk {chunk}");
        effects = if is_stopped {
            assert_eq!(index(&one.wakes_after(0)), None);
            one.hears("o", Message::SnapshotNext { id: 7, below: chunk + 3 })
        } else {
            one.wakes_after(0)
        };
    }
    assert_eq!(index(&effects), None);
    // What it cannot go on with is refused, and that does not wait for its receiver.
    one.hears("o", Message::SnapshotWanted { id: 8, below: 1 });
    one.member.replica.give_up_base();
    assert_eq!(one.member.wakes_at(one.now.time), one.now.time);
    assert!(sends(&one.wakes_after(0)).contains(&refused(8)[0]));
}

#[test]
fn in_another_lineage_a_member_begins_anew_but_for_its_links() {
    let mut one = One::following();
    one.links("o", 2);
    // It knows a lot of the former one.
    one.view.members.get_mut(&node("m")).unwrap().synced = false;
    one.shown();
    one.hears("l", Message::RunHandoff { epoch: Epoch(5) });
    one.hears("o", heartbeat(9, 1));
    one.hears("o", Message::SnapshotWanted { id: 7, below: 1 });
    assert!(one.member.walks.begin(one.now.time, &mut one.member.replica, &node("o"), 8, 1));
    one.member.hopeless_since = Some(one.now.time);
    assert!(one.member.synced_told > Time::ZERO && one.member.contact_told.is_some());
    assert!(!one.member.to_run.is_empty() && one.member.ahead != Ahead::default());
    let lineage = LineageId { number: LineageNumber(1), nonce: Nonce(1) };
    one.now.time = one.now.time + MILLIS(70);
    let mut effects = Vec::new();
    one.member.step(one.now, Input::Lineage(lineage), &mut effects);
    let member = &one.member;
    let seed = splitmix(1);
    assert_eq!((member.config.seed, member.lineage), (seed, Some(lineage)));
    assert_eq!(member.catchup, CatchUp::beginning(splitmix(seed ^ SNAPSHOTS), 8, lineage.number));
    assert_eq!((member.replica.is_based(), member.replica.position()), (false, Position(0)));
    assert_eq!(member.walks, Walks::new(Tuning::default()));
    assert_eq!((&member.ahead, &member.told), (&Ahead::default(), &ToldOfLog::default()));
    assert_eq!((&*member.view, member.links(), member.linked.len()), (&nothing_known(), 2, 0));
    assert_eq!((&member.following, member.contact_told, member.hopeless_since), (&None, None, None));
    assert_eq!((member.synced_told, member.next_tick), (Time::ZERO, one.now.time));
    assert!(member.to_run.is_empty() && member.handoff.is_none());
    // What the elector read before, or somebody says of what was lost, is of no account.
    assert_eq!(events(&one.sees(5, Some("l"))), []);
    assert_eq!(one.hears("l", replicate(&batch(1, vec![Op::Reset]))), [Effect::Tell(Tell::Refresh)]);
    assert!(!one.member.replica.is_based());
    one.view.lineage = lineage;
    one.sees((1 << 40) + 1, Some("l"));
    let position = (1 << 40) + 1;
    let opening = Batch {
        epoch: Epoch(position),
        prev: LogEnd::default(),
        ..batch(position, vec![Op::Reset, Op::Open])
    };
    one.hears("l", replicate(&opening));
    assert_eq!(one.member.replica.position(), Position(position));
}

#[test]
fn a_member_that_leads_or_is_about_to_begins_a_lineage_as_one_that_does_not() {
    for opens in [false, true] {
        let mut one = One::new();
        let id = read(&one.sees(5, Some("m")));
        if opens {
            let values = [Some(one.view.term.to_value()), None, None];
            let (id, _) = commit(&one.reads(id, &values));
            one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
            one.wakes_after(10);
        }
        let lineage = LineageId { number: LineageNumber(1), nonce: Nonce(1) };
        let effects = one.step(Input::Lineage(lineage));
        assert_eq!(events(&effects).contains(&Event::Deposed { epoch: Epoch(5) }), opens);
        let tuning = Tuning::default();
        assert_eq!(one.member.trim, Trim::new(tuning.cut_worth, tuning.max_lag));
        assert!(one.member.handoff.is_none() && one.member.leader.is_none());
    }
}

#[test]
fn a_log_is_read_from_the_lineage_that_the_store_is_in() {
    let record =
        Lineage { id: LineageId { number: LineageNumber(1), nonce: Nonce(1) }, ..Lineage::default() };
    let mut one = One::with(Tuning::default());
    one.view.lineage = record.id;
    one.view.commit = Some(end((1 << 40) + 3));
    let effects = one.sees((1 << 40) + 1, None);
    let Some(Effect::Read { reads, .. }) =
        effects.iter().find(|effect| matches!(effect, Effect::Read { .. }))
    else {
        panic!("{effects:?}")
    };
    let range = one.member.config.keys.log_range(Position((1 << 40) + 1)..Position(u64::MAX));
    assert!(
        reads
            .iter()
            .any(|read| matches!(read, callsign_store::Read::Range { range: of, .. } if *of == range))
    );
    // It was not opened in it yet: what the log has is of no account.
    let mut one = One::with(Tuning::default());
    one.view.lineage = record.id;
    one.view.commit = Some(end(3));
    assert!(one.sees((1 << 40) + 1, None).iter().all(|effect| !matches!(effect, Effect::Read { .. })));
}

#[test]
fn it_is_woken_soon_while_somebody_waits_and_now_while_something_is_to_be_done() {
    let now = |one: &One| one.member.wakes_at(one.now.time).since(one.now.time);
    let idle = || {
        let mut one = One::following();
        one.wakes_after(1000);
        assert_eq!(now(&one), MEMBER_TICK + FOLLOWER_LOOKS);
        one
    };
    let wait_for = Call::WaitFor { position: Position(9) };
    for call in [Call::Consistent { name: "x".into() }, wait_for, Call::Drain] {
        let mut one = idle();
        one.calls(1, call, 5000);
        assert_eq!(now(&one), MEMBER_TICK);
    }
    let mut one = idle();
    one.registers(1, "x");
    assert_eq!(now(&one), MEMBER_TICK);
    let mut one = idle();
    one.hears("l", heartbeat(5, 2));
    assert_eq!(now(&one), MEMBER_TICK, "something is missing");
    let mut one = idle();
    one.view.members.get_mut(&node("m")).unwrap().synced = false;
    one.shown();
    one.wakes_after(1000);
    assert_eq!(now(&one), MEMBER_TICK, "its row does not say that it is synced");
    one.view.me = None;
    one.shown();
    one.wakes_after(1000);
    assert_eq!(now(&one), MEMBER_TICK + FOLLOWER_LOOKS, "it has none");
    // Names of a session that is gone are removed bit by bit.
    let mut one = idle();
    let mut effects = Vec::new();
    let gone = batch(2, vec![register("x"), Op::HostGone { session: 0 }]);
    one.member.step(one.now, Input::Message { from: node("l"), message: replicate(&gone) }, &mut effects);
    assert_eq!(now(&one), Duration::ZERO);
    let freed = Event::HostGone { session: session("m"), names: 1 };
    assert!(effects.contains(&Effect::Event(freed)));
    // A handoff whose read failed reads again soon, and a leader has something to say to its members.
    let mut one = One::new();
    let id = read(&one.sees(5, Some("m")));
    let result = Err(StoreError::Unavailable("gone".into()));
    one.step(Input::ReadDone { id, result });
    assert_eq!(now(&one), MILLIS(50));
    let id = read(&one.wakes_after(50));
    let values = [Some(one.view.term.to_value()), None, None];
    let (id, _) = commit(&one.reads(id, &values));
    one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    one.wakes_after(0);
    one.wakes_after(300);
    assert_eq!(now(&one), MILLIS(200));
}

#[test]
fn that_the_names_of_a_session_are_gone_is_said_whichever_way_it_comes() {
    let gone = batch(2, vec![register("x"), Op::HostGone { session: 0 }]);
    let batches = || vec![(Position(2), gone.encode())];
    let fetched = Message::Fetched { epoch: Epoch(5), after: Position(1), batches: batches() };
    let opening = Message::ApplyNamesSnapshot { epoch: Epoch(5), batches: batches() };
    for message in [replicate(&gone), opening, fetched] {
        let mut one = One::following();
        if let Message::Fetched { .. } = message {
            one.hears("l", heartbeat(5, 2));
            assert_eq!(sends(&one.wakes_after(150)).len(), 1, "it is asked for");
        }
        let said = Event::HostGone { session: session("m"), names: 1 };
        assert_eq!(events(&one.hears("l", message.clone())), [said], "{message:?}");
    }
    // So is it of a chunk that cannot be read.
    let mut one = One::with(Tuning::default());
    one.sees(5, Some("l"));
    one.links("l", 1);
    let mut effects = one.hears("l", heartbeat(5, 3));
    effects.extend(one.wakes_after(1000));
    let id = sends(&effects).into_iter().find_map(|(_, _, message)| match message {
        Message::SnapshotWanted { id, .. } => Some(id),
        _ => None,
    });
    let chunk = Chunk { gone: vec![(7, Position(1))], ..Chunk::default() };
    let chunk = Message::SnapshotChunk { id: id.unwrap(), index: 0, chunk, end: None };
    assert!(matches!(&events(&one.hears("l", chunk))[..], [Event::Corrupt { .. }]));
}

#[test]
fn a_log_that_is_applied_bit_by_bit_is_told_of_to_its_end() {
    let mut one = One::with(Tuning { slice_names: 1, ..Tuning::default() });
    one.member.replica.base_on_nothing();
    one.view.commit = Some(end(3));
    let id = read(&one.sees(1, None));
    let gone = || vec![register("x"), Op::HostGone { session: 0 }];
    let log = [batch(1, vec![register("x")]), batch(2, vec![Op::HostGone { session: 0 }]), batch(3, gone())];
    let entry = |batch: &Batch| (one.member.config.keys.log(batch.position), batch.encode().to_vec());
    let entries = log.iter().map(entry).collect();
    let answers = vec![vec![], vec![(Vec::new(), end(3).to_value())], entries];
    let mut effects =
        one.step(Input::ReadDone { id, result: Ok(ReadResult { version: Version(9), answers }) });
    for _ in 0..9 {
        effects.extend(one.step(Input::Idle));
    }
    let said = Event::HostGone { session: session("m"), names: 1 };
    let of_log = events(&effects).into_iter().filter(|event| *event == said).count();
    assert_eq!((of_log, one.member.replica.position()), (2, Position(3)));
}

#[test]
fn a_look_at_those_who_wait_that_was_cut_goes_on_at_the_same_moment() {
    let mut one = One::with(Tuning { slice_names: 1, ..Tuning::default() });
    for (call, name) in [(1, "x"), (2, "y"), (3, "z")] {
        one.registers(call, name);
    }
    let (mut told, mut wakes) = (answers(&one.wakes_after(5000)).len(), 1);
    while one.member.wakes_at(one.now.time) <= one.now.time {
        told += answers(&one.wakes_after(0)).len();
        wakes += 1;
        assert!(wakes < 10, "it comes to an end");
    }
    assert_eq!(told, 3);
}

/// How many requests it sends.
fn requests(effects: &[Effect]) -> usize {
    let of = |(_, _, message): (String, u64, Message)| match message {
        Message::Requests { requests, .. } => requests.len(),
        _ => 0,
    };
    sends(effects).into_iter().map(of).sum()
}

#[test]
fn what_was_asked_is_not_asked_again_at_each_heartbeat() {
    let mut one = One::following();
    assert_eq!(requests(&one.registers(1, "x")), 1);
    for _ in 0..3 {
        assert_eq!(requests(&one.hears("l", heartbeat(5, 1))), 0);
    }
}

#[test]
fn what_waits_for_a_verdict_is_asked_for_in_the_step_that_brings_it() {
    let mut one = One::following();
    assert_eq!(requests(&one.registers(1, "x")), 1);
    assert_eq!(requests(&one.calls(2, Call::Unregister { name: "x".into() }, 5000)), 0);
    one.hears("l", replicate(&batch(2, vec![register("x")])));
    let granted = Verdict::Granted { token: Position(2), revision: Position(2) };
    let verdicts = Message::Verdicts {
        epoch: Epoch(5),
        session: Arc::new(session("m")),
        position: Position(2),
        verdicts: vec![(RequestNumber(1), granted)],
    };
    let effects = one.hears("l", verdicts);
    assert!(matches!(&answers(&effects)[..], [(1, Answer::Registered(Ok(_)))]), "{effects:?}");
    assert_eq!(requests(&effects), 1, "{effects:?}");
}

#[test]
fn a_consistent_read_that_shows_less_than_was_applied_answers_nobody_and_has_the_elector_look() {
    let mut one = One::following();
    let id = read(&one.calls(1, Call::Consistent { name: "x".into() }, 5000));
    let effects = one.reads(id, &[None]);
    assert_eq!(answers(&effects), []);
    assert!(tells(&effects).contains(&Tell::Refresh), "{effects:?}");
}

#[test]
fn what_is_too_much_for_a_step_is_sent_in_the_next_and_a_member_that_has_left_comes_to_rest() {
    let is_at_once = |one: &One| one.member.wakes_at(one.now.time) == one.now.time;
    let mut one = One::following();
    let mut effects = Vec::new();
    for number in 0..4097 {
        let (name, kind, on_lapse) = (format!("n{number}").into(), Kind(7), OnLapse::Suspend);
        let on_take = OnTake::default();
        let call = Call::Register { name, actor: 5, kind, on_lapse, on_take, meta: None };
        let input = Input::Call { id: CallId(number), call, wait: MILLIS(5000) };
        one.member.step(one.now, input, &mut effects);
    }
    one.member.step(one.now, Input::Idle, &mut effects);
    assert_eq!((requests(&effects), is_at_once(&one)), (2048, true));
    // It leaves at once, with one that it has not sent.
    let mut effects = one.calls(5000, Call::Leave, 0);
    assert_eq!(requests(&effects), 2048);
    for _ in 0..100 {
        effects.extend(one.step(Input::Idle));
    }
    assert!(answers(&effects).contains(&(5000, Answer::Left)));
    assert!(!is_at_once(&one), "it has nothing more to do");
}
