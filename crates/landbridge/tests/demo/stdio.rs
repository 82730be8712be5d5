//! `demo` on stdin and stdout: the demo alone, and a crash that is one of the process.

use lb_peers::raw::RawStdio;
use serde_json::{Value, json};

use crate::{landbridge, soon};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

async fn open(sample: &str) -> RawStdio {
    let mut command = landbridge(&["demo"]);
    command.env("SAMPLE_TOOL_NAME", sample);
    let mut demo = RawStdio::spawn(command).expect("the binary starts");
    let hello: Value = serde_json::from_str(&soon(demo.ask(HELLO)).await.expect("an answer")).expect("JSON");
    assert_eq!(hello["result"]["serverInfo"]["name"], "landbridge-demo", "{hello}");
    demo.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.expect("sent");
    demo
}

fn call(id: u32, tool: &str, arguments: Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

#[tokio::test]
async fn the_demo_is_served_alone_on_stdio() {
    let mut demo = open("my_tool").await;
    let said = soon(demo.ask(&call(1, "my_tool", json!({ "value": "x" })))).await.expect("an answer");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["result"]["content"][0]["text"], "test string print: x");
    // There is no stream to close, so that closing it does nothing, and nobody hears of it.
    demo.send(call(2, "simulate_work", json!({ "steps": 2, "delayMs": 50, "closeSseAfterStep": 1 })).as_bytes())
        .await
        .expect("sent");
    let mut lines = Vec::new();
    loop {
        let line = soon(demo.text()).await.expect("a line");
        let end = line.contains("\"id\":2");
        lines.push(line);
        if end {
            break;
        }
    }
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("landbridge/pause")), "{lines:?}");
    demo.close_stdin();
    assert_eq!(soon(demo.wait()).await.expect("it ends").code(), Some(0));
}

/// Runs a program on a terminal, types the end of the input, and prints what it says.
const TERMINAL: &str = "
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b''
while b'Ctrl-D' not in said:
    said += os.read(fd, 1000)
os.write(fd, b'\\x04')
print(said.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

#[tokio::test]
async fn whoever_starts_it_on_a_terminal_is_told_what_it_waits_for() {
    for args in [&["stdio"][..], &["demo"]] {
        let mut command = tokio::process::Command::new("python3");
        command.args(["-c", TERMINAL, crate::LANDBRIDGE]).args(args).kill_on_drop(true);
        let output = soon(command.output()).await.expect("its output");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("talks to an MCP client on stdin and stdout"), "{args:?}: {said}");
        assert!(said.trim_end().ends_with(" 0"), "it ends: {said}");
    }
}

#[tokio::test]
async fn a_crash_ends_the_process_with_its_code() {
    for code in [3, 0, 77] {
        let mut demo = open("").await;
        demo.send(call(1, "crash", json!({ "code": code })).as_bytes()).await.expect("sent");
        assert_eq!(soon(demo.wait()).await.expect("it ends").code(), Some(code));
    }
}
