//! `apply` against a second model of the same words, written from them and not from the code: a flat list of facts, with
//! whole numbers for time, that recomputes everything each time.

use std::collections::BTreeMap;

use callsign_store::ids::{Incarnation, Nonce, Seniority, Tag};

use super::*;
use crate::core::policy::{Policy, Replace};

mod model;

use model::{Model, Said};

/// Random numbers that are the same every time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Commands of a world with one clock, in whole seconds, so that few things are at many times the same.
struct World {
    state: ElectionState,
    model: Model,
    now: u64,
    /// Since when the seat, the epoch, the request, and each row are as they are.
    seat: (Option<Seat>, u64),
    epoch: (Option<Epoch>, u64),
    request: (Option<Epoch>, u64),
    rows: BTreeMap<MemberId, (Row, u64)>,
    joined: BTreeMap<MemberId, (Incarnation, Seniority, u64)>,
}

impl World {
    fn evidence(&self, by: Option<&MemberId>) -> Evidence {
        Evidence {
            at: AuthorityTime(self.now),
            seat: Age::exactly(secs(self.now - self.seat.1)),
            epoch: secs(self.now - self.epoch.1),
            request: secs(self.now - self.request.1),
            registered: by
                .and_then(|by| self.joined.get(by))
                .map_or(Duration::ZERO, |(_, _, at)| secs(self.now - at)),
            silent: self.rows.iter().map(|(m, (_, at))| (m.clone(), secs(self.now - at))).collect(),
        }
    }

    /// Notes when things changed, as an authority with a clock would.
    fn note(&mut self) {
        let now = self.now;
        if self.seat.0 != self.state.seat {
            self.seat = (self.state.seat.clone(), now);
        }
        let epoch = self.state.seat.as_ref().map(|seat| seat.epoch);
        if self.epoch.0 != epoch {
            self.epoch = (epoch, now);
        }
        let request = self.state.control.as_ref().and_then(|control| control.request);
        if self.request.0 != request {
            self.request = (request, now);
        }
        self.rows.retain(|member, _| self.state.candidates.contains_key(member));
        self.joined.retain(|member, _| self.state.candidates.contains_key(member));
        for (member, row) in &self.state.candidates {
            if self.rows.get(member).is_none_or(|(seen, _)| seen != row) {
                self.rows.insert(member.clone(), (row.clone(), now));
            }
            let is = (row.incarnation, row.seniority);
            if self.joined.get(member).is_none_or(|(i, s, _)| (*i, *s) != is) {
                self.joined.insert(member.clone(), (is.0, is.1, now));
            }
        }
    }
}

fn config(draw: &mut Draw) -> ElectionConfig {
    let policy = [Policy::sticky(), Policy::preempting(), Policy::ranked()]
        [usize::try_from(draw.below(3)).unwrap()]
    .clone();
    let policy = Policy {
        replace: draw.one(&[
            Replace::Immediately,
            Replace::Immediately,
            Replace::HandOver { grace: secs(3) },
        ]),
        min_tenure: secs(draw.one(&[0, 0, 7])),
        requires: draw.one(&[None, None, Some("t")]).map(|tag| Tag::new(tag).unwrap()),
        ..policy
    };
    ElectionConfig {
        policy,
        lease: secs(draw.one(&[0, 3, 5, 5, 5])),
        lock_delay: secs(draw.one(&[0, 0, 2])),
        candidate_timeout: secs(6),
    }
}

fn command(draw: &mut Draw, state: &ElectionState) -> Command {
    let who = Who {
        member: MemberId::new(draw.one(&NAMES)).unwrap(),
        incarnation: Incarnation(draw.one(&[1, 1, 1, 2])),
    };
    let epoch = state.seat.as_ref().map_or(1, |seat| seat.epoch.0);
    let epoch = Epoch(draw.one(&[epoch, epoch, epoch, epoch.saturating_sub(1), epoch + 1]));
    // Whoever holds the seat is the one that mostly refreshes and resigns.
    let holder = state.seat.as_ref().and_then(|seat| seat.holder.as_ref());
    let mostly = holder
        .filter(|_| draw.below(4) > 0)
        .map_or(who.clone(), |h| Who { member: h.member.clone(), incarnation: h.incarnation });
    match draw.below(40) {
        0 => Command::Initialise(config(draw)),
        1 => Command::Configure(config(draw)),
        2 | 3 => Command::Enable,
        4 => Command::Disable(draw.one(&[Disable::Drain, Disable::Stop])),
        5..=9 => Command::Join(Candidate {
            member: who.member,
            incarnation: who.incarnation,
            priority: draw.one(&[0, 1, 1, 5, 9]),
            tags: (0..draw.below(2)).map(|_| Tag::new("t").unwrap()).collect(),
        }),
        10 => Command::Leave(who),
        11 => Command::Down(who),
        12..=16 => Command::Beat { who, priority: draw.one(&[None, None, Some(0), Some(1), Some(9)]) },
        17..=26 => Command::Claim { who, nonce: Nonce(draw.below(1_000)) },
        27..=32 => Command::Refresh { who: mostly, epoch, trusted: secs(draw.one(&[0, 3, 5, 8])) },
        33 | 34 => Command::Resign { who: mostly, epoch },
        35 | 36 => Command::RequestResign { epoch: Some(epoch).filter(|_| draw.below(2) == 0) },
        37 => Command::Evict { most: usize::try_from(draw.below(4)).unwrap() },
        _ => Command::Claim { who: mostly, nonce: Nonce(1) },
    }
}

/// A sweep, mostly by whoever has the seat.
fn sweep(draw: &mut Draw, state: &ElectionState) -> Option<Command> {
    let seat = state.seat.as_ref()?;
    let holder = seat.holder.as_ref()?;
    let who = Who { member: holder.member.clone(), incarnation: holder.incarnation };
    let other = Who { incarnation: Incarnation(draw.one(&[1, 2])), ..who.clone() };
    let (epoch, watched) = (seat.epoch.0, secs(draw.one(&[0, 59, 60, 1000, 1000])));
    Some(Command::Sweep {
        who: if draw.below(8) > 0 { who } else { other },
        epoch: Epoch(draw.one(&[epoch, epoch, epoch, epoch - 1])),
        watched,
        most: usize::try_from(draw.below(3)).unwrap(),
    })
}

fn name_of(command: &Command) -> Option<&MemberId> {
    match command {
        Command::Claim { who, .. } => Some(&who.member),
        _ => None,
    }
}

#[test]
fn inv1_inv2_inv4_inv5_apply_does_what_a_second_model_does() {
    let mut seen = BTreeMap::<String, u32>::new();
    for seed in 0..600 {
        let (mut draw, mut sweeps) = (Draw(seed), Draw(seed ^ 0x5eed));
        let mut w = World {
            state: ElectionState::default(),
            model: Model::default(),
            now: 100,
            seat: (None, 100),
            epoch: (None, 100),
            request: (None, 100),
            rows: BTreeMap::new(),
            joined: BTreeMap::new(),
        };
        let mut highest = 0;
        let mut holders = BTreeMap::new();
        for step in 0..300 {
            w.now += draw.one(&[0, 0, 1, 1, 1, 2, 4]);
            if draw.below(150) == 0 && w.state.control.is_some() {
                // The seat's record is lost.
                w.state.seat = None;
                w.model.lose(w.now);
                w.note();
            }
            let command = if step == 0 {
                Command::Initialise(ElectionConfig { lease: secs(5), ..config(&mut draw) })
            } else {
                command(&mut draw, &w.state)
            };
            for command in [Some(command), sweep(&mut sweeps, &w.state)].into_iter().flatten() {
                let evidence = w.evidence(name_of(&command));
                let before = w.state.clone();
                let effects = w.state.apply(&evidence, &command);
                w.note();
                let said = Said::of(&effects);
                let expected = w.model.apply(w.now, &command);
                let at =
                    format!("seed {seed} step {step} at {}: {command:?}\n{before:?}\n{effects:?}", w.now);
                assert_eq!(said, expected, "{at}");
                w.model.agrees(&w.state, &at);

                // The invariants, of the state itself.
                let ballot = w.state.seat.as_ref().map_or(highest, |seat| seat.ballot.0);
                assert!(ballot >= highest, "Inv1: {at}");
                highest = ballot;
                if let Some(seat) = &w.state.seat
                    && let Some(holder) = &seat.holder
                {
                    let is = (holder.member.clone(), holder.incarnation);
                    let was = holders.entry(seat.epoch).or_insert_with(|| is.clone());
                    assert_eq!(*was, is, "Inv2: {at}");
                }
                if let Some(Effect::Refused(_)) = effects.first() {
                    assert_eq!(w.state, before, "what is refused changes nothing: {at}");
                }
                *seen.entry(said.kind()).or_default() += 1;
                if let Command::Sweep { most, .. } = command {
                    *seen.entry(format!("sweep of {most}: {}", said.kind())).or_default() += 1;
                }
                let freed = before.seat.as_ref().filter(|seat| seat.heir.is_some());
                if let (Some(seat), Command::Claim { .. }) = (freed, &command) {
                    let is_open = evidence.seat.at_least >= seat.wait;
                    let when = if is_open { "" } else { " too early" };
                    *seen.entry(format!("freed for one{when}: {}", said.kind())).or_default() += 1;
                }
            }
        }
    }
    // A run that has not seen these has shown nothing.
    for kind in [
        "initialised",
        "configured",
        "enabled",
        "disabled",
        "joined",
        "left",
        "heard",
        "elected",
        "vacated elected",
        "refreshed",
        "vacated",
        "asked",
        "evicted",
        "sweep of 0: nothing",
        "sweep of 1: evicted",
        "sweep of 2: evicted",
        "nothing",
        "refused Disabled",
        "refused Unregistered",
        "refused DuplicateIdentity",
        "refused Ineligible",
        "refused Outranked",
        "refused Held",
        "refused TooEarly",
        "refused TermOver",
        "refused Invalid",
        "asked refused Held",
        "vacated refused TooEarly",
        "freed for one too early: refused TooEarly",
        "freed for one: refused TooEarly",
        "freed for one: elected",
    ] {
        assert!(seen.get(kind).is_some_and(|n| *n > 10), "{kind}: {:?} of {seen:?}", seen.get(kind));
    }
}

/// What was written before a seat could be given up for somebody.
#[test]
fn a10_records_that_name_no_heir_are_read_and_written_as_they_were() {
    use callsign_store::record::Record;

    #[derive(serde::Serialize)]
    struct OldSeat {
        ballot: Ballot,
        epoch: Epoch,
        holder: Option<Holder>,
        wait: Duration,
    }
    #[derive(serde::Serialize)]
    struct OldControl {
        config: ElectionConfig,
        enabled: bool,
        request: Option<Epoch>,
        reserved: Ballot,
        revision: u64,
    }
    fn old(record: &impl serde::Serialize) -> Vec<u8> {
        let mut bytes = vec![1];
        rmp_serde::encode::write_named(&mut bytes, record).unwrap();
        bytes
    }
    let wait = secs(3);
    let bytes = old(&OldSeat { ballot: Ballot(7), epoch: Epoch(7), holder: None, wait });
    let seat = Seat { ballot: Ballot(7), epoch: Epoch(7), holder: None, wait, heir: None };
    assert_eq!(Seat::from_value(&bytes).as_ref(), Ok(&seat));
    assert_eq!(seat.to_value(), bytes);
    let heir = Seat { heir: Some(0), ..seat };
    assert_eq!(Seat::from_value(&heir.to_value()), Ok(heir));

    let (config, request, reserved) = (ElectionConfig::default(), Some(Epoch(7)), Ballot(99));
    let bytes = old(&OldControl { config: config.clone(), enabled: true, request, reserved, revision: 2 });
    let control = Control { config, enabled: true, request, heir: None, reserved, revision: 2 };
    assert_eq!(Control::from_value(&bytes).as_ref(), Ok(&control));
    assert_eq!(control.to_value(), bytes);
    let heir = Control { heir: Some(9), ..control };
    assert_eq!(Control::from_value(&heir.to_value()), Ok(heir));
}

/// Nothing is required, and nobody is preempted.
fn initialised() -> ElectionState {
    let mut state = ElectionState::default();
    let config = ElectionConfig { candidate_timeout: secs(6), ..ElectionConfig::default() };
    let effects = state.apply(&Evidence::default(), &Command::Initialise(config));
    assert_eq!(effects, [Effect::Initialised]);
    state
}

fn named(name: &str) -> Who {
    Who { member: MemberId::new(name).unwrap(), incarnation: Incarnation(1) }
}

fn join(state: &mut ElectionState, name: &str, tags: usize) -> Vec<Effect> {
    let Who { member, incarnation } = named(name);
    let tags = (0..tags).map(|n| Tag::new(format!("t{n}")).unwrap()).collect();
    let candidate = Candidate { member, incarnation, priority: 1, tags };
    state.apply(&Evidence::default(), &Command::Join(candidate))
}

#[test]
fn a11_a_candidate_has_sixteen_tags_at_most() {
    let mut state = initialised();
    assert_eq!(join(&mut state, "a", 16), [Effect::Joined { seniority: Seniority(1) }]);
    let before = state.clone();
    let effects = join(&mut state, "b", 17);
    assert!(matches!(effects[..], [Effect::Refused(Refused::Invalid(_))]), "{effects:?}");
    assert_eq!(state, before);
}

#[test]
fn e3_a_heartbeat_moves_the_row_and_takes_over_how_long_its_candidate_may_be_silent() {
    let mut state = initialised();
    join(&mut state, "a", 0);
    let who = named("a");
    let before = state.candidates[&who.member].clone();
    assert_eq!(before.timeout, secs(6));
    let longer = ElectionConfig { candidate_timeout: secs(9), ..ElectionConfig::default() };
    state.apply(&Evidence::default(), &Command::Configure(longer));
    assert_eq!(state.candidates[&who.member], before, "its record carries it");
    let evidence = Evidence { at: AuthorityTime(7), ..Evidence::default() };
    let effects = state.apply(&evidence, &Command::Beat { who: who.clone(), priority: None });
    assert_eq!(effects, [Effect::HeartbeatSeen]);
    let expected = Row { timeout: secs(9), beat: before.beat.next(), seen: AuthorityTime(7), ..before };
    assert_eq!(state.candidates[&who.member], expected);
}

/// Otherwise a change that was left unknown could land behind later ones that lead back to the same.
#[test]
fn a7_each_change_of_how_an_election_is_run_moves_the_revision_and_nothing_else_does() {
    let mut state = initialised();
    let other = ElectionConfig { lease: secs(7), ..ElectionConfig::default() };
    for (command, moves) in [
        (Command::Configure(other.clone()), true),
        (Command::Configure(other), false),
        (Command::Disable(Disable::Drain), true),
        (Command::Disable(Disable::Drain), false),
        (Command::Enable, true),
        (Command::Enable, false),
        (Command::RequestResign { epoch: None }, false),
    ] {
        let before = state.control.as_ref().unwrap().revision;
        state.apply(&Evidence::default(), &command);
        let revision = state.control.as_ref().unwrap().revision;
        assert_eq!(revision > before, moves, "{command:?}");
    }
}

#[test]
fn d15_a_rival_is_another_candidate_that_may_be_elected_and_is_not_known_to_be_silent() {
    let (a, b) = (named("a"), named("b"));
    let silent = |age| Evidence { silent: [(b.member.clone(), age)].into(), ..Evidence::default() };
    let mut state = ElectionState::default();
    assert!(!state.rivals(&Evidence::default(), &a.member), "there is no election");
    state = initialised();
    join(&mut state, "a", 0);
    assert!(!state.rivals(&Evidence::default(), &a.member), "it is alone");
    join(&mut state, "b", 0);
    assert!(state.rivals(&Evidence::default(), &a.member));
    assert!(state.rivals(&silent(secs(6).saturating_sub(Duration::from_nanos(1))), &a.member));
    assert!(!state.rivals(&silent(secs(6)), &a.member), "it was silent for too long");
    state.apply(&Evidence::default(), &Command::Beat { who: b.clone(), priority: Some(0) });
    assert!(!state.rivals(&Evidence::default(), &a.member), "it must not be elected");
}
