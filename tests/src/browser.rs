//! A real browser without a window, driven as people drive one: Debian's `chromium`, by `chromedriver` (the driver protocol of the W3C).

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::Agent;

use crate::{TEST_DEADLINE, eventually};

const DRIVER: &str = "/usr/bin/chromedriver";

/// How often a browser is started at most, until one is there.
const TRIES: usize = 3;

/// A browser with one page. It ends when this is dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    agent: Agent,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Whether there is one on this machine.
    pub fn is_installed() -> bool {
        Path::new(DRIVER).exists()
    }

    /// Starts one. What does not start is tried again, with another port and profile: of hundreds of starts on a busy
    /// machine, one may find its port taken.
    ///
    /// # Errors
    /// Why no try succeeded, as on a machine whose kernel gives it no namespaces or no memory.
    pub fn start() -> Result<Self, String> {
        let mut reasons = Vec::new();
        while reasons.len() < TRIES {
            match Self::try_start() {
                Ok(browser) => return Ok(browser),
                Err(reason) => reasons.push(reason),
            }
            println!("the browser did not start: {reasons:?}");
        }
        Err(reasons.join("; "))
    }

    fn try_start() -> Result<Self, String> {
        let mut driver = Command::new(DRIVER)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{DRIVER}: {error}"))?;
        let said = driver.stdout.take().ok_or("chromedriver has no output")?;
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        // A pipe that nobody reads fills, and holds up its writer.
        std::thread::spawn(move || lines.for_each(drop));
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .proxy(None)
            .build();
        let profile = tempfile::tempdir().map_err(|error| error.to_string())?;
        let directory = profile.path().display().to_string();
        let mut browser = Self { driver, agent: config.into(), session: String::new(), _profile: profile };
        let port = port.ok_or("chromedriver does not say its port")?;
        browser.session = format!("http://127.0.0.1:{port}/session");
        let arguments = [
            "--headless".to_owned(),
            // Chromium does not run as root with its sandbox. It shows pages of our own nodes only.
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            format!("--user-data-dir={directory}"),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let begun = browser.try_post("", &wanted)?;
        let id = begun["sessionId"].as_str().ok_or_else(|| begun["message"].to_string())?.to_owned();
        browser.session = format!("{}/{id}", browser.session);
        Ok(browser)
    }

    fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        let answer = self.agent.post(format!("{}{path}", self.session)).send_json(body);
        let mut answer = answer.map_err(|error| error.to_string())?;
        let body = answer.body_mut().with_config().limit(1 << 26).read_json::<Value>();
        Ok(body.map_err(|error| error.to_string())?["value"].take())
    }

    /// What the driver answers, or the error that it answers.
    fn answer(&self, path: &str, body: &Value) -> Result<Value, String> {
        let value = self.try_post(path, body)?;
        if value["error"].is_null() { Ok(value) } else { Err(value.to_string()) }
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.answer(path, body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Opens a page, and waits until it is loaded.
    pub fn open(&self, url: &str) {
        eventually(&format!("the browser opens {url}"), TEST_DEADLINE, || {
            self.answer("/url", &json!({"url": url}))
        });
    }

    /// What a function's body returns, run in the page.
    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The text of an element, as it is shown.
    pub fn text(&self, id: &str) -> String {
        let text = self.run(&format!("return document.getElementById({id:?}).innerText"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Types text where the keyboard is, key by key. `\u{e007}` is Enter, `\u{e004}` is Tab.
    pub fn keys(&self, text: &str) {
        let keys = text.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|action| json!({"type": action, "value": key.to_string()}))
        });
        let keys: Vec<_> = keys.collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": keys}]}));
    }

    /// Makes the window this wide and high, in pixels.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height});
        eventually("the window has its size", TEST_DEADLINE, || self.answer("/window/rect", &size));
    }

    /// From now on its user likes dark colours.
    pub fn prefer_dark(&self) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
        self.post("/goog/cdp/execute", &json!({"cmd": "Emulation.setEmulatedMedia", "params": features}));
    }

    /// A picture of what is shown, as PNG.
    pub fn picture(&self) -> Vec<u8> {
        let answer = self.agent.get(format!("{}/screenshot", self.session)).call();
        let mut answer = answer.expect("a picture");
        let body: Value = answer.body_mut().with_config().limit(1 << 26).read_json().expect("JSON");
        BASE64_STANDARD.decode(body["value"].as_str().expect("a text")).expect("base64")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser with the session.
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
