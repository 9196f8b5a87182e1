use super::*;
use crate::core::leaving::{LeavingEffect as Does, LeavingInput as Hears};

const TIMES: LeavingTimes = LeavingTimes {
    drain: Duration::from_secs(7),
    decide: Duration::from_secs(1),
    say: Duration::from_secs(2),
    close: Duration::from_secs(5),
};

fn registry(name: &str) -> RegistryName {
    RegistryName::new(name).unwrap()
}

fn at(seconds: u64) -> Time {
    Time(Duration::from_secs(seconds))
}

/// A node with these registries, and what it does.
struct Node {
    core: Leaving,
    now: Time,
}

impl Node {
    fn with(registries: &[&str]) -> Self {
        let mut core = Leaving::new(TIMES);
        for name in registries {
            assert!(core.join(registry(name)));
        }
        Self { core, now: at(100) }
    }

    fn hears(&mut self, input: Hears) -> Vec<Does> {
        let mut effects = Vec::new();
        self.core.step(self.now, input, &mut effects);
        effects
    }

    /// Has drained, and is asked to leave.
    fn saying(registries: &[&str]) -> Self {
        let mut node = Self::with(registries);
        node.hears(Hears::Leave(1));
        for name in registries {
            node.hears(Hears::Drained(registry(name), Drained::Alone));
        }
        node.hears(Hears::Ended);
        node
    }
}

#[test]
fn all_registries_drain_together_and_the_last_one_counts() {
    let mut node = Node::with(&["x", "y"]);
    let drains = |name| Does::Drain(registry(name), TIMES.drain);
    assert_eq!(node.hears(Hears::Drain(1)), [drains("x"), drains("y"), Does::End]);
    assert_eq!(node.hears(Hears::Drain(2)), [], "it drains already");
    assert_eq!(node.hears(Hears::Drained(registry("x"), Drained::TimedOut)), []);
    assert_eq!(node.hears(Hears::Drained(registry("x"), Drained::Left)), [], "it has said so");
    assert_eq!(node.hears(Hears::Ended), []);
    let last = node.hears(Hears::Drained(registry("y"), Drained::Alone));
    assert_eq!(last, [Does::Drained(vec![1, 2], Drained::TimedOut)]);
    assert_eq!(node.hears(Hears::Drain(3)), [drains("x"), drains("y"), Does::End], "it asks again");
}

#[test]
fn what_runs_on_one_node_is_waited_for_before_names_go() {
    let mut node = Node::with(&["x"]);
    node.hears(Hears::Leave(1));
    let drained = node.hears(Hears::Drained(registry("x"), Drained::Alone));
    assert_eq!(drained, []);
    let ended = node.hears(Hears::Ended);
    assert_eq!(ended, [Does::Drained(vec![], Drained::Alone), Does::Drop(registry("x"), TIMES.decide)]);
}

#[test]
fn the_session_is_closed_when_every_queue_says_so_and_the_links_after_it() {
    let mut node = Node::saying(&["x", "y"]);
    assert_eq!(node.hears(Hears::Left(registry("y"))), [], "the queue may be heard first");
    assert_eq!(node.hears(Hears::Dropped(registry("x"), true)), []);
    assert_eq!(node.hears(Hears::Dropped(registry("y"), true)), []);
    assert_eq!(node.core.wakes_at(), Some(node.now + TIMES.say));
    assert_eq!(node.hears(Hears::Left(registry("x"))), [Does::Close]);
    assert_eq!(node.hears(Hears::Leave(2)), []);
    assert_eq!(node.hears(Hears::Drain(3)), [Does::Drained(vec![3], Drained::Left)]);
    assert_eq!(node.hears(Hears::Closed), [Does::Part]);
    assert_eq!(node.hears(Hears::Parted), [Does::Left(vec![1, 2])]);
    assert_eq!(node.hears(Hears::Leave(4)), [Does::Left(vec![4])]);
}

#[test]
fn no_step_waits_for_ever() {
    let mut node = Node::saying(&["x"]);
    assert_eq!(node.hears(Hears::Dropped(registry("x"), true)), []);
    node.now = at(101);
    assert_eq!(node.hears(Hears::Wake), [], "too early");
    node.now = at(102);
    assert_eq!(node.hears(Hears::Wake), [Does::Close], "the queue is silent");
    assert_eq!(node.core.wakes_at(), Some(at(107)));
    node.now = at(107);
    assert_eq!(node.hears(Hears::Wake), [Does::Part], "the store is silent");
    assert_eq!(node.hears(Hears::Closed), [], "too late");
}

#[test]
fn a_member_that_has_ended_says_nothing_in_the_queue() {
    let mut node = Node::saying(&["x"]);
    assert_eq!(node.hears(Hears::Dropped(registry("x"), false)), [Does::Close]);
}

#[test]
fn nothing_is_joined_once_it_has_begun_to_leave() {
    let mut node = Node::with(&[]);
    assert!(!node.core.has_begun());
    assert_eq!(node.hears(Hears::Drain(1)), [Does::End]);
    assert!(node.core.has_begun());
    assert!(!node.core.join(registry("x")));
    assert_eq!(node.hears(Hears::Ended), [Does::Drained(vec![1], Drained::Left)]);
}

#[test]
fn a_node_that_has_failed_only_closes_its_session() {
    let mut node = Node::with(&["x"]);
    node.hears(Hears::Leave(1));
    node.hears(Hears::Drain(2));
    assert_eq!(node.hears(Hears::Failed), [Does::Drained(vec![2], Drained::Left), Does::Close]);
    assert_eq!(node.hears(Hears::Failed), [], "it has failed already");
    assert_eq!(node.hears(Hears::Drained(registry("x"), Drained::Alone)), []);
    assert_eq!(node.hears(Hears::Ended), []);
    assert_eq!(node.hears(Hears::Closed), [Does::Part]);
    assert_eq!(node.hears(Hears::Parted), [Does::Left(vec![1])]);
    assert_eq!(node.hears(Hears::Failed), []);
}

#[test]
fn one_that_fails_while_its_session_is_closed_closes_it_once() {
    let mut node = Node::saying(&[]);
    assert_eq!(node.hears(Hears::Failed), []);
    assert_eq!(node.hears(Hears::Closed), [Does::Part]);
}
