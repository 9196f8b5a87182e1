//! What a member says of itself to its elector, and how it drains.

use super::*;
use crate::{MemberInfo, Status, core::input::Drained, status::of_member::MemberRows};

impl One {
    fn own(&mut self) -> &mut MemberRow {
        self.view.members.get_mut(&node("m")).unwrap()
    }

    /// It is not synced, as its row says.
    fn unsynced(mut self) -> (Self, Vec<Effect>) {
        self.own().synced = false;
        let effects = self.shown();
        (self, effects)
    }
}

fn synced(epoch: u64, position: u64) -> Tell {
    Tell::Synced(Epoch(epoch), Position(position))
}

#[test]
fn that_it_is_synced_is_said_when_nothing_is_missing_and_again_until_its_row_says_so() {
    let (mut one, effects) = One::following().unsynced();
    assert!(tells(&effects).contains(&synced(5, 1)));
    assert!(events(&effects).contains(&Event::Synced { position: Position(1) }));
    assert!(!tells(&one.wakes_after(499)).contains(&synced(5, 1)));
    assert!(tells(&one.wakes_after(1)).contains(&synced(5, 1)));
    assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MEMBER_TICK);
    one.own().synced = true;
    one.shown();
    assert!(!tells(&one.wakes_after(2000)).contains(&synced(5, 1)));
    // Something is missing.
    let mut one = One::following();
    one.hears("l", heartbeat(5, 2));
    let (mut one, effects) = one.unsynced();
    assert!(!tells(&effects).contains(&synced(5, 1)));
    assert!(tells(&one.hears("l", replicate(&batch(2, vec![])))).contains(&synced(5, 2)));
    // It is no member.
    let mut one = One::following();
    one.own().synced = false;
    one.view.me = None;
    assert_eq!(tells(&one.shown()), []);
    // The leader's own entry of this epoch is not here.
    let mut one = One::following();
    one.own().synced = false;
    one.sees(6, Some("l"));
    assert!(tells(&one.hears("l", heartbeat(6, 1))).iter().all(|tell| !matches!(tell, Tell::Synced(..))));
    // The leader was elected, and was not heard.
    let mut one = One::new();
    one.own().synced = false;
    one.view.commit = Some(LogEnd::default());
    assert!(tells(&one.sees(6, Some("l"))).iter().all(|tell| !matches!(tell, Tell::Synced(..))));
}

#[test]
fn while_nobody_leads_it_is_synced_at_the_end_that_was_read() {
    let vacant = |commit: Option<u64>| {
        let mut one = One::new();
        one.member.replica.apply(&batch(1, vec![]));
        one.own().synced = false;
        one.view.commit = commit.map(end);
        tells(&one.shown()).into_iter().filter(|tell| matches!(tell, Tell::Synced(..))).collect::<Vec<_>>()
    };
    assert_eq!(vacant(Some(1)), [synced(1, 1)]);
    assert_eq!(vacant(Some(2)), []);
    assert_eq!(vacant(None), []);
}

#[test]
fn what_was_applied_is_told_from_time_to_time() {
    let mut one = One::following();
    let applied = |position| Tell::Applied(end(position));
    one.wakes_after(250);
    assert!(tells(&one.hears("l", replicate(&batch(2, vec![])))).contains(&applied(2)));
    assert_eq!(tells(&one.hears("l", replicate(&batch(3, vec![])))), []);
    assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MEMBER_TICK, "it is to be told");
    assert_eq!(tells(&one.wakes_after(249)), []);
    assert_eq!(tells(&one.wakes_after(1)), [applied(3)]);
    assert_eq!(tells(&one.wakes_after(1000)), [], "it is known");
    assert!(one.member.wakes_at(one.now.time) > one.now.time + MEMBER_TICK, "nobody waits");
    one.member.replica.give_up_base();
    assert_eq!(tells(&one.wakes_after(1000)), []);
}

#[test]
fn what_does_not_follow_what_was_applied_is_looked_into_from_time_to_time() {
    let mut one = One::following();
    one.wakes_after(1000);
    let other = Message::Heartbeat { epoch: Epoch(5), end: LogEnd { nonce: Nonce(99), ..end(1) } };
    let looks = [Tell::Applied(end(1)), Tell::Refresh];
    let tells_of = |effects: &[Effect]| {
        tells(effects).into_iter().filter(|tell| !matches!(tell, Tell::LeaderContact(_))).collect::<Vec<_>>()
    };
    assert_eq!(tells_of(&one.hears("l", other.clone())), looks);
    one.now.time = one.now.time + MILLIS(249);
    assert_eq!(tells_of(&one.hears("l", other.clone())), []);
    one.now.time = one.now.time + MILLIS(1);
    assert_eq!(tells_of(&one.hears("l", other.clone())), looks);
    // A batch says so, too; a heartbeat of another position, or of this batch, does not.
    one.now.time = one.now.time + MILLIS(250);
    let follows = Batch { prev: LogEnd { nonce: Nonce(99), ..end(1) }, ..batch(2, vec![]) };
    assert_eq!(tells_of(&one.hears("l", replicate(&follows))), looks);
    one.now.time = one.now.time + MILLIS(250);
    for position in [0, 1, 2] {
        assert_eq!(tells_of(&one.hears("l", heartbeat(5, position))), []);
    }
    // Without a base nothing was applied.
    one.member.replica.give_up_base();
    assert_eq!(tells_of(&one.hears("l", other)), []);
    // What cannot be read is said.
    let mut one = One::following();
    let message = Message::Replicate { epoch: Epoch(5), position: Position(2), batch: vec![0xff].into() };
    assert!(matches!(&events(&one.hears("l", message))[..], [Event::Corrupt { .. }]));
}

/// Nobody leads, and the log does not go back to where it is.
fn hopeless() -> One {
    let mut one = One::new();
    for name in ["l", "m", "o"] {
        one.view.members.get_mut(&node(name)).unwrap().synced = false;
    }
    one.view.commit = Some(end(9));
    let id = read(&one.shown());
    let floor = callsign_elector::record::PositionRecord(Position(5)).to_value();
    one.reads(id, &[Some(floor), Some(end(9).to_value()), None]);
    assert!(one.member.catchup.is_too_far());
    one
}

#[test]
fn a_base_that_nobody_can_continue_is_given_up_after_a_while() {
    let rejoins = |effects: &[Effect]| tells(effects).contains(&Tell::Rejoin { empty: true });
    let mut one = hopeless();
    assert!(!rejoins(&one.wakes_after(2999)));
    assert!(one.member.replica.is_based());
    assert!(rejoins(&one.wakes_after(1)));
    assert!(!one.member.replica.is_based());
    assert!(!rejoins(&one.wakes_after(10)), "once");
    // It has to be so for all of the time.
    let mut one = hopeless();
    one.wakes_after(2000);
    one.view.members.get_mut(&node("o")).unwrap().synced = true;
    one.shown();
    assert!(!rejoins(&one.wakes_after(5000)), "somebody has a base");
    // That one's session is closed.
    one.view.sessions.insert(node("o"), Some(record(false)));
    one.now.time = one.now.time + MILLIS(1000);
    assert!(!rejoins(&one.shown()));
    assert!(!rejoins(&one.wakes_after(2999)));
    assert!(rejoins(&one.wakes_after(1)));
    let kept: [fn(&mut One); 4] = [
        |one| one.view.me = Some(Token(4)),
        |one| one.own().empty = true,
        |one| one.own().synced = true,
        |one| one.view.term = term(6, Some("l")),
    ];
    for (nth, keeps) in kept.into_iter().enumerate() {
        let mut one = hopeless();
        keeps(&mut one);
        one.shown();
        assert!(!rejoins(&one.wakes_after(4000)) && one.member.replica.is_based(), "{nth}");
    }
    // What it lacks is not lost.
    let mut one = hopeless();
    one.member.replica.skip_to(end(9));
    one.wakes_after(0);
    assert!(!rejoins(&one.wakes_after(4000)) && one.member.replica.is_based());
}

#[test]
fn an_elected_member_that_has_nothing_to_open_with_leaves_the_seat() {
    let rejoins = |one: &mut One| {
        one.wakes_after(0);
        tells(&one.wakes_after(3000)).contains(&Tell::Rejoin { empty: true })
    };
    let elected = || {
        let mut one = One::with(Tuning::default());
        for name in ["l", "m", "o"] {
            one.view.members.get_mut(&node(name)).unwrap().synced = false;
        }
        one.own().empty = true;
        one.sees(1, None);
        one.sees(5, Some("m"));
        one
    };
    assert!(rejoins(&mut elected()));
    // Somebody may still take the lock from whoever has it.
    let mut one = elected();
    one.view.lock =
        Some(callsign_elector::record::Lock { epoch: Epoch(5), owner: node("l"), nonce: Nonce(1) });
    one.shown();
    assert!(!rejoins(&mut one));
    let mut one = elected();
    one.member.replica.base_on_nothing();
    assert!(!rejoins(&mut one));
}

#[test]
fn a_member_that_drains_says_so_once_and_is_followed_by_another() {
    let mut one = One::following();
    assert!(!one.member.is_draining());
    let effects = one.calls(1, Call::Drain, 1000);
    assert!(one.member.is_draining());
    assert_eq!((tells(&effects), events(&effects)), (vec![Tell::Drain], vec![Event::Draining]));
    let effects = one.calls(2, Call::Drain, 1000);
    assert_eq!((tells(&effects), events(&effects)), (vec![], vec![]));
    // Nobody knows yet.
    assert_eq!(answers(&one.wakes_after(10)), []);
    one.own().draining = true;
    let led = Drained::Led { by: node("l") };
    let effects = one.shown();
    let both = [1, 2].map(|call| (call, Answer::Drained(led.clone())));
    assert_eq!(answers(&effects), both);
    assert_eq!(events(&effects), [Event::Drained { drained: led }]);
    // A caller that asks for a name is told whom to ask instead: the leader, then those that are linked, then the others.
    let elsewhere = |one: &mut One, call| {
        let effects = one.registers(call, "x");
        let Some((_, Answer::Registered(Err(error)))) = answers(&effects).pop() else {
            panic!("{effects:?}")
        };
        let crate::error::RegisterError::Draining { ask } = error else { panic!("{error:?}") };
        for elsewhere in &ask {
            let admin = (elsewhere.node == node("p")).then_some("http://p:7077");
            assert_eq!(elsewhere.admin.as_deref(), admin, "{elsewhere:?}");
        }
        ask.into_iter().map(|elsewhere| elsewhere.node.to_string()).collect::<Vec<_>>()
    };
    one.view.members.insert(node("p"), MemberRow { admin: Some("http://p:7077".into()), ..row("p", 4) });
    one.view.sessions.insert(node("p"), Some(record(true)));
    one.shown();
    assert_eq!(elsewhere(&mut one, 3), ["l", "o", "p"]);
    one.links("p", 4);
    assert_eq!(elsewhere(&mut one, 4), ["l", "p", "o"]);
    one.unlinks("p", 4);
    assert_eq!(elsewhere(&mut one, 5), ["l", "o", "p"]);
    // One that drains itself, is not synced, or is gone is not named.
    one.view.members.get_mut(&node("l")).unwrap().draining = true;
    one.view.members.get_mut(&node("o")).unwrap().synced = false;
    one.view.sessions.insert(node("p"), Some(record(false)));
    one.shown();
    assert_eq!(elsewhere(&mut one, 6), [""; 0]);
    // In another lineage nobody is known to serve.
    one.view.members.get_mut(&node("o")).unwrap().synced = true;
    one.shown();
    assert_eq!(elsewhere(&mut one, 7), ["o"]);
    one.step(Input::Lineage(LineageId { number: LineageNumber(1), nonce: Nonce(1) }));
    assert_eq!(elsewhere(&mut one, 8), [""; 0]);
}

#[test]
fn a_member_with_nobody_to_follow_it_does_not_wait() {
    let drains = |change: fn(&mut MemberRow)| {
        let mut one = One::following();
        one.unlinks("l", 1);
        one.view.members.remove(&node("o"));
        change(one.view.members.get_mut(&node("l")).unwrap());
        one.shown();
        let effects = one.calls(1, Call::Drain, 1000);
        let alone = (1, Answer::Drained(Drained::Alone));
        (answers(&effects).contains(&alone), one)
    };
    let changes: [fn(&mut MemberRow); 3] =
        [|row| row.priority = 0, |row| row.synced = false, |row| row.draining = true];
    for change in changes {
        assert!(drains(change).0);
    }
    let (is_alone, mut one) = drains(|_| {});
    assert!(!is_alone);
    // It waits no longer than it may.
    assert_eq!(answers(&one.wakes_after(999)), []);
    assert_eq!(answers(&one.wakes_after(1)), [(1, Answer::Drained(Drained::TimedOut))]);
    // A call that waits is waited for, until there is nothing to wait for.
    let mut one = One::following();
    one.calls(1, Call::Leave, 1000);
    assert!(one.member.drain.has_left(), "nothing was asked");
    let mut one = One::following();
    one.calls(1, Call::Consistent { name: "x".into() }, 5000);
    assert_eq!(answers(&one.calls(2, Call::Leave, 1000)), []);
    assert_eq!(answers(&one.wakes_after(999)), []);
    assert_eq!(answers(&one.wakes_after(1)), [(2, Answer::Left)]);
}

#[test]
fn who_leaves_gives_up_the_seat_and_its_names_and_asks_for_nothing_more() {
    let mut one = One::following();
    let effects = one.calls(1, Call::Leave, 1000);
    assert_eq!((tells(&effects), answers(&effects)), (vec![Tell::Leave], vec![(1, Answer::Left)]));
    // A later caller is told so, and of a name it is said that none comes.
    let effects = one.registers(2, "x");
    assert_eq!(
        effects,
        [Effect::Forget { claim: CallId(2) }, Effect::Answer { call: CallId(2), answer: Answer::Left }]
    );
    let effects = one.calls(3, Call::Unregister { name: "x".into() }, 1000);
    assert_eq!(effects, [Effect::Answer { call: CallId(3), answer: Answer::Left }]);
    // What it lacks it does not fetch.
    one.hears("l", heartbeat(5, 9));
    assert_eq!(one.wakes_after(5000), []);
    // It takes no seat, and its session is of no account.
    assert!(!one.sees(6, Some("m")).iter().any(|effect| matches!(effect, Effect::Read { .. })));
    assert_eq!(one.step(Input::SessionLapsed(session("m"))), []);
    assert_eq!(one.step(Input::SessionResumed(session("m"))), []);
    assert_eq!(one.wakes_after(5000), []);
}

#[test]
fn its_status_says_of_each_member_what_the_store_shows_and_whether_it_is_linked() {
    let mut one = One::following();
    let other = one.view.members.get_mut(&node("o")).unwrap();
    (other.synced, other.draining, other.priority) = (false, true, 0);
    other.admin = Some("http://o".into());
    one.view.sessions.insert(node("o"), Some(record(false)));
    one.shown();
    let mut rows = MemberRows::default();
    let status = Status::of(&one.member, &mut rows);
    let says = |of: &MemberInfo| {
        (of.node.to_string(), [of.synced, of.session_open, of.leads, of.draining, of.may_lead, of.linked])
    };
    let said: Vec<_> = status.members.iter().map(says).collect();
    let expected = [
        ("l".to_owned(), [true, true, true, false, true, true]),
        ("m".to_owned(), [true, true, false, false, true, true]),
        ("o".to_owned(), [false, false, false, true, false, false]),
    ];
    assert_eq!(said, expected);
    let addresses: Vec<_> = status.members.iter().map(|of| (&*of.address, of.admin.as_deref())).collect();
    assert_eq!(addresses, [("l:1", None), ("m:1", None), ("o:1", Some("http://o"))]);
    assert_eq!((&status.node, status.epoch, status.leads), (&node("m"), Epoch(5), false));
    let leads = status.leader.as_ref().map(|leader| (&leader.node, leader.epoch, leader.serving));
    assert_eq!(leads, Some((&node("l"), Epoch(5), true)));

    // They are made anew when a link or the view changes, and only then.
    let again = Status::of(&one.member, &mut rows);
    assert!(Arc::ptr_eq(&again.members, &status.members));
    one.unlinks("l", 1);
    let after = Status::of(&one.member, &mut rows);
    assert_eq!(after.members.iter().map(|of| of.linked).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(after.leader.map(|leader| leader.serving), Some(false), "it cannot be reached");
}

#[test]
fn who_asks_why_a_name_is_so_is_told_whether_the_session_of_its_holder_is_open() {
    let mut one = One::following();
    let sessions = vec![Arc::new(session("o"))];
    one.hears("l", replicate(&Batch { sessions, ..batch(2, vec![register("x")]) }));
    let closed = [(node("o"), record(false))].into_iter().collect();
    for (sessions, is_open) in
        [(one.view.sessions.clone(), Some(true)), (closed, Some(false)), (Sessions::default(), None)]
    {
        one.view.sessions = sessions;
        one.shown();
        let told = answers(&one.calls(1, Call::Explain { name: "x".into() }, 1000));
        let [(1, Answer::Explained(Ok(said)))] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((said.is_open, said.position), (is_open, Position(2)));
        assert_eq!(said.state.entry().map(|entry| entry.node.clone()), Some(node("o")));
    }
}
