//! The second model.

use std::collections::{BTreeMap, BTreeSet};

use callsign_store::ids::Tag;

use crate::{
    ElectionConfig,
    core::{
        policy::{Preempt, Replace},
        state::{Command, Disable, Effect, ElectionState, RESERVE, Refused, Who},
    },
};

/// What was said, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    words: Vec<String>,
    term: Option<(String, u64, u64)>,
    stamp: Option<u64>,
    wait: Option<u64>,
    gone: Vec<String>,
}

impl Said {
    pub(super) fn of(effects: &[Effect]) -> Self {
        let mut said = Self::default();
        for effect in effects {
            match effect {
                Effect::Initialised => said.say("initialised"),
                Effect::Configured => said.say("configured"),
                Effect::Enabled => said.say("enabled"),
                Effect::Disabled => said.say("disabled"),
                Effect::Joined { seniority } => {
                    said.say("joined");
                    said.stamp = Some(seniority.0);
                }
                Effect::Left => said.say("left"),
                Effect::HeartbeatSeen => said.say("heard"),
                Effect::Elected { term, fence } | Effect::Refreshed { term, fence } => {
                    assert_eq!(fence.epoch, term.epoch);
                    let won = matches!(effect, Effect::Elected { .. });
                    said.say(if won { "elected" } else { "refreshed" });
                    said.term = Some((term.leader.to_string(), term.epoch.0, fence.ballot.0));
                }
                Effect::Vacated { .. } => said.say("vacated"),
                Effect::Asked { .. } => said.say("asked"),
                Effect::Evicted(member) => {
                    said.say("evicted");
                    said.gone.push(member.to_string());
                }
                Effect::Nothing => said.say("nothing"),
                Effect::Refused(Refused::TooEarly { wait }) => {
                    said.say("refused TooEarly");
                    said.wait = Some(wait.as_secs());
                }
                Effect::Refused(Refused::Invalid(_)) => said.say("refused Invalid"),
                Effect::Refused(why) => said.say(&format!("refused {why:?}")),
            }
        }
        said
    }

    fn say(&mut self, word: &str) {
        if self.words.last().is_none_or(|last| last != word) {
            self.words.push(word.to_owned());
        }
    }

    pub(super) fn kind(&self) -> String {
        self.words.join(" ")
    }
}

#[derive(Clone, Debug)]
struct Person {
    incarnation: u64,
    priority: u32,
    stamp: u64,
    tags: BTreeSet<Tag>,
    timeout: u64,
    touched: u64,
    joined: u64,
}

/// Who has the seat.
#[derive(Clone, Debug)]
struct Taken {
    name: String,
    incarnation: u64,
    priority: u32,
    stamp: u64,
    tags: BTreeSet<Tag>,
    lease: u64,
    delay: u64,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    config: Option<ElectionConfig>,
    enabled: bool,
    asked: Option<(u64, u64)>,
    /// Who asked wants it for himself, and is worth so much.
    asked_by: Option<u32>,
    people: BTreeMap<String, Person>,
    stamps: u64,
    promised: u64,
    /// Absent if it was lost.
    counter: Option<u64>,
    epoch: u64,
    epoch_since: u64,
    taken: Option<Taken>,
    wait: u64,
    /// It was freed for somebody who is worth so much.
    freed_for: Option<u32>,
    /// When anything of the seat changed last.
    touched: u64,
}

fn name(who: &Who) -> String {
    who.member.to_string()
}

impl Model {
    pub(super) fn lose(&mut self, now: u64) {
        if self.counter.take().is_some() {
            self.touched = now;
        }
        self.taken = None;
        self.wait = 0;
        self.freed_for = None;
    }

    pub(super) fn apply(&mut self, now: u64, command: &Command) -> Said {
        let mut said = Said::default();
        if let Err(why) = self.judge(now, command, &mut said) {
            said.say(&format!("refused {why}"));
        }
        said
    }

    fn judge(&mut self, now: u64, command: &Command, said: &mut Said) -> Result<(), &'static str> {
        match command {
            Command::Initialise(config) => {
                valid(config)?;
                if self.config.is_some() {
                    said.say("nothing");
                } else {
                    said.say("initialised");
                    self.config = Some(config.clone());
                    self.enabled = true;
                    self.touched = now;
                    self.epoch_since = now;
                    self.promised = *self.counter.get_or_insert(0) + RESERVE;
                }
            }
            Command::Configure(config) => {
                valid(config)?;
                let same = self.config.as_ref() == Some(config);
                if let (false, Some(old), None) = (same, self.config.clone(), self.counter) {
                    self.epoch = self.count();
                    (self.epoch_since, self.touched) = (now, now);
                    self.wait = old.lease.as_secs() + old.lock_delay.as_secs();
                }
                self.config = Some(config.clone());
                said.say(if same { "nothing" } else { "configured" });
            }
            Command::Enable => {
                said.say(if self.enabled { "nothing" } else { "enabled" });
                self.enabled = true;
            }
            Command::Disable(how) => {
                let stops = *how == Disable::Stop && self.taken.is_some();
                if stops {
                    self.depose(now, said);
                }
                if self.enabled {
                    said.say("disabled");
                } else if !stops {
                    said.say("nothing");
                }
                self.enabled = false;
            }
            Command::RequestResign { epoch } => {
                let leads = self.taken.is_some() && self.counter.is_some();
                if leads && epoch.is_none_or(|epoch| epoch.0 == self.epoch) {
                    self.ask(now, None);
                    said.say("asked");
                } else {
                    said.say("nothing");
                }
            }
            Command::Join(r) => {
                if !self.enabled {
                    return Err("Disabled");
                }
                let (name, incarnation) = (r.member.to_string(), r.incarnation.0);
                if let Some(taken) = &self.taken
                    && taken.name == name
                    && taken.incarnation != incarnation
                    && now - self.touched < taken.lease + taken.delay
                {
                    return Err("DuplicateIdentity");
                }
                let timeout = self.configured().candidate_timeout.as_secs();
                let known = self.people.get(&name).filter(|p| p.incarnation == incarnation);
                let (stamp, joined, mut touched) = if let Some(person) = known {
                    (person.stamp, person.joined, person.touched)
                } else {
                    self.stamps += 1;
                    (self.stamps, now, now)
                };
                if known.is_some_and(|p| p.priority != r.priority || p.tags != r.tags || p.timeout != timeout)
                {
                    touched = now;
                }
                let person = Person {
                    incarnation,
                    priority: r.priority,
                    stamp,
                    tags: r.tags.clone(),
                    timeout,
                    touched,
                    joined,
                };
                self.people.insert(name, person);
                said.say("joined");
                said.stamp = Some(stamp);
            }
            Command::Leave(who) | Command::Down(who) => {
                let leads = self.holds(who);
                if leads {
                    match command {
                        Command::Leave(_) => self.vacate(now, 0, said),
                        _ => self.depose(now, said),
                    }
                }
                let there = self.people.get(&name(who)).is_some_and(|p| p.incarnation == who.incarnation.0);
                if there {
                    self.people.remove(&name(who));
                }
                said.say(if there || leads { "left" } else { "nothing" });
            }
            Command::Beat { who, priority } => {
                if !self.enabled {
                    return Err("Disabled");
                }
                let timeout = self.configured().candidate_timeout.as_secs();
                self.person(who)?;
                let person = self.people.get_mut(&name(who)).unwrap();
                person.touched = now;
                person.timeout = timeout;
                person.priority = priority.unwrap_or(person.priority);
                let priority = person.priority;
                if self.holds(who) {
                    let taken = self.taken.as_mut().unwrap();
                    if taken.priority != priority {
                        taken.priority = priority;
                        self.touched = now;
                    }
                }
                said.say("heard");
            }
            Command::Claim { who, .. } => self.claim(now, who, said)?,
            Command::Refresh { who, epoch, trusted } => {
                if !self.holds(who) || epoch.0 != self.epoch {
                    return Err("TermOver");
                }
                if now - self.touched >= self.taken.as_ref().unwrap().lease {
                    return Err("TermOver");
                }
                if !self.enabled {
                    return Err("Disabled");
                }
                let person = self.person(who)?.clone();
                if !self.may(person.priority, &person.tags) {
                    return Err("Ineligible");
                }
                self.go_on(now, &person, trusted.as_secs(), said);
            }
            Command::Resign { who, epoch } => {
                if self.holds(who) && epoch.0 == self.epoch {
                    self.vacate(now, 0, said);
                } else {
                    said.say("nothing");
                }
            }
            Command::Evict { most } => {
                let mut gone = Vec::new();
                for (name, person) in &self.people {
                    let silent = now - person.touched >= person.timeout;
                    let leads = self.taken.as_ref().is_some_and(|t| {
                        t.name == *name
                            && t.incarnation == person.incarnation
                            && now - self.touched < t.lease + t.delay
                    });
                    if silent && !leads && gone.len() < *most {
                        gone.push((name.clone(), person.incarnation));
                    }
                }
                if gone.is_empty() {
                    said.say("nothing");
                }
                for (name, incarnation) in gone {
                    let had = self.taken.as_ref();
                    if had.is_some_and(|t| t.name == name && t.incarnation == incarnation) {
                        self.vacate(now, 0, said);
                    }
                    self.people.remove(&name);
                    said.say("evicted");
                    said.gone.push(name);
                }
            }
            Command::Sweep { who, epoch, watched, most } => {
                let sweeps = self.holds(who) && epoch.0 == self.epoch;
                let long =
                    |p: &Person| now - p.touched >= 10 * p.timeout && watched.as_secs() >= 10 * p.timeout;
                let others = self.people.iter().filter(|(other, p)| **other != name(who) && long(p));
                let gone: Vec<_> = others.map(|(other, _)| other.clone()).take(*most).collect();
                if !sweeps || gone.is_empty() {
                    said.say("nothing");
                    return Ok(());
                }
                self.people.retain(|other, _| !gone.contains(other));
                said.say("evicted");
                said.gone = gone;
            }
        }
        Ok(())
    }

    fn claim(&mut self, now: u64, who: &Who, said: &mut Said) -> Result<(), &'static str> {
        if !self.enabled {
            return Err("Disabled");
        }
        let me = self.person(who)?.clone();
        if !self.may(me.priority, &me.tags) {
            return Err("Ineligible");
        }
        let age = now - self.touched;
        // How long the seat still belongs to somebody, and to whom.
        let config = self.configured();
        let (until, holder) = match (&self.taken, self.counter) {
            (_, None) => (config.lease.as_secs() + config.lock_delay.as_secs(), None),
            (None, Some(_)) => {
                let for_better = self.freed_for.unwrap_or(0) > me.priority;
                (self.wait + if for_better { config.lease.as_secs() } else { 0 }, None)
            }
            (Some(taken), _) if taken.name == name(who) && taken.incarnation == me.incarnation => {
                if age < taken.lease {
                    let believed = self.taken.as_ref().unwrap().lease;
                    self.go_on(now, &me, believed, said);
                    return Ok(());
                }
                (if taken.delay == 0 { 0 } else { taken.lease + taken.delay }, None)
            }
            (Some(taken), _) => (taken.lease + taken.delay, Some(taken).filter(|t| age < t.lease)),
        };
        if holder.is_none() && age < until {
            said.wait = Some(until - age);
            return Err("TooEarly");
        }
        if holder.is_some_and(|holder| holder.name == name(who)) {
            return Err("DuplicateIdentity");
        }
        // Everybody that could have it instead of me: better first.
        let rank = |priority: u32, stamp: u64, name: &str| (u32::MAX - priority, stamp, name.to_owned());
        let mine = rank(me.priority, me.stamp, &name(who));
        let ranks = config.policy.preempt == Preempt::BetterRank;
        let somebody_better = ranks
            && self.people.iter().any(|(other, p)| {
                *other != name(who)
                    && holder.is_none_or(|holder| holder.name != *other)
                    && now - p.touched < p.timeout
                    && self.may(p.priority, &p.tags)
                    && rank(p.priority, p.stamp, other) < mine
            });
        let Some(holder) = holder else {
            if somebody_better {
                return Err("Outranked");
            }
            self.win(now, who, &me, said);
            return Ok(());
        };
        let stays = self.may(holder.priority, &holder.tags);
        let beaten = match config.policy.preempt {
            _ if !stays => true,
            Preempt::Never => false,
            Preempt::HigherPriority => me.priority > holder.priority,
            Preempt::BetterRank => mine < rank(holder.priority, holder.stamp, &holder.name),
        };
        if !beaten || somebody_better {
            return Err("Held");
        }
        let tenure = config.policy.min_tenure.as_secs();
        if stays && (now - self.epoch_since < tenure || now - me.joined < tenure) {
            return Err("Held");
        }
        let waits = if holder.delay == 0 { 0 } else { holder.lease + holder.delay };
        let worth = match config.policy.preempt {
            Preempt::HigherPriority => Some(me.priority),
            _ => None,
        };
        if let Replace::HandOver { grace } = config.policy.replace {
            match self.asked.filter(|(epoch, _)| *epoch == self.epoch) {
                None => {
                    self.ask(now, worth);
                    said.say("asked");
                    return Err("Held");
                }
                Some((_, since)) if now - since < grace.as_secs() => return Err("Held"),
                Some(_) => {}
            }
        }
        if waits > 0 {
            self.vacate(now, waits, said);
            self.freed_for = worth;
            said.wait = Some(waits);
            return Err("TooEarly");
        }
        self.win(now, who, &me, said);
        Ok(())
    }

    fn win(&mut self, now: u64, who: &Who, me: &Person, said: &mut Said) {
        if self.taken.is_some() {
            said.say("vacated");
        }
        let ballot = self.count();
        self.epoch = ballot;
        self.epoch_since = now;
        self.touched = now;
        self.wait = 0;
        self.freed_for = None;
        let config = self.configured();
        self.taken = Some(Taken {
            name: name(who),
            incarnation: me.incarnation,
            priority: me.priority,
            stamp: me.stamp,
            tags: me.tags.clone(),
            lease: config.lease.as_secs(),
            delay: config.lock_delay.as_secs(),
        });
        said.say("elected");
        said.term = Some((name(who), ballot, ballot));
    }

    fn go_on(&mut self, now: u64, me: &Person, believed: u64, said: &mut Said) {
        let ballot = self.count();
        self.touched = now;
        let (lease, delay) = (self.configured().lease.as_secs(), self.configured().lock_delay.as_secs());
        let taken = self.taken.as_mut().unwrap();
        (taken.priority, taken.tags) = (me.priority, me.tags.clone());
        (taken.lease, taken.delay) = (if lease < believed { believed } else { lease }, delay);
        said.say("refreshed");
        said.term = Some((taken.name.clone(), self.epoch, ballot));
    }

    fn vacate(&mut self, now: u64, wait: u64, said: &mut Said) {
        let was_asked = self.asked.is_some_and(|(epoch, _)| epoch == self.epoch);
        self.freed_for = if was_asked { self.asked_by } else { None };
        self.epoch = self.count();
        self.epoch_since = now;
        self.touched = now;
        self.taken = None;
        self.wait = wait;
        said.say("vacated");
    }

    /// Ends a term that was not given back.
    fn depose(&mut self, now: u64, said: &mut Said) {
        let (lease, delay) = self.taken.as_ref().map(|t| (t.lease, t.delay)).unwrap();
        self.vacate(now, if delay == 0 { 0 } else { lease + delay }, said);
    }

    fn count(&mut self) -> u64 {
        let next = self.counter.unwrap_or(self.promised) + 1;
        if next > self.promised {
            self.promised = next + RESERVE;
        }
        self.counter = Some(next);
        next
    }

    fn ask(&mut self, now: u64, by: Option<u32>) {
        if self.asked.is_none_or(|(epoch, _)| epoch != self.epoch) {
            self.asked = Some((self.epoch, now));
            self.asked_by = by;
        }
    }

    fn configured(&self) -> &ElectionConfig {
        self.config.as_ref().unwrap()
    }

    fn may(&self, priority: u32, tags: &BTreeSet<Tag>) -> bool {
        let policy = &self.configured().policy;
        (priority > 0 || !policy.zero_is_ineligible)
            && policy.requires.as_ref().is_none_or(|tag| tags.contains(tag))
    }

    fn holds(&self, who: &Who) -> bool {
        self.taken.as_ref().is_some_and(|t| t.name == name(who) && t.incarnation == who.incarnation.0)
    }

    fn person(&self, who: &Who) -> Result<&Person, &'static str> {
        let person = self.people.get(&name(who)).ok_or("Unregistered")?;
        if person.incarnation == who.incarnation.0 { Ok(person) } else { Err("DuplicateIdentity") }
    }

    /// Panics unless the state says the same.
    pub(super) fn agrees(&self, state: &ElectionState, at: &str) {
        let control = state.control.as_ref().unwrap();
        assert_eq!(Some(&control.config), self.config.as_ref(), "{at}");
        assert_eq!((control.enabled, control.reserved.0), (self.enabled, self.promised), "{at}");
        assert_eq!(control.request.map(|e| e.0), self.asked.map(|(epoch, _)| epoch), "{at}");
        assert_eq!(control.heir, self.asked_by, "{at}");
        assert_eq!(state.seat.as_ref().map(|seat| seat.ballot.0), self.counter, "{at}");
        assert_eq!(state.count.0.0, self.stamps, "{at}");
        if let Some(seat) = &state.seat {
            assert_eq!((seat.epoch.0, seat.wait.as_secs()), (self.epoch, self.wait), "{at}");
            assert_eq!(seat.holder.is_some(), self.taken.is_some(), "{at}");
            assert_eq!(seat.heir, self.freed_for, "{at}");
            if let Some((h, t)) = seat.holder.as_ref().zip(self.taken.as_ref()) {
                assert_eq!((h.member.as_str(), h.incarnation.0), (t.name.as_str(), t.incarnation), "{at}");
                assert_eq!((h.priority, h.seniority.0, &h.tags), (t.priority, t.stamp, &t.tags), "{at}");
                assert_eq!((h.lease.as_secs(), h.lock_delay.as_secs()), (t.lease, t.delay), "{at}");
            }
        }
        let people: Vec<_> =
            self.people.iter().map(|(n, p)| (n.as_str(), p.incarnation, p.priority, p.stamp)).collect();
        let rows = state.candidates.iter();
        let rows: Vec<_> =
            rows.map(|(m, r)| (m.as_str(), r.incarnation.0, r.priority, r.seniority.0)).collect();
        assert_eq!(rows, people, "{at}");
    }
}

fn valid(config: &ElectionConfig) -> Result<(), &'static str> {
    if config.lease.is_zero() { Err("Invalid") } else { Ok(()) }
}
