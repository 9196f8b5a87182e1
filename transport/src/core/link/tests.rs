use super::*;

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

fn up() -> Link {
    let mut link = Link::new(seconds(0.), LinkTiming::default());
    assert_eq!(step(&mut link, 0., Input::Established), []);
    link
}

fn step(link: &mut Link, at: f64, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    link.step(seconds(at), input, &mut effects);
    effects
}

/// Wakes the link whenever it asks, until it ends or `until`; returns when what happened.
fn run(link: &mut Link, until: f64) -> Vec<(Duration, Effect)> {
    let mut log = Vec::new();
    while let Some(at) = link.next_wake().filter(|at| *at <= seconds(until)) {
        let mut effects = Vec::new();
        link.step(at, Input::Wake, &mut effects);
        log.extend(effects.into_iter().map(|effect| (at, effect)));
    }
    log
}

#[test]
fn a_handshake_beyond_its_deadline_ends_the_link() {
    let mut link = Link::new(seconds(0.), LinkTiming::default());
    assert_eq!(run(&mut link, 60.), [(seconds(3.), Effect::End(DownReason::Silent))]);
    assert_eq!(link.next_wake(), None);
}

#[test]
fn a_silent_peer_is_pinged_and_then_given_up() {
    let log = run(&mut up(), 60.);
    let pings: Vec<_> = [1.5, 3., 4.5].map(|s| (seconds(s), Effect::Ping)).into();
    assert_eq!(log[..3], pings);
    assert_eq!(
        log[3..],
        [(seconds(5.), Effect::SayOnly(Farewell::Broken)), (seconds(5.), Effect::End(DownReason::Silent))]
    );
}

#[test]
fn a_peer_from_which_bytes_come_is_kept() {
    let mut link = up();
    for s in 0..100 {
        let ended = run(&mut link, f64::from(s) * 4.).iter().any(|(_, e)| matches!(e, Effect::End(_)));
        assert!(!ended);
        assert_eq!(step(&mut link, f64::from(s) * 4., Input::Received), []);
    }
}

#[test]
fn a_side_that_does_not_read_accuses_nobody_but_goes_on_pinging() {
    let mut link = up();
    step(&mut link, 1., Input::Paused);
    let log = run(&mut link, 100.);
    assert!(log.len() > 60 && log.iter().all(|(_, effect)| *effect == Effect::Ping));
    step(&mut link, 100., Input::Resumed);
    let log = run(&mut link, 200.);
    assert_eq!(log.last(), Some(&(seconds(105.), Effect::End(DownReason::Silent))), "the count starts again");
}

#[test]
fn a_side_that_was_stopped_accuses_nobody() {
    let mut link = up();
    assert_eq!(step(&mut link, 60., Input::Wake), [Effect::Ping]);
    step(&mut link, 60.1, Input::Received);
    assert!(run(&mut link, 65.).iter().all(|(_, effect)| *effect == Effect::Ping));
}

#[test]
fn leaving_waits_for_the_peer_to_close_but_not_for_ever() {
    let mut link = up();
    assert_eq!(step(&mut link, 1., Input::Leave), [Effect::SayLast(Farewell::Leaving)]);
    assert_eq!(step(&mut link, 1.5, Input::Leave), [], "once is enough");
    assert_eq!(step(&mut link.clone(), 2., Input::Closed), [Effect::End(DownReason::Left)]);
    assert_eq!(run(&mut link, 60.), [(seconds(3.), Effect::End(DownReason::Left))]);
}

#[test]
fn a_farewell_is_the_reason() {
    for (farewell, reason) in [
        (Farewell::Leaving, DownReason::Goodbye),
        (Farewell::Evicted, DownReason::Evicted),
        (Farewell::Replaced, DownReason::Replaced),
        (Farewell::Forgotten, DownReason::Forgotten),
        (Farewell::Broken, DownReason::Closed),
    ] {
        assert_eq!(step(&mut up(), 1., Input::Farewell(farewell)), [Effect::End(reason)]);
    }
}

#[test]
fn a_link_ends_once() {
    let mut link = up();
    let violation = Input::Violation("junk".into());
    assert_eq!(
        step(&mut link, 1., violation.clone()),
        [Effect::SayOnly(Farewell::Broken), Effect::End(DownReason::Protocol("junk".into()))]
    );
    for input in [violation, Input::Closed, Input::Leave, Input::Wake, Input::Farewell(Farewell::Leaving)] {
        assert_eq!(step(&mut link, 9., input), []);
    }
}

#[test]
fn silence_is_noticed_when_it_is_over_and_counted_from_the_end_of_the_handshake() {
    let mut link = Link::new(seconds(0.), LinkTiming::default());
    assert_eq!(step(&mut link, 2., Input::Established), []);
    assert_eq!(run(&mut link.clone(), 60.).last(), Some(&(seconds(7.), Effect::End(DownReason::Silent))));
    // Between two pings.
    step(&mut link, 2.5, Input::Received);
    assert_eq!(run(&mut link, 60.).last(), Some(&(seconds(7.5), Effect::End(DownReason::Silent))));
}

#[test]
fn a_side_that_was_late_by_less_than_half_of_the_limit_was_not_stopped() {
    for (late, is_over) in [(2.4, true), (2.5, true), (2.6, false)] {
        let mut link = up();
        assert_eq!(run(&mut link, 4.5).len(), 3);
        let effects = step(&mut link, 5. + late, Input::Wake);
        assert_eq!(effects.last() == Some(&Effect::End(DownReason::Silent)), is_over, "{late}: {effects:?}");
    }
}

#[test]
fn a_wake_before_its_time_ends_nothing() {
    let mut link = Link::new(seconds(0.), LinkTiming::default());
    assert_eq!(step(&mut link, 2.9, Input::Wake), []);
    step(&mut link, 2.9, Input::Established);
    assert_eq!(step(&mut link, 3., Input::Wake), []);
    step(&mut link, 3., Input::Leave);
    assert_eq!(step(&mut link, 4.9, Input::Wake), []);
    assert_eq!(step(&mut link, 5., Input::Wake), [Effect::End(DownReason::Left)]);
}

#[test]
fn a_link_that_is_dismissed_says_why() {
    let mut link = up();
    let dismissed = Input::Dismiss(Farewell::Evicted, DownReason::Evicted);
    let said = [Effect::SayOnly(Farewell::Evicted), Effect::End(DownReason::Evicted)];
    assert_eq!(step(&mut link, 1., dismissed), said);
}

#[test]
fn a_peer_that_hears_something_else_is_not_pinged() {
    let mut link = up();
    for halves in 1..40 {
        let at = f64::from(halves) / 2.;
        assert_eq!(run(&mut link, at), [], "at {at}");
        assert_eq!(step(&mut link, at, Input::Sent), []);
        assert_eq!(step(&mut link, at, Input::Received), []);
    }
    assert_eq!(run(&mut link, 22.), [(seconds(21.), Effect::Ping)], "one interval later");
}

#[test]
fn what_is_sent_keeps_no_silent_peer() {
    let mut link = up();
    for s in 1..5 {
        let at = f64::from(s);
        run(&mut link, at);
        step(&mut link, at, Input::Sent);
    }
    assert_eq!(run(&mut link, 60.).last(), Some(&(seconds(5.), Effect::End(DownReason::Silent))));
}

#[test]
fn a_side_that_was_stopped_accuses_nobody_though_it_first_sends_what_waited() {
    let mut link = up();
    step(&mut link, 7., Input::Sent);
    assert_eq!(step(&mut link, 7., Input::Wake), []);
    assert_eq!(run(&mut link, 60.).last(), Some(&(seconds(12.), Effect::End(DownReason::Silent))));
}

#[test]
fn links_that_were_made_at_different_times_are_pinged_together_and_never_later_than_after_an_interval() {
    for made in [0., 0.1, 0.7, 0.74, 0.75, 0.8, 1.4] {
        let mut link = Link::new(seconds(0.), LinkTiming::default());
        step(&mut link, made, Input::Established);
        let mut log = Vec::new();
        for steps in 2..40 {
            let at = f64::from(steps) * 0.75;
            log.extend(run(&mut link, at));
            step(&mut link, at, Input::Received);
        }
        assert!(log.iter().all(|(_, effect)| *effect == Effect::Ping), "{log:?}");
        let mut last = seconds(made);
        for (at, _) in &log {
            assert_eq!(at.as_millis() % 750, 0, "made at {made}: {log:?}");
            assert!(at.saturating_sub(last) <= seconds(1.5), "made at {made}: {log:?}");
            last = *at;
        }
        assert!((18..=20).contains(&log.len()), "no oftener than before: {log:?}");
    }
}
