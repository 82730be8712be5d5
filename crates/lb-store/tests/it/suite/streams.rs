//! Streams: bounded, in order.

use bytes::Bytes;
use lb_store::Appended;

use super::{Fixture, LONG, key};

fn entries(range: impl Iterator<Item = u64>) -> Vec<(u64, Bytes)> {
    range.map(|seq| (seq, format!("entry {seq}").into())).collect()
}

pub async fn entries_come_in_order_and_pages(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let s = key("s");
    assert_eq!(store.range(&s, 0, 9).await.unwrap(), []);
    for seq in (2..=500).step_by(2) {
        assert_eq!(store.append(&s, seq, format!("entry {seq}"), 1_000, LONG).await.unwrap(), Appended::Done);
    }
    let mut after = 0;
    let mut all = Vec::new();
    loop {
        let page = store.range(&s, after, 33).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        assert!(page.len() <= 33);
        after = *last;
        all.extend(page);
    }
    assert_eq!(all, entries((2..=500).step_by(2)));
    for (after, limit, want) in
        [(0, 0, vec![]), (499, 9, vec![500]), (500, 9, vec![]), (u64::MAX, 9, vec![]), (3, 2, vec![4, 6])]
    {
        assert_eq!(store.range(&s, after, limit).await.unwrap(), entries(want.into_iter()), "after {after}");
    }
    let largest = (1 << 53) - 1;
    store.append(&s, largest, "last", 1_000, LONG).await.unwrap();
    assert_eq!(store.range(&s, largest - 1, 9).await.unwrap(), [(largest, "last".into())]);
}

pub async fn only_the_newest_are_kept(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let s = key("s");
    for seq in 1..=300 {
        store.append(&s, seq, format!("entry {seq}"), 10, LONG).await.unwrap();
        let kept = store.range(&s, 0, 1_000).await.unwrap().len();
        assert!(kept <= 10, "{kept} entries after {seq}");
    }
    assert_eq!(store.range(&s, 0, 1_000).await.unwrap(), entries(291..=300));
    store.append(&s, 301, "entry 301", 3, LONG).await.unwrap();
    assert_eq!(store.range(&s, 0, 1_000).await.unwrap(), entries(299..=301));
}

pub async fn positions_must_grow(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let s = key("s");
    store.append(&s, 10, "entry 10", 9, LONG).await.unwrap();
    for seq in [1, 9, 10] {
        assert_eq!(store.append(&s, seq, "late", 9, LONG).await.unwrap(), Appended::Behind(10));
    }
    store.append(&s, 11, "entry 11", 9, LONG).await.unwrap();
    // The position outlives the entries.
    assert_eq!(store.trim(&s, 100).await.unwrap(), 2);
    assert_eq!(store.range(&s, 0, 9).await.unwrap(), []);
    assert_eq!(store.append(&s, 11, "late", 9, LONG).await.unwrap(), Appended::Behind(11));
    assert_eq!(store.append(&s, 12, "entry 12", 9, LONG).await.unwrap(), Appended::Done);
    assert_eq!(store.range(&s, 0, 9).await.unwrap(), entries(12..=12));
}

pub async fn what_is_old_is_trimmed(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let s = key("s");
    assert_eq!(store.trim(&s, 5).await.unwrap(), 0);
    for seq in 1..=200 {
        store.append(&s, seq, format!("entry {seq}"), 1_000, LONG).await.unwrap();
    }
    for (before, gone, first) in [(0, 0, 1), (1, 0, 1), (2, 1, 2), (150, 148, 150), (150, 0, 150)] {
        assert_eq!(store.trim(&s, before).await.unwrap(), gone, "before {before}");
        assert_eq!(store.range(&s, 0, 1).await.unwrap(), entries(first..=first), "before {before}");
    }
    assert_eq!(store.range(&s, 0, 1_000).await.unwrap(), entries(150..=200));
}
