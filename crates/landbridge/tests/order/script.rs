//! HTTP servers that follow a script, for what no well-behaved server does.

use std::sync::Arc;
use std::time::Duration;

use lb_peers::raw::http1::{Conn, response, response_head};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::client::MODERN;

/// One request as the script sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The HTTP method.
    pub verb: String,
    /// The JSON-RPC method; empty for answers and requests without body.
    pub method: String,
    pub body: Value,
    pub last_event_id: Option<String>,
}

/// What the script does with the connection, in order.
pub enum Act {
    Write(Vec<u8>),
    /// Waits until the test says so.
    Until(Arc<Notify>),
    /// Closes the connection.
    Close,
}

/// A scripted server on a free port. Dropping it ends it.
pub struct Script {
    pub url: String,
    seen: Arc<watch::Sender<Vec<Seen>>>,
    _serving: JoinSet<()>,
}

impl Script {
    pub async fn start(answer: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let seen = Arc::<watch::Sender<Vec<Seen>>>::default();
        let (record, answer) = (seen.clone(), Arc::new(answer));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (record, answer) = (record.clone(), answer.clone());
                connections.spawn(async move { serve(Conn::new(stream), &record, &*answer).await });
            }
        });
        Self { url, seen, _serving: serving }
    }

    /// The JSON-RPC methods that came by POST, in order.
    pub fn methods(&self) -> Vec<String> {
        self.seen().into_iter().filter(|seen| seen.verb == "POST").map(|seen| seen.method).collect()
    }

    /// Everything that came.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// Waits until a request has come by this HTTP method.
    pub async fn until(&self, verb: &str) {
        let mut seen = self.seen.subscribe();
        let came = seen.wait_for(|all| all.iter().any(|seen| seen.verb == verb));
        let came = tokio::time::timeout(Duration::from_secs(10), came).await;
        assert!(came.is_ok(), "no {verb} came");
    }

    /// The config entry of this server.
    pub fn entry(&self) -> Value {
        json!({ "url": self.url })
    }
}

async fn serve(mut conn: Conn, record: &watch::Sender<Vec<Seen>>, answer: &(dyn Fn(&Seen) -> Vec<Act> + Send + Sync)) {
    while let Ok(Some(head)) = conn.request_head().await {
        let Ok((body, true)) = conn.rest().await else { return };
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = body["method"].as_str().unwrap_or_default().to_owned();
        let last_event_id = head.header("last-event-id").map(str::to_owned);
        let seen = Seen { verb: head.method().to_owned(), method, body, last_event_id };
        record.send_modify(|all| all.push(seen.clone()));
        for act in answer(&seen) {
            match act {
                Act::Write(bytes) => {
                    if conn.write(&bytes).await.is_err() {
                        return;
                    }
                }
                Act::Until(told) => told.notified().await,
                Act::Close => return,
            }
        }
    }
}

/// A whole JSON reply.
pub fn json_reply(status: u16, body: &Value) -> Vec<Act> {
    vec![Act::Write(response(status, &[("Content-Type", "application/json")], body.to_string().as_bytes()))]
}

/// A whole reply in plain text.
pub fn text_reply(status: u16, body: &str) -> Vec<Act> {
    vec![Act::Write(response(status, &[("Content-Type", "text/plain")], body.as_bytes()))]
}

/// The head of a stream that ends with its connection.
pub fn stream_head() -> Act {
    Act::Write(response_head(200, &[("Content-Type", "text/event-stream")], "Connection: close"))
}

/// One event.
pub fn event(id: Option<&str>, data: &Value) -> Act {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Act::Write(format!("{id}data: {data}\n\n").into_bytes())
}

/// A response to the request that was seen.
pub fn result(seen: &Seen, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result })
}

/// A plain legacy server: one tool, one session, no stream of its own.
pub fn legacy(seen: &Seen) -> Vec<Act> {
    match (seen.verb.as_str(), seen.method.as_str()) {
        ("GET", _) => text_reply(405, ""),
        ("DELETE", _) => text_reply(200, ""),
        (_, "initialize") => {
            let welcome = result(
                seen,
                json!({
                    "protocolVersion": seen.body["params"]["protocolVersion"],
                    "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": "scripted", "version": "1" },
                }),
            );
            let headers = [("Content-Type", "application/json"), ("Mcp-Session-Id", "s1")];
            vec![Act::Write(response(200, &headers, welcome.to_string().as_bytes()))]
        }
        (_, "tools/list") => json_reply(200, &result(seen, json!({ "tools": [tool("legacy")] }))),
        (_, "tools/call") => json_reply(200, &result(seen, content("from the legacy era"))),
        _ if seen.body.get("id").is_none() || seen.method.is_empty() => text_reply(202, ""),
        _ => json_reply(404, &error(seen, -32601)),
    }
}

/// A plain modern server.
pub fn modern(seen: &Seen) -> Vec<Act> {
    let complete = |mut members: Value| {
        members["resultType"] = "complete".into();
        json_reply(200, &result(seen, members))
    };
    match seen.method.as_str() {
        "server/discover" => complete(json!({
            "supportedVersions": [MODERN],
            "capabilities": { "tools": {} },
            "ttlMs": 0,
            "cacheScope": "private",
        })),
        "tools/list" => complete(json!({ "tools": [tool("modern")], "ttlMs": 0, "cacheScope": "private" })),
        "tools/call" => complete(content("from the modern era")),
        _ => json_reply(404, &error(seen, -32601)),
    }
}

pub fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

pub fn content(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// An error response to the request that was seen.
pub fn error(seen: &Seen, code: i64) -> Value {
    json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": { "code": code, "message": "no" } })
}
