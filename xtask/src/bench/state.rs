//! What it costs that sessions outlive their process: calls with a store, forwarded calls, takeovers.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::aims::Aim;
use super::load::{Effort, Measured, median_of_pairs};
use super::targets::{Bench, Running, number};
use crate::sh::Server;

pub(super) const PATH: &str = "/mcp/server/echo";
/// Sessions that another node takes over.
const TAKEN_OVER: usize = 200;

/// How calls are answered.
#[derive(Clone, Copy)]
enum Wire {
    /// By a body, from the server and from us.
    Json,
    /// By a stream, from the server and from us: each of its messages is written down before it is sent.
    Sse,
}

/// How a node that had the sessions ends.
#[derive(Clone, Copy)]
enum End {
    /// It hands over.
    InOrder,
    /// It is killed, and missed when its lease is over.
    Killed,
}

impl Bench {
    /// All of it.
    pub fn state_aims(&self, effort: Effort, quick: bool) -> Result<Vec<Aim>> {
        let mut found = Vec::new();
        for wire in [Wire::Json, Wire::Sse] {
            found.extend(self.kept_calls(wire, effort)?);
            found.extend(self.forwarded_calls(wire, effort)?);
        }
        for end in [End::InOrder, End::Killed] {
            found.extend(self.takeover(end)?);
        }
        if !quick {
            found.extend(self.resting_aims()?);
        }
        Ok(found)
    }

    /// The same calls through gateways that keep nothing, keep on disk, and keep on a server.
    fn kept_calls(&self, wire: Wire, effort: Effort) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(matches!(wire, Wire::Json))?;
        let servers = in_front_of(&echo);
        let (valkey, folder) = (self.valkey()?, self.fresh("disk")?);
        let mut running = Running::default();
        running.add("memory", "legacy", PATH, self.gateway_that(&servers, &["--data", "none"])?);
        running.add("disk", "legacy", PATH, self.gateway_that(&servers, &["--data", &folder])?);
        let on_valkey = self.gateway_that(&servers, &["--data", "none", "--store", &valkey.url])?;
        running.add("valkey", "legacy", PATH, on_valkey);
        running.keep(echo);
        running.keep(valkey);
        wire.tell(&mut running);
        let mut found = Vec::new();
        for concurrency in [1, 32] {
            let measured = self.compare(&running, concurrency, 64, "tools/call", effort)?;
            let what = format!("{}, {concurrency} at once", wire.name());
            for name in ["disk", "valkey"] {
                let name_of_aim = format!("{what}: p50 of a call kept on {name}, x in memory");
                found.push(Aim::at_most(name_of_aim, ratio(&measured, name), 1.1));
            }
        }
        Ok(found)
    }

    /// Calls at the node that has the session, and through another one.
    fn forwarded_calls(&self, wire: Wire, effort: Effort) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(matches!(wire, Wire::Json))?;
        let servers = in_front_of(&echo);
        let valkey = self.valkey()?;
        let (owner, other) = (self.node(&servers, &valkey)?, self.node(&servers, &valkey)?);
        let at = format!("{}{PATH}", owner.url);
        let mut running = Running::default();
        running.add("owner", "legacy", PATH, owner);
        running.add_forwarded("forwarded", PATH, &at, other);
        running.keep(echo);
        running.keep(valkey);
        wire.tell(&mut running);
        let measured = self.compare(&running, 1, 64, "tools/call", effort)?;
        let name = format!("{}: p50 of a forwarded call, x at its owner", wire.name());
        Ok(vec![Aim::at_most(name, ratio(&measured, "forwarded"), 2.0)])
    }

    /// The first call at a node that takes a session over.
    fn takeover(&self, end: End) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(true)?;
        let servers = in_front_of(&echo);
        let valkey = self.valkey()?;
        let (owner, other) = (self.node(&servers, &valkey)?, self.node(&servers, &valkey)?);
        let mut command = Command::new(self.mcpload());
        command.args(["takeover", "--url", &format!("{}{PATH}", owner.url), "--then", &other.url]);
        command.args(["--stop", &owner.pid().to_string(), "--sessions", &TAKEN_OVER.to_string()]);
        let how = match end {
            End::InOrder => "after an end in order",
            End::Killed => {
                command.arg("--kill");
                "after a kill"
            }
        };
        let found = self.one_line(&mut command)?;
        let (first, second) = (number(&found, "first_p50_us")?, number(&found, "second_p50_us")?);
        let worst = number(&found, "first_p99_us")?;
        eprintln!("takeover {how}: first call {first:.0} us (p99 {worst:.0}), second {second:.0} us");
        let mut aims = vec![Aim::at_most(format!("takeover {how}: first call, ms"), Some(first / 1000.0), 10.0)];
        if matches!(end, End::Killed) {
            let missed = number(&found, "missed_ms")?;
            aims.push(Aim::at_most("takeover after a kill: until the node is missed, s", Some(missed / 1000.0), 12.0));
        }
        Ok(aims)
    }

    fn node(&self, servers: &Value, valkey: &Server) -> Result<Server> {
        self.gateway_that(servers, &["--data", "none", "--store", &valkey.url, "--node-listen", "127.0.0.1:0"])
    }

    /// An empty folder.
    pub(super) fn fresh(&self, name: &str) -> Result<String> {
        let folder = self.folder().join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(folder.to_str().context("a path of text")?.to_owned())
    }
}

pub(super) fn in_front_of(echo: &Server) -> Value {
    json!({"echo": {"url": format!("{}/mcp", echo.url)}})
}

impl Wire {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "legacy JSON",
            Self::Sse => "legacy SSE",
        }
    }

    /// Has the clients of all targets take nothing else.
    fn tell(self, running: &mut Running) {
        if matches!(self, Self::Sse) {
            running.take_streams();
        }
    }
}

/// The p50 of a target as a multiple of the first one's.
fn ratio(measured: &[Measured], name: &str) -> Option<f64> {
    let one = measured.iter().find(|one| one.label == name)?;
    let base = measured.first()?;
    eprintln!("{name}: p50 {:.0} us, {}: {:.0} us", one.p50_us, base.label, base.p50_us);
    median_of_pairs(one, base, |one, base| one.p50_us / base.p50_us)
}
