//! Servers on stdio that answer the era probe late, never, with any error code, or by exiting.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, LANDBRIDGE, LEGACY, MODERN, Server, Wire};

/// The server with one way of answering the probe, and where it writes down what it receives.
fn odd(on_probe: &str) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let binary = lb_peers::harness::peer(LANDBRIDGE, "odd_probe");
    let args = json!(["--on-probe", on_probe, "--record", record]);
    (folder, Server { entry: json!({ "command": binary, "args": args }), peer: None })
}

/// The methods that reached the server, each with its process.
fn record(folder: &tempfile::TempDir) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder.path().join("record")).expect("a record");
    let words = |line: &str| line.split_once(' ').map(|(pid, method)| (pid.to_owned(), method.to_owned()));
    text.lines().filter_map(words).collect()
}

/// A modern client calls twice; the server is spoken to in the legacy era, by a process that saw no probe.
async fn check(wire: Wire, on_probe: &str, within: Duration) {
    let (folder, server) = odd(on_probe);
    let start = Instant::now();
    let mut client = Client::start(wire, &server, MODERN, json!({})).await;
    if wire == Wire::Http {
        client.conn().patience = Duration::from_secs(25);
    }
    for _ in 0..2 {
        let answer = client.run("tools/call", json!({ "name": "echo", "arguments": {} })).await;
        let answer = answer.last().expect("an answer");
        assert_eq!(answer["result"]["content"][0]["text"], "from the legacy era", "{on_probe}: {answer}");
    }
    assert!(start.elapsed() < within, "{on_probe}: {:?}", start.elapsed());
    let seen = record(&folder);
    let of = |method: &str| seen.iter().filter(|(_, seen)| seen == method).map(|(pid, _)| pid).collect::<Vec<_>>();
    let (probed, greeted) = (of("server/discover"), of("initialize"));
    assert_eq!((probed.len(), greeted.len()), (1, 1), "{on_probe}: {seen:?}");
    assert_ne!(probed, greeted, "{on_probe}: the probed process is not used");
    assert_eq!(of("tools/call").len(), 2, "{on_probe}: {seen:?}");
}

#[tokio::test]
async fn any_error_code_means_legacy() {
    for code in [-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, -32020, -32021, -32022, -1, 0, 7] {
        check(Wire::Http, &format!("error:{code}"), Duration::from_secs(9)).await;
    }
    check(Wire::Stdio, "error:-32601", Duration::from_secs(9)).await;
}

#[tokio::test]
async fn exiting_means_legacy() {
    for on_probe in ["exit:0", "exit:1", "crash", "close"] {
        check(Wire::Http, on_probe, Duration::from_secs(9)).await;
    }
    check(Wire::Stdio, "exit:1", Duration::from_secs(9)).await;
}

#[tokio::test]
async fn a_late_error_means_legacy() {
    check(Wire::Http, "late:1500", Duration::from_secs(9)).await;
}

#[tokio::test]
async fn no_answer_means_legacy_after_ten_seconds() {
    check(Wire::Http, "never", Duration::from_secs(20)).await;
}

#[tokio::test]
async fn an_answer_that_is_too_late_is_no_answer() {
    check(Wire::Http, "late:14000", Duration::from_secs(20)).await;
}

#[tokio::test]
async fn words_that_are_no_answer_mean_legacy() {
    check(Wire::Http, "empty", Duration::from_secs(9)).await;
    check(Wire::Http, "garbage", Duration::from_secs(20)).await;
}

/// A slow but modern answer counts.
#[tokio::test]
async fn a_late_welcome_is_modern() {
    let (folder, server) = odd("welcome:1500");
    let mut client = Client::start(Wire::Http, &server, MODERN, json!({})).await;
    let answer = client.run("tools/call", json!({ "name": "echo", "arguments": {} })).await;
    assert_eq!(answer.last().expect("an answer")["result"]["content"][0]["text"], "from the modern era");
    assert!(record(&folder).iter().all(|(_, method)| method != "initialize"));
}

/// A legacy client's server is not probed.
#[tokio::test]
async fn a_legacy_pair_needs_no_probe() {
    let (folder, server) = odd("exit:1");
    let mut client = Client::start(Wire::Stdio, &server, LEGACY, json!({})).await;
    client.run("tools/list", json!({})).await;
    let methods: Vec<_> = record(&folder).into_iter().map(|(_, method)| method).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list"]);
}
