//! What a server asks on its own while a single call runs is not the call's: it can be answered when that has ended.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::client::{Client, End, LEGACY, PATH, Server, Wire};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/calls/strays.py");
/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn server() -> Server {
    Server { entry: json!({ "command": "python3", "args": [SERVER] }), peer: None }
}

async fn start(wire: Wire, server: &Server) -> Client {
    Client::start(wire, server, LEGACY, json!({ "roots": {} })).await
}

/// Lets the server ask, and gives the question: its call ends at once, and nothing is taken back with it.
async fn asked(client: &mut Client) -> Value {
    let call = json!({ "name": "ask", "arguments": {} });
    let running = async {
        match client.end {
            End::Http { .. } => client.again().await.run("tools/call", call).await,
            End::Stdio(_) => client.run("tools/call", call).await,
        }
    };
    let said = timeout(PATIENCE, running).await.expect("in time");
    let methods: Vec<_> = said.iter().map(|message| message["method"].as_str().unwrap_or("answer")).collect();
    assert_eq!(methods, ["roots/list", "answer"], "{said:?}");
    assert_eq!(said[1]["result"]["content"][0]["text"], "asked", "{said:?}");
    said[0].clone()
}

/// What the server was answered.
async fn heard(client: &mut Client) -> Value {
    let result = client.call("heard", json!({})).await;
    serde_json::from_str(result["content"][0]["text"].as_str().expect("text")).expect("JSON")
}

async fn await_heard(client: &mut Client, want: &Value) {
    let start = Instant::now();
    while heard(client).await != *want {
        assert!(start.elapsed() < PATIENCE, "{} is not {want}", heard(client).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn roots() -> Value {
    json!({ "roots": [{ "uri": "file:///home", "name": "home" }] })
}

#[tokio::test]
async fn an_answer_after_the_end_of_the_call_reaches_the_server() {
    for wire in [Wire::Http, Wire::Stdio] {
        let mut client = start(wire, &server()).await;
        let ask = asked(&mut client).await;
        assert_eq!(heard(&mut client).await, json!([]), "{wire:?}: the server waits");
        client.answer(&ask, roots()).await;
        await_heard(&mut client, &json!([roots()])).await;
        // Once: a second answer is nobody's.
        client.answer(&ask, json!({ "roots": [] })).await;
        assert_eq!(heard(&mut client).await, json!([roots()]), "{wire:?}");
    }
}

#[tokio::test]
async fn what_the_server_takes_back_after_the_call_is_taken_back_from_the_client() {
    for wire in [Wire::Http, Wire::Stdio] {
        let mut client = start(wire, &server()).await;
        let ask = asked(&mut client).await;
        let call = json!({ "name": "take_back", "arguments": {} });
        let note = match wire {
            Wire::Stdio => client.run("tools/call", call).await.remove(0),
            Wire::Http => {
                let mut ear = client.again().await;
                assert!(ear.get(None).await.is_sse());
                client.run("tools/call", call).await;
                timeout(PATIENCE, ear.message()).await.expect("in time").expect("a note").1
            }
        };
        assert_eq!(note["method"], "notifications/cancelled", "{wire:?}: {note}");
        assert_eq!(note["params"]["requestId"], ask["id"], "{wire:?}: {note}");
        client.answer(&ask, roots()).await;
        assert_eq!(heard(&mut client).await, json!([]), "{wire:?}: nobody waits for it");
    }
}

#[tokio::test]
async fn a_session_that_ends_without_an_answer_refuses_it() {
    let server = server().with("isolation", "shared");
    let gateway = server.gateway().await;
    let mut leaves = Client::http(gateway.address, LEGACY, json!({ "roots": {} })).await;
    let mut stays = Client::http(gateway.address, LEGACY, json!({ "roots": {} })).await;
    asked(&mut leaves).await;
    assert_eq!(heard(&mut stays).await, json!([]));
    let headers = leaves.headers_with(&[]);
    leaves.conn().request("DELETE", PATH, &headers, b"").await.expect("an answer");
    await_heard(&mut stays, &json!([{ "roots": [] }])).await;
}
