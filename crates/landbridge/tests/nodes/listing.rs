//! `landbridge nodes`: what it says of the nodes, and when there is nothing to say.

use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::Instant;

use lb_peers::harness::peer;
use lb_peers::valkey::Valkey;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{Client, DOOR, KEY, LANDBRIDGE, PATIENCE, start, start_with};

async fn nodes(args: &[&str]) -> Output {
    nodes_with(KEY, args).await
}

async fn nodes_with(key: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(LANDBRIDGE);
    command.arg("nodes").args(args).env("LANDBRIDGE_KEY", key).env("XDG_CONFIG_HOME", folder.path());
    command.stdin(Stdio::null()).output().await.expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The listed nodes, once they are as `fits` says.
async fn listed(store: &str, fits: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let output = nodes(&["--store", store, "--json"]).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("an array");
        if fits(&rows) {
            return rows;
        }
        assert!(began.elapsed() < PATIENCE, "{rows:?}");
    }
}

#[tokio::test]
async fn every_node_is_listed_with_what_it_has_and_one_that_has_ended_is_not() {
    let store = Valkey::start();
    let none = nodes(&["--store", &store.url()]).await;
    assert_eq!((none.status.code(), text(&none.stdout).as_str()), (Some(0), "no node uses this store now\n"));
    let (one, _two) = (start(&store.url(), DOOR).await, start(&store.url(), &[]).await);
    for _ in 0..3 {
        // With a timer: a session that has nothing to do goes to rest, and nobody has it.
        Client::begin(one.address).await.remember(one.address, "later").await;
    }
    let rows = listed(&store.url(), |rows| rows.len() == 2 && rows.iter().any(|row| row["sessions"] == 3)).await;
    let other = nodes_with("another-key-of-more-than-thirty-two-characters", &["--store", &store.url()]).await;
    assert_eq!((other.status.code(), other.stdout.is_empty()), (Some(1), true), "who has another key is told so");
    let why = text(&other.stderr);
    assert!(why.contains("nodes use this store (2)") && why.contains("LANDBRIDGE_KEY"), "{why}");
    for row in &rows {
        let keys = row.as_object().expect("an object").keys().map(String::as_str);
        // Where others reach it is said of those only that can be reached.
        let mut found: Vec<&str> = keys.filter(|key| *key != "url").collect();
        found.sort_unstable();
        let wanted = ["draining", "id", "lagMs", "lastSeenMs", "sessions", "startedAt", "store", "streams", "version"];
        assert_eq!(found, wanted, "{row}");
        assert_eq!(row["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!((&row["draining"], &row["store"]["ok"]), (&json!(false), &json!(true)), "{row}");
        assert_eq!(row["store"]["type"], "valkey", "{row}");
        assert!(row["store"]["rttMs"].is_number() && row["lagMs"].is_number() && row["streams"] == 0, "{row}");
        assert!(row["lastSeenMs"].as_u64().is_some_and(|ms| ms < 10_000), "renewed every 3 s, over after 10: {row}");
        assert!(row["startedAt"].as_str().is_some_and(|at| at.starts_with("20") && at.ends_with('Z')), "{row}");
    }
    let doors: Vec<bool> =
        rows.iter().map(|row| row["url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:"))).collect();
    assert_eq!(doors.iter().filter(|door| **door).count(), 1, "one of them has a door: {rows:?}");

    let table = text(&nodes(&["--store", &store.url()]).await.stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    for word in ["node", "url", "version", "sessions", "streams", "last seen", "lag", "store", "state"] {
        assert!(lines[0].contains(word), "{word} in {table}");
    }
    assert!(lines[1..].iter().all(|line| line.ends_with("serving")), "{table}");
    assert!(table.contains("none: --node-listen"), "{table}");

    // One that ends in order is gone at once, and not when its lease is over.
    let id = rows.iter().find(|row| row["sessions"] == 3).map(|row| row["id"].clone()).expect("it is there");
    let pid = i32::try_from(one.pid()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::TERM).expect("it is there");
    listed(&store.url(), |rows| rows.len() == 1 && rows.iter().all(|row| row["id"] != id)).await;
}

#[tokio::test]
async fn a_node_that_lets_its_calls_end_is_listed_as_draining() {
    let store = Valkey::start();
    let servers = json!({ "it": { "command": peer(LANDBRIDGE, "fixture") } });
    let mut node = start_with(&store.url(), &servers, &["--drain-timeout", "20s"]).await;
    let (client, address) = (Client::begin(node.address).await, node.address);
    let sleep = json!({ "server": "it", "tool": "sleep", "args": { "ms": 6_000 } });
    let calling = client.call(address, "execute_tool", sleep);
    let stopping = async {
        let began = Instant::now();
        while !client
            .call(address, "execute_tool", json!({ "server": "it", "tool": "counters" }))
            .await
            .1
            .contains("sleep")
        {
            assert!(began.elapsed() < PATIENCE, "the call does not begin");
        }
        let row = |rows: &[Value]| rows.first().map(|row| row["draining"].clone());
        let rows = listed(&store.url(), |rows| rows.len() == 1).await;
        assert_eq!(row(&rows), Some(json!(false)), "{rows:?}");
        let pid = i32::try_from(node.pid()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::TERM).expect("it is there");
        listed(&store.url(), |rows| row(rows) == Some(json!(true))).await;
        let table = text(&nodes(&["--store", &store.url()]).await.stdout);
        assert!(table.lines().nth(1).is_some_and(|line| line.ends_with("draining")), "{table}");
    };
    let ((status, said), ()) = tokio::join!(calling, stopping);
    assert!(status == 200 && !said.contains("isError\":true"), "what ran has ended well: {status} {said}");
    let ended = tokio::time::timeout(PATIENCE, node.child().wait()).await.expect("it ends").expect("its end");
    assert_eq!(ended.code(), Some(0), "{}", node.said());
    listed(&store.url(), <[Value]>::is_empty).await;
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_is_one_kind_of_failure_and_none_at_all_another() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
    for args in [&["--json"][..], &[]] {
        let url = format!("valkey://127.0.0.1:{port}");
        let away = nodes(&[&["--store", &url], args].concat()).await;
        assert_eq!(away.status.code(), Some(1), "{}", text(&away.stderr));
        assert!(away.stdout.is_empty() && text(&away.stderr).contains("store"), "{}", text(&away.stderr));
        let none = nodes(args).await;
        assert_eq!(none.status.code(), Some(2), "{}", text(&none.stderr));
        assert!(text(&none.stderr).contains("--store valkey://HOST:PORT"), "{}", text(&none.stderr));
    }
}
