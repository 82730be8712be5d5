//! A client of one server behind the gateway, in either era, and what it is told.

use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, peer};
use lb_peers::raw::RawHttp;
use lb_peers::raw::handshake::Era;
use lb_peers::raw::http::{Headers, Session, modern_headers, modern_meta};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");

/// How long any one answer may take before a test is broken.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The evil server, for `command` in a config.
pub fn evil() -> String {
    peer(LANDBRIDGE, "evil")
}

/// What the era is called on `evil`'s command line.
pub fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// A config entry for `evil` as a child, with `mark` in its environment.
pub fn child(faults: &str, era: Era, mark: &str) -> Value {
    json!({ "command": evil(), "args": ["--fault", faults, "--era", era_name(era)], "env": { "EVIL_MARK": mark } })
}

/// The same entry with further members.
pub fn with(mut entry: Value, members: &Value) -> Value {
    for (key, value) in members.as_object().expect("an object") {
        entry[key.as_str()] = value.clone();
    }
    entry
}

/// A text that no other test uses.
pub fn mark(test: &str) -> String {
    format!("evil-mark-{test}-{}", std::process::id())
}

/// One client.
pub struct Client {
    http: RawHttp,
    path: String,
    /// The session of a legacy client.
    session: Option<Session>,
    next: u64,
}

/// What came back for one request.
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The response, exactly as it came.
    pub raw: Vec<u8>,
    /// Notifications that came before it, exactly as they came.
    pub notes: Vec<Vec<u8>>,
    /// Whether the notes and the answer came as events.
    pub streamed: bool,
    /// From the first byte sent to the last one read.
    pub took: Duration,
}

impl Client {
    /// A client of `server`; a legacy one with a session.
    pub async fn open(gateway: &Gateway, server: &str, era: Era) -> Self {
        Self::try_open(gateway, server, era).await.unwrap_or_else(|error| panic!("{server}: no session: {error}"))
    }

    /// The same, where the gateway may refuse.
    pub async fn try_open(gateway: &Gateway, server: &str, era: Era) -> std::io::Result<Self> {
        let mut http = RawHttp::connect(gateway.address).await?;
        http.patience = PATIENCE;
        let path = format!("/mcp/server/{server}");
        let session = match era {
            Era::Legacy => Some(http.initialize(&path, "2025-11-25").await?),
            Era::Modern => None,
        };
        Ok(Self { http, path, session, next: 1 })
    }

    /// A second connection of the same client.
    pub async fn twin(&self, gateway: &Gateway) -> Self {
        let mut http = RawHttp::connect(gateway.address).await.expect("the gateway listens");
        http.patience = PATIENCE;
        Self { http, path: self.path.clone(), session: self.session.clone(), next: self.next + 1_000_000 }
    }

    /// Leaves out an id that a twin uses.
    pub fn skip_id(&mut self) {
        self.next += 1;
    }

    /// Calls a tool.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        self.request("tools/call", Some(tool), &format!(r#","arguments":{arguments}"#), "").await
    }

    /// Calls a tool and asks for progress under the token `"storm"`.
    pub async fn call_with_progress(&mut self, tool: &str, arguments: Value) -> Answer {
        let meta = r#","progressToken":"storm""#;
        self.request("tools/call", Some(tool), &format!(r#","arguments":{arguments}"#), meta).await
    }

    /// Calls `calm` and checks that its answer is the very one, at once and alone.
    pub async fn calm(&mut self, message: &str) {
        let answer = self.call("calm", json!({ "message": message })).await;
        assert_eq!(answer.text().as_deref(), Some(message), "calm {message}: {answer:?}");
    }

    /// The names of the tools.
    pub async fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", None, "", "").await;
        let tools = answer.value()["result"]["tools"].as_array().cloned();
        let tools = tools.unwrap_or_else(|| panic!("no list: {answer:?}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Sends a call and reads nothing of what comes.
    pub async fn send_call(&mut self, tool: &str, arguments: Value, meta: &str) -> u64 {
        self.send("tools/call", Some(tool), &format!(r#","arguments":{arguments}"#), meta).await
    }

    /// Reads the answer to a call that was sent.
    pub async fn read_answer(&mut self, id: u64) -> Answer {
        self.read(id, Instant::now()).await
    }

    async fn request(&mut self, method: &str, name: Option<&str>, params: &str, meta: &str) -> Answer {
        let start = Instant::now();
        let id = self.send(method, name, params, meta).await;
        self.read(id, start).await
    }

    async fn send(&mut self, method: &str, name: Option<&str>, params: &str, meta: &str) -> u64 {
        let id = self.next;
        self.next += 1;
        let (headers, meta) = match &self.session {
            Some(session) => (session.headers(), format!("{{{}}}", meta.trim_start_matches(','))),
            None => (modern_headers(method, name), modern_meta(meta)),
        };
        let name = name.map(|name| format!(r#","name":"{name}""#)).unwrap_or_default();
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{meta}{name}{params}}}}}"#);
        let sent = self.http.send("POST", &self.path, &headers, body.as_bytes()).await;
        sent.unwrap_or_else(|error| panic!("{} {method}: {error}", self.path));
        id
    }

    async fn read(&mut self, id: u64, start: Instant) -> Answer {
        let what = self.path.clone();
        let head = self.http.head().await.unwrap_or_else(|error| panic!("{what} {id}: no response: {error}"));
        let (mut notes, mut raw) = (Vec::new(), Vec::new());
        if head.is_sse() {
            while let Some(event) = self.http.event().await.unwrap_or_else(|error| panic!("{what} {id}: {error}")) {
                let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
                let is_answer = !is_note(&data) && member(&data, "id").is_some_and(|found| found == id.to_string());
                assert!(raw.is_empty(), "{what}: more after the answer: {}", String::from_utf8_lossy(&data));
                if is_answer { raw = data } else { notes.push(data) }
            }
            assert!(!raw.is_empty(), "{what} {id}: the stream ended without an answer");
        } else {
            let (body, whole) = self.http.body().await.unwrap_or_else(|error| panic!("{what} {id}: {error}"));
            assert!(whole, "{what} {id}: the body was cut");
            let found = member(&body, "id");
            assert_eq!(found, Some(id.to_string()), "{what}: {}", String::from_utf8_lossy(&body));
            raw = body;
        }
        Answer { status: head.status(), raw, notes, streamed: head.is_sse(), took: start.elapsed() }
    }

    /// Opens the session's own stream and leaves it open as long as the returned connection lives.
    pub async fn listen(&self, gateway: &Gateway) -> RawHttp {
        let mut http = RawHttp::connect(gateway.address).await.expect("the gateway listens");
        http.patience = PATIENCE;
        http.send("GET", &self.path, &self.headers(), b"").await.expect("the stream is asked for");
        assert_eq!(http.head().await.expect("the stream begins").status(), 200);
        http
    }

    /// Ends the session.
    pub async fn end(mut self) {
        if self.session.is_some() {
            let ended =
                self.http.request("DELETE", &self.path, &self.headers(), b"").await.expect("an answer to DELETE");
            assert!(ended.head.status() < 300, "{ended:?}");
        }
    }

    fn headers(&self) -> Headers {
        self.session.as_ref().expect("a legacy client").headers()
    }
}

impl Answer {
    /// The response as a value. Not for odd numbers, which it may change.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or_else(|error| panic!("{error}: {}", self.shown()))
    }

    /// The text of the first content block.
    pub fn text(&self) -> Option<String> {
        self.value()["result"]["content"][0]["text"].as_str().map(str::to_owned)
    }

    /// The result, exactly as it came.
    pub fn result(&self) -> Option<String> {
        member(&self.raw, "result")
    }

    /// Checks that this is our own error with this reason, and gives its message and data.
    pub fn error(&self, reason: &str) -> (String, Value) {
        let error = self.value()["error"].clone();
        assert_eq!(error["code"], -32603, "{}", self.shown());
        assert_eq!(error["data"]["reason"], reason, "{}", self.shown());
        let message = error["message"].as_str().unwrap_or_default();
        assert!(12 < message.len(), "this tells nobody anything: {message:?}");
        (message.to_owned(), error["data"].clone())
    }

    /// The start of the response, for messages.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(self.raw.get(..self.raw.len().min(600)).unwrap_or_default()).into_owned()
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (status, notes, took) = (self.status, self.notes.len(), self.took);
        write!(f, "HTTP {status}, {notes} notes, then after {took:?}: {}", self.shown())
    }
}

/// Whether a message is surely a notification; a quick look, because there may be fifty thousand of them.
fn is_note(data: &[u8]) -> bool {
    let start = data.get(..data.len().min(60)).unwrap_or_default();
    find(start, br#""method":"notifications/"#).is_some() && find(start, br#""id":"#).is_none()
}

/// Where `what` is in `text`.
pub fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// A member of a JSON object, as written.
pub fn member(json: &[u8], name: &str) -> Option<String> {
    let members: std::collections::HashMap<String, &RawValue> = serde_json::from_slice(json).ok()?;
    members.get(name).map(|value| value.get().to_owned())
}
