//! How many typed calls a second an actor of another node answers, in the clear and encrypted, beside what raw TCP does with
//! as many bytes: `cargo run --release -p callsign-transport --example calls`.
//!
//! A hundred calls are in flight. Raw TCP has frames with their length, one task for each side, and buffers. All three are
//! measured in turns.
#![allow(clippy::disallowed_methods)] // it measures

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use callsign_transport::{
    Endpoint, EndpointConfig, MemoryNetwork, Network, P, RactorClusterMessage, Secret, remote_message,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, rpc::CallResult};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

const ROUNDS: usize = 5;
const CALLS: u32 = 100_000;
const IN_FLIGHT: u32 = 100;
/// So many calls tell how many bytes one has.
const COUNTED: u32 = 10_000;
/// What is sent, and answered.
const TEXT: &str = "thirty-two bytes there and back.";
/// All of it ends within this.
const AT_MOST: Duration = Duration::from_secs(300);

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[derive(RactorClusterMessage)]
enum Ask {
    #[rpc]
    Echo(P<String>, RpcReplyPort<P<String>>),
}
remote_message!(Ask, "callsign.example.ask/1");

struct Echo;

impl Actor for Echo {
    type Msg = Ask;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Ask>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Ask>,
        Ask::Echo(text, port): Ask,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        // A caller that waits no more gets no answer.
        let _ = port.send(text);
        Ok(())
    }
}

/// Two nodes, and the second one's reference to an actor of the first. Both end with it.
struct Nodes {
    _ends: [Endpoint; 2],
    remote: ActorRef<Ask>,
}

impl Nodes {
    async fn start(network: &Network, secret: Option<&Secret>) -> Result<Self, Failed> {
        let start = |node: &'static str, incarnation| {
            let (network, secrets) = (network.clone(), secret.cloned());
            async move {
                let mut config = EndpointConfig::new("bench", node, incarnation, "127.0.0.1:0".parse()?);
                config.keys.secrets = secrets.into_iter().collect();
                config.network = network;
                Ok::<_, Failed>(Endpoint::start(config).await?)
            }
        };
        let (a, b) = (start("a", 1).await?, start("b", 2).await?);
        b.set_peers(vec![("a".into(), a.local_addr().to_string())]);
        while a.link_to("b").is_none() || b.link_to("a").is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (actor, _) = Actor::spawn(None, Echo, ()).await?;
        let remote = b.resolve(&a.address_of(&actor))?;
        Ok(Self { _ends: [a, b], remote })
    }

    /// So many calls. Returns how many there were in a second.
    async fn call(&self, calls: u32) -> Result<f64, Failed> {
        let (start, begun, mut callers) = (Instant::now(), Arc::new(AtomicU32::new(0)), JoinSet::new());
        for _ in 0..IN_FLIGHT {
            let (remote, begun) = (self.remote.clone(), begun.clone());
            callers.spawn(async move {
                while begun.fetch_add(1, Ordering::Relaxed) < calls {
                    let answer = remote.call(|port| Ask::Echo(P(TEXT.to_owned()), port), None).await;
                    if !matches!(answer, Ok(CallResult::Success(P(text))) if text == TEXT) {
                        return Err(Failed::from("a call was not answered"));
                    }
                }
                Ok(())
            });
        }
        while let Some(called) = callers.join_next().await {
            called??;
        }
        Ok(f64::from(calls) / start.elapsed().as_secs_f64())
    }
}

/// One side of a TCP connection that carries frames of one size.
struct Raw {
    read: BufReader<OwnedReadHalf>,
    write: BufWriter<OwnedWriteHalf>,
    /// What each frame has behind its length.
    body: Vec<u8>,
}

impl Raw {
    fn new(socket: TcpStream, body: Vec<u8>) -> Result<Self, Failed> {
        socket.set_nodelay(true)?;
        let (read, write) = socket.into_split();
        let room = 64 << 10;
        let (read, write) = (BufReader::with_capacity(room, read), BufWriter::with_capacity(room, write));
        Ok(Self { read, write, body })
    }

    /// The next frame. What was written goes out if it is not here yet.
    async fn next(&mut self) -> Result<(), Failed> {
        if self.read.buffer().len() < size_of::<u32>() + self.body.len() {
            self.write.flush().await?;
        }
        take(&mut self.read, &mut self.body).await
    }

    async fn put(&mut self) -> Result<(), Failed> {
        put(&mut self.write, &self.body).await
    }

    /// Answers each frame by the same, until the other side is gone.
    async fn serve(mut self) -> Result<(), Failed> {
        loop {
            self.next().await?;
            self.put().await?;
        }
    }

    async fn call(&mut self, calls: u32) -> Result<f64, Failed> {
        let start = Instant::now();
        for _ in 0..IN_FLIGHT {
            self.put().await?;
        }
        for answered in 0..calls {
            self.next().await?;
            if answered + IN_FLIGHT < calls {
                self.put().await?;
            }
        }
        Ok(f64::from(calls) / start.elapsed().as_secs_f64())
    }
}

async fn take(from: &mut (impl AsyncRead + Unpin), body: &mut Vec<u8>) -> Result<(), Failed> {
    let length = from.read_u32().await?;
    body.resize(length as usize, 0);
    from.read_exact(body).await?;
    Ok(())
}

async fn put(to: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> Result<(), Failed> {
    to.write_u32(u32::try_from(body.len())?).await?;
    to.write_all(body).await?;
    Ok(())
}

/// How many bytes a call and its answer have together, in the clear.
async fn bytes_of_a_call() -> Result<u64, Failed> {
    let network = MemoryNetwork::new();
    let nodes = Nodes::start(&Network::Memory(network.clone()), None).await?;
    let before = network.traffic().bytes;
    nodes.call(COUNTED).await?;
    Ok((network.traffic().bytes - before) / u64::from(COUNTED))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

async fn measure() -> Result<(), Failed> {
    let bytes = bytes_of_a_call().await?;
    let body = vec![7; usize::try_from(bytes / 2)?.saturating_sub(size_of::<u32>())];
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let dialled = TcpStream::connect(listener.local_addr()?).await?;
    tokio::spawn(Raw::new(listener.accept().await?.0, body.clone())?.serve());
    let mut raw = Raw::new(dialled, body)?;
    let clear = Nodes::start(&Network::Tcp, None).await?;
    let encrypted = Nodes::start(&Network::Tcp, Some(&Secret::new("a secret for the measurement")?)).await?;

    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        rates[0].push(raw.call(CALLS).await?);
        rates[1].push(clear.call(CALLS).await?);
        rates[2].push(encrypted.call(CALLS).await?);
    }
    println!(
        "{IN_FLIGHT} calls in flight, {bytes} bytes there and back, medians of {ROUNDS} rounds in turns"
    );
    for (what, of) in ["raw TCP", "typed, in the clear", "typed, encrypted"].into_iter().zip(&rates) {
        let ratios = rates[0].iter().zip(of).map(|(raw, of)| raw / of).collect();
        println!(
            "{what}: {:.0} calls /s, raw TCP has {:.2} times as many",
            median(of.clone()),
            median(ratios)
        );
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    tokio::time::timeout(AT_MOST, measure()).await?
}
