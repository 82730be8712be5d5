//! Many sessions behind one server that mixes them up.

use std::time::Duration;

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::raw::RawHttp;
use serde_json::json;
use tokio::task::JoinSet;

use crate::world::LANDBRIDGE;

const SESSIONS: usize = 200;
const CALLS: usize = 50;

/// One session: how many of its calls were answered. Nothing that it is told may be of another.
async fn session(mut http: RawHttp, number: usize) -> usize {
    http.patience = Duration::from_secs(40);
    let path = if number.is_multiple_of(2) { "/mcp/server/old" } else { "/mcp/server/new" };
    let session = http.initialize(path, "2025-11-25").await.expect("a session");
    let mut answered = 0;
    for call in 0..CALLS {
        let text = format!("canary-{number}-{call}");
        let (tool, arguments) = match call % 5 {
            0 => ("strike", json!({ "fault": "swapped-ids", "message": text })),
            1 => ("strike", json!({ "fault": "stale-ids", "message": text })),
            _ => ("calm", json!({ "message": text })),
        };
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": call } });
        let body = json!({ "jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params }).to_string();
        let answer = http.post(path, &session.headers(), body.as_bytes()).await.expect("an answer").text();
        for found in answer.split("canary-").skip(1) {
            assert!(found.starts_with(&format!("{number}-{call}\"")), "{text} was told canary-{found}");
        }
        let is_answered = answer.contains(&text);
        assert!(is_answered || tool == "strike", "{text}: {answer}");
        answered += usize::from(is_answered);
    }
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_session_is_told_anything_of_another_by_a_server_that_mixes_them_up() {
    let evil = peer(LANDBRIDGE, "evil");
    let faults = "swapped-ids,stale-ids";
    let old = HttpPeer::start(&evil, &["--fault", faults, "--era", "legacy"]).await;
    let new = HttpPeer::start(&evil, &["--fault", faults, "--era", "modern"]).await;
    let servers = json!({ "old": { "url": old.url() }, "new": { "url": new.url() } });
    let gateway = Gateway::serve(LANDBRIDGE, servers).await;
    let mut sessions = JoinSet::new();
    for number in 0..SESSIONS {
        let http = RawHttp::connect(gateway.address).await.expect("it listens");
        sessions.spawn(session(http, number));
    }
    let answered: usize = sessions.join_all().await.iter().sum();
    assert!(SESSIONS * CALLS * 3 / 5 <= answered, "{answered}");
}
