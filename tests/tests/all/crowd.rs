//! As many real processes as are asked for: what a node asks of the store does not grow with them, and half of them may die at once.
//!
//! `CALLSIGN_TEST_CROWD=33 cargo test -p callsign-tests --test all crowd -- --nocapture` prints what each kind of node asks.

use std::{fmt, time::Duration};

use callsign_tests::{Cluster, NodeProcess, StartOptions, eventually};

use crate::metrics::value;

/// Says how many nodes; without it, so many that one which observes all sessions asks for more keys than one that rests may.
const CROWD: &str = "CALLSIGN_TEST_CROWD";
const FEW: usize = 12;
/// The leader and the members that it names, which look after the registry.
const LOOKING_AFTER: usize = 4;
/// Long enough that no session of the living lapses, however many processes this machine has to run.
const LEASE: Duration = Duration::from_secs(10);
/// So many beats are waited for while nothing happens: ten seconds.
const BEATS: u64 = 5;
/// All is to be there within this, however many nodes there are.
const CROWD_DEADLINE: Duration = Duration::from_secs(120);

/// What a node that rests asks of the store for each beat of its session, with any number of nodes. The script of a minute in
/// `sim/tests/counts` has 113 reads of 937 keys for its 30 beats.
const READS_OF_A_BEAT: u64 = 5;
const KEYS_OF_A_BEAT: u64 = 42;
/// What it reads beside that when another node joins, and when the leader dies. The same scripts have 4 and 26, in a cluster that is
/// waited for to the millisecond.
const READS_OF_A_JOIN: u64 = 12;
/// What it asks for in one look, with any number of nodes. With some twenty nodes and more, a read of all rows and sessions makes it ask for more.
const KEYS_OF_A_LOOK: u64 = 13;
const READS_OF_A_FAILOVER: u64 = 40;
/// What it commits then, for itself.
const COMMITS_OF_A_FAILOVER: u64 = 12;
/// What the leader reads in all beyond what a node that rests does, while nothing happens; and commits: it cuts the log.
const READS_OF_A_LEADER: u64 = 9;
const COMMITS_OF_A_LEADER: u64 = 8;

/// What an idle leader asks for in each beat: all sessions, again and again. Twice what `docs/figures.md` has of 33 and of 64
/// processes: 848 and 1 605 keys in 6 beats.
fn keys_of_a_leaders_beat(nodes: u64) -> u64 {
    20 + 7 * nodes
}

/// What a node that rests asks for when the leader dies. On a machine that has time for all of them it looks at little, with any number of
/// nodes: the same page has 146 keys of 33. If it hears nothing of the next leader for two seconds, it reads everything again and again, and
/// the more often the more there are: 2 179 keys of 64.
fn keys_of_a_failover(nodes: u64) -> u64 {
    400 + nodes * nodes * 3 / 4
}

/// What a node has asked of its store so far.
#[derive(Clone, Copy, Debug)]
struct Asked {
    beats: u64,
    reads: u64,
    keys: u64,
    commits: u64,
}

impl Asked {
    fn by(node: &NodeProcess) -> Self {
        let text = node.client.metrics().unwrap();
        let of = |metric: &str| value(&text, metric);
        Self {
            beats: of("callsign_session_beats_total"),
            reads: of("callsign_store_requests_total{request=\"read\"}"),
            keys: of("callsign_store_keys_total{request=\"read\"}"),
            commits: of("callsign_store_requests_total{request=\"commit\"}"),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            beats: self.beats - before.beats,
            reads: self.reads - before.reads,
            keys: self.keys - before.keys,
            commits: self.commits - before.commits,
        }
    }

    /// Fails if it is more than the node's beats take, and so much more.
    fn is_at_most(self, what: &str, reads: u64, commits: u64) {
        // The beat before, too, may have been counted when its reads were not yet.
        let beats = self.beats + 1;
        assert!(self.reads <= beats * READS_OF_A_BEAT + reads, "{what}: {self}");
        assert!(self.commits <= beats + commits, "{what}: {self}");
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { beats, reads, keys, commits } = self;
        write!(f, "{reads} reads of {keys} keys or ranges, and {commits} commits, in {beats} beats")
    }
}

/// Has the node beat so often.
fn wait_for_beats(node: &NodeProcess, beats: u64) {
    let enough = Asked::by(node).beats + beats;
    eventually("it beats", CROWD_DEADLINE, || {
        let asked = Asked::by(node);
        if asked.beats >= enough { Ok(()) } else { Err(asked.to_string()) }
    });
}

#[test]
fn a_node_asks_the_same_of_the_store_however_many_there_are_and_half_of_them_may_die_at_once() {
    let nodes = std::env::var(CROWD).map_or(FEW, |nodes| nodes.parse().unwrap());
    let names: Vec<String> = (0..nodes).map(|node| format!("n{node:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (new, first) = names.split_last().unwrap();
    // The first ones by name observe all sessions.
    let rests = first.last().unwrap();
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), first);
    for name in first {
        cluster.register(name, &format!("of-{name}"));
    }
    let leader = cluster.leader();
    assert_ne!(leader, **rests, "the first one leads");

    // What it read to join is behind it.
    wait_for_beats(cluster.node(rests), 2);
    let before = [&leader, *rests].map(|node| Asked::by(cluster.node(node)));
    wait_for_beats(cluster.node(rests), BEATS);
    let idle = [&leader, *rests].map(|node| Asked::by(cluster.node(node)));
    let [by_leader, idle] = [0, 1].map(|which: usize| idle[which].since(before[which]));
    println!("idle, of {} nodes: the leader: {by_leader}", first.len());
    by_leader.is_at_most("nothing happens, the leader", READS_OF_A_LEADER, COMMITS_OF_A_LEADER);
    let most = (by_leader.beats + 1) * keys_of_a_leaders_beat(first.len() as u64);
    assert!(by_leader.keys <= most, "nothing happens, the leader: {by_leader}, and {most} keys are the most");
    println!("idle, of {} nodes: one that rests: {idle}", first.len());
    idle.is_at_most("nothing happens", 0, 1);
    assert!(idle.keys <= (idle.beats + 1) * KEYS_OF_A_BEAT, "nothing happens: {idle}");

    let (before, of_leader) = (Asked::by(cluster.node(rests)), Asked::by(cluster.node(&leader)));
    for name in first {
        cluster.register(name, &format!("more-of-{name}"));
    }
    let asked = Asked::by(cluster.node(rests)).since(before);
    let by_leader = Asked::by(cluster.node(&leader)).since(of_leader);
    println!("{} registrations: one that rests: {asked}; the leader: {by_leader}", first.len());
    asked.is_at_most("others register", 0, 1);
    // It may cut the log meanwhile.
    by_leader.is_at_most("it decides one registration after another", 0, first.len() as u64 + 8);

    let resting = &first[LOOKING_AFTER..];
    let before: Vec<_> = resting.iter().map(|name| Asked::by(cluster.node(name))).collect();
    cluster.launch(new);
    cluster.wait_until_ready();
    let asked = resting.iter().zip(before).map(|(name, before)| Asked::by(cluster.node(name)).since(before));
    let asked: Vec<_> = asked.collect();
    let last = asked.last().unwrap();
    println!("a node joins: one that rests: {last}");
    last.is_at_most("a node joins", READS_OF_A_JOIN, 1);
    // Some read everything then, as they do once a minute.
    let told = asked.iter().filter(|asked| asked.keys <= asked.reads * KEYS_OF_A_LOOK).count();
    println!("a node joins: {told} of {} that rest have read no rows", resting.len());
    assert!(told * 2 > resting.len(), "a node joins: {asked:?}");

    let before = Asked::by(cluster.node(rests));
    cluster.kill(&leader);
    cluster.register(rests, "after");
    let asked = Asked::by(cluster.node(rests)).since(before);
    println!("the leader dies: one that rests: {asked}");
    asked.is_at_most("the leader dies", READS_OF_A_FAILOVER, COMMITS_OF_A_FAILOVER);
    let most = (asked.beats + 1) * KEYS_OF_A_BEAT + keys_of_a_failover(nodes as u64);
    assert!(asked.keys <= most, "the leader dies: {asked}, and {most} keys are the most");

    // The next leader among them, and those that observe: they are the first by name.
    let dying: Vec<String> = cluster.names().into_iter().take(nodes / 2).collect();
    for name in &dying {
        cluster.kill(name);
    }
    for name in &dying {
        cluster.register(rests, &format!("of-{name}"));
    }
    cluster.wait_until_ready();
    cluster.no_session_was_lost();
    cluster.check();
}
