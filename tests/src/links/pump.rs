//! Passes bytes on, as the ways between two ends say.

use std::time::Duration;

use callsign_sim::rng::Rng;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::way::{Now, RESENT, Way};

/// How many bytes are passed on at once.
const READ_AT_ONCE: usize = 16 << 10;
/// How many pieces may be on the way.
const PIECES: usize = 256;

/// The two ways of a connection, as its dialler sees them.
#[derive(Debug)]
pub(super) struct Ways {
    there: watch::Sender<Now>,
    back: watch::Sender<Now>,
    /// What breaks from here on breaks this connection.
    breaks: [u64; 2],
}

impl Ways {
    /// Those of a connection that is being made.
    pub(super) fn new(there: watch::Sender<Now>, back: watch::Sender<Now>) -> Self {
        let breaks = [&there, &back].map(|way| way.borrow().breaks);
        Self { there, back, breaks }
    }
}

/// The connection broke, or is to break.
struct Broken;

/// Waits until both ways are open.
pub(super) async fn until_open(ways: &Ways) {
    let (mut there, mut back) = (ways.there.subscribe(), ways.back.subscribe());
    while !(there.borrow_and_update().way.is_open && back.borrow_and_update().way.is_open) {
        let changed = tokio::select! {
            biased;
            changed = there.changed() => changed,
            changed = back.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Carries a connection to its end.
pub(super) async fn carry(
    dialled: impl AsyncRead + AsyncWrite,
    listening: impl AsyncRead + AsyncWrite,
    ways: &Ways,
    seed: u64,
) {
    let (dialled_read, dialled_write) = split(dialled);
    let (listening_read, listening_write) = split(listening);
    // One side's end is passed on, and the other may go on; when one way breaks, both do.
    let _ = tokio::try_join!(
        pass_on(dialled_read, listening_write, (ways.there.subscribe(), ways.breaks[0]), Rng::new(seed * 2)),
        pass_on(
            listening_read,
            dialled_write,
            (ways.back.subscribe(), ways.breaks[1]),
            Rng::new(seed * 2 + 1)
        ),
    );
}

async fn pass_on(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    (way, breaks): (watch::Receiver<Now>, u64),
    rng: Rng,
) -> Result<(), Broken> {
    let (put, take) = mpsc::channel(PIECES);
    let is_broken = {
        let mut way = way.clone();
        async move {
            let _ = way.wait_for(|now| now.breaks != breaks).await;
            Err(Broken)
        }
    };
    let passing = async {
        tokio::try_join!(take_in(from, put, way.clone(), rng), give_out(to, take, way.clone()))?;
        Ok(())
    };
    tokio::select! {
        biased;
        passed = passing => passed,
        broken = is_broken => broken,
    }
}

async fn open(way: &mut watch::Receiver<Now>) -> Result<(), Broken> {
    way.wait_for(|now| now.way.is_open).await.map(drop).map_err(|_| Broken)
}

/// Reads while the way is open, and says when each piece is to arrive.
async fn take_in(
    mut from: impl AsyncRead + Unpin,
    put: mpsc::Sender<(Instant, Vec<u8>)>,
    mut way: watch::Receiver<Now>,
    mut rng: Rng,
) -> Result<(), Broken> {
    let mut last = Instant::now();
    loop {
        open(&mut way).await?;
        let mut piece = vec![0; READ_AT_ONCE];
        let read = tokio::select! {
            biased;
            read = from.read(&mut piece) => read.map_err(|_| Broken)?,
            changed = way.changed() => {
                changed.map_err(|_| Broken)?;
                continue;
            }
        };
        piece.truncate(read);
        let now = way.borrow().way.clone();
        if rng.per_mille(now.broken_per_mille) {
            return Err(Broken);
        }
        let due = Instant::now() + now.delay + rng.duration(now.jitter) + lost(&now, &mut rng);
        last = last.max(due);
        // An empty piece is the end. A way that gives nothing out any more has ended itself.
        if put.send((last, piece)).await.is_err() || read == 0 {
            return Ok(());
        }
    }
}

/// How much later a piece comes that is lost, perhaps more than once.
fn lost(way: &Way, rng: &mut Rng) -> Duration {
    let mut late = Duration::ZERO;
    let mut wait = RESENT;
    while rng.per_mille(way.lost_per_mille.min(900)) && wait < RESENT * 16 {
        late += wait;
        wait *= 2;
    }
    late
}

/// Writes each piece when it is due, and the way is open.
async fn give_out(
    mut to: impl AsyncWrite + Unpin,
    mut take: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut way: watch::Receiver<Now>,
) -> Result<(), Broken> {
    while let Some((due, piece)) = take.recv().await {
        sleep_until(due).await;
        open(&mut way).await?;
        if piece.is_empty() {
            return to.shutdown().await.map_err(|_| Broken);
        }
        to.write_all(&piece).await.map_err(|_| Broken)?;
    }
    Ok(())
}
