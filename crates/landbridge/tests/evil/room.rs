//! More sessions than there may be children.

use std::collections::BTreeSet;
use std::time::Duration;

use lb_peers::harness::Gateway;
use lb_peers::raw::handshake::Era;
use serde_json::json;

use crate::desk::{Client, LANDBRIDGE, child, mark};
use crate::procs;

const CHILDREN_MAX: usize = 64;

/// Once, the next session was refused until another one ended.
#[tokio::test]
async fn the_child_that_was_idle_for_longest_makes_room() {
    let mark = mark("room");
    let children = || -> BTreeSet<u32> {
        procs::marked(&format!("\0EVIL_MARK={mark}")).into_iter().map(|process| process.pid).collect()
    };
    let servers = json!({ "it": child("hang", Era::Legacy, &mark), "modern": child("hang", Era::Modern, &mark) });
    let gateway = Gateway::serve(LANDBRIDGE, servers).await;
    // Idle for longest of all, and of no session: others may rely on it at any time.
    let mut modern = Client::open(&gateway, "modern", Era::Modern).await;
    modern.calm("the first of all").await;
    let shared = children();
    let (mut clients, mut own) = (Vec::new(), Vec::new());
    for n in 0..CHILDREN_MAX - shared.len() {
        let before = children();
        let mut client = Client::open(&gateway, "it", Era::Legacy).await;
        client.calm(&format!("session {n}")).await;
        own.push(*children().difference(&before).next().expect("a child of its own"));
        clients.push(client);
    }
    // The three oldest are needed: one listens, one waits for an answer, one was used just now.
    let stream = clients[0].listen(&gateway).await;
    let waiting = clients[1].send_call("strike", json!({}), "").await;
    clients[2].calm("once more").await;

    let mut late = Client::open(&gateway, "it", Era::Legacy).await;
    late.calm("one too many").await;
    procs::until(Duration::from_secs(5), "one child ends", || !procs::exists(own[3])).await;
    let left = children();
    assert!(own.iter().filter(|pid| !left.contains(pid)).eq([&own[3]]), "{own:?} were, {left:?} are");

    // Whose child was ended has a new one with the next call, and sees no error.
    clients[3].calm("a child of its own again").await;
    procs::until(Duration::from_secs(5), "the next one ends", || !procs::exists(own[4])).await;
    assert!(children().len() <= CHILDREN_MAX);
    assert!(shared.is_subset(&children()), "the child of all modern clients was ended");
    clients[0].calm("still listening").await;
    drop((stream, waiting));
}
