//! Servers with too much of everything: long lists, large results, reports without end.

use std::path::PathBuf;
use std::time::Duration;

use lb_peers::raw::RawHttp;
use serde_json::{Value, json};

use super::{Setup, Size};
use crate::caller::Way;
use crate::history::{Measure, Must, Quantity};
use crate::jobs::Job;
use crate::load::{Load, end};
use crate::world::{Ground, World};

const TOOLS: i64 = 10_000;
const PAGES_MAX: usize = 200;

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let reports: u64 = size.pick(1_000_000, 3_000_000);
    let ground = Ground::new(&setup, "R19", seed);
    let ledger = ground.ledger.path().to_owned();
    let many = json!({ "args": ["--ledger", ledger, "--tools", TOOLS.to_string()] });
    let remote = ground.remote(0, &[]).await;
    let servers =
        json!({ "child": ground.child(&json!({})), "many": ground.child(&many), "remote": { "url": remote.url() } });
    let mut world = ground.build(servers, &[], &[]).await;
    world.peers.push(remote);
    let others = vec![world.caller(Way::HttpLegacy, "child", "other").await];
    let load = Load::start(others, Job::QUICK, Duration::from_millis(20));
    let history = world.history().clone();
    world.watch.phase("lists");
    let found = list(&world).await;
    history.count("tools that were listed", found);
    history.bound_count("tools that were listed", TOOLS + 1, TOOLS + 1);
    world.watch.phase("large");
    for (way, server) in [(Way::HttpLegacy, "child"), (Way::HttpModern, "child"), (Way::HttpModern, "remote")] {
        let mut caller = world.caller(way, server, "large").await;
        caller.call(Job { bytes: 10 << 20, ..Job::QUICK }).await;
        // Beyond what one message may be: an error, and the next call is fine.
        caller.call(Job { bytes: 20 << 20, ..Job::QUICK }.must(Must::Fail)).await;
        caller.call(Job::QUICK).await;
        end(vec![caller]).await;
    }
    // All from one server to one client, once what this takes at all is there; from the other kind a tenth of it.
    world.watch.phase("first reports");
    let mut caller = world.caller(Way::HttpLegacy, "child", "reports").await;
    caller.call(Job::QUICK.reporting(reports / 20)).await;
    world.watch.phase("reports");
    caller.call(Job::QUICK.reporting(reports)).await;
    end(vec![caller]).await;
    world.watch.phase("reports of another");
    let mut caller = world.caller(Way::HttpModern, "remote", "reports").await;
    caller.call(Job::QUICK.reporting(reports / 10)).await;
    end(vec![caller]).await;
    world.watch.phase("after");
    end(load.stop().await.0).await;
    for (from, phase, room) in [
        ("start", "lists", 64),
        ("start", "large", 256),
        ("first reports", "reports", 16),
        ("start", "reports of another", 256),
    ] {
        let peak = Measure::Peak { of: Quantity::RssKib, from: from.to_owned(), to: phase.to_owned() };
        history.bound(peak, i64::MIN, room << 10);
    }
    world.close().await
}

/// All tools of the server with many, page by page.
async fn list(world: &World) -> i64 {
    let path = "/mcp/server/many";
    let mut wire = RawHttp::connect(world.gateway.address).await.expect("the gateway listens");
    wire.patience = Duration::from_secs(30);
    let session = wire.initialize(path, "2025-11-25").await.expect("a session");
    let (mut found, mut cursor) = (0, Value::Null);
    for page in 0..PAGES_MAX {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let body = json!({ "jsonrpc": "2.0", "id": page, "method": "tools/list", "params": params }).to_string();
        let response = wire.post(path, &session.headers(), body.as_bytes()).await.expect("an answer");
        let text = if response.head.is_sse() {
            response.events().iter().map(lb_peers::raw::sse::Event::text).find(|text| text.contains("result"))
        } else {
            Some(response.text())
        };
        let answer: Value = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        found += answer["result"]["tools"].as_array().map_or(0, |tools| tools.len() as i64);
        cursor = answer["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    found
}
