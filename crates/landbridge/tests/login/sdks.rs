//! Clients of others, as their users have them: all they are given is a URL.

use std::process::Stdio;
use std::time::Duration;

use lb_peers::idp::{Browser, Decision};
use lb_peers::installed::{file, folder, node};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::world::{ALLOW, REDIRECT, World};

/// How long each of their steps may take.
const STEP_MAX: Duration = Duration::from_secs(45);

/// Runs one from its start to what its call answered.
async fn gets_in(mut command: Command) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut said = async || {
        let line = tokio::time::timeout(STEP_MAX, lines.next_line()).await.expect("in time").expect("text");
        serde_json::from_str::<Value>(&line.expect("it goes on")).expect("JSON")
    };
    let told = said().await;
    let start = told["authorize"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    let mut browser = Browser::default();
    let login = browser.login(&start, REDIRECT, "alice", Decision::Approve);
    let stopped = tokio::time::timeout(STEP_MAX, login).await.expect("a login ends").expect("it goes on");
    assert!(stopped.page.is_none(), "{:?} {:?}", stopped.page, stopped.trace);
    let mut to = child.stdin.take().expect("piped");
    to.write_all(format!("{}\n", stopped.url).as_bytes()).await.expect("it listens");
    let told = said().await;
    assert!(told["tools"].as_u64().is_some_and(|tools| 20 < tools), "{told}");
    assert!(told["answer"].to_string().contains("it"), "{told}");
    let status = tokio::time::timeout(STEP_MAX, child.wait()).await.expect("in time").expect("it ends");
    assert!(status.success());
}

fn script(name: &str) -> String {
    format!("{}/tests/login/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test]
async fn the_typescript_sdks_find_their_way_in() {
    let world = World::start(ALLOW, &[]).await;
    for (version, peer) in [("1", "typescript-v1"), ("2", "typescript-v2")] {
        let mut command = Command::new(node());
        command.arg(script("sdk.mjs")).arg(version).arg(folder(peer)).arg(format!("{}/mcp", world.url));
        gets_in(command).await;
    }
}

#[tokio::test]
async fn the_python_sdk_finds_its_way_in() {
    let world = World::start(ALLOW, &[]).await;
    let mut command = Command::new(file("python", "bin/python"));
    command.arg(script("sdk.py")).arg(format!("{}/mcp", world.url));
    gets_in(command).await;
}
