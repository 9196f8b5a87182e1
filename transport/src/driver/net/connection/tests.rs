use std::{
    io,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, ReadHalf, WriteHalf},
    runtime::Handle,
    task::spawn_blocking,
    time::{advance, sleep, timeout},
};

use super::*;
use crate::{
    Endpoint, EndpointConfig, Lane, LinkEvent, LinkEvents, LinkTiming, MemoryNetwork, Network,
    core::{
        agreed::{Carrier, Security},
        frame,
        hello::{HelloWord, Me, preamble, word},
        versions::Versions,
    },
    driver::handle::tests::idle,
};

#[test]
fn a_buffer_keeps_its_memory_unless_there_was_a_burst() {
    let mut batch = BytesMut::with_capacity(KEPT_BYTES);
    batch.extend_from_slice(b"written");
    empty(&mut batch);
    assert!(batch.is_empty() && batch.capacity() >= KEPT_BYTES);
    batch.resize(KEPT_BYTES + 1, 0);
    empty(&mut batch);
    assert!(batch.is_empty() && batch.capacity() < KEPT_BYTES);
}

async fn start() -> Endpoint {
    start_with(LinkTiming::default()).await
}

async fn start_with(timing: LinkTiming) -> Endpoint {
    let mut config = EndpointConfig::new("prod", "a", 1, "127.0.0.1:0".parse().unwrap());
    config.network = Network::Memory(MemoryNetwork::new());
    config.timing = timing;
    Endpoint::start(config).await.unwrap()
}

/// "a", which is linked to "z" over a connection that a test has made.
struct Linked {
    a: Endpoint,
    events: LinkEvents,
    link: LinkId,
    /// What "z" has of the connection.
    _there: DuplexStream,
}

impl Linked {
    async fn over<R, W>(
        halves: impl FnOnce(ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) -> (R, W),
    ) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self::timed(LinkTiming::default(), halves).await
    }

    async fn timed<R, W>(
        timing: LinkTiming,
        halves: impl FnOnce(ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) -> (R, W),
    ) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let a = start_with(timing).await;
        let events = a.subscribe("names");
        let (here, mut there) = tokio::io::duplex(64 << 10);
        let (read, write) = tokio::io::split(here);
        let (read, write) = halves(read, write);
        let connection = Connection { read: Box::new(read), write: Box::new(write), remote: a.local_addr() };
        let link = a.inner.new_link();
        tokio::spawn(accepted(a.inner.clone(), link, connection, CancellationToken::new()));
        let me = Me {
            cluster: "prod".into(),
            peer: PeerId::new("z", 7),
            security: Security::Plain,
            carrier: Carrier::Connection,
            versions: Versions::OURS,
        };
        let hello = word(&HelloWord::Hello { node: "z".into(), incarnation: 7 });
        for said in [preamble(&me), hello, word(&HelloWord::Ready)] {
            let mut out = BytesMut::new();
            frame::put_with(&mut out, |out| out.extend_from_slice(&said));
            there.write_all(&out).await.unwrap();
        }
        let mut linked = Self { a, events, link, _there: there };
        assert!(matches!(linked.next().await, Some(LinkEvent::Up { .. })));
        linked
    }

    async fn next(&mut self) -> Option<LinkEvent> {
        timeout(Duration::from_secs(60), self.events.recv()).await.ok().flatten()
    }
}

/// Fails from some moment on.
struct Breaks(WriteHalf<DuplexStream>, Arc<AtomicBool>);

impl AsyncWrite for Breaks {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.1.load(SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_on_which_nothing_can_be_written_any_more_ends_though_it_can_be_read() {
    let is_broken = Arc::<AtomicBool>::default();
    let mut linked = Linked::over(|read, write| (read, Breaks(write, is_broken.clone()))).await;
    is_broken.store(true, SeqCst);
    let (link, reason) = (linked.link, DownReason::Closed);
    assert_eq!(linked.next().await, Some(LinkEvent::Down { peer: PeerId::new("z", 7), link, reason }));
}

/// Has a frame to be read from some moment on, of which nobody is told: as what comes while the process stands still.
struct Hears(ReadHalf<DuplexStream>, Arc<AtomicBool>, Frame<'static>);

impl AsyncRead for Hears {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.1.swap(false, SeqCst) {
            let mut said = BytesMut::new();
            self.2.put(&mut said);
            buf.put_slice(&said);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_reads_what_came_before_it_calls_its_peer_silent() {
    let has_come = Arc::<AtomicBool>::default();
    let linked = Linked::over(|read, write| (Hears(read, has_come.clone(), Frame::Ping), write)).await;
    // Two of its pings are sent. The third one and the end of the peer's silence are in the time that it misses.
    sleep(Duration::from_millis(3100)).await;
    has_come.store(true, SeqCst);
    advance(Duration::from_secs(2)).await;
    let is_read = async {
        while has_come.load(SeqCst) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let is_read = timeout(Duration::from_secs(60), is_read).await;
    assert!(is_read.is_ok(), "it is given up unread");
    // The paused clock goes on when everybody waits, so the core has been woken by then.
    sleep(Duration::from_millis(100)).await;
    assert!(linked.a.link_to("z").is_some());
}

#[tokio::test]
async fn a_handle_whose_admission_is_refused_is_done() {
    let a = start().await;
    let (here, _there) = tokio::io::duplex(64);
    let (read, write) = tokio::io::split(here);
    let connection = Connection { read: Box::new(read), write: Box::new(write), remote: a.local_addr() };
    let (read, write) = wire(connection, 1024);
    let ready = Ready {
        peer: PeerId::new("z", 7),
        permits: (a.permits(), a.permits()),
        address: a.local_addr(),
        read,
        write,
        core: Link::new(a.inner.now(), a.inner.config.timing),
        below: Below::default(),
    };
    let (inner, link, runtime) = (a.inner.clone(), a.inner.new_link(), Handle::current());
    let (handle, running) = {
        let mut state = callsign_store::lock::write(&a.inner.state);
        let running = spawn_blocking(move || runtime.block_on(run(inner, link, ready, None)));
        // As `leave` does it: what waits to be admitted is found, and refused then.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let handle = loop {
            if let Some(handle) = a.inner.in_order().pop() {
                break handle;
            }
            assert!(std::time::Instant::now() < deadline, "it does not ask to be admitted");
            std::thread::yield_now();
        };
        state.links.step(a.inner.now(), links::Input::Leave, &mut Vec::new());
        (handle, running)
    };
    running.await.unwrap();
    assert_eq!(a.links(), []);
    assert!(handle.done.is_cancelled(), "who leaves would wait for ever");
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_said_last_is_heard_though_nothing_can_be_written_to_it_any_more() {
    let (has_come, is_broken) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let goodbye = Frame::Farewell(Farewell::Leaving);
    let halves = |read, write| (Hears(read, has_come.clone(), goodbye), Breaks(write, is_broken.clone()));
    let mut linked = Linked::over(halves).await;
    has_come.store(true, SeqCst);
    is_broken.store(true, SeqCst);
    linked.a.send(linked.link, Lane::Control, "names", Bytes::from_static(b"x")).unwrap();
    let (link, reason) = (linked.link, DownReason::Goodbye);
    assert_eq!(linked.next().await, Some(LinkEvent::Down { peer: PeerId::new("z", 7), link, reason }));
}

#[tokio::test(start_paused = true)]
async fn a_core_is_woken_when_it_is_time_and_its_link_was_read_from_once_more() {
    let a = start().await;
    let handle = idle(99, a.inner.now()).await;
    let pings = || lock(&handle.outbox).queued().0;
    let mut is_due = false;
    assert!(tick(&a.inner, &handle, &mut is_due).now_or_never().is_none());
    assert!(!is_due && pings() == 0, "it is not time");
    advance(Duration::from_millis(1500)).await;
    assert!(tick(&a.inner, &handle, &mut is_due).now_or_never().is_none());
    assert!(is_due && pings() == 0, "it is read from first");
    assert!(tick(&a.inner, &handle, &mut is_due).now_or_never().is_some());
    assert!(!is_due && pings() > 0);
    // What was due may have been put off by what was read.
    is_due = true;
    assert!(tick(&a.inner, &handle, &mut is_due).now_or_never().is_none());
    assert!(!is_due);
}

#[tokio::test(start_paused = true)]
async fn a_peer_to_which_something_was_written_is_not_pinged_for_a_while() {
    let linked = Linked::over(|read, write| (read, write)).await;
    let handle = linked.a.inner.handles.get(&linked.link).map(|handle| handle.clone()).unwrap();
    let pings_at = handle.next_wake();
    tokio::time::advance(Duration::from_secs(1)).await;
    linked.a.send(linked.link, Lane::Control, "names", Bytes::from_static(b"x")).unwrap();
    let is_put_off = async {
        while handle.next_wake() == pings_at {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let before_it_pings = Duration::from_millis(400);
    assert!(timeout(before_it_pings, is_put_off).await.is_ok(), "it is pinged nevertheless");
}

/// Takes nothing more from some moment on.
struct Blocks(WriteHalf<DuplexStream>, Arc<AtomicBool>);

impl AsyncWrite for Blocks {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.1.load(SeqCst) { Poll::Pending } else { Pin::new(&mut self.0).poll_write(cx, buf) }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_the_turn_of_a_link_whose_peer_takes_nothing() {
    let is_blocked = Arc::<AtomicBool>::default();
    let linked = Linked::over(|read, write| (read, Blocks(write, is_blocked.clone()))).await;
    let first = linked.a.inner.handles.get(&linked.link).map(|handle| handle.clone()).unwrap();
    let next = idle(99, linked.a.inner.now()).await;
    is_blocked.store(true, SeqCst);
    linked.a.send(linked.link, Lane::Control, "names", Bytes::from_static(b"x")).unwrap();
    // Its task has taken that, and is held up.
    while lock(&first.outbox).queued().0 > 0 {
        tokio::task::yield_now().await;
    }
    first.write_before([next.clone()].into_iter());
    assert!(next.written.notified().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn leaving_is_over_in_time_also_if_a_peer_takes_nothing_and_the_next_ping_is_far_away() {
    let (is_blocked, hour) = (Arc::<AtomicBool>::default(), Duration::from_secs(3600));
    let timing = LinkTiming::default().with(|timing| (timing.ping, timing.silence) = (hour, 2 * hour));
    let linked = Linked::timed(timing, |read, write| (read, Blocks(write, is_blocked.clone()))).await;
    let handle = linked.a.inner.handles.get(&linked.link).map(|handle| handle.clone()).unwrap();
    is_blocked.store(true, SeqCst);
    linked.a.send(linked.link, Lane::Control, "names", Bytes::from_static(b"x")).unwrap();
    // Its task has taken that, and is held up.
    for _ in 0..1000 {
        if lock(&handle.outbox).queued().0 == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(lock(&handle.outbox).queued().0, 0, "it is taken");
    let left = timeout(Duration::from_secs(60), linked.a.leave()).await;
    assert!(left.is_ok(), "it waits until the next ping is due");
}

#[tokio::test]
async fn nobody_waits_for_the_turn_of_a_link_whose_task_is_over() {
    let a = start().await;
    let (over, next) = (idle(98, a.inner.now()).await, idle(99, a.inner.now()).await);
    let is_told = || next.written.notified().now_or_never().is_some();
    over.write_before([next.clone()].into_iter());
    assert!(!is_told());
    drop(Ended(&a.inner, &over));
    assert!(is_told() && over.done.is_cancelled());
    over.write_before([next.clone()].into_iter());
    assert!(is_told());
}
