//! Connects to the primary among the hosts that a URL names.
//!
//! All are tried at once. Of those that take writes the one with the greatest timeline is used, and one below a timeline that was seen
//! before never is: that is an old primary, to which nobody may commit any more.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Error, SimpleQueryMessage, Socket, tls::MakeTlsConnect,
};

use super::{
    ANSWER_TIMEOUT,
    address::Address,
    host::Host,
    not_connected::NotConnected,
    sql, standbys,
    timeline::{ORIGIN, Origin, Succession},
    tls::Tls,
};

/// How long the others may take once one was reached that takes writes. Shorter would miss one far away that was promoted since, longer
/// would delay each connection by one that does not answer.
const OTHERS: Duration = Duration::from_secs(1);
/// The same where all others are known to be old primaries: one may have been promoted again, but most likely they are gone.
const OLD_ONES: Duration = Duration::from_millis(200);
/// The pause before a host that is of no use is asked again, while others have not answered: it may be promoted meanwhile.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Drives a connection, as long as it lives. Messages of the server nobody asked for go to the log.
pub type Driven = BoxFuture<'static, ()>;

/// A connection to a primary.
pub struct Connected {
    /// What sends statements over it.
    pub client: Client,
    /// What has to be polled meanwhile.
    pub driven: Driven,
    /// Whether its answers count.
    pub standing: Standing,
}

/// Whether what a connection answers can be relied on. Clones tell the same.
#[derive(Clone, Debug)]
pub struct Standing {
    origin: Origin,
    succession: Succession,
    /// Set before the answer to the commit that did not wait.
    is_cut_short: Arc<AtomicBool>,
}

impl Standing {
    fn new(origin: Origin, succession: Succession) -> Self {
        Self { origin, succession, is_cut_short: Arc::default() }
    }

    /// Waits until another server was promoted: this one is an old primary then, and nothing that it answers counts.
    pub(super) async fn lost(&self) {
        self.succession.passed(&self.origin).await;
    }

    /// Whether another server was promoted.
    pub(super) fn is_lost(&self) -> bool {
        self.succession.has_passed(&self.origin)
    }

    /// Whether a commit over it was answered that did not wait for a standby to the end.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short.load(Ordering::SeqCst)
    }

    /// Whether commits waited for standbys when it was made.
    pub(super) fn waits_for_standbys(&self) -> bool {
        self.origin.waits_for_standbys
    }
}

#[cfg(test)]
impl Standing {
    /// Of a server that was never promoted, and never will be.
    pub(super) fn of_one_server() -> Self {
        let (known, origin) = (super::timeline::Known::default(), Origin::read("00000001", "1", "f"));
        Self::new(origin.expect("it makes sense"), known.subscribe())
    }
}

/// Connects to the primary, and makes the settings. `on_notification` is given what others notify.
pub async fn connect_and_listen(
    address: &Address,
    mut on_notification: impl FnMut(String) + Send + 'static,
) -> Result<Connected, NotConnected> {
    let Reached { client, mut connection, origin } = primary(address).await?;
    let standing = Standing::new(origin, address.known.subscribe());
    let is_cut_short = standing.is_cut_short.clone();
    let driven = Box::pin(async move {
        // Its error was told to whoever waited for an answer, and the next attempt to connect tells more.
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                AsyncMessage::Notification(said) => on_notification(said.payload().to_owned()),
                AsyncMessage::Notice(said) => {
                    if standbys::is_of_a_wait(&said) {
                        is_cut_short.store(true, Ordering::SeqCst);
                    }
                    crate::logged!(info, said = %said.message(), "the database says");
                }
                _ => {}
            }
        }
    });
    Ok(Connected { client, driven, standing })
}

/// Connects, and makes the settings.
pub(super) async fn connect(address: &Address) -> Result<(Client, Driven), NotConnected> {
    let connected = connect_and_listen(address, |_| ()).await?;
    Ok((connected.client, connected.driven))
}

/// A host that takes writes.
pub(super) struct Reached {
    client: Client,
    connection: Connection<Socket, <Tls as MakeTlsConnect<Socket>>::Stream>,
    pub(super) origin: Origin,
}

/// The connection to use. Everything that is reached is noted.
async fn primary(address: &Address) -> Result<Reached, NotConnected> {
    let (mut reached, mut failed) = match address.hosts.as_slice() {
        [host] => match reach(host, &address.tls).await {
            Ok(reached) => (vec![(0, reached)], BTreeMap::new()),
            Err(why) => (Vec::new(), BTreeMap::from([(0, why)])),
        },
        _ => all(address).await,
    };
    // A copy that somebody runs elsewhere is none of ours as long as ours is there.
    let is_ours = |reached: &Reached| address.known.knows(reached.origin.system);
    let rank = |reached: &Reached| (is_ours(reached), reached.origin.timeline);
    reached.sort_by_key(|(nth, reached)| (rank(reached), std::cmp::Reverse(*nth)));
    // The primary first, so that an old one is known to be one.
    for (nth, reached) in reached.iter().rev() {
        address.hosts[*nth].note(&reached.origin, &address.known);
    }
    while let Some((nth, reached)) = reached.pop() {
        let Some(newest) = address.known.newer_than(&reached.origin) else { return Ok(reached) };
        let why = NotConnected::OldPrimary { timeline: reached.origin.timeline, newest };
        failed.insert(nth, why);
    }
    let mut failed = failed.into_iter().map(|(nth, why)| (address.hosts[nth].name.clone(), why));
    Err(match (failed.next(), address.hosts.len()) {
        (Some((_, why)), 1) => why,
        (first, _) => NotConnected::NoPrimary(first.into_iter().chain(failed).collect()),
    })
}

/// Each host by its number.
type Tried = (Vec<(usize, Reached)>, BTreeMap<usize, NotConnected>);

/// Tries all at once, until each has answered, or the others have had their time.
async fn all(address: &Address) -> Tried {
    let attempt = |nth: usize, pause: Duration| async move {
        sleep(pause).await;
        (nth, reach(&address.hosts[nth], &address.tls).await)
    };
    let mut attempts: FuturesUnordered<_> =
        (0..address.hosts.len()).map(|nth| attempt(nth, Duration::ZERO)).collect();
    let (mut reached, mut failed) = (Vec::new(), BTreeMap::new());
    let (mut until, mut first) = (Instant::now() + ANSWER_TIMEOUT, None);
    while let Ok(Some((nth, result))) = timeout_at(until, attempts.next()).await {
        match result {
            Ok(it) => {
                failed.remove(&nth);
                reached.push((nth, it));
                first.get_or_insert_with(Instant::now);
            }
            Err(why) => {
                failed.insert(nth, why);
            }
        }
        let has_answered = |nth: usize| failed.contains_key(&nth) || reached.iter().any(|(it, _)| *it == nth);
        let mut silent = (0..address.hosts.len()).filter(|nth| !has_answered(*nth)).peekable();
        if silent.peek().is_none() {
            break;
        }
        let newest = reached.iter().map(|(_, it): &(_, Reached)| it.origin.timeline).max();
        if let Some((newest, first)) = newest.zip(first) {
            let are_old = silent.all(|nth| address.hosts[nth].is_known_to_be_before(newest));
            until = until.min(first + if are_old { OLD_ONES } else { OTHERS });
        }
        if failed.contains_key(&nth) {
            attempts.push(attempt(nth, ASK_AGAIN));
        }
    }
    for nth in 0..address.hosts.len() {
        if reached.iter().all(|(other, _)| *other != nth) {
            failed.entry(nth).or_insert(NotConnected::Silent);
        }
    }
    (reached, failed)
}

/// Connects to one host, if it takes writes, makes the settings, and asks where its data come from: one round trip for both.
pub(super) async fn reach(host: &Host, tls: &Tls) -> Result<Reached, NotConnected> {
    let connecting = host.config.connect(tls.clone());
    let (client, mut connection) =
        timeout(ANSWER_TIMEOUT, connecting).await.map_err(|_| NotConnected::Silent)??;
    let driven = async {
        // What it has to say now is of no use to anybody.
        while let Some(Ok(_)) = poll_fn(|context| connection.poll_message(context)).await {}
    };
    let asked = format!("{}; {ORIGIN}", sql::SETTINGS);
    let asked = async {
        tokio::select! {
            biased;
            answer = client.simple_query(&asked) => answer.map_err(NotConnected::from),
            () = driven => Err(NotConnected::Ended),
        }
    };
    let answer = timeout(ANSWER_TIMEOUT, asked).await.map_err(|_| NotConnected::Silent)??;
    let origin = origin_of(&answer)?.ok_or(NotConnected::NoTimeline)?;
    Ok(Reached { client, connection, origin })
}

/// What the last statement said.
fn origin_of(answer: &[SimpleQueryMessage]) -> Result<Option<Origin>, Error> {
    let rows = answer.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = rows else { return Ok(None) };
    let field = |nth| row.try_get(nth).map(Option::unwrap_or_default);
    // The settings have a row of one column, if they have any.
    if row.len() != 3 {
        return Ok(None);
    }
    Ok(Origin::read(field(0)?, field(1)?, field(2)?))
}
