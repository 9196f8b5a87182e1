//! When a member is to be woken. It says so after each turn, as a rule a later time than before. The task that waits need not hear of
//! that: it looks when the former time has come.

use std::sync::{Arc, Mutex};

use callsign_store::{Clock, Time, lock::lock};
use tokio::sync::Notify;

use super::Shared;
use crate::core::input::Input;

/// Set after each turn of a member, and waited for by one task. It is due before it was ever set.
#[derive(Debug)]
pub(super) struct Timer {
    times: Mutex<Times>,
    /// The task sleeps too long.
    is_sooner: Notify,
}

#[derive(Debug)]
struct Times {
    /// When the member is to be woken, as it said last.
    at: Time,
    /// Until when the task sleeps. None: until the member says a time, after it was woken.
    sleeps: Option<Time>,
}

impl Timer {
    pub(super) fn new() -> Self {
        let times = Times { at: Time::ZERO, sleeps: Some(Time::ZERO) };
        Self { times: Mutex::new(times), is_sooner: Notify::new() }
    }

    /// The member is to be woken at this time, and not as it said before.
    pub(super) fn set(&self, at: Time) {
        let mut times = lock(&self.times);
        times.at = at;
        if times.sleeps.is_none_or(|sleeps| at < sleeps) {
            // What it will sleep until, once it has heard of it.
            times.sleeps = Some(at);
            self.is_sooner.notify_one();
        }
    }

    /// Waits until the member is to be woken.
    pub(super) async fn due(&self, clock: &Clock) {
        loop {
            let until = lock(&self.times).sleeps;
            let slept = async {
                match until {
                    Some(until) => clock.sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // First, so that a member that always says another time is woken nevertheless.
                () = slept => {}
                () = self.is_sooner.notified() => continue,
            }
            let mut times = lock(&self.times);
            let is_due = until.is_some_and(|until| times.at <= until);
            times.sleeps = (!is_due).then_some(times.at);
            if is_due {
                return;
            }
        }
    }
}

/// Wakes the member when it said.
pub(super) async fn wake(shared: Arc<Shared>, clock: Clock, timer: Arc<Timer>) {
    loop {
        timer.due(&clock).await;
        shared.push(Input::Wake);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicU32, Ordering},
        task::{Context, Wake},
        time::Duration,
    };

    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn timer_that_was_due() -> (Timer, Clock) {
        let (timer, clock) = (Timer::new(), Clock::runtime());
        timer.due(&clock).await;
        (timer, clock)
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_due_at_first_and_then_once_for_each_time_that_is_set() {
        let (timer, clock) = timer_that_was_due().await;
        for _ in 0..2 {
            assert!(timer.due(&clock).now_or_never().is_none(), "nobody has set it");
            timer.set(clock.now());
            timer.due(&clock).await;
        }
        timer.set(clock.now() + SECOND);
        assert!(timer.due(&clock).now_or_never().is_none());
        let before = clock.now();
        timer.due(&clock).await;
        assert_eq!(clock.now(), before + SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_time_wakes_nobody_and_a_sooner_one_does() {
        let (timer, clock) = timer_that_was_due().await;
        let begin = clock.now();
        let woken = Arc::new(Woken::default());
        let (waker, count) = (woken.clone().into(), || woken.0.load(Ordering::Relaxed));
        let mut context = Context::from_waker(&waker);
        timer.set(begin + SECOND);
        let mut due = pin!(timer.due(&clock));
        assert!(due.as_mut().poll(&mut context).is_pending());
        timer.set(begin + 3 * SECOND);
        assert_eq!(count(), 0, "it sleeps on");
        advance(SECOND).await;
        assert_eq!(count(), 1);
        assert!(due.as_mut().poll(&mut context).is_pending(), "that time was taken back");
        timer.set(begin + 2 * SECOND);
        assert_eq!(count(), 2, "it sleeps too long");
        assert!(due.as_mut().poll(&mut context).is_pending());
        advance(SECOND).await;
        assert!(due.as_mut().poll(&mut context).is_ready());
    }
}
