//! Values and counters.

use std::time::Duration;

use bytes::Bytes;
use lb_store::{Batch, Error, MESSAGE_BYTES_MAX};

use super::{Fixture, LONG, VALUE_MAX, key};

pub async fn values_are_kept_replaced_taken_and_removed(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let a = key("a");
    assert_eq!(store.get(&a).await.unwrap(), None);
    assert_eq!(store.take(&a).await.unwrap(), None);
    assert!(!store.delete(&a).await.unwrap());
    let every_byte: Vec<u8> = (0..=255).collect();
    for value in [Bytes::from_static(b"1"), every_byte.into(), Bytes::new()] {
        store.set(&a, value.clone(), LONG).await.unwrap();
        assert_eq!(store.get(&a).await.unwrap(), Some(value));
    }
    assert_eq!(store.take(&a).await.unwrap(), Some(Bytes::new()));
    assert_eq!(store.get(&a).await.unwrap(), None);
    store.set(&a, "2", LONG).await.unwrap();
    assert!(store.delete(&a).await.unwrap());
    assert_eq!(store.get(&a).await.unwrap(), None);
    store.ping().await.unwrap();
    let facts = store.facts();
    assert!(facts.away_since.is_none() && facts.latency.is_some() && facts.warnings.is_empty(), "{facts:?}");
}

pub async fn a_value_is_set_only_where_none_or_the_right_one_is(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let a = key("a");
    assert!(!store.compare_and_set(&a, Some("0".into()), "1", LONG).await.unwrap());
    assert!(store.set_if_absent(&a, "1", LONG).await.unwrap());
    assert!(!store.set_if_absent(&a, "2", LONG).await.unwrap());
    assert!(!store.compare_and_set(&a, Some("2".into()), "3", LONG).await.unwrap());
    assert!(!store.compare_and_set(&a, Some("".into()), "3", LONG).await.unwrap());
    assert_eq!(store.get(&a).await.unwrap(), Some("1".into()));
    assert!(store.compare_and_set(&a, Some("1".into()), "3", LONG).await.unwrap());
    assert_eq!(store.get(&a).await.unwrap(), Some("3".into()));
    // An empty value is there.
    store.set(&a, "", LONG).await.unwrap();
    assert!(!store.set_if_absent(&a, "2", LONG).await.unwrap());
    assert!(store.compare_and_set(&a, Some("".into()), "2", LONG).await.unwrap());
}

pub async fn counters_count<F: Fixture>(fixture: &F) {
    let store = fixture.store().await;
    let n = key("n");
    let top = (1_i64 << 53) - 1;
    for (by, want) in [(5, 5), (-7, -2), (0, -2), (top, top - 2), (2, top)] {
        assert_eq!(store.add(&n, by, LONG).await.unwrap(), want, "adding {by}");
    }
    assert!(matches!(store.add(&n, 1, LONG).await, Err(Error::WrongShape(_))));
    assert_eq!(store.add(&n, 0, LONG).await.unwrap(), top);
    store.set(&n, "41", LONG).await.unwrap();
    if F::SEALED {
        assert!(matches!(store.add(&n, 1, LONG).await, Err(Error::WrongKind { .. })));
        assert_eq!(store.get(&n).await.unwrap(), Some("41".into()));
    } else {
        assert_eq!(store.add(&n, 1, LONG).await.unwrap(), 42);
        assert_eq!(store.get(&n).await.unwrap(), Some("42".into()));
    }
}

pub async fn wrong_kinds_are_told_and_change_nothing(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let (value, stream) = (key("value"), key("stream"));
    let wrong = |error: Error| matches!(error, Error::WrongKind { .. });
    store.set(&value, "text", LONG).await.unwrap();
    store.append(&stream, 1, "x", 9, LONG).await.unwrap();
    for text in ["text", "", " 1", "1 ", "+1", "01", "-0", "1.0", "1e3", "0x1", "9007199254740993"] {
        store.set(&value, text, LONG).await.unwrap();
        assert!(wrong(store.add(&value, 1, LONG).await.unwrap_err()), "{text:?} is no count");
        assert_eq!(store.get(&value).await.unwrap(), Some(text.into()));
    }
    assert!(wrong(store.claim(&value, "me", LONG).await.unwrap_err()));
    assert!(wrong(store.append(&value, 1, "x", 9, LONG).await.unwrap_err()));
    assert!(wrong(store.trim(&value, 1).await.unwrap_err()));
    assert!(wrong(store.range(&value, 0, 9).await.unwrap_err()));
    assert!(wrong(store.get(&stream).await.unwrap_err()));
    assert!(wrong(store.take(&stream).await.unwrap_err()));
    assert!(wrong(store.add(&stream, 1, LONG).await.unwrap_err()));
    assert!(wrong(store.claim(&stream, "me", LONG).await.unwrap_err()));
    assert!(wrong(store.compare_and_set(&stream, None, "x", LONG).await.unwrap_err()));
    assert_eq!(store.range(&stream, 0, 9).await.unwrap(), [(1, "x".into())]);
    // These do not care what was there.
    store.set(&stream, "now a value", LONG).await.unwrap();
    assert_eq!(store.get(&stream).await.unwrap(), Some("now a value".into()));
    assert!(store.delete(&stream).await.unwrap());
    store.append(&stream, 1, "again", 9, LONG).await.unwrap();
    assert_eq!(store.range(&stream, 0, 9).await.unwrap(), [(1, "again".into())]);
    assert!(store.delete(&stream).await.unwrap());
    assert_eq!(store.range(&stream, 0, 9).await.unwrap(), []);
}

pub async fn what_no_store_takes_is_refused(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let a = key("a");
    let century = Duration::from_secs(100 * 365 * 86_400);
    let bad = [
        Batch::new().set(&a, "1", Duration::ZERO),
        Batch::new().set(&a, "1", Duration::from_micros(999)),
        Batch::new().set(&a, "1", century),
        Batch::new().expire(&a, Duration::ZERO),
        Batch::new().add(&a, 1 << 53, LONG),
        Batch::new().add(&a, i64::MIN, LONG),
        Batch::new().append(&a, 0, "x", 1, LONG),
        Batch::new().append(&a, 1 << 53, "x", 1, LONG),
        Batch::new().append(&a, 1, "x", 0, LONG),
        Batch::new().append(&a, 1, "x", 1, Duration::ZERO),
        Batch::new().trim(&a, u64::MAX),
        Batch::new().claim(&a, "", LONG),
        Batch::new().claim(&a, &"x".repeat(513), LONG),
        (0..1_025).fold(Batch::new(), |batch, n| batch.delete(&key(&format!("{{t}}{n}")))),
        (0..1_025).fold(Batch::new(), |batch, _| batch.when(&a, None)),
    ];
    for batch in bad {
        let shown = format!("{batch:.200?}").chars().take(200).collect::<String>();
        assert!(matches!(store.apply(batch).await, Err(Error::WrongShape(_))), "{shown}");
    }
    assert_eq!(store.get(&a).await.unwrap(), None);
    let loud = Bytes::from(vec![0; MESSAGE_BYTES_MAX + 1]);
    assert!(matches!(store.publish(&a, loud).await, Err(Error::TooLarge { .. })));
}

pub async fn large_values_are_kept_up_to_the_cap_and_refused_above(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let (a, s) = (key("a"), key("s"));
    let bytes = |count: usize| -> Bytes { (0..count).map(|n| (n % 251) as u8).collect::<Vec<_>>().into() };
    for count in [1024 * 1024, VALUE_MAX] {
        store.set(&a, bytes(count), LONG).await.unwrap();
        assert_eq!(store.get(&a).await.unwrap(), Some(bytes(count)));
        store.append(&s, count as u64, bytes(count), 9, LONG).await.unwrap();
    }
    assert_eq!(store.range(&s, 1024 * 1024, 9).await.unwrap(), [(VALUE_MAX as u64, bytes(VALUE_MAX))]);
    let over = Error::TooLarge { bytes: VALUE_MAX + 1, max: VALUE_MAX };
    for error in [
        store.set(&a, bytes(VALUE_MAX + 1), LONG).await.unwrap_err(),
        store.append(&s, 1 << 50, bytes(VALUE_MAX + 1), 9, LONG).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), over.to_string());
    }
    let five = (0..5).fold(Batch::new(), |batch, n| batch.set(&key(&format!("{{t}}{n}")), bytes(VALUE_MAX), LONG));
    assert!(matches!(store.apply(five).await, Err(Error::TooLarge { .. })));
    assert_eq!(store.get(&a).await.unwrap(), Some(bytes(VALUE_MAX)));
}
