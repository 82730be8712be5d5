//! A replica that takes the place of its store without having heard the last words.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lb_peers::valkey::{Name, Valkey};

use crate::world::{Client, DOOR, PATIENCE, kill, start};

async fn until(what: &str, test: impl Fn() -> bool) {
    let began = Instant::now();
    while !test() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_promoted_replica_never_heard_is_told_to_it_again_and_no_session_is_in_two_places() {
    let (mut old, new) = (Valkey::start(), Valkey::start());
    new.command(&["REPLICAOF", "127.0.0.1", &old.port.to_string()]);
    until("the replica follows", || new.command(&["INFO", "replication"]).contains("master_link_status:up")).await;
    let name = Name::of(old.port).await;
    let url = name.url();
    let (one, two) = (start(&url, DOOR).await, start(&url, DOOR).await);
    let clients =
        [Client::begin(one.address).await, Client::begin(one.address).await, Client::begin(two.address).await];
    for client in &clients {
        client.remember(one.address, "heard").await;
    }
    old.command(&["WAIT", "1", "5000"]);
    // From here on the replica hears nothing.
    new.command(&["REPLICAOF", "127.0.0.1", "1"]);
    for client in &clients {
        client.remember(two.address, "unheard").await;
    }
    let unheard = Client::begin(one.address).await;
    unheard.remember(one.address, "unheard").await;

    new.command(&["REPLICAOF", "NO", "ONE"]);
    old.kill9();
    name.moves_to(new.port);
    let nodes: [SocketAddr; 2] = [one.address, two.address];
    let began = Instant::now();
    for client in clients.iter().chain([&unheard]) {
        for at in nodes {
            let (text, took) = client.timers_soon(at).await;
            assert!(text.contains("unheard"), "stale: {text}");
            assert!(took < PATIENCE, "{took:?}");
        }
    }
    println!("everything is found again after {:?}", began.elapsed());
    for gateway in [&one, &two] {
        assert!(!gateway.said().contains("session_restored"), "nobody took what another has: {}", gateway.said());
    }
    // The replica knows by now what it had not heard: whoever comes next has it from there.
    kill(one).await;
    let again = start(&url, DOOR).await;
    for client in [&clients[0], &clients[1], &unheard] {
        let (text, _) = client.timers_soon(again.address).await;
        assert!(text.contains("unheard"), "stale: {text}");
        // A gap is told with the next event.
        let soon = serde_json::json!({ "duration_ms": 1, "message": "soon" });
        let (_, set) = client.call(again.address, "set_timer", soon).await;
        let (_, told) = client.call(again.address, "await_activity", serde_json::json!({ "timeout_ms": 10_000 })).await;
        let all = [&*text, &*set, &*told].join(" ");
        assert!(all.contains("events_dropped") && all.contains("node_lost"), "a gap is owned up to: {all}");
    }
    drop((again, two));
}
