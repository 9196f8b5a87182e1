//! A server that says what etcd says only on bad days.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use h2::{Reason, server::SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};

use super::super::wire::{
    AuthenticateResponse, Header, KeyValue, RangeResponse, Response as Found, ResponseOp, TxnRequest,
    TxnResponse, WatchRequest, WatchWish,
};

/// What comes of a request.
pub(crate) enum Say {
    /// Committed at this revision.
    Committed(i64),
    /// Another cluster has this revision, and did not commit.
    Foreign(i64),
    /// A status and its words.
    Status(u16, &'static str),
    /// The stream is reset; the connection stays.
    Reset(Reason),
    /// The connection ends.
    Gone,
    /// Nothing.
    Nothing,
}

/// What every store there holds in the row of its layout.
const IDENTITY: &[u8] = b"1 00";

/// A server, and what it heard. It answers what its scripts say, the first entry first, and all else as a cluster that is well.
pub(crate) struct Scripted {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    commits: Mutex<VecDeque<Say>>,
    reads: Mutex<VecDeque<Say>>,
    watches: Mutex<VecDeque<Say>>,
    /// So many connections more are closed at once.
    closes: AtomicUsize,
    tokens: AtomicUsize,
    /// Requests that did not say that they want a leader.
    content_with_none: AtomicUsize,

    /// Of each commit, the token that came with it, and what it asked for.
    heard: Mutex<Vec<(Option<String>, TxnRequest)>>,
    wishes: Mutex<Vec<WatchWish>>,
    looks: AtomicUsize,
    connections: AtomicUsize,
}

impl Scripted {
    /// With a script for commits.
    pub(crate) async fn start(commits: Vec<Say>) -> Self {
        Self::start_after(0, commits).await
    }

    /// The same, but the first connections are closed at once.
    pub(crate) async fn start_after(closes: usize, commits: Vec<Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            commits: Mutex::new(commits.into()),
            closes: closes.into(),
            ..State::default()
        });
        let all = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                all.connections.fetch_add(1, Ordering::SeqCst);
                let closes = all.closes.load(Ordering::SeqCst);
                all.closes.store(closes.saturating_sub(1), Ordering::SeqCst);
                if closes == 0 {
                    tokio::spawn(serve(all.clone(), stream));
                }
            }
        });
        Self { port, state }
    }

    pub(crate) fn url(&self, user: &str) -> String {
        format!("etcd://{user}127.0.0.1:{}/test", self.port)
    }

    /// What comes of the next reads.
    pub(crate) fn script_reads(&self, reads: Vec<Say>) {
        *self.state.reads.lock().unwrap() = reads.into();
    }

    /// What comes of the next streams of watches.
    pub(crate) fn script_watches(&self, watches: Vec<Say>) {
        *self.state.watches.lock().unwrap() = watches.into();
    }

    /// From now on each connection is closed at once.
    pub(crate) fn close_all(&self) {
        self.state.closes.store(usize::MAX, Ordering::SeqCst);
    }

    /// Of each commit, the token that came with it, and what it asked for.
    pub(crate) fn heard(&self) -> Vec<(Option<String>, TxnRequest)> {
        self.state.heard.lock().unwrap().clone()
    }

    pub(crate) fn sent(&self) -> usize {
        self.heard().len()
    }

    /// What was asked for on streams of watches.
    pub(crate) fn wishes(&self) -> Vec<WatchWish> {
        self.state.wishes.lock().unwrap().clone()
    }

    /// How often something was read.
    pub(crate) fn looks(&self) -> usize {
        self.state.looks.load(Ordering::SeqCst)
    }

    /// How many requests did not say that a member without a leader is to refuse them.
    pub(crate) fn content_with_none(&self) -> usize {
        self.state.content_with_none.load(Ordering::SeqCst)
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state.commits.lock().unwrap().is_empty()
    }
}

async fn serve(state: Arc<State>, stream: TcpStream) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut silent = Vec::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let path = request.uri().path().to_owned();
        if request.headers().get("hasleader").is_none_or(|wish| wish.as_bytes() != b"true") {
            state.content_with_none.fetch_add(1, Ordering::SeqCst);
        }
        let given = request.headers().get("token");
        let given = given.map(|token| token.to_str().unwrap().to_owned());
        if path.ends_with("/Watch") {
            tokio::spawn(note_wishes(state.clone(), request.into_body()));
            let say = state.watches.lock().unwrap().pop_front();
            match say {
                Some(Say::Status(code, words)) => status(respond, code, words),
                _ => silent.push(respond),
            }
            continue;
        }
        let body = body(request.into_body());
        // The connection has to be driven while the body comes.
        let body = tokio::select! {
            biased;
            body = body => body,
            _ = futures::future::poll_fn(|context| connection.poll_closed(context)) => return,
        };
        if path.ends_with("/Authenticate") {
            let token = format!("token-{}", state.tokens.fetch_add(1, Ordering::SeqCst));
            answer(respond, &AuthenticateResponse { token });
            continue;
        }
        let asked = TxnRequest::decode(&body[5..]).unwrap();
        let say = if asked.compare.is_empty() {
            state.looks.fetch_add(1, Ordering::SeqCst);
            let Some(say) = state.reads.lock().unwrap().pop_front() else {
                answer(respond, &look());
                continue;
            };
            say
        } else {
            state.heard.lock().unwrap().push((given, asked));
            state.commits.lock().unwrap().pop_front().unwrap_or(Say::Nothing)
        };
        match say {
            Say::Committed(revision) => {
                let header = Some(Header { cluster_id: 1, revision });
                answer(respond, &TxnResponse { header, succeeded: true, responses: vec![] });
            }
            Say::Foreign(revision) => {
                let header = Some(Header { cluster_id: 2, revision });
                answer(respond, &TxnResponse { header, succeeded: false, responses: identity(b"1 01") });
            }
            Say::Status(code, words) => status(respond, code, words),
            Say::Reset(reason) => {
                let mut respond = respond;
                respond.send_reset(reason);
            }
            Say::Gone => return,
            Say::Nothing => silent.push(respond),
        }
    }
}

/// Notes what is asked for on a stream of watches.
async fn note_wishes(state: Arc<State>, mut wishes: h2::RecvStream) {
    let mut bytes = Vec::new();
    while let Some(Ok(part)) = wishes.data().await {
        let _ = wishes.flow_control().release_capacity(part.len());
        bytes.extend_from_slice(&part);
        while let Some(length) = bytes.get(1..5) {
            let end = 5 + usize::try_from(u32::from_be_bytes(length.try_into().unwrap())).unwrap();
            if bytes.len() < end {
                break;
            }
            let wish = WatchRequest::decode(&bytes[5..end]).unwrap().wish.unwrap();
            bytes.drain(..end);
            state.wishes.lock().unwrap().push(wish);
        }
    }
}

/// A look at the row of the layout.
fn identity(value: &[u8]) -> Vec<ResponseOp> {
    let row = KeyValue { key: b"test.layout".to_vec(), mod_revision: 1, value: value.to_vec() };
    let found = Found::Range(RangeResponse { header: None, kvs: vec![row] });
    vec![ResponseOp { response: Some(found) }]
}

fn look() -> TxnResponse {
    let header = Some(Header { cluster_id: 1, revision: 5 });
    TxnResponse { header, succeeded: true, responses: identity(IDENTITY) }
}

async fn body(mut body: h2::RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(part)) = body.data().await {
        let _ = body.flow_control().release_capacity(part.len());
        bytes.extend_from_slice(&part);
    }
    bytes
}

fn head() -> Response<()> {
    Response::builder().header("content-type", "application/grpc").body(()).unwrap()
}

fn trailers(code: u16, words: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    trailers.insert("grpc-message", HeaderValue::from_static(words));
    trailers
}

fn answer(mut respond: SendResponse<bytes::Bytes>, message: &impl Message) {
    let body = message.encode_to_vec();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let framed = [&[0], length.as_slice(), &body].concat();
    // Nobody hears it any more where that fails.
    let Ok(mut stream) = respond.send_response(head(), false) else { return };
    let _ = stream.send_data(framed.into(), false);
    let _ = stream.send_trailers(trailers(0, ""));
}

fn status(mut respond: SendResponse<bytes::Bytes>, code: u16, words: &'static str) {
    let Ok(mut stream) = respond.send_response(head(), false) else { return };
    let _ = stream.send_trailers(trailers(code, words));
}
