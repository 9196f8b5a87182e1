//! Where the singleton writes: a place outside of the cluster, twice. One checks the tokens, the other one does not.
//!
//! The same writes come to both, in one order, so that it can be told which of them came late: after one of a later term.

use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use callsign_election::sink::{ByEpoch, FencedCell, SinkError, Token};
use callsign_store::{ids::Nonce, memory::MemoryStore};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    runtime::Runtime,
    sync::Mutex,
};

/// What came of a term's beginning: everything older is refused from now on.
pub const SEAL: u8 = b's';
/// What came of a write.
pub const WRITE: u8 = b'w';
/// It was done.
pub const DONE: u8 = b'y';
/// It was refused, for good.
pub const FENCED: u8 = b'n';

/// How many bytes a message has: what, and the token.
pub const MESSAGE: usize = 1 + Token::<ByEpoch>::LENGTH;

/// What came to the sinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Terms that were begun, restarts in place too.
    pub seals: u64,
    /// Writes.
    pub writes: u64,
    /// Of them, those that came after one of a later term. The sink that does not check took them.
    pub late: u64,
    /// Writes that the sink that checks refused.
    pub refused: u64,
    /// Late ones that the sink that checks took. None, or the fence is broken.
    pub late_taken: u64,
    /// Writes that would have been refused, though no later term was ever heard of. None, or the sink is broken.
    pub wrongly_refused: u64,
}

#[derive(Debug)]
struct Sinks {
    cell: FencedCell<ByEpoch>,
    counts: Counts,
    /// The greatest token of a write.
    written: u64,
    /// The greatest token of a write or a beginning.
    newest: u64,
    nonce: u64,
}

/// The sinks. Gone when dropped.
#[derive(Debug)]
pub struct SinkServer {
    runtime: Runtime,
    path: PathBuf,
    sinks: Arc<Mutex<Sinks>>,
    /// The process that has written last, and was not refused.
    writer: Arc<AtomicI32>,
}

impl SinkServer {
    /// Listens on a socket in this directory.
    pub fn start(directory: &Path) -> io::Result<Self> {
        let path = directory.join("sink");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            UnixListener::bind(&path)?
        };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let cell = FencedCell::new(Arc::new(MemoryStore::new()), b"sink".to_vec());
        let sinks = Sinks { cell, counts: Counts::default(), written: 0, newest: 0, nonce: 0 };
        let sinks = Arc::new(Mutex::new(sinks));
        let (shared, writer) = (sinks.clone(), Arc::new(AtomicI32::new(0)));
        let wrote = writer.clone();
        runtime.spawn(async move {
            while let Ok((node, _)) = listener.accept().await {
                tokio::spawn(serve(node, shared.clone(), wrote.clone()));
            }
        });
        Ok(Self { runtime, path, sinks, writer })
    }

    /// The process that has written last, and was not refused.
    pub fn writer(&self) -> Option<u32> {
        u32::try_from(self.writer.load(Ordering::Relaxed)).ok().filter(|pid| *pid != 0)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What came so far.
    pub fn counts(&self) -> Counts {
        self.runtime.block_on(async { self.sinks.lock().await.counts })
    }
}

async fn serve(mut node: UnixStream, sinks: Arc<Mutex<Sinks>>, writer: Arc<AtomicI32>) -> io::Result<()> {
    let pid = node.peer_cred()?.pid().unwrap_or(0);
    loop {
        let mut message = [0; MESSAGE];
        node.read_exact(&mut message).await?;
        let token = Token::from_bytes(&message[1..]).map_err(io::Error::other)?;
        let answer = sinks.lock().await.take(message[0], token).await;
        if answer == DONE {
            writer.store(pid, Ordering::Relaxed);
        }
        node.write_all(&[answer]).await?;
    }
}

impl Sinks {
    async fn take(&mut self, what: u8, token: Token<ByEpoch>) -> u8 {
        let number = token.number();
        if what == SEAL {
            self.counts.seals += 1;
            let sealed = self.cell.seal(token).await;
            self.newest = self.newest.max(number);
            return if sealed.is_ok() { DONE } else { FENCED };
        }
        self.nonce += 1;
        self.counts.writes += 1;
        self.counts.late += u64::from(number < self.written);
        let is_behind = number < self.newest;
        (self.written, self.newest) = (self.written.max(number), self.newest.max(number));
        match self.cell.write(token, number.to_be_bytes().to_vec(), Nonce(self.nonce)).await {
            Ok(()) => {
                self.counts.late_taken += u64::from(is_behind);
                DONE
            }
            Err(SinkError::Fenced { .. }) => {
                self.counts.refused += 1;
                self.counts.wrongly_refused += u64::from(!is_behind);
                FENCED
            }
            // A store in memory is always there.
            Err(_) => {
                self.counts.wrongly_refused += 1;
                FENCED
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use callsign_election::Fence;
    use callsign_store::ids::{Ballot, Epoch};

    use super::*;

    fn token(epoch: u64) -> Token<ByEpoch> {
        Fence { epoch: Epoch(epoch), ballot: Ballot(epoch) }.into()
    }

    #[tokio::test]
    async fn late_writes_are_counted_and_refused() {
        let cell = FencedCell::new(Arc::new(MemoryStore::new()), b"sink".to_vec());
        let mut sinks = Sinks { cell, counts: Counts::default(), written: 0, newest: 0, nonce: 0 };
        let mut answers = Vec::new();
        for (what, epoch) in
            [(SEAL, 1), (WRITE, 1), (SEAL, 2), (WRITE, 1), (WRITE, 2), (WRITE, 1), (WRITE, 2)]
        {
            answers.push(sinks.take(what, token(epoch)).await);
        }
        assert_eq!(answers, [DONE, DONE, DONE, FENCED, DONE, FENCED, DONE]);
        let expected = Counts { seals: 2, writes: 5, late: 1, refused: 2, late_taken: 0, wrongly_refused: 0 };
        assert_eq!(sinks.counts, expected);
    }
}
