//! What each scenario makes of the standard mix.

use super::{Drag, extras, permits::drawn_permits, referring::refer};
use super::{Faults, Profile, Scenario, StoreFaults, Work, standard::standard};
use crate::rng::Rng;

impl Scenario {
    /// The profile of a seed: the scenario's mix, and what some seeds of every scenario have besides.
    pub fn profile(self, seed: u64, rng: &mut Rng) -> Profile {
        let mut profile = self.mix(rng);
        extras::add(&mut profile, seed);
        refer(&mut profile, seed);
        profile
    }

    /// The mix alone.
    pub fn mix(self, rng: &mut Rng) -> Profile {
        let mut profile = standard(rng);
        match self {
            Self::Standard => {}
            Self::Calm => {
                profile.fault = 0;
                profile.store = StoreFaults::default();
            }
            Self::Forming => {
                profile.nodes = 2 + rng.index(4);
                profile.from_nothing = true;
                profile.steps = 300;
            }
            Self::Crashes => {
                profile.fault = 30;
                profile.faults = Faults { crash: 10, start: 14, land: 4, ..Faults::default() };
                profile.budget = 12;
                profile.steps = 300;
                profile.mourn = rng.below(2) == 0;
            }
            Self::Cuts => {
                profile.fault = 35;
                profile.faults =
                    Faults { cut: 8, block: 10, isolate: 4, crash: 1, start: 2, ..Faults::default() };
                profile.budget = 14;
                profile.steps = 300;
            }
            Self::Store => {
                profile.fault = 20;
                profile.faults =
                    Faults { outage: 4, land: 10, crash: 2, start: 3, pause: 2, ..Faults::default() };
                profile.store = StoreFaults {
                    late: 100,
                    conflict: 40,
                    unknown_done: 60,
                    unknown_lost: 40,
                    unknown_later: 60,
                    unavailable: 30,
                    mute: 0,
                };
                profile.budget = 20;
            }
            Self::Clocks => {
                profile.faults = Faults {
                    pause: 12,
                    outage: 4,
                    rate: 6,
                    crash: 1,
                    start: 2,
                    land: 2,
                    ..Faults::default()
                };
                profile.fault = 30;
                profile.jump = 4000;
                profile.steps = 300;
                profile.ppm = 490;
                profile.proof = false;
            }
            Self::Large => {
                profile.nodes = 5;
                profile.steps = 600;
                profile.budget = 16;
            }
            Self::Bulk => {
                profile.names = 14;
                profile.call = 300;
                profile.lane = 6;
                profile.steps = 400;
                profile.work.lookup = 1;
            }
            Self::Leaders => {
                profile.nodes = 2 + rng.index(4);
                profile.aim = 600;
                profile.faults = Faults {
                    crash: rng.below(3),
                    start: 6,
                    pause: 6,
                    block: 10,
                    isolate: 6,
                    outage: rng.below(3),
                    land: 2,
                    watch: 1,
                    forsake: rng.below(12),
                    ..Faults::default()
                };
                profile.fault = 30;
                profile.call = 60;
                profile.work.resign = [0, 6, 30][rng.index(3)];
                profile.work.unregister += 8;
                profile.budget = 12;
                profile.jump = 4000;
                profile.long = 1 + rng.below(30);
                profile.steps = 300;
                profile.hold = rng.below(3) * 12;
            }
            Self::Links => {
                profile.nodes = 2 + rng.index(2);
                profile.faults =
                    Faults { crash: 4, power: 6, start: 30, cut: 10, block: 4, ..Faults::default() };
                profile.fault = 60;
                profile.call = 20;
                profile.budget = 30;
                profile.steps = 300;
                profile.hold = 10;
            }
            Self::Slow => {
                profile.nodes = 2 + rng.index(2);
                profile.hold = 20;
                profile.hold_sessions = rng.below(2) == 0;
                profile.faults =
                    Faults { outage: 8, pause: 4, crash: 1, start: 3, land: 6, ..Faults::default() };
                profile.fault = 20;
                profile.aim = rng.below(2) * 400;
                profile.work.resign = rng.below(4);
                profile.jump = 1500;
                profile.long = 1 + rng.below(20);
                profile.steps = 400;
                profile.proof = rng.below(4) == 0;
                profile.store.unknown_later = rng.below(100);
            }
            Self::Forsaken => {
                profile.nodes = 2 + rng.index(2);
                profile.names = 1 + u8::try_from(rng.below(2)).unwrap_or(0);
                profile.faults = Faults { forsake: 10, land: 2, block: 2, ..Faults::default() };
                profile.fault = 30;
                profile.budget = 6;
                profile.call = 150;
                profile.aim = 400;
                profile.work = Work { register: 20, unregister: 15, ..profile.work };
                profile.work.resign = rng.below(2) * 6;
                profile.hold = rng.below(2) * 10;
                profile.steps = 400;
            }
            Self::Lapses => {
                profile.nodes = 2 + rng.index(2);
                profile.names = 8;
                profile.faults = Faults { lapse: 10, ..Faults::default() };
                profile.fault = 20;
                profile.budget = 3;
                profile.call = 60;
                profile.work = Work { register: 20, unregister: 6, ..profile.work };
                profile.steps = 500;
                profile.proof = false;
                profile.store = StoreFaults::default();
            }
            Self::Snapshots => {
                profile.nodes = 2 + rng.index(3);
                profile.names = 12;
                profile.lag = [150, 400, 1000][rng.index(3)];
                profile.faults = Faults {
                    crash: 8,
                    start: 16,
                    block: 6,
                    cut: 3,
                    pause: 3,
                    outage: 2,
                    land: 3,
                    ..Faults::default()
                };
                profile.fault = 30;
                profile.call = 250;
                profile.aim = rng.below(2) * 300;
                profile.budget = 14;
                profile.long = 1 + rng.below(10);
                profile.jump = 2000;
                profile.steps = 400;
                profile.hold = 8 + rng.below(24);
                profile.hold_donors = [0, 100][rng.index(2)];
                profile.store.unknown_later = rng.below(80);
            }
            Self::Draining => {
                profile.own_names = 1;
                profile.nodes = 2 + rng.index(4);
                profile.names = 6;
                profile.faults = Faults {
                    crash: rng.below(3),
                    start: 20,
                    pause: rng.below(4),
                    block: rng.below(6),
                    cut: rng.below(4),
                    outage: rng.below(3),
                    land: 2,
                    ..Faults::default()
                };
                profile.fault = 25;
                profile.budget = 14;
                profile.call = 120;
                profile.aim = rng.below(3) * 300;
                profile.work.drain = [3, 12, 40][rng.index(3)];
                profile.steps = 400;
                profile.hold = rng.below(3) * 10;
                profile.mourn = rng.below(2) == 0;
            }
            Self::Joining => {
                profile.own_names = 1;
                profile.nodes = 2 + rng.index(2);
                profile.from_nothing = true;
                profile.faults = Faults {
                    join: 6,
                    lapse: 6,
                    outage: 6,
                    crash: rng.below(2),
                    start: 4,
                    pause: rng.below(3),
                    ..Faults::default()
                };
                profile.fault = 40;
                profile.budget = 16;
                profile.call = 100;
                profile.jump = 3000;
                profile.long = 1 + rng.below(20);
                profile.steps = 400;
                profile.proof = rng.below(2) == 0;
            }
            Self::Versions => {
                profile.nodes = 2 + rng.index(2);
                profile.names = 6;
                profile.newer = (0..3).filter(|_| rng.below(2) == 0).collect();
                profile.from_nothing = rng.below(2) == 0;
                profile.lag = [150, 64 << 20][rng.index(2)];
                profile.faults =
                    Faults { crash: 8, start: 10, lapse: 2, land: 4, cut: 2, ..Faults::default() };
                profile.fault = 30;
                profile.call = 150;
                profile.aim = rng.below(2) * 400;
                profile.work.resign = rng.below(3) * 6;
                profile.budget = 10;
                profile.steps = 300;
            }
            Self::Configured => {
                profile.nodes = 2 + rng.index(4);
                profile.work.configure = 20;
                profile.work.resign = 4 + rng.below(3) * 6;
                profile.call = 150;
                profile.faults =
                    Faults { crash: 6, start: 10, land: 4, cut: 3, block: 3, pause: 2, ..Faults::default() };
                profile.fault = 25;
                profile.aim = rng.below(2) * 400;
                profile.steps = 300;
            }
            Self::Claims => {
                profile.own_names = 1;
                profile.nodes = 2 + rng.index(2);
                profile.names = 3 + u8::try_from(rng.below(4)).unwrap_or(0);
                profile.faults = Faults {
                    outage: 6,
                    lapse: 4,
                    pause: 3,
                    crash: 1,
                    start: 4,
                    land: 2,
                    ..Faults::default()
                };
                profile.fault = 15;
                profile.call = 200;
                profile.aim = rng.below(2) * 300;
                profile.work =
                    Work { register: 20, again: 6, unregister: 12, beside: 25, end: 6, ..profile.work };
                profile.steps = 300;
            }
            Self::Liars => {
                profile.nodes = 2 + rng.index(3);
                profile.faults =
                    Faults { lie: 20, crash: 1, start: 6, cut: 2, pause: 2, land: 2, ..Faults::default() };
                profile.fault = 30;
                profile.budget = 10;
                profile.work.resign = rng.below(3) * 3;
                profile.steps = 300;
            }
            Self::Sweeping => {
                profile.nodes = 3 + rng.index(3);
                profile.sweep = 200 + rng.below(800);
                profile.faults = Faults {
                    crash: 8,
                    start: 10,
                    pause: rng.below(3),
                    outage: rng.below(3),
                    land: 6,
                    ..Faults::default()
                };
                profile.fault = 25;
                profile.budget = 20;
                profile.aim = rng.below(2) * 300;
                profile.work.leave = 4 + rng.below(12);
                profile.jump = 1500;
                profile.long = 4 + rng.below(20);
                profile.steps = 500;
                profile.hold = rng.below(3) * 8;
                profile.hold_sessions = rng.below(2) == 0;
                profile.proof = rng.below(4) > 0;
                profile.store.unknown_later = rng.below(100);
            }
            Self::Callers => {
                profile.nodes = 2 + rng.index(2);
                profile.names = 4;
                let crash = rng.below(2);
                profile.faults =
                    Faults { lapse: 6, outage: 6, pause: 2, crash, start: 3 * crash, ..Faults::default() };
                profile.fault = 25;
                profile.budget = 6;
                profile.call = 100;
                profile.work = Work { register: 4, patient: 25, unregister: 10, ..profile.work };
                profile.steps = 500;
                profile.jump = 3000;
            }
            Self::Refusing => {
                profile.own_names = 1;
                profile.nodes = 2 + rng.index(3);
                profile.faults = Faults { refuse: 10, crash: rng.below(2), start: 3, ..Faults::default() };
                profile.fault = 15;
                profile.budget = 3;
                profile.call = 60;
                profile.steps = 500;
                profile.proof = false;
                profile.store = StoreFaults { late: profile.store.late, ..StoreFaults::default() };
            }
            Self::Mute => {
                profile.nodes = 2 + rng.index(2);
                profile.faults = Faults { crash: 2, start: 4, pause: 1, land: 6, ..Faults::default() };
                profile.fault = 15;
                profile.call = 120;
                profile.store = StoreFaults { mute: 20 + rng.below(60), ..profile.store };
                profile.steps = 300;
            }
            Self::Oversize => {
                profile.nodes = 2 + rng.index(2);
                // Small batches are many messages; what a full lane costs is looked at elsewhere.
                profile.lane = 64;
                profile.names = 14;
                profile.most_ops = 2 + rng.index(3);
                profile.call = 300;
                profile.work = Work { register: 20, unregister: 15, end: 4, ..profile.work };
                profile.hold = rng.below(2) * 10;
                profile.steps = 300;
            }
            Self::Sluggish => {
                let kind = rng.index(3);
                profile.drag = [Drag::Ways, Drag::Donor, Drag::Store][kind];
                // What a full lane costs on top of slow ways is looked at elsewhere.
                profile.lane = 64;
                profile.nodes = 3 + rng.index(2);
                profile.names = 12;
                profile.faults = Faults { crash: 8, start: 6, cut: 2, land: 3, ..Faults::default() };
                profile.fault = 25;
                profile.call = 250;
                profile.budget = 10;
                profile.mourn = rng.below(4) > 0;
                profile.steps = 300;
            }
            Self::Parting => {
                profile.own_names = 1;
                profile.nodes = 2 + rng.index(2);
                profile.faults = Faults { part: 10, renew: 6, start: 4, land: 1, ..Faults::default() };
                profile.fault = 15;
                profile.budget = 4;
                profile.call = 60;
                profile.steps = 500;
                profile.store = StoreFaults::default();
            }
            Self::WentBack => {
                profile.nodes = 2 + rng.index(3);
                profile.faults = Faults {
                    back: 8,
                    crash: rng.below(3),
                    start: 6,
                    pause: rng.below(4),
                    outage: rng.below(4),
                    isolate: rng.below(2),
                    cut: rng.below(3),
                    land: 4,
                    ..Faults::default()
                };
                profile.fault = 12;
                profile.budget = 1 + u32::try_from(rng.below(6)).unwrap_or(0);
                profile.call = [20, 80, 150][rng.index(3)];
                profile.jump = [300, 1500, 4000][rng.index(3)];
                profile.long = 1 + rng.below(10);
                profile.steps = 500;
                profile.proof = rng.below(2) == 0;
                profile.hold = rng.below(3) * 6;
            }
            Self::Failing => {
                profile.nodes = 2 + rng.index(3);
                profile.faults = Faults {
                    fail: 10,
                    start: 10,
                    crash: rng.below(2),
                    outage: rng.below(3),
                    land: 3,
                    ..Faults::default()
                };
                profile.fault = 25;
                profile.budget = 12;
                profile.call = 120;
                profile.aim = rng.below(3) * 300;
                profile.proof = rng.below(2) == 0;
                profile.steps = 300;
            }
            Self::Permitted => {
                profile.nodes = 2 + rng.index(4);
                profile.names = 4;
                // As new nodes, so that they join with what their certificates say.
                profile.from_nothing = true;
                let drawn = (0..profile.nodes).map(|node| drawn_permits(rng, node)).collect();
                profile.permits = drawn;
                profile.work =
                    Work { register: 25, unregister: 15, join: 6, acquire: 6, start: 8, ..profile.work };
                profile.work.resign = 3 + rng.below(3) * 6;
                profile.faults = Faults {
                    certify: [0, 6, 20][rng.index(3)],
                    crash: rng.below(6),
                    start: 8,
                    cut: 3,
                    block: rng.below(4),
                    land: 4,
                    pause: rng.below(3),
                    ..Faults::default()
                };
                profile.fault = 30;
                profile.budget = 16;
                profile.call = 150;
                profile.aim = rng.below(3) * 300;
                profile.steps = 400;
            }
            Self::Moving => {
                profile.offers = true;
                profile.own_names = 1 + rng.index(2);
                profile.nodes = 3 + rng.index(2);
                profile.names = 8;
                profile.faults = Faults {
                    crash: rng.below(3),
                    start: 20,
                    pause: rng.below(4),
                    block: rng.below(6),
                    cut: rng.below(4),
                    outage: rng.below(3),
                    lapse: rng.below(2),
                    land: 2,
                    ..Faults::default()
                };
                profile.fault = 25;
                profile.budget = 14;
                profile.call = 150;
                profile.aim = rng.below(2) * 300;
                profile.work.register = 40;
                profile.work.drain = [4, 12][rng.index(2)];
                profile.work.offer = 30;
                profile.steps = 400;
                profile.hold = rng.below(3) * 10;
            }
            Self::Perishing => {
                profile.nodes = 4 + rng.index(4);
                profile.observers = 1 + rng.index(3);
                // In the others the store proves deaths, which are then found at once.
                profile.proof = rng.below(8) == 0;
                profile.faults = Faults {
                    perish: 10,
                    sever: rng.below(6),
                    start: 14,
                    pause: rng.below(5),
                    crash: 2,
                    ..Faults::default()
                };
                profile.fault = 12;
                profile.budget = 10;
                profile.call = 40;
                profile.jump = 1500;
                profile.long = 1 + rng.below(20);
                profile.steps = 500;
                profile.store = StoreFaults::default();
                profile.mourn = rng.below(2) == 0;
            }
            Self::Drift => {
                // Few things but registrations, so that a name of a session that was closed is soon another's.
                profile.work =
                    Work { register: 40, unregister: 2, end: 2, start: 6, take: 2, ..Work::default() };
                profile.names = 2;
                profile.call = 150;
                profile.faults = Faults { pause: 6, outage: 12, ..Faults::default() };
                profile.fault = 40;
                profile.jump = 2000;
                profile.steps = 400;
                profile.ppm = 500_000;
                profile.proof = false;
            }
        }
        profile
    }
}
