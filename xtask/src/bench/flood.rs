//! What a server that sends notifications without pause does to the calls of another session.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::load::Effort;
use super::targets::{Bench, number};

const NOTIFICATIONS: u64 = 1_000_000;
/// The server never says nothing for so long.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Runs while the flood lasts; more would only tell the same.
const RUNS_MAX: usize = 50;
/// Floods of each kind, in turns.
const FLOODS_MAX: usize = 3;

/// The 99th percentiles of the same calls, in microseconds.
pub struct Beside {
    /// With nothing else to do, before and after.
    pub quiet_us: f64,
    /// While the notifications came through another process: what the machine alone makes of so much work.
    pub apart_us: f64,
    /// While they came through the gateway that answers the calls.
    pub through_us: f64,
}

impl Bench {
    /// Calls of one session: alone, while the server of another session sends a million notifications through a
    /// second gateway, and through the same one. None where the notifications were over before a run was.
    pub fn beside_a_flood(&self, effort: Effort) -> Result<Option<Beside>> {
        let flood = |name: &str| {
            let args = json!(["--ledger", self.folder().join(name)]);
            json!({"command": self.ledger(), "args": args, "isolation": "shared"})
        };
        let gateway = self.gateway_with(&json!({"echo": self.stdio_server(), "flood": flood("through")}))?;
        let other = self.gateway_with(&json!({"flood": flood("apart")}))?;
        let url = format!("{}/mcp/server/echo", gateway.url);
        let p99 = || -> Result<f64> {
            let mut command = Command::new(self.mcpload());
            command.args(["run", "--json", "--url", &url, "--calls", &effort.calls.to_string(), "--max-seconds", "10"]);
            number(&self.one_line(&mut command)?, "p99_us")
        };
        let (mut quiet, mut apart, mut through) = (vec![p99()?, p99()?], Vec::new(), Vec::new());
        for _ in 0..effort.rounds.min(FLOODS_MAX) {
            apart.extend(flooded(&other.url, p99)?);
            through.extend(flooded(&gateway.url, p99)?);
        }
        quiet.extend([p99()?, p99()?]);
        let quiet_us = median(quiet).context("no run without notifications")?;
        let flooded = median(apart).zip(median(through));
        Ok(flooded.map(|(apart_us, through_us)| Beside { quiet_us, apart_us, through_us }))
    }
}

/// What the calls took while the gateway at this URL let the notifications through.
fn flooded(url: &str, p99: impl Fn() -> Result<f64>) -> Result<Vec<f64>> {
    let address = url.strip_prefix("http://").context("the gateway printed no http URL")?;
    let mut found = Vec::new();
    let over = AtomicBool::new(false);
    let heard = std::thread::scope(|scope| -> Result<u64> {
        let reader = scope.spawn(|| {
            let heard = listen(address);
            over.store(true, Ordering::Relaxed);
            heard
        });
        while !over.load(Ordering::Relaxed) && found.len() < RUNS_MAX {
            let one = p99()?;
            if !over.load(Ordering::Relaxed) {
                found.push(one);
            }
        }
        reader.join().unwrap_or_else(|_| bail!("the reader of the notifications panicked"))
    })?;
    eprintln!("{heard} of {NOTIFICATIONS} notifications reached their client during {} runs", found.len());
    Ok(found)
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// Makes the call that is answered with notifications, and reads them to the end: how many came.
fn listen(address: &str) -> Result<u64> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "progressToken": "t",
    });
    let arguments = json!({"marker": "flood", "ms": 0, "notes": NOTIFICATIONS});
    let params = json!({"name": "work", "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let mut socket = TcpStream::connect(address).context("the gateway does not listen")?;
    socket.set_read_timeout(Some(SILENCE_MAX))?;
    write!(
        socket,
        "POST /mcp/server/flood HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: work\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut count = 0;
    for line in BufReader::new(socket).split(b'\n') {
        let line = line.context("the stream of notifications broke off")?;
        if !line.starts_with(b"data:") {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        if text.contains("notifications/progress") {
            count += 1;
        } else if text.contains("\"result\"") {
            return Ok(count);
        }
    }
    bail!("the call with the notifications got no answer")
}
