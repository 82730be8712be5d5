//! A server that says very much.

use serde_json::json;

use crate::world::{self, count, drain, execute, gateway};

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line with its memory");
    let kilobytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number");
    kilobytes * 1024
}

#[tokio::test]
async fn a_flood_of_notifications_takes_little_memory() {
    let long = std::env::var_os("LANDBRIDGE_LONG").is_some();
    let bursts: u32 = if long { 100 } else { 3 };
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    execute(&client, "one", "burst", json!({ "from": 0, "count": 10_000 })).await;
    let before = resident(gateway.pid());
    for burst in 0..bursts {
        let arguments =
            json!({ "server": "one", "tool": "burst", "args": { "from": burst * 10_000, "count": 10_000 } });
        let reply = client.call("execute_tool", arguments).await;
        assert!(!reply.is_error(), "{reply}");
    }
    let grown = resident(gateway.pid()).saturating_sub(before);
    assert!(grown < 32 * 1024 * 1024, "{grown} bytes more after {} notifications", bursts * 10_000);
    let told = drain(&client).await;
    assert!(count(&told, "notification") <= 100, "at most a hundred of one server wait");
}
