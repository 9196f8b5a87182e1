//! Carries out what operations ask for.

use std::{sync::Mutex, time::Duration};

use callsign_store::{Clock, SharedStore, keys::ElectionKeys, lock::lock, random::splitmix};
use futures::{
    Stream, StreamExt,
    future::{Either, select},
};

use crate::{
    core::lease::{
        error::ElectionError,
        member::{Answer, Ask, Member},
        memory::Memory,
        operation::{Input, Operation, Outcome, Step},
        signals::Watcher,
    },
    driver::lease::report::report,
    oracle::Signal,
};

/// After so many conflicts an operation lets others pass.
const PATIENT_AFTER: u32 = 3;

/// Does what is asked for, or says what came of it all.
async fn carry_out<T>(store: &SharedStore, step: Step<T>) -> Result<Input, Result<T, ElectionError>> {
    match step {
        Step::Read(reads) => Ok(Input::Read(store.read(reads).await)),
        Step::Commit(transaction) => Ok(Input::Commit(store.commit(transaction).await)),
        Step::Done(result) => Err(result),
    }
}

/// Waits a moment, longer the more often it was in vain, so that many who want the same do not all come back at once: each of them has
/// another identity.
async fn let_others_pass(tries: u32, former: u32, identity: u64) {
    if tries > former && tries > PATIENT_AFTER {
        let most: u64 = 1 << (tries - PATIENT_AFTER).min(6);
        let draw = splitmix(identity ^ u64::from(tries));
        tokio::time::sleep(Duration::from_micros(draw % (most * 1_000))).await;
    }
}

/// Drives a member to its answer, and tells what it did. Dropped, what was asked for may still happen.
pub(super) async fn drive(
    store: &SharedStore,
    clock: &Clock,
    keys: &ElectionKeys,
    member: &mut Member,
    ask: Ask,
) -> Result<Answer, ElectionError> {
    let mut step = member.begin(clock.now(), ask);
    loop {
        let tries = member.tries();
        let input = match carry_out(store, step).await {
            Ok(input) => input,
            Err(over) => return over,
        };
        let mut events = Vec::new();
        step = member.step(clock.now(), input, &mut events);
        report(keys, &events);
        let_others_pass(member.tries(), tries, member.identity()).await;
    }
}

/// Drives one operation of an observer of this identity, and tells what it did.
pub(super) async fn operate(
    store: &SharedStore,
    clock: &Clock,
    keys: &ElectionKeys,
    memory: &Mutex<Memory>,
    identity: u64,
    mut operation: Operation,
) -> Result<Box<Outcome>, ElectionError> {
    let locked = || lock(memory);
    let mut step = operation.begin(clock.now(), &mut locked());
    loop {
        let tries = operation.tries();
        let input = match carry_out(store, step).await {
            Ok(input) => input,
            Err(over) => return over,
        };
        let mut events = Vec::new();
        step = operation.step(clock.now(), &mut locked(), input, &mut events);
        report(keys, &events);
        let_others_pass(operation.tries(), tries, identity).await;
    }
}

/// How long to wait before a store that did not answer is looked at again, and before a watch that may be lost is made
/// anew.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const WATCH_ANEW: Duration = Duration::from_secs(60);

/// What the records of an election tell the member of this identity. Ends never.
pub(super) fn watch(
    store: SharedStore,
    clock: Clock,
    keys: ElectionKeys,
    watcher: Watcher,
    identity: u64,
) -> impl Stream<Item = Signal> + Send {
    struct Looking {
        store: SharedStore,
        clock: Clock,
        keys: ElectionKeys,
        watcher: Watcher,
        memory: Mutex<Memory>,
        identity: u64,
        changed: Option<callsign_store::Version>,
    }
    let looking = Looking { store, clock, keys, watcher, memory: Mutex::default(), identity, changed: None };
    let looks = futures::stream::unfold(looking, |mut l| async {
        if let Some(since) = l.changed {
            let seat = l.store.watch(l.keys.seat(), since);
            let control = l.store.watch(l.keys.control(), since);
            let ended = tokio::time::timeout(WATCH_ANEW, select(seat, control)).await;
            if matches!(ended, Ok(Either::Left((Err(_), _)) | Either::Right((Err(_), _)))) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        let look = Operation::look(&l.keys, false);
        let looked = operate(&l.store, &l.clock, &l.keys, &l.memory, l.identity, look).await;
        let signals = if let Ok(outcome) = looked {
            l.changed = Some(callsign_store::Version(outcome.evidence.at.0));
            l.watcher.look(&outcome)
        } else {
            // Whoever claims says what is wrong; here it only costs wakeups.
            tokio::time::sleep(LOOK_AGAIN).await;
            Vec::new()
        };
        Some((futures::stream::iter(signals), l))
    });
    looks.flatten()
}
