//! Publishing and hearing.

use std::time::Duration;

use bytes::Bytes;
use lb_store::{Notice, Subscription};

use super::{Fixture, key};

async fn hear(subscription: &mut Subscription) -> Notice {
    let next = tokio::time::timeout(Duration::from_secs(20), subscription.next());
    next.await.expect("something comes").expect("the store is there")
}

fn message(text: &str) -> Notice {
    Notice::Message(Bytes::copy_from_slice(text.as_bytes()))
}

pub async fn messages_come_in_order_to_every_subscriber(fixture: &impl Fixture) {
    let (store, other) = (fixture.store().await, fixture.store().await);
    let (a, b) = (key("{x}a"), key("b"));
    store.publish(&a, "before".into()).await.unwrap();
    let mut first = store.subscribe(&a).await.unwrap();
    let mut second = other.subscribe(&a).await.unwrap();
    let mut elsewhere = store.subscribe(&b).await.unwrap();
    for n in 0..500 {
        let from = if n % 2 == 0 { &store } else { &other };
        from.publish(&a, format!("message {n}").into()).await.unwrap();
    }
    store.publish(&b, "other".into()).await.unwrap();
    for n in 0..500 {
        assert_eq!(hear(&mut first).await, message(&format!("message {n}")));
        assert_eq!(hear(&mut second).await, message(&format!("message {n}")));
    }
    assert_eq!(hear(&mut elsewhere).await, message("other"));
    // Bytes, not text; and as large as may be.
    let large: Bytes = (0..lb_store::MESSAGE_BYTES_MAX).map(|n| n as u8).collect::<Vec<_>>().into();
    store.publish(&a, large.clone()).await.unwrap();
    assert_eq!(hear(&mut first).await, Notice::Message(large));
}

pub async fn a_slow_subscriber_is_told_that_it_missed_something(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let (a, marker) = (key("a"), key("marker"));
    let mut slow = store.subscribe(&a).await.unwrap();
    let mut quick = store.subscribe(&a).await.unwrap();
    let mut marks = store.subscribe(&marker).await.unwrap();
    let mut heard = 0;
    for n in 0..1_500 {
        store.publish(&a, n.to_string().into()).await.unwrap();
        while n - heard > 500 {
            assert_eq!(hear(&mut quick).await, message(&heard.to_string()));
            heard += 1;
        }
    }
    store.publish(&marker, "all sent".into()).await.unwrap();
    hear(&mut marks).await;
    // Everything up to the gap is there and in order, the gap is told once, and what comes later is heard.
    let mut next = 0;
    while let Notice::Message(text) = hear(&mut slow).await {
        assert_eq!(text, next.to_string());
        next += 1;
    }
    assert!((1_000..1_500).contains(&next), "{next} came before the gap");
    store.publish(&a, "later".into()).await.unwrap();
    assert_eq!(hear(&mut slow).await, message("later"));
    // Who kept up missed nothing.
    while heard < 1_500 {
        assert_eq!(hear(&mut quick).await, message(&heard.to_string()));
        heard += 1;
    }
}

pub async fn a_dropped_subscription_is_forgotten(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let a = key("a");
    for n in 0..20 {
        let mut subscription = store.subscribe(&a).await.unwrap();
        store.publish(&a, n.to_string().into()).await.unwrap();
        assert_eq!(hear(&mut subscription).await, message(&n.to_string()), "only its own, although others came before");
    }
    let mut last = store.subscribe(&a).await.unwrap();
    drop(store);
    // Where the fixture keeps the store, nothing is said; otherwise it ends.
    let end = tokio::time::timeout(Duration::from_millis(100), last.next()).await;
    assert!(matches!(end, Err(_) | Ok(None)), "{end:?}");
}
