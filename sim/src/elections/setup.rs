//! What one run is drawn from: the members, their clocks, the election, and what is done to them.

use std::time::Duration;

use callsign_election::{
    ElectionConfig, Policy,
    campaign::OnLoss,
    policy::{Preempt, Replace},
    timing::Timing,
};
use callsign_store::{
    ids::{ClusterName, ElectionName, MemberId},
    keys::{ClusterKeys, ElectionKeys},
};
use clap::ValueEnum;

use crate::rng::Rng;

/// How fast a member's clock may run apart from another's in sound worlds, in millionths.
pub const DRIFT_PPM: u32 = 1000;

/// Which worlds are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum ElectionScenario {
    /// Everything, each seed without some of it.
    #[value(name = "elections")]
    Elections,
    /// Processes stand still, machines sleep, calls are slow, and little is set apart for it.
    #[value(name = "elections-pauses")]
    Pauses,
    /// The store loses answers, is contended, cannot be reached, and does late what was given up.
    #[value(name = "elections-store")]
    Store,
    /// Somebody administers: other configurations, requests to resign, disabled and enabled again, priorities.
    #[value(name = "elections-admin")]
    Admin,
    /// Clocks run apart further than was declared: two may believe at once, and only the fence holds.
    #[value(name = "elections-drift")]
    Drift,
}

impl ElectionScenario {
    /// Those in which everything must hold.
    pub const SOUND: &'static [Self] = &[Self::Elections, Self::Pauses, Self::Store, Self::Admin];
}

/// One machine, and the member that runs on it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeatedMember {
    /// Who it is. Two machines may be given the same.
    pub member: MemberId,
    /// Its priority.
    pub priority: u32,
    /// What its clock shows at the beginning.
    pub clock: Duration,
    /// How many millionths faster than true time its clock goes.
    pub ppm: i32,
    /// Its durations.
    pub timing: Timing,
    /// How long it waits before its first claim.
    pub claim_delay: Duration,
    /// Whether it watches the records.
    pub watches: bool,
    /// What it does after a term.
    pub on_loss: OnLoss,
    /// Whether it is away for long, and at last gone for good.
    pub goes: bool,
}

/// Weights of what is done to the members, per thousand of all faults; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // they are named after the actions
pub struct ElectionFaults {
    pub crash: u64,
    pub pause: u64,
    pub suspend: u64,
    pub outage: u64,
    pub resign: u64,
    pub stop: u64,
    pub disable: u64,
    pub configure: u64,
    pub priority: u64,
    pub evict: u64,
    pub exit: u64,
    pub poke: u64,
    pub lose_seat: u64,
}

impl ElectionFaults {
    /// All weights, in the order in which they are drawn from.
    pub fn weights(&self) -> [u64; 13] {
        [
            self.crash,
            self.pause,
            self.suspend,
            self.outage,
            self.resign,
            self.stop,
            self.disable,
            self.configure,
            self.priority,
            self.evict,
            self.exit,
            self.poke,
            self.lose_seat,
        ]
    }
}

/// What calls and roles suffer, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // said in the table of fates
pub struct Rates {
    pub slow: u64,
    pub conflict: u64,
    pub unknown_done: u64,
    pub unknown_lost: u64,
    pub unknown_later: u64,
    pub unavailable: u64,
    /// Of the changes of the configuration: whoever leads loses its connection with its next commit.
    pub breaks: u64,
    pub slow_role: u64,
    pub failing_role: u64,
    pub slow_write: u64,
}

/// What one run is drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectionSetup {
    /// The seed.
    pub seed: u64,
    /// The machines.
    pub members: Vec<SeatedMember>,
    /// How the election is run at first.
    pub config: ElectionConfig,
    /// Where its records are.
    pub keys: ElectionKeys,
    /// Whether clocks keep to the declared rate.
    pub sound_clocks: bool,
    /// What is done.
    pub faults: ElectionFaults,
    /// How often, on average, something is done.
    pub every: Duration,
    /// What calls suffer.
    pub rates: Rates,
    /// How long it goes on, before everything is healed.
    pub lasts: Duration,
}

/// The name of the election in the simulator.
pub(super) fn election() -> ElectionName {
    ElectionName::new("seat").expect("it is a name")
}

impl ElectionSetup {
    /// The world of a seed.
    pub fn draw(scenario: ElectionScenario, seed: u64, rng: &mut Rng) -> Self {
        let count = 2 + rng.index(4);
        let lease = Duration::from_secs(10);
        let mut config = config(rng, lease);
        let tight =
            matches!(scenario, ElectionScenario::Pauses | ElectionScenario::Drift) || rng.per_mille(400);
        let mut members: Vec<_> = (0..count).map(|index| seated(scenario, rng, index, tight)).collect();
        have_some_go(scenario, seed, &mut members, &mut config);
        let keys = ClusterKeys::new(&ClusterName::new("sim").expect("it is a name")).election(&election());
        let (mut faults, rates) = adversity(scenario, rng);
        let every = Duration::from_millis(2000 + rng.below(6000));
        let mut lasts = Duration::from_secs(60 + rng.below(60));
        if members.iter().any(|seat| seat.goes) {
            // So that some come back after they were swept away.
            faults.pause = faults.pause.max(300);
            lasts *= 2;
        }
        Self {
            seed,
            members,
            config,
            keys,
            sound_clocks: scenario != ElectionScenario::Drift,
            faults,
            every,
            rates,
            lasts,
        }
    }

    /// A world without faults, for what is done by hand.
    pub fn calm(count: usize) -> Self {
        let mut rng = Rng::new(0);
        let mut setup = Self::draw(ElectionScenario::Elections, 0, &mut rng);
        let seat = |index: usize| SeatedMember {
            member: member(index),
            priority: 1,
            clock: Duration::from_secs(100 * (index as u64 + 1)),
            ppm: 0,
            timing: Timing::for_lease(Duration::from_secs(10)),
            claim_delay: Duration::ZERO,
            watches: false,
            on_loss: OnLoss::Follow,
            goes: false,
        };
        setup.members = (0..count).map(seat).collect();
        setup.config = ElectionConfig::new(Policy::sticky(), Duration::from_secs(10));
        setup.faults = ElectionFaults::default();
        setup.rates = Rates::default();
        setup
    }

    /// Whether some members are away for long.
    pub fn has_goers(&self) -> bool {
        self.members.iter().any(|seat| seat.goes)
    }

    /// The longest lease that a configuration may have here.
    pub const MAX_LEASE: Duration = Duration::from_secs(20);
}

fn member(index: usize) -> MemberId {
    MemberId::new(format!("m{index}")).expect("it is a name")
}

fn config(rng: &mut Rng, lease: Duration) -> ElectionConfig {
    let mut policy = match rng.below(5) {
        0 | 1 => Policy::sticky(),
        2 | 3 => Policy::preempting(),
        _ => Policy::ranked(),
    };
    if policy.preempt != Preempt::Never {
        if rng.below(2) == 0 {
            policy.replace = Replace::HandOver { grace: Duration::from_secs(1 + rng.below(6)) };
        }
        if rng.below(3) == 0 {
            policy.min_tenure = Duration::from_secs(5 + rng.below(15));
        }
    }
    let mut config = ElectionConfig::new(policy, lease);
    if rng.below(3) == 0 {
        config.lock_delay = Duration::from_secs(1 + rng.below(3));
    }
    config
}

fn seated(scenario: ElectionScenario, rng: &mut Rng, index: usize, tight: bool) -> SeatedMember {
    // The first is always eligible and nobody's namesake: somebody can lead in every world.
    let namesakes = if scenario == ElectionScenario::Pauses { 300 } else { 100 };
    let is_namesake = index >= 2 && rng.per_mille(namesakes);
    let priority = if index > 0 && rng.per_mille(80) { 0 } else { 1 + u32::from(rng.below(3) == 0) };
    let most = if scenario == ElectionScenario::Drift { 350_000 } else { u64::from(DRIFT_PPM / 2) };
    let ppm = i32::try_from(rng.below(2 * most + 1)).unwrap_or(0) - i32::try_from(most).unwrap_or(0);
    let mut timing = Timing::for_lease(Duration::from_secs(10));
    if tight {
        timing.margin = Duration::from_millis(5);
        timing.stop_budget = Duration::from_millis(rng.below(3) * 50);
        timing.op_timeout = Duration::from_secs(3);
    }
    SeatedMember {
        member: member(if is_namesake { index - 1 } else { index }),
        priority,
        clock: Duration::from_secs(1 + rng.below(10_000)),
        ppm,
        timing,
        claim_delay: Duration::from_millis(rng.below(3) * 700),
        watches: rng.below(3) > 0,
        on_loss: if rng.per_mille(100) { OnLoss::Stop } else { OnLoss::Follow },
        goes: false,
    }
}

/// In some worlds candidates are soon taken for silent, and some are away for far longer than that. Drawn from the seed alone, so
/// that all other worlds are what they were before there were such.
fn have_some_go(
    scenario: ElectionScenario,
    seed: u64,
    members: &mut [SeatedMember],
    config: &mut ElectionConfig,
) {
    let mut rng = Rng::new(seed ^ 0x0607_9e5f_04ee_5eed);
    if matches!(scenario, ElectionScenario::Admin | ElectionScenario::Drift) || !rng.per_mille(200) {
        return;
    }
    // The first one stays.
    let goes = 1 + rng.index(members.len() - 1);
    for seat in members.iter_mut().skip(goes) {
        seat.goes = true;
    }
    config.candidate_timeout = Duration::from_millis(800 + rng.below(1200));
}

/// Each seed goes without some of it: what is rare shows only when the rest is silent.
fn adversity(scenario: ElectionScenario, rng: &mut Rng) -> (ElectionFaults, Rates) {
    let mut some = |weight: u64| if rng.per_mille(600) { weight } else { 0 };
    let mut faults = ElectionFaults {
        crash: some(120),
        pause: some(150),
        suspend: some(100),
        outage: some(80),
        resign: some(100),
        stop: some(60),
        disable: some(40),
        configure: some(60),
        priority: some(60),
        evict: some(30),
        exit: some(40),
        poke: some(60),
        lose_seat: 0,
    };
    let mut rates = Rates {
        slow: some(40),
        conflict: some(30),
        unknown_done: some(40),
        unknown_lost: some(40),
        unknown_later: some(40),
        unavailable: some(30),
        breaks: 0,
        slow_role: some(200),
        failing_role: some(150),
        slow_write: some(150),
    };
    match scenario {
        ElectionScenario::Elections | ElectionScenario::Drift => faults.lose_seat = some(10),
        ElectionScenario::Pauses => {
            faults = ElectionFaults {
                crash: 40,
                pause: 400,
                suspend: 250,
                outage: some(60),
                ..ElectionFaults::default()
            };
            rates.slow = 150;
        }
        ElectionScenario::Store => {
            faults =
                ElectionFaults { crash: 150, outage: 150, pause: 200, poke: 60, ..ElectionFaults::default() };
            let lost = 20 + rng.below(80);
            rates = Rates {
                slow: 80,
                conflict: lost,
                unknown_done: lost,
                unknown_lost: lost,
                unknown_later: lost,
                unavailable: lost,
                ..rates
            };
        }
        ElectionScenario::Admin => {
            faults = ElectionFaults {
                crash: 80,
                outage: 200,
                resign: 150,
                stop: 60,
                disable: 80,
                configure: 250,
                priority: 150,
                evict: 150,
                exit: 50,
                ..ElectionFaults::default()
            };
            // Who leads does not hear what holds now, and others do as they were told.
            rates.breaks = 400;
        }
    }
    if faults.weights().iter().sum::<u64>() == 0 {
        faults.crash = 100;
    }
    (faults, rates)
}
