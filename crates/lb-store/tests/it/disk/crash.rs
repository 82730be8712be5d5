//! `kill -9` takes nothing that was acknowledged, and leaves nothing half done.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lb_store::{Batch, Durability, Error};
use tokio::task::JoinSet;

use super::{open, settings};
use crate::suite::{LONG, key};

const FOLDER: &str = "LB_STORE_TEST_FOLDER";
const DURABILITY: &str = "LB_STORE_TEST_DURABILITY";

fn durability(name: &str) -> Durability {
    match name {
        "none" => Durability::None,
        "batch" => Durability::Batch(Duration::from_millis(10)),
        _ => Durability::Event,
    }
}

/// What the other tests start as a process of its own: eight writers, each batch two values, a count and an entry. A
/// line is printed when a batch was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_until_it_is_killed() {
    let (Ok(folder), Ok(name)) = (std::env::var(FOLDER), std::env::var(DURABILITY)) else { return };
    let store = lb_store::open(&settings(Path::new(&folder), durability(&name))).await.unwrap();
    let first = store.add(&key("rounds"), 1, LONG).await.unwrap() as u64 * 1_000_000;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            for n in 0..10_000_u64 {
                let n = first + n * 8 + writer;
                let batch = Batch::new()
                    .set(&key(&format!("{{{n}}}a")), n.to_string(), LONG)
                    .set(&key(&format!("{{{n}}}b")), vec![7; 500], LONG)
                    .append(&key(&format!("{{{n}}}s")), 1, "x", 9, LONG);
                store.apply(batch).await.unwrap();
                writeln!(std::io::stdout(), "ack {n}").unwrap();
            }
        });
    }
    writers.join_all().await;
}

fn start(folder: &Path, durability: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "disk::crash::writes_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(DURABILITY, durability)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets it write for a while and kills it, several times on the same file; then looks at every batch.
async fn survives(durability: &str, acknowledged_each: usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for round in 0..3 {
        let mut child = start(folder.path(), durability);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut read =
            || lines.next().and_then(|line| line.unwrap().strip_prefix("ack ").map(|n| n.parse::<u64>().unwrap()));
        let mut count = 0;
        while count < acknowledged_each {
            // The harness prints lines of its own first.
            if let Some(n) = read() {
                acknowledged.insert(n);
                count += 1;
                if count == 1 {
                    let other = lb_store::open(&settings(folder.path(), Durability::None)).await;
                    assert!(matches!(other, Err(Error::InUse(_))), "{other:?}");
                }
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(n) = read() {
            acknowledged.insert(n);
        }
        let store = open(folder.path()).await;
        let last = acknowledged.last().copied().unwrap();
        for n in &acknowledged {
            assert_eq!(
                store.get(&key(&format!("{{{n}}}a"))).await.unwrap(),
                Some(n.to_string().into()),
                "round {round}"
            );
        }
        // Of those that were under way, all or nothing.
        let first = (round as u64 + 1) * 1_000_000;
        for n in (first..last + 64).filter(|n| last < *n + 400) {
            let a = store.get(&key(&format!("{{{n}}}a"))).await.unwrap().is_some();
            let b = store.get(&key(&format!("{{{n}}}b"))).await.unwrap().is_some();
            let s = !store.range(&key(&format!("{{{n}}}s")), 0, 9).await.unwrap().is_empty();
            assert!(a == b && b == s, "batch {n}: {a} {b} {s}");
            assert!(a || !acknowledged.contains(&n));
        }
    }
}

#[tokio::test]
async fn kill_9_takes_nothing_that_was_acknowledged_with_every_event_on_disk() {
    survives("event", 700).await;
}

#[tokio::test]
async fn kill_9_takes_nothing_that_was_acknowledged_with_events_in_batches() {
    survives("batch", 400).await;
}

#[tokio::test]
async fn kill_9_takes_nothing_that_was_acknowledged_without_syncing() {
    survives("none", 2_000).await;
}
