//! A reader in a thread of its own, while the writer removes the names of hosts that are gone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use callsign_elector::record::LogEnd;
use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, Position, SessionId, SessionNumber};
use callsign_transport::Kind;

use super::{SharedTable, TableReader};
use crate::core::{
    log::{Batch, Op},
    name::Name,
    replica::Replica,
    table::RequestNumber,
};

/// So many hosts come and go, each with so many names.
const HOSTS: u64 = 300;
const NAMES: u64 = 64;

fn name(host: u64, nth: u64) -> Name {
    Name::from(&*format!("{host}/{nth}"))
}

/// The batch at a position, behind the one at the position before it.
fn batch(position: u64, host: u64, ops: Vec<Op>) -> Batch {
    let end = |position: u64| LogEnd { position: Position(position), nonce: Nonce(position) };
    let prev = if position == 1 { LogEnd::default() } else { end(position - 1) };
    let node = NodeName::new("b").unwrap();
    let session = SessionId { node, incarnation: Incarnation(1), number: SessionNumber(host) };
    let sessions = vec![Arc::new(session)];
    Batch { epoch: Epoch(1), nonce: Nonce(position), position: Position(position), prev, sessions, ops }
}

/// Looks at the first and the last name of the host that there is, one after the other, until there are no more hosts.
/// Says in `seen` whose names it has looked at. Returns how often one was free, and the other was held afterwards.
fn look(reader: &TableReader, host: &AtomicU64, seen: &AtomicU64) -> u64 {
    let is_held = |name: &Name| reader.with(name, |_| ()).is_some();
    let mut mixtures = 0;
    loop {
        let now = host.load(Ordering::Acquire);
        if now > HOSTS {
            return mixtures;
        }
        let (first, last) = (name(now, 0), name(now, NAMES - 1));
        for (one, other) in [(&first, &last), (&last, &first)] {
            let is_free = !is_held(one);
            mixtures += u64::from(is_free && is_held(other));
        }
        seen.store(now, Ordering::Release);
    }
}

/// Lets the reader end, also if the writer has failed.
struct Over<'a>(&'a AtomicU64);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(HOSTS + 1, Ordering::Release);
    }
}

#[test]
fn of_two_names_of_a_host_that_is_gone_none_is_seen_held_after_the_other_was_seen_free() {
    let table = SharedTable::new(1, false);
    let reader = table.reader();
    let mut replica = Replica::new(NodeName::new("a").unwrap(), table);
    replica.base_on_nothing();
    let (host, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    let mixtures = thread::scope(|scope| {
        let over = Over(&host);
        let looking = scope.spawn(|| look(&reader, &host, &seen));
        for number in 1..=HOSTS {
            let register = |nth| Op::Register {
                name: name(number, nth),
                session: 0,
                request: RequestNumber(nth + 1),
                actor: Some(1),
                kind: Kind(7),
                meta: None,
            };
            replica.apply(&batch(2 * number - 1, number, (0..NAMES).map(register).collect()));
            host.store(number, Ordering::Release);
            // So that it looks while they are removed.
            while seen.load(Ordering::Acquire) < number && !looking.is_finished() {
                thread::yield_now();
            }
            replica.apply(&batch(2 * number, number, vec![Op::HostGone { session: 0 }]));
            // Those that came last are removed first.
            while replica.is_busy() {
                replica.proceed(1);
            }
        }
        drop(over);
        looking.join().unwrap()
    });
    assert_eq!((mixtures, reader.count()), (0, 0));
}
