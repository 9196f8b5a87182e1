//! The one connection of an election: kept up, and listening.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use callsign_store::{
    logged,
    postgres::connection::{
        ANSWER_TIMEOUT, AbortOnDrop, Address, Connected, NotConnected, Pauses, Standing, connect_and_listen,
        in_words,
    },
    supervision::text,
};
use futures::{
    FutureExt,
    stream::{BoxStream, StreamExt},
};
use tokio::{
    sync::{Notify, broadcast, watch},
    time::timeout,
};
use tokio_postgres::{Client, Error, Row, Statement, error::SqlState, types::ToSql};

use super::sql::{CHANNEL, Statements, lay_out};
use crate::oracle::Fault;

/// For how long answers may be awaited in vain, in all, before a connection is given up. A campaign may wait for less
/// each time, so one wait alone need not show that nothing is answered.
const MOST_IN_VAIN: Duration = Duration::from_secs(1);

/// A connection that works.
struct Session {
    client: Client,
    sql: Statements,
    standing: Standing,
    /// Whether another server may be the primary by now.
    has_others: bool,
    broken: Notify,
    /// For how many milliseconds answers were awaited and given up, in all, since one came.
    in_vain: AtomicU64,
}

/// Somebody waits for an answer. Where the wait is given up before its end, this notes it.
struct Waiting<'a> {
    session: &'a Session,
    since: Instant,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let waited = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.session.in_vain.fetch_add(waited, Ordering::SeqCst);
        if Duration::from_millis(before.saturating_add(waited)) >= MOST_IN_VAIN {
            self.session.broken.notify_one();
        }
    }
}

impl Session {
    /// Waits for an answer. What is no answer, or does not count, is a fault; the connection is given up unless it is as good as before.
    async fn answer<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Fault> {
        let mut waiting = Waiting { session: self, since: Instant::now(), is_over: false };
        let answered = timeout(ANSWER_TIMEOUT, asked).await;
        waiting.is_over = true;
        if answered.is_ok() {
            self.in_vain.store(0, Ordering::SeqCst);
        }
        let cause = match answered {
            // It is done on the primary only: a failover may lose it.
            Ok(Ok(_)) if self.standing.is_cut_short() => "the wait for a standby was cancelled",
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => return Err(self.failed(&error, !is_undone(&error))),
            Err(_) => "the server does not answer",
        };
        self.broken.notify_one();
        Err(Fault::Transient { maybe_committed: true, cause: cause.to_owned() })
    }

    /// What an error comes to. The connection is given up unless it is as good as before. Among several hosts it never
    /// is: a row that stays locked may be that of an old primary, and the next connection goes to the new one.
    fn failed(&self, error: &Error, maybe_committed: bool) -> Fault {
        let is_passing = error.code().is_some_and(is_passing);
        if self.has_others || !is_passing {
            self.broken.notify_one();
        }
        Fault::Transient { maybe_committed, cause: in_words(error) }
    }
}

#[derive(Clone)]
enum State {
    Up(Arc<Session>),
    /// With the reason.
    Down(Arc<str>),
}

/// What comes over it unasked.
#[derive(Clone, Debug)]
pub(super) enum Notified {
    /// It listens, from now on: what was said before was missed.
    Listens,
    /// Somebody said it.
    Said(Arc<str>),
}

/// A handle to a connection that a task keeps up until the last handle is gone.
#[derive(Clone)]
pub(super) struct Link {
    state: watch::Receiver<State>,
    notified: broadcast::Sender<Notified>,
    _kept_up: Arc<AbortOnDrop>,
}

impl Link {
    /// Starts the task that keeps it up. Needs a tokio runtime.
    pub(super) fn start(address: Address) -> Self {
        let (states, state) = watch::channel(State::Down("connecting".into()));
        // Who lags behind hears that it does, and looks.
        let (notified, _) = broadcast::channel(64);
        let task = tokio::spawn(keep_up(address, states, notified.clone()));
        Self { state, notified, _kept_up: Arc::new(AbortOnDrop(task)) }
    }

    /// What comes unasked, from now on. Does not keep the connection up.
    pub(super) fn notified(&self) -> BoxStream<'static, Notified> {
        let listener = self.notified.subscribe();
        futures::stream::unfold(listener, |mut listener| async move {
            match listener.recv().await {
                Ok(notified) => Some((notified, listener)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Notified::Listens, listener)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        })
        .boxed()
    }

    /// Sends a statement, as soon as there is a connection; [`ANSWER_TIMEOUT`] is as long as both may take, each.
    pub(super) async fn ask(
        &self,
        what: fn(&Statements) -> &Statement,
        with: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Fault> {
        let session = self.session().await?;
        session.answer(session.client.query_opt(what(&session.sql), with)).await
    }

    /// Sends a statement, and a look at the row behind it, in one flight; the server does one after the other. Each is
    /// a transaction of its own: the first may be done although the look is refused.
    pub(super) async fn decide(
        &self,
        what: fn(&Statements) -> &Statement,
        with: &[&(dyn ToSql + Sync)],
        election: &str,
    ) -> Result<(Option<Row>, Option<Row>), Fault> {
        let session = self.session().await?;
        let look: [&(dyn ToSql + Sync); 1] = [&election];
        let decided = session.client.query_opt(what(&session.sql), with);
        let looked = session.client.query_opt(&session.sql.look, &look).map(Ok::<_, Error>);
        let (won, found) = session.answer(async { futures::try_join!(decided, looked) }).await?;
        match found {
            Ok(found) => Ok((won, found)),
            // Without a row, nothing was written.
            Err(error) => Err(session.failed(&error, won.is_some())),
        }
    }

    async fn session(&self) -> Result<Arc<Session>, Fault> {
        let mut states = self.state.clone();
        let up = states.wait_for(|state| matches!(state, State::Up(session) if !session.client.is_closed()));
        let up = match timeout(ANSWER_TIMEOUT, up).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) | Err(_) => self.state.borrow().clone(),
        };
        match up {
            State::Up(session) => Ok(session),
            State::Down(why) => {
                Err(Fault::Transient { maybe_committed: false, cause: why.as_ref().to_owned() })
            }
        }
    }
}

/// Whether the server said that nothing was changed. Errors of connections and of a server that stops can also come
/// when the change is made.
fn is_undone(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::QUERY_CANCELED || !["08", "57"].iter().any(|class| code.code().starts_with(class))
    })
}

/// Whether the connection is as good as before: somebody held the row for too long.
fn is_passing(code: &SqlState) -> bool {
    [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ]
    .contains(code)
}

/// Connects again whenever the connection is gone.
async fn keep_up(address: Address, states: watch::Sender<State>, notified: broadcast::Sender<Notified>) {
    again_and_again(&states, || live(&address, &states, &notified)).await;
}

/// What panics over one connection has nothing to do with the next.
async fn again_and_again<L: Future<Output = NotConnected>>(
    states: &watch::Sender<State>,
    live: impl Fn() -> L,
) {
    let mut pauses = Pauses::default();
    loop {
        let started = Instant::now();
        let why = AssertUnwindSafe(live()).catch_unwind().await.map_or_else(
            |panic| {
                logged!(error, panic = text(&*panic), "the connection of an election has panicked");
                format!("it panicked: {}", text(&*panic))
            },
            |why| why.to_string(),
        );
        logged!(debug, %why, "the connection of an election is gone");
        states.send_replace(State::Down(why.into()));
        tokio::time::sleep(pauses.after(started.elapsed())).await;
    }
}

/// One connection, from connecting to its end. Says why it ended.
async fn live(
    address: &Address,
    states: &watch::Sender<State>,
    notified: &broadcast::Sender<Notified>,
) -> NotConnected {
    let on_notification = {
        let notified = notified.clone();
        // Fails where nobody listens.
        move |said: String| drop(notified.send(Notified::Said(said.into())))
    };
    let connected = match connect_and_listen(address, on_notification).await {
        Ok(connected) => connected,
        Err(why) => return why,
    };
    let Connected { client, driven, standing } = connected;
    let mut driven = AbortOnDrop(tokio::spawn(driven));
    let ready = async {
        client.batch_execute("SET default_transaction_isolation = 'read committed'").await?;
        lay_out(&client).await?;
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        Statements::prepare(&client).await
    };
    let sql = match timeout(ANSWER_TIMEOUT, ready).await {
        Ok(Ok(sql)) => sql,
        Ok(Err(error)) => return error.into(),
        Err(_) => return NotConnected::Silent,
    };
    let (has_others, broken, in_vain) = (address.has_several_hosts(), Notify::new(), AtomicU64::new(0));
    let session = Arc::new(Session { client, sql, standing, has_others, broken, in_vain });
    states.send_replace(State::Up(session.clone()));
    let _ = notified.send(Notified::Listens);
    tokio::select! {
        biased;
        _ = &mut driven.0 => {}
        () = session.broken.notified() => {}
    }
    NotConnected::Ended
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_panics_is_followed_by_another() {
        let (states, state) = watch::channel(State::Down("connecting".into()));
        let (lived, again) = (AtomicUsize::new(0), Notify::new());
        let live = || async {
            assert!(lived.fetch_add(1, Ordering::SeqCst) > 0, "on request");
            again.notify_one();
            std::future::pending::<NotConnected>().await
        };
        tokio::select! {
            biased;
            () = again_and_again(&states, live) => unreachable!("it is never done"),
            () = again.notified() => {}
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it does not connect again"),
        }
        assert!(matches!(&*state.borrow(), State::Down(why) if &**why == "it panicked: on request"));
    }
}
