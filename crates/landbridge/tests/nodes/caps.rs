//! How many sessions there may be, on all nodes together.

use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{initialize_request, post_headers};
use lb_peers::valkey::Valkey;

use crate::world::{Client, PATIENCE, kill, start};

const FEW: &[&str] = &["--node-listen", "127.0.0.1:0", "--max-sessions", "3"];

/// Tries to begin one more session; the status, and whether it says when to come again.
async fn begin(at: std::net::SocketAddr) -> (u16, bool) {
    let mut http = RawHttp::connect(at).await.expect("it listens");
    let hello = initialize_request("0", "2025-11-25");
    let answer = http.post("/mcp", &post_headers(), hello.as_bytes()).await.expect("an answer");
    (answer.head.status(), answer.head.header("retry-after").is_some())
}

#[tokio::test]
async fn the_nodes_together_have_no_more_sessions_than_there_may_be() {
    let store = Valkey::start();
    let (one, two) = (start(&store.url(), FEW).await, start(&store.url(), FEW).await);
    for word in ["first", "second"] {
        let client = Client::begin(one.address).await;
        client.remember(one.address, word).await;
    }
    let client = Client::begin(two.address).await;
    client.remember(two.address, "third").await;
    // What the other one has is told with its next renewal, every 3 s.
    for at in [one.address, two.address] {
        let began = Instant::now();
        loop {
            let (status, when) = begin(at).await;
            if status == 503 {
                assert!(when, "it says when to come again");
                break;
            }
            // Those that were let in before the word went round; they are not kept.
            assert!(status == 200 && began.elapsed() < PATIENCE, "{status}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    // Sessions that are there go on, also when their node has died.
    assert_eq!(client.timers(one.address).await.0, 200, "by the other node");
    kill(one).await;
    assert_eq!(client.timers(two.address).await.0, 200);
}
