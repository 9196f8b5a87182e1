use super::*;
use crate::core::leaving::{LeavingEffect as Effect, LeavingInput as Input};

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

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.core.step(self.now, input, &mut effects);
        effects
    }

    /// Has drained, and is asked to leave.
    fn saying(registries: &[&str]) -> Self {
        let mut node = Self::with(registries);
        node.step(Input::Leave(1));
        for name in registries {
            node.step(Input::Drained(registry(name), Drained::Alone));
        }
        node.step(Input::Ended);
        node
    }
}

#[test]
fn all_registries_drain_together_and_the_last_one_counts() {
    let mut node = Node::with(&["x", "y"]);
    let drains = |name| Effect::Drain(registry(name), TIMES.drain);
    assert_eq!(node.step(Input::Drain(1)), [drains("x"), drains("y"), Effect::End]);
    assert_eq!(node.step(Input::Drain(2)), [], "it drains already");
    assert_eq!(node.step(Input::Drained(registry("x"), Drained::TimedOut)), []);
    assert_eq!(node.step(Input::Drained(registry("x"), Drained::Left)), [], "it has said so");
    assert_eq!(node.step(Input::Ended), []);
    let last = node.step(Input::Drained(registry("y"), Drained::Alone));
    assert_eq!(last, [Effect::Drained(vec![1, 2], Drained::TimedOut)]);
    assert_eq!(node.step(Input::Drain(3)), [drains("x"), drains("y"), Effect::End], "it asks again");
}

#[test]
fn what_runs_on_one_node_is_waited_for_before_names_go() {
    let mut node = Node::with(&["x"]);
    node.step(Input::Leave(1));
    let drained = node.step(Input::Drained(registry("x"), Drained::Alone));
    assert_eq!(drained, []);
    let ended = node.step(Input::Ended);
    assert_eq!(ended, [Effect::Drained(vec![], Drained::Alone), Effect::Drop(registry("x"), TIMES.decide)]);
}

#[test]
fn a_registry_whose_time_is_over_holds_nobody_up_while_another_is_waited_for() {
    let mut node = Node::saying(&["x", "y"]);
    node.step(Input::Dropped(registry("x"), true));
    node.now = at(102);
    assert_eq!(node.step(Input::Wake), [], "the names of y are not dropped yet");
    assert_eq!(node.core.wakes_at(), None, "that time is over");
    node.now = at(103);
    assert_eq!(node.step(Input::Dropped(registry("y"), true)), []);
    assert_eq!(node.core.wakes_at(), Some(at(105)));
    node.now = at(105);
    assert_eq!(node.step(Input::Wake), [Effect::Close]);
}

#[test]
fn the_session_is_closed_when_every_queue_says_so_and_the_links_after_it() {
    let mut node = Node::saying(&["x", "y"]);
    assert_eq!(node.step(Input::Left(registry("y"))), [], "the queue may come first");
    assert_eq!(node.step(Input::Dropped(registry("x"), true)), []);
    assert_eq!(node.step(Input::Dropped(registry("y"), true)), []);
    assert_eq!(node.core.wakes_at(), Some(node.now + TIMES.say));
    assert_eq!(node.step(Input::Left(registry("x"))), [Effect::Close]);
    assert_eq!(node.step(Input::Leave(2)), []);
    assert_eq!(node.step(Input::Drain(3)), [Effect::Drained(vec![3], Drained::Left)]);
    assert_eq!(node.step(Input::Closed), [Effect::Part]);
    assert_eq!(node.step(Input::Parted), [Effect::Left(vec![1, 2])]);
    assert_eq!(node.step(Input::Leave(4)), [Effect::Left(vec![4])]);
}

#[test]
fn no_step_waits_for_ever() {
    let mut node = Node::saying(&["x"]);
    assert_eq!(node.step(Input::Dropped(registry("x"), true)), []);
    node.now = at(101);
    assert_eq!(node.step(Input::Wake), [], "too early");
    node.now = at(102);
    assert_eq!(node.step(Input::Wake), [Effect::Close], "the queue is silent");
    assert_eq!(node.core.wakes_at(), Some(at(107)));
    node.now = at(107);
    assert_eq!(node.step(Input::Wake), [Effect::Part], "the store is silent");
    assert_eq!(node.step(Input::Closed), [], "too late");
}

#[test]
fn a_member_that_has_ended_says_nothing_in_the_queue() {
    let mut node = Node::saying(&["x"]);
    assert_eq!(node.step(Input::Dropped(registry("x"), false)), [Effect::Close]);
}

#[test]
fn nothing_is_joined_once_it_has_begun_to_leave() {
    let mut node = Node::with(&[]);
    assert!(!node.core.has_begun());
    assert_eq!(node.step(Input::Drain(1)), [Effect::End]);
    assert!(node.core.has_begun());
    assert!(!node.core.join(registry("x")));
    assert_eq!(node.step(Input::Ended), [Effect::Drained(vec![1], Drained::Left)]);
}

#[test]
fn a_node_that_has_failed_only_closes_its_session() {
    let mut node = Node::with(&["x"]);
    node.step(Input::Leave(1));
    node.step(Input::Drain(2));
    assert_eq!(node.step(Input::Failed), [Effect::Drained(vec![2], Drained::Left), Effect::Close]);
    assert_eq!(node.step(Input::Failed), [], "it has failed already");
    assert_eq!(node.step(Input::Drained(registry("x"), Drained::Alone)), []);
    assert_eq!(node.step(Input::Ended), []);
    assert_eq!(node.step(Input::Closed), [Effect::Part]);
    assert_eq!(node.step(Input::Parted), [Effect::Left(vec![1])]);
    assert_eq!(node.step(Input::Failed), []);
}

#[test]
fn one_that_fails_while_its_session_is_closed_closes_it_once() {
    let mut node = Node::saying(&[]);
    assert_eq!(node.step(Input::Failed), []);
    assert_eq!(node.step(Input::Closed), [Effect::Part]);
}

#[test]
fn what_comes_at_another_time_than_its_own_changes_nothing() {
    let mut node = Node::with(&["x"]);
    for early in
        [Input::Parted, Input::Closed, Input::Left(registry("x")), Input::Dropped(registry("x"), true)]
    {
        assert_eq!(node.step(early), []);
    }
    assert!(!node.core.has_begun() && !node.core.is_closing());
    node.step(Input::Leave(1));
    assert_eq!(node.step(Input::Leave(2)), [], "it leaves already");
    node.step(Input::Ended);
    node.step(Input::Drained(registry("x"), Drained::Alone));
    assert_eq!(node.step(Input::Dropped(registry("x"), false)), [Effect::Close]);
    assert!(node.core.is_closing());
    assert_eq!(node.step(Input::Parted), [], "too early");
    assert_eq!(node.step(Input::Closed), [Effect::Part]);
    assert_eq!(node.step(Input::Failed), [], "its session is closed already");
    assert_eq!(node.step(Input::Parted), [Effect::Left(vec![1, 2])]);
}

#[test]
fn each_queue_is_waited_for_from_when_its_member_has_dropped_its_names() {
    let mut node = Node::saying(&["x", "y", "z"]);
    for (name, seconds) in [("x", 100), ("y", 101), ("z", 101)] {
        node.now = at(seconds);
        assert_eq!(node.step(Input::Dropped(registry(name), true)), []);
    }
    assert_eq!(node.core.wakes_at(), Some(at(102)), "the first that is late");
    assert_eq!(node.step(Input::Left(registry("z"))), []);
    node.now = at(103);
    assert_eq!(node.step(Input::Wake), [Effect::Close]);
}

#[test]
fn why_a_node_leaves_is_known_from_the_first_question_on() {
    let mut node = Node::with(&["x"]);
    assert_eq!(node.core.why(), None);
    node.step(Input::Drain(1));
    assert_eq!(node.core.why(), Some(WhyLeaving::AskedToDrain));
    node.step(Input::Drained(registry("x"), Drained::Alone));
    node.step(Input::Ended);
    assert_eq!(node.core.why(), Some(WhyLeaving::AskedToDrain), "it has drained, and stays");
    node.step(Input::Leave(2));
    assert_eq!(node.core.why(), Some(WhyLeaving::AskedToLeave));
    let mut node = Node::with(&["x"]);
    node.step(Input::Leave(1));
    assert_eq!(node.core.why(), Some(WhyLeaving::AskedToLeave), "it drains because it leaves");
    let mut node = Node::with(&["x"]);
    node.step(Input::Failed);
    assert_eq!(node.core.why(), Some(WhyLeaving::Failed));
}
