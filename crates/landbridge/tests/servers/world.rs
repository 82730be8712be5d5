//! The servers that are put behind the gateway, and where they are installed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lb_peers::harness::{HttpPeer, peer};
use lb_peers::installed;
use serde_json::{Value, json};

use crate::LANDBRIDGE;

/// The scripted server beside this file, as arguments of `add_server` or an entry of a config.
pub fn script(settings: &Value) -> Value {
    let path = format!("{}/tests/servers/script.py", env!("CARGO_MANIFEST_DIR"));
    json!({ "command": installed::file("python", "bin/python"), "args": ["-E", "-S", path, settings.to_string()] })
}

/// The reference server of the protocol's authors, as a child.
pub fn everything() -> Value {
    let program = installed::file("everything", "node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    json!({ "command": installed::node(), "args": [program, "stdio"] })
}

/// The fixture as a child.
pub fn fixture(era: &str) -> Value {
    json!({ "command": peer(LANDBRIDGE, "fixture"), "args": ["--era", era] })
}

/// The fixture over HTTP.
pub async fn fixture_on_http(era: &str) -> HttpPeer {
    HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &["--era", era]).await
}

/// The same entry with further members.
pub fn with(mut entry: Value, members: &Value) -> Value {
    for (key, value) in members.as_object().expect("an object") {
        entry[key.as_str()] = value.clone();
    }
    entry
}

/// An address where nothing listens.
pub async fn nowhere() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("its address")
}

/// Whether a process is there, and not as a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Waits until a process is gone.
pub async fn gone(pid: u32, within: Duration) {
    until(within, &format!("process {pid} is gone"), || !is_alive(pid)).await;
}

/// Waits until `test` holds.
pub async fn until(within: Duration, what: &str, test: impl Fn() -> bool) {
    let start = Instant::now();
    while !test() {
        assert!(start.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Live processes with this text in their environment or command line.
pub fn marked(mark: &str) -> Vec<u32> {
    let holds = |pid: u32, file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let own = std::process::id();
    pids.filter(|pid| *pid != own && is_alive(*pid) && (holds(*pid, "environ") || holds(*pid, "cmdline"))).collect()
}

/// Kills a process the hard way.
pub fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
}

/// An entry for `add_server`: its name and its definition.
pub fn add(name: &str, entry: &Value) -> Value {
    with(entry.clone(), &json!({ "name": name }))
}
