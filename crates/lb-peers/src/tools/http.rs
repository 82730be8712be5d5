//! The gateway over HTTP: one connection per request, so that any number of them run at once.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::{Inbox, Reply, Settings, Shared, lock};
use crate::raw::http::{Headers, RawHttp, headers, modern_headers, post_headers};
use crate::raw::http1::Head;

/// Times a reply is asked for again after its stream ended without it.
const RESUMES_MAX: usize = 20;

/// Where the gateway listens, and the session there.
pub(super) struct Http {
    address: SocketAddr,
    session: Mutex<Option<String>>,
}

impl Http {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, session: Mutex::default() }
    }

    pub(super) fn session(&self) -> Option<String> {
        lock(&self.session).clone()
    }

    pub(super) fn enter(&self, session: String) {
        *lock(&self.session) = Some(session);
    }

    fn headers(&self, settings: &Settings, message: &Value) -> Headers {
        let method = message["method"].as_str().unwrap_or_default();
        if settings.is_modern() {
            let params = &message["params"];
            let name = params["name"].as_str().or_else(|| params["uri"].as_str());
            return modern_headers(method, name);
        }
        let mut all = post_headers();
        if method != "initialize" {
            all.extend(headers(&[("MCP-Protocol-Version", &settings.revision)]));
        }
        all.extend(self.session().map(|id| ("Mcp-Session-Id".to_owned(), id)));
        all
    }

    /// Sends a message on a connection of its own.
    pub(super) async fn send(&self, settings: &Settings, message: &Value) -> Result<RawHttp> {
        let mut http = RawHttp::connect(self.address).await?;
        http.patience = settings.patience;
        http.send("POST", &settings.path, &self.headers(settings, message), message.to_string().as_bytes()).await?;
        Ok(http)
    }

    /// Reads the reply to request `id`, and files whatever comes before it.
    pub(super) async fn receive(&self, shared: &Shared, sent: Result<RawHttp>, id: u64, opens: bool) -> Reply {
        let mut http = sent.expect("the request is sent");
        let head = http.head().await.expect("a response");
        if opens && let Some(session) = head.header("mcp-session-id") {
            self.enter(session.to_owned());
        }
        let status = head.status();
        if !head.is_sse() {
            let (body, _) = http.body().await.expect("a body");
            return Reply::new(status, serde_json::from_slice(&body).unwrap_or_default());
        }
        let (mut stream, mut last) = (http, None);
        for _ in 0..RESUMES_MAX {
            let (found, pause) = read_until(&mut stream, id, &shared.inbox, &mut last).await;
            if let Some(message) = found {
                return Reply::new(status, message);
            }
            let Some(from) = last.as_deref().filter(|_| !shared.settings.is_modern()) else { break };
            tokio::time::sleep(pause).await;
            match self.open_stream(&shared.settings, Some(from)).await {
                Ok(next) => stream = next,
                Err(_) => break,
            }
        }
        Reply::new(status, Value::Null)
    }

    /// The stream of the session, or what followed an event.
    pub(super) async fn open_stream(&self, settings: &Settings, after: Option<&str>) -> Result<RawHttp> {
        let mut http = RawHttp::connect(self.address).await?;
        http.patience = settings.patience;
        let mut all = self.headers(settings, &Value::Null);
        all.extend(after.map(|id| ("Last-Event-ID".to_owned(), id.to_owned())));
        http.send("GET", &settings.path, &all, b"").await?;
        let head: Head = http.head().await?;
        if head.is_sse() { Ok(http) } else { Err(Error::other(head.start)) }
    }

    /// Sends what has no reply.
    pub(super) async fn post(&self, settings: &Settings, message: &Value) {
        let mut http = self.send(settings, message).await.expect("the message is sent");
        http.head().await.expect("a response");
        http.body().await.expect("a body");
    }

    pub(super) async fn delete(&self, settings: &Settings) -> u16 {
        let mut http = RawHttp::connect(self.address).await.expect("the gateway listens");
        let all = self.headers(settings, &Value::Null);
        http.request("DELETE", &settings.path, &all, b"").await.expect("a response").head.status()
    }
}

/// Reads events up to the response of `id`; without it, how long to wait before asking again.
async fn read_until(
    stream: &mut RawHttp,
    id: u64,
    inbox: &Inbox,
    last: &mut Option<String>,
) -> (Option<Value>, Duration) {
    let mut pause = Duration::from_millis(10);
    while let Ok(Some(event)) = stream.event().await {
        if event.id.is_some() {
            last.clone_from(&event.id);
        }
        if let Some(ms) = event.retry.as_deref().and_then(|ms| ms.parse().ok()) {
            pause = Duration::from_millis(ms);
        }
        let Ok(message) = serde_json::from_str::<Value>(&event.text()) else { continue };
        if message.get("method").is_none() && message["id"] == id {
            return (Some(message), pause);
        }
        inbox.put(message);
    }
    (None, pause)
}

/// Files what comes on a stream until it ends.
pub(super) async fn read_stream(mut stream: RawHttp, inbox: Arc<Inbox>) {
    while let Ok(Some(event)) = stream.event().await {
        if let Ok(message) = serde_json::from_str(&event.text()) {
            inbox.put(message);
        }
    }
}
