//! Servers that go away and come back.

use std::time::{Duration, Instant};

use lb_peers::valkey::{Keeping, Valkey};
use lb_store::{Claimed, Error, Notice, Settings, Store, Subscription};
use tokio::task::JoinSet;

use crate::suite::{LONG, key, until};

async fn open(server: &Valkey) -> std::sync::Arc<dyn Store> {
    lb_store::open(&Settings::parse(&server.url()).unwrap()).await.unwrap()
}

/// Publishes until it is heard: what is published while nobody listens is lost. How many gaps were told before.
async fn publish_until_heard(store: &dyn Store, subscription: &mut Subscription, text: &str) -> usize {
    let mut gaps = 0;
    until("a message is heard", async || {
        store.publish(&key("news"), text.to_owned().into()).await.ok()?;
        let pause = Duration::from_millis(100);
        while let Ok(notice) = tokio::time::timeout(pause, subscription.next()).await {
            match notice.expect("the store is there") {
                Notice::Missed => gaps += 1,
                Notice::Message(heard) if heard == text => return Some(gaps),
                // One of the last time.
                Notice::Message(_) => {}
            }
        }
        None
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_are_replaced_and_nothing_is_done_twice() {
    let server = Valkey::start();
    let store = open(&server).await;
    let mut news = store.subscribe(&key("news")).await.unwrap();
    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            let (mut done, mut unknown) = (0, 0);
            for _ in 0..150 {
                match store.add(&key("n"), 1, LONG).await {
                    Ok(_) => done += 1,
                    // On a busy machine a reconnect can take all of the time that a command has.
                    Err(Error::Away { .. } | Error::Timeout(_)) => unknown += 1,
                    Err(error) => panic!("{error}"),
                }
                match store.get(&key("n")).await {
                    // Many kills in a row can reach it, too.
                    Ok(_) | Err(Error::Away { .. } | Error::Timeout(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            (done, unknown)
        });
    }
    for _ in 0..10 {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut sums = (0, 0);
    while let Some(counts) = writers.join_next().await {
        let (done, unknown) = counts.unwrap();
        sums = (sums.0 + done, sums.1 + unknown);
    }
    // The last kill may reach this one, too; adding nothing does no harm twice.
    let count: i64 = until("it is counted", async || store.add(&key("n"), 0, LONG).await.ok()).await;
    assert!(sums.0 <= count && count <= sums.0 + sums.1, "{count} counted, {sums:?} told");
    for _ in 0..10 {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        store.get(&key("n")).await.expect("a read is tried again");
    }
    // The one who hears is told that there was a gap, once it hears again.
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let gaps = publish_until_heard(&*store, &mut news, "after the gap").await;
    assert!(1 <= gaps, "a gap is told");
    assert!(store.facts().last_error.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_is_survived_with_everything_and_with_nothing_left() {
    let mut server = Valkey::start();
    let store = open(&server).await;
    let mut news = store.subscribe(&key("news")).await.unwrap();
    store.set(&key("v"), "1", LONG).await.unwrap();
    let Claimed::Ours(first) = store.claim(&key("c"), "node", LONG).await.unwrap() else { panic!("it is free") };
    server.restart(Keeping::Everything);
    // The first write may find the connection closed; it never finds it silent.
    until("it is back", async || store.set(&key("w"), "2", LONG).await.ok()).await;
    assert_eq!(store.get(&key("v")).await.unwrap(), Some("1".into()));
    assert_eq!(store.claim(&key("c"), "other", LONG).await.unwrap(), Claimed::Theirs(first.clone()));
    assert!(1 <= publish_until_heard(&*store, &mut news, "again").await);
    server.restart(Keeping::Nothing);
    until("it is back", async || store.ping().await.ok()).await;
    assert_eq!(store.get(&key("v")).await.unwrap(), None, "what is lost is a miss, not an error");
    assert!(!store.renew(&key("c"), &first, LONG).await.unwrap(), "a lost claim is not ours");
    let Claimed::Ours(second) = store.claim(&key("c"), "other", LONG).await.unwrap() else { panic!("it is free") };
    assert!(first.token < second.token, "tokens grow although the server forgot the last one");
    assert!(1 <= publish_until_heard(&*store, &mut news, "and again").await);
    assert!(store.facts().away_since.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_piles_up_behind_a_server_that_is_gone() {
    let mut server = Valkey::start();
    let store = open(&server).await;
    server.kill9();
    until("it is seen without being asked", async || store.facts().away_since).await;
    until("it is told", async || store.get(&key("v")).await.err()).await;
    let mut asking = JoinSet::new();
    let begun = Instant::now();
    for n in 0..1_000 {
        let store = store.clone();
        asking.spawn(async move {
            let error = if n % 2 == 0 {
                store.get(&key("v")).await.map(drop).unwrap_err()
            } else {
                store.set(&key("v"), "1", LONG).await.unwrap_err()
            };
            assert!(matches!(error, Error::Away { .. }) && error.is_temporary(), "{error:?}");
        });
    }
    asking.join_all().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "all were told within {:?}", begun.elapsed());
    let facts = store.facts();
    assert!(facts.away_since.is_some() && facts.last_error.is_some(), "{facts:?}");
    let refused = store.subscribe(&key("news")).await.unwrap_err();
    assert!(refused.is_temporary(), "{refused:?}");
    server.start_again();
    let back = Instant::now();
    until("it is back", async || store.set(&key("v"), "1", LONG).await.ok()).await;
    println!("back after {:?}", back.elapsed());
    assert!(store.facts().away_since.is_none());
    store.subscribe(&key("news")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_costs_one_timeout_and_is_found_again() {
    let server = Valkey::start();
    let settings = Settings { timeout: Duration::from_millis(500), ..Settings::parse(&server.url()).unwrap() };
    let store = lb_store::open(&settings).await.unwrap();
    store.set(&key("v"), "1", LONG).await.unwrap();
    server.pause();
    let begun = Instant::now();
    let error = store.get(&key("v")).await.unwrap_err();
    assert!(matches!(error, Error::Timeout(_) | Error::Away { .. }), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "told after {:?}", begun.elapsed());
    // It accepts connections and says nothing: one tries, all others are told at once.
    let mut told = 0;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2_500) {
        assert!(store.get(&key("v")).await.is_err());
        told += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(20 < told, "{told} were told");
    server.resume();
    until("it goes on", async || store.get(&key("v")).await.ok()).await;
    assert_eq!(store.get(&key("v")).await.unwrap(), Some("1".into()));
}

#[tokio::test]
async fn where_no_server_is_opening_says_so() {
    let mut server = Valkey::start();
    server.kill9();
    let error = lb_store::open(&Settings::parse(&server.url()).unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::Away { .. }) && error.to_string().contains("refused"), "{error}");
}
