//! Every order in which a watch and commits can meet. A look that nobody asks for is a deadlock here, which `loom` reports.

use loom::{
    sync::{Arc, Mutex, mpsc::channel},
    thread,
};

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

#[path = "looks.rs"]
#[allow(clippy::duplicate_mod)] // with other primitives
#[allow(dead_code)] // slow looks are no race
mod looks;

use looks::LookState;

/// Two others commit while a watch comes that waits for what both of them wrote.
#[test]
fn a_watch_ends_however_it_meets_commits() {
    // Enough for any order of two events; without a bound it takes a minute.
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(2);
    orders.check(|| {
        let looks = Arc::new(LookState::default());
        let database = Arc::new(Mutex::new(0));
        let (look, requests) = channel();
        let commits = [(); 2].map(|()| {
            let (looks, database, look) = (looks.clone(), database.clone(), look.clone());
            thread::spawn(move || {
                *database.lock().unwrap() += 1;
                if looks.is_wanted() {
                    look.send(()).unwrap();
                }
            })
        });
        let mut seen = looks.counted(1, || *database.lock().unwrap());
        while seen < 2 {
            requests.recv().unwrap();
            looks.taken();
            seen = *database.lock().unwrap();
        }
        for commit in commits {
            commit.join().unwrap();
        }
    });
}
