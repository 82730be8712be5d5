//! The disk of the audit log is full.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use serde_json::json;
use tokio::process::Command;

use crate::keyed::{Keyed, page, server};
use crate::world::{Client, get};

/// A file system of its own for the gateway, of 64 KiB, which nobody else sees.
const SHELL: &str = r#"mount -t tmpfs -o size=64k none "$0" && exec "$@""#;

/// A gateway whose audit log is there, that file as we see it, and a key.
async fn on_a_small_disk(toml: &str) -> (Gateway, PathBuf, String, tempfile::TempDir) {
    let disk = tempfile::tempdir().expect("a folder");
    let file = disk.path().join("audit");
    let mut keyed = Keyed::new(server(&[]), toml, &["mcp:read mcp:call"]).await;
    keyed.command.arg("--audit-log").arg(&file);
    let inner = keyed.command.as_std();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", SHELL]).arg(disk.path()).arg(inner.get_program()).args(inner.get_args());
    command
        .env("LANDBRIDGE_DATA", "none")
        .env("LANDBRIDGE_OPERATOR_TOKEN", crate::world::OPERATOR)
        .stdin(std::process::Stdio::null());
    keyed.command = command;
    let (gateway, keys) = keyed.start().await;
    let seen = PathBuf::from(format!("/proc/{}/root{}", gateway.pid(), file.display()));
    (gateway, seen, keys[0].clone(), disk)
}

async fn dropped(gateway: &Gateway) -> u64 {
    let metrics = page(gateway, "/metrics").await.text();
    let line = metrics.lines().find(|line| line.starts_with("landbridge_audit_dropped_total"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{metrics}"))
}

async fn call(client: &Client) -> u16 {
    client.call("list_timers", json!({})).await.head.status()
}

/// Calls, no faster than one principal may, until something is so.
async fn calls_until(client: &Client, mut over: impl AsyncFnMut(u16) -> bool) {
    let began = Instant::now();
    loop {
        let status = call(client).await;
        if over(status).await {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "still {status}");
        if status == 429 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_counted_and_serving_goes_on() {
    let (gateway, seen, key, _disk) = on_a_small_disk("").await;
    let client = Client::begin(gateway.address, &key).await;
    let mut count = 0_u32;
    calls_until(&client, async |status| {
        assert!(matches!(status, 200 | 429), "serving goes on: {status}");
        count += 1;
        count.is_multiple_of(50) && 100 < dropped(&gateway).await
    })
    .await;
    assert!(60 << 10 <= std::fs::metadata(&seen).expect("a file").len(), "the disk is full");
    let text = std::fs::read_to_string(&seen).expect("text");
    assert!(text.contains(r#""who":"key:key-0""#), "who did it is a name, which is not hidden: {text}");
    let words = gateway.said().matches("audit log cannot be written").count();
    assert_eq!(words, 1, "once a minute: {}", gateway.said());
    // Room again: the file says what it lacks.
    std::fs::OpenOptions::new().write(true).truncate(true).open(&seen).expect("emptied");
    let began = Instant::now();
    while !std::fs::read_to_string(&seen).expect("text").contains("audit_gap") {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(call(&client).await, 200);
}

#[tokio::test]
async fn where_the_log_is_required_nothing_is_done_that_cannot_be_written_down() {
    let (gateway, seen, key, _disk) = on_a_small_disk("audit = \"required\"\n").await;
    let client = Client::begin(gateway.address, &key).await;
    calls_until(&client, async |status| status == 503).await;
    assert_eq!(dropped(&gateway).await, 0, "nothing is given up");
    assert_eq!(get(gateway.address, "/ping", &[]).await.head.status(), 200);
    assert!(gateway.said().contains("requests are refused until it can be"), "{}", gateway.said());
    std::fs::OpenOptions::new().write(true).truncate(true).open(&seen).expect("emptied");
    calls_until(&client, async |status| status == 200).await;
    assert!(std::fs::read_to_string(&seen).expect("text").contains("\"event\":\"call\""));
}
