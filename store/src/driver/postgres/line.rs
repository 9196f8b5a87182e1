//! A connection that is kept up.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Notify, mpsc, watch},
    time::timeout,
};
use tokio_postgres::{Client, Error};

use super::{
    ANSWER_TIMEOUT,
    address::Address,
    hosts::{Connected, Standing, connect_and_listen},
    not_connected::NotConnected,
    notice::Event,
    sql::{self, Statements},
    standbys,
    trouble::spoils_connection,
};
use crate::{
    core::transaction::Version,
    driver::{newest::Newest, pauses::Pauses, supervision::Supervisor},
};

/// After so long without an answer it is doubted that the server is the primary still. Longer than what is asked takes by far.
const DOUBT: Duration = Duration::from_secs(1);

/// Why nothing is known of a request that was given up.
pub(super) const SILENT: &str = "the server does not answer";
/// Why nothing is known of what was asked of an old primary.
const PASSED: &str = "another server was promoted meanwhile";

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
    pub(super) standing: Standing,
    place: Arc<Place>,
    /// How often connections had begun anew when it was made.
    born: u64,
    broken: Notify,
}

/// The database that was opened.
pub(super) struct Place {
    pub(super) address: Address,
    identity: i64,
    newest: Newest,
    /// Rung when a connection comes up: the others need not wait any longer.
    reachable: Notify,
    /// How often there was doubt whether the primary is still the one that is used.
    doubts: watch::Sender<u64>,
    /// How often all connections had to begin anew. They wait for standbys then, also where the server did not say that commits wait.
    anew: watch::Sender<u64>,
    /// Starts the store's tasks, and learns when one panics.
    pub(super) supervisor: Supervisor,
}

impl Place {
    /// Call it inside the store's runtime.
    pub(super) fn new(address: Address, identity: i64) -> Self {
        let (newest, reachable, supervisor) = (Newest::default(), Notify::new(), Supervisor::new());
        let (doubts, anew) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { address, identity, newest, reachable, doubts, anew, supervisor }
    }

    /// What changes when there is doubt whether the primary is still the one that is used.
    pub(super) fn doubts(&self) -> watch::Receiver<u64> {
        self.doubts.subscribe()
    }

    fn doubt(&self) {
        self.doubts.send_modify(|doubts| *doubts += 1);
    }

    /// Notes a doubt when an answer has taken long, and does not end.
    async fn doubt_after_a_while(&self) {
        tokio::time::sleep(DOUBT).await;
        self.doubt();
        std::future::pending::<()>().await;
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

    /// Waits for an answer. Where none comes in time, or none that counts, the connection is given up, and the reason is said.
    pub(super) async fn answer<T>(&self, asked: impl Future<Output = T>) -> Result<T, &'static str> {
        let answer = async {
            tokio::select! {
                biased;
                // First, as what an old primary says does not count any more.
                () = self.standing.lost() => Err(PASSED),
                answer = asked => Ok(answer),
                () = self.place.doubt_after_a_while() => Err(SILENT),
            }
        };
        let answer = timeout(ANSWER_TIMEOUT, answer).await.unwrap_or(Err(SILENT));
        if answer.is_err() {
            self.give_up();
        }
        answer
    }

    /// Notes that something is wrong with the server, so that it may not be the primary any more.
    pub(super) fn doubt(&self) {
        self.place.doubt();
    }

    /// Notes that it is not known what became of a commit. Where a standby may take the primary's place, whoever looks for that commit
    /// must not find what only the primary has: see [`standbys`].
    pub(super) fn met_unknown(&self) {
        self.doubt();
        let may_fail_over = self.standing.waits_for_standbys() || self.place.address.hosts.len() > 1;
        if may_fail_over || self.standing.is_cut_short() {
            self.place.anew.send_modify(|anew| *anew += 1);
        }
    }

    /// Whether it may be used.
    fn is_good(&self) -> bool {
        !self.client.is_closed() && !self.standing.is_lost() && self.born == *self.place.anew.borrow()
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
enum LineState {
    Up(Arc<Session>),
    /// With the reason.
    Down(Arc<str>),
}

/// A handle to a connection that a task keeps up until the runtime ends.
#[derive(Clone)]
pub(super) struct Line {
    state: watch::Receiver<LineState>,
}

impl Line {
    /// Starts the task that keeps it up. Call it inside the store's runtime.
    pub(super) fn start(place: Arc<Place>, role: Role) -> Self {
        let (states, state) = watch::channel(LineState::Down("connecting".into()));
        let supervisor = place.supervisor.clone();
        supervisor.task("a connection to Postgres", keep_up(place, role, states));
        Self { state }
    }

    /// The connection, as soon as there is one; at the deadline, why there is none.
    pub(super) async fn session(&self, deadline: Instant) -> Result<Arc<Session>, String> {
        let mut states = self.state.clone();
        let up = states.wait_for(|state| matches!(state, LineState::Up(session) if session.is_good()));
        let up = match tokio::time::timeout_at(deadline.into(), up).await {
            Ok(Ok(state)) => Some(state.clone()),
            // The task is gone only with the runtime.
            Ok(Err(_)) | Err(_) => None,
        };
        match up.unwrap_or_else(|| self.state.borrow().clone()) {
            LineState::Up(session) if session.is_good() => Ok(session),
            LineState::Up(_) => Err(NotConnected::Ended.to_string()),
            LineState::Down(why) => Err(why.to_string()),
        }
    }
}

#[cfg(test)]
impl Line {
    /// One connection that nobody keeps up, and what it is.
    pub(super) fn over(client: Client, sql: Statements, identity: i64) -> (Self, Arc<Session>) {
        let address = Address::parse("postgres://somebody@127.0.0.1:1/none").expect("it is an address");
        let place = Arc::new(Place::new(address, identity));
        let standing = Standing::of_one_server();
        let session = Arc::new(Session { client, sql, standing, place, born: 0, broken: Notify::new() });
        (Self { state: watch::channel(LineState::Up(session.clone())).1 }, session)
    }
}

#[cfg(test)]
impl Session {
    /// Whether it was given up since this was last asked.
    pub(super) fn was_given_up(&self) -> bool {
        futures::FutureExt::now_or_never(self.broken.notified()).is_some()
    }

    /// How often it was doubted that its server is the primary still.
    pub(super) fn doubts(&self) -> u64 {
        *self.place.doubts.borrow()
    }
}

/// Connects again whenever the connection is gone.
async fn keep_up(place: Arc<Place>, role: Role, states: watch::Sender<LineState>) {
    let mut pauses = Pauses::default();
    loop {
        let started = Instant::now();
        let why = live(&place, &role, &states).await;
        if let Role::Listens(events) = &role {
            let _ = events.send(Event::Disconnected);
        }
        crate::logged!(debug, %role, %why, "a connection to the database is gone");
        states.send_replace(LineState::Down(why.to_string().into()));
        // It ends early only with a connection that came up, which is paced by its own pauses.
        let _ = timeout(pauses.after(started.elapsed()), place.reachable.notified()).await;
    }
}

/// One connection, from connecting to its end. Says why it ended.
async fn live(place: &Arc<Place>, role: &Role, states: &watch::Sender<LineState>) -> NotConnected {
    let on_notification = {
        let role = role.clone();
        move |payload| {
            if let Role::Listens(events) = &role {
                // The keeper is gone only with the runtime.
                let _ = events.send(Event::Notified(payload));
            }
        }
    };
    let mut anew = place.anew.subscribe();
    let born = *anew.borrow_and_update();
    let connected = match connect_and_listen(&place.address, on_notification).await {
        Ok(connected) => connected,
        Err(why) => return why,
    };
    let Connected { client, driven, standing } = connected;
    let mut driven = AbortOnDrop(place.supervisor.task("what a connection to Postgres says", driven));
    // Boxed, because it is large.
    let ready = Box::pin(async {
        let known = place.newest.known();
        let row = client.query_one(sql::STATE, &[]).await?;
        if row.try_get::<_, i64>(1)? != place.identity {
            return Err(NotConnected::Replaced);
        }
        let version = sql::seen(row.try_get(2)?);
        if place.newest.begins_with(known, version) {
            let (before, after) = (known.0, version.0);
            crate::logged!(
                error,
                before,
                after,
                "the database has lost commits: fencing tokens may be given out twice"
            );
        }
        // Standbys may lack a commit that the primary shows, of this process or of another one: see `standbys`.
        let may_show_too_much = born > 0 || standing.waits_for_standbys();
        if may_show_too_much && !matches!(role, Role::Listens(_)) {
            standbys::wait_for_them(&client).await?;
            if standing.is_cut_short() {
                return Err(NotConnected::CutShort);
            }
        }
        if let Role::Listens(events) = role {
            client.batch_execute(&format!("LISTEN {}", sql::CHANNEL)).await?;
            // Whatever was committed before is looked for, whatever comes later is notified.
            let _ = events.send(Event::Listens);
        }
        Ok(Statements::prepare(&client).await?)
    });
    let ready = async {
        tokio::select! {
            biased;
            // The standby of an old primary has left it, so that the wait would take all the time that there is.
            () = standing.lost() => Err(NotConnected::Ended),
            ready = ready => ready,
            () = place.doubt_after_a_while() => Err(NotConnected::Silent),
        }
    };
    let sql = match timeout(ANSWER_TIMEOUT, ready).await {
        Ok(Ok(sql)) => sql,
        Ok(Err(why)) => return why,
        Err(_) => return NotConnected::Silent,
    };
    let place = place.clone();
    let session = Session { client, sql, standing, place, born, broken: Notify::new() };
    let session = Arc::new(session);
    states.send_replace(LineState::Up(session.clone()));
    session.place.reachable.notify_waiters();
    tokio::select! {
        biased;
        _ = &mut driven.0 => {}
        () = session.broken.notified() => {}
        () = session.standing.lost() => {}
        _ = anew.changed(), if !matches!(role, Role::Listens(_)) => {}
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
        super::{
            notice::spelled,
            schema,
            tests::{
                commit_alone,
                wire::{self, Said},
            },
        },
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

    #[tokio::test]
    async fn after_a_commit_of_unknown_outcome_connections_begin_anew_where_another_host_may_take_over() {
        for (hosts, anew) in [("h", 0), ("h,i", 1)] {
            let (line, session) = wire::line(|_| Said::Done).await;
            drop(line);
            let session = Arc::into_inner(session).expect("nobody else has it");
            let address = Address::parse(&format!("postgres://u@{hosts}/d")).unwrap();
            let session = Session { place: Arc::new(Place::new(address, wire::IDENTITY)), ..session };
            assert!(session.is_good(), "{hosts}");
            session.met_unknown();
            assert_eq!((session.doubts(), *session.place.anew.borrow()), (1, anew), "{hosts}");
            assert_eq!(session.is_good(), anew == 0, "{hosts}");
        }
    }
}
