//! A node that is killed and started again goes on at once, without waiting for the end of its lease.

use std::time::{Duration, Instant};

use lb_peers::valkey::Valkey;

use crate::world::{Client, DOOR, kill, start};

/// Much shorter than a lease, and ten times what it should take another node to hear of it.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_lone_gateway_that_is_killed_and_started_again_answers_its_first_request() {
    let store = Valkey::start();
    let mut gateway = start(&store.url(), &[]).await;
    let client = Client::begin(gateway.address).await;
    for round in 0..3 {
        client.remember(gateway.address, &format!("round-{round}")).await;
        kill(gateway).await;
        gateway = start(&store.url(), &[]).await;
        let (status, text) = client.timers(gateway.address).await;
        assert_eq!(status, 200, "round {round}: {text}");
        for earlier in 0..=round {
            assert!(text.contains(&format!("round-{earlier}")), "round {round}: {text}");
        }
    }
}

#[tokio::test]
async fn a_node_that_is_killed_and_started_again_is_known_to_be_dead_everywhere() {
    let store = Valkey::start();
    let (first, other) = (start(&store.url(), DOOR).await, start(&store.url(), DOOR).await);
    let (mine, yours) = (Client::begin(first.address).await, Client::begin(first.address).await);
    let theirs = Client::begin(other.address).await;
    for (client, word) in [(&mine, "mine"), (&yours, "yours"), (&theirs, "theirs")] {
        client.remember(other.address, word).await;
    }
    kill(first).await;
    let again = start(&store.url(), DOOR).await;
    let (status, text) = mine.timers(again.address).await;
    assert!(status == 200 && text.contains("mine"), "{status} {text}");
    let (text, took) = yours.timers_soon(other.address).await;
    assert!(text.contains("yours") && took < SOON, "{took:?} {text}");
    // What lives is left where it is, and is reached from everywhere.
    for at in [again.address, other.address] {
        let (status, text) = theirs.timers(at).await;
        assert!(status == 200 && text.contains("theirs"), "{status} {text}");
    }
    let restored = |said: String| said.matches("session_restored").count();
    assert_eq!(restored(again.said()) + restored(other.said()), 2, "each that was lost, once");
}

/// Two that are started alike, as when one replaces the other on the same address.
#[tokio::test]
async fn processes_that_are_started_alike_at_the_same_time_leave_each_other_what_they_have() {
    let store = Valkey::start();
    let (one, two) = (start(&store.url(), DOOR).await, start(&store.url(), DOOR).await);
    let clients = [Client::begin(one.address).await, Client::begin(two.address).await];
    for (client, word) in clients.iter().zip(["first", "second"]) {
        client.remember(one.address, word).await;
    }
    let began = Instant::now();
    // Long enough for each to look at the other more than once.
    while began.elapsed() < Duration::from_secs(8) {
        for (client, word) in clients.iter().zip(["first", "second"]) {
            for at in [one.address, two.address] {
                let (status, text) = client.timers(at).await;
                assert!(status == 200 && text.contains(word), "{status} {text}");
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for gateway in [one, two] {
        let said = gateway.said();
        assert!(!said.contains("session_restored") && !said.contains("session_lost"), "{said}");
        assert!(!said.contains("node_gone"), "{said}");
    }
}
