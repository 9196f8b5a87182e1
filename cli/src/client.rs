//! Asks a running node over HTTP.

use std::{
    io::{self, BufRead, BufReader, ErrorKind},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use callsign::admin::AdminToken;
use serde::Deserialize;
use serde_json::Value;
use ureq::{Agent, RequestBuilder};

use crate::{node_url::NodeUrl, reply::Verdict};

/// Beyond what a node itself waits before it answers.
const BEYOND_THE_NODE: Duration = Duration::from_secs(5);

/// A node says every 10 s that it lives. One that is silent for so long has stopped, or is cut off.
const SILENT: Duration = Duration::from_secs(30);
/// How long a thread may take to read what is there.
const LATE_READ: Duration = Duration::from_secs(1);
/// How many lines of a stream are read ahead.
const AHEAD: usize = 64;

/// The largest answer that is read: a list of a million names and more.
const LARGEST: u64 = 1 << 30;

/// A node that can be asked.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    url: String,
    /// How long it may take until the whole of an answer is there.
    patience: Duration,
    /// What to send as `Authorization`.
    authorization: Option<String>,
}

/// What a node answered.
pub(crate) struct Answer {
    status: u16,
    pub(crate) body: Value,
}

impl Answer {
    /// Whatever a node answers is an object. Something else that listens there may answer anything.
    pub(crate) fn is_ok(&self) -> bool {
        self.status == 200 && self.body.is_object()
    }

    /// The stable code of an answer that is not ok.
    pub(crate) fn code(&self) -> &str {
        self.body["error"].as_str().unwrap_or("other")
    }

    /// What a command that got this answer ends with.
    pub(crate) fn exit_status(&self) -> u8 {
        if self.is_ok() {
            return 0;
        }
        // Whoever answered without a verdict was no node.
        Verdict::deserialize(&self.body["verdict"]).unwrap_or(Verdict::Unknown).exit_status()
    }

    /// The body of an answer that is ok; the sentence in any other one, as an error. Its code is for programs.
    pub(crate) fn ok(self) -> Result<Value> {
        if self.is_ok() {
            return Ok(self.body);
        }
        Err(match self.body["message"].as_str() {
            Some(message) => anyhow!("{message}"),
            None => anyhow!("what answers there is no node (HTTP status {})", self.status),
        })
    }
}

/// What a user may try who has asked where nobody listens.
const ELSEWHERE: &str =
    "start one with `callsign node`, name another URL with --node, or find one with --store";

impl Client {
    /// `wait`: how long the node itself may take for an answer.
    pub(crate) fn new(url: &NodeUrl, wait: Duration) -> Self {
        Self::patient(url, wait + BEYOND_THE_NODE)
    }

    fn patient(url: &NodeUrl, patience: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(patience))
            .proxy(None) // a node is on this machine
            .build();
        Self { agent: config.into(), url: url.to_string(), patience, authorization: None }
    }

    /// Where the node answers.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Presents a token with every question.
    pub(crate) fn with_token(mut self, token: Option<&AdminToken>) -> Self {
        self.authorization = token.map(AdminToken::authorization);
        self
    }

    pub(crate) fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer> {
        let request = self.agent.get(format!("{}{path}", self.url)).query_pairs(query.iter().copied());
        self.read(self.authorized(request).call(), self.patience)
    }

    /// The lines of a stream of events, which comes for as long as the node lives; or what it answered in its place.
    pub(crate) fn events(&self, path: &str, query: &[(&str, &str)]) -> Result<Result<Lines, Answer>> {
        let request = self.agent.get(format!("{}{path}", self.url)).query_pairs(query.iter().copied());
        let request = self.authorized(request).config().timeout_global(None);
        let response =
            request.timeout_connect(Some(SILENT)).timeout_recv_response(Some(SILENT)).build().call();
        if response.as_ref().is_ok_and(|response| response.status().as_u16() == 200) {
            let stream = BufReader::new(response?.into_body().into_reader());
            return Ok(Ok(Lines::of(stream, SILENT)));
        }
        self.read(response, SILENT).map(Err)
    }

    /// The entries that a query selects, page by page, and at most so many of them: one answer, as if the node had given them in one.
    pub(crate) fn entries(&self, query: &[(&str, &str)], limit: Option<usize>) -> Result<Answer> {
        let (mut entries, mut after) = (Vec::new(), None::<String>);
        loop {
            let left = limit.map(|limit| (limit - entries.len()).to_string());
            let mut query = query.to_vec();
            if let Some(after) = &after {
                query.retain(|(field, _)| *field != "after");
                query.push(("after", after));
            }
            query.extend(left.as_deref().map(|left| ("limit", left)));
            let mut answer = self.get("/entries", &query)?;
            if !answer.is_ok() {
                return Ok(answer);
            }
            if let Value::Array(page) = answer.body["entries"].take() {
                entries.extend(page);
            }
            after = answer.body["next"].as_str().map(str::to_owned);
            let is_over = after.is_none() || limit.is_some_and(|limit| entries.len() >= limit);
            if is_over {
                answer.body["entries"] = entries.into();
                return Ok(answer);
            }
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let request = self.agent.post(format!("{}{path}", self.url));
        self.read(self.authorized(request).send_json(body), self.patience)
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(authorization) => request.header("Authorization", authorization),
            None => request,
        }
    }

    fn read(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
        patience: Duration,
    ) -> Result<Answer> {
        let no_answer = |error: ureq::Error| match error {
            ureq::Error::Timeout(_) => {
                anyhow!("no answer within {}s from {}", patience.as_secs_f64().round(), self.url)
            }
            other => anyhow::Error::new(other).context(format!("no answer from {}", self.url)),
        };
        let mut response = match response {
            Err(ureq::Error::Io(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return Err(error).with_context(|| format!("no node answers at {} ({ELSEWHERE})", self.url));
            }
            other => other.map_err(no_answer)?,
        };
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(LARGEST).read_to_string().map_err(no_answer)?;
        // Whatever else answers at this port may answer anything.
        let body = serde_json::from_str(&body).unwrap_or(Value::Null);
        Ok(Answer { status, body })
    }
}

/// The lines of a stream, read by a thread of its own. The last one is an error, if none comes for too long or the stream breaks off.
pub(crate) struct Lines {
    read: Receiver<io::Result<String>>,
    patience: Duration,
    has_failed: bool,
}

impl Lines {
    fn of(stream: impl BufRead + Send + 'static, patience: Duration) -> Self {
        let (said, read) = sync_channel(AHEAD);
        // It ends with the stream, or when nobody reads its lines any more.
        std::thread::spawn(move || {
            let _ = stream.lines().try_for_each(|line| said.send(line));
        });
        Self { read, patience, has_failed: false }
    }
}

impl Iterator for Lines {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let mut read = self.read.recv_timeout(self.patience);
        if matches!(read, Err(RecvTimeoutError::Timeout)) {
            // It may be this process that stood still: then what has come meanwhile is about to be read.
            read = self.read.recv_timeout(LATE_READ);
        }
        let line = match read {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let why = format!("the node has said nothing for {:?}", self.patience);
                Err(io::Error::new(ErrorKind::TimedOut, why))
            }
        };
        self.has_failed = line.is_err();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::json;

    use super::*;

    #[test]
    fn who_asks_where_nobody_listens_is_told_what_to_try() {
        // Bound and given back: nobody listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}").parse().unwrap();
        let error =
            Client::new(&url, Duration::from_secs(1)).get("/status", &[]).err().expect("nobody listens");
        let said = format!("{error:#}");
        assert!(said.starts_with(&format!("no node answers at http://127.0.0.1:{port}")), "{said}");
        assert!(said.contains("--store"), "{said}");
    }

    #[test]
    fn how_long_a_node_was_waited_for_is_said_in_seconds() {
        for begins in ["", "HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\n{"] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url: NodeUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
            let (asked, done) = std::sync::mpsc::channel::<()>();
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(begins.as_bytes()).unwrap();
                // It says no more for as long as somebody waits.
                let _ = done.recv();
            });
            let client = Client::patient(&url, Duration::from_millis(600));
            let error = client.get("/status", &[]).err().expect("no whole answer comes");
            assert_eq!(format!("{error:#}"), format!("no answer within 1s from {url}"), "{begins:?}");
            drop(asked);
        }
        let client = Client::new(&NodeUrl::default(), Duration::from_secs(2));
        assert_eq!(client.patience, Duration::from_secs(7));
    }

    #[test]
    fn a_stream_that_is_silent_for_too_long_ends_with_an_error() {
        let (mut node, stream) = std::os::unix::net::UnixStream::pair().unwrap();
        node.write_all(b"event: current\n\n").unwrap();
        let mut lines = Lines::of(BufReader::new(stream), Duration::from_millis(200));
        assert_eq!(lines.next().unwrap().unwrap(), "event: current");
        assert_eq!(lines.next().unwrap().unwrap(), "");
        // It lives, and says nothing any more.
        assert_eq!(lines.next().unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(lines.next().is_none());
        drop(node);
        let mut lines = Lines::of(&b"a\nb"[..], Duration::from_secs(60));
        assert_eq!(lines.by_ref().map(Result::unwrap).collect::<Vec<_>>(), ["a", "b"], "then it has ended");
    }

    #[test]
    fn people_read_the_sentence_of_a_refusal_and_no_code() {
        let said = |status, body| Answer { status, body }.ok().unwrap_err().to_string();
        let refused = json!({"error": "not_found", "verdict": "no", "message": "nobody holds \"desk\""});
        assert_eq!(said(404, refused), "nobody holds \"desk\"");
        assert_eq!(said(404, Value::Null), "what answers there is no node (HTTP status 404)");
        assert_eq!(said(200, Value::Null), "what answers there is no node (HTTP status 200)");
    }

    #[test]
    fn the_exit_status_follows_the_verdict() {
        let status = |status, body| Answer { status, body }.exit_status();
        assert_eq!(status(200, json!({})), 0);
        assert_eq!(status(409, json!({"error": "taken", "verdict": "no"})), 1);
        assert_eq!(status(400, json!({"error": "bad_name", "verdict": "usage"})), 2);
        assert_eq!(status(504, json!({"error": "unknown", "verdict": "unknown"})), 3);
        assert_eq!(status(404, Value::Null), 3);
        for body in [Value::Null, json!([]), json!("ready")] {
            assert_eq!(status(200, body), 3, "no node answers so");
        }
    }

    /// A node that gives these answers, one after the other, and then none. It tells the head of each question.
    fn node(answers: Vec<(u16, Value)>) -> (NodeUrl, Receiver<Vec<String>>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (asked, questions) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let head = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = head.take_while(|line| !line.is_empty()).collect();
                let _ = asked.send(head);
                let body = body.to_string();
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (url, questions)
    }

    fn page(names: &[&str], next: Option<&str>) -> (u16, Value) {
        (200, json!({"entries": names, "next": next}))
    }

    #[test]
    fn entries_come_page_by_page_each_from_the_end_of_the_last_one_and_not_more_than_are_wanted() {
        let client = |url: &NodeUrl| Client::new(url, Duration::from_secs(60));
        let first_lines = |questions: Receiver<Vec<String>>| -> Vec<String> {
            questions.into_iter().map(|head| head[0].clone()).collect()
        };
        let query = [("prefix", "p"), ("after", "0")];
        let (url, asked) =
            node(vec![page(&["a", "b"], Some("b")), page(&["c"], Some("c")), page(&["d"], None)]);
        let all = client(&url).entries(&query, None).unwrap().ok().unwrap();
        assert_eq!(all["entries"], json!(["a", "b", "c", "d"]));
        assert_eq!(
            first_lines(asked),
            [
                "GET /entries?prefix=p&after=0 HTTP/1.1",
                "GET /entries?prefix=p&after=b HTTP/1.1",
                "GET /entries?prefix=p&after=c HTTP/1.1",
            ]
        );
        let (url, asked) = node(vec![page(&["a", "b"], Some("b")), page(&["c"], Some("c"))]);
        let some = client(&url).entries(&query, Some(3)).unwrap().ok().unwrap();
        assert_eq!(some["entries"], json!(["a", "b", "c"]));
        assert_eq!(
            first_lines(asked),
            [
                "GET /entries?prefix=p&after=0&limit=3 HTTP/1.1",
                "GET /entries?prefix=p&after=b&limit=1 HTTP/1.1",
            ]
        );
        // A page that is refused is no end.
        let refused = json!({"error": "lapsed", "verdict": "unknown", "message": "not now"});
        let (url, _asked) = node(vec![page(&["a"], Some("a")), (503, refused)]);
        let answer = client(&url).entries(&query, None).unwrap();
        assert_eq!((answer.is_ok(), answer.code(), answer.exit_status()), (false, "lapsed", 3));
        let (url, _asked) = node(vec![(200, Value::Null)]);
        assert!(!client(&url).entries(&query, None).unwrap().is_ok(), "no node answers so");
    }

    #[test]
    fn a_token_is_shown_with_every_question_and_with_none_if_there_is_none() {
        let token = AdminToken::new(crate::fuzz::TOKEN).unwrap();
        for token in [Some(&token), None] {
            let (url, asked) = node(vec![(200, json!({})), (401, json!({"error": "unauthorized"}))]);
            let client = Client::new(&url, Duration::from_secs(60)).with_token(token);
            assert!(client.get("/status", &[]).unwrap().is_ok());
            let Err(answer) = client.events("/watch", &[]).unwrap() else { panic!("that is no stream") };
            assert_eq!(answer.code(), "unauthorized");
            let heads: Vec<_> = asked.into_iter().collect();
            assert_eq!(heads.len(), 2);
            for head in heads {
                let shown = head.iter().filter_map(|line| line.split_once(": "));
                let shown = shown.filter(|(field, _)| field.eq_ignore_ascii_case("authorization"));
                let shown: Vec<_> = shown.map(|(_, value)| value).collect();
                let expected = token.map(AdminToken::authorization);
                assert_eq!(shown, expected.as_deref().into_iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn an_answer_that_no_node_gives_has_the_code_of_all_others() {
        assert_eq!(Answer { status: 404, body: Value::Null }.code(), "other");
        assert_eq!(Answer { status: 404, body: json!({"error": "not_found"}) }.code(), "not_found");
    }

    #[test]
    fn what_came_while_this_process_stood_still_is_read_before_the_node_is_said_to_be_silent() {
        let mut lines = Lines::of(&b"late\n"[..], Duration::ZERO);
        assert_eq!(lines.next().unwrap().unwrap(), "late");
    }
}
