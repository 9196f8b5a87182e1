//! Looks for an order of the calls on one name.
//!
//! Depth first over configurations: which calls are in order so far, and the state they lead to. What keeps it from
//! branching, with the reason why nothing is missed:
//!
//! - A call that changes nothing now, and never could change anything, goes next as soon as its answer is true:
//!   whatever order follows from here, it is as good with this call in front.
//! - Tokens only grow, so a configuration is dead once its state has passed a token that a call still needs, and a
//!   new token is never above the smallest one that is still needed.
//! - A call of unknown outcome goes next only where it has an effect: if it has none, its absence does as well. A
//!   registration of unknown outcome takes only tokens that somebody saw, and that nobody else was granted: under an
//!   unseen one it could only stand in the way.
//! - So does a move of unknown outcome. It may take an unseen token, too, if its claimant gives up whatever it has: then the name is
//!   free without anybody having seen that token. The smallest one leaves the most room for what follows.
//! - An update of unknown outcome takes only revisions that somebody saw, or relied on: under an unseen one it only stands in the way.
//! - Of two such calls with the same effect, the one called first goes first.

use std::collections::BTreeSet;

use super::{Claimant, Moved, Op, Registered, Seen, Target, Unregistered, Updated, What};

/// What came of the search.
pub(super) enum Ordered {
    /// There is an order.
    Yes { explored: usize },
    /// There is none.
    No,
    /// It would take too long to say.
    GaveUp { explored: usize },
}

/// The buffers of a search.
#[derive(Debug, Default)]
pub(super) struct OrderSearch {
    /// Calls that must be in the order, as they were called.
    must: Vec<Must>,
    /// The smallest token that `must[i..]` need.
    need_from: Vec<u64>,
    /// Calls that may be in the order, as they were called.
    may: Vec<May>,
    /// Tokens that a registration of unknown outcome may have got, and who else is known to have got them.
    loose: Vec<(u64, Option<u32>)>,
    /// Revisions that an update of unknown outcome may have got.
    loose_revisions: Vec<u64>,
    claimants: Vec<Claimant>,
    /// Those who give up whatever they have.
    droppers: Vec<u32>,
    stack: Vec<Config>,
    seen: BTreeSet<Config>,
}

#[derive(Clone, Copy, Debug)]
struct Must {
    call: u64,
    ret: u64,
    act: OrderedAct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrderedAct {
    Grant { token: u64, by: u32 },
    Taken { token: u64, by: u32 },
    Found { token: u64, revision: Option<u64> },
    Change { token: u64, expected: Option<u64>, revision: u64 },
    Move { from: u64, token: u64, by: u32 },
    Vacant,
    Release { token: u64 },
    Drop { by: u32 },
}

#[derive(Clone, Copy, Debug)]
struct May {
    call: u64,
    effect: Effect,
    /// The one with the same effect that was called before.
    twin: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Take { by: u32 },
    Release { token: u64 },
    Drop { by: u32 },
    Change { token: u64, expected: Option<u64> },
    Move { from: u64, by: u32 },
}

/// How many calls on one name may overlap one that has not returned, and how many may be unknown.
const WIDTH: usize = 128;
/// Above every token.
const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Config {
    /// All of `must` before this one are in order; this one is not.
    base: usize,
    /// Which of `must[base..]` are.
    done: u128,
    /// Which of `may` are.
    used: u128,
    state: OrderState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OrderState {
    /// The last token granted.
    last: Option<u64>,
    /// By whom it is held, if it still is.
    holder: Option<u32>,
    /// When what is held was changed last.
    revision: u64,
}

/// What a call would do in a state.
enum Fit {
    /// Its answer is true, it changes nothing, and will not later.
    Idle,
    /// Its answer is true and leads to this state.
    To(OrderState),
    /// Its answer is not true here.
    Wait,
}

/// What a configuration came to after all that is idle was put in order.
enum Settled {
    Complete,
    Dead,
    Open {
        /// Calls from here on come after one that is not in order yet.
        horizon: u64,
        /// The smallest token that is still needed.
        need: u64,
    },
    TooWide,
}

impl OrderState {
    fn holds(self, token: u64) -> bool {
        self.holder.is_some() && self.last == Some(token)
    }

    fn vacated(self) -> OrderState {
        OrderState { holder: None, ..self }
    }

    fn granted(token: u64, by: u32) -> OrderState {
        OrderState { last: Some(token), holder: Some(by), revision: token }
    }

    /// What is held under the token is changed, if it is at the expected revision.
    fn changed(self, token: u64, expected: Option<u64>, revision: u64) -> Option<OrderState> {
        let is_as_expected = expected.is_none_or(|expected| expected == self.revision);
        let fits = self.holds(token) && is_as_expected && self.revision < revision;
        fits.then_some(OrderState { revision, ..self })
    }
}

impl OrderedAct {
    /// The token that must be held, or come to be held, for the answer to be true.
    fn need(self) -> u64 {
        match self {
            OrderedAct::Grant { token, .. }
            | OrderedAct::Taken { token, .. }
            | OrderedAct::Found { token, .. }
            | OrderedAct::Change { token, .. } => token,
            // The hold that ends by it.
            OrderedAct::Move { from, .. } => from,
            OrderedAct::Vacant | OrderedAct::Release { .. } | OrderedAct::Drop { .. } => NONE,
        }
    }

    fn fit(self, state: OrderState) -> Fit {
        let idle_if = |yes: bool| if yes { Fit::Idle } else { Fit::Wait };
        match self {
            OrderedAct::Found { token, revision } => {
                idle_if(state.holds(token) && revision.is_none_or(|revision| revision == state.revision))
            }
            OrderedAct::Change { token, expected, revision } => {
                state.changed(token, expected, revision).map_or(Fit::Wait, Fit::To)
            }
            // The claimant has it already.
            OrderedAct::Move { from, token, by } if from == token => {
                idle_if(state.holds(token) && state.holder == Some(by))
            }
            OrderedAct::Move { from, token, by } => {
                if state.holds(from) && from < token {
                    Fit::To(OrderState::granted(token, by))
                } else {
                    Fit::Wait
                }
            }
            OrderedAct::Taken { token, by } => idle_if(state.holds(token) && state.holder != Some(by)),
            OrderedAct::Vacant => idle_if(state.holder.is_none()),
            OrderedAct::Grant { token, by } => {
                if state.holder.is_none() && state.last < Some(token) {
                    Fit::To(OrderState::granted(token, by))
                } else {
                    idle_if(state.holds(token) && state.holder == Some(by))
                }
            }
            OrderedAct::Release { token } => {
                if state.holds(token) {
                    Fit::To(state.vacated())
                } else {
                    idle_if(state.last >= Some(token))
                }
            }
            // Not idle even if it changes nothing: later it may.
            OrderedAct::Drop { by } => {
                Fit::To(if state.holder == Some(by) { state.vacated() } else { state })
            }
        }
    }
}

impl Config {
    fn has(&self, index: usize) -> bool {
        index < self.base || (index - self.base < WIDTH && self.done & (1 << (index - self.base)) != 0)
    }

    /// Puts a call in order; false if the window cannot show it.
    fn put(&mut self, index: usize) -> bool {
        let bit = index - self.base;
        if bit >= WIDTH {
            return false;
        }
        self.done |= 1 << bit;
        let first = self.done.trailing_ones();
        self.done = self.done.checked_shr(first).unwrap_or(0);
        self.base += first as usize;
        true
    }
}

impl OrderSearch {
    /// Looks for an order of these calls.
    pub(super) fn find(&mut self, ops: &[Op], limit: usize) -> Ordered {
        self.prepare(ops);
        if self.may.len() > WIDTH {
            return Ordered::GaveUp { explored: 0 };
        }
        self.stack.clear();
        self.seen.clear();
        let state = OrderState { last: None, holder: None, revision: 0 };
        self.stack.push(Config { base: 0, done: 0, used: 0, state });
        while let Some(mut config) = self.stack.pop() {
            let explored = self.seen.len();
            match self.settle(&mut config) {
                Settled::Complete => return Ordered::Yes { explored },
                Settled::Dead => {}
                Settled::TooWide => return Ordered::GaveUp { explored },
                Settled::Open { horizon, need } => {
                    if explored >= limit {
                        return Ordered::GaveUp { explored };
                    }
                    if self.seen.insert(config) && !self.branch(&config, horizon, need) {
                        return Ordered::GaveUp { explored };
                    }
                }
            }
        }
        Ordered::No
    }

    /// Puts in order whatever is idle.
    fn settle(&self, config: &mut Config) -> Settled {
        loop {
            if config.base >= self.must.len() {
                return Settled::Complete;
            }
            let (mut horizon, mut need, mut end) = (NONE, NONE, config.base);
            while let Some(op) = self.must.get(end).filter(|op| op.call <= horizon) {
                if !config.has(end) {
                    horizon = horizon.min(op.ret);
                    need = need.min(op.act.need());
                }
                end += 1;
            }
            // What was called after the horizon cannot be in order yet.
            need = need.min(self.need_from.get(end).copied().unwrap_or(NONE));
            if config
                .state
                .last
                .is_some_and(|last| last > need || (last == need && config.state.holder.is_none()))
            {
                return Settled::Dead;
            }
            let mut moved = false;
            for index in config.base..end {
                let op = &self.must[index];
                if op.call > horizon || config.has(index) || !matches!(op.act.fit(config.state), Fit::Idle) {
                    continue;
                }
                if !config.put(index) {
                    return Settled::TooWide;
                }
                moved = true;
            }
            if !moved {
                return Settled::Open { horizon, need };
            }
        }
    }

    /// Puts on the stack all that may come next, the likeliest last; false if there is too much at once.
    fn branch(&mut self, config: &Config, horizon: u64, need: u64) -> bool {
        for (index, op) in self.may.iter().enumerate() {
            if op.call > horizon {
                break;
            }
            let unused = |index: usize| config.used & (1 << index) == 0;
            if !unused(index) || op.twin.is_some_and(unused) {
                continue;
            }
            let next = |state| Config { used: config.used | (1 << index), state, ..*config };
            let OrderState { last, holder, revision } = config.state;
            match op.effect {
                Effect::Take { by } if holder.is_none() => {
                    let from = self.loose.partition_point(|(token, _)| Some(*token) <= last);
                    for (token, owner) in self.loose[from..].iter().take_while(|(token, _)| *token <= need) {
                        if owner.is_none_or(|owner| owner == by) {
                            self.stack.push(next(OrderState::granted(*token, by)));
                        }
                    }
                }
                Effect::Move { from, by } if config.state.holds(from) => {
                    let begin = self.loose.partition_point(|(token, _)| *token <= from);
                    for (token, owner) in self.loose[begin..].iter().take_while(|(token, _)| *token <= need) {
                        if owner.is_none_or(|owner| owner == by) {
                            self.stack.push(next(OrderState::granted(*token, by)));
                        }
                    }
                    if self.droppers.contains(&by) {
                        let mut unseen = from + 1;
                        for (token, _) in &self.loose[begin..] {
                            unseen += u64::from(*token == unseen);
                        }
                        if unseen < need {
                            self.stack.push(next(OrderState::granted(unseen, by)));
                        }
                    }
                }
                Effect::Release { token } if config.state.holds(token) => {
                    self.stack.push(next(config.state.vacated()));
                }
                Effect::Change { token, expected } => {
                    let from = self.loose_revisions.partition_point(|loose| *loose <= revision);
                    for loose in &self.loose_revisions[from..] {
                        let changed = config.state.changed(token, expected, *loose);
                        self.stack.extend(changed.map(next));
                    }
                }
                Effect::Drop { by } if holder == Some(by) => self.stack.push(next(config.state.vacated())),
                _ => {}
            }
        }
        let end = config.base + self.must[config.base..].partition_point(|op| op.call <= horizon);
        for index in (config.base..end).rev() {
            let act = self.must[index].act;
            if config.has(index) || matches!(act, OrderedAct::Grant { token, .. } if token > need) {
                continue;
            }
            if let Fit::To(state) = act.fit(config.state) {
                let mut next = Config { state, ..*config };
                if !next.put(index) {
                    return false;
                }
                self.stack.push(next);
            }
        }
        true
    }

    /// Sorts the calls into those that must and those that may be in the order.
    fn prepare(&mut self, ops: &[Op]) {
        self.must.clear();
        self.may.clear();
        self.loose.clear();
        self.loose_revisions.clear();
        self.claimants.clear();
        self.droppers.clear();
        for op in ops {
            let mut must = |act| {
                self.must.push(Must { call: op.call, ret: op.ret.map_or(NONE, |ret| ret.max(op.call)), act });
            };
            let mut may = |effect| self.may.push(May { call: op.call, effect, twin: None });
            match op.what {
                What::Register { by, answer } => {
                    let by = index_of(&mut self.claimants, by);
                    match answer {
                        Registered::Granted { token } => {
                            must(OrderedAct::Grant { token, by });
                            self.loose.push((token, Some(by)));
                        }
                        Registered::Taken { token } => {
                            must(OrderedAct::Taken { token, by });
                            self.loose.push((token, None));
                        }
                        Registered::Unknown => may(Effect::Take { by }),
                        Registered::Refused => {}
                    }
                }
                What::Unregister { target: Target::Token(token), answer } => match answer {
                    Unregistered::Done => {
                        must(OrderedAct::Release { token });
                        self.loose.push((token, None));
                    }
                    Unregistered::Unknown => {
                        may(Effect::Release { token });
                        self.loose.push((token, None));
                    }
                    Unregistered::Refused => {}
                },
                What::Unregister { target: Target::By(by), answer } => {
                    let by = index_of(&mut self.claimants, by);
                    match answer {
                        Unregistered::Done => must(OrderedAct::Drop { by }),
                        Unregistered::Unknown => may(Effect::Drop { by }),
                        Unregistered::Refused => continue,
                    }
                    self.droppers.push(by);
                }
                What::Update { token, expected, answer } => {
                    self.loose.push((token, None));
                    self.loose_revisions.extend(expected);
                    match answer {
                        Updated::Done { revision } => must(OrderedAct::Change { token, expected, revision }),
                        Updated::Changed { revision } => {
                            must(OrderedAct::Found { token, revision: Some(revision) });
                            self.loose_revisions.push(revision);
                        }
                        Updated::Unknown => may(Effect::Change { token, expected }),
                        Updated::Refused => {}
                    }
                }
                What::Move { from, by, answer } => {
                    let by = index_of(&mut self.claimants, by);
                    self.loose.push((from, None));
                    match answer {
                        Moved::Done { token } => {
                            must(OrderedAct::Move { from, token, by });
                            self.loose.push((token, Some(by)));
                        }
                        Moved::Unknown => may(Effect::Move { from, by }),
                        Moved::Refused => {}
                    }
                }
                What::Read { answer: Seen::Found { token, revision } } => {
                    must(OrderedAct::Found { token, revision });
                    self.loose.push((token, None));
                    self.loose_revisions.extend(revision);
                }
                What::Read { answer: Seen::Free } => must(OrderedAct::Vacant),
                What::Read { answer: Seen::Refused } => {}
                What::Free { token } => {
                    match op.ret {
                        Some(_) => must(OrderedAct::Release { token }),
                        None => may(Effect::Release { token }),
                    }
                    self.loose.push((token, None));
                }
            }
        }
        self.must.sort_by_key(|op| op.call);
        self.may.sort_by_key(|op| op.call);
        for index in 0..self.may.len() {
            let effect = self.may[index].effect;
            self.may[index].twin = self.may[..index].iter().rposition(|op| op.effect == effect);
        }
        self.need_from.clear();
        self.need_from.resize(self.must.len(), NONE);
        let mut need = NONE;
        for (from, op) in self.need_from.iter_mut().zip(&self.must).rev() {
            need = need.min(op.act.need());
            *from = need;
        }
        if self.may.is_empty() {
            self.loose.clear();
        }
        // Of several entries for a token keep one that says who got it.
        self.loose.sort_unstable_by_key(|(token, owner)| (*token, owner.is_none(), *owner));
        self.loose.dedup_by_key(|(token, _)| *token);
        self.loose_revisions.sort_unstable();
        self.loose_revisions.dedup();
    }
}

/// Few claimants ask for one name, so a scan is the fastest way.
fn index_of(claimants: &mut Vec<Claimant>, by: Claimant) -> u32 {
    let index = claimants.iter().position(|known| *known == by).unwrap_or_else(|| {
        claimants.push(by);
        claimants.len() - 1
    });
    u32::try_from(index).unwrap_or(u32::MAX)
}
