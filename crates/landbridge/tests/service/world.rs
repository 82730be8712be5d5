//! A gateway to ask, and how to ask it.

use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Response, Session, headers};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// Longer than anything here should take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway with its tools and no servers.
pub async fn gateway(args: &[&str]) -> Gateway {
    Gateway::serve_tools(LANDBRIDGE, json!({}), args).await
}

pub async fn connect(gateway: &Gateway) -> RawHttp {
    RawHttp::connect(gateway.address).await.expect("it listens")
}

/// Asks on a connection of its own.
pub async fn ask(gateway: &Gateway, method: &str, path: &str, extra: &[(&str, &str)], body: &str) -> Response {
    let mut http = connect(gateway).await;
    http.request(method, path, &headers(extra), body.as_bytes()).await.expect("an answer")
}

/// Asks under another name than the gateway's own.
pub async fn ask_as(gateway: &Gateway, host: &str, method: &str, path: &str) -> Response {
    let mut http = connect(gateway).await;
    http.send_raw(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").as_bytes())
        .await
        .expect("it reads");
    let head = http.head().await.expect("a head");
    let (body, complete) = http.body().await.expect("a body");
    Response { head, body, complete }
}

/// A legacy session on the tools.
pub async fn seated(gateway: &Gateway) -> (RawHttp, Session) {
    let mut http = connect(gateway).await;
    let session = http.initialize("/mcp", "2025-11-25").await.expect("a session");
    (http, session)
}

pub fn call(id: u64, tool: &str, arguments: Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

pub fn document(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}

/// Status and error code of a refusal.
pub fn code(response: &Response) -> (u16, Option<i64>) {
    let code = serde_json::from_slice::<Value>(&response.body).ok().and_then(|body| body["error"]["code"].as_i64());
    (response.head.status(), code)
}

/// Waits until something holds.
pub async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn terminate(gateway: &Gateway) {
    let pid = i32::try_from(gateway.pid()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::TERM).expect("the process is there");
}

/// Waits for the gateway's end: how long it took, and its exit code.
pub async fn ended(gateway: &mut Gateway, within: Duration) -> (Duration, Option<i32>) {
    let start = Instant::now();
    let ended = tokio::time::timeout(within, gateway.child().wait()).await;
    let status = ended.unwrap_or_else(|_| panic!("the gateway lives after {within:?}: {}", gateway.said()));
    (start.elapsed(), status.expect("the gateway can be waited for").code())
}
