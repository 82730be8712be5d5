//! A server is changed or removed in the config while calls run on it at its own path.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lb_peers::harness::{Gateway, config};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::client::{Behind, Client, LANDBRIDGE, LEGACY, MODERN, PATH, Server, with_token};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(50);

/// The gateway in front of these servers, and the file that names them.
async fn serve(servers: &Value) -> (Gateway, PathBuf) {
    let (folder, file) = config(servers);
    let mut command = tokio::process::Command::new(LANDBRIDGE);
    command.args(["serve", "--surface", "server", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    command.stdin(std::process::Stdio::null());
    (Gateway::launch(command, folder).await, file)
}

/// Puts other servers into the file and says so.
fn reload(pid: u32, file: &Path, servers: &Value) {
    std::fs::write(file, json!({ "mcpServers": servers }).to_string()).expect("written");
    let told = std::process::Command::new("kill").args(["-HUP", &pid.to_string()]).status();
    assert!(told.expect("kill runs").success());
}

async fn reloaded(gateway: &Gateway) {
    let start = Instant::now();
    while !gateway.said().contains("config_reloaded") {
        assert!(start.elapsed() < PATIENCE, "{}", gateway.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn sleep(ms: u64) -> Value {
    json!({ "name": "sleep", "arguments": { "ms": ms } })
}

fn check(said: &[Value], reason: &str) {
    let answer = said.last().expect("an answer");
    let error = &answer["error"];
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!(reason)), "{answer}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("may have run")), "{answer}");
    assert_eq!(said.iter().filter(|message| message.get("id").is_some()).count(), 1, "one answer: {said:?}");
}

/// The entry of the config, changed or gone.
fn after(change: &str, entry: &Value) -> Value {
    let other = Value::clone(entry);
    match change {
        "server_removed" => json!({ "other": other }),
        _ => {
            let mut changed = other;
            changed["timeout_ms"] = json!(299_000);
            json!({ "it": changed })
        }
    }
}

async fn over_http(version: &str, behind: Behind, change: &str) {
    let what = format!("{version} {behind:?} {change}");
    let server = Server::fixture(behind).await;
    let (gateway, file) = serve(&json!({ "it": server.entry })).await;
    let mut client = Client::http(gateway.address, version, json!({})).await;
    let (mut short, mut plain, mut streamed) = (client.again().await, client.again().await, client.again().await);
    let ids = [
        short.send("tools/call", sleep(3_000)).await,
        plain.send("tools/call", sleep(60_000)).await,
        streamed.send("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await,
    ];
    client.await_counts("sleep", [3, 0, 0]).await;
    let begun = Instant::now();
    reload(gateway.pid(), &file, &after(change, &server.entry));
    reloaded(&gateway).await;
    if version == LEGACY {
        let body = client.request("tools/call", sleep(1)).to_string();
        let headers = client.headers_with(&[]);
        let refused = client.conn().post(PATH, &headers, body.as_bytes()).await.expect("an answer");
        assert_eq!(refused.head.status(), 404, "{what}: {}", refused.text());
        assert!(refused.text().contains("session_ended"), "{what}: {}", refused.text());
    }
    if change == "server_changed" {
        let mut next = Client::http(gateway.address, version, json!({})).await;
        assert_eq!(next.call("echo", json!({ "message": "hi" })).await["content"][0]["text"], "hi", "{what}");
    }
    let good = timeout(PATIENCE, short.rest(&ids[0])).await.expect("in time");
    assert!(good.last().is_some_and(|answer| answer.get("result").is_some()), "{what}: {good:?}");
    for (client, id) in [(&mut plain, &ids[1]), (&mut streamed, &ids[2])] {
        let said = timeout(PATIENCE, client.rest(id)).await.expect("an answer");
        check(&said, change);
    }
    let told = begun.elapsed();
    assert!(Duration::from_secs(9) < told, "{what}: cut off after {told:?}");
    if behind == Behind::Http {
        let peer = server.peer.as_ref().expect("it runs");
        let (straight, _) = serve(&json!({ "it": { "url": peer.url() } })).await;
        let mut direct = Client::http(straight.address, version, json!({})).await;
        direct.await_counts("sleep", [3, 1, 2]).await;
    }
}

#[tokio::test]
async fn over_http_calls_of_a_server_that_is_changed_end_or_are_told() {
    tokio::join!(
        over_http(LEGACY, Behind::Stdio, "server_changed"),
        over_http(LEGACY, Behind::Http, "server_changed"),
        over_http(MODERN, Behind::Stdio, "server_changed"),
        over_http(MODERN, Behind::Http, "server_changed"),
    );
}

#[tokio::test]
async fn over_http_calls_of_a_server_that_is_removed_end_or_are_told() {
    tokio::join!(
        over_http(LEGACY, Behind::Stdio, "server_removed"),
        over_http(LEGACY, Behind::Http, "server_removed"),
        over_http(MODERN, Behind::Stdio, "server_removed"),
        over_http(MODERN, Behind::Http, "server_removed"),
    );
}

/// A call that needs an answer of its client gets it although its server is gone from the config.
#[tokio::test]
async fn what_a_call_asks_can_be_answered_while_its_server_goes() {
    let server = Server::fixture(Behind::Stdio).await;
    let (gateway, file) = serve(&json!({ "it": server.entry })).await;
    let mut client = Client::http(gateway.address, LEGACY, json!({ "elicitation": {} })).await;
    let mut calling = client.again().await;
    calling.send("tools/call", json!({ "name": "test_elicitation", "arguments": { "message": "who?" } })).await;
    assert!(calling.head().await.is_sse());
    let (_, ask) = calling.message().await.expect("a question");
    assert_eq!(ask["method"], "elicitation/create", "{ask}");
    reload(gateway.pid(), &file, &after("server_removed", &server.entry));
    reloaded(&gateway).await;
    client.answer(&ask, json!({ "action": "accept", "content": { "username": "ann", "email": "a@b.c" } })).await;
    let (_, answer) = calling.message().await.expect("an answer");
    assert!(answer["result"].to_string().contains("ann"), "{answer}");
}

#[tokio::test]
async fn on_stdio_calls_end_or_are_told_and_the_client_can_begin_anew() {
    for version in [LEGACY, MODERN] {
        let server = Server::fixture(Behind::Stdio).await;
        let mut client = Client::stdio(&server, version, json!({})).await;
        let short = client.send("tools/call", sleep(3_000)).await;
        let long = client.send("tools/call", sleep(60_000)).await;
        client.await_counts("sleep", [2, 0, 0]).await;
        let (pid, file) = (client.process().pid().expect("it runs"), client.folder().join("mcp.json"));
        reload(pid, &file, &after("server_changed", &server.entry));
        // What comes first is the answer of the short one, then the error of the long one.
        let good = timeout(PATIENCE, client.rest(&short)).await.expect("in time");
        assert!(good.last().is_some_and(|answer| answer.get("result").is_some()), "{version}: {good:?}");
        let said = timeout(PATIENCE, client.rest(&long)).await.expect("an answer");
        check(&said, "server_changed");
        if version == LEGACY {
            let echo = json!({ "name": "echo", "arguments": { "message": "hi" } });
            let refused = client.run("tools/call", echo).await.pop().expect("an answer");
            assert_eq!(refused["error"]["data"]["reason"], "session_ended", "{refused}");
            let hello = json!({ "protocolVersion": LEGACY, "capabilities": {},
                "clientInfo": { "name": "raw", "version": "1" } });
            let welcome = client.run("initialize", hello).await.pop().expect("an answer");
            assert_eq!(welcome["result"]["protocolVersion"], LEGACY, "{welcome}");
            client.notify("notifications/initialized", json!({})).await;
        }
        assert_eq!(client.call("echo", json!({ "message": "hi" })).await["content"][0]["text"], "hi");
    }
}
