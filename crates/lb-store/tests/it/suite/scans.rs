//! Finding keys.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt};
use lb_store::{Batch, Store};

use super::{Fixture, LONG, key};

async fn found(store: &dyn Store, prefix: &str) -> BTreeSet<String> {
    let keys: Vec<_> = store.scan(prefix).try_collect().await.unwrap();
    keys.into_iter().map(|key| key.as_str().to_owned()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub async fn a_scan_finds_what_begins_with_its_text(fixture: &impl Fixture) {
    let store = fixture.store().await;
    assert_eq!(found(&*store, "").await, set(&[]));
    let names = ["a", "a:1", "a:2", "ab", "b:{t}:x", "b", "*", "*x", "?y", "[a-b]z", "a\\q", "^"];
    for name in names {
        store.set(&key(name), "1", LONG).await.unwrap();
    }
    store.append(&key("stream:1"), 1, "x", 9, LONG).await.unwrap();
    store.claim(&key("claim:1"), "me", LONG).await.unwrap();
    store.set(&key("gone"), "1", LONG).await.unwrap();
    store.delete(&key("gone")).await.unwrap();
    let all: Vec<&str> = names.into_iter().chain(["stream:1", "claim:1"]).collect();
    for (prefix, want) in [
        ("", &all[..]),
        ("a:", &["a:1", "a:2"]),
        ("a", &["a", "a:1", "a:2", "ab", "a\\q"]),
        ("b:{t}", &["b:{t}:x"]),
        ("*", &["*", "*x"]),
        ("?", &["?y"]),
        ("[a-b]", &["[a-b]z"]),
        ("a\\", &["a\\q"]),
        ("^", &["^"]),
        ("claim", &["claim:1"]),
        ("stream:1", &["stream:1"]),
        ("stream:12", &[]),
        ("zzz", &[]),
    ] {
        assert_eq!(found(&*store, prefix).await, set(want), "prefix {prefix:?}");
    }
}

pub async fn a_scan_of_ten_thousand_goes_on_while_others_write(fixture: &impl Fixture) {
    let store = fixture.store().await;
    for chunk in 0..10 {
        let batch =
            (0..1_000).fold(Batch::new(), |batch, n| batch.set(&key(&format!("k:{{t}}:{chunk}:{n}")), "1", LONG));
        store.apply(batch).await.unwrap();
    }
    let mut scan = store.scan("k:");
    let mut seen = BTreeSet::new();
    let mut round = 0;
    while let Some(found) = scan.next().await {
        seen.insert(found.unwrap().as_str().to_owned());
        if seen.len() % 500 == 0 {
            round += 1;
            store.set(&key(&format!("k:{{new}}:{round}")), "1", LONG).await.unwrap();
            store.set(&key(&format!("a:{round}")), "1", LONG).await.unwrap();
            store.delete(&key(&format!("k:{{new}}:{}", round - 1))).await.unwrap();
        }
    }
    let kept = seen.iter().filter(|name| name.starts_with("k:{t}:")).count();
    assert_eq!(kept, 10_000, "what was there all the while");
    assert!(10 <= round, "others wrote meanwhile");
    assert!(seen.iter().all(|name| name.starts_with("k:")));
}
