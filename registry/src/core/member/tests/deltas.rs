//! A leader tells members that may rest which members came and went.

use callsign_elector::elector::{RowDelta, ViewDelta};

use super::*;

/// It leads epoch 5, and l and o are linked, of whom one need not observe.
fn leading() -> One {
    let mut one = One::leading_with(Tuning { observers: 1, ..Tuning::default() });
    one.links("l", 1);
    one.links("o", 2);
    one.mark("1");
    one
}

impl One {
    /// The store shows this mark of the queue, and its rows as they are.
    fn mark(&mut self, mark: &str) -> Vec<(String, Message)> {
        let keys = self.member.config.keys.clone();
        let mut raw = BTreeMap::from([(keys.queue(), mark.as_bytes().to_vec())]);
        raw.insert(keys.term(), self.view.term.to_value());
        for (node, row) in &self.view.members {
            raw.insert(keys.member(node), row.to_value());
            raw.insert(keys.cluster().session(node), record(true).to_value());
        }
        self.view.raw = Arc::new(raw);
        self.view.version = Version(self.view.version.0 + 1);
        let said = sends(&self.shown()).into_iter().map(|(to, _, message)| (to, message));
        said.filter(|(_, message)| matches!(message, Message::ViewDelta { .. })).collect()
    }

    /// Whether an entry waits.
    fn waits(&mut self, waits: bool) {
        self.view.queued = Some(if waits { BTreeSet::from([node("x")]) } else { BTreeSet::new() });
    }
}

fn delta(version: u64, marks: [&str; 2], rows: &[(&str, Option<MemberRow>)]) -> Message {
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let rows = rows.iter().map(|(name, row)| RowDelta {
        node: node(name),
        row: row.as_ref().map(MemberRow::to_value),
        session: row.is_some().then(|| record(true).to_value()),
    });
    let rows = rows.collect();
    let delta = ViewDelta { version: Version(version), from: bytes(marks[0]), to: bytes(marks[1]), rows };
    Message::view_delta(Epoch(5), delta)
}

fn to_both(message: &Message) -> Vec<(String, Message)> {
    ["l", "o"].map(|to| (to.to_owned(), message.clone())).to_vec()
}

#[test]
fn what_came_of_an_entry_is_said_when_nothing_waits_any_more_and_once() {
    let mut one = leading();
    let version = one.view.version.0;
    one.waits(true);
    assert_eq!(one.mark("2"), []);
    one.view.members.insert(node("x"), row("x", 4));
    assert_eq!(one.mark("2"), [], "another entry waits");
    one.waits(false);
    let joined = delta(version + 3, ["1", "2"], &[("x", Some(row("x", 4)))]);
    assert_eq!(one.mark("2"), to_both(&joined));
    assert_eq!(one.mark("2"), []);
    // Where nothing was seen to wait, too; and of an entry that changes nothing.
    one.view.members.remove(&node("x"));
    assert_eq!(one.mark("3"), to_both(&delta(version + 5, ["2", "3"], &[("x", None)])));
    assert_eq!(one.mark("4"), to_both(&delta(version + 6, ["3", "4"], &[])));
}

#[test]
fn nothing_is_said_of_members_where_nobody_rests_or_without_leading() {
    let mut one = leading();
    one.member.config.tuning.observers = 2;
    assert_eq!(one.mark("2"), []);
    one.member.config.tuning.observers = 1;
    assert_eq!(one.mark("3").len(), 2);
    let version = one.view.version.0;
    one.waits(true);
    one.mark("4");
    one.unlinks("o", 2);
    assert_eq!(one.mark("5"), []);
    one.links("o", 2);
    one.waits(false);
    let meanwhile = delta(version + 3, ["3", "5"], &[]);
    assert_eq!(one.mark("5"), to_both(&meanwhile), "who rests again may know no more than was said before");
    assert_eq!(one.mark("6").len(), 2);
    // Another one leads, which says it.
    one.view.term = term(6, Some("l"));
    assert_eq!(one.mark("7"), []);
    assert_eq!(one.mark("8"), []);

    let mut one = One::following();
    one.member.config.tuning.observers = 0;
    one.mark("1");
    assert_eq!(one.mark("2"), []);
}

#[test]
fn a_new_leader_says_all_rows_as_of_what_was_known_under_the_former_one() {
    let mut one = One::with(Tuning { observers: 1, ..Tuning::default() });
    one.member.replica.base_on_nothing();
    one.links("l", 1);
    one.links("o", 2);
    one.sees(3, Some("l"));
    assert_eq!(one.mark("1"), []);
    one.sees(4, None);
    let nonce = callsign_store::ids::Nonce(1);
    one.view.lock = Some(callsign_elector::record::Lock { epoch: Epoch(5), owner: node("m"), nonce });
    let id = read(&one.sees(5, Some("m")));
    let values = one.end_of_log(LogEnd::default());
    let (id, _) = commit(&one.reads(id, &values));
    one.step(Input::CommitDone { id, outcome: CommitOutcome::Committed(Version(9)) });
    assert!(one.member.is_serving());
    let voter = MemberRow { draining: true, ..row("o", 2) };
    one.view.members.insert(node("o"), voter.clone());
    assert_eq!(one.mark("2"), [], "the lock is held");
    one.view.lock = None;
    let version = one.view.version.0;
    // Whether a member lagged others may have seen otherwise. So all rows are said.
    let all = [("l", Some(row("l", 1))), ("m", Some(row("m", 3))), ("o", Some(voter))];
    assert_eq!(one.mark("2"), to_both(&delta(version + 1, ["1", "2"], &all)));
}

#[test]
fn nothing_is_said_of_more_rows_than_there_may_be_members() {
    for (count, said) in [(MAX_MEMBERS, 2), (MAX_MEMBERS + 1, 0)] {
        let mut one = leading();
        for nth in 0..count {
            let name = format!("x{nth}");
            one.view.members.insert(node(&name), row(&name, 4));
        }
        assert_eq!(one.mark("2").len(), said, "{count}");
    }
}

#[test]
fn a_member_hands_to_its_elector_what_the_leader_of_its_epoch_says_and_nobody_else() {
    let mut one = One::following();
    one.links("o", 2);
    let said = delta(7, ["1", "2"], &[("x", Some(row("x", 4))), ("y", None)]);
    let told = |effects: &[Effect]| {
        let told = effects.iter().filter_map(|effect| match effect {
            Effect::Tell(Tell::Delta(delta)) => Some(Message::view_delta(Epoch(5), delta.clone())),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(&one.hears("l", said.clone())), std::slice::from_ref(&said));
    assert_eq!(told(&one.hears("o", said.clone())), []);
    let Message::ViewDelta { version, from, to, rows, .. } = said.clone() else { panic!("{said:?}") };
    let former = Message::ViewDelta { epoch: Epoch(4), version, from, to, rows };
    assert_eq!(told(&one.hears("l", former)), []);
    // Of an epoch to come it is kept until the store shows that.
    let Message::ViewDelta { version, from, to, rows, .. } = said.clone() else { panic!("{said:?}") };
    let next = Message::ViewDelta { epoch: Epoch(6), version, from, to, rows };
    assert_eq!(told(&one.hears("l", next)), []);
    assert_eq!(told(&one.sees(6, Some("l"))), [said]);
}
