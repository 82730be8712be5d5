//! The disk of the log file is full: serving goes on, and somebody is told.

use std::path::PathBuf;

use serde_json::json;

use super::{Setup, Size};
use crate::caller::Way;
use crate::jobs::Job;
use crate::load::{Load, end};
use crate::world::Ground;

/// A file system of its own for the gateway, of 64 KiB, which nobody else sees.
const SHELL: &str = r#"mount -t tmpfs -o size=64k none "$0" && exec "$@""#;

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R14", seed);
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().to_string_lossy().into_owned();
    let file = format!("{at}/log");
    let servers = json!({ "child": ground.child(&json!({})) });
    let args = ["--log-file", &file, "--log-level", "trace"];
    let mut world = ground.build(servers, &args, &["unshare", "-m", "sh", "-c", SHELL, &at]).await;
    let mut callers = Vec::new();
    for way in [Way::HttpLegacy, Way::HttpModern] {
        callers.push(world.caller(way, "child", "c").await);
    }
    let (callers, rate) = Load::saturate(callers, Job::QUICK, size.time(5, 70)).await;
    end(callers).await;
    let history = world.history().clone();
    history.note(format!("{rate:.0} calls/s"));
    let log = PathBuf::from(format!("/proc/{}/root{file}", world.pid));
    let bytes = std::fs::metadata(log).map_or(-1, |found| found.len() as i64);
    history.count("bytes of the log", bytes);
    history.bound_count("bytes of the log", 60 << 10, 64 << 10);
    let words = world.gateway.said().matches("log file cannot be written").count();
    history.count("words about the lost lines", words as i64);
    history.bound_count("words about the lost lines", 1, 3);
    world.close().await
}
