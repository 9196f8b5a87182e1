//! A server that says what etcd says only on bad days.

use std::sync::{Arc, Mutex};

use h2::{Reason, server::SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::net::TcpListener;

use super::super::wire::{
    AuthenticateResponse, Header, KeyValue, RangeResponse, Response as Found, ResponseOp, TxnRequest,
    TxnResponse,
};

/// What comes of a commit.
pub(crate) enum Say {
    /// Committed at this revision.
    Committed(i64),
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

type Script = Arc<Mutex<Vec<Say>>>;

/// A server, and what it heard.
pub(crate) struct Scripted {
    pub(crate) port: u16,
    /// Of each commit, the token that came with it.
    pub(crate) heard: Arc<Mutex<Vec<Option<String>>>>,
    script: Script,
}

impl Scripted {
    /// It answers commits as the script says, the first entry first, and all else as a cluster that is well.
    pub(crate) async fn start(script: Vec<Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script: Script = Arc::new(Mutex::new(script.into_iter().rev().collect()));
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let (said, log) = (script.clone(), heard.clone());
        tokio::spawn(async move {
            let mut tokens = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut connection) = h2::server::handshake(stream).await else { continue };
                let (script, log) = (said.clone(), log.clone());
                tokens += 100;
                tokio::spawn(async move {
                    let mut token = tokens;
                    let mut silent = Vec::new();
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        token += 1;
                        let path = request.uri().path().to_owned();
                        let given = request.headers().get("token");
                        let given = given.map(|token| token.to_str().unwrap().to_owned());
                        if path.ends_with("/Watch") {
                            silent.push((Some(request), respond));
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
                            let token = format!("token-{token}");
                            answer(respond, &AuthenticateResponse { token });
                            continue;
                        }
                        let asked = TxnRequest::decode(&body[5..]).unwrap();
                        if asked.compare.is_empty() {
                            answer(respond, &look());
                            continue;
                        }
                        log.lock().unwrap().push(given);
                        let say = script.lock().unwrap().pop().unwrap_or(Say::Nothing);
                        match say {
                            Say::Committed(revision) => {
                                let header = Some(Header { cluster_id: 1, revision });
                                answer(respond, &TxnResponse { header, succeeded: true, responses: vec![] });
                            }
                            Say::Status(code, words) => status(respond, code, words),
                            Say::Reset(reason) => {
                                let mut respond = respond;
                                respond.send_reset(reason);
                            }
                            Say::Gone => return,
                            Say::Nothing => silent.push((None, respond)),
                        }
                    }
                });
            }
        });
        Self { port, heard, script }
    }

    pub(crate) fn url(&self, user: &str) -> String {
        format!("etcd://{user}127.0.0.1:{}/test", self.port)
    }

    pub(crate) fn sent(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.script.lock().unwrap().is_empty()
    }
}

fn look() -> TxnResponse {
    let row = KeyValue { key: b"test.layout".to_vec(), mod_revision: 1, value: IDENTITY.to_vec() };
    let found = Found::Range(RangeResponse { header: None, kvs: vec![row] });
    let responses = vec![ResponseOp { response: Some(found) }];
    TxnResponse { header: Some(Header { cluster_id: 1, revision: 5 }), succeeded: true, responses }
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
