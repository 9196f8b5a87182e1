//! Each check of the elections' judge can fire: what it forbids is done behind the cores' backs.

use std::time::Duration;

use callsign_election::{
    ElectionConfig, Lost, Policy,
    campaign::{
        CampaignEvent, CampaignEventKind, End, Phase, Release, Until,
        core::{CallId, Effect},
    },
    state::{Control, Holder, Row, Seat},
};
use callsign_sim::{
    elections::{
        Author, Check, Doing, ElectionAction, ElectionOrphan, ElectionScheduler, ElectionSetup,
        ElectionWorld, Intent, OracleCallKind, Order, Slot, Written,
    },
    rng::Rng,
};
use callsign_store::{
    Transaction,
    ids::{Ballot, ElectionName, Epoch, Incarnation, MemberId, Nonce},
    record::Record,
    time::Time,
};

/// Three members at rest.
struct Scene {
    world: ElectionWorld,
    scheduler: ElectionScheduler,
    leader: Slot,
    other: Slot,
}

impl Scene {
    fn new() -> Self {
        Self::with(Policy::sticky())
    }

    fn with(policy: Policy) -> Self {
        Self::of(|config| config.policy = policy)
    }

    fn of(configure: impl FnOnce(&mut ElectionConfig)) -> Self {
        let mut setup = ElectionSetup::calm(3);
        configure(&mut setup.config);
        let mut scheduler = ElectionScheduler::new(Rng::new(1));
        scheduler.heal();
        let mut scene = Self { world: ElectionWorld::new(setup), scheduler, leader: 0, other: 1 };
        scene.until("at rest", |world| world.judge.unrest(world).is_none());
        let before = scene.seat().ballot;
        scene.until("refreshed", |world| seat(world).ballot > before);
        let leads = |at: &Slot| scene.world.process(*at).is_some_and(|process| process.handle.is_some());
        scene.leader = scene.world.slots().find(leads).unwrap();
        scene.other = (scene.leader + 1) % 3;
        scene
    }

    fn until(&mut self, what: &str, mut enough: impl FnMut(&ElectionWorld) -> bool) {
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
        self.world.orphans.push(ElectionOrphan { author, transaction, serial: u64::MAX });
        let nth = u8::try_from(self.world.orphans.len() - 1).unwrap();
        assert!(self.world.apply(&ElectionAction::Land { nth }));
    }

    fn write(&mut self, at: Slot, intent: Intent, edit: impl FnOnce(&mut Seat)) {
        let mut seat = self.seat();
        edit(&mut seat);
        let transaction = Transaction::new().put(self.world.setup.keys.seat(), seat.to_value());
        self.forge(at, intent, transaction);
    }

    /// A member takes the seat.
    fn elect(&mut self, at: Slot, priority: u32) {
        self.elect_after(self.seat().holder.unwrap(), at, priority);
    }

    fn elect_after(&mut self, old: Holder, at: Slot, priority: u32) {
        let row = self.row(at);
        let member = self.world.setup.members[usize::from(at)].member.clone();
        self.write(at, Intent::Claim, |seat| {
            next(seat);
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

    fn grant(&self) -> callsign_election::Grant<callsign_election::Fence> {
        self.world.process(self.leader).unwrap().handle.as_ref().unwrap().0.clone()
    }

    fn pass(&mut self) {
        self.wait(Duration::from_nanos(1));
    }

    fn wait(&mut self, time: Duration) {
        assert!(self.world.apply(&ElectionAction::Pass { nanos: u64::try_from(time.as_nanos()).unwrap() }));
    }

    fn set_priority(&mut self, at: Slot, priority: u32) {
        let row = Row { priority, ..self.row(at) };
        let key = self.world.setup.keys.candidate(&self.world.setup.members[usize::from(at)].member);
        self.forge(at, Intent::Other, Transaction::new().put(key, row.to_value()));
    }

    #[track_caller]
    fn found(&self, check: Check) {
        let found = self.world.judge.violation();
        assert_eq!(found.map(|found| found.check), Some(check.name()), "{found:?}");
    }
}

fn seat(world: &ElectionWorld) -> Seat {
    Seat::from_value(world.store.get(&world.setup.keys.seat()).unwrap()).unwrap()
}

/// The next epoch.
fn next(seat: &mut Seat) {
    seat.ballot = Ballot(seat.ballot.0 + 1);
    seat.epoch = Epoch(seat.ballot.0);
}

#[test]
fn inv1_a_ballot_that_goes_back() {
    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Refresh(epoch), |seat| seat.ballot = Ballot(seat.ballot.0 - 1));
    scene.found(Check::Inv1);
}

#[test]
fn inv1_a_seat_whose_record_is_removed() {
    let mut scene = Scene::new();
    let key = scene.world.setup.keys.seat();
    scene.forge(scene.leader, Intent::Claim, Transaction::new().clear(key));
    scene.found(Check::Inv1);
}

#[test]
fn inv2_another_incarnation_in_the_same_epoch() {
    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Refresh(epoch), |seat| {
        seat.ballot = Ballot(seat.ballot.0 + 1);
        seat.holder.as_mut().unwrap().incarnation = Incarnation(99);
    });
    scene.found(Check::Inv2);
}

#[test]
fn inv3_a_sink_that_refuses_the_newest_epoch() {
    let mut scene = Scene::new();
    scene.world.sink.greatest = scene.seat().epoch.0 + 1;
    scene.world.writes = vec![Written { fence: scene.seat().fence(), serial: 0 }];
    assert!(scene.world.apply(&ElectionAction::Sink { nth: 0 }));
    scene.found(Check::Inv3);
}

#[test]
fn inv4_a_refresh_of_another_term_and_a_resignation_of_anothers() {
    let mut scene = Scene::new();
    scene.write(scene.leader, Intent::Refresh(Epoch(999)), |seat| seat.ballot = Ballot(seat.ballot.0 + 1));
    scene.found(Check::Inv4);

    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    scene.write(scene.other, Intent::Resign(epoch), |seat| {
        next(seat);
        seat.holder = None;
    });
    scene.found(Check::Inv4);
}

#[test]
fn inv5_a_holder_that_is_not_registered() {
    let mut scene = Scene::new();
    scene.write(scene.other, Intent::Claim, |seat| {
        next(seat);
        seat.holder.as_mut().unwrap().member = MemberId::new("ghost").unwrap();
    });
    scene.found(Check::Inv5);
}

#[test]
fn inv6_and_inv9_two_that_believe() {
    let mut scene = Scene::new();
    let (epoch, soon) = (scene.seat().epoch, scene.world.local(scene.other) + Duration::from_secs(5));
    scene.believe(scene.other, Epoch(epoch.0 + 1), soon);
    scene.pass();
    scene.found(Check::Inv6);

    let mut scene = Scene::new();
    scene.believe(scene.other, epoch, soon);
    scene.pass();
    scene.found(Check::Inv9);
}

#[test]
fn inv7_a_release_while_the_role_works() {
    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Resign(epoch), |seat| {
        next(seat);
        seat.holder = None;
    });
    scene.found(Check::Inv7);
}

#[test]
fn inv8_leading_published_without_a_term() {
    let mut scene = Scene::new();
    scene.world.apply(&ElectionAction::Crash { at: scene.leader });
    let activating = |world: &ElectionWorld, at: Slot| {
        let doing = world.process(at).and_then(|process| process.role.doing);
        matches!(doing, Some((Doing::Activating(_), _)))
    };
    scene.until("another takes over", |world| world.slots().any(|at| activating(world, at)));
    let at = scene.world.slots().find(|at| activating(&scene.world, *at)).unwrap();
    scene.world.machines[usize::from(at)].process.as_mut().unwrap().handle = None;
    assert!(scene.world.apply(&ElectionAction::Role { at, well: true }));
    scene.found(Check::Inv8);
}

#[test]
fn inv10_a_grant_in_a_disabled_election() {
    let mut scene = Scene::new();
    let key = scene.world.setup.keys.control();
    let control = Control::from_value(scene.world.store.get(&key).unwrap()).unwrap();
    let control = Control { enabled: false, ..control };
    scene.forge(scene.leader, Intent::Other, Transaction::new().put(key, control.to_value()));
    assert_eq!(scene.world.judge.violation(), None);
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Refresh(epoch), |seat| seat.ballot = Ballot(seat.ballot.0 + 1));
    scene.found(Check::Inv10);
}

#[test]
fn inv11_inv12_and_inv13_are_missed_at_rest() {
    let scene = ElectionWorld::new(ElectionSetup::calm(3));
    assert_eq!(scene.judge.unrest(&scene).map(|(check, _)| check), Some(Check::Inv13));

    let mut scene = Scene::new();
    assert!(scene.world.apply(&ElectionAction::Crash { at: scene.other }));
    assert!(scene.world.apply(&ElectionAction::Start { at: scene.other }));
    assert_eq!(scene.world.judge.unrest(&scene.world).map(|(check, _)| check), Some(Check::Inv11));

    let mut scene = Scene::with(Policy::preempting());
    scene.set_priority(scene.other, 9);
    assert_eq!(scene.world.judge.unrest(&scene.world).map(|(check, _)| check), Some(Check::Inv12));

    let mut scene = Scene::new();
    assert!(scene.world.apply(&ElectionAction::Admin { order: Order::RequestResign }));
    assert_eq!(scene.world.judge.unrest(&scene.world).map(|(check, _)| check), Some(Check::Inv12));
}

#[test]
fn a_leader_that_changes_at_rest() {
    let mut scene = Scene::with(Policy::preempting());
    scene.world.judge.expects_rest();
    let epoch = scene.seat().epoch;
    scene.write(scene.leader, Intent::Refresh(epoch), |seat| seat.ballot = Ballot(seat.ballot.0 + 1));
    assert_eq!(scene.world.judge.violation(), None, "a refresh is no change");
    // At any other time it may.
    scene.elect(scene.other, 5);
    scene.found(Check::Inv14);
}

/// The leader is deposed for the other, which has priority 9, or asked to go for it; then the third takes the seat.
fn taken_by_a_third(is_asked: bool, after: Duration) -> Scene {
    let (lease, lock_delay) = (Duration::from_secs(10), Duration::from_secs(1));
    let mut scene = Scene::of(|config| {
        (config.policy, config.lease, config.lock_delay) = (Policy::preempting(), lease, lock_delay);
    });
    let (third, seat) = ((scene.leader + 2) % 3, scene.seat());
    scene.set_priority(scene.other, 9);
    let (by, intent, wait) = if is_asked {
        let key = scene.world.setup.keys.control();
        let control = Control::from_value(scene.world.store.get(&key).unwrap()).unwrap();
        let control = Control { request: Some(seat.epoch), ..control };
        scene.forge(scene.other, Intent::Claim, Transaction::new().put(key, control.to_value()));
        scene.world.machines[usize::from(scene.leader)].process.as_mut().unwrap().role.works = None;
        (scene.leader, Intent::Resign(seat.epoch), Duration::ZERO)
    } else {
        (scene.other, Intent::Claim, lease + lock_delay)
    };
    scene.write(by, intent, |seat| {
        next(seat);
        (seat.holder, seat.wait) = (None, wait);
    });
    scene.wait(wait + after);
    assert_eq!(scene.world.judge.violation(), None);
    scene.elect_after(seat.holder.unwrap(), third, 1);
    scene
}

#[test]
fn a_seat_that_was_vacated_for_a_better_one_and_is_taken_by_another() {
    let lease = Duration::from_secs(10);
    for is_asked in [false, true] {
        taken_by_a_third(is_asked, lease / 2).found(Check::Heir);
        let late = taken_by_a_third(is_asked, lease);
        assert_eq!(late.world.judge.violation(), None, "the better one had a lease to come");
    }
}

#[test]
fn a_grant_that_is_trusted_although_its_time_is_over() {
    let mut scene = Scene::new();
    let (grant, now) = (scene.grant(), scene.world.local(scene.leader));
    let trust = |until| Effect::Trust { grant: grant.clone(), until: Until::At(until) };
    scene.world.carry(scene.leader, trust(now + Duration::from_nanos(1)));
    assert_eq!(scene.world.judge.violation(), None, "it has a moment left");
    scene.world.carry(scene.leader, trust(now));
    scene.found(Check::Trusted);
}

#[test]
fn a_call_that_is_begun_while_another_is_under_way() {
    let mut scene = Scene::new();
    for nth in 1..3 {
        assert_eq!(scene.world.judge.violation(), None);
        scene.world.carry(scene.other, Effect::Rivals { call: CallId(nth) });
    }
    scene.found(Check::OneCall);
}

#[test]
fn a_grant_that_is_trusted_and_whose_election_nobody_told() {
    let mut scene = Scene::with(Policy::preempting());
    scene.elect(scene.other, 5);
    let (seat, mut grant) = (scene.seat(), scene.grant());
    let holder = seat.holder.clone().unwrap();
    grant.term.epoch = seat.epoch;
    (grant.term.leader, grant.term.incarnation) = (holder.member, holder.incarnation);
    grant.fence = seat.fence();
    assert_eq!(scene.world.judge.violation(), None);
    let until = Until::At(scene.world.local(scene.other) + Duration::from_nanos(1));
    scene.world.carry(scene.other, Effect::Trust { grant, until });
    scene.found(Check::ToldOnce);
}

#[test]
fn a_term_that_is_given_up_for_a_request_about_another() {
    let mut scene = Scene::new();
    let epoch = scene.seat().epoch;
    let member = scene.world.setup.members[usize::from(scene.leader)].member.clone();
    let incarnation = scene.world.process(scene.leader).unwrap().incarnation;
    let election = ElectionName::new("seat").unwrap();
    let lost = CampaignEventKind::Lost { why: Lost::ResignRequested };
    let mut given_up = CampaignEvent::new(election, member, incarnation, lost);
    (given_up.epoch, given_up.phase) = (Some(epoch), Phase::Stopping);
    let given_up = Effect::Emit(Box::new(given_up));
    let asked = |scene: &mut Scene, epoch| {
        let process = scene.world.machines[usize::from(scene.leader)].process.as_mut().unwrap();
        process.asked.insert(epoch);
    };
    asked(&mut scene, epoch);
    scene.world.carry(scene.leader, given_up.clone());
    assert_eq!(scene.world.judge.violation(), None, "it was asked to");

    let mut scene = Scene::new();
    asked(&mut scene, Epoch(epoch.0 + 1));
    scene.world.carry(scene.leader, given_up);
    scene.found(Check::OwnRequest);
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

#[test]
fn a_row_that_another_removes() {
    for intent in [Intent::Claim, Intent::Leave, Intent::Sweep] {
        let mut scene = Scene::new();
        let key =
            scene.world.setup.keys.candidate(&scene.world.setup.members[usize::from(scene.other)].member);
        // The row was heard a moment ago, so that not even the leader may sweep it.
        scene.forge(scene.leader, intent, Transaction::new().clear(key));
        scene.found(Check::Removed);
    }
}

#[test]
fn a_campaign_that_ends_and_leaves_its_row() {
    for (release, is_wrong) in [(Release::RoleStuck, false), (Release::NotHeld, true)] {
        let mut scene = Scene::new();
        scene.world.carry(scene.other, Effect::End(End { why: Lost::Shutdown, release }));
        assert_eq!(scene.world.judge.violation().is_some(), is_wrong, "what may still work is not gone");
        if is_wrong {
            scene.found(Check::LeavesNothing);
        }
    }
}

#[test]
fn a_row_that_is_left_of_a_candidate_that_is_gone() {
    let mut scene = Scene::new();
    scene.world.look_for_rows();
    assert_eq!(scene.world.judge.violation(), None, "all of them live");
    assert!(scene.world.apply(&ElectionAction::Crash { at: scene.other }));
    scene.world.look_for_rows();
    scene.found(Check::NothingIsLeft);
}

#[test]
fn a_sweep_that_goes_on_while_a_refresh_is_due() {
    for is_due in [false, true] {
        let mut scene = Scene::new();
        let leader = scene.leader;
        let sweeps = |world: &ElectionWorld| {
            let asking = world.process(leader).unwrap().asking.as_ref();
            asking.is_some_and(|asking| asking.asked.kind == OracleCallKind::Tidy)
        };
        scene.until("sweeping", sweeps);
        let now = scene.world.local(leader);
        let process = scene.world.machines[usize::from(leader)].process.as_mut().unwrap();
        process.refresh_due = Some(if is_due { now } else { now + Duration::from_nanos(1) });
        assert!(scene.world.apply(&ElectionAction::Poke { at: leader }) && sweeps(&scene.world));
        if is_due {
            scene.found(Check::Yields);
        } else {
            assert_eq!(scene.world.judge.violation(), None);
        }
    }
}
