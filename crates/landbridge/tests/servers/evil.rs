//! Servers that misbehave behind the tools: each fault ends in a clear error or result, and the session goes on.

use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::raw::RawHttp;
use lb_peers::tools::Reply;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::desk::{Desk, FRONTS, Front, task_id};
use crate::world::add;

/// What a fault leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The true answer, or one that stands for it.
    Answer,
    /// An error that names the server, within seconds.
    Error,
    /// Nothing: the call becomes a task, which is then cancelled.
    Task,
    /// Either of the first two.
    Any,
}

const ON_STDIO: &[(&str, End)] = &[
    ("die-before-reply", End::Error),
    ("die-after-reply", End::Answer),
    ("half-line", End::Task),
    ("garbage", End::Answer),
    ("flood", End::Answer),
    ("hang", End::Task),
    ("slow", End::Answer),
    ("swapped-ids", End::Answer),
    ("stale-ids", End::Answer),
    ("huge-line", End::Error),
    ("close-stdout", End::Error),
    ("ignore-term", End::Answer),
    ("progress-storm", End::Answer),
    ("list-changed-first", End::Answer),
];

const ON_HTTP: &[(&str, End)] = &[
    ("die-before-reply", End::Error),
    ("die-after-reply", End::Answer),
    ("half-line", End::Error),
    ("garbage", End::Error),
    ("flood", End::Answer),
    ("hang", End::Task),
    ("slow", End::Answer),
    ("swapped-ids", End::Answer),
    ("stale-ids", End::Answer),
    ("huge-line", End::Error),
    ("progress-storm", End::Answer),
    ("list-changed-first", End::Answer),
    ("wrong-stream", End::Any),
];

/// Whether the server is gone for good after it, over HTTP where nobody starts it again.
fn kills(fault: &str) -> bool {
    fault.starts_with("die-")
}

async fn check(desk: &mut Desk, server: &str, fault: &str, end: End) {
    let case = format!("{server} {fault}");
    let start = Instant::now();
    let timeout_ms = if end == End::Task { 1_000 } else { 40_000 };
    let arguments = json!({ "fault": fault, "message": "the answer" });
    let call = json!({ "server": server, "tool": "strike", "args": arguments, "timeout_ms": timeout_ms });
    let reply = desk.call("execute_tool", call).await;
    assert!(start.elapsed() < Duration::from_secs(35), "{case}: {:?}", start.elapsed());
    match end {
        End::Answer => {
            assert!(!reply.is_error() && is_result(&reply), "{case}: {reply:.2000}", reply = reply.to_string())
        }
        End::Error => is_clear(&case, &reply),
        End::Task => {
            let task = task_id(&reply);
            desk.ok("cancel_task", json!({ "task_id": task })).await;
            let row = desk.ok("get_task", json!({ "task_id": task })).await.json();
            assert_eq!(row["status"], "cancelled", "{case}: {row}");
        }
        End::Any if reply.is_error() => is_clear(&case, &reply),
        End::Any => assert!(is_result(&reply), "{case}: {reply}"),
    }
}

fn is_result(reply: &Reply) -> bool {
    let promoted = reply.objects().any(|(_, value)| value.get("task").is_some());
    reply.result().is_object() && !promoted && !reply.blocks().is_empty()
}

fn is_clear(case: &str, reply: &Reply) {
    assert!(reply.is_error() && reply.text().starts_with("Failed to execute tool: "), "{case}: {reply}");
    assert!(reply.code().starts_with("TOOL_ERR_"), "{case}: {reply}");
    assert!(reply.text().len() < 1_000, "{case}: a message, not a dump");
}

async fn over_stdio(front: Front, era: &str) {
    let mut desk = Desk::open(front, json!({})).await;
    let policy = json!({ "baseDelayMs": 50, "maxAttempts": 20 });
    let good = json!({ "command": peer(LANDBRIDGE, "fixture"), "args": [] });
    desk.ok("add_server", add("good", &good)).await;
    for (fault, end) in ON_STDIO {
        let entry = json!({ "command": peer(LANDBRIDGE, "evil"), "args": ["--fault", fault, "--era", era], "restartConfig": policy });
        desk.ok("add_server", add("evil", &entry)).await;
        check(&mut desk, "evil", fault, *end).await;
        desk.works("good").await;
        // Half a line spoils the pipe for whatever follows; anything else must be usable again.
        if *fault != "half-line" {
            if kills(fault) {
                // A call may still meet the process that is about to end.
                desk.event("server_reconnected").await;
            }
            let calm = desk
                .call("execute_tool", json!({ "server": "evil", "tool": "calm", "args": { "message": "calm" } }))
                .await;
            assert_eq!(calm.text(), "calm", "{front:?} {era} after {fault}: {calm}");
        }
        desk.ok("remove_server", json!({ "name": "evil" })).await;
    }
}

async fn over_http(front: Front, era: &str) {
    let mut desk = Desk::open(front, json!({})).await;
    let good = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
    desk.ok("add_server", add("good", &json!({ "url": good.url() }))).await;
    for (fault, end) in ON_HTTP {
        let evil = HttpPeer::start(&peer(LANDBRIDGE, "evil"), &["--fault", fault, "--era", era]).await;
        desk.ok("add_server", add("evil", &json!({ "url": evil.url() }))).await;
        check(&mut desk, "evil", fault, *end).await;
        desk.works("good").await;
        if !kills(fault) {
            let calm = desk
                .call("execute_tool", json!({ "server": "evil", "tool": "calm", "args": { "message": "calm" } }))
                .await;
            assert_eq!(calm.text(), "calm", "{front:?} {era} after {fault}: {calm}");
        }
        desk.ok("remove_server", json!({ "name": "evil" })).await;
    }
}

#[tokio::test]
async fn every_fault_of_a_legacy_program_is_survived_over_stdio() {
    over_stdio(Front::Stdio, "legacy").await;
}

#[tokio::test]
async fn every_fault_of_a_legacy_program_is_survived_over_http() {
    over_stdio(Front::Http, "legacy").await;
}

#[tokio::test]
async fn every_fault_of_a_modern_program_is_survived() {
    over_stdio(Front::ModernHttp, "modern").await;
}

#[tokio::test]
async fn every_fault_of_a_legacy_remote_server_is_survived() {
    over_http(Front::Http, "legacy").await;
}

#[tokio::test]
async fn every_fault_of_a_modern_remote_server_is_survived() {
    over_http(Front::ModernStdio, "modern").await;
}

#[tokio::test]
async fn every_fault_that_there_is_is_tried() {
    let output = std::process::Command::new(peer(LANDBRIDGE, "evil")).arg("--list-faults").output().expect("evil runs");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (fault, transports) = line.split_once('\t').expect("a name and its transports");
        let tried = |faults: &[(&str, End)]| faults.iter().any(|(name, _)| *name == fault);
        if fault == "odd-content" {
            continue; // its numbers are beyond the client used here; see below
        }
        assert!(!transports.contains("stdio") || tried(ON_STDIO), "{fault} over stdio");
        assert!(!transports.contains("http") || tried(ON_HTTP), "{fault} over HTTP");
    }
}

#[tokio::test]
async fn a_storm_of_events_does_not_drown_a_question_of_another_server() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        let evil = json!({ "command": peer(LANDBRIDGE, "evil"), "args": ["--fault", "progress-storm,flood"] });
        desk.ok("add_server", add("evil", &evil)).await;
        desk.ok("add_server", add("good", &crate::world::script(&json!({})))).await;
        let storm = desk.start("evil", "strike", json!({ "fault": "progress-storm" }), 40_000).await;
        let asked = desk.run("good", "elicit", json!({})).await;
        let rows: Value = desk.ok("get_elicitations", json!({})).await.json();
        let answer = json!({ "request_id": rows[0]["requestId"], "action": "decline" });
        desk.ok("respond_to_elicitation", answer).await;
        let result = desk.ok("get_task_result", json!({ "task_id": task_id(&asked) })).await;
        assert!(result.text().contains("decline"), "{front:?} {result}");
        let storm = storm.wait().await;
        assert!(!storm.is_error(), "{front:?} {storm}");
    }
}

#[tokio::test]
async fn odd_content_is_passed_on_as_it_is() {
    let evil = json!({ "command": peer(LANDBRIDGE, "evil"), "args": ["--fault", "odd-content"] });
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({ "evil": evil }), &[]).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let session = http.initialize("/mcp", "2025-11-25").await.expect("a session");
    let body = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"execute_tool","arguments":{"server":"evil","tool":"strike"}}}"#;
    let answer = http.post("/mcp", &session.headers(), body).await.expect("an answer").text();
    for part in [r#""type":"hologram""#, r#""huge":1e400"#, r#""zero":-0"#, "18446744073709551615", r"esc\u0061pe"] {
        assert!(answer.contains(part), "{part} is not in {answer}");
    }
}
