//! How a thread of the store wakes the task that waits for what it does.
//!
//! A runtime that has more to do than its processors takes what another *thread* has woken behind everything else that waits. At a
//! *socket* it looks after every few tasks. So each who waits has a socket, and the thread writes a byte to it. The answer itself goes
//! another way.

use std::{
    io::{self, ErrorKind, Write},
    os::unix::net,
    sync::{Arc, Mutex},
};

use tokio::{
    net::UnixStream,
    runtime::{Handle, Id},
};

use crate::driver::lock::lock;

/// How many tasks may wait at sockets. Each takes two of the files that a process may have open.
const MOST_WAITING: usize = 32;

/// The sockets of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Sockets(Arc<Mutex<SocketsState>>);

#[derive(Debug, Default)]
struct SocketsState {
    /// At which nobody waits.
    idle: Vec<Arc<SocketPair>>,
    /// Each pair has a clone.
    alive: Arc<()>,
}

#[derive(Debug)]
struct SocketPair {
    _alive: Arc<()>,
    /// That of the task: no other one need look at this socket.
    runtime: Id,
    task: UnixStream,
    thread: net::UnixStream,
}

/// What a task has that waits for a thread.
#[derive(Debug)]
pub(super) struct Waits {
    pair: Option<Arc<SocketPair>>,
    sockets: Sockets,
}

/// What the thread has meanwhile. Wakes the task when it is dropped: once the answer was sent, or when nobody will send one.
#[derive(Debug, Default)]
pub(super) struct Wakes(Option<Arc<SocketPair>>);

impl Sockets {
    /// For one task and one thread. Without a runtime, or where as many wait as may, the task does not wait here: its answer wakes it.
    pub(super) fn pair(&self) -> (Wakes, Waits) {
        let pair = Handle::try_current().ok().and_then(|handle| lock(&self.0).pair(handle.id()));
        (Wakes(pair.clone()), Waits { pair, sockets: self.clone() })
    }
}

impl SocketsState {
    fn pair(&mut self, runtime: Id) -> Option<Arc<SocketPair>> {
        if let Some(nth) = self.idle.iter().rposition(|pair| pair.runtime == runtime) {
            return Some(self.idle.swap_remove(nth));
        }
        if Arc::strong_count(&self.alive) > MOST_WAITING {
            // One that is idle is another runtime's, which may have ended.
            drop(self.idle.pop()?);
        }
        SocketPair::new(runtime, self.alive.clone()).map(Arc::new).ok()
    }
}

impl SocketPair {
    /// In the runtime of this task.
    fn new(runtime: Id, alive: Arc<()>) -> io::Result<Self> {
        let (task, thread) = net::UnixStream::pair()?;
        task.set_nonblocking(true)?;
        thread.set_nonblocking(true)?;
        Ok(Self { _alive: alive, runtime, task: UnixStream::from_std(task)?, thread })
    }

    /// Fails if the runtime of the socket has ended.
    async fn woken(&self) -> io::Result<()> {
        loop {
            self.task.readable().await?;
            match self.task.try_read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}

impl Waits {
    /// Returns once the thread has let go of the other end. At once, if that cannot be known here.
    pub(super) async fn woken(self) {
        if let Some(pair) = self.pair
            && pair.woken().await.is_ok()
        {
            // One at which nobody waited to the end is not used again: the byte is still to come.
            lock(&self.sockets.0).idle.push(pair);
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        if let Some(pair) = &self.0 {
            // There is room for a byte. Both ends live, so this cannot fail; if it did, the task would not be woken before the answer is.
            let _ = (&pair.thread).write(&[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, executor::block_on};

    use super::*;

    impl Sockets {
        fn idle(&self) -> usize {
            lock(&self.0).idle.len()
        }
    }

    #[tokio::test]
    async fn who_waits_is_woken_when_the_thread_lets_go_and_the_socket_serves_again() {
        let sockets = Sockets::default();
        for _ in 0..3 {
            let (wakes, waits) = sockets.pair();
            assert_eq!(sockets.idle(), 0);
            let mut woken = Box::pin(waits.woken());
            assert!(woken.as_mut().now_or_never().is_none());
            std::thread::spawn(move || drop(wakes)).join().unwrap();
            woken.await;
            assert_eq!(sockets.idle(), 1);
        }
    }

    #[tokio::test]
    async fn a_socket_at_which_nobody_waited_to_the_end_wakes_nobody_else() {
        let sockets = Sockets::default();
        let (wakes, waits) = sockets.pair();
        drop(waits);
        let (_other, waits) = sockets.pair();
        drop(wakes);
        assert_eq!(sockets.idle(), 0);
        assert!(waits.woken().now_or_never().is_none());
    }

    #[tokio::test]
    async fn so_many_wait_at_sockets_and_all_others_do_not() {
        let sockets = Sockets::default();
        let waiting: Vec<_> = (0..MOST_WAITING).map(|_| sockets.pair()).collect();
        for _ in 0..2 {
            let (_wakes, waits) = sockets.pair();
            waits.woken().now_or_never().expect("there is nothing to wait for");
        }
        for (wakes, waits) in waiting {
            let mut woken = Box::pin(waits.woken());
            assert!(woken.as_mut().now_or_never().is_none());
            drop(wakes);
            woken.await;
        }
        assert_eq!(sockets.idle(), MOST_WAITING);
    }

    #[test]
    fn sockets_of_a_runtime_that_has_ended_take_no_room_from_the_next() {
        let sockets = Sockets::default();
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..2 {
            runtime().block_on(async {
                let waiting: Vec<_> = (0..MOST_WAITING).map(|_| sockets.pair()).collect();
                for (wakes, waits) in waiting {
                    assert!(waits.pair.is_some());
                    drop(wakes);
                    waits.woken().await;
                }
            });
        }
    }

    #[test]
    fn without_a_runtime_nobody_waits_here() {
        let (_wakes, waits) = Sockets::default().pair();
        block_on(waits.woken());
    }
}
