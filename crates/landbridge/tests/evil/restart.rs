//! What a crash leads to: a fresh child for whoever calls next, longer and longer waits, and at last an end to it.

use std::path::Path;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::raw::handshake::Era;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::desk::{Client, LANDBRIDGE, evil, mark, with};
use crate::{procs, signals};

/// A shell writes down when it starts and becomes `evil`.
fn counted(folder: &Path, faults: &str, restart: &Value) -> Value {
    let script = format!("date +%s%N >> '{}'; exec '{}' --fault {faults}", starts_file(folder).display(), evil());
    with(json!({ "command": "sh", "args": ["-c", script] }), &json!({ "restartConfig": restart }))
}

fn starts_file(folder: &Path) -> std::path::PathBuf {
    folder.join("starts")
}

/// When the server was started so far.
fn starts(folder: &Path) -> Vec<Duration> {
    let text = std::fs::read_to_string(starts_file(folder)).unwrap_or_default();
    text.lines().map(|line| Duration::from_nanos(line.parse().expect("nanoseconds"))).collect()
}

/// Strikes and gives the error's data.
async fn crash(client: &mut Client) -> Value {
    client.call("strike", json!({})).await.error("backend_closed").1
}

#[tokio::test]
async fn restarts_wait_longer_each_time_and_then_end() {
    for era in [Era::Legacy, Era::Modern] {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = json!({ "maxAttempts": 3, "baseDelayMs": 400, "backoffMultiplier": 3 });
        let gateway =
            Gateway::serve(LANDBRIDGE, json!({ "it": counted(folder.path(), "die-before-reply", &policy) })).await;
        let mut client = Client::open(&gateway, "it", era).await;
        for _ in 0..4 {
            crash(&mut client).await;
        }
        let at = starts(folder.path());
        assert_eq!(at.len(), 4, "three restarts after the first start");
        let waits: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // A tenth less is the jitter; how much later the machine gets around to it is its own affair.
        assert!(Duration::from_millis(360) <= waits[1], "{era:?}: {waits:?}");
        assert!(Duration::from_millis(1080) <= waits[2], "{era:?}: {waits:?}");
        assert!(waits[2] < Duration::from_secs(5), "{era:?}: {waits:?}");

        for _ in 0..2 {
            let answer = client.call("calm", json!({})).await;
            let (message, data) = answer.error("crash_loop");
            assert!(
                message.starts_with("server \"it\": ") && message.contains("4 times"),
                "it counts the crashes: {message}"
            );
            assert!(message.contains("exit code 3") || message.contains("code 3"), "it names the last one: {message}");
            assert!(data["stderr"].as_str().is_some_and(|stderr| stderr.contains("evil: ready")), "{data}");
            assert!(message.contains("not started again for "), "it says when to come back: {message}");
            assert!(answer.took < Duration::from_millis(500), "nobody waits for what is given up: {:?}", answer.took);
        }
        assert_eq!(starts(folder.path()).len(), 4, "{era:?}: it is left alone");

        // What one session has used up is no other session's loss.
        let mut fresh = Client::open(&gateway, "it", Era::Legacy).await;
        fresh.calm("a fresh session").await;
    }
}

#[tokio::test]
async fn without_restarts_the_first_crash_is_the_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = json!({ "enabled": false });
    let gateway =
        Gateway::serve(LANDBRIDGE, json!({ "it": counted(folder.path(), "die-before-reply", &policy) })).await;
    let mut client = Client::open(&gateway, "it", Era::Legacy).await;
    crash(&mut client).await;
    let (message, _) = client.call("calm", json!({})).await.error("crash_loop");
    assert!(message.contains("code 3") && message.contains("not started again;"), "{message}");
    assert_eq!(starts(folder.path()).len(), 1);
}

/// It was once left alone until the gateway was restarted.
#[tokio::test]
async fn a_server_that_was_given_up_is_tried_once_more_after_a_while() {
    for era in [Era::Legacy, Era::Modern] {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = json!({ "maxAttempts": 1, "baseDelayMs": 0, "maxDelayMs": 1500 });
        let gateway =
            Gateway::serve(LANDBRIDGE, json!({ "it": counted(folder.path(), "die-before-reply", &policy) })).await;
        let mut client = Client::open(&gateway, "it", era).await;
        for _ in 0..2 {
            crash(&mut client).await;
        }
        for attempts in [3, 4] {
            client.call("calm", json!({})).await.error("crash_loop");
            assert_eq!(starts(folder.path()).len(), attempts - 1, "{era:?}: it is left alone");
            let given_up = Instant::now();
            while client.call("calm", json!({ "message": "x" })).await.text().is_none() {
                assert!(given_up.elapsed() < Duration::from_secs(10), "{era:?}: never tried again");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // Counted from the crash a moment before.
            assert!(Duration::from_secs(1) < given_up.elapsed(), "{era:?}: it was not left alone");
            crash(&mut client).await;
            let (message, _) = client.call("calm", json!({})).await.error("crash_loop");
            assert!(message.contains(&format!("{attempts} times")), "one attempt only: {message}");
            assert_eq!(starts(folder.path()).len(), attempts, "{era:?}");
        }
    }
}

/// The wait begins when the child dies, not when somebody calls again.
#[tokio::test]
async fn a_wait_that_is_over_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = json!({ "baseDelayMs": 1500, "backoffMultiplier": 1 });
    let gateway =
        Gateway::serve(LANDBRIDGE, json!({ "it": counted(folder.path(), "die-before-reply", &policy) })).await;
    let mut client = Client::open(&gateway, "it", Era::Legacy).await;
    crash(&mut client).await;
    crash(&mut client).await;
    let dead = Instant::now();
    tokio::time::sleep(Duration::from_millis(1700)).await;
    let answer = client.call("calm", json!({ "message": "x" })).await;
    assert_eq!(answer.text().as_deref(), Some("x"));
    assert!(answer.took < Duration::from_secs(1), "the wait was over {:?} after the crash", dead.elapsed());
}

/// A child that is killed, or ends by itself, while nobody calls: the next call finds a new one and sees no error.
#[tokio::test]
async fn a_child_that_dies_between_calls_is_replaced() {
    for era in [Era::Legacy, Era::Modern] {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = mark(&format!("between-{era:?}"));
        let policy = json!({ "baseDelayMs": 0, "maxAttempts": 1000 });
        let entry = with(counted(folder.path(), "die-after-reply", &policy), &json!({ "env": { "EVIL_MARK": mark } }));
        let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": entry })).await;
        let mut client = Client::open(&gateway, "it", era).await;
        client.calm("before").await;
        for round in 0..20 {
            let child = the_child(&mark);
            if round % 2 == 0 {
                signals::send(child, Signal::KILL);
            } else {
                let answer = client.call("strike", json!({ "message": "last words" })).await;
                assert_eq!(answer.text().as_deref(), Some("last words"), "{era:?} {round}: {answer:?}");
            }
            // Gone with all its threads, which hold its input open; but perhaps not yet known to be.
            procs::until(Duration::from_secs(5), "the child dies", || !procs::exists(child)).await;
            client.calm(&format!("after death {round}")).await;
        }
        assert_eq!(starts(folder.path()).len(), 21, "{era:?}");
    }
}

/// The only process with this mark in its environment.
fn the_child(mark: &str) -> u32 {
    let found = procs::marked(&format!("\0EVIL_MARK={mark}"));
    match found.as_slice() {
        [child] => child.pid,
        _ => panic!("one child: {found:?}"),
    }
}

/// Uptime counts from the start to the crash; after a minute of it the crashes are counted anew.
#[tokio::test]
async fn a_minute_of_health_resets_the_count() {
    if std::env::var_os("LANDBRIDGE_LONG").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let policy = json!({ "maxAttempts": 1, "baseDelayMs": 0, "maxDelayMs": 600_000 });
    let gateway =
        Gateway::serve(LANDBRIDGE, json!({ "it": counted(folder.path(), "die-before-reply", &policy) })).await;
    let mut healthy = Client::open(&gateway, "it", Era::Legacy).await;
    let mut flapping = Client::open(&gateway, "it", Era::Legacy).await;
    crash(&mut healthy).await;
    healthy.calm("restarted").await;
    for _ in 0..2 {
        crash(&mut flapping).await;
    }
    tokio::time::sleep(Duration::from_secs(62)).await;
    // Dead for a minute is not healthy for a minute.
    flapping.call("calm", json!({})).await.error("crash_loop");
    crash(&mut healthy).await;
    healthy.calm("restarted again").await;
}
