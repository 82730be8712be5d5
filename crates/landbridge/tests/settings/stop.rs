//! Signals are heard to the very end.

use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::world::{PATIENCE, Run, World, arg, server, until};

/// How many descriptors of a process are the same as its stdin.
fn readers_of_stdin(pid: u32) -> usize {
    let folder = format!("/proc/{pid}/fd");
    let Ok(stdin) = std::fs::read_link(format!("{folder}/0")) else { return 0 };
    let is_stdin = |path: &Path| std::fs::read_link(path).is_ok_and(|link| link == stdin);
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    all.filter(|entry| is_stdin(&entry.path())).count()
}

#[tokio::test]
async fn after_the_end_of_stdin_signals_still_count() {
    let world = World::new();
    let config = world.servers(&json!({ "it": server("1") }));
    let mut command = world.landbridge(&["stdio", "--config", arg(&config)]);
    let mut run = Run::start(command.stdin(Stdio::piped()));
    let mut write = run.child.stdin.take().expect("a pipe");
    let mut read = BufReader::new(run.child.stdout.take().expect("a pipe")).lines();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    write.write_all(format!("{hello}\n").as_bytes()).await.expect("written");
    assert!(read.next_line().await.expect("a line").expect("an answer").contains("protocolVersion"));
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "execute_tool",
        "arguments": { "server": "it", "tool": "hold" } } });
    write.write_all(format!("{call}\n").as_bytes()).await.expect("written");
    let pid = run.child.id().expect("it runs");
    assert_eq!(readers_of_stdin(pid), 2, "one to read, and the one that it was started with");
    drop(write);
    until("the end of stdin to be seen", || readers_of_stdin(pid), |readers| *readers == 1).await;
    run.signal(Signal::TERM);
    run.says("once more to stop at once", 1).await;
    run.signal(Signal::TERM);
    let ended = tokio::time::timeout(PATIENCE, run.child.wait()).await.expect("it ends").expect("its end");
    assert_eq!(ended.code(), Some(130), "{}", run.said());
}
