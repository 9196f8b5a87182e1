//! A server, members of an election on it, and a network that loses answers.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use callsign_store::{ids::Nonce, testing::postgres::Server};
use tokio_postgres::{Client, NoTls};

use super::super::*;
pub(super) use callsign_store::testing::TEST_DEADLINE;

/// One who takes part.
pub(super) struct Member(pub(super) PostgresLease);

pub(super) fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

pub(super) fn at_random() -> Attempt {
    Attempt { nonce: Nonce(rand::random()) }
}

impl Member {
    pub(super) async fn at(url: &str, name: &str, options: PostgresLeaseOptions) -> Self {
        Self::of("seat", url, name, options).await
    }

    pub(super) async fn of(seat: &str, url: &str, name: &str, options: PostgresLeaseOptions) -> Self {
        let mut lease = PostgresLease::new(url, options).unwrap();
        let context = Context {
            election: election(seat),
            member: MemberId::new(name).unwrap(),
            incarnation: Incarnation(rand::random()),
        };
        assert_eq!(lease.init(&context).await, Ok(Init::Ready));
        Self(lease)
    }

    pub(super) async fn on(server: &Server, name: &str) -> Self {
        Self::at(&server.url("postgres"), name, PostgresLeaseOptions::default()).await
    }

    pub(super) async fn claim(&mut self) -> Verdict<Fence> {
        self.0.claim(at_random()).await.unwrap()
    }

    pub(super) async fn win(&mut self) -> Grant<Fence> {
        granted(self.claim().await)
    }

    pub(super) async fn lose(&mut self) -> Denial {
        denied(self.claim().await)
    }

    pub(super) async fn refresh(&mut self, held: &Grant<Fence>) -> Verdict<Fence> {
        self.0.refresh(at_random(), held).await.unwrap()
    }

    pub(super) async fn resign(&mut self, held: &Grant<Fence>) -> bool {
        self.0.abdicate(held).await.unwrap()
    }
}

pub(super) fn granted(verdict: Verdict<Fence>) -> Grant<Fence> {
    match verdict {
        Verdict::Granted(grant) => grant,
        Verdict::Denied(denial) => panic!("{denial:?}"),
    }
}

pub(super) fn denied(verdict: Verdict<Fence>) -> Denial {
    match verdict {
        Verdict::Denied(denial) => denial,
        Verdict::Granted(grant) => panic!("{grant:?}"),
    }
}

/// Somebody else at the database.
pub(super) async fn sql(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Ends every lease, by the clock that counts.
pub(super) async fn expire(server: &Server) {
    let past = "UPDATE callsign.lease_v1 SET expires_at = clock_timestamp() - interval '1 ms'";
    sql(server).await.batch_execute(past).await.unwrap();
}

/// All rows as text: equal means byte-identical.
pub(super) async fn rows(server: &Server) -> String {
    let all = "SELECT coalesce(string_agg(l::text, ';' ORDER BY election), '') FROM callsign.lease_v1 AS l";
    sql(server).await.query_one(all, &[]).await.unwrap().get(0)
}

/// Asks again until it is answered.
pub(super) async fn until_known<T>(mut ask: impl AsyncFnMut() -> Result<T, Fault>) -> T {
    let known = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(Fault::Transient { .. }) => {}
                Err(fatal) => panic!("{fatal}"),
            }
        }
    };
    tokio::time::timeout(TEST_DEADLINE, known).await.unwrap()
}

/// Passes on what members say; what the server says as long as it is to be heard.
#[derive(Clone, Default)]
pub(super) struct Network {
    mute: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Network {
    /// Its threads end with the connections, the first one with the process. Says where it is.
    pub(super) fn start(server: PathBuf) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let network = Self::default();
        let it = network.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), UnixStream::connect(&server).unwrap());
                it.open.lock().unwrap().push(client.try_clone().unwrap());
                let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let heard = Arc::new(AtomicBool::new(false));
                std::thread::spawn(move || relay(up, server, &heard));
                let mute = it.mute.clone();
                std::thread::spawn(move || relay(down, client, &mute));
            }
        });
        (network, format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable"))
    }

    /// Loses every answer from now on.
    pub(super) fn mute(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }

    /// Answers arrive again. Those that were lost stay lost, and no connection breaks.
    pub(super) fn unmute(&self) {
        self.mute.store(false, Ordering::SeqCst);
    }

    /// Breaks all connections; later ones work.
    pub(super) fn cut(&self) {
        for client in self.open.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
        self.unmute();
    }
}

fn relay(mut from: impl Read, mut to: impl Write, mute: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if !mute.load(Ordering::SeqCst) && to.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}
