use std::time::Duration;

use callsign_store::ids::{Ballot, Beat, Incarnation, Sequence, SessionNumber};

use super::*;
use crate::core::record::SessionRecord;

mod configuring;
mod draining;
mod dropped;
mod room;

pub(super) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub(super) fn session(name: &str, number: u64) -> SessionId {
    SessionId { node: node(name), incarnation: Incarnation(number), number: SessionNumber(number) }
}

/// A state and its facts, and entries applied to it one after the other.
#[derive(Clone)]
pub(super) struct World {
    pub(super) state: ElectionState,
    pub(super) facts: Facts,
    sequence: u64,
}

impl World {
    /// A registry with a log, and without members.
    pub(super) fn new() -> Self {
        let facts = Facts {
            sessions: Sessions::default(),
            commit: Some(Position(7)),
            floor: Position(3),
            version: Version(100),
            lineage: LineageNumber::default(),
            proposer: session("nobody", 1),
            nonce: Nonce(1),
            unlinked: BTreeSet::new(),
            barred: BTreeSet::new(),
            most_checks: None,
        };
        Self { state: ElectionState::default(), facts, sequence: 0 }
    }

    /// With synced members, the first of which leads epoch 1.
    fn led(names: &[&str]) -> Self {
        let mut world = Self::new();
        for name in names {
            world.member(name, true);
        }
        world.elect(names[0]);
        world
    }

    /// Puts a member in without an entry.
    pub(super) fn member(&mut self, name: &str, synced: bool) {
        self.sequence += 1;
        let row = MemberRow {
            token: Token(self.sequence),
            session: session(name, 1),
            address: format!("{name}:1"),
            admin: None,
            priority: 1,
            synced,
            empty: false,
            accuses: None,
            draining: false,
        };
        self.state.members.insert(node(name), row);
        self.open(name, 1);
    }

    fn elect(&mut self, name: &str) {
        let token = self.token(name);
        let term = &mut self.state.term;
        let number = self.facts.sessions.record(&node(name)).unwrap().number.0;
        term.leader = Some(Leader { node: node(name), incarnation: Incarnation(number), token });
        term.epoch = term.epoch.next();
        term.ballot = term.ballot.next();
    }

    pub(super) fn open(&mut self, name: &str, number: u64) {
        let record = SessionRecord {
            incarnation: Incarnation(number),
            number: SessionNumber(number),
            lease: Duration::from_secs(10),
            beat: Beat(1),
            open: true,
        };
        self.facts.sessions.insert(node(name), Some(record));
    }

    pub(super) fn close(&mut self, name: &str) {
        let record = self.facts.sessions.record(&node(name)).unwrap().clone();
        self.facts.sessions.insert(node(name), Some(SessionRecord { open: false, ..record }));
    }

    pub(super) fn token(&self, name: &str) -> Token {
        self.state.members.get(&node(name)).map_or(Token(0), |row| row.token)
    }

    pub(super) fn entry(&mut self, author: &str, event: MembershipEvent) -> QueueEntry {
        self.sequence += 1;
        let number = self.facts.sessions.record(&node(author)).map_or(1, |record| record.number.0);
        QueueEntry { author: session(author, number), sequence: Sequence(self.sequence), event }
    }

    pub(super) fn join(&mut self, author: &str) -> QueueEntry {
        let event =
            MembershipEvent::Join { address: format!("{author}:2"), admin: None, priority: 1, empty: true };
        self.entry(author, event)
    }

    pub(super) fn down(&mut self, author: &str, member: &str, evidence: Evidence) -> QueueEntry {
        let event = MembershipEvent::Down {
            member: node(member),
            token: self.token(member),
            accuser_token: self.token(author),
            epoch: self.state.term.epoch,
            evidence,
        };
        self.entry(author, event)
    }

    pub(super) fn silent(&mut self, author: &str, member: &str) -> QueueEntry {
        self.down(author, member, Evidence::Silent { had_contact: true })
    }

    pub(super) fn without_contact(&mut self, author: &str, member: &str) -> QueueEntry {
        self.down(author, member, Evidence::Silent { had_contact: false })
    }

    pub(super) fn synced(&mut self, author: &str, position: u64) -> QueueEntry {
        let (token, epoch) = (self.token(author), self.state.term.epoch);
        self.entry(author, MembershipEvent::Synced { token, epoch, position: Position(position) })
    }

    pub(super) fn resign(&mut self, author: &str) -> QueueEntry {
        let (token, epoch) = (self.token(author), self.state.term.epoch);
        self.entry(author, MembershipEvent::Resign { token, epoch })
    }

    pub(super) fn leave(&mut self, author: &str) -> QueueEntry {
        let token = self.token(author);
        self.entry(author, MembershipEvent::Leave { token })
    }

    pub(super) fn withdraw(&mut self, author: &str) -> QueueEntry {
        let (token, epoch) = (self.token(author), self.state.term.epoch);
        self.entry(author, MembershipEvent::Withdraw { token, epoch })
    }

    /// Applies an entry as the elector of `proposer`, as if its handoff ended at once.
    pub(super) fn apply(&mut self, proposer: &str, entry: &QueueEntry) -> Applied {
        self.facts.proposer = session(proposer, 1);
        self.facts.version = Version(self.facts.version.0 + 1);
        let applied = self.state.apply(entry, &self.facts);
        self.state = applied.after.clone();
        self.state.lock = None;
        applied
    }

    pub(super) fn leader(&self) -> Option<&str> {
        self.state.term.leader.as_ref().map(|leader| leader.node.as_str())
    }

    fn epoch(&self) -> u64 {
        self.state.term.epoch.0
    }
}

fn dropped(applied: &Applied) -> Dropped {
    assert_eq!(applied.seat, Seat::Kept);
    *applied.outcome.as_ref().unwrap_err()
}

#[test]
fn a1_a_leader_that_joins_again_never_continues_its_term() {
    let mut world = World::led(&["a", "b"]);
    world.open("a", 2);
    let join = world.join("a");
    let applied = world.apply("a", &join);
    assert!(applied.vacates);
    assert_eq!((world.leader(), world.epoch()), (None, 2), "it does not hold the log's end");
    assert!(!world.state.members[&node("a")].synced);

    let mut alone = World::led(&["a"]);
    alone.open("a", 2);
    let join = alone.join("a");
    let applied = alone.apply("a", &join);
    assert_eq!(applied.seat, Seat::Elected { node: node("a"), opening: Some(Opening::Reset) });
    assert_eq!(alone.epoch(), 2);
}

#[test]
fn a1_a_leader_that_joins_again_in_the_same_session_does_not_continue_its_term_either() {
    let mut world = World::led(&["a", "b"]);
    let join = world.join("a");
    world.apply("b", &join);
    assert_eq!((world.leader(), world.epoch()), (Some("b"), 2));
}

#[test]
fn a3_two_terms_of_one_member_differ() {
    let mut world = World::led(&["a"]);
    let first = world.state.term.clone();
    let resign = world.resign("a");
    world.apply("a", &resign);
    assert_eq!(world.leader(), Some("a"), "nobody else is eligible");
    assert_ne!(world.state.term, first);
    assert!(world.state.term.elected_at > first.elected_at, "the store's version tells them apart too");
}

#[test]
fn a6_joins_and_leaves_of_others_do_not_move_the_epoch() {
    let mut world = World::led(&["a", "b"]);
    let term = world.state.term.clone();
    world.open("c", 1);
    let join = world.join("c");
    assert!(world.apply("b", &join).outcome.is_ok());
    let synced = world.synced("c", 7);
    assert!(world.apply("c", &synced).outcome.is_ok());
    let leave = world.leave("c");
    assert!(world.apply("c", &leave).outcome.is_ok());
    world.close("b");
    let down = world.down("a", "b", Evidence::Closed);
    assert!(world.apply("a", &down).outcome.is_ok());
    assert_eq!(world.state.term, term);
    assert_eq!(world.state.members.len(), 1);
}

#[test]
fn a6_a_change_of_leader_moves_epoch_and_ballot_by_one() {
    let mut world = World::led(&["a", "b"]);
    let leave = world.leave("a");
    let applied = world.apply("b", &leave);
    assert_eq!(applied.seat, Seat::Elected { node: node("b"), opening: None });
    assert_eq!((world.epoch(), world.state.term.ballot), (2, Ballot(2)));
    let lock = applied.after.lock.unwrap();
    assert_eq!((lock.epoch, lock.owner, lock.nonce), (Epoch(2), node("b"), Nonce(1)));

    let leave = world.leave("b");
    let applied = world.apply("b", &leave);
    assert_eq!((applied.seat, applied.after.lock), (Seat::Vacated, None));
    assert_eq!((world.epoch(), world.leader()), (3, None));
}

#[test]
fn d1_a_vacant_seat_is_filled_without_an_entry() {
    let mut world = World::new();
    world.member("a", true);
    world.facts.proposer = session("a", 1);
    let applied = world.state.fill(&world.facts).unwrap();
    assert_eq!(applied.seat, Seat::Elected { node: node("a"), opening: None });
    assert!(applied.after.lock.is_some());
    assert!(applied.relied.contains(&Relied::Session(node("a"))));

    world.facts.proposer = session("x", 1);
    assert_eq!(world.state.fill(&world.facts), None, "who is no member fills nothing");
    world.facts.proposer = session("a", 1);
    world.close("a");
    assert_eq!(world.state.fill(&world.facts), None);
}

#[test]
fn d1_the_first_join_of_a_never_used_registry_leads_at_once() {
    let mut world = World::new();
    world.facts.commit = None;
    world.open("a", 1);
    let join = world.join("a");
    let applied = world.apply("a", &join);
    assert_eq!(applied.seat, Seat::Elected { node: node("a"), opening: Some(Opening::First) });
    assert!(applied.relied.contains(&Relied::Commit));
    assert_eq!(world.epoch(), 1);
}

#[test]
fn d3_a_held_seat_is_not_filled() {
    let mut world = World::led(&["a", "b"]);
    world.facts.proposer = session("b", 1);
    assert_eq!(world.state.fill(&world.facts), None);
}

#[test]
fn e14_the_incumbent_stays_when_others_join_or_commit() {
    let mut world = World::led(&["b"]);
    for name in ["a", "c"] {
        world.open(name, 1);
        let join = world.join(name);
        world.apply(name, &join);
        let synced = world.synced(name, 7);
        world.apply(name, &synced);
    }
    assert_eq!((world.leader(), world.epoch()), (Some("b"), 1));
    assert!(world.state.members.values().all(|row| row.synced));
}

#[test]
fn e15_the_committing_member_takes_the_seat_else_the_smallest_id() {
    for (proposer, elected) in [("c", Some("c")), ("b", Some("b")), ("x", Some("b"))] {
        let mut world = World::led(&["a", "b", "c"]);
        let leave = world.leave("a");
        world.apply(proposer, &leave);
        assert_eq!(world.leader(), elected, "proposed by {proposer}");
    }
    let mut world = World::led(&["a"]);
    let leave = world.leave("a");
    world.apply("x", &leave);
    assert_eq!(world.leader(), None);
}

#[test]
fn f2_stale_down_is_dropped() {
    let mut world = World::led(&["a", "b"]);
    world.close("b");
    let down = world.down("a", "b", Evidence::Closed);
    world.open("b", 2);
    let join = world.join("b");
    assert!(world.apply("a", &join).outcome.is_ok());
    assert_eq!(dropped(&world.apply("a", &down)), Dropped::StaleToken);
    assert!(world.state.members.contains_key(&node("b")));
}

#[test]
fn one_member_too_many_is_refused_until_another_is_gone() {
    let mut world = World::led(&["a"]);
    for number in 1..MAX_MEMBERS {
        world.member(&format!("m{number}"), true);
    }
    world.open("z", 1);
    let join = world.join("z");
    let refused = world.apply("a", &join);
    assert_eq!(dropped(&refused), Dropped::Full);
    assert_eq!(Dropped::Full.to_string(), "the registry has the most members that it may have");
    assert_eq!(world.state.members.len(), MAX_MEMBERS);

    // One that is a member already takes nobody's place.
    let again = world.join("m7");
    assert!(world.apply("a", &again).outcome.is_ok());
    let leave = MembershipEvent::Leave { token: world.token("m7") };
    let leave = world.entry("m7", leave);
    assert!(world.apply("a", &leave).outcome.is_ok());
    let join = world.join("z");
    assert!(world.apply("a", &join).outcome.is_ok());
    assert_eq!(world.state.members.len(), MAX_MEMBERS);
}

#[test]
fn f2_a_repeated_join_revives_nobody() {
    let mut world = World::led(&["a"]);
    world.open("b", 1);
    let join = world.join("b");
    assert!(world.apply("a", &join).outcome.is_ok());
    assert_eq!(dropped(&world.apply("a", &join)), Dropped::StaleToken);

    world.close("b");
    let down = world.down("a", "b", Evidence::Closed);
    assert!(world.apply("a", &down).outcome.is_ok());
    assert_eq!(dropped(&world.apply("a", &join)), Dropped::AuthorNotOpen);
    assert!(!world.state.members.contains_key(&node("b")));
}

#[test]
fn f3_down_and_resign_of_an_unknown_member_are_no_ops() {
    let mut world = World::led(&["a", "b"]);
    let before = world.state.clone();
    world.close("b");
    let mut down = world.down("a", "b", Evidence::Closed);
    if let MembershipEvent::Down { member, .. } = &mut down.event {
        *member = node("x");
    }
    assert_eq!(dropped(&world.apply("a", &down)), Dropped::UnknownMember);
    let resign = world.resign("x");
    assert_eq!(dropped(&world.apply("a", &resign)), Dropped::StaleAuthor);
    assert_eq!(world.state, before);
}

#[test]
fn f3_a_resignation_of_another_epoch_or_of_a_follower_changes_nothing() {
    let mut world = World::led(&["a", "b"]);
    let late = world.resign("a");
    let follower = world.resign("b");
    assert_eq!(dropped(&world.apply("a", &follower)), Dropped::NotLeader);
    world.apply("a", &late);
    assert_eq!((world.leader(), world.epoch()), (Some("b"), 2), "others first");
    assert_eq!(dropped(&world.apply("a", &late)), Dropped::StaleEpoch);
}

#[test]
fn f4_the_closed_session_of_the_leader_seats_its_synced_accuser() {
    let mut world = World::led(&["a", "b", "c"]);
    world.close("a");
    let down = world.down("c", "a", Evidence::Closed);
    let applied = world.apply("b", &down);
    assert_eq!(applied.seat, Seat::Elected { node: node("c"), opening: None });
    assert!(applied.relied.contains(&Relied::Session(node("a"))));
    assert!(applied.relied.contains(&Relied::Session(node("c"))));
    assert!(!world.state.members.contains_key(&node("a")));
}

#[test]
fn f4_nobody_is_removed_whose_session_is_not_proven_closed() {
    let mut world = World::led(&["a", "b"]);
    let down = world.down("a", "b", Evidence::Closed);
    assert_eq!(dropped(&world.apply("a", &down)), Dropped::NotClosed);
    world.facts.sessions.insert(node("b"), None);
    assert_eq!(dropped(&world.apply("a", &down)), Dropped::NotClosed, "absence proves nothing");
}

#[test]
fn f6_a_leader_that_joins_empty_before_its_down_does_not_lead_on() {
    let mut world = World::led(&["a", "b", "c"]);
    world.open("a", 2);
    let down = world.down("b", "a", Evidence::Closed);
    let join = world.join("a");
    world.apply("a", &join);
    assert_eq!((world.leader(), world.epoch()), (None, 2), "an unsynced proposer leaves it vacant");
    assert_eq!(dropped(&world.apply("b", &down)), Dropped::StaleToken);
    world.facts.proposer = session("b", 1);
    let applied = world.state.fill(&world.facts).unwrap();
    assert_eq!(applied.after.term.leader.map(|leader| leader.node), Some(node("b")));
}

#[test]
fn f6_a_seat_is_opened_anew_only_if_every_member_is_gone_or_empty() {
    let mut world = World::led(&["a", "b"]);
    world.open("a", 2);
    let join = world.join("a");
    world.apply("a", &join);
    assert_eq!(world.leader(), None);
    world.state.members.get_mut(&node("b")).unwrap().synced = false;
    world.facts.proposer = SessionId { number: SessionNumber(2), ..session("a", 2) };
    assert_eq!(world.state.fill(&world.facts), None, "b may have what a lacks");
    world.close("b");
    let applied = world.state.fill(&world.facts).unwrap();
    assert_eq!(applied.seat, Seat::Elected { node: node("a"), opening: Some(Opening::Reset) });
    for relied in [Relied::Session(node("b")), Relied::Session(node("a")), Relied::Members] {
        assert!(applied.relied.contains(&relied), "{relied:?}");
    }
}

#[test]
fn f7_one_isolated_voice_of_three_deposes_nobody() {
    let mut world = World::led(&["a", "b", "c"]);
    let vote = world.silent("c", "a");
    let applied = world.apply("c", &vote);
    assert_eq!(applied.seat, Seat::Kept);
    assert_eq!(applied.outcome, Ok(Change::Accused { by: node("c") }));
    assert_eq!(dropped(&world.apply("c", &vote)), Dropped::NothingNew, "a vote counts once");

    let second = world.silent("b", "a");
    let applied = world.apply("b", &second);
    assert_eq!(applied.seat, Seat::Elected { node: node("b"), opening: None });
    assert!(world.state.members.contains_key(&node("a")), "silence removes nobody");
    assert_eq!(world.epoch(), 2);
}

#[test]
fn f7_an_expelled_accuser_accuses_nobody() {
    let mut world = World::led(&["a", "b", "c"]);
    world.close("c");
    let counter = world.down("c", "a", Evidence::Closed);
    let down = world.down("a", "c", Evidence::Closed);
    world.apply("a", &down);
    world.close("a");
    assert_eq!(dropped(&world.apply("b", &counter)), Dropped::StaleAuthor);
    assert_eq!(world.state.members.len(), 2);
}

#[test]
fn f7_votes_of_another_epoch_and_withdrawn_votes_do_not_count() {
    let mut world = World::led(&["a", "b", "c"]);
    let vote = world.silent("b", "a");
    world.apply("b", &vote);
    let withdraw = world.withdraw("b");
    assert!(world.apply("b", &withdraw).outcome.is_ok());
    let vote = world.silent("c", "a");
    assert_eq!(world.apply("c", &vote).seat, Seat::Kept);

    let resign = world.resign("a");
    world.apply("a", &resign);
    assert_eq!((world.leader(), world.epoch()), (Some("b"), 2));
    let stale = world.withdraw("c");
    assert_eq!(dropped(&world.apply("c", &stale)), Dropped::StaleEpoch);
    let vote = world.silent("a", "b");
    assert_eq!(world.apply("a", &vote).seat, Seat::Kept, "c's vote died with epoch 1");
}

#[test]
fn f7_a_leader_is_deposed_only_if_another_can_lead() {
    let mut world = World::led(&["a", "b"]);
    world.state.members.get_mut(&node("b")).unwrap().synced = false;
    let vote = world.silent("b", "a");
    assert_eq!(world.apply("b", &vote).seat, Seat::Kept);
    let synced = world.synced("b", 7);
    let applied = world.apply("a", &synced);
    assert_eq!(world.leader(), Some("b"), "the vote stands, and is counted when somebody can lead");
    assert!(applied.vacates);
}

#[test]
fn f7_a_vote_suffices_once_the_dead_are_removed() {
    let mut world = World::led(&["a", "b", "c"]);
    let vote = world.silent("b", "a");
    world.apply("b", &vote);
    world.close("c");
    let down = world.down("b", "c", Evidence::Closed);
    world.apply("b", &down);
    assert_eq!((world.leader(), world.epoch()), (Some("b"), 2));
}

#[test]
fn f8_who_never_heard_the_leader_needs_a_majority_of_all() {
    let mut world = World::led(&["a", "b", "c", "d"]);
    for (voter, epoch) in [("b", 1), ("c", 1), ("d", 2)] {
        let vote = world.without_contact(voter, "a");
        world.apply(voter, &vote);
        assert_eq!(world.epoch(), epoch, "after {voter}");
    }
    let mut world = World::led(&["a", "b"]);
    let vote = world.without_contact("b", "a");
    world.apply("b", &vote);
    assert_eq!(world.epoch(), 1, "of two, neither deposes a leader it never heard");
    let vote = world.silent("b", "a");
    world.apply("b", &vote);
    assert_eq!(world.epoch(), 2, "but one that it lost");
}

#[test]
fn g1_only_votes_and_what_vacates_pass_a_lock() {
    let mut world = World::led(&["a", "b", "c"]);
    world.open("d", 1);
    let passes = |world: &World, entry: &QueueEntry| world.state.apply(entry, &world.facts).passes_lock();
    let (join, rejoin) = (world.join("d"), world.join("a"));
    assert!(!passes(&world, &join));
    assert!(passes(&world, &rejoin), "the leader joins again");
    let (vote, leave, leader_leaves) = (world.silent("b", "a"), world.leave("b"), world.leave("a"));
    assert!(passes(&world, &vote));
    assert!(!passes(&world, &leave));
    assert!(passes(&world, &leader_leaves));
    let resign = world.resign("a");
    assert!(passes(&world, &resign));
    let (down_leader, down) =
        (world.down("b", "a", Evidence::Closed), world.down("a", "b", Evidence::Closed));
    assert!(!passes(&world, &down_leader), "its session is open");
    world.close("a");
    world.close("b");
    assert!(passes(&world, &down_leader));
    assert!(!passes(&world, &down));
    let unknown = world.leave("x");
    assert!(!passes(&world, &unknown), "what would be dropped now may be right behind what waits");
}

#[test]
fn synced_is_refused_below_the_floor_and_clears_empty() {
    let mut world = World::led(&["a"]);
    world.open("b", 1);
    let join = world.join("b");
    world.apply("a", &join);
    let low = world.synced("b", 1);
    let applied = world.apply("a", &low);
    assert_eq!(dropped(&applied), Dropped::BehindFloor);
    assert!(applied.relied.contains(&Relied::Floor));
    let enough = world.synced("b", 2);
    assert!(world.apply("a", &enough).outcome.is_ok());
    let row = &world.state.members[&node("b")];
    assert!(row.synced && !row.empty);
}
