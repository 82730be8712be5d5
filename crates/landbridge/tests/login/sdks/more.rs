//! A client that needs more than its token may: it follows the challenge by itself, and then it works.

use std::process::Stdio;

use lb_peers::harness::peer as program;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{STEP_MAX, logged_in, node, peer, script};
use crate::LANDBRIDGE;
use crate::world::{ALLOW, World};

#[tokio::test]
async fn the_typescript_sdk_asks_for_what_it_lacks_and_goes_on() {
    let fixture = program(LANDBRIDGE, "fixture");
    let world = World::start(&format!("allow_commands = [{fixture:?}]\n{ALLOW}"), &[]).await;
    let call = json!({ "name": "add_server", "arguments": { "name": "added", "command": fixture } });
    let mut command = script(node(), "sdk.mjs");
    command.args(["2", &peer("typescript-v2"), &format!("{}/mcp", world.url)]).env("MORE", call.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let (mut to, mut lines) =
        (child.stdin.take().expect("piped"), BufReader::new(child.stdout.take().expect("piped")).lines());
    let mut said = async || {
        let line = tokio::time::timeout(STEP_MAX, lines.next_line()).await.expect("in time").expect("text");
        serde_json::from_str::<Value>(&line.expect("it goes on")).expect("JSON")
    };
    // Twice: to get in, and because its token may not add a server although its person may.
    for _ in 0..2 {
        let mut told = said().await;
        if told["authorize"].is_null() {
            assert_eq!(told["refreshed"], true, "{told}");
            told = said().await;
            let start = told["authorize"].as_str().unwrap_or_else(|| panic!("{told}"));
            assert!(start.contains("mcp%3Aadmin"), "it asks for what the challenge named: {start}");
        }
        let start = told["authorize"].as_str().unwrap_or_else(|| panic!("{told}"));
        let came = logged_in(start, None, "carol").await;
        to.write_all(format!("{came}\n").as_bytes()).await.expect("it listens");
    }
    let told = said().await;
    let has = |scopes: &Value| scopes.as_str().is_some_and(|scopes| scopes.contains("mcp:admin"));
    assert!(!has(&told["before"]) && has(&told["after"]), "{told}");
    assert_eq!(told["lacking"], "UnauthorizedError", "{told}");
    assert!(told["answer"]["isError"] != true && told["listed"].to_string().contains("added"), "{told}");
    let status = tokio::time::timeout(STEP_MAX, child.wait()).await.expect("in time").expect("it ends");
    assert!(status.success());
}
