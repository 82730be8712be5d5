//! A client that vanished without a word: no end, no reset, no packet at all.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::Session;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;

use super::{Setup, Size};
use crate::world::{Ground, World};

/// A network of its own, so that packets can be dropped.
const SHELL: &str = r#"ip link set lo up && exec "$0" "$@""#;
/// 60 seconds are promised.
const FREED_MAX: Duration = Duration::from_secs(120);
const PATH: &str = "/mcp/server/child";

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R12", seed);
    let servers = json!({ "child": ground.child(&json!({})) });
    let world = ground.build(servers, &[], &["unshare", "-n", "sh", "-c", SHELL]).await;
    let history = world.history().clone();
    let mut times = 0;
    for _ in size.turns(1, 5) {
        times += 1;
        let (pid, address) = (world.pid, world.gateway.address);
        let opened = inside(pid, move || Box::pin(open(address))).await;
        let (mut waiting, session) = opened.expect("a session with an open stream");
        // The connection that opened the session is closed by then.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let with = world.fds();
        nft(&world, &["add", "table", "ip", "f"]);
        nft(&world, &["add", "chain", "ip", "f", "o", "{ type filter hook output priority 0; }"]);
        for side in ["dport", "sport"] {
            nft(&world, &["add", "rule", "ip", "f", "o", "tcp", side, &address.port().to_string(), "drop"]);
        }
        history.fault("every packet is dropped");
        let start = Instant::now();
        while with <= world.fds() && start.elapsed() < FREED_MAX {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        history.note(format!("{with} descriptors with the client, {} after {:.0?}", world.fds(), start.elapsed()));
        history.count("connections that are given up", i64::from(world.fds() < with));
        waiting.patience = Duration::ZERO;
        nft(&world, &["delete", "table", "ip", "f"]);
        // The session is kept for a client that comes back.
        let answer = inside(pid, move || Box::pin(ask_again(address, session))).await;
        history.count("sessions that were kept", i64::from(answer.as_ref().is_ok_and(|status| *status == 200)));
        history.note(format!("and then, in the same session: {answer:?}"));
        drop(waiting);
    }
    history.bound_count("connections that are given up", times, i64::MAX);
    history.bound_count("sessions that were kept", times, i64::MAX);
    world.close().await
}

/// A session, and its stream on a connection of its own.
async fn open(address: SocketAddr) -> std::io::Result<(RawHttp, Session)> {
    let mut wire = RawHttp::connect(address).await?;
    let session = wire.initialize(PATH, "2025-11-25").await?;
    let mut stream = RawHttp::connect(address).await?;
    stream.send("GET", PATH, &session.headers(), b"").await?;
    let status = stream.head().await?.status();
    if status == 200 { Ok((stream, session)) } else { Err(std::io::Error::other(format!("status {status}"))) }
}

async fn ask_again(address: SocketAddr, session: Session) -> std::io::Result<u16> {
    let mut wire = RawHttp::connect(address).await?;
    let body = br#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
    Ok(wire.post(PATH, &session.headers(), body).await?.head.status())
}

type Work<T> = std::pin::Pin<Box<dyn Future<Output = std::io::Result<T>>>>;

/// Does something on a thread that has moved into the network of a process; its sockets stay there.
async fn inside<T: Send + 'static>(pid: u32, work: impl FnOnce() -> Work<T> + Send + 'static) -> std::io::Result<T> {
    let done = tokio::task::spawn_blocking(move || {
        std::thread::spawn(move || {
            let network = std::fs::File::open(format!("/proc/{pid}/ns/net"))?;
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&network), Some(LinkNameSpaceType::Network))?;
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
        })
        .join()
        .unwrap_or_else(|_| Err(std::io::Error::other("the thread panicked")))
    });
    done.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

fn nft(world: &World, words: &[&str]) {
    let mut command = Command::new("nsenter");
    let ran = command.args(["-t", &world.pid.to_string(), "-n", "nft"]).args(words).status();
    assert!(ran.is_ok_and(|status| status.success()), "nft {words:?}: is nftables installed? run `cargo xtask peers`");
}
