//! What a server gives a client to send back: it is the server's, goes through as it is, and opens nothing that whoever
//! sends it may not reach anyway.

use std::net::SocketAddr;
use std::process::Stdio;

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::raw::http::{Response, modern_headers, modern_meta};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::LANDBRIDGE;
use crate::leaks::tap;
use crate::world::{send, serve, value};

const TOOL: &str = "test_input_required_result_request_state";

/// Who may do what: `anna` and `reader` may use all servers, `ben` one of them.
const RULES: &str = "[[auth.rules]]\nwho = { subjects = [\"key:anna\", \"key:reader\"] }\nservers = [\"*\"]\n\
                     [[auth.rules]]\nwho = { subjects = [\"key:ben\"] }\nservers = [\"it\"]\n";

async fn key(folder: &std::path::Path, id: &str, scope: &str) -> String {
    let mut new = Command::new(LANDBRIDGE);
    new.args(["auth", "key", "new", id, "--scope", scope, "--file"]).arg(folder.join("keys")).stdin(Stdio::null());
    let out = new.output().await.expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// A call of a modern client that can be asked, with what it sends back.
async fn call(at: SocketAddr, token: &str, server: &str, tool: &str, back: &Value) -> Response {
    let mut all = modern_headers("tools/call", Some(tool));
    all.push(("Authorization".into(), format!("Bearer {token}")));
    let meta = modern_meta("").replacen(":{},", ":{\"elicitation\":{}},", 1);
    let meta: Value = serde_json::from_str(&meta).expect("JSON");
    let mut params = json!({ "name": tool, "arguments": {}, "_meta": meta });
    params.as_object_mut().expect("an object").extend(back.as_object().expect("an object").clone());
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    send(at, "POST", &format!("/mcp/server/{server}"), &all, body.as_bytes()).await
}

#[tokio::test]
async fn a_state_of_a_server_comes_back_as_it_was_and_opens_nothing_to_another() {
    let fixture = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
    let (tapped, heard) = tap(fixture.address).await;
    let (mut command, folder) = serve(RULES);
    let servers = json!({ "mcpServers": {
        "web": { "url": format!("http://{tapped}/mcp") }, "it": { "command": peer(LANDBRIDGE, "fixture") },
    } });
    std::fs::write(folder.path().join("mcp.json"), servers.to_string()).expect("written");
    let [anna, reader, ben] = [
        key(folder.path(), "anna", "mcp:call").await,
        key(folder.path(), "reader", "mcp:read").await,
        key(folder.path(), "ben", "mcp:call").await,
    ];
    command.args(["--listen", "127.0.0.1:0", "--auth", "keys"]).arg(folder.path().join("keys"));
    let gateway = Gateway::launch(command, folder).await;
    let at = gateway.address;
    let asked = value(&call(at, &anna, "web", TOOL, &json!({})).await);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let state = asked["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    let times_heard = || {
        let heard = String::from_utf8_lossy(&heard.lock().expect("no panic holds it")).into_owned();
        heard.matches(&state).count()
    };
    let answers = json!({ "confirm": { "action": "accept", "content": { "ok": true } } });
    let back = |state: &str| json!({ "requestState": state, "inputResponses": answers });
    assert_eq!(times_heard(), 0);

    // Whoever may not call does not, with whatever they have stolen: the server hears nothing.
    assert_eq!(call(at, &reader, "web", TOOL, &back(&state)).await.head.status(), 403);
    let refused = call(at, &ben, "web", TOOL, &back(&state)).await;
    assert!(matches!(refused.head.status(), 403 | 404), "{}", refused.text());
    assert!(!refused.text().contains("state-ok"));
    assert_eq!(times_heard(), 0);
    // What they may use is another server's, which knows its own.
    let told = value(&call(at, &ben, "it", TOOL, &back(&state)).await);
    assert_eq!(told["error"]["code"], -32602, "{told}");

    // One bit of it anywhere, or another call: the server sees that, because it gets what was sent.
    let wrong = (0..state.len()).step_by(7).map(|place| {
        let mut bytes = state.clone().into_bytes();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).expect("ASCII")
    });
    for wrong in wrong.chain([format!("{state}A"), String::new(), "landbridge/login:x".to_owned()]) {
        let told = value(&call(at, &anna, "web", TOOL, &back(&wrong)).await);
        assert_eq!(told["error"]["code"], -32602, "{wrong}: {told}");
    }
    let other = "test_input_required_result_tampered_state";
    let told = value(&call(at, &anna, "web", other, &back(&state)).await);
    assert_eq!(told["error"]["code"], -32602, "{told}");

    // Unchanged, it is as good as it was: the server has signed it, so that it came back byte for byte.
    let before = times_heard();
    let told = call(at, &anna, "web", TOOL, &back(&state)).await;
    assert!(told.text().contains("state-ok"), "{}", told.text());
    assert_eq!(times_heard(), before + 1);
}
