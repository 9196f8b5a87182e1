//! One run: a world, a seed, faults; then everything is healed, comes to rest, and is looked at.

mod exam;
mod lag;
mod links;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use callsign::cores::Effect;
use callsign_elector::record::Term;
use callsign_store::record::Record;

use self::exam::examine;
use crate::{
    oracle::{Check, Oracle},
    rng::Rng,
    scenario::{Profile, Scenario},
    schedule::{Scheduler, first_blocked},
    simulated::Simulated,
    world::{Action, NodeClock, NodeId, Setup, World},
};

/// A cluster that is not at rest after so many steps without a fault is stuck.
const REST: u32 = 8000;

/// What came of a run.
pub type RegistryRan = crate::simulated::Ran<Scenario>;

impl Simulated for Scenario {
    type Action = Action;
    type Check = Check;
    type Kept = Templates;
    const PANICS: &'static str = "nothing panics";

    fn kind(action: &Action) -> &'static str {
        action.kind()
    }

    fn run(self, seed: u64, templates: &mut Templates) -> RegistryRan {
        run(self, seed, templates)
    }
}

type TemplateKey = (usize, bool, bool, (usize, usize, u64, [usize; 2]), BTreeSet<NodeId>, Kinds);
type Kinds = (u64, bool, bool, bool);

/// Clusters that are formed and at rest, from which runs begin.
#[derive(Debug, Default)]
pub struct Templates(BTreeMap<TemplateKey, World>);

impl Templates {
    /// The world that a profile begins with.
    pub fn world(&mut self, profile: &Profile, kind: u64) -> World {
        let mut world = self.unlimited(profile, kind);
        if profile.most_ops < usize::MAX {
            Arc::make_mut(&mut world.setup).most_ops = profile.most_ops;
        }
        if profile.work.refer > 0 {
            world.begin_to_refer();
        }
        world
    }

    fn unlimited(&mut self, profile: &Profile, kind: u64) -> World {
        if profile.from_nothing {
            return fresh(profile, kind);
        }
        let newer = profile.newer.clone();
        let sizes = (profile.lane, profile.lag, profile.sweep, [profile.own_names, profile.observers]);
        let kinds = (kind, profile.faults.back > 0, profile.offers, profile.tells);
        let key = (profile.nodes, profile.eager, profile.proof, sizes, newer, kinds);
        self.0.entry(key).or_insert_with(|| formed(profile, kind)).clone()
    }
}

/// A lane that takes so many messages is seldom full.
const ROOMY: usize = 8;

fn fresh(profile: &Profile, kind: u64) -> World {
    let mut setup = Setup::new(profile.nodes);
    setup.eager = profile.eager;
    setup.proof = profile.proof;
    setup.joins_late = profile.faults.join > 0;
    setup.newer.clone_from(&profile.newer);
    setup.loses = if profile.faults.back > 0 { 32 } else { 0 };
    setup.lane = profile.lane;
    if profile.lane < ROOMY {
        // More chunks of a snapshot than a lane takes, so that some are lost.
        setup.tuning.snapshot_window = ROOMY as u64;
    }
    setup.tuning.max_lag = profile.lag;
    setup.tuning.own_names = profile.own_names;
    setup.tuning.observers = profile.observers;
    setup.session.sweep_after = Duration::from_millis(profile.sweep);
    setup.elector.sweep_after = Duration::from_millis(profile.sweep);
    setup.watches = true;
    setup.tells = profile.tells;
    setup.offers = profile.offers;
    setup.seed = 1000 + kind;
    let mut world = World::new(setup);
    // A cluster that has formed is shared by many seeds. What its nodes may do, each is told later.
    if profile.from_nothing {
        for (node, permits) in (0..).zip(&profile.permits) {
            world.apply(&Action::Certify { node, permits: permits.clone() });
        }
    }
    world.begins_with_its_certificates();
    for (machine, start) in world.nodes.iter_mut().zip([70, 5000, 300, 12, 90_000, 2, 40, 800]) {
        machine.clock = NodeClock::new(Duration::from_secs(start));
    }
    world
}

fn formed(profile: &Profile, kind: u64) -> World {
    formed_of(fresh(profile, kind), kind)
}

/// Starts all nodes of a world and lets them form a cluster.
pub fn formed_of(mut world: World, kind: u64) -> World {
    let mut rng = Rng::new(kind);
    let profile = Scenario::Calm.mix(&mut rng);
    let mut scheduler = Scheduler::new(rng, profile);
    for node in world.ids() {
        world.apply(&Action::Start { node });
    }
    let mut trace = Vec::new();
    // Without a defect it always forms; with one, the runs that begin with it say so.
    come_to_rest(&mut world, &mut scheduler, &mut trace, &[]);
    world.oracle.forget_counts();
    world
}

/// Runs a seed.
pub fn run(scenario: Scenario, seed: u64, templates: &mut Templates) -> RegistryRan {
    let mut rng = Rng::new(seed);
    let profile = scenario.profile(seed, &mut rng);
    let mut world = templates.world(&profile, seed % 8);
    if scenario == Scenario::Drift {
        world.oracle.let_trust_the_closed();
    }
    let mut trace = Vec::with_capacity(512);
    if profile.from_nothing {
        for node in world.ids() {
            act(&mut world, &mut trace, Action::Start { node });
        }
    }
    if profile.ppm > 0 {
        for node in world.ids() {
            let ppm = i32::try_from(rng.below(2 * profile.ppm + 1)).unwrap_or(0);
            let ppm = ppm - i32::try_from(profile.ppm).unwrap_or(0);
            act(&mut world, &mut trace, Action::Rate { node, ppm });
        }
    }
    if !profile.from_nothing {
        for (node, permits) in (0..).zip(&profile.permits) {
            act(&mut world, &mut trace, Action::Certify { node, permits: permits.clone() });
        }
    }
    let mut scheduler = Scheduler::new(rng, profile.clone());
    let mut tries = 0;
    while trace.len() < profile.steps as usize
        && tries < 4 * profile.steps
        && world.oracle.violation().is_none()
    {
        tries += 1;
        let action = scheduler.next(&world);
        act(&mut world, &mut trace, action);
    }
    let faulty = trace.len();
    finish(&mut world, &mut scheduler, &mut trace);
    RegistryRan {
        seed,
        faulty,
        counts: world.oracle.counts(),
        violation: world.oracle.violation().cloned(),
        trace,
    }
}

/// Replays a trace on the world of a seed, and finishes as a run does if the trace ends before its end.
pub fn replay(scenario: Scenario, seed: u64, trace: &[Action], notes: bool) -> (World, Vec<Action>) {
    let profile = scenario.profile(seed, &mut Rng::new(seed));
    let mut world = Templates::default().world(&profile, seed % 8);
    if scenario == Scenario::Drift {
        world.oracle.let_trust_the_closed();
    }
    if notes {
        world.oracle.take_notes();
    }
    let mut done = Vec::with_capacity(trace.len());
    for action in trace {
        if world.oracle.violation().is_some() {
            break;
        }
        act(&mut world, &mut done, action.clone());
    }
    let mut scheduler = Scheduler::new(Rng::new(seed ^ 0x5eed), profile);
    finish(&mut world, &mut scheduler, &mut done);
    (world, done)
}

fn act(world: &mut World, trace: &mut Vec<Action>, action: Action) {
    if world.apply(&action) {
        trace.push(action);
    }
}

/// Heals everything, lets it come to rest, and looks at the result.
fn finish(world: &mut World, scheduler: &mut Scheduler, trace: &mut Vec<Action>) {
    if world.oracle.violation().is_some() {
        return;
    }
    while let Some((from, to)) = first_blocked(world) {
        act(world, trace, Action::Unblock { from, to });
    }
    for node in world.ids() {
        act(world, trace, Action::Resume { node });
        act(world, trace, Action::Outage { node, is_out: false });
    }
    act(world, trace, Action::Refuse { is_on: false });
    act(world, trace, Action::Widen);
    // Those that are left serve without the dead; then these are back.
    let dead: Vec<NodeId> = world.ids().filter(|node| world.process(*node).is_none()).collect();
    let some_stay_dead = scheduler.profile().mourn && !dead.is_empty() && dead.len() < world.nodes.len();
    if some_stay_dead && !come_to_rest(world, scheduler, trace, &dead) {
        return;
    }
    for node in world.ids() {
        act(world, trace, Action::Start { node });
    }
    if !come_to_rest(world, scheduler, trace, &[]) {
        return;
    }
    let mut oracle = std::mem::take(&mut world.oracle);
    oracle.at_rest(world);
    read_all(world, &mut oracle);
    world.oracle = oracle;
    if world.oracle.violation().is_some() || !examine(world, scheduler, trace) {
        return;
    }
    let mut oracle = std::mem::take(&mut world.oracle);
    oracle.at_rest(world);
    read_all(world, &mut oracle);
    links::look(world, &mut oracle);
    lag::look(world, &mut oracle);
    oracle.check_history();
    world.oracle = oracle;
}

/// All readers take everything that there is for them, and each name is explained before and after. That is done to a copy, so that a trace does not depend on it.
fn read_all(world: &World, oracle: &mut Oracle) {
    for node in world.ids() {
        let Some(mut parts) = world.process(node).and_then(|process| process.parts.clone()) else { continue };
        let now = world.member_now(node);
        oracle.check_explained(node, &parts);
        parts.read_all(now, |parts, effects| oracle.gives((node, true), parts, &effects));
        oracle.check_readers(node, &parts);
        oracle.check_explained(node, &parts);
    }
}

/// Without the dead, who are neither started nor missed.
fn come_to_rest(
    world: &mut World,
    scheduler: &mut Scheduler,
    trace: &mut Vec<Action>,
    dead: &[NodeId],
) -> bool {
    let mut steps = 0;
    let mut what = None;
    while world.oracle.violation().is_none() {
        if steps % 4 == 0 {
            what = unrest(world, dead);
            if what.is_none() {
                return true;
            }
        }
        if steps > REST {
            let what = what.unwrap_or_default();
            world.oracle.fail(Check::Quiescent, || format!("not at rest after {REST} steps: {what}"));
            return false;
        }
        let late = world.ids().find(|node| {
            let process = world.process(*node);
            process.is_some_and(|process| {
                process.was_opened && process.parts.is_none() && !process.node.leaving().has_begun()
            })
        });
        // A node that left comes back.
        let gone = world.ids().find(|node| world.process(*node).is_none() && !dead.contains(node));
        let action = match gone {
            Some(node) => Action::Start { node },
            None if let Some(node) = late => Action::Join { node },
            // Abandoned transactions may land until the end.
            None if !world.orphans.is_empty() && scheduler.rng().per_mille(50) => {
                if scheduler.rng().below(2) == 0 {
                    Action::Land { nth: 0 }
                } else {
                    Action::Vanish { nth: 0 }
                }
            }
            None => scheduler.next_healed(world),
        };
        act(world, trace, action);
        steps += 1;
    }
    false
}

/// What is still missing to rest; `None` if nothing is.
fn unrest(world: &World, dead: &[NodeId]) -> Option<String> {
    if world.oracle.is_in_loss() {
        return Some("what came of a loss is not over".to_owned());
    }
    if !world.asked.is_empty() {
        return Some(format!("calls wait: {:?}", world.asked));
    }
    if !world.orphans.is_empty() {
        return Some("transactions may still land".to_owned());
    }
    if let Some(what) = world.says_of_actors() {
        return Some(what);
    }
    let keys = &world.setup.keys;
    if let Some(lock) = world.store.get(&keys.lock()) {
        return Some(format!("the lock is held: {:?}", callsign_elector::record::Lock::from_value(lock)));
    }
    let term = world.store.get(&keys.term()).and_then(|value| Term::from_value(value).ok());
    let Some(leader) = term.as_ref().and_then(|term| term.leader.as_ref()) else {
        return Some(format!("nobody leads: {term:?}"));
    };
    if world.setup.id(leader.node.as_str()).is_some_and(|id| !world.permits(id).may_lead()) {
        return Some(format!("{} leads, and must not", leader.node));
    }
    let epoch = term.as_ref().map(|term| term.epoch);
    let mut is_serving = false;
    let end = world.oracle.end();
    for node in dead {
        let name = &world.setup.names[usize::from(*node)];
        if world.store.get(&keys.member(name)).is_some() {
            return Some(format!("node {node} is dead and still a member"));
        }
    }
    for node in world.ids().filter(|node| !dead.contains(node)) {
        let Some(process) = world.process(node) else { return Some(format!("node {node} is down")) };
        if process.node.leaving().has_begun() {
            return Some(format!("node {node} leaves"));
        }
        let Some(trusted) = process.trusted(world.local(node)) else {
            return Some(format!("node {node} has no trusted session: {:?}", process.session().obstacle()));
        };
        let Some(parts) = &process.parts else { return Some(format!("node {node} has not joined")) };
        let member = parts.core.member();
        if member.session().map(|session| session.number) != Some(trusted) {
            return Some(format!("the member of node {node} has not heard of its session"));
        }
        if !member.is_synced() || member.replica().position() != end {
            let position = member.replica().position();
            return Some(format!(
                "node {node} is not synced: at {position:?} of {end:?}, view {:?}",
                member.view()
            ));
        }
        if member.leader().map(|(epoch, _)| epoch) != epoch {
            return Some(format!("node {node} does not know the leader of {epoch:?}: {:?}", member.leader()));
        }
        // Everybody has what it lacked, so nobody asks for the rest of a snapshot.
        if member.snapshots_under_way() > 0 {
            return Some(format!("node {node} keeps a snapshot for nobody"));
        }
        is_serving |= process.incarnation == leader.incarnation && member.is_serving();
        // Claims and the log agree.
        let mut claims: Vec<_> = member
            .holds()
            .map(|(name, actor, token)| (crate::world::number_of(name), actor, token))
            .collect();
        claims.sort_unstable();
        let session = (process.incarnation, trusted);
        let rows = world.oracle.rows_of(&world.setup.names[usize::from(node)], session);
        if claims != rows {
            return Some(format!("node {node} claims {claims:?}, the log has {rows:?}"));
        }
        if member.moves() > 0 {
            return Some(format!("{} names are on their way from or to node {node}", member.moves()));
        }
        // Its member has decided it, and what it asks for is carried out next.
        if parts.core.asked().iter().any(|effect| matches!(effect, Effect::Unflag { .. })) {
            return Some(format!("node {node} is about to take a flag back"));
        }
        if let Some(actor) = world.stray_of(node) {
            return Some(format!("actor {actor} of node {node} was started, holds no name, and runs"));
        }
    }
    if !is_serving {
        return Some(format!("the leader of {epoch:?} does not serve"));
    }
    // All have passed the end, so what is worth to be cut is cut.
    let (floor, worth) = (world.oracle.floor(), world.setup.tuning.cut_worth);
    if dead.is_empty() && end.0 + 1 >= floor.0 + worth {
        return Some(format!("the log is kept from {floor:?} to {end:?}"));
    }
    world.oracle.row_of_the_dead().or_else(|| world.oracle.row_of_the_ended())
}
