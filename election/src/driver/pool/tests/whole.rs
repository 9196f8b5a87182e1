//! Seven peers, clocks that differ less than declared, partitions, crashes; then all heals.

use super::*;

const PEERS: usize = 7;
/// How long the pool is in pieces, and how long before its end nobody crashes any more, in seconds.
const TORN: u64 = 400;
const CALM: u64 = 150;

struct World {
    now: Now,
    timing: PoolTiming,
    peers: Vec<Node>,
    /// Which part each peer is in.
    parts: Vec<u32>,
    random: StdRng,
}

struct Node {
    peer: Peer,
    held: Option<Grant<()>>,
    /// Until when it trusts, in true milliseconds.
    until: u64,
    /// When it looks next, in seconds.
    next: u64,
    crashed: bool,
    sees: Option<MemberId>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (now, timing) = (Now::default(), PoolTiming::default());
        let peers = (0..PEERS)
            .map(|n| {
                // Below the bound, between any two.
                let skew = Duration::from_millis(random.random_range(0..20_000));
                let priority = random.random_range(0..4);
                let peer = peer(&Shelf::default(), &now, &format!("p{n}"), priority, timing, skew);
                let next = random.random_range(0..timing.recheck.as_secs());
                Node { peer, held: None, until: 0, next, crashed: false, sees: None }
            })
            .collect();
        Self { now, timing, peers, parts: vec![0; PEERS], random }
    }

    fn second(&mut self, second: u64) {
        self.now.store(second * 1000, Ordering::SeqCst);
        self.sync();
        for node in &mut self.peers {
            if node.crashed || node.next > second {
                continue;
            }
            node.next = second + self.timing.recheck.as_secs();
            let until = node.until;
            let held = node.held.take().filter(|_| second * 1000 < until);
            let verdict = match &held {
                Some(held) => node.peer.refresh(held),
                None => node.peer.claim(),
            };
            match verdict.unwrap() {
                Verdict::Granted(grant) => {
                    let Validity::For(validity) = grant.validity else { panic!("{grant:?}") };
                    node.until = second * 1000 + u64::try_from(validity.as_millis()).unwrap();
                    node.sees = Some(node.peer.id.clone());
                    node.held = Some(grant);
                }
                Verdict::Denied(denial) => node.sees = denial.leader.map(|term| term.leader),
            }
        }
    }

    /// Rows travel within a part; of two of one peer the later wins.
    fn sync(&mut self) {
        for from in 0..PEERS {
            let rows: Vec<_> = self.peers[from].peer.shelf.rows.lock().unwrap().values().cloned().collect();
            for to in 0..PEERS {
                if self.parts[from] != self.parts[to] {
                    continue;
                }
                let mut there = self.peers[to].peer.shelf.rows.lock().unwrap();
                for row in &rows {
                    let at = there.entry(row.member.clone()).or_insert_with(|| row.clone());
                    if row.heartbeat > at.heartbeat {
                        *at = row.clone();
                    }
                }
            }
        }
    }

    fn leaders(&self) -> BTreeSet<&MemberId> {
        let now = self.now.load(Ordering::SeqCst);
        let leading =
            self.peers.iter().filter(|node| !node.crashed && node.held.is_some() && now < node.until);
        leading.map(|node| &node.peer.id).collect()
    }
}

#[test]
fn e8_e10_c13_seven_peers_agree_again_within_expiry_and_two_rechecks_of_healing() {
    let (mut torn_leaders, mut crashes, mut led) = (0, 0, BTreeSet::new());
    for seed in 0..60 {
        let mut world = World::new(seed);
        for second in 0..TORN {
            if world.random.random_range(0..40) == 0 {
                world.parts = (0..PEERS).map(|_| world.random.random_range(0..3)).collect();
            }
            if second < TORN - CALM && world.random.random_range(0..150) == 0 {
                let n = world.random.random_range(0..PEERS);
                world.peers[n].crashed = true;
                crashes += 1;
            }
            world.second(second);
            torn_leaders = torn_leaders.max(world.leaders().len());
        }
        world.parts = vec![0; PEERS];
        let end = TORN + world.timing.expiry.as_secs() + 2 * world.timing.recheck.as_secs();
        for second in TORN..=end {
            world.second(second);
        }
        let alive = || world.peers.iter().filter(|node| !node.crashed);
        let rows = alive().filter_map(|node| node.peer.row()).filter(|row| row.priority > 0);
        let best = rows.min_by_key(|row| (std::cmp::Reverse(row.priority), row.joined, row.member.clone()));
        let best = best.map(|row| row.member);
        for node in alive() {
            assert_eq!(node.sees, best, "seed {seed}: as {} sees it", node.peer.id);
        }
        assert_eq!(world.leaders(), best.iter().collect(), "seed {seed}");
        led.extend(best);
    }
    assert!(torn_leaders > 1, "a torn pool had two leaders: that is what it does not promise");
    assert!(crashes > 10 && led.len() > 3, "something happened");
}
