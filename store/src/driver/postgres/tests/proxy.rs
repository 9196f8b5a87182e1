//! Stands between a store and its server, and makes the connection break where it hurts: at the COMMIT.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use super::said::refusal;
use crate::testing::TEST_DEADLINE;

/// What becomes of the next transaction that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It reaches the server and is committed; the connection breaks before the answer.
    AfterCommit,
    /// The connection breaks before anything of it has reached the server.
    Lost,
    /// The connection breaks; the server gets all of it later.
    Late,
    /// The server gets all of it but the COMMIT; the connection stays, and is silent.
    Stops,
    /// The server refuses what stands for the BEGIN, as it does when a cancellation meets it, and gets all the rest.
    BeginRefused,
    /// It reaches the server and is committed; the connection stays, and is silent.
    Unanswered,
    /// The server gets all of it but the COMMIT, and then sees the connection end, as the client does.
    BeforeCommit,
}

#[derive(Default)]
struct State {
    next: Option<Cut>,
    late: Vec<Late>,
    /// Connections that are left silent.
    silent: Vec<(TcpStream, UnixStream)>,
    /// How many connections there were.
    opened: u64,
    /// So many of them, the first ones, refuse whatever they are asked.
    spoiled: u64,
    /// So many connections, the next ones, are told that the server is starting up.
    starting: u64,
}

/// A transaction on its way.
struct Late {
    bytes: Vec<u8>,
    server: UnixStream,
    committed: mpsc::Receiver<()>,
}

#[derive(Clone)]
pub(crate) struct Proxy {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Proxy {
    /// Its threads end with the connections, the first one with the process.
    pub(crate) fn start(server: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { state: Arc::default(), port: listener.local_addr().unwrap().port() };
        let state = proxy.state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server, state) = (client.unwrap(), server.clone(), state.clone());
                // Fails when either end is gone: that is what it is for.
                std::thread::spawn(move || relay(client, &server, &state).is_ok());
            }
        });
        proxy
    }

    /// The URL of a database behind it.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    pub(crate) fn cut_next(&self, cut: Cut) {
        lock(&self.state).next = Some(cut);
    }

    /// From now on, whatever comes over the connections that there are is refused, and none of them ends: as where something in
    /// between has lost its server. Those that come later are well.
    pub(crate) fn spoil(&self) {
        let mut state = lock(&self.state);
        state.spoiled = state.opened;
    }

    /// The next connections are told that the server is starting up.
    pub(crate) fn start_up_for(&self, connections: u64) {
        lock(&self.state).starting = connections;
    }

    /// Waits until the clients have closed the connections that were left silent.
    pub(crate) fn silent_are_closed(&self) {
        for (mut client, _server) in std::mem::take(&mut lock(&self.state).silent) {
            client.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
            io::copy(&mut client, &mut io::sink()).expect("it is closed");
        }
    }

    /// Lets the late transactions reach the server, and waits until they are done.
    pub(crate) fn land(&self) {
        let late = std::mem::take(&mut lock(&self.state).late);
        for mut late in late {
            late.server.write_all(&late.bytes).unwrap();
            late.committed.recv_timeout(TEST_DEADLINE).expect("a late transaction is done");
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

fn relay(mut client: TcpStream, server: &Path, state: &Mutex<State>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = UnixStream::connect(server)?;
    let number = {
        let mut state = lock(state);
        state.opened += 1;
        if let Some(left) = state.starting.checked_sub(1) {
            state.starting = left;
            drop(state);
            message(&mut client, 0)?;
            return client.write_all(&refusal("57P03"));
        }
        state.opened
    };
    let (commits, mut committed) = mpsc::channel();
    let (from, to) = (server.try_clone()?, client.try_clone()?);
    let is_mute = Arc::new(AtomicBool::new(false));
    let mute = is_mute.clone();
    std::thread::spawn(move || answers(from, to, &is_mute, &commits).is_ok());

    // The first message has no type.
    server.write_all(&message(&mut client, 0)?)?;
    let mut cut = None;
    let mut held = Vec::new();
    loop {
        let message = match message(&mut client, 1) {
            Ok(message) => message,
            Err(error) => {
                let _ = server.shutdown(Shutdown::Both);
                return Err(error);
            }
        };
        if number <= lock(state).spoiled {
            // A query, or the end of a statement: each is answered once.
            if matches!(message[0], b'Q' | b'S') {
                client.write_all(&refusal("57P01"))?;
            }
            continue;
        }
        if says(&message, b"BEGIN ISOLATION LEVEL SERIALIZABLE") {
            cut = lock(state).next.take();
        }
        if cut == Some(Cut::BeginRefused) {
            cut = None;
            server.write_all(&query("SELECT pg_no_such_function()"))?;
            continue;
        }
        let Some(how) = cut else {
            // Commits that go through are not waited for.
            while committed.try_recv().is_ok() {}
            server.write_all(&message)?;
            continue;
        };
        let is_last = says(&message, b"COMMIT");
        if !(is_last && matches!(how, Cut::Stops | Cut::BeforeCommit)) {
            held.extend_from_slice(&message);
        }
        if !is_last {
            continue;
        }
        // From here on the client hears nothing any more.
        mute.store(true, Ordering::SeqCst);
        match how {
            Cut::AfterCommit => {
                server.write_all(&held)?;
                committed.recv_timeout(TEST_DEADLINE).expect("it is committed");
            }
            Cut::Unanswered => {
                server.write_all(&held)?;
                committed.recv_timeout(TEST_DEADLINE).expect("it is committed");
                lock(state).silent.push((client, server));
                return Ok(());
            }
            Cut::Lost => {}
            Cut::Late => {
                let nothing = mpsc::channel().1;
                let committed = std::mem::replace(&mut committed, nothing);
                let bytes = std::mem::take(&mut held);
                lock(state).late.push(Late { bytes, server: server.try_clone()?, committed });
                client.shutdown(Shutdown::Both)?;
                return Ok(());
            }
            Cut::Stops => {
                server.write_all(&held)?;
                lock(state).silent.push((client, server));
                return Ok(());
            }
            Cut::BeforeCommit => server.write_all(&held)?,
            Cut::BeginRefused => unreachable!("the connection goes on"),
        }
        client.shutdown(Shutdown::Both)?;
        server.shutdown(Shutdown::Both)?;
        return Ok(());
    }
}

/// Passes answers on, until it is to be mute, and reports each COMMIT that is done.
fn answers(
    mut server: UnixStream,
    mut client: TcpStream,
    is_mute: &AtomicBool,
    commits: &mpsc::Sender<()>,
) -> io::Result<()> {
    loop {
        let message = match message(&mut server, 1) {
            Ok(message) => message,
            Err(error) => {
                let _ = client.shutdown(Shutdown::Both);
                return Err(error);
            }
        };
        if !is_mute.load(Ordering::SeqCst) {
            // The client may be gone by now. The server goes on with what it was sent, and that is answered here.
            let _ = client.write_all(&message);
        }
        if message[0] == b'C' && message[5..].starts_with(b"COMMIT") {
            let _ = commits.send(());
        }
    }
}

/// One message: a type if it has one, its length, its body.
fn message(from: &mut impl Read, type_length: usize) -> io::Result<Vec<u8>> {
    let mut message = vec![0; type_length + 4];
    from.read_exact(&mut message)?;
    let length = u32::from_be_bytes(message[type_length..].try_into().unwrap());
    let head = message.len();
    message.resize(type_length + length as usize, 0);
    from.read_exact(&mut message[head..])?;
    Ok(message)
}

/// A query, as a message.
fn query(sql: &str) -> Vec<u8> {
    let length = u32::try_from(sql.len() + 5).unwrap();
    [b"Q", length.to_be_bytes().as_slice(), sql.as_bytes(), b"\0"].concat()
}

/// Whether it is this query.
fn says(message: &[u8], query: &[u8]) -> bool {
    message[0] == b'Q' && message[5..].starts_with(query)
}
