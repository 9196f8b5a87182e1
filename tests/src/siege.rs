//! Strangers at the ports at which nodes link up.
//!
//! A port scan that says garbage, and many slow-loris sockets: they say a byte now and then, and come back when they are
//! closed. Every second one comes from 127.0.0.1, as the nodes themselves do, the others from 127.0.0.2 and on.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::watch,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

/// Between two bytes of a slow-loris socket.
const BYTE: Duration = Duration::from_millis(250);
/// Before a slow-loris socket that was closed comes back.
const BACK: Duration = Duration::from_secs(1);
/// How long a scan waits for an answer.
const SCAN: Duration = Duration::from_secs(1);

/// How many strangers there are.
#[derive(Clone, Copy, Debug)]
pub struct Strangers {
    /// Sockets that say a byte now and then.
    pub loris: u32,
    /// Connections a second that say garbage.
    pub scans_per_second: u32,
}

impl Default for Strangers {
    fn default() -> Self {
        Self { loris: 500, scans_per_second: 200 }
    }
}

/// What strangers have done so far.
#[derive(Debug, Default)]
pub struct Done {
    /// Connections that said garbage.
    pub scans: AtomicU64,
    /// Slow-loris sockets that were opened.
    pub opened: AtomicU64,
    /// Slow-loris sockets that were closed by a node.
    pub closed: AtomicU64,
}

/// Strangers at work, until this is dropped.
#[derive(Debug)]
pub struct Siege {
    /// What they have done.
    pub done: Arc<Done>,
    ends: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Siege {
    /// Besieges these ports, in turns.
    pub fn start(targets: &[SocketAddr], strangers: Strangers) -> Self {
        let (ends, mut ended) = watch::channel(false);
        let done = Arc::<Done>::default();
        let (counts, targets) = (done.clone(), targets.to_vec());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                for n in 0..strangers.loris {
                    tokio::spawn(loris(n, target(&targets, n), counts.clone()));
                }
                tokio::spawn(scan(targets, strangers.scans_per_second, counts));
                let _ = ended.wait_for(|ended| *ended).await; // or nobody is there any more
            });
        });
        Self { done, ends, thread: Some(thread) }
    }
}

impl Drop for Siege {
    fn drop(&mut self) {
        self.ends.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has nothing to say
        }
    }
}

fn target(targets: &[SocketAddr], n: u32) -> SocketAddr {
    targets[usize::try_from(n).unwrap_or(0) % targets.len()]
}

async fn connect(n: u32, to: SocketAddr) -> std::io::Result<TcpStream> {
    let last = if n.is_multiple_of(2) { 1 } else { 2 + u8::try_from(n / 2 % 200).unwrap_or(0) };
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
    socket.connect(to).await
}

async fn loris(n: u32, to: SocketAddr, done: Arc<Done>) {
    // Not all at once.
    sleep(Duration::from_millis(u64::from(n) * 2)).await;
    loop {
        if let Ok(mut stream) = connect(n, to).await {
            done.opened.fetch_add(1, Relaxed);
            // The beginning of a frame that has 200 bytes.
            let mut says = [0, 0, 0, 200].into_iter().chain(std::iter::repeat(b'C'));
            let mut read = [0];
            while stream.write_all(&[says.next().unwrap_or(0)]).await.is_ok() {
                if timeout(BYTE, stream.read(&mut read)).await.is_ok() {
                    break;
                }
            }
            done.closed.fetch_add(1, Relaxed);
        }
        sleep(BACK).await;
    }
}

async fn scan(targets: Vec<SocketAddr>, per_second: u32, done: Arc<Done>) {
    let noise: Vec<u8> = (0..20_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let says: Arc<[Vec<u8>]> = Arc::new([
        b"GET / HTTP/1.1\r\nhost: callsign\r\n\r\n".to_vec(),
        noise,
        // Of TLS.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        // A frame longer than anybody has memory for; an empty one; one of another version; none at all.
        vec![0xff, 0xff, 0xff, 0xff, 1, 2, 3],
        vec![0, 0, 0, 0],
        b"\0\0\0\x0aCALLSIGN\0\x63".to_vec(),
        vec![],
    ]);
    let mut ticks = interval(Duration::from_secs(1) / per_second.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for n in 0_u32.. {
        ticks.tick().await;
        let (to, says, done) = (target(&targets, n / 2), says.clone(), done.clone());
        tokio::spawn(async move {
            let Ok(mut stream) = connect(n, to).await else { return };
            let garbage = &says[usize::try_from(n).unwrap_or(0) % says.len()];
            let _ = stream.write_all(garbage).await; // the node may hang up before all is said
            let _ = timeout(SCAN, stream.read_to_end(&mut Vec::new())).await;
            done.scans.fetch_add(1, Relaxed);
        });
    }
}
