//! What watches gave: each in order and without a gap, and all of them of the same log.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
};

use foldhash::quality::FixedState;

use super::{
    super::event::{Answer, Event, Saw, Shown},
    Verdict,
    claims::Claim,
    process::ProcessHistory,
};

/// A change of a name: how it was, how it is, and why.
type Change<'a> = (Option<Shown>, Option<Shown>, &'a str);

/// A stretch of the log of which a watch says that it gave all.
#[derive(Clone, Copy, Debug)]
struct Covered {
    behind: u64,
    to: u64,
}

/// What a watch has said of a name.
#[derive(Clone, Copy)]
enum WatchSaid {
    Nothing,
    /// How it is held, or that it is free.
    Held(Option<Shown>),
}

/// One watch, as far as it was read.
struct Stream<'a> {
    who: String,
    prefix: &'a str,
    /// How names are held, as far as it said.
    known: BTreeMap<&'a str, Option<Shown>>,
    /// Whether that is all.
    is_whole: bool,
    /// A number that stands for it.
    sum: u64,
    /// The position of the last change.
    at: u64,
    /// Up to where it gave everything.
    passed: Option<u64>,
    /// Since where it did.
    behind: Option<u64>,
    covered: Vec<Covered>,
    /// Where names changed.
    changes: BTreeSet<(u64, &'a str)>,
    lags: bool,
}

/// What all watches say together.
#[derive(Default)]
struct WatchedLog<'a> {
    changes: BTreeMap<(u64, &'a str), (Change<'a>, String)>,
    /// By prefix and position: the sum of what is held there.
    states: BTreeMap<(&'a str, u64), (u64, String)>,
}

/// P4 and P5 of all watches.
pub(super) fn watches(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    let (mut log, mut streams) = (WatchedLog::default(), Vec::new());
    for process in processes {
        let mut its: BTreeMap<u64, Stream<'_>> = BTreeMap::new();
        // How far the one before it was, and what it knew.
        let mut last = None;
        for event in &process.events {
            let Event::Watched { watch, saw, passed, .. } = event else { continue };
            if let Saw::Opened { prefix, from } = saw {
                let who = format!("watch {watch} of {}, {}", process.node, process.incarnation);
                its.insert(*watch, Stream::new(who, prefix, *from, last.as_ref()));
            }
            let Some(stream) = its.get_mut(watch) else { continue };
            stream.take(saw, &mut log, verdict);
            stream.pass(*passed, &mut log, verdict);
            if *saw == Saw::Closed {
                last = stream.ends();
            }
        }
        streams.extend(its.into_values());
    }
    for stream in &mut streams {
        stream.cover();
    }
    let mut must: BTreeMap<(u64, &str), &str> =
        log.changes.keys().map(|key| (*key, "somebody saw")).collect();
    grants(processes, claims, &log, &mut must, verdict);
    for stream in &streams {
        stream.has_all(&must, verdict);
    }
}

/// What was acknowledged is a change at its position.
fn grants<'a>(
    processes: &'a [ProcessHistory],
    claims: &'a [Claim],
    log: &WatchedLog<'a>,
    must: &mut BTreeMap<(u64, &'a str), &'a str>,
    verdict: &mut Verdict,
) {
    for claim in claims.iter().filter(|claim| !claim.name.contains('#')) {
        for grant in &claim.grants {
            must.insert((grant.token, &claim.name), "was granted");
        }
    }
    for call in processes.iter().flat_map(|process| &process.calls) {
        match &call.answer {
            Some((_, Answer::Updated(revision) | Answer::Bound { revision, .. })) => {
                must.insert((*revision, &call.name), "was acknowledged");
            }
            Some((_, Answer::Moved { token, .. })) => {
                let super::Ask::Take { from } = call.ask else { continue };
                let Some(((was, _, why), who)) = log.changes.get(&(*token, call.name.as_str())) else {
                    continue;
                };
                verdict.count("moves that a watch has seen, without a gap", 1);
                if *why != "unknown" && (*why != "transferred" || was.is_none_or(|was| was.token != from)) {
                    let name = &call.name;
                    verdict.breach(format!(
                        "watch: {who} saw {name} go from {was:?} to {token}, {why}, and it went from {from}"
                    ));
                }
            }
            _ => {}
        }
    }
}

fn sum(name: &str, shown: Shown) -> u64 {
    FixedState::with_seed(shown.revision).hash_one((name, shown.token, shown.starts))
}

/// Whether a change is what its reason says.
fn is_reasonable(position: u64, (was, now, why): Change<'_>) -> bool {
    let is_new = now.is_some_and(|now| now.token == position && now.revision == position);
    let is_same = |starts: bool| {
        let both = was.zip(now);
        both.is_some_and(|(was, now)| {
            was.token == now.token && was.starts == starts && now.revision == position
        })
    };
    match why {
        "registered" => was.is_none() && is_new,
        "starting" => was.is_none() && is_new && now.is_some_and(|now| now.starts),
        "bound" => is_same(true) && now.is_some_and(|now| !now.starts),
        "updated" => is_same(false) && now.is_some_and(|now| !now.starts),
        // What is said of a name goes with it.
        "transferred" => {
            let keeps = was.zip(now).is_some_and(|(was, now)| was.says == now.says);
            was.is_some_and(|was| !was.starts) && is_new && keeps
        }
        "start_failed" => was.is_some_and(|was| was.starts) && now.is_none(),
        "unregistered" | "actor_ended" | "node_gone" | "reset" => was.is_some() && now.is_none(),
        _ => true,
    }
}

/// What a watch knew where it ended: its prefix, the position, and how names were held there.
type Ended<'a> = (&'a str, u64, BTreeMap<&'a str, Option<Shown>>, u64);

impl<'a> Stream<'a> {
    fn new(who: String, prefix: &'a str, from: Option<u64>, last: Option<&Ended<'a>>) -> Self {
        let goes_on = last.filter(|(of, at, ..)| *of == prefix && Some(*at) == from);
        let (known, sum) = goes_on.map(|(_, _, known, sum)| (known.clone(), *sum)).unwrap_or_default();
        Self {
            who,
            prefix,
            known,
            is_whole: goes_on.is_some(),
            sum,
            at: from.unwrap_or(0),
            passed: from,
            behind: from,
            covered: Vec::new(),
            changes: BTreeSet::new(),
            lags: false,
        }
    }

    /// What it knows where it ends, if it knows all there.
    fn ends(&self) -> Option<Ended<'a>> {
        let passed = self.passed.filter(|passed| self.is_whole && self.at <= *passed && !self.lags)?;
        Some((self.prefix, passed, self.known.clone(), self.sum))
    }

    /// The stretch that it gave whole is over.
    fn cover(&mut self) {
        if let (Some(behind), Some(to)) = (self.behind.take(), self.passed)
            && behind < to
        {
            self.covered.push(Covered { behind, to });
        }
    }

    /// Keeps how a name is held, and returns what it had said of it.
    fn knows(&mut self, name: &'a str, now: Option<Shown>) -> WatchSaid {
        let former = self.known.insert(name, now).map_or(WatchSaid::Nothing, WatchSaid::Held);
        let of = |shown: Option<Shown>| shown.map_or(0, |shown| sum(name, shown));
        let was = if let WatchSaid::Held(was) = former { was } else { None };
        self.sum = self.sum.wrapping_sub(of(was)).wrapping_add(of(now));
        former
    }

    fn take(&mut self, saw: &'a Saw, log: &mut WatchedLog<'a>, verdict: &mut Verdict) {
        match saw {
            Saw::Present { name, now } => {
                if let WatchSaid::Held(Some(former)) = self.knows(name, Some(*now))
                    && former.revision > now.revision
                {
                    verdict.breach(format!(
                        "watch: {} went back to {now:?} of {name}, from {former:?}",
                        self.who
                    ));
                }
            }
            Saw::Current(position) => {
                self.is_whole = true;
                (self.at, self.behind) = (*position, Some(*position));
            }
            Saw::Change { name, position, was, now, why } => {
                self.change(name, *position, (*was, *now, why), log, verdict);
            }
            Saw::Lagged => {
                self.cover();
                self.lags = true;
                verdict.count("watches that were too slow", 1);
            }
            Saw::Reset => {
                self.cover();
                (self.known, self.sum, self.is_whole) = (BTreeMap::new(), 0, false);
                (self.at, self.passed, self.lags) = (0, None, false);
                verdict.count("watches that began anew", 1);
            }
            Saw::Opened { .. } | Saw::Bookmark(_) | Saw::Lapsed | Saw::Resumed | Saw::Closed => {}
        }
    }

    fn change(
        &mut self,
        name: &'a str,
        position: u64,
        change: Change<'a>,
        log: &mut WatchedLog<'a>,
        verdict: &mut Verdict,
    ) {
        let (was, now, why) = change;
        let who = &self.who;
        if position < self.at || (self.passed.is_some_and(|passed| position <= passed) && !self.lags) {
            verdict.breach(format!(
                "watch: {who} gave {position} of {name} after {} and {:?}",
                self.at, self.passed
            ));
        }
        if !self.lags {
            self.at = self.at.max(position);
        }
        verdict.count("changes that watches gave in order", 1);
        if !is_reasonable(position, change) {
            verdict
                .breach(format!("watch: {who} saw {name} go from {was:?} to {now:?} at {position}, {why}"));
        }
        if why != "unknown" {
            self.changes.insert((position, name));
            let (first, whose) = log.changes.entry((position, name)).or_insert_with(|| (change, who.clone()));
            verdict.count("changes seen alike by all watches", usize::from(whose != who));
            if *first != change {
                verdict.breach(format!(
                    "watch: at {position} {whose} saw {first:?} of {name}, and {who} {change:?}"
                ));
            }
        }
        let is_whole = self.is_whole;
        let former = self.knows(name, now);
        let former = match former {
            // It had said all that is held.
            WatchSaid::Nothing if is_whole => WatchSaid::Held(None),
            WatchSaid::Held(_) if !is_whole && self.behind.is_none() => WatchSaid::Nothing,
            former => former,
        };
        if let WatchSaid::Held(former) = former {
            verdict.count("changes of what a watch had said before", 1);
            if former != was {
                let who = &self.who;
                verdict.breach(format!(
                    "watch: {who} said {former:?} of {name}, and that it was {was:?} until {position}"
                ));
            }
        }
    }

    fn pass(&mut self, passed: Option<u64>, log: &mut WatchedLog<'a>, verdict: &mut Verdict) {
        let Some(position) = passed.filter(|_| passed != self.passed) else { return };
        let who = &self.who;
        if self.passed.is_some_and(|before| before > position) || position < self.at {
            verdict.breach(format!("watch: {who} passed {position} after {:?}, at {}", self.passed, self.at));
        }
        if self.behind.is_none() && !self.lags {
            verdict.breach(format!(
                "watch: {who} has all up to {position}, though it has not given the present state"
            ));
        }
        self.passed = Some(position);
        if self.lags {
            (self.lags, self.behind, self.at) = (false, Some(position), position);
        }
        if self.is_whole {
            let (first, whose) =
                log.states.entry((self.prefix, position)).or_insert_with(|| (self.sum, who.clone()));
            verdict.count("states of watches that are alike at a position", usize::from(whose != who));
            if *first != self.sum {
                verdict.breach(format!("watch: at {position} {who} knows something else than {whose}"));
            }
        }
    }

    /// It has all changes of what it gave whole.
    fn has_all(&self, must: &BTreeMap<(u64, &'a str), &str>, verdict: &mut Verdict) {
        for Covered { behind, to } in &self.covered {
            for ((position, name), why) in must.range((behind + 1, "")..(to + 1, "")) {
                if name.starts_with(self.prefix) {
                    verdict.count("changes that a watch could not miss", 1);
                    if !self.changes.contains(&(*position, name)) {
                        verdict.breach(format!(
                            "watch: {} gave all behind {behind} up to {to}, but not {position} of {name}, which {why}",
                            self.who
                        ));
                    }
                }
            }
        }
    }
}
