//! A client for tests: requests as JSON, replies as something to compare.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{Mount, Visitor};
use lb_front::{Accept, Frame, Frames, Front, Headers, Reply, Request, Settings};
use lb_session::streams::SharedStreams;
use lb_testkit::ScriptedMiddle;
use serde_json::{Value, json};

pub const SECOND: Duration = Duration::from_secs(1);

pub fn middle() -> Arc<ScriptedMiddle> {
    ScriptedMiddle::new(|| Arc::new(SharedStreams::default()))
}

pub fn front(middle: &Arc<ScriptedMiddle>) -> Front {
    Front::new(middle.clone(), Settings::default())
}

/// A client of a front; `headers` go with every request.
#[derive(Clone)]
pub struct Client {
    pub front: Front,
    pub session: Option<String>,
    pub version: Option<&'static str>,
    pub accept: Accept,
    pub visitor: Visitor,
    pub mount: Mount,
}

impl Client {
    pub fn new(front: Front) -> Self {
        Self {
            front,
            session: None,
            version: None,
            accept: Accept::Both,
            visitor: Visitor::local(),
            mount: Mount::Default,
        }
    }

    /// A seated legacy client with these capabilities.
    pub async fn seated(front: Front, version: &str, capabilities: Value) -> Self {
        Self::seated_as(front, Visitor::local(), version, capabilities).await
    }

    /// The same for somebody else.
    pub async fn seated_as(front: Front, visitor: Visitor, version: &str, capabilities: Value) -> Self {
        Self { visitor, ..Self::new(front) }.seat(version, capabilities).await
    }

    /// The same one, seated.
    pub async fn seat(mut self, version: &str, capabilities: Value) -> Self {
        let params = json!({ "protocolVersion": version, "capabilities": capabilities });
        match self.post(&request(0, "initialize", params)).await {
            Reply::Json { session: Some(session), .. } => self.session = Some(session.as_str().to_owned()),
            other => panic!("initialize: {other:?}"),
        }
        self
    }

    pub fn headers(&self) -> Headers<'_> {
        Headers {
            version: self.version.map(str::as_bytes),
            session: self.session.as_deref().map(str::as_bytes),
            accept: self.accept,
            ..Headers::default()
        }
    }

    pub fn request<'a>(&self, headers: Headers<'a>) -> Request<'a> {
        Request { mount: self.mount.clone(), visitor: self.visitor.clone(), headers }
    }

    pub async fn post(&self, body: &Value) -> Reply {
        self.post_text(&body.to_string()).await
    }

    pub async fn post_text(&self, body: &str) -> Reply {
        self.post_with(self.headers(), body).await
    }

    pub async fn post_with(&self, headers: Headers<'_>, body: &str) -> Reply {
        self.front.post(self.request(headers), Vec::new(), Bytes::copy_from_slice(body.as_bytes())).reply().await
    }

    pub async fn call(&self, id: u64, tool: &str) -> Reply {
        self.post(&tool_call(id, tool)).await
    }

    pub fn get(&self, last: Option<&str>) -> Reply {
        let headers = Headers { last_event_id: last.map(str::as_bytes), ..self.headers() };
        self.front.get(&self.request(headers))
    }
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn tool_call(id: u64, tool: &str) -> Value {
    request(id, "tools/call", json!({ "name": tool }))
}

pub fn json_of(reply: Reply) -> (u16, Value) {
    match reply {
        Reply::Json { status, body, .. } => (status, serde_json::from_slice(&body).expect("JSON")),
        Reply::Empty { status } => (status, Value::Null),
        other => panic!("not JSON: {other:?}"),
    }
}

pub fn stream_of(reply: Reply) -> Frames {
    match reply {
        Reply::Stream { frames, .. } => frames,
        Reply::Json { body, .. } => panic!("not a stream: {}", String::from_utf8_lossy(&body)),
        other => panic!("not a stream: {other:?}"),
    }
}

/// `code` of an error, with its status.
pub fn code_of(reply: Reply) -> (u16, i64) {
    let (status, body) = json_of(reply);
    (status, body["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {body}")))
}

pub fn event_id(frame: &Frame) -> Option<String> {
    match frame {
        Frame::Message { event_id, .. } => event_id.as_ref().map(|id| id.0.to_string()),
        Frame::Priming { id, .. } => Some(id.0.to_string()),
        Frame::Retry(_) | Frame::Comment => None,
    }
}

/// A frame as a short text.
pub fn show(frame: &Frame) -> String {
    match frame {
        Frame::Message { line, .. } => short(&serde_json::from_slice(line.as_bytes()).expect("JSON")),
        Frame::Priming { retry, .. } => format!("priming {}", retry.as_millis()),
        Frame::Retry(retry) => format!("retry {}", retry.as_millis()),
        Frame::Comment => "comment".into(),
    }
}

/// A message as a short text: `note METHOD`, `ask ID METHOD`, `result ID`, `error ID CODE`.
pub fn short(message: &Value) -> String {
    let id = &message["id"];
    match (message["method"].as_str(), id.is_null()) {
        (Some(method), true) => format!("note {method}"),
        (Some(method), false) => format!("ask {id} {method}"),
        (None, _) if message.get("error").is_some() => format!("error {id} {}", message["error"]["code"]),
        (None, _) => format!("result {id} {}", message["result"]),
    }
}

/// All frames to the end of a stream.
pub async fn rest(frames: &mut Frames) -> Vec<String> {
    let mut shown = Vec::new();
    while let Some(frame) = frames.next().await {
        shown.push(show(&frame));
        if let Frame::Message { receipt: Some(receipt), .. } = frame {
            receipt.commit();
        }
    }
    shown
}
