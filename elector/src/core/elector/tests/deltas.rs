//! An elector that rests is told which members came and went, and reads no rows.

use callsign_store::{Read, Version, record::Record};

use super::*;
use crate::core::{
    lineage::{LineageId, LineageNumber},
    record::{MemberRow, Term},
};

/// Members at rest, one that rests, and what the leader saw at first.
struct Resting {
    sim: Sim,
    me: String,
    before: Arc<View>,
}

impl Resting {
    fn new(seed: u64) -> Self {
        let mut sim = Sim::settled(seed, &["a", "b", "c", "d"]);
        sim.run_for(SECOND * 3);
        let leader = sim.leader().unwrap();
        let me = ["d", "c"].into_iter().find(|name| *name != leader).unwrap().to_owned();
        sim.tell(&me, Notice::Rests(true));
        sim.run_for(SECOND * 3);
        let before = sim.view(&leader).unwrap();
        let mut resting = Self { sim, me, before };
        resting.reads();
        resting
    }

    fn leader(&self) -> String {
        self.sim.leader().unwrap()
    }

    /// How often it has looked since, and how often it read all.
    fn reads(&mut self) -> (usize, usize) {
        let looks = std::mem::take(&mut self.sim.host(&self.me).looks);
        // While nobody leads, the first entry of the queue is looked at.
        let is_many = |read: &Read| matches!(read, Read::Range { limit, .. } if *limit > 1);
        let is_all = |reads: &&Vec<Read>| reads.iter().any(is_many);
        let all = looks.iter().filter(is_all).count();
        (looks.len() - all, all)
    }

    /// An entry is taken off the queue; says what has changed since the last time.
    fn changes(&mut self, change: impl FnOnce(&mut Sim)) -> ViewDelta {
        let (leader, before) = (self.leader(), Arc::clone(&self.before));
        change(&mut self.sim);
        let is_over = |sim: &Sim| {
            let view = sim.view(&leader).unwrap();
            view.is_quiet() && view.raw(&sim.keys.queue()) != before.raw(&sim.keys.queue())
        };
        assert!(self.sim.run_until(SECOND, is_over));
        self.before = self.sim.view(&leader).unwrap();
        ViewDelta::between(&self.sim.keys, &before, &self.before, &BTreeSet::new()).unwrap()
    }

    fn is_told(&mut self, delta: ViewDelta) {
        let me = self.me.clone();
        self.sim.tell(&me, Notice::Delta(delta));
        self.sim.run_for(SECOND / 100);
    }

    fn view(&self) -> Arc<View> {
        self.sim.view(&self.me).unwrap()
    }

    /// Whether it knows as much as the leader, but for beats.
    fn knows_all(&self) -> bool {
        let (ours, theirs) = (self.view(), self.sim.view(&self.leader()).unwrap());
        ours.members == theirs.members
            && ours.sessions.agree(&theirs.sessions)
            && ours.raw(&self.sim.keys.queue()) == theirs.raw(&self.sim.keys.queue())
    }

    /// Whether it does so soon: what is being read comes in.
    fn comes_to_know_all(&mut self) -> bool {
        (0..10).any(|_| {
            self.sim.run_for(SECOND / 100);
            self.knows_all()
        })
    }

    /// How long it takes until everything is read, and how often it has looked until then.
    fn reads_all_after(&mut self) -> (Duration, usize) {
        let (begin, mut all_looks) = (self.sim.now, 0);
        self.reads();
        while self.sim.now.since(begin) < SECOND * 30 {
            self.sim.run_for(SECOND / 20);
            let (looks, all) = self.reads();
            all_looks += looks;
            if all > 0 {
                return (self.sim.now.since(begin), all_looks);
            }
        }
        panic!("{} never reads everything", self.me)
    }

    fn waits_for_nothing(&mut self) -> bool {
        let me = self.me.clone();
        self.sim.host(&me).elector.rest.has_heard_nothing()
    }
}

#[test]
fn a_member_that_comes_becomes_known_without_a_row_that_is_read() {
    let mut one = Resting::new(80);
    let joined = one.changes(|sim| sim.start("e"));
    assert_eq!(joined.rows.iter().map(|row| row.node.as_str()).collect::<Vec<_>>(), ["e"]);
    assert_eq!(one.view().members.len(), 4, "nobody has said what came of the entry");
    one.is_told(joined);
    assert!(one.knows_all());
    // As the entry came, and as it was told.
    let (looks, all) = one.reads();
    assert!((1..=4).contains(&looks) && all == 0, "{looks} {all}");

    // That it is synced, and that it leaves, are further entries.
    let synced = one.changes(|_| {});
    one.is_told(synced);
    assert!(one.knows_all() && one.view().members[&node("e")].synced);
    let left = one.changes(|sim| sim.tell("e", Notice::Leave));
    assert_eq!(left.rows[0].row, None);
    one.is_told(left);
    assert!(one.knows_all() && one.view().members.len() == 4);
    // Nothing more is to be told, and nothing is waited for.
    assert!(one.waits_for_nothing());
    one.sim.run_for(SECOND * 20);
    assert_eq!(one.reads().1, 0);
    // It is told for two polls at most each time, not from the first time on.
    one.changes(|sim| sim.start("f"));
    one.sim.run_for(one.sim.timing.poll);
    assert_eq!(one.reads().1, 0);
}

#[test]
fn the_sessions_that_are_read_next_follow_from_what_was_told() {
    let mut one = Resting::new(89);
    let joined = one.changes(|sim| sim.start("e"));
    one.is_told(joined);
    let synced = one.changes(|_| {});
    one.is_told(synced);
    assert!(one.knows_all());
    let me = one.me.clone();
    one.reads();
    one.sim.tell(&me, Notice::Rests(false));
    one.sim.run_for(SECOND / 20);
    assert_eq!(one.reads(), (0, 1), "that of the new member is asked for at once");
}

#[test]
fn what_is_said_during_a_look_is_looked_for_soon_after_it() {
    let mut one = Resting::new(90);
    let me = one.me.clone();
    one.sim.host(&me).answers_after = SECOND / 5;
    one.sim.tell(&me, Notice::Changed);
    one.sim.run_for(SECOND / 100);
    one.sim.host(&me).answers_after = Duration::ZERO;
    let joined = one.changes(|sim| sim.start("e"));
    one.is_told(joined);
    let synced = one.changes(|_| {});
    one.is_told(synced);
    assert_eq!(one.view().members.len(), 4, "the look is under way");
    // Nothing rings for it.
    one.sim.watches = false;
    let (turn, knows) = (one.sim.timing.turn, |sim: &Sim| sim.view(&me).unwrap().members.len() == 5);
    assert!(one.sim.run_until(SECOND / 5 + turn + SECOND / 100, knows));
}

#[test]
fn rows_that_a_change_of_term_changes_are_read() {
    let mut one = Resting::new(91);
    let (leader, state) = (one.leader(), one.sim.state());
    let other = ["a", "b", "c"].into_iter().find(|name| *name != leader && *name != one.me).unwrap();
    let term = Term { epoch: state.term.epoch.next(), ..state.term };
    let row = MemberRow { priority: 7, ..state.members[&node(other)].clone() };
    let keys = one.sim.keys.clone();
    one.sim.write(keys.member(&node(other)), Some(row.to_value()));
    one.sim.write(keys.term(), Some(term.to_value()));
    one.sim.run_for(SECOND / 20);
    let view = one.view();
    assert_eq!((view.term.epoch, view.members[&node(other)].priority), (term.epoch, 7));
}

#[test]
fn what_was_said_before_a_look_showed_it_is_kept_and_several_lead_to_where_the_store_is() {
    let mut one = Resting::new(81);
    let joined = one.changes(|sim| sim.start("e"));
    let synced = one.changes(|_| {});
    one.is_told(joined);
    assert_eq!(one.view().members.len(), 4, "the store shows more than that");
    one.is_told(synced);
    assert!(one.knows_all() && one.view().members[&node("e")].synced);
    assert_eq!(one.reads().1, 0);
    // A delta that comes again changes nothing.
    let left = one.changes(|sim| sim.tell("e", Notice::Leave));
    one.is_told(left.clone());
    one.is_told(left);
    assert!(one.knows_all());
    one.sim.run_for(SECOND * 20);
    assert_eq!(one.reads().1, 0);
}

#[test]
fn an_elector_that_is_not_told_within_two_polls_reads_everything() {
    let mut one = Resting::new(82);
    let joined = one.changes(|sim| sim.start("e"));
    one.changes(|_| {});
    let polls = one.sim.timing.poll * 2;
    // What leads from elsewhere is no help.
    let elsewhere = ViewDelta { from: joined.to.clone(), to: joined.from.clone(), ..joined };
    one.is_told(elsewhere);
    let (after, looks) = one.reads_all_after();
    // The changes have taken some of that time.
    assert!(polls * 3 / 4 < after && after <= polls, "{after:?}");
    assert!(looks <= 3, "{looks}");
    assert!(one.knows_all());
    one.sim.run_for(SECOND * 20);
    assert_eq!(one.reads().1, 0, "it rests again");
}

#[test]
fn an_elector_that_waits_to_be_told_hears_of_another_term_at_once() {
    let mut one = Resting::new(88);
    one.changes(|sim| sim.start("e"));
    let (leader, epoch) = (one.leader(), one.view().term.epoch);
    one.sim.tell(&leader, Notice::Resign { epoch });
    let has_ended = |sim: &Sim| sim.state().term.epoch > epoch;
    assert!(one.sim.run_until(SECOND / 2, has_ended));
    one.sim.run_for(SECOND / 20);
    assert!(one.view().term.epoch > epoch, "it does not wait for its poll");
}

#[test]
fn of_a_change_that_the_store_does_not_show_yet_nothing_is_known() {
    let mut one = Resting::new(83);
    let joined = one.changes(|sim| sim.start("e"));
    let synced = one.changes(|_| {});
    let ahead = ViewDelta { version: Version(joined.version.0 + 1_000_000), ..joined };
    one.is_told(ahead);
    one.is_told(synced);
    assert_eq!(one.view().members.len(), 4);
    assert_eq!(one.reads().1, 0);
    one.reads_all_after();
    assert!(one.comes_to_know_all());
}

#[test]
fn a_member_that_lags_is_told_of_though_no_entry_says_so() {
    let mut one = Resting::new(84);
    let (leader, before) = (one.leader(), Arc::clone(&one.before));
    let lags = ["a", "b", "c"].into_iter().find(|name| *name != leader && *name != one.me).unwrap();
    let row = MemberRow { synced: false, ..one.sim.state().members[&node(lags)].clone() };
    let key = one.sim.keys.member(&node(lags));
    // It would say at once that it does not lag.
    one.sim.host(lags).parked = Some(Vec::new());
    one.sim.write(key, Some(row.to_value()));
    let has_seen = |sim: &Sim| sim.view(&leader).is_some_and(|view| !view.members[&node(lags)].synced);
    assert!(one.sim.run_until(SECOND * 3, has_seen));
    let delta = ViewDelta::between(&one.sim.keys, &before, &one.sim.view(&leader).unwrap(), &BTreeSet::new())
        .unwrap();
    assert_eq!((&delta.from, delta.rows.len()), (&delta.to, 1));
    one.is_told(delta.clone());
    assert!(!one.view().members[&node(lags)].synced);
    assert_eq!(one.reads().1, 0);
    // Said again, later than it is true, it changes nothing.
    let (me, key) = (one.me.clone(), one.sim.keys.member(&node(lags)));
    one.sim.write(key, Some(MemberRow { synced: true, ..row }.to_value()));
    for rests in [false, true] {
        one.sim.tell(&me, Notice::Rests(rests));
        one.sim.run_for(SECOND / 100);
    }
    assert!(one.view().members[&node(lags)].synced);
    one.is_told(delta);
    one.sim.run_for(SECOND * 5);
    assert!(one.view().members[&node(lags)].synced);
}

#[test]
fn what_is_said_while_it_does_not_rest_or_in_another_lineage_is_of_no_use() {
    let mut one = Resting::new(85);
    let me = one.me.clone();
    let joined = one.changes(|sim| sim.start("e"));
    one.sim.tell(&me, Notice::Rests(false));
    one.is_told(joined);
    assert!(one.waits_for_nothing());

    let mut one = Resting::new(85);
    let me = one.me.clone();
    let joined = one.changes(|sim| sim.start("e"));
    let ahead = ViewDelta { version: Version(joined.version.0 + 1_000_000), ..joined };
    one.is_told(ahead.clone());
    assert!(!one.waits_for_nothing());
    let lineage = one.view().lineage;
    let now = one.sim.now;
    one.sim.host(&me).elector.begin_lineage(lineage, now);
    assert!(one.waits_for_nothing());
    // Nothing was read yet.
    one.is_told(ahead);
    assert!(one.waits_for_nothing());
}

#[test]
fn a_member_that_rests_reads_everything_if_the_leaders_session_is_over_or_a_row_cannot_be_read() {
    let mut one = Resting::new(86);
    let leader = one.leader();
    one.sim.close_session(&leader);
    // The others see to it, and nobody says what became of the members.
    let polls = one.sim.timing.poll * 2;
    one.sim.run_for(polls * 2 + SECOND);
    assert!(one.reads().1 > 0);

    let mut one = Resting::new(86);
    let mut joined = one.changes(|sim| sim.start("e"));
    joined.rows[0].row = Some(b"?".to_vec());
    one.is_told(joined);
    assert!(one.reads().1 > 0);
    assert!(one.comes_to_know_all());
}

#[test]
fn nothing_is_said_between_views_of_two_lineages_or_while_something_is_under_way() {
    let one = Resting::new(87);
    let keys = &one.sim.keys;
    let view = View { raw: Arc::clone(&one.before.raw), ..(*one.before).clone() };
    assert_eq!(ViewDelta::between(keys, &view, &view, &BTreeSet::new()), None, "nothing differs");
    let with = |change: &dyn Fn(&mut View)| {
        let mut view = view.clone();
        let mut raw = (*view.raw).clone();
        raw.insert(keys.queue(), b"later".to_vec());
        view.raw = Arc::new(raw);
        change(&mut view);
        view
    };
    let later = with(&|_| {});
    let delta = ViewDelta::between(keys, &view, &later, &BTreeSet::new()).unwrap();
    assert_eq!(
        (delta.from, delta.to, delta.rows),
        (view.raw(&keys.queue()), Some(b"later".to_vec()), vec![])
    );
    // One that lagged in between has the row that it had. Others may have seen another one.
    let lagged: BTreeSet<_> = view.members.keys().take(1).cloned().collect();
    let again = ViewDelta::between(keys, &view, &later, &lagged).unwrap();
    assert_eq!(again.rows.iter().map(|row| row.node.clone()).collect::<BTreeSet<_>>(), lagged);
    assert_eq!(ViewDelta::between(keys, &view, &view, &lagged), None, "at one mark nobody lags no more");
    let other = LineageId { number: LineageNumber(7), ..view.lineage };
    assert_eq!(ViewDelta::between(keys, &view, &with(&|view| view.lineage = other), &BTreeSet::new()), None);
    let vacant = with(&|view| view.term = Term { leader: None, ..view.term.clone() });
    let waits = with(&|view| view.queued = Some(BTreeSet::from([node("e")])));
    let more = with(&|view| view.queued = None);
    let lock = crate::core::record::Lock {
        epoch: view.term.epoch,
        owner: node("a"),
        nonce: callsign_store::ids::Nonce(1),
    };
    let locked = with(&|view| view.lock = Some(lock.clone()));
    for other in [vacant, waits, more, locked] {
        assert!(!other.is_quiet());
        assert_eq!(ViewDelta::between(keys, &view, &other, &BTreeSet::new()), None);
        assert_eq!(ViewDelta::between(keys, &other, &later, &BTreeSet::new()), None);
    }
}

#[test]
fn so_many_deltas_are_kept_and_no_more() {
    use super::super::delta::Deltas;

    let delta = |nth: u64| ViewDelta {
        version: Version(nth),
        from: Some(vec![u8::try_from(nth).unwrap()]),
        to: Some(vec![u8::try_from(nth + 1).unwrap()]),
        rows: Vec::new(),
    };
    let mut deltas = Deltas::default();
    for nth in 0..64 {
        deltas.keep(delta(nth));
    }
    let length = |deltas: &Deltas, from: u8, to: u8, version: u64| {
        deltas.path(Some(&vec![from]), Some(&vec![to]), Version(version)).map(<[_]>::len)
    };
    assert_eq!(length(&deltas, 0, 64, 63), Some(64));
    assert_eq!(length(&deltas, 0, 64, 62), None, "the last one is later");
    assert_eq!(length(&deltas, 60, 64, 100), Some(4));
    assert_eq!(length(&deltas, 64, 64, 100), Some(0));
    assert_eq!(length(&deltas, 99, 64, 100), None);
    assert!(deltas.tell_more_than(Version(62)) && !deltas.tell_more_than(Version(63)));
    deltas.forget_until(Version(61));
    assert_eq!(length(&deltas, 0, 64, 100), None);
    assert_eq!(length(&deltas, 62, 64, 100), Some(2));
    for nth in 64..126 {
        deltas.keep(delta(nth));
    }
    assert_eq!(length(&deltas, 62, 126, 200), Some(64));
    deltas.keep(delta(126));
    assert_eq!(length(&deltas, 62, 127, 200), None);
    assert_eq!(length(&deltas, 126, 127, 200), Some(1));
}
