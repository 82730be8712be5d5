//! The file: who may read it, how long it gets, and what is in it after a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lb_store::{Appended, Batch, Claimed, Durability, Error, Limits, Settings, Store};
use tokio::task::JoinSet;

use super::{open, settings};
use crate::suite::{LONG, key, until};

#[tokio::test]
async fn only_its_owner_may_read_it() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let store = open(&folder).await;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("state.redb")), 0o600);
    let second = lb_store::open(&settings(&folder, Durability::Event)).await.unwrap_err();
    assert!(matches!(second, Error::InUse(_)) && second.to_string().contains("another process"), "{second}");
    drop(store);
    open(&folder).await.ping().await.unwrap();
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let short = Duration::from_millis(300);
    store.set(&key("v"), "1", LONG).await.unwrap();
    store.set(&key("short"), "1", short).await.unwrap();
    store.add(&key("n"), 5, LONG).await.unwrap();
    store.append(&key("s"), 7, "x", 9, LONG).await.unwrap();
    let Claimed::Ours(claim) = store.claim(&key("c"), "me", LONG).await.unwrap() else { panic!("it is free") };
    drop(store);
    let store = open(folder.path()).await;
    assert_eq!(store.get(&key("v")).await.unwrap(), Some("1".into()));
    assert_eq!(store.add(&key("n"), 1, LONG).await.unwrap(), 6);
    assert_eq!(store.append(&key("s"), 7, "x", 9, LONG).await.unwrap(), Appended::Behind(7));
    assert_eq!(store.claim(&key("c"), "you", LONG).await.unwrap(), Claimed::Theirs(claim));
    until("it expires", async || store.get(&key("short")).await.unwrap().is_none().then_some(())).await;
}

/// Sessions come and go: the file must not grow with all that ever was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_does_not_grow_with_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let length = || fs::metadata(folder.path().join("state.redb")).unwrap().len();
    let store = open(folder.path()).await;
    let mut most = 0;
    for round in 0..60_u64 {
        let mut writers = JoinSet::new();
        for n in 0..100_u64 {
            let store = store.clone();
            writers.spawn(async move {
                let batch = Batch::new()
                    .set(&key(&format!("{{{n}}}r")), vec![round as u8; 4_000], LONG)
                    .set(&key(&format!("{{{n}}}x{round}")), vec![1; 1_000], Duration::from_millis(50))
                    .append(&key(&format!("{{{n}}}s")), round + 1, vec![2; 1_000], 5, LONG);
                store.apply(batch).await.unwrap();
            });
        }
        writers.join_all().await;
        most = most.max(length());
    }
    // 36 MB went through it; about 1 MB is alive.
    assert!(most < 16 * 1024 * 1024, "the file had {most} bytes");
    // What is left of a peak is given back when it is opened again.
    for n in 0..30 {
        store.set(&key(&format!("big{n}")), vec![3; 1024 * 1024], LONG).await.unwrap();
    }
    let peak = length();
    for n in 0..30 {
        store.delete(&key(&format!("big{n}"))).await.unwrap();
    }
    drop(store);
    let store = open(folder.path()).await;
    let after = length();
    assert!(after < peak / 3, "{after} bytes after a peak of {peak}");
    assert_eq!(store.range(&key("{7}s"), 0, 99).await.unwrap().len(), 5);
    println!("most {most}, peak {peak}, after {after}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes_max: 6 * 1024 * 1024, ..Limits::default() };
    let settings = Settings { limits, ..settings(folder.path(), Durability::None) };
    let store = lb_store::open(&settings).await.unwrap();
    let mut kept = 0;
    let error = loop {
        match store.set(&key(&format!("k{kept}")), vec![1; 100_000], LONG).await {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100, "there is a limit");
    };
    assert!(matches!(error, Error::Full(_)) && error.is_temporary(), "{error:?}");
    assert!(10 < kept, "{kept} values of 100 kB were kept");
    for n in 0..kept {
        assert!(store.get(&key(&format!("k{n}"))).await.unwrap().is_some(), "nothing is thrown away");
    }
    assert!(store.facts().last_error.is_some());
    for n in 0..kept / 2 {
        assert!(store.delete(&key(&format!("k{n}"))).await.unwrap());
    }
    store.set(&key("again"), vec![1; 100_000], LONG).await.unwrap();
    assert!(store.facts().away_since.is_none());
}

/// Fills a file of 4 MiB with small values, so that not a page is left; how many.
async fn fill(store: &dyn Store, name: &str, ttl: Duration) -> usize {
    let mut kept = 0;
    loop {
        let batch = (kept..kept + 50)
            .fold(Batch::new(), |batch, n| batch.set(&key(&format!("{{t}}{name}{n}")), vec![1; 900], ttl));
        match store.apply(batch).await {
            Ok(_) => kept += 50,
            Err(Error::Full(_)) => return kept,
            Err(error) => panic!("{error}"),
        }
        assert!(kept < 10_000, "there is a limit");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_full_to_the_last_page_can_be_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes_max: 4 * 1024 * 1024, ..Limits::default() };
    let settings = Settings { limits, ..settings(folder.path(), Durability::None) };
    let store = lb_store::open(&settings).await.unwrap();
    let kept = fill(&*store, "a", LONG).await;
    // To the very last page.
    let mut single = 0;
    while store.set(&key(&format!("{{t}}b{single}")), "x", LONG).await.is_ok() {
        single += 1;
        assert!(single < 100_000, "there is a limit");
    }
    store.expire(&key("{t}a0"), LONG).await.unwrap();
    for n in 0..kept {
        assert!(store.delete(&key(&format!("{{t}}a{n}"))).await.unwrap(), "value {n} of {kept}");
    }
    until("there is room", async || store.set(&key("again"), vec![1; 100_000], LONG).await.ok()).await;
    let length = fs::metadata(folder.path().join("state.redb")).unwrap().len();
    assert!(length <= 4 * 1024 * 1024, "the file has {length} bytes");
    assert!(store.facts().away_since.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_expired_makes_room_in_a_file_that_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes_max: 4 * 1024 * 1024, ..Limits::default() };
    let settings = Settings { limits, ..settings(folder.path(), Durability::None) };
    let store = lb_store::open(&settings).await.unwrap();
    let kept = fill(&*store, "a", Duration::from_secs(2)).await;
    assert!(0 < kept);
    until("there is room", async || store.set(&key("{t}new"), vec![1; 100_000], LONG).await.ok()).await;
    assert_eq!(store.get(&key("{t}a0")).await.unwrap(), None);
    until("all are gone", async || (0 < fill(&*store, "b", LONG).await).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_closed_can_be_opened_at_once_and_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    for seal in [None, Some(lb_store::SealKeys::new(&[[7; 32]]).unwrap())] {
        let settings = Settings { seal, ..settings(folder.path(), Durability::default()) };
        let first = lb_store::open(&settings).await.unwrap();
        let mut writers = JoinSet::new();
        for n in 0..200 {
            let first = first.clone();
            writers.spawn(async move { (n, first.set(&key(&format!("{n}")), "1", LONG).await) });
        }
        let _reading = first.scan("");
        first.close().await;
        first.close().await;
        // The first one is still there, and used.
        let second = lb_store::open(&settings).await.unwrap();
        for (n, written) in writers.join_all().await {
            match written {
                Ok(()) => assert!(second.get(&key(&format!("{n}"))).await.unwrap().is_some(), "{n} was accepted"),
                Err(error) => assert!(matches!(error, Error::Away { .. }), "{error:?}"),
            }
        }
        assert!(first.set(&key("late"), "1", LONG).await.unwrap_err().is_temporary());
        assert!(first.get(&key("0")).await.is_err());
        assert!(matches!(lb_store::open(&settings).await, Err(Error::InUse(_))));
        second.close().await;
        fs::remove_file(folder.path().join("state.redb")).unwrap();
    }
}
