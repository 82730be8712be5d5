//! The binary as a user meets it: banner, help, errors, a first call.

mod usage;

use lb_peers::harness::{Gateway, peer};
use lb_peers::raw::RawHttp;
use serde_json::json;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");

#[tokio::test]
async fn a_call_goes_through_to_a_child() {
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "command": peer(LANDBRIDGE, "fixture") } })).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let session = http.initialize("/mcp/server/it", "2025-11-25").await.expect("a session");
    let body =
        br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}"#;
    let answer = http.post("/mcp/server/it", &session.headers(), body).await.expect("an answer");
    assert_eq!(answer.body, br#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"hi"}]}}"#);
}

#[tokio::test]
async fn the_front_page_says_where_each_server_is() {
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "a": { "command": "true" }, "b": { "command": "true" } })).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let page = http.request("GET", "/", &[], b"").await.expect("an answer");
    assert!(page.text().contains("MCP at\n  /mcp/server/a\n  /mcp/server/b\n\n"), "{}", page.text());
    let lost = http.post("/", &[], b"{}").await.expect("an answer");
    assert!(lost.text().contains("Method not allowed: MCP is at /mcp/server/{name}"), "{}", lost.text());
}
