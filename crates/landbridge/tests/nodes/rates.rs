//! Rates that count over all nodes.

use std::net::Ipv4Addr;
use std::time::Instant;

use lb_peers::valkey::Valkey;

use crate::world::{Client, PATIENCE, start};

const MAX: usize = 40;
const LIMITED: &[&str] = &[
    "--node-listen",
    "127.0.0.1:0",
    "--rate-limit-max",
    "40",
    "--rate-limit-window",
    "1h",
    "--trusted-proxies",
    "127.0.0.1",
];

#[tokio::test]
async fn requests_that_are_dealt_to_two_nodes_are_limited_as_at_one_and_locally_without_a_store() {
    let mut store = Valkey::start();
    let (one, two) = (start(&store.url(), LIMITED).await, start(&store.url(), LIMITED).await);
    let mut client = Client::begin(one.address).await;
    client.from = Some(Ipv4Addr::new(203, 0, 113, 7));
    let mut granted = 0;
    for turn in 0..MAX * 3 {
        let at = if turn % 2 == 0 { one.address } else { two.address };
        match client.timers(at).await {
            (200, _) => granted += 1,
            (429, _) => {}
            (status, text) => panic!("{status} {text}"),
        }
    }
    // What comes while counts are brought together is let through.
    assert!((MAX..=MAX + MAX / 2).contains(&granted), "{granted} of {MAX}");
    let began = Instant::now();
    for at in [one.address, two.address] {
        while client.timers(at).await.0 != 429 {
            assert!(began.elapsed() < PATIENCE, "both know");
        }
    }
    store.kill9();
    for at in [one.address, two.address] {
        assert_eq!(client.timers(at).await.0, 429, "what is known counts on");
    }
    client.from = Some(Ipv4Addr::new(203, 0, 113, 8));
    let mut granted = 0;
    for _ in 0..MAX + 10 {
        match client.timers(one.address).await {
            (200, _) => granted += 1,
            (429, text) => assert!(text.contains("Too many requests"), "{text}"),
            (status, text) => panic!("{status} {text}"),
        }
    }
    assert_eq!(granted, MAX, "its own limit holds, and nobody waits for the store");
}
