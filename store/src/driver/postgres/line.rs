//! A connection that is kept up.

use std::{fmt, future::poll_fn, sync::Arc, time::Instant};

use futures::future::BoxFuture;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::timeout,
};
use tokio_postgres::{AsyncMessage, Client, Error};

use super::{
    ANSWER_TIMEOUT,
    address::Address,
    notice::Event,
    sql::{self, Statements},
    trouble::{in_words, spoils_connection},
};
use crate::{
    core::transaction::Version,
    driver::{newest::Newest, pauses::Pauses, supervision::Supervisor},
};

/// What a connection is for.
#[derive(Clone, Debug)]
pub(super) enum Role {
    Commits,
    Reads,
    /// Tells what is notified.
    Listens(mpsc::UnboundedSender<Event>),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commits => "commits",
            Self::Reads => "reads",
            Self::Listens(_) => "listens",
        })
    }
}

/// A connection that works.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) sql: Statements,
    place: Arc<Place>,
    broken: Notify,
}

/// The database that was opened.
pub(super) struct Place {
    address: Address,
    identity: i64,
    newest: Newest,
    /// Rung when a connection comes up: the others need not wait any longer.
    reachable: Notify,
    /// Starts the store's tasks, and learns when one panics.
    pub(super) supervisor: Supervisor,
}

impl Place {
    /// Call it inside the store's runtime.
    pub(super) fn new(address: Address, identity: i64) -> Self {
        let (newest, reachable, supervisor) = (Newest::default(), Notify::new(), Supervisor::new());
        Self { address, identity, newest, reachable, supervisor }
    }
}

impl Session {
    /// Gives the connection up: whatever it may still answer is not waited for.
    pub(super) fn give_up(&self) {
        self.broken.notify_one();
    }

    /// Gives the connection up if it is of no use after this error.
    pub(super) fn met(&self, error: &Error) {
        if spoils_connection(error) {
            self.give_up();
        }
    }

    /// Which store it is connected to, as long as nobody puts another into its place.
    pub(super) fn identity(&self) -> i64 {
        self.place.identity
    }

    /// Notes how far the database has come.
    pub(super) fn saw(&self, version: Version) {
        self.place.newest.saw(version);
    }
}

#[derive(Clone)]
enum State {
    Up(Arc<Session>),
    /// With the reason.
    Down(Arc<str>),
}

/// A handle to a connection that a task keeps up until the runtime ends.
#[derive(Clone)]
pub(super) struct Line {
    state: watch::Receiver<State>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum NotConnected {
    /// The server refused, or cannot be reached.
    Postgres(Error),
    /// It took too long.
    Silent,
    /// There was one, and it broke.
    Ended,
    /// The database at the address is not the one that was opened.
    Replaced,
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(error) => f.write_str(&in_words(error)),
            Self::Ended => f.write_str("the connection broke"),
            Self::Silent => f.write_str("the server does not answer"),
            Self::Replaced => {
                f.write_str("the database is not the one that was opened: restart with the right one")
            }
        }
    }
}

impl From<Error> for NotConnected {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

impl Line {
    /// Starts the task that keeps it up. Call it inside the store's runtime.
    pub(super) fn start(place: Arc<Place>, role: Role) -> Self {
        let (states, state) = watch::channel(State::Down("connecting".into()));
        let supervisor = place.supervisor.clone();
        supervisor.task("a connection to Postgres", keep_up(place, role, states));
        Self { state }
    }

    /// The connection, as soon as there is one; at the deadline, why there is none.
    pub(super) async fn session(&self, deadline: Instant) -> Result<Arc<Session>, String> {
        let mut states = self.state.clone();
        let up = states.wait_for(|state| matches!(state, State::Up(session) if !session.client.is_closed()));
        let up = match tokio::time::timeout_at(deadline.into(), up).await {
            Ok(Ok(state)) => Some(state.clone()),
            // The task is gone only with the runtime.
            Ok(Err(_)) | Err(_) => None,
        };
        match up.unwrap_or_else(|| self.state.borrow().clone()) {
            State::Up(session) => Ok(session),
            State::Down(why) => Err(why.to_string()),
        }
    }
}

#[cfg(test)]
impl Line {
    /// One connection that nobody keeps up, and what it is.
    pub(super) fn over(client: Client, sql: Statements, identity: i64) -> (Self, Arc<Session>) {
        let address = Address::parse("postgres://somebody@127.0.0.1:1/none").expect("it is an address");
        let place = Arc::new(Place::new(address, identity));
        let session = Arc::new(Session { client, sql, place, broken: Notify::new() });
        (Self { state: watch::channel(State::Up(session.clone())).1 }, session)
    }
}

#[cfg(test)]
impl Session {
    /// Whether it was given up since this was last asked.
    pub(super) fn was_given_up(&self) -> bool {
        futures::FutureExt::now_or_never(self.broken.notified()).is_some()
    }
}

/// Drives a connection, as long as it lives. Messages of the server nobody asked for go to the log.
pub type Driven = BoxFuture<'static, ()>;

/// Connects and makes the settings.
pub(super) async fn connect(address: &Address) -> Result<(Client, Driven), NotConnected> {
    connect_and_listen(address, |_| ()).await
}

/// As `connect`; `on_notification` is given what others notify.
pub async fn connect_and_listen(
    address: &Address,
    mut on_notification: impl FnMut(String) + Send + 'static,
) -> Result<(Client, Driven), NotConnected> {
    let connecting = address.config.connect(address.tls.clone());
    let (client, mut connection) =
        timeout(ANSWER_TIMEOUT, connecting).await.map_err(|_| NotConnected::Silent)??;
    let mut driven: Driven = Box::pin(async move {
        // Its error was told to whoever waited for an answer, and the next attempt to connect tells more.
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                AsyncMessage::Notification(said) => on_notification(said.payload().to_owned()),
                AsyncMessage::Notice(said) => tracing::info!(said = %said.message(), "the database says"),
                _ => {}
            }
        }
    });
    let set = async {
        tokio::select! {
            biased;
            set = client.batch_execute(sql::SETTINGS) => set.map_err(NotConnected::from),
            () = &mut driven => Err(NotConnected::Ended),
        }
    };
    timeout(ANSWER_TIMEOUT, set).await.map_err(|_| NotConnected::Silent)??;
    Ok((client, driven))
}

/// Connects again whenever the connection is gone.
async fn keep_up(place: Arc<Place>, role: Role, states: watch::Sender<State>) {
    let mut pauses = Pauses::default();
    loop {
        let started = Instant::now();
        let why = live(&place, &role, &states).await;
        if let Role::Listens(events) = &role {
            let _ = events.send(Event::Disconnected);
        }
        tracing::debug!(%role, %why, "a connection to the database is gone");
        states.send_replace(State::Down(why.to_string().into()));
        // It ends early only with a connection that came up, which is paced by its own pauses.
        let _ = timeout(pauses.after(started.elapsed()), place.reachable.notified()).await;
    }
}

/// One connection, from connecting to its end. Says why it ended.
async fn live(place: &Arc<Place>, role: &Role, states: &watch::Sender<State>) -> NotConnected {
    let on_notification = {
        let role = role.clone();
        move |payload| {
            if let Role::Listens(events) = &role {
                // The keeper is gone only with the runtime.
                let _ = events.send(Event::Notified(payload));
            }
        }
    };
    let (client, driven) = match connect_and_listen(&place.address, on_notification).await {
        Ok(connected) => connected,
        Err(why) => return why,
    };
    let mut driven = AbortOnDrop(place.supervisor.task("what a connection to Postgres says", driven));
    let ready = async {
        let known = place.newest.known();
        let row = client.query_one(sql::STATE, &[]).await?;
        if row.try_get::<_, i64>(1)? != place.identity {
            return Err(NotConnected::Replaced);
        }
        let version = sql::seen(row.try_get(2)?);
        if place.newest.begins_with(known, version) {
            let (before, after) = (known.0, version.0);
            tracing::error!(
                before,
                after,
                "the database has lost commits: fencing tokens may be given out twice"
            );
        }
        if let Role::Listens(events) = role {
            client.batch_execute(&format!("LISTEN {}", sql::CHANNEL)).await?;
            // Whatever was committed before is looked for, whatever comes later is notified.
            let _ = events.send(Event::Listens);
        }
        Ok(Statements::prepare(&client).await?)
    };
    let sql = match timeout(ANSWER_TIMEOUT, ready).await {
        Ok(Ok(sql)) => sql,
        Ok(Err(why)) => return why,
        Err(_) => return NotConnected::Silent,
    };
    let session = Arc::new(Session { client, sql, place: place.clone(), broken: Notify::new() });
    states.send_replace(State::Up(session.clone()));
    place.reachable.notify_waiters();
    tokio::select! {
        biased;
        _ = &mut driven.0 => {}
        () = session.broken.notified() => {}
    }
    NotConnected::Ended
}

/// A task that is not to outlive who started it: it has the socket.
pub struct AbortOnDrop(pub tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{notice::spelled, schema, tests::commit_alone},
        *,
    };
    use crate::{
        core::transaction::{CommitOutcome, Transaction},
        driver::failures::Failures,
        testing::{TEST_DEADLINE, postgres::Server},
    };

    #[tokio::test]
    async fn whoever_listens_for_commits_is_told_when_the_connection_is_gone() {
        // Nobody is there.
        let address = Address::parse("postgres://somebody@127.0.0.1:1/none").unwrap();
        let (events, mut told_events) = mpsc::unbounded_channel();
        let _line = Line::start(Arc::new(Place::new(address, 0)), Role::Listens(events));
        let told = timeout(Duration::from_secs(60), told_events.recv()).await;
        assert!(matches!(told, Ok(Some(Event::Disconnected))), "{told:?}");
    }

    #[tokio::test]
    async fn whoever_listens_hears_of_every_commit_and_of_the_connection_itself() {
        let Some(server) = Server::start() else { return };
        let address = Address::parse(&server.url("postgres")).unwrap();
        let identity = schema::prepare(&address).await.unwrap();
        let place = Arc::new(Place::new(address, identity));
        let reachable = place.reachable.notified();
        let (events, mut told_events) = mpsc::unbounded_channel();
        let line = Line::start(place.clone(), Role::Listens(events));
        let deadline = Instant::now() + TEST_DEADLINE;
        let session = line.session(deadline).await.unwrap();
        timeout(TEST_DEADLINE, reachable).await.expect("others need not wait before they connect again");
        let put = |key: &[u8]| Transaction::new().put(key.to_vec(), Vec::new());
        let refused = put(b"no").check(b"no".to_vec(), Some(Vec::new()));
        for (transaction, outcome) in
            [(refused, CommitOutcome::Conflict), (put(b"a"), CommitOutcome::Committed(Version(1)))]
        {
            assert_eq!(commit_alone(&line, &transaction, deadline, &mut Failures::default()).await, outcome);
        }
        session.give_up();
        let told = async {
            let mut told = Vec::new();
            while !matches!(told.last(), Some(Event::Disconnected)) {
                told.push(told_events.recv().await.unwrap());
            }
            told
        };
        let told = timeout(TEST_DEADLINE, told).await.unwrap();
        let [Event::Listens, Event::Notified(words), Event::Disconnected] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert_eq!(*words, spelled(&put(b"a").writes));
    }
}
