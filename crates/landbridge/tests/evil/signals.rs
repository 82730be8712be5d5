//! Signals to the gateway, and its end.

use std::time::Duration;

use lb_peers::harness::Gateway;
use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal.
pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("the process is there");
}

/// Sends SIGTERM and checks that the gateway ends in order.
pub async fn stop(gateway: &mut Gateway, within: Duration) {
    send(gateway.pid(), Signal::TERM);
    assert_eq!(ended(gateway, within).await, Some(0), "{}", gateway.said());
}

/// Waits for the gateway's end: its exit code.
pub async fn ended(gateway: &mut Gateway, within: Duration) -> Option<i32> {
    let ended = tokio::time::timeout(within, gateway.child().wait()).await;
    let status = ended.unwrap_or_else(|_| panic!("the gateway lives after {within:?}: {}", gateway.said()));
    status.expect("the gateway can be waited for").code()
}
