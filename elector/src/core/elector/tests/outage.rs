//! A store that cannot be reached, or refuses.

use callsign_store::{Piece, Read, StoreError, TooLarge};

use super::*;

fn step(elector: &mut Elector, now: Time, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    elector.step(now, input, &mut effects);
    effects
}

fn pause_of(effects: &[Effect]) -> Option<Time> {
    effects.iter().find_map(|effect| match effect {
        Effect::WakeAt(at) => Some(*at),
        _ => None,
    })
}

/// What is read next, if need be after a pause.
fn next_read(elector: &mut Elector, now: &mut Time, mut effects: Vec<Effect>) -> (OpId, Vec<Read>) {
    if let Some(at) = pause_of(&effects) {
        *now = at;
        effects = step(elector, at, Input::Wake);
    }
    match effects.pop() {
        Some(Effect::Read { id, reads }) => (id, reads),
        other => panic!("{other:?} is no read"),
    }
}

fn tells_of_an_outage(effects: &[Effect]) -> bool {
    let is_told = |effect: &Effect| matches!(effect, Effect::Emit(ElectorEvent::Unavailable { .. }));
    effects.iter().any(is_told)
}

/// An elector that is told of its session, and what it does then.
fn begun(seed: u64) -> (Sim, Elector, Vec<Effect>) {
    let mut sim = Sim::new(seed, &["a"]);
    let host = sim.host("a");
    let (mut elector, session) = (host.elector.clone(), host.session.clone());
    let effects = step(&mut elector, sim.now, Input::Notice(Notice::Session(Some(session))));
    (sim, elector, effects)
}

/// Lets the next read be answered, and says which commit is asked for then.
fn next_commit(sim: &Sim, elector: &mut Elector, now: &mut Time, effects: Vec<Effect>) -> OpId {
    let (id, reads) = next_read(elector, now, effects);
    let result = Ok(sim.store.read(&reads, None).unwrap());
    let effects = step(elector, *now, Input::ReadDone { id, result });
    let commit = effects.iter().find_map(|effect| match effect {
        Effect::Commit { id, .. } => Some(*id),
        _ => None,
    });
    commit.expect("it joins")
}

#[test]
fn an_outage_is_told_once_and_the_store_asked_more_and_more_seldom() {
    let (sim, mut elector, mut effects) = begun(28);
    let (mut now, mut told, mut pauses) = (sim.now, 0, Vec::new());
    for _ in 0..300 {
        let (id, _) = next_read(&mut elector, &mut now, effects);
        let result = Err(StoreError::Unavailable("down".to_owned()));
        effects = step(&mut elector, now, Input::ReadDone { id, result });
        told += usize::from(tells_of_an_outage(&effects));
        pauses.push(pause_of(&effects).expect("it pauses").since(now));
    }
    assert_eq!(told, 1);
    let (first, last, poll) = (pauses[0], pauses[299], sim.timing.poll);
    assert!((Duration::from_millis(5)..Duration::from_millis(10)).contains(&first), "{first:?}");
    assert!((poll / 2..poll).contains(&last), "{last:?}");

    // It is there again, and goes away once more.
    let id = next_commit(&sim, &mut elector, &mut now, effects);
    effects = step(&mut elector, now, Input::CommitDone { id, outcome: CommitOutcome::Conflict });
    let (id, _) = next_read(&mut elector, &mut now, effects);
    let result = Err(StoreError::Unavailable("down".to_owned()));
    assert!(tells_of_an_outage(&step(&mut elector, now, Input::ReadDone { id, result })));
}

#[test]
fn of_commits_that_are_refused_in_a_row_only_the_first_is_told() {
    let (sim, mut elector, mut effects) = begun(29);
    let (mut now, mut told) = (sim.now, Vec::new());
    for _ in 0..3 {
        let id = next_commit(&sim, &mut elector, &mut now, effects);
        let outcome = CommitOutcome::Unavailable("down".to_owned());
        effects = step(&mut elector, now, Input::CommitDone { id, outcome });
        told.push(tells_of_an_outage(&effects));
    }
    assert_eq!(told, [true, false, false]);
}

#[test]
fn what_the_store_never_takes_is_told_and_waits_for_the_next_poll() {
    let (sim, mut elector, effects) = begun(30);
    let mut now = sim.now;
    let id = next_commit(&sim, &mut elector, &mut now, effects);
    let too_large = TooLarge { what: Piece::Value, size: 2, limit: 1 };
    let effects =
        step(&mut elector, now, Input::CommitDone { id, outcome: CommitOutcome::TooLarge(too_large) });
    let told = Effect::Emit(ElectorEvent::TooLarge(too_large));
    assert_eq!(effects, [told, Effect::WakeAt(now + sim.timing.poll)]);
}
