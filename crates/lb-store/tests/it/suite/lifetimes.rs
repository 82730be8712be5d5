//! Nothing lives longer than it was said to, and not much shorter.

use std::time::{Duration, Instant};

use lb_store::Claimed;

use super::{Fixture, LONG, is_there, key, until};

const SHORT: Duration = Duration::from_millis(200);

pub async fn everything_expires(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let begun = Instant::now();
    store.set(&key("v"), "1", SHORT).await.unwrap();
    store.add(&key("n"), 1, SHORT).await.unwrap();
    store.append(&key("s"), 7, "x", 9, SHORT).await.unwrap();
    store.claim(&key("c"), "me", SHORT).await.unwrap();
    store.set(&key("stays"), "1", LONG).await.unwrap();
    let there = store.get(&key("v")).await.unwrap();
    assert!(there.is_some() || SHORT <= begun.elapsed(), "gone after {:?}", begun.elapsed());
    for name in ["v", "n", "c"] {
        until(name, async || (!is_there(&*store, &key(name)).await).then_some(())).await;
        assert_eq!(store.get(&key(name)).await.unwrap(), None);
        assert!(SHORT <= begun.elapsed() + Duration::from_millis(5), "{name} is gone after {:?}", begun.elapsed());
        assert!(!store.delete(&key(name)).await.unwrap(), "{name} was gone");
    }
    until("s", async || store.range(&key("s"), 0, 9).await.unwrap().is_empty().then_some(())).await;
    // What expired has left nothing behind: not the count, not the position, not the holder, not the guard.
    assert_eq!(store.add(&key("n"), 1, LONG).await.unwrap(), 1);
    store.append(&key("s"), 1, "y", 9, LONG).await.unwrap();
    assert_eq!(store.range(&key("s"), 0, 9).await.unwrap(), [(1, "y".into())]);
    assert!(matches!(store.claim(&key("c"), "you", LONG).await.unwrap(), Claimed::Ours(_)));
    assert!(store.set_if_absent(&key("v"), "2", LONG).await.unwrap());
    assert_eq!(store.get(&key("stays")).await.unwrap(), Some("1".into()));
}

pub async fn lifetimes_begin_again_where_they_should(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let begun = Instant::now();
    for name in ["set", "expired", "stream", "shortened"] {
        let key = key(name);
        if name == "stream" {
            store.append(&key, 1, "x", 9, SHORT).await.unwrap();
        } else {
            store.set(&key, "1", if name == "shortened" { LONG } else { SHORT }).await.unwrap();
        }
    }
    store.add(&key("count"), 1, SHORT).await.unwrap();
    store.set(&key("set"), "2", LONG).await.unwrap();
    let kept = store.expire(&key("expired"), LONG).await.unwrap();
    store.append(&key("stream"), 2, "y", 9, LONG).await.unwrap();
    assert!(store.expire(&key("shortened"), SHORT).await.unwrap());
    // Counting does not prolong: otherwise a limit per minute would never end while someone tries.
    store.add(&key("count"), 1, LONG).await.unwrap();
    let in_time = begun.elapsed() < SHORT;
    for name in ["count", "shortened"] {
        until(name, async || (!is_there(&*store, &key(name)).await).then_some(())).await;
    }
    assert_eq!(store.get(&key("set")).await.unwrap(), Some("2".into()));
    if in_time {
        assert!(kept);
        assert_eq!(store.get(&key("expired")).await.unwrap(), Some("1".into()));
        assert_eq!(store.range(&key("stream"), 0, 9).await.unwrap().len(), 2);
    }
}
