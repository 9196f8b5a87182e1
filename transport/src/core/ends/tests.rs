use super::*;

const A: LinkId = LinkId(1);
const B: LinkId = LinkId(2);

fn step(ends: &mut Ends, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    ends.step(input, &mut effects);
    effects
}

fn asked(link: LinkId, actor: u64) -> Input {
    Input::Asked { link, actor, kind: 7, is_there: Ok(()) }
}

fn ended(actor: u64) -> Input {
    Input::Ended { actor, how: End::stopped(Some("done")) }
}

/// What is said over a link, as far as somebody reads.
fn said(ends: &mut Ends, link: LinkId) -> Vec<(u64, Option<End>)> {
    std::iter::from_fn(|| ends.next(link)).map(|word| (word.actor, word.end)).collect()
}

fn linked(limit: usize) -> Ends {
    let mut ends = Ends::new(limit);
    for link in [A, B] {
        assert_eq!(step(&mut ends, Input::LinkUp { link }), []);
    }
    ends
}

#[test]
fn each_peer_that_asked_is_told_once_and_the_actor_has_one_monitor() {
    let mut ends = linked(10);
    assert_eq!(step(&mut ends, asked(A, 1)), [Effect::Speak { link: A }, Effect::Monitor { actor: 1 }]);
    assert_eq!(step(&mut ends, asked(B, 1)), [Effect::Speak { link: B }]);
    assert_eq!(
        step(&mut ends, asked(A, 1)),
        [Effect::Speak { link: A }],
        "it asks twice, and is answered twice"
    );
    assert_eq!(said(&mut ends, A), [(1, None), (1, None)]);
    let done = Some(End::Stopped(Some("done".into())));
    assert_eq!(ends.waits(A, 1), Some(false));
    assert_eq!(step(&mut ends, ended(1)), [Effect::Speak { link: A }, Effect::Speak { link: B }]);
    assert_eq!((ends.waits(A, 1), ends.waits(A, 2)), (Some(true), None));
    assert_eq!(said(&mut ends, A), [(1, done.clone())]);
    assert_eq!(ends.next(B).map(|word| word.end), Some(None), "the answer comes before the end");
    assert_eq!(ends.waits(B, 1), Some(true));
    assert_eq!(said(&mut ends, B), [(1, done)]);
    assert_eq!(ends.waits(B, 1), None);
    assert_eq!(ends.waits(A, 1), None);
    assert_eq!(step(&mut ends, ended(1)), [], "told twice");
    assert_eq!(ends.monitored(), 0);
}

#[test]
fn an_actor_that_is_not_there_is_said_to_be_gone_and_not_monitored() {
    let mut ends = linked(10);
    let is_there = Err(NotDelivered::Gone);
    let effects = step(&mut ends, Input::Asked { link: A, actor: 1, kind: 7, is_there });
    assert_eq!(effects, [Effect::Speak { link: A }]);
    assert_eq!(said(&mut ends, A), [(1, Some(End::Not(NotDelivered::Gone)))]);
    assert_eq!(ends.monitored(), 0);
}

#[test]
fn a_link_that_is_down_is_told_nothing_and_the_others_are() {
    let mut ends = linked(10);
    for link in [A, B] {
        step(&mut ends, asked(link, 1));
    }
    step(&mut ends, asked(A, 2));
    assert_eq!(step(&mut ends, Input::LinkDown { link: A }), [Effect::Unmonitor { actor: 2 }]);
    assert_eq!(step(&mut ends, Input::LinkDown { link: A }), [], "told twice");
    assert_eq!(step(&mut ends, asked(A, 3)), [], "it came late");
    assert_eq!(step(&mut ends, ended(1)), [Effect::Speak { link: B }]);
    assert_eq!(said(&mut ends, A), []);
    assert_eq!(said(&mut ends, B).len(), 2);
    assert_eq!(step(&mut ends, Input::LinkDown { link: B }), []);
    assert_eq!(ends, Ends::new(10), "nothing is kept");
}

#[test]
fn a_peer_that_asks_for_too_many_is_refused_and_may_ask_again_once_one_has_ended() {
    let mut ends = linked(2);
    for actor in 1..=3 {
        step(&mut ends, asked(A, actor));
    }
    assert_eq!(ends.monitored(), 2);
    assert_eq!(said(&mut ends, A), [(1, None), (2, None), (3, Some(End::TooMany(2)))]);
    step(&mut ends, asked(A, 2));
    assert_eq!(said(&mut ends, A), [(2, None)], "it has this one");
    step(&mut ends, asked(B, 3));
    assert_eq!(said(&mut ends, B), [(3, None)], "others are not refused for it");
    step(&mut ends, ended(1));
    step(&mut ends, asked(A, 3));
    assert_eq!(
        said(&mut ends, A).last(),
        Some(&(3, Some(End::TooMany(2)))),
        "the end takes its place until it is told"
    );
    step(&mut ends, asked(A, 3));
    assert_eq!(said(&mut ends, A), [(3, None)]);
}

#[test]
fn a_peer_that_asks_and_does_not_read_overruns_its_own_link() {
    let mut ends = linked(2);
    for _ in 0..4 {
        assert_eq!(step(&mut ends, asked(A, 1))[0], Effect::Speak { link: A });
    }
    assert_eq!(step(&mut ends, asked(A, 1)), [Effect::Overrun { link: A }]);
    assert_eq!(step(&mut ends, asked(B, 1)), [Effect::Speak { link: B }]);
    assert_eq!(said(&mut ends, A).len(), 4);
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let long = "é".repeat(MOST_REASON);
    for end in [End::stopped(Some(&long)), End::failed(&long), End::of(How::Failed(&long))] {
        let (How::Stopped(Some(text)) | How::Failed(text)) = end.how() else { panic!("{end:?}") };
        assert_eq!(text.len(), MOST_REASON);
    }
    let odd = format!("a{long}");
    assert_eq!(End::failed(&odd), End::Failed(odd[..MOST_REASON - 1].into()));
}

#[test]
fn a_refusal_of_another_kind_ends_no_watch() {
    let mut ends = linked(10);
    step(&mut ends, asked(A, 1));
    let why = NotDelivered::WrongKind;
    step(&mut ends, Input::Asked { link: A, actor: 1, kind: 8, is_there: Err(why) });
    assert_eq!(said(&mut ends, A), [(1, None), (1, Some(End::Not(why)))]);
    step(&mut ends, ended(1));
    assert_eq!(said(&mut ends, A), [(1, Some(End::Stopped(Some("done".into()))))]);
}
