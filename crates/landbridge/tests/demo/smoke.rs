//! `landbridge smoke`: against its own demo, against a gateway, against nothing, and the process it leaves behind: none.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{Demo, ends, landbridge};

/// The demo servers that run below this process.
fn demos(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let line = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        if line.split('\0').any(|variable| variable == format!("SMOKE_TEST_OF={parent}")) {
            found.push(pid);
        }
    }
    found
}

#[tokio::test]
async fn smoke_starts_a_demo_of_its_own_and_ends_it() {
    let mark = std::process::id();
    let mut command = landbridge(&["smoke", "--json"]);
    let (code, stdout, stderr) = ends(command.env("SMOKE_TEST_OF", mark.to_string())).await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(report["ok"], true);
    let steps = report["steps"].as_array().expect("steps");
    assert!(steps.iter().all(|step| step["outcome"] == "ok"), "{stdout}");
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().expect("a name")).collect();
    let expect = [
        "the server is up",
        "initialize gives a session",
        "add_note",
        "the server is healthy",
        "DELETE ends the session",
        "its id is gone",
        "initialize with resumption",
        "GET opens a primed stream",
        "a closed stream is resumed",
        "DELETE ends that session too",
        "that id is gone too",
        "the demo server ends",
    ];
    assert_eq!(names, expect);
    assert_eq!(demos(mark), [0; 0]);
    let address = report["url"].as_str().and_then(|url| url.strip_prefix("http://")?.strip_suffix("/mcp"));
    let address = address.expect("an address");
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens on {address} any more");
}

#[tokio::test]
async fn the_report_reads_well_and_covers_a_server_by_its_url() {
    let demo = Demo::start().await;
    let url = format!("http://{}/mcp", demo.address);
    let (code, stdout, stderr) = ends(&mut landbridge(&["smoke", &url])).await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.starts_with(&format!("Smoke test of {url}\n\n  ok    the server is up")), "{stdout}");
    assert!(stdout.contains("2 steps before, 2 after, each once"), "{stdout}");
    assert!(stdout.ends_with("\n11 passed, 0 failed, 0 not applicable\n"), "{stdout}");
}

#[tokio::test]
async fn what_a_server_has_no_tool_for_is_not_applicable() {
    let gateway = lb_peers::harness::Gateway::serve_tools(crate::LANDBRIDGE, serde_json::json!({}), &[]).await;
    let url = format!("http://{}/mcp", gateway.address);
    let (code, stdout, stderr) = ends(&mut landbridge(&["smoke", &url])).await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("it has no tool add_note") && stdout.contains("it has no tool simulate_work"), "{stdout}");
    assert!(stdout.ends_with("\n9 passed, 0 failed, 2 not applicable\n"), "{stdout}");
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_with_a_reason() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let start = Instant::now();
    let (code, stdout, stderr) = ends(&mut landbridge(&["smoke", &format!("http://{address}")])).await;
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(start.elapsed() < Duration::from_secs(8), "a refusal is told at once: {:?}", start.elapsed());
    assert!(stdout.contains("FAIL") && stdout.contains("is the server running?"), "{stdout}");
    assert!(stderr.contains("one step of the smoke test failed"), "{stderr}");
    let (code, _, stderr) = ends(&mut landbridge(&["smoke", "localhost:8080"])).await;
    assert_eq!(
        (code, stderr.contains("give an http or https URL, as in http://127.0.0.1:8080/mcp")),
        (Some(2), true),
        "{stderr}"
    );
}

/// What a server does with a GET of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Refused,
    Silent,
    Unprimed,
}

/// Answers one request as a small server does that keeps no session.
async fn answer(mut socket: TcpStream, stream: Stream) -> Option<()> {
    let mut seen = Vec::new();
    let head = loop {
        socket.read_buf(&mut seen).await.ok().filter(|count| *count != 0)?;
        if let Some(at) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let text = String::from_utf8_lossy(&seen[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    while seen.len() < head + length.unwrap_or(0) {
        socket.read_buf(&mut seen).await.ok().filter(|count| *count != 0)?;
    }
    let message: Value = serde_json::from_slice(&seen[head..]).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({ "protocolVersion": message["params"]["protocolVersion"], "capabilities": {},
            "serverInfo": { "name": "small", "version": "1" } }),
        _ => json!({ "tools": [] }),
    };
    let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
    let reply = |status: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let said = match (text.split(' ').next()?, stream) {
        ("post", _) if message["id"].is_null() => reply("202 Accepted", ""),
        ("post", _) => reply("200 OK", &body),
        ("get", Stream::Refused) | ("delete", _) => reply("405 Method Not Allowed", ""),
        ("get", _) if text.starts_with("get /health") => reply("404 Not Found", ""),
        ("get", Stream::Silent) => events.to_owned(),
        _ => format!("{events}data: {{}}\n\n"),
    };
    socket.write_all(said.as_bytes()).await.ok()?;
    if said.starts_with(events) {
        // Open until the client has had enough.
        while socket.read_buf(&mut seen).await.is_ok_and(|count| count != 0) {}
    }
    Some(())
}

#[tokio::test]
async fn what_a_server_need_not_have_is_not_applicable_and_soon() {
    for (stream, want) in [
        (Stream::Refused, "it has no stream to GET (HTTP 405"),
        (Stream::Silent, "its stream has no event within 3 s"),
        (Stream::Unprimed, "its stream does not begin with a priming event"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut all = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                all.spawn(answer(socket, stream));
            }
        });
        let start = Instant::now();
        let (code, stdout, stderr) = ends(&mut landbridge(&["smoke", &url])).await;
        assert_eq!(code, Some(0), "{stream:?}: {stdout}{stderr}");
        assert!(stdout.contains(want) && stdout.contains(" 0 failed"), "{stream:?}: {stdout}");
        assert!(stdout.contains("; it keeps no sessions") && stdout.contains("the session was not ended"), "{stdout}");
        assert!(start.elapsed() < Duration::from_secs(25), "{stream:?} took {:?}", start.elapsed());
    }
}
