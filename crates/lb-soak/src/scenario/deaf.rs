//! Clients that never read: they are cut off, cost little meanwhile, and nobody else notices.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use serde_json::json;
use tokio::net::TcpSocket;

use super::{Setup, Size};
use crate::caller::Way;
use crate::history::{Measure, Quantity};
use crate::jobs::{Job, UNCOUNTED};
use crate::load::{Load, end};
use crate::watch::connections;
use crate::world::Ground;

/// 30 seconds are promised.
const CUT_MAX: Duration = Duration::from_secs(90);
/// Reports of one call, a few MB; not so many that a busy machine cuts the first caller before the last one has come.
const REPORTS: u64 = 10_000;
const REPORT_BYTES: usize = 200;

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let count: usize = size.pick(100, 1_000);
    let ground = Ground::new(&setup, "R11", seed);
    let remote = ground.remote(0, &[]).await;
    let servers = json!({ "child": ground.child(&json!({})), "remote": { "url": remote.url() } });
    let mut world = ground.build(servers, &[], &[]).await;
    world.peers.push(remote);
    let mut others = Vec::new();
    for (way, server) in [(Way::HttpLegacy, "child"), (Way::HttpModern, "remote")] {
        others.push(world.caller(way, server, "other").await);
    }
    let load = Load::start(others, Job::QUICK, Duration::from_millis(10));
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.watch.phase("deaf");
    let (port, before) = (world.gateway.port(), connections(world.gateway.port()));
    let mut deaf = Vec::new();
    for _ in 0..count {
        deaf.push(ask_and_never_read(world.gateway.address).await);
    }
    let (start, most) = (Instant::now(), connections(port));
    while before < connections(port) && start.elapsed() < CUT_MAX {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let (left, took) = (connections(port).saturating_sub(before), start.elapsed());
    let history = world.history().clone();
    history.note(format!("{before} connections, then {most}, and {left} of them are left after {took:.0?}"));
    history.count("connections that nobody reads, at most", (most - before) as i64);
    history.bound_count("connections that nobody reads, at most", (count / 2) as i64, i64::MAX);
    history.count("connections that are not cut", left as i64);
    history.bound_count("connections that are not cut", 0, 0);
    end(load.stop().await.0).await;
    world.watch.phase("heard");
    // What is promised for any number of sessions, and the 1 MiB of each stream.
    let room = (128 << 10) + (40 + (1 << 10)) * count as i64;
    let peak = Measure::Peak { of: Quantity::RssKib, from: "start".to_owned(), to: "deaf".to_owned() };
    history.bound(peak, i64::MIN, room);
    drop(deaf);
    world.close().await
}

/// A session with a small window that asks for a lot.
async fn ask_and_never_read(address: SocketAddr) -> RawHttp {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let stream = socket.connect(address).await.expect("the gateway listens");
    let mut wire = RawHttp::over(stream, address);
    wire.patience = Duration::from_secs(30);
    let path = "/mcp/server/remote";
    let session = wire.initialize(path, "2025-11-25").await.expect("a session");
    // Not one of the history's calls: nobody will ever know its end.
    let marker = format!("{UNCOUNTED}-{}", "x".repeat(REPORT_BYTES));
    let arguments = format!(r#"{{"marker":"{marker}","ms":0,"notes":{REPORTS}}}"#);
    let params = format!(r#"{{"_meta":{{"progressToken":"t"}},"name":"work","arguments":{arguments}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    wire.send("POST", path, &session.headers(), body.as_bytes()).await.expect("the call is sent");
    wire
}
