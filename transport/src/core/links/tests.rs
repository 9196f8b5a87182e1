use std::collections::BTreeSet;

use super::*;

const TIMING: fn() -> LinkTiming = LinkTiming::default;

struct World {
    links: Links,
    now: Duration,
    next: u64,
}

impl World {
    fn new(me: &str) -> Self {
        Self { links: Links::new(me.into(), TIMING(), 3, 1), now: Duration::ZERO, next: 0 }
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.links.step(self.now, input, &mut effects);
        effects
    }

    fn peers(&mut self, peers: &[(&str, &str)]) -> Vec<Effect> {
        self.step(Input::Peers(peers.iter().map(|(node, at)| ((*node).into(), (*at).into())).collect()))
    }

    /// A peer links up, dialled or not.
    fn links_up(&mut self, node: &str, incarnation: u64, via: Option<&str>) -> Vec<Effect> {
        self.next += 1;
        let (link, peer) = (LinkId(self.next), PeerId::new(node, incarnation));
        self.step(Input::Authenticated { link, peer, via: via.map(Into::into) })
    }

    /// Waits for the next wake; returns how long that was.
    fn wake(&mut self) -> (Duration, Vec<Effect>) {
        let at = self.links.next_wake().expect("nothing to wait for");
        let waited = at.saturating_sub(self.now);
        self.now = self.now.max(at);
        (waited, self.step(Input::Wake))
    }
}

fn up(link: u64, node: &str, incarnation: u64) -> Effect {
    Effect::Up { link: LinkId(link), peer: PeerId::new(node, incarnation) }
}

fn down(link: u64, node: &str, incarnation: u64, reason: DownReason) -> Effect {
    Effect::Down { link: LinkId(link), peer: PeerId::new(node, incarnation), reason }
}

fn dial(node: &str, address: &str) -> Effect {
    Effect::Dial { node: node.into(), address: address.into() }
}

fn dismiss(link: u64, farewell: Farewell, reason: DownReason) -> Effect {
    Effect::Dismiss { link: LinkId(link), farewell, reason }
}

fn failed(node: &str) -> Input {
    Input::DialFailed { node: node.into() }
}

#[test]
fn the_greater_name_dials_and_the_lesser_waits() {
    let mut world = World::new("m");
    assert_eq!(world.peers(&[("a", "a:1"), ("m", "m:1"), ("z", "z:1")]), [dial("a", "a:1")]);
    assert_eq!(world.links.next_wake(), None, "one dial at a time");
}

#[test]
fn failed_dials_are_repeated_ever_more_slowly_with_jitter_and_success_starts_over() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    let mut waits = Vec::new();
    for _ in 0..12 {
        assert_eq!(world.step(failed("a")), []);
        let (waited, effects) = world.wake();
        assert_eq!(effects, [dial("a", "a:1")]);
        waits.push(waited);
    }
    let mut longest = TIMING().redial_min;
    for waited in &waits {
        longest = (longest * 2).min(TIMING().redial_max);
        assert!(*waited >= longest / 2 && *waited <= longest, "{waits:?}");
    }
    assert_ne!(waits[10], waits[11], "jitter");

    world.links_up("a", 1, Some("a:1"));
    world.step(Input::Ended { link: LinkId(1), reason: DownReason::Closed });
    let (waited, effects) = world.wake();
    assert!(waited <= TIMING().redial_min && effects == [dial("a", "a:1")]);
}

#[test]
fn a_node_that_is_no_longer_wanted_keeps_its_link_and_is_not_dialled_again() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    world.links_up("a", 1, Some("a:1"));
    assert_eq!(world.peers(&[]), []);
    assert!(world.links.link_to("a").is_some());
    world.step(Input::Ended { link: LinkId(1), reason: DownReason::Closed });
    assert_eq!(world.links.next_wake(), None);
}

#[test]
fn a_node_that_is_wanted_again_keeps_the_link_that_it_has() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    world.links_up("a", 1, Some("a:1"));
    assert_eq!(world.peers(&[]), []);
    assert_eq!(world.peers(&[("a", "a:1")]), []);
    assert_eq!(world.links.next_wake(), None);
    assert_eq!(world.links.link_to("a").map(|(link, _)| link), Some(LinkId(1)));
    // One that was dialled while nobody wanted it counts, too; one at another address does not.
    world.peers(&[]);
    world.links_up("a", 1, Some("a:2"));
    assert_eq!(world.peers(&[("a", "a:2")]), []);
    assert_eq!(world.peers(&[("a", "a:3")]), [dial("a", "a:3")]);
    // One that went down meanwhile is dialled anew.
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    world.links_up("a", 1, Some("a:1"));
    world.peers(&[]);
    world.step(Input::Ended { link: LinkId(1), reason: DownReason::Closed });
    assert_eq!(world.peers(&[("a", "a:1")]), [dial("a", "a:1")]);
}

#[test]
fn another_address_is_dialled_at_once_though_a_link_is_up() {
    let mut world = World::new("m");
    world.peers(&[("a", "old:1")]);
    world.links_up("a", 1, Some("old:1"));
    assert_eq!(world.peers(&[("a", "old:1")]), []);
    assert_eq!(world.peers(&[("a", "new:1")]), [dial("a", "new:1")]);
    assert_eq!(
        world.links_up("a", 2, Some("new:1")),
        [
            down(1, "a", 1, DownReason::Evicted),
            dismiss(1, Farewell::Evicted, DownReason::Evicted),
            up(2, "a", 2)
        ]
    );
    assert_eq!(world.links.next_wake(), None);
}

#[test]
fn a_newer_link_to_the_same_incarnation_replaces_the_older() {
    let mut world = World::new("a");
    assert_eq!(world.links_up("b", 9, None), [up(1, "b", 9)]);
    assert_eq!(
        world.links_up("b", 9, None),
        [
            down(1, "b", 9, DownReason::Replaced),
            dismiss(1, Farewell::Replaced, DownReason::Replaced),
            up(2, "b", 9)
        ]
    );
    assert!(!world.links.is_up(LinkId(1)));
    let late = Input::Ended { link: LinkId(1), reason: DownReason::Closed };
    assert_eq!(world.step(late), [], "one Down per Up");
    assert_eq!(world.links.link_to("b").map(|(link, _)| link), Some(LinkId(2)));
}

#[test]
fn a_newer_incarnation_evicts_the_older_whichever_number_is_greater() {
    for (first, second) in [(1, 2), (2, 1)] {
        let mut world = World::new("a");
        world.links_up("b", first, None);
        assert_eq!(
            world.links_up("b", second, None),
            [
                down(1, "b", first, DownReason::Evicted),
                dismiss(1, Farewell::Evicted, DownReason::Evicted),
                up(2, "b", second)
            ]
        );
    }
}

#[test]
fn an_evicted_incarnation_that_dials_again_is_refused_and_throws_nobody_out() {
    let mut world = World::new("a");
    world.links_up("b", 1, None);
    world.links_up("b", 2, None);
    assert_eq!(world.links.check(&PeerId::new("b", 1)), Err(Refused::Superseded));
    let refused = Effect::Refuse { link: LinkId(3), why: Refused::Superseded };
    assert_eq!(world.links_up("b", 1, None), [refused]);
    assert_eq!(world.links.link_to("b").map(|(link, _)| link), Some(LinkId(2)));
}

#[test]
fn an_incarnation_whose_link_had_ended_before_its_successor_came_is_over_too() {
    let mut world = World::new("a");
    world.links_up("b", 1, None);
    world.step(Input::Ended { link: LinkId(1), reason: DownReason::Silent });
    assert_eq!(world.links.check(&PeerId::new("b", 1)), Ok(()), "silence is not death");
    world.links_up("b", 2, None);
    assert_eq!(world.links.check(&PeerId::new("b", 1)), Err(Refused::Superseded));
}

#[test]
fn the_memory_of_former_incarnations_and_of_strangers_is_bounded() {
    let mut world = World::new("a");
    for incarnation in 0..1000 {
        world.links_up("b", incarnation, None);
    }
    assert_eq!(world.links.nodes["b"].over.len(), REMEMBERED);
    for stranger in 0..5000 {
        world.links_up(&format!("s{stranger}"), 1, None);
        world.step(Input::Ended { link: LinkId(world.next), reason: DownReason::Closed });
    }
    for stranger in 0..5000 {
        world.step(Input::Confirm(PeerId::new(format!("t{stranger}"), 1)));
    }
    assert!(world.links.nodes.len() <= NODES && world.links.nodes.contains_key("b"));
}

#[test]
fn whoever_knows_better_can_bring_an_incarnation_back() {
    let mut world = World::new("a");
    world.links_up("b", 2, None);
    world.links_up("b", 1, None); // the zombie came second
    assert_eq!(
        world.step(Input::Confirm(PeerId::new("b", 2))),
        [down(2, "b", 1, DownReason::Evicted), dismiss(2, Farewell::Evicted, DownReason::Evicted)]
    );
    assert_eq!(world.links.check(&PeerId::new("b", 1)), Err(Refused::Superseded));
    assert_eq!(world.links_up("b", 2, None), [up(3, "b", 2)]);
    assert_eq!(world.step(Input::Confirm(PeerId::new("b", 2))), [], "what is so stays so");
}

#[test]
fn a_superseded_node_that_was_dialled_is_dialled_again_later() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    world.step(Input::Confirm(PeerId::new("a", 1)));
    world.step(Input::Confirm(PeerId::new("a", 2)));
    let effects = world.links_up("a", 1, Some("a:1"));
    assert_eq!(effects, [Effect::Refuse { link: LinkId(1), why: Refused::Superseded }]);
    assert_eq!(world.wake().1, [dial("a", "a:1")]);
}

#[test]
fn forgetting_ends_the_link_and_the_memory() {
    let mut world = World::new("a");
    world.links_up("b", 1, None);
    world.links_up("b", 2, None);
    assert_eq!(
        world.step(Input::Forget("b".into())),
        [down(2, "b", 2, DownReason::Forgotten), dismiss(2, Farewell::Forgotten, DownReason::Forgotten)]
    );
    assert_eq!(world.links.check(&PeerId::new("b", 1)), Ok(()));
}

#[test]
fn a_node_has_so_many_links_and_no_more_but_to_those_that_it_looks_for_and_those_that_it_has() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    for node in ["x", "y", "z"] {
        world.links_up(node, 1, None);
    }
    let refused = Effect::Refuse { link: LinkId(4), why: Refused::Full { limit: 3 } };
    assert_eq!(world.links_up("n", 1, None), [refused]);
    assert_eq!(world.links_up("x", 2, None).last(), Some(&up(5, "x", 2)), "in its own place");
    assert_eq!(world.links_up("a", 1, Some("a:1")).last(), Some(&up(6, "a", 1)));
    world.step(Input::Ended { link: LinkId(5), reason: DownReason::Closed });
    world.step(Input::Ended { link: LinkId(6), reason: DownReason::Closed });
    assert_eq!(world.links_up("n", 1, None).last(), Some(&up(7, "n", 1)));
}

#[test]
fn who_leaves_dials_and_admits_nobody() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    world.step(failed("a"));
    assert_eq!(world.step(Input::Leave), []);
    assert_eq!(world.links.next_wake(), None);
    assert_eq!(world.peers(&[("a", "a:1")]), []);
    assert_eq!(world.links_up("z", 1, None), [Effect::Refuse { link: LinkId(1), why: Refused::Leaving }]);
}

#[test]
fn a_connection_that_needs_the_place_of_the_former_has_it_dismissed_unless_it_is_of_the_past() {
    let mut world = World::new("a");
    let way = |incarnation| Input::MakeWay(PeerId::new("b", incarnation));
    assert_eq!(world.step(way(1)), [], "nobody is there");
    world.links_up("b", 1, None);
    let replaced = dismiss(1, Farewell::Replaced, DownReason::Replaced);
    assert_eq!(world.step(way(1)), [down(1, "b", 1, DownReason::Replaced), replaced]);
    assert_eq!(world.links_up("b", 1, None), [up(2, "b", 1)]);
    let evicted = dismiss(2, Farewell::Evicted, DownReason::Evicted);
    assert_eq!(world.step(way(2)), [down(2, "b", 1, DownReason::Evicted), evicted]);
    assert_eq!(world.links_up("b", 2, None), [up(3, "b", 2)]);
    assert_eq!(world.step(way(1)), [], "it gave way to another");
    assert!(world.links.link_to("b").is_some());
}

#[test]
fn links_that_are_to_be_made_again_end_and_what_is_known_of_incarnations_stays() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    world.links_up("z", 6, None);
    world.links_up("z", 7, None);
    world.links_up("a", 1, Some("a:1"));
    let forgotten = |link, node, incarnation| {
        let reason = DownReason::Forgotten;
        [down(link, node, incarnation, reason.clone()), dismiss(link, Farewell::Forgotten, reason)]
    };
    let ended = [forgotten(3, "a", 1), forgotten(2, "z", 7)].concat();
    let mut done = world.step(Input::Renew);
    done.sort_by_key(|effect| {
        matches!(effect, Effect::Down { link: LinkId(2), .. } | Effect::Dismiss { link: LinkId(2), .. })
    });
    assert_eq!(done, ended);
    assert_eq!(world.wake().1, [dial("a", "a:1")]);
    assert_eq!(world.links_up("z", 6, None), [Effect::Refuse { link: LinkId(4), why: Refused::Superseded }]);
}

#[test]
fn a_wait_is_between_the_half_and_the_whole_of_what_it_may_be_and_each_of_these_comes() {
    let micros = Duration::from_micros;
    let timing = TIMING().with(|timing| (timing.redial_min, timing.redial_max) = (micros(5), micros(20)));
    let mut waits: [BTreeSet<Duration>; 4] = Default::default();
    for seed in 0..1000 {
        let mut world = World { links: Links::new("m".into(), timing, 3, seed), ..World::new("m") };
        world.peers(&[("a", "a:1")]);
        for waits in &mut waits[..3] {
            world.step(failed("a"));
            waits.insert(world.wake().0);
        }
        world.links_up("a", 1, Some("a:1"));
        world.step(Input::Ended { link: LinkId(1), reason: DownReason::Closed });
        waits[3].insert(world.wake().0);
    }
    let between = |least, most| (least..=most).map(micros).collect::<BTreeSet<_>>();
    assert_eq!(waits, [between(5, 10), between(10, 20), between(10, 20), between(3, 5)]);
}

#[test]
fn the_timer_is_set_for_the_node_that_is_to_be_dialled_first() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1"), ("b", "b:1")]);
    world.step(failed("a"));
    for _ in 0..9 {
        world.step(failed("b"));
    }
    assert_eq!(world.wake().1, [dial("a", "a:1")]);
    assert!(world.now <= TIMING().redial_min * 2);
    assert_eq!(world.wake().1, [dial("b", "b:1")]);
}

#[test]
fn another_address_is_tried_at_once_and_its_failures_are_counted_anew() {
    let mut world = World::new("m");
    world.peers(&[("a", "old:1")]);
    for _ in 0..9 {
        world.step(failed("a"));
    }
    assert_eq!(world.peers(&[("a", "old:1")]), []);
    assert_eq!(world.peers(&[("a", "new:1")]), [dial("a", "new:1")]);
    world.step(failed("a"));
    let (waited, effects) = world.wake();
    assert!(waited <= TIMING().redial_min * 2 && effects == [dial("a", "new:1")], "{waited:?}");
}

#[test]
fn a_node_that_is_known_to_be_there_is_dialled_at_once() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    for _ in 0..9 {
        world.step(failed("a"));
    }
    assert_eq!(world.step(Input::Confirm(PeerId::new("a", 1))), [dial("a", "a:1")]);
}

#[test]
fn a_link_that_was_not_dialled_is_none_over_the_address_that_was_dialled_before() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    world.links_up("a", 1, Some("a:1"));
    world.step(Input::Ended { link: LinkId(1), reason: DownReason::Closed });
    world.wake();
    world.links_up("a", 1, None);
    world.step(failed("a"));
    assert_eq!(world.wake().1, [dial("a", "a:1")]);
}

#[test]
fn after_a_link_that_was_dialled_failures_are_counted_anew() {
    let mut world = World::new("m");
    world.peers(&[("a", "a:1")]);
    for _ in 0..9 {
        world.step(failed("a"));
    }
    world.links_up("a", 1, Some("a:1"));
    world.step(Input::Ended { link: LinkId(1), reason: DownReason::Closed });
    world.wake();
    world.step(failed("a"));
    let (waited, effects) = world.wake();
    assert!(waited <= TIMING().redial_min * 2 && effects == [dial("a", "a:1")], "{waited:?}");
}

#[test]
fn of_many_former_incarnations_the_latest_are_remembered() {
    let mut world = World::new("a");
    for incarnation in 0..20 {
        world.links_up("b", incarnation, None);
    }
    let check = |incarnation: u64| world.links.check(&PeerId::new("b", incarnation));
    let over: Vec<_> = (0..20).filter(|n| check(*n) == Err(Refused::Superseded)).collect();
    assert_eq!(over, (3..19).collect::<Vec<_>>());
}
