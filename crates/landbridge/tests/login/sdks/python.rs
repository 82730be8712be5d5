//! The Python SDK, which follows a challenge for more within the call that was refused.

use std::process::Stdio;

use lb_peers::harness::peer as program;
use lb_peers::installed::file;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{STEP_MAX, logged_in, script};
use crate::LANDBRIDGE;
use crate::world::{ALLOW, World};

/// TypeScript 1.x is not here: it answers a challenge with its refresh token, which gives no more than it had.
#[tokio::test]
async fn the_python_sdk_asks_for_what_it_lacks_and_the_call_goes_on() {
    let fixture = program(LANDBRIDGE, "fixture");
    let world = World::start(&format!("allow_commands = [{fixture:?}]\n{ALLOW}"), &[]).await;
    let call = json!({ "name": "add_server", "arguments": { "name": "added", "command": fixture } });
    let mut command = script(file("python", "bin/python"), "sdk.py");
    command.arg(format!("{}/mcp", world.url)).env("MORE", call.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let (mut to, mut lines) =
        (child.stdin.take().expect("piped"), BufReader::new(child.stdout.take().expect("piped")).lines());
    let mut said = async || {
        let line = tokio::time::timeout(STEP_MAX, lines.next_line()).await.expect("in time").expect("text");
        serde_json::from_str::<Value>(&line.expect("it goes on")).expect("JSON")
    };
    let mut comes = async |told: &Value| {
        let start = told["authorize"].as_str().unwrap_or_else(|| panic!("{told}"));
        let came = logged_in(start, None, "carol").await;
        to.write_all(format!("{came}\n").as_bytes()).await.expect("it listens");
        start.to_owned()
    };
    comes(&said().await).await;
    assert_eq!(said().await["refreshed"], true);
    let more = comes(&said().await).await;
    assert!(more.contains("mcp%3Aadmin"), "it asks for what the challenge named: {more}");
    let told = said().await;
    let has = |scopes: &Value| scopes.as_str().is_some_and(|scopes| scopes.contains("mcp:admin"));
    assert!(!has(&told["before"]) && has(&told["after"]), "{told}");
    assert!(told["answer"]["is_error"] != true && told["listed"].to_string().contains("added"), "{told}");
    let status = tokio::time::timeout(STEP_MAX, child.wait()).await.expect("in time").expect("it ends");
    assert!(status.success());
}
