//! Asks a node over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

/// How long to wait for any answer: longer than a node is stopped in any test, so that no request is given up whose
/// effect is still to come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);

/// A node that can be asked.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    url: String,
}

/// What became of a question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Yes, and what.
    Ok(Value),
    /// Anything else that the node said: `error`, `verdict`, `message` and facts.
    Refused(Value),
    /// Nobody answered: whatever was asked for may have been done, or be done later.
    None(String),
}

impl Answer {
    /// The body of a yes. Panics with what was said instead.
    #[track_caller]
    pub fn ok(self) -> Value {
        match self {
            Self::Ok(body) => body,
            other => panic!("not ok: {other:?}"),
        }
    }

    /// As [`ok`](Self::ok), with the answer as an error.
    pub fn result(self) -> Result<Value, String> {
        match self {
            Self::Ok(body) => Ok(body),
            other => Err(format!("{other:?}")),
        }
    }

    /// The stable code of a refusal; `ok` and `no_answer` for the others.
    pub fn code(&self) -> &str {
        match self {
            Self::Ok(_) => "ok",
            Self::Refused(body) => body["error"].as_str().unwrap_or("other"),
            Self::None(_) => "no_answer",
        }
    }
}

impl Client {
    /// Asks the node whose HTTP endpoint is at `url`.
    pub fn new(url: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(ANSWER_TIMEOUT))
            .proxy(None)
            .build();
        Self { agent: config.into(), url: url.to_owned() }
    }

    /// The HTTP endpoint, `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// `GET path?query`.
    pub fn get(&self, path: &str, query: &[(&str, &str)]) -> Answer {
        let request = self.agent.get(format!("{}{path}", self.url)).query_pairs(query.iter().copied());
        read(request.call())
    }

    /// `GET /metrics`, as text.
    pub fn metrics(&self) -> Result<String, String> {
        let answer = self.agent.get(format!("{}/metrics", self.url)).call();
        let mut answer = answer.map_err(|error| error.to_string())?;
        if answer.status() != 200 {
            return Err(format!("{}", answer.status()));
        }
        answer.body_mut().read_to_string().map_err(|error| error.to_string())
    }

    /// `POST path` with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        read(self.agent.post(format!("{}{path}", self.url)).send_json(body))
    }

    /// Registers an actor of its own under a name; it is told of a lapse, and lives on.
    pub fn register(&self, name: &str) -> Answer {
        self.post("/register", &json!({"name": name, "when_lapsed": "tell", "wait_ms": 5000}))
    }

    /// Gives a name up.
    pub fn unregister(&self, name: &str) -> Answer {
        self.post("/unregister", &json!({"name": name}))
    }

    /// Who holds a name, by the node's own replica.
    pub fn whereis(&self, name: &str) -> Answer {
        self.get("/whereis", &[("name", name)])
    }

    /// Who holds a name, linearizable.
    pub fn whereis_consistent(&self, name: &str) -> Answer {
        self.get("/whereis", &[("name", name), ("consistent", "true"), ("wait_ms", "5000")])
    }

    /// What the node knows of its registry.
    pub fn status(&self) -> Answer {
        self.get("/status", &[])
    }
}

fn read(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let mut response = match response {
        Ok(response) => response,
        Err(error) => return Answer::None(error.to_string()),
    };
    let is_ok = response.status() == 200;
    match response.body_mut().with_config().limit(1 << 28).read_json() {
        Ok(body) if is_ok => Answer::Ok(body),
        Ok(body) => Answer::Refused(body),
        Err(error) => Answer::None(error.to_string()),
    }
}
