//! The endpoint: what users hold. It listens, and hands what comes to `net::connection`.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use callsign_store::{
    lock::{lock, read, write},
    logged,
};
use futures::{FutureExt, future::BoxFuture};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "node-server")]
use crate::driver::net::network::Network;
use crate::{
    config::EndpointConfig,
    core::{
        admission::Verdict,
        agreed::Security,
        link,
        links::Input,
        outbox::Outbox,
        peer::{Lane, LinkId, PeerId, is_valid_name},
        permits::Permits,
        refusals::{Refusal, RefusalCounts},
    },
    driver::{
        events::{LinkEvents, Subscription},
        handle::LinkHandle,
        inner::Inner,
        net::{connection, network::Listener, stream::Connection},
        remote::watcher::Watcher,
        secret::MAX_SECRETS,
        subscribers::{LinkEvent, RoomTaken},
    },
    error::{KeysRefused, Refused, SendError, StartError},
    keys::Keys,
    tuning::{LinkLimits, LinkTiming},
};

/// The longest time that may be set. Larger: a sum of such times is more than a clock can show, and a link panics.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// After a failed accept (no descriptors left, say). Smaller: a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A node's end of all its links.
///
/// Cloning gives another handle. When the last one is dropped everything ends at once, without a goodbye: peers see a
/// closed connection, as after a crash. [`Endpoint::leave`] is the polite way.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) inner: Arc<Inner>,
    _alive: Arc<Alive>,
}

/// Ends the endpoint with its last handle; tasks hold `Inner` only.
struct Alive(Arc<Inner>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.halt();
    }
}

/// A link that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStatus {
    /// The link.
    pub link: LinkId,
    /// The other end.
    pub peer: PeerId,
    /// Its address, as this side sees it.
    pub address: SocketAddr,
    /// Bytes that wait in the control lane.
    pub control_queued: usize,
    /// Bytes that wait in the bulk lane.
    pub bulk_queued: usize,
    /// Messages to actors of the peer that were lost because the control lane was full.
    pub dropped: u64,
    /// References to actors of the peer, with those that were ended here and not yet cleared away.
    pub references: usize,
}

impl Endpoint {
    /// Listens, and links up with whoever belongs here. Call it inside a tokio runtime; its tasks run there.
    pub async fn start(config: EndpointConfig) -> Result<Self, StartError> {
        Self::started(config).await
    }

    /// Boxed by a function of this crate. Otherwise all links would be compiled again in each crate that starts an endpoint: a
    /// future is compiled where it is awaited.
    fn started(config: EndpointConfig) -> BoxFuture<'static, Result<Self, StartError>> {
        Self::start_here(config).boxed()
    }

    async fn start_here(config: EndpointConfig) -> Result<Self, StartError> {
        check(&config)?;
        let listen = config.listen;
        let (listener, local) =
            config.network.listen(listen).await.map_err(|source| StartError::Listen { listen, source })?;
        #[cfg(feature = "node-server")]
        let sessions = match &config.network {
            Network::NodeServer(network) => {
                let (timing, tasks, entropy) = (config.timing, config.tasks.clone(), config.entropy.clone());
                Some(crate::driver::node_server::Sessions::start(network, timing, tasks, entropy).await?)
            }
            _ => None,
        };
        let watcher = Watcher::start(&config.tasks).await?;
        let inner = Arc::new(Inner::new(
            config,
            local,
            watcher,
            #[cfg(feature = "node-server")]
            sessions,
            |inner, node, address| connection::dial(inner, node, address).boxed(),
        ));
        inner.watch_actors();
        inner.start_task("the listener of links", accept(inner.clone(), listener));
        inner.start_task("the timer of links", inner.clone().wake_links());
        let alive = Arc::new(Alive(inner.clone()));
        Ok(Self { inner, _alive: alive })
    }

    /// Where it listens: the real port when 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local
    }

    /// This node's incarnation.
    pub fn peer_id(&self) -> &PeerId {
        &self.inner.me
    }

    /// The keys that are in force.
    pub fn keys(&self) -> Keys {
        (*self.inner.keys()).clone()
    }

    /// What this node may do, by the certificate that is in force.
    pub fn permits(&self) -> Permits {
        self.inner.permits()
    }

    /// Replaces the keys, for all handshakes that begin from now on. Links that are up stay, whatever they were made with;
    /// [`Endpoint::forget`] ends one, and it is made again. But if the certificate says something else of what this node may do,
    /// all its links end and are made again, so that its peers see that. Returns whether anything changed. An error changes
    /// nothing.
    ///
    /// To change a secret on a living cluster without cutting it, each step on every node before the next: accept both
    /// (`[old, new]`), show the new one (`[new, old]`), accept only that (`[new]`). For authorities it is the same: believe
    /// both, have new certificates issued, believe the new one only.
    pub fn set_keys(&self, keys: Keys) -> Result<bool, KeysRefused> {
        let me = &self.inner.me;
        check_keys(&keys, &self.inner.config.cluster, &me.node)?;
        let are_others = {
            let mut current = write(&self.inner.keys);
            let (now, wanted) = (current.security(), keys.security());
            if now != wanted {
                return Err(KeysRefused::OtherSecurity { now, wanted });
            }
            if **current == keys {
                return Ok(false);
            }
            let permits = self.inner.permits_by(&current);
            let are_others = permits != self.inner.permits_by(&keys);
            *current = Arc::new(keys);
            are_others
        };
        // No lock is held over another. A link that is made meanwhile looks at these keys when it is up.
        if are_others {
            let _ = self.inner.apply(Input::Renew); // nothing in it can be refused
        }
        Ok(true)
    }

    /// The nodes to be linked to, by name and `host:port`. Replaces the former set.
    ///
    /// Of two nodes the one with the greater name dials, so both must have each other in their sets, or at least the
    /// greater the lesser. Links to nodes that are not in the set any more stay until they end by themselves; see
    /// [`Endpoint::forget`]. A node whose address changed is dialled at the new one at once.
    pub fn set_peers(&self, peers: Vec<(Arc<str>, String)>) {
        // Host names are not looked up here: who has one is familiar from its first link on.
        let addresses = peers.iter().filter_map(|(_, address)| address.parse::<SocketAddr>().ok());
        write(&self.inner.state).admission.expect(addresses.map(|address| address.ip()));
        let _ = self.inner.apply(Input::Peers(peers)); // nothing in it can be refused
    }

    /// Ends the link to a node and forgets which of its incarnations are over. It is dialled again if it is still
    /// among the peers.
    pub fn forget(&self, node: &str) {
        let _ = self.inner.apply(Input::Forget(node.into()));
    }

    /// Says which incarnation of a node is the present one, for whoever knows it from the store.
    ///
    /// By itself an endpoint takes the one for newer that it linked to later. That is wrong where a former
    /// incarnation was stopped for long and this node met its successor first: the successor would stay refused.
    /// A link to another incarnation ends as evicted.
    pub fn confirm(&self, peer: &PeerId) {
        let _ = self.inner.apply(Input::Confirm(peer.clone()));
    }

    /// The ordered stream of one channel: for each link `Up`, its messages, `Down`. The links that are up already
    /// come first.
    ///
    /// Bounded: when [`crate::LinkLimits::inbox`] is full, links that bring more for this channel are not read from
    /// until the reader has caught up, so their senders feel it; nothing is lost, and nobody is declared dead for
    /// it. Other channels of those links wait too. Frames of a channel that nobody reads are dropped.
    pub fn subscribe(&self, channel: &str) -> LinkEvents {
        LinkEvents::new(&self.inner, channel)
    }

    /// The same, without a stream: `sink` is called with each event where it happens, in the task of its link. It must not wait, and
    /// must not call this endpoint. A message has its room until what comes with it is dropped.
    pub fn subscribe_with(
        &self,
        channel: &str,
        sink: impl Fn(LinkEvent, RoomTaken) + Send + Sync + 'static,
    ) -> Subscription {
        Subscription::new(&self.inner, channel, Arc::new(sink))
    }

    /// Queues a message on one link. Never waits. `Ok` is no receipt: what is queued when the link ends is lost.
    pub fn send(&self, link: LinkId, lane: Lane, channel: &str, body: Bytes) -> Result<(), SendError> {
        let handle = self.inner.handles.get(&link).ok_or(SendError::NotUp { link })?;
        handle.queue(|outbox| outbox.send(lane, channel, body))
    }

    /// Queues a message as [`send`](Self::send) does, but nothing writes it before [`flush`](Self::flush), unless something else
    /// is written.
    pub fn post(&self, link: LinkId, lane: Lane, channel: &str, body: Bytes) -> Result<(), SendError> {
        let handle = self.inner.handles.get(&link).ok_or(SendError::NotUp { link })?;
        lock(&handle.outbox).send(lane, channel, body)
    }

    /// Has written what was posted on a link.
    pub fn flush(&self, link: LinkId) {
        if let Some(handle) = self.inner.handles.get(&link) {
            handle.written.notify_one();
        }
    }

    /// Has written what was posted on several links: first on one of them, and on the others as soon as that one's task has written,
    /// whether or not its peer takes the bytes. A runtime that has two tasks to wake starts another thread for the second, which may
    /// take the processor from the first.
    pub fn flush_first(&self, first: LinkId, others: &[LinkId]) {
        let others =
            others.iter().filter_map(|link| self.inner.handles.get(link).map(|handle| handle.clone()));
        match self.inner.handles.get(&first).map(|handle| handle.clone()) {
            Some(first) => first.write_before(others),
            None => others.for_each(|link| link.written.notify_one()),
        }
    }

    /// The link that is up to a node right now.
    pub fn link_to(&self, node: &str) -> Option<(LinkId, PeerId)> {
        read(&self.inner.state).links.link_to(node).map(|(link, peer)| (link, peer.clone()))
    }

    /// All links that are up, oldest first.
    pub fn links(&self) -> Vec<LinkStatus> {
        let mut links: Vec<_> = self.inner.handles.iter().map(|handle| status(&handle)).collect();
        links.sort_by_key(|status| status.link);
        links
    }

    /// How many actors of this node there are of whose end some peer is to be told.
    pub fn watched(&self) -> usize {
        lock(&self.inner.ends).monitored()
    }

    /// The latest connections that did not become links, and why. For `doctor` and for people.
    pub fn refusals(&self) -> Vec<Refusal> {
        lock(&self.inner.refusals).list()
    }

    /// How many connections did not become links, by the word for why ([`Refused::word`](crate::Refused::word)), since the
    /// endpoint began; and how many messages for actors that peers cannot reach were, as `no-such-actor`, and calls, as
    /// `too-many-calls`. For metrics.
    pub fn refusal_counts(&self) -> RefusalCounts {
        lock(&self.inner.refusals).counts().clone()
    }

    /// Accepted sockets that are in their handshakes right now.
    pub fn unauthenticated(&self) -> usize {
        read(&self.inner.state).admission.waiting()
    }

    /// Says goodbye on every link after what is queued, closes them, stops listening and dialling.
    ///
    /// Returns when all peers have closed too, or after [`crate::LinkTiming::leave`]; then whatever a peer had not
    /// read by then is lost. Streams of events end after their `Down`s.
    pub async fn leave(&self) {
        self.inner.closing.cancel();
        let _ = self.inner.apply(Input::Leave);
        let handles = self.inner.in_order();
        for handle in &handles {
            self.inner.step_link(handle, link::Input::Leave);
        }
        for handle in handles {
            handle.done.cancelled().await; // each link's core has the deadline
        }
        self.inner.halt();
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({} at {})", self.inner.me, self.inner.local)
    }
}

async fn accept(inner: Arc<Inner>, mut listener: Listener) {
    loop {
        let accepted = tokio::select! {
            biased;
            // First, so that many who connect keep no node from leaving.
            () = inner.closing.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(connection) => admit(&inner, connection),
            Err(error) => {
                logged!(warn, "cannot accept connections: {error}");
                tokio::select! {
                    biased;
                    () = sleep(ACCEPT_PAUSE) => {}
                    () = inner.closing.cancelled() => return,
                }
            }
        }
    }
}

/// Has an accepted connection shake hands, or closes it.
fn admit(inner: &Arc<Inner>, connection: Connection) {
    let link = inner.new_link();
    let from = connection.remote.ip();
    match let_in(inner, link, from) {
        Ok(dropped) => {
            let handshake = connection::accepted(inner.clone(), link, connection, dropped);
            inner.start_task("a link that was accepted", handshake);
        }
        Err(why) => inner.note_refusal(&from.to_string(), &why),
    }
}

/// Has a place at admission taken, if need be from another. Returns what will say that this one has to go.
fn let_in(inner: &Inner, link: LinkId, from: IpAddr) -> Result<CancellationToken, Refused> {
    let mut state = write(&inner.state);
    match state.admission.admit(inner.now(), link, from) {
        Verdict::Enter { instead_of } => {
            let dropped = CancellationToken::new();
            state.pending.insert(link, dropped.clone());
            if let Some(handshake) = instead_of.and_then(|link| state.pending.remove(&link)) {
                handshake.cancel();
            }
            Ok(dropped)
        }
        Verdict::Refused(why) => Err(why),
    }
}

fn status(handle: &LinkHandle) -> LinkStatus {
    let (control_queued, bulk_queued) = Outbox::queued(&lock(&handle.outbox));
    LinkStatus {
        link: handle.id,
        peer: handle.peer.clone(),
        address: handle.address,
        control_queued,
        bulk_queued,
        dropped: handle.dropped.load(Relaxed),
        references: handle.remote.references(),
    }
}

fn check_keys(keys: &Keys, cluster: &str, node: &str) -> Result<(), KeysRefused> {
    if keys.secrets.len() > MAX_SECRETS {
        return Err(KeysRefused::TooManySecrets { count: keys.secrets.len() });
    }
    keys.tls.as_ref().map_or(Ok(()), |tls| tls.check_node(cluster, node))
}

fn check(config: &EndpointConfig) -> Result<(), StartError> {
    for name in [&config.cluster, &*config.node] {
        if !is_valid_name(name) {
            return Err(StartError::BadName { name: name.to_owned() });
        }
    }
    if config.keys.security() == Security::Plain && !config.listen.ip().to_canonical().is_loopback() {
        return Err(StartError::SecretNeeded { listen: config.listen });
    }
    check_keys(&config.keys, &config.cluster, &config.node)?;
    let EndpointConfig { timing, limits, .. } = config;
    let bad = |why| Err(StartError::BadSettings { why });
    if limits.frame > limits.control_queue || limits.frame > limits.bulk_queue {
        return bad("the largest message must fit into each queue");
    }
    if limits.frame < 1024 || limits.frame > 1 << 30 {
        return bad("the largest message must be of 1 KiB to 1 GiB");
    }
    let LinkLimits { unauthenticated, unauthenticated_per_address: per_address, reserved, .. } = *limits;
    if per_address == 0 || reserved >= unauthenticated || limits.inbox < 1024 {
        return bad("there must be room for one connection of a stranger and one message");
    }
    if limits.handshakes_per_second == 0 || limits.received_per_second < 1024 || limits.open_calls < 1024 {
        return bad("some handshakes a second, some bytes a second and some calls must be allowed");
    }
    if limits.references == 0 {
        return bad("there must be room for a reference");
    }
    if limits.links == 0 {
        return bad("there must be room for a link");
    }
    if timing.ping.is_zero() || timing.ping >= timing.silence {
        return bad("pings must come more often than the silence limit");
    }
    if timing.redial_min.is_zero() || timing.handshake.is_zero() {
        return bad("redialling and handshakes take time");
    }
    // Pings come more often than the silence limit.
    let LinkTiming { handshake, silence, redial_min, redial_max, leave, .. } = *timing;
    if [handshake, silence, redial_min, redial_max, leave].iter().any(|time| *time > LONGEST) {
        return bad("no time of links may be longer than a year");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
