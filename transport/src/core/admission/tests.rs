use super::*;

const LIMITS: LinkLimits = LinkLimits {
    unauthenticated: 10,
    unauthenticated_per_address: 3,
    reserved: 4,
    handshakes_per_second: 50,
    ..DEFAULT
};

const DEFAULT: LinkLimits = LinkLimits::DEFAULT;

struct World {
    admission: Admission,
    now: Duration,
    last: u64,
}

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

impl World {
    fn new(limits: LinkLimits) -> Self {
        Self { admission: Admission::new(Duration::ZERO, limits), now: Duration::ZERO, last: 0 }
    }

    fn admit(&mut self, from: IpAddr) -> Verdict {
        self.last += 1;
        self.admission.admit(self.now, LinkId(self.last), from)
    }

    /// So many admit, each of another source. Returns who gave way.
    fn crowd(&mut self, count: u8) -> Vec<u64> {
        let verdicts: Vec<_> = (0..count).map(|n| self.admit(ip(100 + n))).collect();
        let gone = verdicts.into_iter().filter_map(|verdict| match verdict {
            Verdict::Enter { instead_of } => instead_of.map(|link| link.0),
            Verdict::Refused(why) => panic!("{why}"),
        });
        gone.collect()
    }
}

fn enters() -> Verdict {
    Verdict::Enter { instead_of: None }
}

fn instead_of(link: u64) -> Verdict {
    Verdict::Enter { instead_of: Some(LinkId(link)) }
}

#[test]
fn strangers_crowd_out_the_oldest_stranger_and_take_nothing_of_what_is_reserved() {
    let mut world = World::new(LIMITS);
    world.admission.expect([ip(1), ip(2)]);
    assert_eq!(world.crowd(8), [1, 2]);
    assert_eq!(world.admission.waiting(), 6);
    for from in [1, 1, 2, 2] {
        assert_eq!(world.admit(ip(from)), enters());
    }
    assert_eq!(world.crowd(1), [3], "a stranger still gets in, in the place of another");
    assert_eq!(world.admit(ip(1)), instead_of(9), "and the familiar crowd out each other");
    assert_eq!(world.admission.waiting(), 10);
}

#[test]
fn the_familiar_may_have_all_the_room_until_a_stranger_comes() {
    let mut world = World::new(LIMITS);
    for from in 1..=5 {
        world.admission.met(ip(from));
        assert_eq!(world.admit(ip(from)), enters());
        assert_eq!(world.admit(ip(from)), enters());
    }
    assert_eq!(world.crowd(2), [1, 2], "in the place of the familiar that waits longest");
    assert_eq!(world.admission.waiting(), 10);
}

#[test]
fn one_source_costs_itself_only() {
    let mut world = World::new(LIMITS);
    assert_eq!(world.crowd(2), []);
    for _ in 0..3 {
        assert_eq!(world.admit(ip(66)), enters());
    }
    for n in 0..20 {
        assert_eq!(world.admit(ip(66)), instead_of(3 + n));
    }
    assert_eq!(world.admission.waiting(), 5);
}

#[test]
fn who_is_done_makes_room() {
    let mut world = World::new(LIMITS);
    assert_eq!(world.crowd(6), []);
    world.admission.leaves(LinkId(3));
    world.admission.leaves(LinkId(3));
    assert_eq!(world.crowd(1), []);
    assert_eq!(world.crowd(1), [1]);
}

#[test]
fn strangers_use_up_their_own_handshakes_only() {
    let mut world = World::new(LIMITS);
    world.admission.met(ip(1));
    let mut entered = 0;
    for _ in 0..1000 {
        entered += u32::from(world.admit(ip(66)) != Verdict::Refused(Refused::TooFast));
    }
    assert_eq!(entered, 100, "a burst");
    assert_eq!(world.admit(ip(67)), Verdict::Refused(Refused::TooFast));
    assert_eq!(world.admit(ip(1)), enters());
    world.now += Duration::from_secs(1);
    let entered = (0..1000).filter(|_| world.admit(ip(66)) != Verdict::Refused(Refused::TooFast)).count();
    assert_eq!(entered, 50);
}

#[test]
fn the_addresses_of_one_ipv6_network_are_one_source_and_mapped_ipv4_is_ipv4() {
    let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
    let mut world = World::new(LIMITS);
    for n in 0..3 {
        assert_eq!(world.admit(v6(&format!("2001:db8::{n}"))), enters());
    }
    assert_eq!(world.admit(v6("2001:db8::ffff:0:1")), instead_of(1));
    assert_eq!(world.admit(v6("2001:db8:0:1::1")), enters());
    world.admission.met(v6("::ffff:10.0.0.1"));
    assert!(world.admission.met.contains(&ip(1)));
}

#[test]
fn only_so_many_sources_are_remembered_and_the_latest_are() {
    let mut world = World::new(LIMITS);
    for n in 0..3000_u32 {
        world.admission.met(IpAddr::V4((0x0a00_0000 + n % 2000).into()));
    }
    assert_eq!(world.admission.met.len(), FAMILIAR);
    assert!(world.admission.met.contains(&IpAddr::V4((0x0a00_0000_u32 + 999).into())));
}

#[test]
fn a_peer_that_comes_again_and_again_pushes_nobody_else_out() {
    let mut world = World::new(LIMITS);
    world.admission.met(ip(1));
    for _ in 0..2 * FAMILIAR {
        world.admission.met(ip(2));
    }
    assert!(world.admission.met.contains(&ip(1)));
}
