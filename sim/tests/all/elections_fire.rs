//! Each check of the elections' judge can fire: what it forbids is done behind the cores' backs.
//!
//! I14, and that a request ends its own term and a late grant is not trusted, nobody but a core can break: planted defects
//! show those.

use std::time::Duration;

use callsign_elector::{
    election::{
        Policy,
        campaign::Until,
        state::{Control, Holder, Row, Seat},
    },
    ids::{Ballot, Epoch, Incarnation, MemberId, Nonce},
    record::Record,
    store::Transaction,
    time::Time,
};
use callsign_sim::{
    elections::{Action, Author, Check, Doing, Intent, Orphan, Scheduler, Setup, Slot, World, Written},
    rng::Rng,
};

/// Three members at rest.
struct Scene {
    world: World,
    scheduler: Scheduler,
    leader: Slot,
    other: Slot,
}

impl Scene {
    fn new() -> Self {
        Self::with(Policy::sticky())
    }

    fn with(policy: Policy) -> Self {
        let mut setup = Setup::calm(3);
        setup.config.policy = policy;
        let mut scheduler = Scheduler::new(Rng::new(1));
        scheduler.heal();
        let mut scene = Self { world: World::new(setup), scheduler, leader: 0, other: 1 };
        scene.until("at rest", |world| world.judge.unrest(world).is_none());
        let before = scene.seat().ballot;
        scene.until("refreshed", |world| seat(world).ballot > before);
        let leads = |at: &Slot| scene.world.process(*at).is_some_and(|process| process.handle.is_some());
        scene.leader = scene.world.slots().find(leads).unwrap();
        scene.other = (scene.leader + 1) % 3;
        scene
    }

    fn until(&mut self, what: &str, mut enough: impl FnMut(&World) -> bool) {
        let by = self.world.now + Duration::from_secs(100);
        while !enough(&self.world) {
            assert!(self.world.now < by, "never {what}");
            let action = self.scheduler.next(&self.world);
            self.world.apply(&action);
        }
    }

    fn seat(&self) -> Seat {
        seat(&self.world)
    }

    fn row(&self, at: Slot) -> Row {
        let key = self.world.setup.keys.candidate(&self.world.setup.members[usize::from(at)].member);
        Row::from_value(self.world.store.get(&key).unwrap()).unwrap()
    }

    /// Commits something as if a member had.
    fn forge(&mut self, at: Slot, intent: Intent, transaction: Transaction) {
        let now = self.world.local(at);
        let incarnation = self.world.process(at).unwrap().incarnation;
        let author = Author { at, incarnation, intent, started: now, decided: now };
        self.world.orphans.push(Orphan { author, transaction, serial: u64::MAX });
        let nth = u8::try_from(self.world.orphans.len() - 1).unwrap();
        assert!(self.world.apply(&Action::Land { nth }));
    }

    fn write(&mut self, at: Slot, intent: Intent, edit: impl FnOnce(&mut Seat)) {
        let mut seat = self.seat();
        edit(&mut seat);
        let transaction = Transaction::new().put(self.world.setup.keys.seat(), seat.to_value());
        self.forge(at, intent, transaction);
    }

    /// A member takes the seat.
    fn elect(&mut self, at: Slot, priority: u32) {
        let row = self.row(at);
        let member = self.world.setup.members[usize::from(at)].member.clone();
        self.write(at, Intent::Claim, |seat| {
            next(seat);
            let old = seat.holder.clone().unwrap();
            let (incarnation, seniority) = (row.incarnation, row.seniority);
            seat.holder = Some(Holder { member, incarnation, seniority, priority, nonce: Nonce(7), ..old });
        });
    }

    /// A member believes that it leads.
    fn believe(&mut self, at: Slot, epoch: Epoch, until: Time) {
        let mut grant = self.grant();
        grant.term.epoch = epoch;
        self.world.machines[usize::from(at)].process.as_mut().unwrap().handle =
            Some((grant, Until::At(until)));
    }

    fn grant(&self) -> callsign_elector::election::Grant<callsign_elector::election::Fence> {
        self.world.process(self.leader).unwrap().handle.as_ref().unwrap().0.clone()
    }

    fn pass(&mut self) {
        assert!(self.world.apply(&Action::Pass { nanos: 1 }));
    }

    #[track_caller]
    fn found(&self, check: Check) {
        let found = self.world.judge.violation();
        assert_eq!(found.map(|found| found.check), Some(check.name()), "{found:?}");
    }
}

fn seat(world: &World) -> Seat {
    Seat::from_value(world.store.get(&world.setup.keys.seat()).unwrap()).unwrap()
}

/// The next epoch.
fn next(seat: &mut Seat) {
    seat.ballot = Ballot(seat.ballot.0 + 1);
    seat.epoch = Epoch(seat.ballot.0);
}

#[test]
fn i1_a_ballot_that_goes_back() {
    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Refresh(epoch), |seat| seat.ballot = Ballot(seat.ballot.0 - 1));
    scene.found(Check::I1);
}

#[test]
fn i1_a_seat_whose_record_is_removed() {
    let mut scene = Scene::new();
    let key = scene.world.setup.keys.seat();
    scene.forge(scene.leader, Intent::Claim, Transaction::new().clear(key));
    scene.found(Check::I1);
}

#[test]
fn i2_another_incarnation_in_the_same_epoch() {
    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Refresh(epoch), |seat| {
        seat.ballot = Ballot(seat.ballot.0 + 1);
        seat.holder.as_mut().unwrap().incarnation = Incarnation(99);
    });
    scene.found(Check::I2);
}

#[test]
fn i3_a_sink_that_refuses_the_newest_epoch() {
    let mut scene = Scene::new();
    scene.world.sink.greatest = scene.seat().epoch.0 + 1;
    scene.world.writes = vec![Written { fence: scene.seat().fence(), serial: 0 }];
    assert!(scene.world.apply(&Action::Sink { nth: 0 }));
    scene.found(Check::I3);
}

#[test]
fn i4_a_refresh_of_another_term_and_a_resignation_of_anothers() {
    let mut scene = Scene::new();
    scene.write(scene.leader, Intent::Refresh(Epoch(999)), |seat| seat.ballot = Ballot(seat.ballot.0 + 1));
    scene.found(Check::I4);

    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    scene.write(scene.other, Intent::Resign(epoch), |seat| {
        next(seat);
        seat.holder = None;
    });
    scene.found(Check::I4);
}

#[test]
fn i5_a_holder_that_is_not_registered() {
    let mut scene = Scene::new();
    scene.write(scene.other, Intent::Claim, |seat| {
        next(seat);
        seat.holder.as_mut().unwrap().member = MemberId::new("ghost").unwrap();
    });
    scene.found(Check::I5);
}

#[test]
fn i6_and_i9_two_that_believe() {
    let mut scene = Scene::new();
    let (epoch, soon) = (scene.seat().epoch, scene.world.local(scene.other) + Duration::from_secs(5));
    scene.believe(scene.other, Epoch(epoch.0 + 1), soon);
    scene.pass();
    scene.found(Check::I6);

    let mut scene = Scene::new();
    scene.believe(scene.other, epoch, soon);
    scene.pass();
    scene.found(Check::I9);
}

#[test]
fn i7_a_release_while_the_role_works() {
    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Resign(epoch), |seat| {
        next(seat);
        seat.holder = None;
    });
    scene.found(Check::I7);
}

#[test]
fn i8_leading_published_without_a_term() {
    let mut scene = Scene::new();
    scene.world.apply(&Action::Crash { at: scene.leader });
    let activating = |world: &World, at: Slot| {
        let doing = world.process(at).and_then(|process| process.role.doing);
        matches!(doing, Some((Doing::Activating(_), _)))
    };
    scene.until("another takes over", |world| world.slots().any(|at| activating(world, at)));
    let at = scene.world.slots().find(|at| activating(&scene.world, *at)).unwrap();
    scene.world.machines[usize::from(at)].process.as_mut().unwrap().handle = None;
    assert!(scene.world.apply(&Action::Role { at, well: true }));
    scene.found(Check::I8);
}

#[test]
fn i10_a_grant_in_a_disabled_election() {
    let mut scene = Scene::new();
    let key = scene.world.setup.keys.control();
    let control = Control::from_value(scene.world.store.get(&key).unwrap()).unwrap();
    let control = Control { enabled: false, ..control };
    scene.forge(scene.leader, Intent::Other, Transaction::new().put(key, control.to_value()));
    assert_eq!(scene.world.judge.violation(), None);
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Refresh(epoch), |seat| seat.ballot = Ballot(seat.ballot.0 + 1));
    scene.found(Check::I10);
}

#[test]
fn i11_i12_and_i13_are_missed_at_rest() {
    let scene = World::new(Setup::calm(3));
    assert_eq!(scene.judge.unrest(&scene).map(|(check, _)| check), Some(Check::I13));

    let mut scene = Scene::new();
    assert!(scene.world.apply(&Action::Crash { at: scene.other }));
    assert!(scene.world.apply(&Action::Start { at: scene.other }));
    assert_eq!(scene.world.judge.unrest(&scene.world).map(|(check, _)| check), Some(Check::I11));

    let mut scene = Scene::with(Policy::preempting());
    let row = Row { priority: 9, ..scene.row(scene.other) };
    let key = scene.world.setup.keys.candidate(&scene.world.setup.members[usize::from(scene.other)].member);
    scene.forge(scene.other, Intent::Other, Transaction::new().put(key, row.to_value()));
    assert_eq!(scene.world.judge.unrest(&scene.world).map(|(check, _)| check), Some(Check::I12));
}

#[test]
fn a_seat_that_is_taken_too_early() {
    let mut scene = Scene::new();
    scene.elect(scene.other, 1);
    scene.found(Check::Waited);
}

#[test]
fn a_holder_that_is_preempted_before_its_time_or_by_its_equal() {
    let policy = Policy { min_tenure: Duration::from_secs(1000), ..Policy::preempting() };
    let mut scene = Scene::with(policy);
    scene.elect(scene.other, 5);
    scene.found(Check::Tenure);

    let mut scene = Scene::with(Policy::preempting());
    scene.elect(scene.other, 1);
    scene.found(Check::Tenure);

    let mut scene = Scene::with(Policy::preempting());
    scene.elect(scene.other, 5);
    assert_eq!(scene.world.judge.violation(), None, "a greater priority may");
}

#[test]
fn a_denial_after_which_the_handle_still_has_a_term() {
    let mut scene = Scene::new();
    scene.believe(scene.other, Epoch(1), Time::ZERO);
    scene.until("denied", |world| world.judge.violation().is_some());
    scene.found(Check::NoIsNo);
}
