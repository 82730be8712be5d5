//! HTTP connections against a scripted server on loopback: the test reads each request and writes each byte of the
//! response.

mod era;
mod login;
mod modern;
mod plain;
mod script;
mod session;
mod sse;
mod stream;
mod tls;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use lb_exchange::{Call, Caller, Capabilities, End, Exchange, Feed, Mount, Outcome, Principal, Step, Tasks};
use lb_wire::revision::Revision;
use lb_wire::{Message, Raw};
use serde_json::{Value, json};

use super::{Endpoint, HttpConnection};
use script::Script;

pub const LEGACY: Revision = Revision::V2025_11_25;
pub const MODERN: Revision = Revision::V2026_07_28;

/// Lets every task run, and the runtime look at its sockets.
pub async fn look_around() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

pub fn raw(value: &Value) -> Raw {
    Raw::parse(Bytes::from(value.to_string())).unwrap()
}

pub fn value(raw: &Raw) -> Value {
    serde_json::from_slice(raw.as_bytes()).unwrap()
}

pub fn endpoint(server: &Script) -> Arc<Endpoint> {
    Arc::new(Endpoint::new("it", &server.url(), &[], Tasks::default()).unwrap())
}

/// A legacy connection to the script, in session `s-1`.
pub async fn legacy(server: &mut Script) -> Arc<HttpConnection> {
    let endpoint = endpoint(server);
    let (connected, ()) = tokio::join!(HttpConnection::legacy(endpoint, hello(), Feed::default()), async {
        welcome(server, "s-1").await;
    });
    connected.unwrap().0
}

pub fn hello() -> Raw {
    raw(&json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}))
}

/// Answers one `initialize`.
pub async fn welcome(server: &mut Script, session: &str) {
    let asked = server.next().await;
    assert_eq!(asked.body["method"], "initialize");
    let capabilities = json!({"tools": {"listChanged": true}});
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {}});
    asked.respond("200 OK", &[("mcp-session-id", session)], &asked.result(&result)).await;
}

/// A modern connection to the script.
pub async fn modern(server: &mut Script) -> Arc<HttpConnection> {
    let endpoint = endpoint(server);
    let (connected, ()) = tokio::join!(HttpConnection::modern(endpoint, None, Feed::default()), async {
        let asked = server.next().await;
        assert_eq!(asked.body["method"], "server/discover");
        let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}});
        asked.json(&asked.result(&result)).await;
    });
    connected.unwrap().0
}

/// A call of a client of this revision.
pub fn call(revision: Revision, method: &str, params: &Value) -> Call {
    let caller = Caller {
        principal: Principal::local(),
        client: None,
        family: None,
        revision,
        capabilities: Capabilities::none(),
        client_info: None,
    };
    let message = json!({"jsonrpc": "2.0", "id": "c", "method": method, "params": params}).to_string();
    let message = Message::scan(message.into()).unwrap();
    Call { caller: Arc::new(caller), mount: Mount::Default, message, headers: None, trace: None, rights: None }
}

pub fn tool(connection: &Arc<HttpConnection>) -> Exchange {
    let params = json!({"name": "t", "arguments": {"x": 1}, "_meta": {"progressToken": "tok"}});
    connection.call(call(LEGACY, "tools/call", &params), None)
}

/// The next step as a short text: what a client would see of it.
pub async fn step(exchange: &mut Exchange) -> String {
    match exchange.step().await {
        Step::Note(note) => {
            format!("note {} {}", &*note.method, note.params.map(|p| p.as_str().to_owned()).unwrap_or_default())
        }
        Step::Ask(ask) => format!("ask {} {}", &*ask.key.0, &*ask.method),
        Step::Withdraw { key } => format!("withdraw {}", &*key.0),
        Step::Pause { retry } => format!("pause {}", retry.unwrap_or_default().as_millis()),
        Step::End(end) => outcome(end),
    }
}

/// The end, skipping what comes before it.
pub async fn end(mut exchange: Exchange) -> String {
    loop {
        if let Step::End(end) = exchange.step().await {
            return outcome(end);
        }
    }
}

fn outcome(end: End) -> String {
    match end.outcome {
        Outcome::Result(result) => format!("result {}", result.as_str()),
        Outcome::Error(error) => {
            let reason = error.raw.member("data").and_then(|data| data.member("reason"));
            let message = error.raw.member("message").map(|message| message.as_str().to_owned()).unwrap_or_default();
            format!("error {} {} {message}", error.code, reason.map(|r| r.as_str().to_owned()).unwrap_or_default())
        }
        Outcome::Cancelled => "cancelled".to_owned(),
    }
}
