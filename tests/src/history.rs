//! What clients were answered and what nodes said they hold, and whether that can be.
//!
//! Every moment is known only as an interval, [asked, answered]: what was answered was so at some moment within.
//! A breach is reported only where every choice of moments is one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::client::Client;
use callsign_store::lock::lock;

/// One incarnation of a node.
#[derive(Debug)]
pub struct Life {
    /// The node.
    pub node: String,
    /// The incarnation.
    pub incarnation: u64,
    /// Asks it.
    pub client: Client,
    /// The number of its first session; 0 until it is known.
    session: AtomicU64,
    ended: Mutex<Option<Instant>>,
}

impl Life {
    pub(crate) fn new(node: &str, incarnation: u64, client: Client) -> Self {
        Self {
            node: node.to_owned(),
            incarnation,
            client,
            session: AtomicU64::new(0),
            ended: Mutex::new(None),
        }
    }

    /// Notes that it is about to be ended. Nothing is expected of it from here on.
    pub fn end(&self) {
        lock(&self.ended).get_or_insert_with(Instant::now);
    }

    /// When it was about to be ended.
    pub fn ended(&self) -> Option<Instant> {
        *lock(&self.ended)
    }

    /// Notes its first session.
    pub(crate) fn set_session(&self, number: u64) {
        self.session.store(number, Ordering::Relaxed);
    }

    /// Its first session.
    pub fn session(&self) -> u64 {
        self.session.load(Ordering::Relaxed)
    }
}

/// When a question was asked and when it was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

impl Span {
    /// From an instant until now.
    pub(crate) fn since(asked: Instant) -> Self {
        Self { asked, answered: Instant::now() }
    }
}

/// An acknowledged registration, and what its host was asked to do about it thereafter.
#[derive(Clone, Debug)]
struct Grant {
    token: u64,
    answered: Instant,
    /// When its client first asked for its end, whatever the answer.
    given_up: Option<Instant>,
    /// When that was acknowledged.
    freed: Option<Instant>,
}

/// What is known of one token of one name.
#[derive(Clone, Copy, Debug)]
struct Hold {
    incarnation: u64,
    /// From here on it had certainly been granted.
    known: Instant,
    /// Asked at this moment or later, its host said that it trusts it.
    trusted: Option<Instant>,
}

/// A consistent read.
#[derive(Clone, Debug)]
struct ConsistentRead {
    name: String,
    span: Span,
    token: Option<u64>,
}

/// A registration refused because of another holder.
#[derive(Clone, Debug)]
struct Taken {
    name: String,
    span: Span,
    token: u64,
}

#[derive(Debug, Default)]
struct Facts {
    /// By incarnation and name, oldest first.
    grants: BTreeMap<(u64, String), Vec<Grant>>,
    holds: BTreeMap<String, BTreeMap<u64, Hold>>,
    reads: Vec<ConsistentRead>,
    taken: Vec<Taken>,
    /// Names of an incarnation with a request that nobody answered: it may still have an effect.
    unanswered: BTreeSet<(u64, String)>,
    /// Acknowledged registrations that their host denied later.
    denied: Vec<(u64, String)>,
    breaches: Vec<String>,
    answers: BTreeMap<String, u64>,
}

/// Of which incarnations an acknowledged name may be gone without having been given up.
#[derive(Clone, Debug, Default)]
pub struct Forgive(BTreeSet<u64>);

impl Forgive {
    /// Forgives nothing.
    pub fn nobody() -> Self {
        Self::default()
    }

    /// Whether nobody but this incarnation is forgiven.
    pub fn only(&self, incarnation: u64) -> bool {
        self.0.iter().all(|forgiven| *forgiven == incarnation)
    }

    /// Whether an incarnation is forgiven.
    pub(crate) fn has(&self, incarnation: u64) -> bool {
        self.0.contains(&incarnation)
    }

    /// Forgives an incarnation whose session was lost.
    pub fn and(&mut self, incarnation: u64) {
        self.0.insert(incarnation);
    }
}

/// What was seen.
#[derive(Debug, Default)]
pub struct History {
    facts: Mutex<Facts>,
}

impl Facts {
    fn known(&mut self, name: &str, token: u64, incarnation: u64, span: Span, is_trusted: bool) {
        let hold = self.holds.entry(name.to_owned()).or_default().entry(token).or_insert(Hold {
            incarnation,
            known: span.answered,
            trusted: None,
        });
        hold.known = hold.known.min(span.answered);
        if is_trusted {
            hold.trusted = hold.trusted.max(Some(span.asked));
        }
        if hold.incarnation != incarnation {
            let other = hold.incarnation;
            self.breaches.push(format!("P7: {name} has token {token} on both {other} and {incarnation}"));
        }
    }
}

impl History {
    /// A registration was acknowledged. Returns whether it is a new one, and not the answer of a host that holds the
    /// name already, and asks nobody.
    pub(crate) fn granted(&self, life: &Life, name: &str, token: u64, span: Span) -> bool {
        let mut facts = lock(&self.facts);
        facts.known(name, token, life.incarnation, span, true);
        let grants = facts.grants.entry((life.incarnation, name.to_owned())).or_default();
        let mut breach = None;
        let is_new = grants.last().is_none_or(|last| last.token != token);
        match grants.last_mut() {
            // Asked again for the same actor.
            Some(last) if last.token == token => {
                if let Some(freed) = last.freed
                    && freed < span.asked
                {
                    breach = Some(format!("P7: {name} was granted {token} again after it was freed"));
                }
            }
            last => {
                if let Some(last) = last
                    && last.token > token
                {
                    breach = Some(format!("P7: {name} was granted {token} after {}", last.token));
                }
                let grant = Grant { token, answered: span.answered, given_up: None, freed: None };
                grants.push(grant);
            }
        }
        facts.breaches.extend(breach);
        is_new
    }

    /// The client is about to ask for the end of a registration.
    pub(crate) fn giving_up(&self, life: &Life, name: &str) {
        if let Some(grant) = lock(&self.facts).last_grant(life, name) {
            grant.given_up.get_or_insert_with(Instant::now);
        }
    }

    /// That was acknowledged.
    pub(crate) fn freed(&self, life: &Life, name: &str) {
        if let Some(grant) = lock(&self.facts).last_grant(life, name) {
            grant.freed.get_or_insert_with(Instant::now);
        }
    }

    /// The host said that it does not hold what it had acknowledged.
    pub(crate) fn denied(&self, life: &Life, name: &str) {
        lock(&self.facts).denied.push((life.incarnation, name.to_owned()));
    }

    pub(crate) fn taken(&self, name: &str, token: u64, span: Span) {
        lock(&self.facts).taken.push(Taken { name: name.to_owned(), span, token });
    }

    pub(crate) fn read(&self, name: &str, token: Option<u64>, span: Span) {
        lock(&self.facts).reads.push(ConsistentRead { name: name.to_owned(), span, token });
    }

    /// Nobody answered a request about a name: it may still have an effect, as long as that incarnation lives.
    pub(crate) fn unanswered(&self, life: &Life, name: &str) {
        lock(&self.facts).unanswered.insert((life.incarnation, name.to_owned()));
    }

    pub(crate) fn held(&self, life: &Life, name: &str, token: u64, span: Span, is_trusted: bool) {
        lock(&self.facts).known(name, token, life.incarnation, span, is_trusted);
    }

    /// Reports a breach that was seen outright.
    pub fn breach(&self, text: String) {
        lock(&self.facts).breaches.push(text);
    }

    pub(crate) fn count(&self, answer: &str) {
        *lock(&self.facts).answers.entry(answer.to_owned()).or_default() += 1;
    }

    /// How many times something was answered so far: `registered` (newly), `unregistered`, or the code of a refusal.
    pub fn answers(&self, answer: &str) -> u64 {
        lock(&self.facts).answers.get(answer).copied().unwrap_or(0)
    }

    /// The registrations of a living incarnation that were acknowledged and never asked to end: name and token.
    pub fn owed(&self, life: &Life) -> BTreeMap<String, u64> {
        let facts = lock(&self.facts);
        let mine = facts.grants.iter().filter(|((incarnation, _), _)| *incarnation == life.incarnation);
        let owed =
            mine.filter(|(key, _)| !facts.unanswered.contains(key)).filter_map(|((_, name), grants)| {
                let last = grants.last().filter(|last| last.given_up.is_none())?;
                Some((name.clone(), last.token))
            });
        owed.collect()
    }

    /// What was promised and not kept, of what can be told without asking anybody. `lives` are all that there were.
    pub fn breaches(&self, lives: &[&Life], forgive: &Forgive) -> Vec<String> {
        let facts = lock(&self.facts);
        let mut breaches = facts.breaches.clone();
        for (name, holds) in &facts.holds {
            let mut later: Option<(u64, Instant)> = None;
            for (&token, hold) in holds.iter().rev() {
                if let (Some((newer, known)), Some(trusted)) = (later, hold.trusted)
                    && trusted > known
                {
                    let late = trusted - known;
                    breaches.push(format!(
                        "P1: {name} with token {token} passed the check {late:?} after {newer} was granted"
                    ));
                }
                if later.is_none_or(|(_, known)| hold.known < known) {
                    later = Some((token, hold.known));
                }
            }
        }
        for taken in &facts.taken {
            let freed = facts.grants.iter().filter(|((_, name), _)| *name == taken.name);
            let freed = freed.flat_map(|(_, grants)| grants).find(|grant| grant.token == taken.token);
            if freed.and_then(|grant| grant.freed).is_some_and(|freed| freed < taken.span.asked) {
                breaches.push(format!("P4: {} was refused for {}, freed before", taken.name, taken.token));
            }
        }
        let is_excused = |key: &(u64, String)| forgive.has(key.0) || facts.unanswered.contains(key);
        for read in &facts.reads {
            for (key, grants) in facts.grants.iter().filter(|(key, _)| key.1 == read.name && !is_excused(key))
            {
                let ended = lives.iter().find(|life| life.incarnation == key.0).and_then(|life| life.ended());
                for grant in grants {
                    let until = [grant.given_up, ended].into_iter().flatten().min();
                    let is_certain = grant.answered < read.span.asked
                        && until.is_none_or(|until| until > read.span.answered);
                    if is_certain && read.token != Some(grant.token) {
                        breaches.push(format!(
                            "P4: {} was held with {}, a consistent read found {:?}",
                            read.name, grant.token, read.token
                        ));
                    }
                }
            }
        }
        for key in facts.denied.iter().filter(|key| !is_excused(key)) {
            breaches.push(format!("P3: {} was lost by its host, {}", key.1, key.0));
        }
        breaches
    }
}

impl Facts {
    fn last_grant(&mut self, life: &Life, name: &str) -> Option<&mut Grant> {
        self.grants.get_mut(&(life.incarnation, name.to_owned()))?.last_mut()
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = lock(&self.facts);
        write!(f, "{:?}, {} consistent reads", facts.answers, facts.reads.len())
    }
}

#[cfg(test)]
mod tests;
