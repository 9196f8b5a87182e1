//! Runs one connection: the handshake, then a task that writes and one that reads.
//!
//! Decides nothing: [`Link`] says when a peer is given up, the endpoint's table which link counts.

use std::{future::poll_fn, net::SocketAddr, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use callsign_store::{
    lock::{lock, read},
    logged,
};
use futures::FutureExt;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::{
    handshake,
    network::may_talk,
    stream::Connection,
    wire::{ReadError, WireRead, WireWrite, wire},
};
use crate::{
    core::{
        bucket::Bucket,
        frame::{Assembly, Farewell, Frame},
        hello::{Hello, Side},
        link::{Input, Link},
        links,
        outbox::{BATCH, Next, Outbox},
        peer::{LinkId, PeerId},
        permits::Permits,
    },
    driver::{
        handle::LinkHandle,
        inner::Inner,
        remote::{deliver, side::RemoteSide},
        subscribers::{Full, Progress},
    },
    error::{DownReason, Refused},
};

/// So many bytes of a buffer are kept for what is written next.
const KEPT_BYTES: usize = 4 * BATCH;

/// Dials a node and runs the link. The endpoint is told how it went.
pub(crate) async fn dial(inner: Arc<Inner>, node: Arc<str>, address: String) {
    let (security, within) = (inner.keys().security(), inner.config.timing.handshake);
    let connect = inner.config.network.connect(inner.local, &address, security, within);
    let established = tokio::select! {
        biased;
        () = inner.closing.cancelled() => return,
        established = establish(&inner, Side::Dialler { expected: node.clone() }, connect) => established,
    };
    match established {
        Ok(ready) => run(inner.clone(), inner.new_link(), ready, Some(address)).await,
        Err(why) => {
            inner.note_refusal(&address, &why);
            let _ = inner.apply(links::Input::DialFailed { node });
        }
    }
}

/// Runs a connection that was accepted. `dropped` ends its handshake.
pub(crate) async fn accepted(
    inner: Arc<Inner>,
    id: LinkId,
    connection: Connection,
    dropped: CancellationToken,
) {
    let address = connection.remote;
    let connect = async { may_talk(inner.keys().security(), address).map(|()| connection) };
    let established = tokio::select! {
        biased;
        () = inner.closing.cancelled() => return,
        () = dropped.cancelled() => Err(Refused::Crowded),
        established = establish(&inner, Side::Listener, connect) => established,
    };
    match established {
        Ok(ready) => run(inner, id, ready, None).await,
        Err(why) => {
            inner.note_refusal(&address.ip().to_string(), &why);
            let _ = inner.apply(links::Input::Ended { link: id, reason: DownReason::Closed });
        }
    }
}

/// What lives as long as a link, below it.
#[cfg(feature = "node-server")]
type Below = Option<crate::driver::node_server::Carried>;
#[cfg(not(feature = "node-server"))]
type Below = ();

/// A connection whose peer is known.
struct Ready {
    peer: PeerId,
    /// What the peer may do, and what this node may do by the certificate that it showed.
    permits: (Permits, Permits),
    address: SocketAddr,
    read: WireRead,
    write: WireWrite,
    core: Link,
    below: Below,
}

/// Connects and shakes hands, within the deadline of the link's core.
async fn establish(
    inner: &Arc<Inner>,
    side: Side,
    connect: impl Future<Output = Result<Connection, Refused>>,
) -> Result<Ready, Refused> {
    let mut core = Link::new(inner.now(), inner.config.timing);
    let initiator = matches!(side, Side::Dialler { .. });
    let shaking = async {
        let connection = connect.await?;
        let address = connection.remote;
        let (mut read, mut write) = wire(connection, inner.config.limits.frame);
        let keys = inner.keys();
        let hello = Hello::new(inner.myself(&keys), side);
        let check = |peer: &PeerId| inner.check(peer);
        let entropy = &inner.config.entropy;
        let (peer, theirs) =
            handshake::shake(&mut read, &mut write, hello, &keys, initiator, entropy, check).await?;
        let (read, write, below) = carry(inner, initiator, &peer, address, (read, write)).await?;
        Ok((peer, (theirs, inner.permits_by(&keys)), address, read, write, below))
    };
    // A panic in here would be our own bug; it must not leave a dial under way for ever.
    let shaking = AssertUnwindSafe(shaking).catch_unwind();
    tokio::pin!(shaking);
    let mut effects = Vec::new();
    loop {
        let at = inner.start + core.next_wake().ok_or(Refused::Deadline)?;
        tokio::select! {
            biased;
            shaken = &mut shaking => {
                let panicked = |_| Err(Refused::Malformed("the handshake panicked".into()));
                let (peer, permits, address, read, write, below) = shaken.unwrap_or_else(panicked)?;
                core.step(inner.now(), Input::Established, &mut effects);
                return Ok(Ready { peer, permits, address, read, write, core, below });
            }
            () = sleep_until(at) => core.step(inner.now(), Input::Wake, &mut effects),
        }
    }
}

/// Puts a session of the application's `NodeServer` between the connection and the link, where that is asked for.
#[cfg(feature = "node-server")]
async fn carry(
    inner: &Arc<Inner>,
    dialled: bool,
    peer: &PeerId,
    address: SocketAddr,
    halves: (WireRead, WireWrite),
) -> Result<(WireRead, WireWrite, Below), Refused> {
    let Some(sessions) = &inner.sessions else { return Ok((halves.0, halves.1, None)) };
    // A `NodeServer` has one session per node, and prefers a dead one that it does not know to be dead.
    let _ = inner.apply(links::Input::MakeWay(peer.clone()));
    let (connection, carried) = sessions.carry(dialled, peer, address, halves).await?;
    let (mut read, write) = wire(connection, inner.config.limits.frame);
    read.trust();
    Ok((read, write, Some(carried)))
}

#[cfg(not(feature = "node-server"))]
#[allow(clippy::unused_async)] // the other one waits
async fn carry(
    _: &Arc<Inner>,
    _: bool,
    _: &PeerId,
    _: SocketAddr,
    (read, write): (WireRead, WireWrite),
) -> Result<(WireRead, WireWrite, Below), Refused> {
    Ok((read, write, ()))
}

/// Has the link admitted, and runs it to its end.
async fn run(inner: Arc<Inner>, id: LinkId, ready: Ready, via: Option<String>) {
    let Ready { peer, permits: (theirs, ours), address, read, write, core, below: _below } = ready;
    let remote = match RemoteSide::new(inner.config.tasks.clone(), inner.config.limits.references).await {
        Ok(remote) => remote,
        Err(error) => {
            logged!(error, %peer, "no supervisor for the link: {error}");
            inner.lost(id, peer, via.is_some());
            return;
        }
    };
    let outbox = Outbox::new(id, inner.config.limits);
    let handle = Arc::new(LinkHandle::new(id, (peer, theirs, address), remote, outbox, core));
    // It is there before the link asks to be admitted: `leave` may find the link then, and waits for its end if it is refused, too.
    let _ended = Ended(&inner, &handle);
    if let Err(why) = inner.admit(&handle, via) {
        handle.remote.close("the link was refused");
        inner.note_refusal(&address.ip().to_string(), &why);
        return;
    }
    // The peer goes by a certificate that was replaced while it was shown. Asked now that whoever replaces one finds this link.
    if inner.permits() != ours {
        inner.step_link(&handle, Input::Dismiss(Farewell::Forgotten, DownReason::Forgotten));
    }
    let mut writes = pin!(write_loop(&inner, &handle, write));
    let writes = poll_fn(|context| {
        let polled = writes.as_mut().poll(context);
        handle.has_written(polled.is_ready());
        polled
    });
    let mut reads = pin!(read_loop(&inner, &handle, read));
    let reads = poll_fn(|context| {
        let polled = reads.as_mut().poll(context);
        handle.has_read();
        polled
    });
    tokio::join!(biased; writes, reads);
}

/// Ends a link with its tasks, if nothing else did: also when they panic, which only our own bug can bring about.
struct Ended<'a>(&'a Arc<Inner>, &'a Arc<LinkHandle>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.step_link(self.1, Input::Closed);
        self.1.has_written(true);
    }
}

/// Wakes the core when it is time, but lets the link be read from before. Otherwise a process that stood still for a while would
/// call its peer silent although the peer's words wait to be read.
///
/// `is_due`: it was time already when this was last polled, and the link has been read from since. It is kept by the caller, who
/// drops this whenever there is something to write: otherwise one that always writes would never wake the core.
async fn tick(inner: &Arc<Inner>, handle: &LinkHandle, is_due: &mut bool) {
    loop {
        let Some(at) = handle.next_wake() else { return std::future::pending().await };
        *is_due = *is_due && inner.now() >= at;
        tokio::select! {
            biased;
            // A link that leaves has less time, perhaps, than was left until its next ping.
            () = handle.earlier.notified() => {}
            () = sleep_until(inner.start + at) => break,
        }
    }
    if !std::mem::replace(is_due, true) {
        tokio::task::yield_now().await;
    }
    *is_due = false;
    inner.step_link(handle, Input::Wake);
}

async fn write_loop(inner: &Arc<Inner>, handle: &Arc<LinkHandle>, mut wire: WireWrite) {
    let mut batch = BytesMut::new();
    let mut is_due = false;
    loop {
        inner.speak_of_actors(handle);
        let next = lock(&handle.outbox).next(&mut batch);
        match next {
            Next::Write => {
                let written = write_batch(inner, handle, &mut wire, &batch, &mut is_due).await;
                if !written {
                    // What the peer said last may wait to be read, and says why it is gone.
                    tokio::task::yield_now().await;
                    inner.step_link(handle, Input::Closed);
                    return;
                }
                inner.step_link(handle, Input::Sent);
                empty(&mut batch);
            }
            Next::Wait => tokio::select! {
                biased;
                () = handle.written.notified() => {}
                () = handle.overdue() => return,
                () = inner.halted.cancelled() => return,
                () = tick(inner, handle, &mut is_due) => {}
            },
            Next::Close => break,
        }
    }
    // The deadlines of a link that leaves go on while its end is on the way, which may take the peer, and until its peer
    // closes.
    let closing = wire.shutdown();
    tokio::pin!(closing);
    loop {
        tokio::select! {
            biased;
            () = &mut closing => break,
            () = handle.overdue() => break,
            () = inner.halted.cancelled() => return,
            () = tick(inner, handle, &mut is_due) => {}
        }
    }
    loop {
        tokio::select! {
            biased;
            () = handle.done.cancelled() => return,
            () = inner.halted.cancelled() => return,
            () = tick(inner, handle, &mut is_due) => {}
        }
    }
}

/// Empties a buffer. After a burst its memory is given back.
fn empty(batch: &mut BytesMut) {
    if batch.capacity() > KEPT_BYTES {
        *batch = BytesMut::new();
    }
    batch.clear();
}

/// Writes to the end, while the link's deadlines go on. `false`: there is nobody to write to any more.
async fn write_batch(
    inner: &Arc<Inner>,
    handle: &Arc<LinkHandle>,
    wire: &mut WireWrite,
    batch: &BytesMut,
    is_due: &mut bool,
) -> bool {
    let writing = wire.write(batch);
    tokio::pin!(writing);
    handle.set_writing(true);
    let is_written = loop {
        tokio::select! {
            biased;
            written = &mut writing => break written.is_ok(),
            () = handle.overdue() => break false,
            () = inner.halted.cancelled() => break false,
            () = tick(inner, handle, is_due) => {}
        }
    };
    handle.set_writing(false);
    is_written
}

async fn read_loop(inner: &Arc<Inner>, handle: &Arc<LinkHandle>, mut wire: WireRead) {
    let mut reader = Reader { inner, handle, assembly: Assembly::default(), bulk_read: 0 };
    let most = inner.config.limits.received_per_second as u64;
    let mut rate = Bucket::new(inner.now(), most, most);
    loop {
        if let Err(violation) = reader.take_all(&mut wire).await {
            return inner.step_link(handle, Input::Violation(violation));
        }
        tokio::select! {
            biased;
            () = handle.done.cancelled() => return,
            () = inner.halted.cancelled() => return,
            filled = wire.fill() => match filled {
                Ok(true) => {
                    inner.step_link(handle, Input::Received);
                    if let Some(until) = rate.draw(inner.now(), wire.received()) {
                        pause(inner, handle, until).await;
                    }
                }
                Ok(false) | Err(ReadError::Broken(_)) => return inner.step_link(handle, Input::Closed),
                Err(ReadError::Violation(why)) => return inner.step_link(handle, Input::Violation(why)),
            },
        }
    }
}

/// Does not read from a peer that sends too fast, until then.
async fn pause(inner: &Arc<Inner>, handle: &Arc<LinkHandle>, until: Duration) {
    inner.step_link(handle, Input::Paused);
    tokio::select! {
        biased;
        () = sleep_until(inner.start + until) => {}
        () = handle.done.cancelled() => {}
        () = inner.halted.cancelled() => {}
    }
    inner.step_link(handle, Input::Resumed);
}

/// Takes frames to where they belong.
struct Reader<'a> {
    inner: &'a Arc<Inner>,
    handle: &'a Arc<LinkHandle>,
    assembly: Assembly,
    /// Bulk bytes read and not yet reported to the peer.
    bulk_read: u32,
}

impl Reader<'_> {
    /// Handles every whole frame that was read. An error is what the peer did wrong.
    async fn take_all(&mut self, wire: &mut WireRead) -> Result<(), String> {
        while let Some(frame) = wire.take().map_err(|error| error.to_string())? {
            self.on_frame(&frame).await?;
        }
        if self.bulk_read > 0 {
            let read = Frame::Read(std::mem::take(&mut self.bulk_read));
            self.handle.queue(|outbox| outbox.send_own(&read));
        }
        if lock(&self.handle.outbox).is_overrun() {
            return Err("it asks, and does not read what it is answered".into());
        }
        Ok(())
    }

    async fn on_frame(&mut self, bytes: &Bytes) -> Result<(), String> {
        let (inner, handle) = (self.inner, self.handle);
        match Frame::get(bytes).map_err(|error| error.to_string())? {
            Frame::Ping => {}
            Frame::Farewell(why) => inner.step_link(handle, Input::Farewell(why)),
            Frame::Read(count) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                handle.queue(|outbox| outbox.on_read(count))?;
            }
            // A copy: a slice would keep all that was read with it, however little of it waits for its reader.
            Frame::Message { channel, body } => self.deliver(channel, &Bytes::copy_from_slice(body)).await,
            Frame::Piece { channel, rest, body } => {
                self.bulk_read += u32::try_from(body.len()).unwrap_or(u32::MAX);
                let limit = inner.config.limits.frame;
                if let Some((channel, body)) = self.assembly.add(channel, rest, body, limit)? {
                    self.deliver(&channel, &body).await;
                }
            }
            frame => {
                // The lock is held so that nothing of a link that is down gets through.
                let state = read(&inner.state);
                if state.links.is_up(handle.id) {
                    deliver::on_frame(inner, handle, frame)?;
                }
            }
        }
        Ok(())
    }

    async fn deliver(&self, channel: &str, body: &Bytes) {
        let (inner, handle) = (self.inner, self.handle);
        let mut progress = Progress::default();
        let mut waited: Option<Full> = None;
        loop {
            let full = {
                let state = read(&inner.state);
                if !state.links.is_up(handle.id) {
                    if let Some(full) = waited {
                        full.room.give_up(body.len());
                    }
                    return;
                }
                state.subscribers.offer(channel, body, (&handle.peer, handle.id), &mut progress)
            };
            let Some(full) = full else { return };
            inner.step_link(handle, Input::Paused);
            tokio::select! {
                biased;
                () = full.room.wait(body.len()) => progress.grant(&full),
                () = handle.done.cancelled() => return,
                () = inner.halted.cancelled() => return,
            }
            inner.step_link(handle, Input::Resumed);
            waited = Some(full);
        }
    }
}

#[cfg(test)]
mod tests;
