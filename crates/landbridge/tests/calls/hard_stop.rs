//! A stop that cannot be had in order: it ends at its bound all the same, and leaves nothing behind.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use lb_peers::harness::{Gateway, config, listening};
use lb_peers::procs;
use lb_peers::raw::RawHttp;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{Instant, timeout};

use crate::LANDBRIDGE;
use crate::client::LEGACY;

const STUBBORN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/calls/stubborn.py");
/// Two seconds in all, where 35 are usual. A child is given five from the end of its input to its last signal.
const SOON: [&str; 4] = ["--drain-timeout", "1s", "--close-timeout", "1s"];
/// Ten times that.
const SOON_MAX: Duration = Duration::from_secs(20);

fn entry(mark: &str, called: &Path) -> Value {
    json!({ "command": "python3", "args": [STUBBORN, called], "env": { "LANDBRIDGE_TEST_MARK": mark } })
}

fn terminate(pid: u32) {
    let killed = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status();
    assert!(killed.expect("kill runs").success());
}

/// The code that it ends with.
async fn code(child: &mut Child) -> Option<i32> {
    timeout(SOON_MAX, child.wait()).await.expect("it ends at its bound").expect("its end").code()
}

/// Neither the call nor the child listens to anything.
#[tokio::test]
async fn a_stop_ends_at_its_bound_with_1_and_leaves_no_process() {
    let mark = format!("calls-hard-stop-{}", std::process::id());
    let folder = tempfile::tempdir().expect("a folder");
    let called = folder.path().join("called");
    let mut gateway = Gateway::serve_with(LANDBRIDGE, json!({ "it": entry(&mark, &called) }), &SOON).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let session = http.initialize("/mcp/server/it", LEGACY).await.expect("a session");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "x" } }).to_string();
    let (path, headers) = ("/mcp/server/it", session.headers());
    let calling = async {
        // Whatever it is told, if anything: it must not wait for ever.
        drop(http.post(path, &headers, call.as_bytes()).await);
    };
    let stopping = async {
        procs::until(SOON_MAX, "the call", || called.exists()).await;
        assert!(2 <= procs::marked(&mark).len(), "the server and what it left behind");
        let begun = Instant::now();
        terminate(gateway.pid());
        (code(gateway.child()).await, begun.elapsed())
    };
    let ((), (code, took)) = timeout(2 * SOON_MAX, async { tokio::join!(calling, stopping) }).await.expect("both end");
    assert_eq!(code, Some(1), "{}", gateway.said());
    assert!(Duration::from_secs(1) < took, "calls have their time: {took:?}");
    let said = gateway.said();
    assert!(said.contains("could not stop in order within 2 s; stopping at once"), "{said}");
    procs::gone(SOON_MAX, || procs::marked(&mark)).await;
}

/// A gateway whose log is a pipe that nobody reads any more, with every thread of it waiting for that.
async fn stuck(mark: &str) -> (Child, tempfile::TempDir, Lines<BufReader<ChildStderr>>) {
    let (folder, file) = config(&json!({ "it": entry(mark, Path::new("/dev/null")) }));
    let mut command = Command::new(LANDBRIDGE);
    command.env("XDG_STATE_HOME", folder.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "trace", "--config"]).arg(&file).args(SOON);
    let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).kill_on_drop(true).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let address = loop {
        let line = lines.next_line().await.expect("a line").expect("it says where it listens");
        if let Some(address) = listening(&line) {
            break address;
        }
    };
    let mut http = RawHttp::connect(address).await.expect("it listens");
    http.initialize("/mcp/server/it", LEGACY).await.expect("a session");
    procs::until(SOON_MAX, "both processes", || 2 <= procs::marked(mark).len()).await;
    // Several at a time: each thread of it shall find out.
    let mut silent = 0;
    while silent < 8 {
        let Ok(Ok(mut http)) = timeout(Duration::from_secs(1), RawHttp::connect(address)).await else { break };
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
        silent +=
            usize::from(timeout(Duration::from_millis(200), http.post("/mcp", &[], ping.as_bytes())).await.is_err());
    }
    (child, folder, lines)
}

/// A write to a full pipe waits for ever, and so did the thread that had heard the signal.
#[tokio::test]
async fn a_log_that_nobody_reads_does_not_keep_it_from_ending() {
    let mark = format!("calls-stuck-{}", std::process::id());
    // Kept open, and not read.
    let (mut child, _folder, _unread) = stuck(&mark).await;
    terminate(child.id().expect("it runs"));
    assert_eq!(code(&mut child).await, Some(1));
    procs::gone(SOON_MAX, || procs::marked(&mark)).await;
}
