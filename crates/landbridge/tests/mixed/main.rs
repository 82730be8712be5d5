//! Legacy clients of modern servers over HTTP: what their era does not know of is up to us.

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::raw::RawHttp;
use serde_json::{Value, json};

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");

/// The server refuses a call whose arguments are not mirrored in `Mcp-Param-*` headers as its list of tools says; a
/// legacy client, which may never have asked for that list, sends none.
#[tokio::test]
async fn arguments_are_mirrored_for_a_client_that_knows_no_headers() {
    let server = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &["--era", "modern"]).await;
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": server.url() } })).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let session = http.initialize("/mcp/server/it", "2025-11-25").await.expect("a session");
    for value in ["plain", " padded ", "Grüße"] {
        let params = json!({ "name": "test_custom_header", "arguments": { "value": value } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = http.post("/mcp/server/it", &session.headers(), call.to_string().as_bytes()).await;
        let answer = answer.expect("an answer");
        let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(body["error"], Value::Null, "value {value:?}: {body}");
        assert!(body["result"]["content"][0]["text"].is_string(), "value {value:?}: {body}");
    }
}
