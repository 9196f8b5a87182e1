//! Stands between a store and a member, and makes the connection break where it hurts: when a commit was sent.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, mpsc},
};

use crate::testing::TEST_DEADLINE;

/// What becomes of the commit that holds the bytes that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The member gets it and answers; the connection breaks before the answer.
    AfterCommit,
    /// The connection breaks before the member has it.
    Lost,
    /// The connection breaks; the member gets it later.
    Late,
    /// The member gets it and answers; the connection stays, and is silent.
    Unanswered,
}

#[derive(Default)]
struct State {
    next: Option<(Cut, Vec<u8>)>,
    late: Vec<Late>,
    /// Connections that are left silent.
    silent: Vec<(TcpStream, TcpStream)>,
    looked_for: Vec<u8>,
    seen: usize,
    /// Connections that are open: both ends.
    open: Vec<(TcpStream, TcpStream)>,
}

/// A commit on its way.
struct Late {
    bytes: Vec<u8>,
    server: TcpStream,
    answered: mpsc::Receiver<()>,
}

#[derive(Clone)]
pub(crate) struct Proxy {
    state: Arc<Mutex<State>>,
    port: u16,
}

impl Proxy {
    /// Its threads end with the connections, the first one with the process.
    pub(crate) fn start(server: String) -> Self {
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

    /// The URL of a store behind it.
    pub(crate) fn url(&self, prefix: &str) -> String {
        format!("etcd://127.0.0.1:{}/{prefix}", self.port)
    }

    /// Cuts the connection on which a client next sends these bytes.
    pub(crate) fn cut_at(&self, cut: Cut, bytes: &[u8]) {
        lock(&self.state).next = Some((cut, bytes.to_vec()));
    }

    /// Counts from now on how often clients send something with these bytes in it.
    pub(crate) fn count(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        (state.looked_for, state.seen) = (bytes.to_vec(), 0);
    }

    pub(crate) fn seen(&self) -> usize {
        lock(&self.state).seen
    }

    /// Breaks the connections that there are.
    pub(crate) fn break_all(&self) {
        for (client, server) in std::mem::take(&mut lock(&self.state).open) {
            let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        }
    }

    /// Lets the late commits reach the member, and waits until they are answered.
    pub(crate) fn land(&self) {
        let late = std::mem::take(&mut lock(&self.state).late);
        for mut late in late {
            while late.answered.try_recv().is_ok() {}
            late.server.write_all(&late.bytes).unwrap();
            late.answered.recv_timeout(TEST_DEADLINE).expect("a late commit is answered");
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && bytes.windows(part.len()).any(|window| window == part)
}

fn relay(mut client: TcpStream, server: &str, state: &Mutex<State>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    lock(state).open.push((client.try_clone()?, server.try_clone()?));
    let (answers, answered) = mpsc::channel();
    let is_mute = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (from, to, mute) = (server.try_clone()?, client.try_clone()?, is_mute.clone());
    std::thread::spawn(move || pass_back(from, to, &mute, &answers).is_ok());
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = match client.read(&mut buffer) {
            Ok(0) | Err(_) => {
                let _ = server.shutdown(Shutdown::Both);
                return Ok(());
            }
            Ok(length) => length,
        };
        let bytes = &buffer[..length];
        let cut = {
            let mut state = lock(state);
            if contains(bytes, &state.looked_for) {
                state.seen += 1;
            }
            state.next.take_if(|(_, looked_for)| contains(bytes, looked_for)).map(|(cut, _)| cut)
        };
        let Some(cut) = cut else {
            server.write_all(bytes)?;
            continue;
        };
        // From here on the client hears nothing any more.
        is_mute.store(true, std::sync::atomic::Ordering::SeqCst);
        while answered.try_recv().is_ok() {}
        match cut {
            Cut::AfterCommit | Cut::Unanswered => {
                server.write_all(bytes)?;
                // Whatever is said next may be about flow control; the one behind it is the answer, or its end.
                settled(&answered);
                if cut == Cut::Unanswered {
                    lock(state).silent.push((client, server));
                    return Ok(());
                }
            }
            Cut::Lost => {}
            Cut::Late => {
                let bytes = bytes.to_vec();
                lock(state).late.push(Late { bytes, server: server.try_clone()?, answered });
                client.shutdown(Shutdown::Both)?;
                return Ok(());
            }
        }
        client.shutdown(Shutdown::Both)?;
        server.shutdown(Shutdown::Both)?;
        return Ok(());
    }
}

/// Waits until the member has said the end of an answer.
fn settled(answered: &mpsc::Receiver<()>) {
    answered.recv_timeout(TEST_DEADLINE).expect("it is answered");
}

/// Passes answers on, until it is to be mute, and reports each that ends with trailers: frames of headers that end a stream.
fn pass_back(
    mut server: TcpStream,
    mut client: TcpStream,
    is_mute: &std::sync::atomic::AtomicBool,
    answers: &mpsc::Sender<()>,
) -> io::Result<()> {
    loop {
        let mut frame = vec![0; 9];
        if let Err(error) = server.read_exact(&mut frame) {
            let _ = client.shutdown(Shutdown::Both);
            return Err(error);
        }
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
        frame.resize(9 + length, 0);
        server.read_exact(&mut frame[9..])?;
        if !is_mute.load(std::sync::atomic::Ordering::SeqCst) {
            // The client may be gone by now. The member goes on with what it was sent, and that is answered here.
            let _ = client.write_all(&frame);
        }
        // A frame of headers (1) with the flag "end of the stream" (1).
        if frame[3] == 1 && frame[4] & 1 == 1 {
            let _ = answers.send(());
        }
    }
}
