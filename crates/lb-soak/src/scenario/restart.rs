//! The gateway is replaced under load, again and again, the new process first: no request fails.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use lb_peers::harness::Gateway;
use rustix::process::Signal;
use serde_json::json;

use super::{Setup, Size};
use crate::caller::{Caller, Manners, Way};
use crate::jobs::Job;
use crate::load::{Load, end};
use crate::world::{Ground, World, gateway_pid, signal};

const SETTLED: Duration = Duration::from_millis(400);
/// The hard stop, with room.
const OLD_ENDS_MAX: Duration = Duration::from_secs(45);
/// Clients with sessions; a session ends with its process.
const LEGACY: i64 = 3;

/// How the socket goes from one process to the next.
enum Handover {
    /// Both bind this port.
    ReusePort(u16),
    /// A third process, this one, holds the socket, as systemd does.
    Activation(TcpListener),
}

impl Handover {
    fn name(&self) -> &'static str {
        match self {
            Self::ReusePort(_) => "reuse-port",
            Self::Activation(_) => "activation",
        }
    }

    async fn start(&self, world: &World) -> Gateway {
        match self {
            Self::ReusePort(port) => start_shared(world, *port).await,
            Self::Activation(socket) => start_activated(world, socket).await,
        }
    }
}

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let ground = Ground::new(&setup, "R7", seed);
    let remote = ground.remote(0, &[]).await;
    let servers = json!({ "child": ground.child(&json!({})), "remote": { "url": remote.url() } });
    let mut world = ground.build(servers, &["--reuse-port"], &[]).await;
    world.peers.push(remote);
    let history = world.history().clone();

    let port = world.gateway.port();
    let mut restarts = under_load(&mut world, &Handover::ReusePort(port), size.part(2)).await;
    let activation = Handover::Activation(TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let first = activation.start(&world).await;
    replace(&mut world, first, "to socket activation").await;
    restarts += under_load(&mut world, &activation, size.part(2)).await;

    history.count("restarts", restarts);
    for how in ["reuse-port", "activation"] {
        history.count(&format!("sessions opened again ({how})"), 0);
        history.bound_count(&format!("sessions opened again ({how})"), 0, LEGACY * restarts);
    }
    history.count("retried after a reset (reuse-port)", 0);
    history.bound_count("retried after a reset (reuse-port)", 0, i64::MAX);
    history.count("slow stops", 0);
    history.bound_count("slow stops", 0, 0);
    world.close().await
}

/// Gives how often it was replaced.
async fn under_load(world: &mut World, handover: &Handover, size: Size) -> i64 {
    let load = Load::start(callers(world, handover).await, Job::QUICK.taking(5), Duration::from_millis(5));
    let mut restarts = 0;
    for number in size.turns(10, 50) {
        restarts += 1;
        let next = handover.start(world).await;
        replace(world, next, &format!("{} {number}", handover.name())).await;
        // Everybody has come over before the next one.
        tokio::time::sleep(SETTLED).await;
    }
    end(load.stop().await.0).await;
    restarts
}

async fn callers(world: &mut World, handover: &Handover) -> Vec<Caller> {
    let name = handover.name();
    let mut callers = Vec::new();
    let kinds = [
        (Way::HttpLegacy, "remote"),
        (Way::HttpLegacy, "remote"),
        (Way::HttpLegacy, "child"),
        (Way::HttpModern, "remote"),
        (Way::HttpModern, "child"),
    ];
    for (number, (way, server)) in kinds.into_iter().enumerate() {
        let mut caller = world.caller(way, server, &format!("{name}{number}")).await;
        let (retry_reset, reopen) = (matches!(handover, Handover::ReusePort(_)), true);
        caller.manners = Manners { retry_reset, reopen, ..Manners::default() };
        caller.phase = format!(" ({name})");
        callers.push(caller);
    }
    callers
}

/// The new process is there; the old one is told to stop and goes.
async fn replace(world: &mut World, next: Gateway, what: &str) {
    let mut old = std::mem::replace(&mut world.gateway, next);
    let old_pid = std::mem::replace(&mut world.pid, gateway_pid(&world.gateway, &world.ground.setup.binary));
    world.history().fault(format!("restart, {what}: {old_pid} gives way to {}", world.pid));
    signal(old_pid, Signal::TERM);
    let ended = tokio::time::timeout(OLD_ENDS_MAX, old.child().wait()).await;
    if !matches!(ended, Ok(Ok(status)) if status.success()) {
        world.history().count("slow stops", 1);
        world.history().note(format!("{what}: the old process ended with {ended:?}: {}", old.said()));
    }
    world.watch_again();
}

async fn start_shared(world: &World, port: u16) -> Gateway {
    let mut command = world.ground.command(&world.config, &format!("127.0.0.1:{port}"), &[]);
    command.arg("--reuse-port");
    Gateway::launch(command, empty()).await
}

/// The shell takes the socket from its input to where the convention wants it, and names itself before it becomes the
/// gateway.
async fn start_activated(world: &World, socket: &TcpListener) -> Gateway {
    let shell = r#"exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@""#;
    let listen = socket.local_addr().expect("an address").to_string();
    let mut command = world.ground.command(&world.config, &listen, &["sh", "-c", shell]);
    command.stdin(Stdio::from(OwnedFd::from(socket.try_clone().expect("a handle of its own"))));
    Gateway::launch(command, empty()).await
}

fn empty() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}
