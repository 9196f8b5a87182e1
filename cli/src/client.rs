//! Asks a running node over HTTP.

use std::{
    io::{BufRead, BufReader},
    time::Duration,
};

use anyhow::{Context, Result};
use callsign::admin::AdminToken;
use serde::Deserialize;
use serde_json::Value;
use ureq::{Agent, RequestBuilder};

use crate::{node_url::NodeUrl, reply::Verdict};

/// Beyond what a node itself waits before it answers.
const BEYOND_THE_NODE: Duration = Duration::from_secs(5);

/// The largest answer that is read: a list of a million names and more.
const LARGEST: u64 = 1 << 30;

/// A node that can be asked.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    url: String,
    /// What to send as `Authorization`.
    authorization: Option<String>,
}

/// What a node answered.
pub(crate) struct Answer {
    status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        self.status == 200
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
            Some(message) => anyhow::anyhow!("{message}"),
            None => anyhow::anyhow!("what answers there is no node (HTTP status {})", self.status),
        })
    }
}

/// What a user may try who has asked where nobody listens.
const ELSEWHERE: &str =
    "start one with `callsign node`, name another URL with --node, or find one with --store";

impl Client {
    /// `wait`: how long the node itself may take for an answer.
    pub(crate) fn new(url: &NodeUrl, wait: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(wait + BEYOND_THE_NODE))
            .proxy(None) // a node is on this machine
            .build();
        Self { agent: config.into(), url: url.to_string(), authorization: None }
    }

    /// Presents a token with every question.
    pub(crate) fn with_token(mut self, token: Option<&AdminToken>) -> Self {
        self.authorization = token.map(AdminToken::authorization);
        self
    }

    pub(crate) fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer> {
        let request = self.agent.get(format!("{}{path}", self.url)).query_pairs(query.iter().copied());
        self.read(self.authorized(request).call())
    }

    /// A stream of events that comes for as long as the node lives; or what it answered in its place.
    pub(crate) fn events(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Result<impl BufRead + use<>, Answer>> {
        let request = self.agent.get(format!("{}{path}", self.url)).query_pairs(query.iter().copied());
        let request = self.authorized(request).config().timeout_global(None).build();
        let response = request.call();
        if response.as_ref().is_ok_and(|response| response.status().as_u16() == 200) {
            return Ok(Ok(BufReader::new(response?.into_body().into_reader())));
        }
        self.read(response).map(Err)
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
        self.read(self.authorized(request).send_json(body))
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(authorization) => request.header("Authorization", authorization),
            None => request,
        }
    }

    fn read(&self, response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer> {
        let no_answer = || format!("no answer from {}", self.url);
        let mut response = match response {
            Err(ureq::Error::Io(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return Err(error).with_context(|| format!("no node answers at {} ({ELSEWHERE})", self.url));
            }
            other => other.with_context(no_answer)?,
        };
        let status = response.status().as_u16();
        let body =
            response.body_mut().with_config().limit(LARGEST).read_to_string().with_context(no_answer)?;
        // Whatever else answers at this port may answer anything.
        let body = serde_json::from_str(&body).unwrap_or(Value::Null);
        Ok(Answer { status, body })
    }
}

#[cfg(test)]
mod tests {
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
    fn people_read_the_sentence_of_a_refusal_and_no_code() {
        let said = |status, body| Answer { status, body }.ok().unwrap_err().to_string();
        let refused = json!({"error": "not_found", "verdict": "no", "message": "nobody holds \"desk\""});
        assert_eq!(said(404, refused), "nobody holds \"desk\"");
        assert_eq!(said(404, Value::Null), "what answers there is no node (HTTP status 404)");
    }

    #[test]
    fn the_exit_status_follows_the_verdict() {
        let status = |status, body| Answer { status, body }.exit_status();
        assert_eq!(status(200, json!({})), 0);
        assert_eq!(status(409, json!({"error": "taken", "verdict": "no"})), 1);
        assert_eq!(status(400, json!({"error": "bad_name", "verdict": "usage"})), 2);
        assert_eq!(status(504, json!({"error": "unknown", "verdict": "unknown"})), 3);
        assert_eq!(status(404, Value::Null), 3);
    }
}
