//! Stands between the clients of this process and a server, and cuts their connection in the middle of a commit.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
};

/// What becomes of the commit that holds the bytes that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The connection breaks before the server has it.
    Before,
    /// The server has it, and the connection breaks before its next answer.
    Behind,
}

#[derive(Default)]
struct State {
    next: Option<(Cut, Vec<u8>)>,
    looked_for: Vec<u8>,
    seen: usize,
}

#[derive(Clone)]
pub(crate) struct Proxy {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Proxy {
    /// Its threads end with the connections, the first one with the process.
    pub(crate) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { state: Arc::default(), port: listener.local_addr().unwrap().port() };
        let state = proxy.state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, state) = (client.unwrap(), state.clone());
                // Fails when either end is gone, or the server is not there.
                std::thread::spawn(move || relay(client, server, &state).is_ok());
            }
        });
        proxy
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts the connection on which a client next sends these bytes.
    pub(crate) fn cut_at(&self, cut: Cut, bytes: &[u8]) {
        self.lock().next = Some((cut, bytes.to_vec()));
    }

    /// Counts from now on how often clients send something with these bytes in it.
    pub(crate) fn look_for(&self, bytes: &[u8]) {
        let mut state = self.lock();
        (state.looked_for, state.seen) = (bytes.to_vec(), 0);
    }

    pub(crate) fn seen(&self) -> usize {
        self.lock().seen
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn relay(mut client: TcpStream, server: u16, state: &Mutex<State>) -> io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut answers, mut back) = (server.try_clone()?, client.try_clone()?);
    let cut = Arc::new(Mutex::new(None));
    let is_cut = cut.clone();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length @ 1..) = answers.read(&mut bytes) {
            if is_cut.lock().unwrap().is_some() || back.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = (back.shutdown(Shutdown::Both), answers.shutdown(Shutdown::Both));
    });
    let mut bytes = vec![0; 1 << 16];
    loop {
        let length = client.read(&mut bytes)?;
        let sent = &bytes[..length];
        if length == 0 {
            return server.shutdown(Shutdown::Both);
        }
        let mut state = state.lock().unwrap();
        if holds(sent, &state.looked_for) {
            state.seen += 1;
        }
        if let Some((how, _)) = state.next.take_if(|(_, bytes)| holds(sent, bytes)) {
            *cut.lock().unwrap() = Some(how);
            if how == Cut::Before {
                server.shutdown(Shutdown::Both)?;
                return client.shutdown(Shutdown::Both);
            }
        }
        drop(state);
        server.write_all(sent)?;
    }
}

fn holds(sent: &[u8], bytes: &[u8]) -> bool {
    !bytes.is_empty() && sent.windows(bytes.len()).any(|part| part == bytes)
}
