//! One client of one principal, on all surfaces, who writes down every word it is told.

use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{Mount, Place, Principal, ServerName, Visitor};
use lb_front::{Accept, Frame, Frames, Front, Headers, Reply, Request, Route};
use serde_json::{Value, json};

const LEGACY: &[u8] = b"2025-11-25";
const MODERN: &str = "2026-07-28";
/// Longer than any answer here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Somebody, and all that they were told.
pub struct Person {
    pub visitor: Visitor,
    /// What only they ever say.
    pub mark: String,
    pub told: String,
    /// Their sessions: on the surface of tools, and on the server's own path.
    pub tools: String,
    pub server: String,
    /// How they name the session of their modern requests.
    pub handle: String,
    /// A task, a timer and a question of theirs, and an event of one of their streams.
    pub task: String,
    pub timer: String,
    pub question: String,
    pub cursor: String,
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    Tools,
    Server,
}

impl At {
    fn mount(self) -> Mount {
        match self {
            Self::Tools => Mount::Tools,
            Self::Server => Mount::Server(ServerName::parse("parrot").expect("a name")),
        }
    }
}

impl Person {
    pub fn new(principal: &str, client: &str, mark: String) -> Self {
        let visitor = Visitor {
            client: Some(client.into()),
            family: Some(format!("login of {mark}").into()),
            ..Visitor::of(Principal::named(principal))
        };
        let empty = String::new;
        let (told, tools, server, handle) = (empty(), empty(), empty(), empty());
        let (task, timer, question, cursor) = (empty(), empty(), empty(), empty());
        Self { visitor, mark, told, tools, server, handle, task, timer, question, cursor }
    }

    /// A session of the older kind.
    pub async fn begin(&mut self, front: &Front, at: At) {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": format!("client of {}", self.mark), "version": "1" },
        });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let reply = self.send(front, at, None, &hello).await;
        let Reply::Json { session: Some(session), body, .. } = reply else { panic!("no session: {reply:?}") };
        self.note(&body);
        let session = session.as_str().to_owned();
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let reply = self.send(front, at, Some(&session), &ready).await;
        assert!(matches!(reply, Reply::Empty { status: 202 }), "{reply:?}");
        match at {
            At::Tools => self.tools = session,
            At::Server => self.server = session,
        }
    }

    fn session(&self, at: At) -> String {
        if at == At::Tools { self.tools.clone() } else { self.server.clone() }
    }

    /// A request in their own session.
    pub async fn ask(&mut self, front: &Front, at: At, method: &str, params: Value) -> (u16, Value) {
        let session = self.session(at);
        self.ask_in(front, at, &session, method, params).await
    }

    /// A request in a session, whose ever it is.
    pub async fn ask_in(&mut self, front: &Front, at: At, session: &str, method: &str, params: Value) -> (u16, Value) {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let reply = self.send(front, at, Some(session), &message).await;
        self.read(reply).await
    }

    /// A tool of ours, in their own session.
    pub async fn call(&mut self, front: &Front, tool: &str, arguments: Value) -> Value {
        let (status, answer) = self.ask(front, At::Tools, "tools/call", named(tool, &arguments)).await;
        assert_eq!(status, 200, "{tool}: {answer}");
        answer
    }

    /// A request that needs no session.
    pub async fn modern(&mut self, front: &Front, at: At, method: &str, mut params: Value) -> Value {
        let name = params["name"].as_str().map(str::to_owned);
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = Headers {
            version: Some(MODERN.as_bytes()),
            method: Some(method.as_bytes()),
            name: name.as_deref().map(str::as_bytes),
            accept: Accept::Both,
            ..Headers::default()
        };
        let reply = post(front, Request { mount: at.mount(), visitor: self.visitor.clone(), headers }, &message).await;
        self.read(reply).await.1
    }

    /// A tool of ours, without a session of the older kind.
    pub async fn modern_call(&mut self, front: &Front, tool: &str, arguments: Value) -> Value {
        self.modern(front, At::Tools, "tools/call", named(tool, &arguments)).await
    }

    /// Opens a stream, or the rest of one.
    pub fn listen(&self, front: &Front, at: At, session: &str, last: Option<&str>) -> Reply {
        front.get(&self.request(at, Some(session), last))
    }

    /// Tries to end a session.
    pub async fn end(&mut self, front: &Front, at: At, session: &str) -> u16 {
        let reply = front.delete(&self.request(at, Some(session), None));
        self.read(reply).await.0
    }

    /// Reads what a stream has now.
    pub async fn drain(&mut self, frames: &mut Frames) {
        while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_millis(50), frames.next()).await {
            self.note_frame(&frame);
        }
    }

    /// What comes of a request, to its end.
    pub async fn read(&mut self, reply: Reply) -> (u16, Value) {
        match reply {
            Reply::Json { status, body, receipt, .. } => {
                if let Some(receipt) = receipt {
                    receipt.commit();
                }
                self.note(&body);
                (status, serde_json::from_slice(&body).expect("JSON"))
            }
            Reply::Empty { status } => (status, Value::Null),
            Reply::Stream { mut frames, .. } => {
                let mut last = Value::Null;
                let reading = async {
                    while let Some(frame) = frames.next().await {
                        last = self.note_frame(&frame).unwrap_or(last.take());
                    }
                };
                tokio::time::timeout(PATIENCE, reading).await.expect("a stream ends");
                (200, last)
            }
            other => panic!("{other:?}"),
        }
    }

    fn note(&mut self, text: &[u8]) {
        self.told.push_str(&String::from_utf8_lossy(text));
        self.told.push('\n');
    }

    /// Notes a frame, and gives its message.
    fn note_frame(&mut self, frame: &Frame) -> Option<Value> {
        let Frame::Message { line, event_id, .. } = frame else {
            if let Frame::Priming { id, .. } = frame {
                self.cursor = id.0.to_string();
            }
            return None;
        };
        if let Some(id) = event_id {
            self.cursor = id.0.to_string();
        }
        self.note(line.as_bytes());
        serde_json::from_slice(line.as_bytes()).ok()
    }

    fn request<'a>(&self, at: At, session: Option<&'a str>, last: Option<&'a str>) -> Request<'a> {
        let headers = Headers {
            version: Some(LEGACY),
            session: session.map(str::as_bytes),
            last_event_id: last.map(str::as_bytes),
            accept: Accept::Both,
            ..Headers::default()
        };
        Request { mount: at.mount(), visitor: self.visitor.clone(), headers }
    }

    async fn send(&self, front: &Front, at: At, session: Option<&str>, message: &Value) -> Reply {
        let request = self.request(at, session, None);
        // What a transport does first: a session may be asleep.
        if let Route::Ask(place) = front.route(&request.headers, None) {
            assert!(matches!(place.await, Place::Here), "there is one node");
        }
        post(front, request, message).await
    }
}

async fn post(front: &Front, request: Request<'_>, message: &Value) -> Reply {
    let posted = front.post(request, Vec::new(), Bytes::from(message.to_string()));
    tokio::time::timeout(PATIENCE, posted.reply()).await.expect("an answer")
}

fn named(tool: &str, arguments: &Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}
