//! What it costs that sessions outlive their process: calls with a store, forwarded calls, takeovers, sessions at rest.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::aims::Aim;
use super::load::{Effort, Measured, median_of_pairs};
use super::targets::{Bench, Running, number};
use crate::sh::Server;

const PATH: &str = "/mcp/server/echo";
/// Sessions that are opened and left.
const RESTING: usize = 10_000;
/// A session goes to rest when nobody used it for a minute; some seconds more, so that all of them have.
const REST: Duration = Duration::from_secs(80);
/// How long nothing may be written.
const QUIET: Duration = Duration::from_secs(10);
/// Sessions that another node takes over.
const TAKEN_OVER: usize = 200;

impl Bench {
    /// All of it.
    pub fn state_aims(&self, effort: Effort, quick: bool) -> Result<Vec<Aim>> {
        let mut found = Vec::new();
        for stateless in [true, false] {
            found.extend(self.kept_calls(stateless, effort)?);
            found.extend(self.forwarded_calls(stateless, effort)?);
        }
        found.extend(self.takeover()?);
        if !quick {
            found.extend(self.resting_sessions()?);
        }
        Ok(found)
    }

    /// The same calls through gateways that keep nothing, keep on disk, and keep on a server.
    fn kept_calls(&self, stateless: bool, effort: Effort) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(stateless)?;
        let servers = in_front_of(&echo);
        let (valkey, folder) = (self.valkey()?, self.fresh("disk")?);
        let mut running = Running::default();
        running.add("memory", "legacy", PATH, self.gateway_that(&servers, &["--data", "none"])?);
        running.add("disk", "legacy", PATH, self.gateway_that(&servers, &["--data", &folder])?);
        let on_valkey = self.gateway_that(&servers, &["--data", "none", "--store", &valkey.url])?;
        running.add("valkey", "legacy", PATH, on_valkey);
        running.keep(echo);
        running.keep(valkey);
        let mut found = Vec::new();
        for concurrency in [1, 32] {
            let measured = self.compare(&running, concurrency, 64, "tools/call", effort)?;
            let what = format!("{}, {concurrency} at once", wire(stateless));
            for name in ["disk", "valkey"] {
                let name_of_aim = format!("{what}: p50 of a call kept on {name}, x in memory");
                found.push(Aim::at_most(name_of_aim, ratio(&measured, name), 1.1));
            }
        }
        Ok(found)
    }

    /// Calls at the node that has the session, and through another one.
    fn forwarded_calls(&self, stateless: bool, effort: Effort) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(stateless)?;
        let servers = in_front_of(&echo);
        let valkey = self.valkey()?;
        let (owner, other) = (self.node(&servers, &valkey)?, self.node(&servers, &valkey)?);
        let at = format!("{}{PATH}", owner.url);
        let mut running = Running::default();
        running.add("owner", "legacy", PATH, owner);
        running.add_forwarded("forwarded", PATH, &at, other);
        running.keep(echo);
        running.keep(valkey);
        let measured = self.compare(&running, 1, 64, "tools/call", effort)?;
        let name = format!("{}: p50 of a forwarded call, x at its owner", wire(stateless));
        Ok(vec![Aim::at_most(name, ratio(&measured, "forwarded"), 2.0)])
    }

    /// The first call at a node that takes a session over from one that has ended in order.
    fn takeover(&self) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(true)?;
        let servers = in_front_of(&echo);
        let valkey = self.valkey()?;
        let (owner, other) = (self.node(&servers, &valkey)?, self.node(&servers, &valkey)?);
        let mut command = Command::new(self.mcpload());
        command.args(["takeover", "--url", &format!("{}{PATH}", owner.url), "--then", &other.url]);
        command.args(["--stop", &owner.pid().to_string(), "--sessions", &TAKEN_OVER.to_string()]);
        let found = self.one_line(&mut command)?;
        let (first, second) = (number(&found, "first_p50_us")?, number(&found, "second_p50_us")?);
        let worst = number(&found, "first_p99_us")?;
        eprintln!("takeover: first call {first:.0} us (p99 {worst:.0}), second {second:.0} us");
        Ok(vec![Aim::at_most("takeover: first call, ms", Some(first / 1000.0), 10.0)])
    }

    /// Sessions that nobody uses: what each costs in memory, and what is written for them.
    fn resting_sessions(&self) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(true)?;
        let servers = in_front_of(&echo);
        let valkey = self.valkey()?;
        let many = (RESTING + 1000).to_string();
        let args = ["--data", "none", "--store", &valkey.url, "--max-sessions", &many];
        let gateway = self.gateway_that(&servers, &args)?;
        let mut warm = Command::new(self.mcpload());
        warm.args(["idle", "--leave", "--hold", "0", "--sessions", "100", "--call", "1"]);
        warm.args(["--url", &format!("{}{PATH}", gateway.url), "--pid", &gateway.pid().to_string()]);
        self.one_line(&mut warm)?;
        let mut command = Command::new(self.mcpload());
        command.args(["idle", "--leave", "--hold", "1", "--sessions", &RESTING.to_string()]);
        command.args(["--url", &format!("{}{PATH}", gateway.url), "--pid", &gateway.pid().to_string()]);
        let opened = self.one_line(&mut command)?;
        if opened.get("held").and_then(Value::as_u64) != Some(RESTING as u64) {
            bail!("not all {RESTING} sessions were opened: {opened}");
        }
        let before = number(opened.get("before").context("no figures")?, "rss_kb")?;
        let awake = number(opened.get("at").context("no figures")?, "rss_kb")?;
        wait(REST);
        let at_rest = resident_kib(gateway.pid())?;
        let written = commands(&valkey)?;
        wait(QUIET);
        let written = commands(&valkey)?.saturating_sub(written);
        let fresh = self.gateway_that(&servers, &args)?;
        let fresh_kib = resident_kib(fresh.pid())?;
        eprintln!(
            "{RESTING} sessions: {before} KiB before, {awake} awake, {at_rest} at rest, {fresh_kib} in a new process; \
             {written} commands within {QUIET:?}"
        );
        let each = (at_rest - before) / number(&json!({"n": RESTING}), "n")?;
        Ok(vec![
            Aim::at_most(format!("{RESTING} stored idle sessions: KiB each"), Some(each), 1.0),
            // A node renews its own lease every 3 s, with a few commands.
            Aim::at_most(
                format!("{RESTING} stored idle sessions: commands to the store within {} s", QUIET.as_secs()),
                Some(f64::from(u32::try_from(written)?)),
                50.0,
            ),
        ])
    }

    fn node(&self, servers: &Value, valkey: &Server) -> Result<Server> {
        self.gateway_that(servers, &["--data", "none", "--store", &valkey.url, "--node-listen", "127.0.0.1:0"])
    }

    /// An empty folder.
    fn fresh(&self, name: &str) -> Result<String> {
        let folder = self.folder().join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(folder.to_str().context("a path of text")?.to_owned())
    }
}

#[expect(clippy::disallowed_methods, reason = "one thread with nothing else to do")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

fn in_front_of(echo: &Server) -> Value {
    json!({"echo": {"url": format!("{}/mcp", echo.url)}})
}

fn wire(stateless: bool) -> &'static str {
    if stateless { "legacy-json" } else { "legacy" }
}

/// The p50 of a target as a multiple of the first one's.
fn ratio(measured: &[Measured], name: &str) -> Option<f64> {
    let one = measured.iter().find(|one| one.label == name)?;
    let base = measured.first()?;
    eprintln!("{name}: p50 {:.0} us, {}: {:.0} us", one.p50_us, base.label, base.p50_us);
    median_of_pairs(one, base, |one, base| one.p50_us / base.p50_us)
}

fn resident_kib(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).context("VmRSS is no number")
}

/// How many commands the store has been sent.
fn commands(valkey: &Server) -> Result<u64> {
    let address = valkey.url.strip_prefix("valkey://").context("the store printed no valkey URL")?;
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.write_all(b"*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n*1\r\n$4\r\nQUIT\r\n")?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    let line = text.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.and_then(|count| count.trim().parse().ok()).context("the store does not say how many commands it had")
}
