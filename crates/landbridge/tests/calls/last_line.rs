//! A last line without its end, when whoever wrote it is gone: it was said all the same.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client::{Client, LEGACY, Server, Wire};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers one call without ending the line, or in the middle of it, and is gone.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if message.get("method") == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "last", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        print(json.dumps(answer), flush=True)
    elif message.get("method") == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "last words"}]}
        whole = json.dumps(answer)
        sys.stdout.write(whole if message["params"]["name"] == "whole" else whole[:-1])
        sys.stdout.flush()
        sys.exit(0)
"#;

fn server() -> Server {
    Server { entry: json!({ "command": "python3", "args": ["-c", SERVER] }), peer: None }
}

fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": {} })
}

#[tokio::test]
async fn the_last_words_of_a_server_are_heard_if_they_are_whole() {
    for wire in [Wire::Http, Wire::Stdio] {
        let mut client = Client::start(wire, &server(), LEGACY, json!({})).await;
        let answer = client.run("tools/call", call("whole")).await.pop().expect("an answer");
        assert_eq!(answer["result"]["content"][0]["text"], "last words", "{wire:?}: {answer}");
        let answer = client.run("tools/call", call("half")).await.pop().expect("an answer");
        assert_eq!(answer["error"]["data"]["reason"], "backend_closed", "{wire:?}: {answer}");
    }
}

#[tokio::test]
async fn the_last_line_of_a_client_is_answered() {
    let mut client = Client::stdio(&server(), LEGACY, json!({})).await;
    let request = client.request("tools/call", call("whole"));
    client.process().send_raw(request.to_string().as_bytes()).await.expect("it reads");
    client.process().close_stdin();
    let said = timeout(PATIENCE, client.rest(&request["id"])).await.expect("an answer");
    assert_eq!(said[0]["result"]["content"][0]["text"], "last words", "{said:?}");
}
