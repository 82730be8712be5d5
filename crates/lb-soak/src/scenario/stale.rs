//! A process that clients share goes on reporting for a call whose client is gone: that is for nobody else to see.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Setup, Size};
use crate::caller::Way;
use crate::history::Must;
use crate::jobs::Job;
use crate::load::end;
use crate::world::Ground;

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "T5", seed);
    let servers = json!({ "child": ground.child(&json!({})) });
    let mut world = ground.build(servers, &[], &[]).await;
    let mut gone = world.caller(Way::HttpModern, "child", "gone").await;
    let mut there = world.caller(Way::HttpModern, "child", "there").await;
    for _ in size.turns(10, 1_000) {
        let open = gone.send(Job::QUICK.taking(300).reporting(30).must(Must::End)).await;
        world.ground.ledger.entry(&open.marker, Duration::from_secs(20)).await;
        world.history().fault(format!("kill client {}", gone.name));
        gone.vanish(&open).await.expect("the gateway lets a new client in");
        // The only call that is open now.
        there.call(Job::QUICK.taking(100).reporting(3)).await;
    }
    end(vec![gone, there]).await;
    world.close().await
}
