//! Every order in which those who put something in and the one who takes can meet. A wake-up that gets lost is a deadlock
//! here, which `loom` reports.

use loom::{
    sync::{Arc, mpsc::channel},
    thread,
};

mod sync {
    pub(super) use loom::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    };
    pub(super) use std::sync::PoisonError;
}

#[path = "kicked.rs"]
#[allow(clippy::duplicate_mod)] // with other primitives
mod kicked;

use kicked::Kicked;

#[test]
fn whatever_is_put_in_is_taken_however_threads_meet() {
    loom::model(|| {
        let inbox = Arc::new(Kicked::<Vec<u32>>::default());
        let (wake, wakes) = channel();
        let threads = [0, 1].map(|n| {
            let (inbox, wake) = (inbox.clone(), wake.clone());
            thread::spawn(move || {
                if inbox.put(|waiting| waiting.push(n)) {
                    wake.send(()).unwrap();
                }
            })
        });
        let mut taken = Vec::new();
        while taken.len() < 2 {
            wakes.recv().unwrap();
            taken.extend(inbox.take(Vec::new()));
        }
        for thread in threads {
            thread.join().unwrap();
        }
        taken.sort_unstable();
        assert_eq!(taken, [0, 1], "each once");
    });
}
