//! All or nothing.

use std::time::Duration;

use bytes::Bytes;
use lb_store::{Applied, Batch, Error, Outcome, Refusal, Store};
use tokio::task::JoinSet;

use super::{Fixture, LONG, key};

pub async fn all_is_done_and_every_outcome_told(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let names: Vec<_> = (0..9).map(|n| key(&format!("{{t}}{n}"))).collect();
    store.set(&names[1], "old", LONG).await.unwrap();
    store.set(&names[2], "taken", LONG).await.unwrap();
    store.append(&names[6], 1, "x", 9, LONG).await.unwrap();
    let batch = Batch::new()
        .when(&names[1], Some("old".into()))
        .when(&names[8], None)
        .set(&names[0], "new", LONG)
        .delete(&names[1])
        .take(&names[2])
        .add(&names[3], 4, LONG)
        .expire(&names[4], LONG)
        .append(&names[5], 3, "a", 9, LONG)
        .append(&names[5], 4, "b", 9, LONG)
        .trim(&names[6], 2)
        .claim(&names[7], "me", LONG)
        .delete(&names[8]);
    let Applied::Done(outcomes) = store.apply(batch).await.unwrap() else { panic!("nothing refuses it") };
    let Outcome::Claimed(claim) = &outcomes[8] else { panic!("{outcomes:?}") };
    assert_eq!(
        outcomes,
        [
            Outcome::Done,
            Outcome::Found(true),
            Outcome::Taken(Some("taken".into())),
            Outcome::Count(4),
            Outcome::Found(false),
            Outcome::Done,
            Outcome::Done,
            Outcome::Trimmed(1),
            Outcome::Claimed(claim.clone()),
            Outcome::Found(false),
        ]
    );
    assert_eq!(store.get(&names[0]).await.unwrap(), Some("new".into()));
    assert_eq!(store.get(&names[1]).await.unwrap(), None);
    assert_eq!(store.range(&names[5], 0, 9).await.unwrap(), [(3, "a".into()), (4, "b".into())]);
    assert_eq!(store.apply(Batch::new()).await.unwrap(), Applied::Done(vec![]));
    assert_eq!(
        store.apply(Batch::new().when(&names[0], None)).await.unwrap(),
        Applied::Refused(Refusal::Guard(0)),
        "guards alone are a question"
    );
}

/// Every key of the batches below, so that a trace would be seen.
async fn state(store: &dyn Store) -> Vec<Option<Bytes>> {
    let mut found = Vec::new();
    for name in ["{t}v", "{t}n", "{t}c", "{t}w", "{t}x"] {
        found.push(store.get(&key(name)).await.unwrap());
    }
    found.extend(store.range(&key("{t}s"), 0, 99).await.unwrap().into_iter().map(|(_, entry)| Some(entry)));
    found
}

pub async fn a_refused_batch_leaves_no_trace(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let (v, n, s, w, x, c) = (key("{t}v"), key("{t}n"), key("{t}s"), key("{t}w"), key("{t}x"), key("{t}c"));
    store.set(&v, "1", LONG).await.unwrap();
    store.set(&w, "word", LONG).await.unwrap();
    store.append(&s, 5, "five", 9, LONG).await.unwrap();
    let before = state(&*store).await;
    // Does something with every key, and would be refused only for what is added to it.
    let all = || Batch::new().set(&v, "2", LONG).add(&n, 1, LONG).delete(&w).claim(&c, "me", LONG);
    let refused = [
        (all().when(&v, Some("other".into())), Refusal::Guard(0)),
        (all().when(&v, None), Refusal::Guard(0)),
        (all().when(&v, Some("1".into())).when(&x, Some("1".into())), Refusal::Guard(1)),
        (all().append(&s, 5, "again", 9, LONG), Refusal::Order { step: 4, last: 5 }),
        (all().append(&s, 4, "back", 9, LONG), Refusal::Order { step: 4, last: 5 }),
        (all().append(&s, 6, "on", 9, LONG).append(&s, 6, "again", 9, LONG), Refusal::Order { step: 5, last: 6 }),
        (all().append(&x, 2, "on", 9, LONG).append(&x, 1, "back", 9, LONG), Refusal::Order { step: 5, last: 2 }),
    ];
    for (batch, why) in refused {
        assert_eq!(store.apply(batch).await.unwrap(), Applied::Refused(why.clone()));
        assert_eq!(state(&*store).await, before, "{why:?}");
    }
    let wrong = [
        all().take(&s),
        all().add(&s, 1, LONG),
        all().claim(&s, "me", LONG),
        Batch::new().set(&x, "1", LONG).delete(&s).add(&w, 1, LONG),
        Batch::new().set(&x, "1", LONG).delete(&s).append(&w, 1, "x", 1, LONG),
        Batch::new().set(&x, "1", LONG).delete(&s).trim(&w, 1),
        Batch::new().set(&x, "1", LONG).delete(&v).when(&s, None),
        Batch::new().set(&x, "1", Duration::ZERO).delete(&v),
    ];
    for batch in wrong {
        let shown = format!("{batch:?}");
        let error = store.apply(batch).await.unwrap_err();
        assert!(matches!(error, Error::WrongKind { .. } | Error::WrongShape(_)), "{shown}: {error}");
        assert_eq!(state(&*store).await, before, "{shown}");
    }
    // A refused claim has left no token either: the first one is the clock's, not more.
    assert!(store.apply(all()).await.is_ok_and(|applied| matches!(applied, Applied::Done(_))));
}

pub async fn keys_of_several_tags_are_refused(fixture: &impl Fixture) {
    let store = fixture.store().await;
    for (first, second) in [("a", "b"), ("{a}1", "{b}1"), ("x{a}", "a{x}"), ("{a}1", "b")] {
        let (a, b) = (key(first), key(second));
        for batch in [
            Batch::new().set(&a, "1", LONG).set(&b, "1", LONG),
            Batch::new().when(&a, None).set(&b, "1", LONG),
            Batch::new().when(&a, None).when(&b, None),
        ] {
            let error = store.apply(batch).await.unwrap_err();
            assert!(matches!(error, Error::Tags(..)), "{first} {second}: {error}");
        }
        assert_eq!(store.get(&a).await.unwrap(), None);
    }
    let same = Batch::new().set(&key("{a}1"), "1", LONG).set(&key("2{a}"), "1", LONG).set(&key("a"), "1", LONG);
    // The name of a key without braces is its tag, but not its place: a cluster hashes it with the prefix.
    assert!(matches!(store.apply(same).await, Err(Error::Tags(..))));
    let same = Batch::new().set(&key("{a}1"), "1", LONG).set(&key("2{a}"), "1", LONG);
    assert!(matches!(store.apply(same).await.unwrap(), Applied::Done(_)));
}

pub async fn a_key_stands_in_one_step_only(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let a = key("a");
    for batch in [
        Batch::new().set(&a, "1", LONG).add(&a, 1, LONG),
        Batch::new().delete(&a).append(&a, 1, "x", 9, LONG),
        Batch::new().append(&a, 1, "x", 9, LONG).trim(&a, 1),
        Batch::new().append(&a, 1, "x", 9, LONG).append(&a, 2, "x", 9, LONG).expire(&a, LONG),
    ] {
        assert!(matches!(store.apply(batch).await, Err(Error::WrongShape(_))));
    }
    assert_eq!(store.get(&a).await.unwrap(), None);
}

/// Writers move one unit between two counters; whoever looks at both at once always finds the same sum.
pub async fn a_reader_sees_all_of_a_batch_or_nothing(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let (a, b) = (key("{t}a"), key("{t}b"));
    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let (store, a, b) = (store.clone(), a.clone(), b.clone());
        writers.spawn(async move {
            for _ in 0..25 {
                store.apply(Batch::new().add(&a, 1, LONG).add(&b, -1, LONG)).await.unwrap();
            }
        });
    }
    for _ in 0..100 {
        let both = store.apply(Batch::new().add(&a, 0, LONG).add(&b, 0, LONG)).await.unwrap();
        let Applied::Done(counts) = both else { panic!("nothing refuses it") };
        let [Outcome::Count(up), Outcome::Count(down)] = counts[..] else { panic!("{counts:?}") };
        assert_eq!(up, -down);
    }
    writers.join_all().await;
    assert_eq!(store.add(&a, 0, LONG).await.unwrap(), 200);
}
