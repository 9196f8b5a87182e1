//! A network inside the process, with the faults that tests need.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use callsign_store::lock::lock;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    sync::{Notify, mpsc},
    time::{Sleep, sleep},
};

use super::stream::Connection;

/// What a pipe holds in each direction, unless the network is narrow.
const PIPE: usize = 64 << 10;

/// Joins endpoints of one process by pipes instead of sockets, so that several nodes run in one test under a paused
/// clock. Endpoints are told apart by their listen addresses. Cloning gives another handle to the same network.
#[derive(Clone, Default)]
pub struct MemoryNetwork {
    shared: Arc<Shared>,
}

/// What went over a network in memory so far, all its connections together. Over sockets each read and each write is a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// How often something was written to a connection.
    pub writes: u64,
    /// How often something was read from one.
    pub reads: u64,
    /// How many bytes were written.
    pub bytes: u64,
}

#[derive(Default)]
struct Shared {
    world: Mutex<World>,
    traffic: Arc<Mutex<Traffic>>,
    /// Rules changed.
    changed: Notify,
    /// What a pipe holds in each direction; 0: what is usual.
    holds: usize,
}

#[derive(Default)]
struct World {
    listeners: BTreeMap<SocketAddr, mpsc::UnboundedSender<io::Result<Connection>>>,
    next_port: u16,
    pipes: Vec<Weak<Pipe>>,
    /// Both orders of each pair.
    cut: BTreeSet<(SocketAddr, SocketAddr)>,
    /// From, to.
    held: BTreeSet<(SocketAddr, SocketAddr)>,
    /// From, to: how long each piece takes, and how many bytes it has at most.
    slow: BTreeMap<(SocketAddr, SocketAddr), Slow>,
}

/// How slow a way is.
#[derive(Clone, Copy, Debug)]
struct Slow {
    pause: Duration,
    bytes: usize,
}

/// What both ends of a pipe share.
struct Pipe {
    ends: [SocketAddr; 2],
    /// Of the whole network.
    traffic: Arc<Mutex<Traffic>>,
    state: Mutex<PipeState>,
}

#[derive(Default)]
struct PipeState {
    broken: bool,
    /// `held[n]`: what end n sends does not arrive.
    held: [bool; 2],
    /// `slow[n]`: how slowly it arrives.
    slow: [Option<Slow>; 2],
    /// Whoever waits: reader and writer of both ends.
    waiting: [Option<Waker>; 4],
}

impl fmt::Debug for MemoryNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryNetwork")
    }
}

impl MemoryNetwork {
    /// A network without faults and without anybody on it.
    pub fn new() -> Self {
        Self::default()
    }

    /// One whose connections hold at most so many bytes in each direction, so that who writes soon waits for who reads.
    pub fn narrow(bytes: usize) -> Self {
        Self { shared: Arc::new(Shared { holds: bytes, ..Shared::default() }) }
    }

    /// Breaks all connections between two endpoints with an error on both sides, and refuses new ones, until `heal`.
    pub fn cut(&self, a: SocketAddr, b: SocketAddr) {
        self.change(|world| world.cut.extend([(a, b), (b, a)]));
    }

    /// Holds back what `from` sends to `to`, until `heal`: a connection that is dead in one direction and does not
    /// know it. Nothing is lost; writes go on until the pipe is full. New connections between the two wait.
    pub fn hold(&self, from: SocketAddr, to: SocketAddr) {
        self.change(|world| {
            world.held.insert((from, to));
        });
    }

    /// Has what `from` sends to `to` arrive in pieces of at most so many bytes, each that long after it could, until `heal`: a
    /// long way, or a narrow one. Needs tokio's timer.
    pub fn slow(&self, from: SocketAddr, to: SocketAddr, pause: Duration, bytes: usize) {
        self.change(|world| {
            world.slow.insert((from, to), Slow { pause, bytes: bytes.max(1) });
        });
    }

    /// Ends all faults between two endpoints. Connections that were cut stay broken; what was held arrives.
    pub fn heal(&self, a: SocketAddr, b: SocketAddr) {
        self.change(|world| {
            for pair in [(a, b), (b, a)] {
                world.cut.remove(&pair);
                world.held.remove(&pair);
                world.slow.remove(&pair);
            }
        });
    }

    /// Has an endpoint fail once to accept a connection, as where no file descriptor is left. Does nothing if nobody listens there.
    pub fn fail_accept(&self, at: SocketAddr) {
        if let Some(listener) = lock(&self.shared.world).listeners.get(&at) {
            let _ = listener.send(Err(io::Error::other("a test said so"))); // nobody listens any more
        }
    }

    /// What went over it so far.
    pub fn traffic(&self) -> Traffic {
        *lock(&self.shared.traffic)
    }

    fn change(&self, change: impl FnOnce(&mut World)) {
        lock(&self.shared.world).change(change);
        self.shared.changed.notify_waiters();
    }

    pub(super) fn listen(&self, mut address: SocketAddr) -> io::Result<(MemoryListener, SocketAddr)> {
        let mut world = lock(&self.shared.world);
        while address.port() == 0 {
            world.next_port = world.next_port.wrapping_add(1);
            let free = SocketAddr::new(address.ip(), world.next_port);
            if !world.listeners.contains_key(&free) {
                address = free;
            }
        }
        if world.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (sender, arrivals) = mpsc::unbounded_channel();
        world.listeners.insert(address, sender);
        Ok((MemoryListener { network: self.clone(), address, arrivals }, address))
    }

    pub(super) async fn connect(&self, from: SocketAddr, to: SocketAddr) -> io::Result<Connection> {
        loop {
            let changed = self.shared.changed.notified(); // before the look at the rules, so that no change is missed
            if let Some(connection) = self.try_connect(from, to)? {
                return Ok(connection);
            }
            changed.await;
        }
    }

    /// `None` while the way is held.
    fn try_connect(&self, from: SocketAddr, to: SocketAddr) -> io::Result<Option<Connection>> {
        let mut world = lock(&self.shared.world);
        if world.cut.contains(&(from, to)) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if world.held.contains(&(from, to)) || world.held.contains(&(to, from)) {
            return Ok(None);
        }
        let listener = world.listeners.get(&to).ok_or(io::ErrorKind::ConnectionRefused)?.clone();
        let slow = [(from, to), (to, from)].map(|way| world.slow.get(&way).copied());
        let state = PipeState { slow, ..PipeState::default() };
        let traffic = self.shared.traffic.clone();
        let pipe = Arc::new(Pipe { ends: [from, to], traffic, state: Mutex::new(state) });
        world.pipes.retain(|pipe| pipe.strong_count() > 0);
        world.pipes.push(Arc::downgrade(&pipe));
        let (here, there) = tokio::io::duplex(if self.shared.holds == 0 { PIPE } else { self.shared.holds });
        let accepted = PipeEnd { inner: there, pipe: pipe.clone(), end: 1, late: None }.into_connection(from);
        listener.send(Ok(accepted)).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(Some(PipeEnd { inner: here, pipe, end: 0, late: None }.into_connection(to)))
    }
}

impl World {
    /// Changes the rules, also for the connections that there are.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        for pipe in self.pipes.iter().filter_map(Weak::upgrade) {
            let [a, b] = pipe.ends;
            let mut state = lock(&pipe.state);
            state.broken |= self.cut.contains(&(a, b));
            state.held = [self.held.contains(&(a, b)), self.held.contains(&(b, a))];
            state.slow = [(a, b), (b, a)].map(|way| self.slow.get(&way).copied());
            state.waiting.iter_mut().filter_map(Option::take).for_each(Waker::wake);
        }
    }
}

/// Connections to one address.
pub(crate) struct MemoryListener {
    network: MemoryNetwork,
    address: SocketAddr,
    arrivals: mpsc::UnboundedReceiver<io::Result<Connection>>,
}

impl MemoryListener {
    pub(super) async fn accept(&mut self) -> io::Result<Connection> {
        self.arrivals.recv().await.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
    }
}

impl Drop for MemoryListener {
    fn drop(&mut self) {
        lock(&self.network.shared.world).listeners.remove(&self.address);
    }
}

struct PipeEnd {
    inner: DuplexStream,
    pipe: Arc<Pipe>,
    end: usize,
    /// What is under way on a slow way.
    late: Option<Late>,
}

struct Late {
    piece: Vec<u8>,
    arrives: Pin<Box<Sleep>>,
}

impl PipeEnd {
    fn into_connection(self, remote: SocketAddr) -> Connection {
        let (read, write) = tokio::io::split(self);
        Connection { read: Box::new(read), write: Box::new(write), remote }
    }

    /// The pipe's rules, after asking to be woken when they change.
    fn rules(&self, slot: usize, cx: &Context<'_>) -> io::Result<MutexGuard<'_, PipeState>> {
        let mut state = lock(&self.pipe.state);
        if state.broken {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        state.waiting[self.end * 2 + slot] = Some(cx.waker().clone());
        Ok(state)
    }
}

impl PipeEnd {
    /// Reads by the pipe's rules.
    fn poll_arrived(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rules = self.rules(0, cx)?;
        let (held, slow) = (rules.held[1 - self.end], rules.slow[1 - self.end]);
        drop(rules);
        if held {
            return Poll::Pending;
        }
        if self.late.is_none()
            && let Some(Slow { pause, bytes }) = slow
        {
            let mut piece = vec![0; bytes.min(buf.remaining())];
            let mut room = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut room))?;
            let read = room.filled().len();
            piece.truncate(read);
            self.late = Some(Late { piece, arrives: Box::pin(sleep(pause)) });
        }
        let Some(late) = &mut self.late else { return Pin::new(&mut self.inner).poll_read(cx, buf) };
        // What is under way when the way becomes a fast one arrives at once.
        if slow.is_some() && late.arrives.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let rest = late.piece.split_off(late.piece.len().min(buf.remaining()));
        buf.put_slice(&late.piece);
        late.piece = rest;
        if late.piece.is_empty() {
            self.late = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for PipeEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(self.poll_arrived(cx, buf))?;
        if buf.filled().len() > before {
            lock(&self.pipe.traffic).reads += 1;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PipeEnd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let held = self.rules(1, cx)?.held[self.end];
        match Pin::new(&mut self.inner).poll_write_vectored(cx, bufs) {
            // That the other end closed is news that does not arrive either.
            Poll::Ready(Err(_)) if held => Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum())),
            Poll::Ready(Ok(written)) => {
                let mut traffic = lock(&self.pipe.traffic);
                traffic.writes += 1;
                traffic.bytes += written as u64;
                Poll::Ready(Ok(written))
            }
            polled => polled,
        }
    }

    /// As sockets are: TLS writes its last words once, and they are more than one piece.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::timeout,
    };

    use super::*;

    #[tokio::test]
    async fn who_waits_to_read_hears_of_the_end_of_a_fault_though_somebody_writes() {
        let network = MemoryNetwork::new();
        let at = |host| SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 7000));
        let (mut listener, there) = network.listen(at(1)).unwrap();
        let mut mine = network.connect(at(2), there).await.unwrap();
        let mut theirs = listener.accept().await.unwrap();
        network.hold(at(1), at(2));
        let mut another = Box::pin(network.connect(at(2), there));
        assert!(futures::poll!(&mut another).is_pending(), "a connection needs both ways");
        theirs.write.write_all(b"held").await.unwrap();
        let mut read = tokio::spawn(async move {
            let mut bytes = [0; 4];
            mine.read.read_exact(&mut bytes).await.map(|_| bytes)
        });
        assert!(futures::poll!(&mut read).is_pending());
        tokio::task::yield_now().await; // it waits
        mine.write.write_all(b"on its way").await.unwrap();
        network.heal(at(1), at(2));
        let read = timeout(Duration::from_secs(60), read).await.expect("it is woken").unwrap();
        assert_eq!(read.unwrap(), *b"held");
        assert!(timeout(Duration::from_secs(60), another).await.expect("it goes on").is_ok());
    }

    /// Two ends of a connection from `mine` to `theirs`.
    async fn joined(
        network: &MemoryNetwork,
        mine: SocketAddr,
        theirs: SocketAddr,
    ) -> (Connection, Connection) {
        let (mut listener, theirs) = network.listen(theirs).unwrap();
        let there = network.connect(mine, theirs).await.unwrap();
        (there, listener.accept().await.unwrap())
    }

    fn host(last: u8) -> SocketAddr {
        (Ipv4Addr::new(127, 0, 0, last), 7000).into()
    }

    #[tokio::test]
    async fn a_cut_breaks_what_is_there_and_refuses_what_is_new_until_it_is_healed() {
        let network = MemoryNetwork::new();
        let (mut mine, _theirs) = joined(&network, host(2), host(1)).await;
        let (_listener, there) = network.listen(host(1)).unwrap();
        network.cut(host(1), host(2));
        assert_eq!(mine.read.read_u8().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(mine.write.write_u8(1).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        let refused = network.connect(host(2), there).await.err().expect("it is refused");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(network.connect(host(3), there).await.is_ok(), "others are not concerned");
        network.heal(host(1), host(2));
        assert!(network.connect(host(2), there).await.is_ok());
        assert!(mine.read.read_u8().await.is_err(), "what was cut stays so");
    }

    #[tokio::test]
    async fn that_the_other_end_has_closed_is_noticed_unless_the_way_is_held() {
        let network = MemoryNetwork::new();
        let (mut mine, theirs) = joined(&network, host(2), host(1)).await;
        assert!(mine.write.is_write_vectored(), "as a socket is");
        drop(theirs);
        network.hold(host(2), host(1));
        assert_eq!(mine.write.write(b"lost").await.unwrap(), 4);
        network.heal(host(2), host(1));
        assert!(mine.write.write(b"lost").await.is_err());
    }

    #[tokio::test]
    async fn each_read_and_each_write_of_all_connections_is_counted_with_its_bytes() {
        let network = MemoryNetwork::new();
        let (mut mine, mut theirs) = joined(&network, host(2), host(1)).await;
        let (mut mine_too, _theirs_too) = joined(&network, host(4), host(3)).await;
        assert_eq!(network.traffic(), Traffic::default());
        mine.write.write_all(b"four").await.unwrap();
        mine.write.write_all(b"two").await.unwrap();
        theirs.read.read_u8().await.unwrap();
        assert_eq!(network.traffic(), Traffic { writes: 2, reads: 1, bytes: 7 });
        mine_too.write.write_all(b"!").await.unwrap();
        drop(mine);
        let mut rest = Vec::new();
        theirs.read.read_to_end(&mut rest).await.unwrap();
        // That there is no more is nothing that was read.
        assert_eq!((rest.len(), network.traffic()), (6, Traffic { writes: 3, reads: 2, bytes: 8 }));
    }

    #[tokio::test(start_paused = true)]
    async fn on_a_slow_way_pieces_are_as_small_as_was_asked_for() {
        for (bytes, expected) in [(0, 1), (1, 1), (3, 3)] {
            let network = MemoryNetwork::new();
            network.slow(host(1), host(2), Duration::from_millis(10), bytes);
            let (mut mine, mut theirs) = joined(&network, host(2), host(1)).await;
            theirs.write.write_all(b"slowly").await.unwrap();
            let mut piece = [0; 6];
            assert_eq!(mine.read.read(&mut piece).await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn whoever_asks_for_any_port_gets_the_next_one_that_is_free() {
        let network = MemoryNetwork::new();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let second = SocketAddr::from((Ipv4Addr::LOCALHOST, 2));
        let _held = network.listen(second).unwrap();
        let ports: Vec<_> = (0..3).map(|_| network.listen(any).unwrap().1.port()).collect();
        assert_eq!(ports, [1, 3, 4]);
        assert!(network.listen(second).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse));
    }

    #[tokio::test]
    async fn nothing_is_kept_of_connections_that_are_over() {
        let network = MemoryNetwork::new();
        for _ in 0..10 {
            drop(joined(&network, host(2), host(1)).await);
        }
        assert_eq!(lock(&network.shared.world).pipes.len(), 1);
    }
}
