//! How many processes a server has for clients that share it, and for those without a session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lb_peers::harness::Gateway;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::gateway::{Guest, entry, serve};
use crate::modern::post;
use crate::world::{World, is_alive, until};

/// The process that answers each of so many calls at the same time.
async fn at_once(gateway: &Gateway, calls: usize) -> Vec<u32> {
    let call = || post(gateway, "tools/call", json!({ "name": "pid", "arguments": { "seconds": 1 } }));
    let answers = futures_util::future::join_all((0..calls).map(|_| call())).await;
    answers.iter().map(pid).collect()
}

fn pid(answer: &Value) -> u32 {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    text.parse().expect("a process id")
}

/// Whether any process worked on two calls at a time.
fn overlap(world: &World) -> bool {
    let log = std::fs::read_to_string(world.file("server.log")).unwrap_or_default();
    let mut open = BTreeSet::new();
    log.lines().any(|line| match line.split_once(' ') {
        Some(("begin", pid)) => !open.insert(pid),
        Some(("end", pid)) => !open.remove(pid),
        _ => false,
    })
}

#[tokio::test]
async fn calls_without_a_session_have_a_process_of_a_legacy_server_each_up_to_the_pool() {
    let world = World::new();
    let gateway = serve(&world, entry(&world, json!({ "isolation": "shared", "pool": 2 }))).await;
    let pids = at_once(&gateway, 5).await;
    assert_eq!(pids.iter().collect::<BTreeSet<_>>().len(), 2, "{pids:?}");
    assert_eq!(world.starts(), 1 + 2, "one to see that it is no modern server");
    assert!(!overlap(&world), "each carries one call at a time, and the others wait");
    let first = at_once(&gateway, 1).await;
    assert_eq!(at_once(&gateway, 1).await, first, "one after the other they meet the same process");
}

#[tokio::test]
async fn discovery_and_lists_of_a_shared_legacy_server_do_not_wait_for_a_call() {
    let world = World::new();
    let gateway = serve(&world, entry(&world, json!({ "isolation": "shared" }))).await;
    let slow = post(&gateway, "tools/call", json!({ "name": "slow", "arguments": { "seconds": 600 } }));
    let others = async {
        until("the call runs", || !world.noted("slow ").is_empty()).await;
        for (method, want) in [("server/discover", "capabilities"), ("tools/list", "tools"), ("own/method", "own")] {
            let answer = post(&gateway, method, json!({})).await;
            assert!(answer["result"].get(want).is_some(), "{method}: {answer}");
        }
        let listen = post(&gateway, "subscriptions/listen", json!({ "notifications": {} })).await;
        assert_eq!(listen["error"]["code"], -32601, "{listen}");
    };
    tokio::select! {
        answer = slow => panic!("it goes on: {answer}"),
        done = tokio::time::timeout(Duration::from_secs(20), others) => done.expect("nobody waits for the call"),
    }
    assert_eq!(world.starts(), 1 + 1, "all on one process");
}

#[tokio::test]
async fn a_legacy_server_that_is_not_shared_has_at_most_eight_for_calls_without_a_session() {
    let world = World::new();
    let gateway = serve(&world, entry(&world, json!({}))).await;
    let pids = at_once(&gateway, 10).await;
    let processes = pids.iter().collect::<BTreeSet<_>>().len();
    assert!((2..=8).contains(&processes), "{pids:?}");
    assert!(world.starts() <= 1 + 8, "{}", world.starts());
    assert!(!overlap(&world));
}

#[tokio::test]
async fn spare_processes_rest() {
    let world = World::new();
    let gateway = serve(&world, entry(&world, json!({ "idle_timeout": 1 }))).await;
    let pids: BTreeSet<u32> = at_once(&gateway, 3).await.into_iter().collect();
    assert_eq!(pids.len(), 3);
    until("they rest", || pids.iter().all(|pid| !is_alive(*pid))).await;
    assert!(!pids.contains(&at_once(&gateway, 1).await[0]), "and the next call has another");
}

#[tokio::test]
async fn a_modern_server_has_one_process_for_all_calls_and_so_has_a_client_that_has_us_alone() {
    let world = World::new();
    let command = world.command(json!({ "modern": true }));
    let gateway = serve(&world, json!({ "command": command[0], "args": command[1..] })).await;
    let pids = at_once(&gateway, 4).await;
    assert_eq!(pids.iter().collect::<BTreeSet<_>>().len(), 1, "{pids:?}");
    assert_eq!(world.starts(), 1);
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    let call = json!({ "name": "pid", "arguments": { "seconds": 0.5 } });
    let mut pids = BTreeSet::new();
    let ids = [
        client.ask_modern("tools/call", call.clone()).await,
        client.ask_modern("tools/call", call.clone()).await,
        client.ask_modern("tools/call", call).await,
    ];
    for id in ids {
        pids.insert(pid(&client.answer(&id).await));
    }
    assert_eq!(pids.len(), 1, "it has the server as it would be without us");
    assert!(overlap(&world), "and no call waits for another");
}

#[tokio::test]
async fn sessions_of_tools_are_spread_over_a_pool_and_stay_with_their_process() {
    let world = World::new();
    let shared = entry(&world, json!({ "isolation": "shared", "pool": 2 }));
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({ "it": shared }), &[]).await;
    let ask = async |guest: &mut Guest| {
        let arguments = json!({ "server": "it", "tool": "pid", "arguments": {} });
        pid(&guest.ask("tools/call", json!({ "name": "execute_tool", "arguments": arguments })).await)
    };
    let mut by_process: BTreeMap<u32, Vec<Guest>> = BTreeMap::new();
    for _ in 0..4 {
        let mut guest = Guest::at(&gateway, "/mcp").await;
        let pid = ask(&mut guest).await;
        by_process.entry(pid).or_default().push(guest);
    }
    assert_eq!(by_process.values().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    for (pid, guests) in &mut by_process {
        for guest in guests {
            assert_eq!(ask(guest).await, *pid, "a session stays where it is");
        }
    }
    let (gone, guests) = by_process.pop_first().expect("a process");
    for guest in guests {
        guest.leave().await;
    }
    until("a process that no session uses is ended", || !is_alive(gone)).await;
    let (stays, _guests) = by_process.pop_first().expect("another");
    assert!(is_alive(stays));
}
