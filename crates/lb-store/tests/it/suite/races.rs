//! Many at once, on several stores where several share their keys.

use std::sync::Arc;

use bytes::Bytes;
use lb_store::{Appended, Claimed, Store};
use tokio::task::JoinSet;

use super::{Fixture, LONG, key};

const MANY: usize = 1_000;

/// Runs a task for each number, on two stores in turn, and returns what they came to.
async fn each<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    fixture: &impl Fixture,
    task: impl Fn(Arc<dyn Store>, usize) -> F,
) -> Vec<T> {
    let stores = [fixture.store().await, fixture.store().await];
    let mut tasks = JoinSet::new();
    for number in 0..MANY {
        tasks.spawn(task(stores[number % 2].clone(), number));
    }
    tasks.join_all().await
}

pub async fn one_of_a_thousand_wins(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let wins = |won: Vec<bool>| won.into_iter().filter(|won| *won).count();
    let absent = each(fixture, async |store: Arc<dyn Store>, n: usize| {
        store.set_if_absent(&key("a"), n.to_string(), LONG).await.unwrap()
    });
    assert_eq!(wins(absent.await), 1);
    let first = store.get(&key("a")).await.unwrap();
    let swapped = each(fixture, move |store, n| {
        let first = first.clone();
        async move { store.compare_and_set(&key("a"), first, format!("new {n}"), LONG).await.unwrap() }
    });
    assert_eq!(wins(swapped.await), 1);
    let taken = each(fixture, async |store: Arc<dyn Store>, _| store.take(&key("a")).await.unwrap());
    let taken: Vec<Bytes> = taken.await.into_iter().flatten().collect();
    assert!(taken.len() == 1 && taken[0].starts_with(b"new "), "{taken:?}");
}

pub async fn a_thousand_counts_are_all_counted(fixture: &impl Fixture) {
    let counts = each(fixture, async |store: Arc<dyn Store>, _| store.add(&key("n"), 1, LONG).await.unwrap());
    let mut counts = counts.await;
    counts.sort_unstable();
    assert_eq!(counts, (1..=MANY as i64).collect::<Vec<_>>(), "everyone gets a number of its own");
}

pub async fn one_of_many_holds_a_claim(fixture: &impl Fixture) {
    let claims = each(fixture, async |store: Arc<dyn Store>, n: usize| {
        store.claim(&key("c"), &format!("node {n}"), LONG).await.unwrap()
    });
    let (ours, theirs): (Vec<_>, Vec<_>) =
        claims.await.into_iter().partition(|claimed| matches!(claimed, Claimed::Ours(_)));
    assert_eq!(ours.len(), 1);
    let Claimed::Ours(winner) = &ours[0] else { unreachable!() };
    assert!(theirs.iter().all(|claimed| *claimed == Claimed::Theirs(winner.clone())), "all are told who");
}

pub async fn streams_written_by_many_stay_in_order(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let appended = each(fixture, async |store: Arc<dyn Store>, n: usize| {
        let seq = n as u64 + 1;
        (seq, store.append(&key("s"), seq, seq.to_string(), MANY as u64, LONG).await.unwrap())
    });
    let mut done: Vec<u64> =
        appended.await.into_iter().filter(|(_, how)| *how == Appended::Done).map(|(seq, _)| seq).collect();
    done.sort_unstable();
    let kept = store.range(&key("s"), 0, MANY).await.unwrap();
    let want: Vec<(u64, Bytes)> = done.iter().map(|seq| (*seq, seq.to_string().into())).collect();
    assert_eq!(kept, want, "what was acknowledged, and nothing else");
    assert_eq!(done.last(), Some(&(MANY as u64)), "the largest position is never behind");
}
