//! Sessions that are stored and that nobody uses: what each costs in memory, and what is written for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::aims::Aim;
use super::state::{PATH, in_front_of};
use super::targets::{Bench, number};
use crate::sh::Server;

/// Sessions that are opened and left, two times.
const RESTING: u32 = 10_000;
/// A session goes to rest when nobody used it for a minute; some seconds more, so that all of them have.
const REST: Duration = Duration::from_secs(80);
/// How long nothing may be written.
const QUIET: Duration = Duration::from_secs(10);

/// Where they are stored.
#[derive(Clone, Copy)]
enum Kept {
    OnDisk,
    OnValkey,
}

/// What is resident, in KiB.
struct Resident {
    /// With all sessions that were just opened in memory.
    awake: f64,
    /// With all of them at rest.
    at_rest: f64,
}

impl Bench {
    /// On disk and on a server.
    pub fn resting_aims(&self) -> Result<Vec<Aim>> {
        let mut found = self.resting_sessions(Kept::OnDisk)?;
        found.extend(self.resting_sessions(Kept::OnValkey)?);
        Ok(found)
    }

    /// What a process needs once, however many sessions there are, must not be taken for the cost of sessions: so many
    /// are opened, rest, and as many again are opened beside them. What the process has more of then, whether most when
    /// the second ones are awake or when they rest too, is the cost of the first ones. (The former shows it although an
    /// allocator keeps what the first ones had while they were awake.)
    fn resting_sessions(&self, kept: Kept) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(true)?;
        let servers = in_front_of(&echo);
        let valkey = self.valkey()?;
        let folder = self.fresh("resting")?;
        let many = (RESTING * 2 + 1000).to_string();
        let args = match kept {
            Kept::OnDisk => vec!["--data", &folder, "--max-sessions", &many],
            Kept::OnValkey => vec!["--data", "none", "--store", &valkey.url, "--max-sessions", &many],
        };
        let gateway = self.gateway_that(&servers, &args)?;
        let first = self.leave_sessions(&gateway)?;
        let second = self.leave_sessions(&gateway)?;
        let written = kept.written(&gateway, &valkey)?;
        let busy = cpu_ticks(gateway.pid())?;
        wait(QUIET);
        let written = kept.written(&gateway, &valkey)?.saturating_sub(written);
        let busy = cpu_ticks(gateway.pid())?.saturating_sub(busy);
        eprintln!(
            "{RESTING} sessions {}: {} KiB awake, {} at rest; {RESTING} more: {} awake, {} at rest; {written} {} and {} ms \
             of CPU within {QUIET:?}",
            kept.name(),
            first.awake,
            first.at_rest,
            second.awake,
            second.at_rest,
            kept.unit(),
            busy * 10,
        );
        let each = (second.awake - first.awake).max(second.at_rest - first.at_rest) / f64::from(RESTING);
        let what = format!("{RESTING} stored idle sessions {}", kept.name());
        Ok(vec![
            Aim::at_most(format!("{what}: KiB each"), Some(each), 1.0),
            Aim::at_most(
                format!("{what}: {} within {} s", kept.unit(), QUIET.as_secs()),
                Some(f64::from(u32::try_from(written)?)),
                kept.written_max(),
            ),
        ])
    }

    /// Opens sessions, leaves them, and waits until they rest.
    fn leave_sessions(&self, gateway: &Server) -> Result<Resident> {
        let mut command = Command::new(self.mcpload());
        command.args(["idle", "--leave", "--hold", "1", "--call", "1", "--sessions", &RESTING.to_string()]);
        command.args(["--url", &format!("{}{PATH}", gateway.url), "--pid", &gateway.pid().to_string()]);
        let opened = self.one_line(&mut command)?;
        if opened.get("held").and_then(Value::as_u64) != Some(u64::from(RESTING)) {
            bail!("not all {RESTING} sessions were opened: {opened}");
        }
        let awake = number(opened.get("at").context("no figures")?, "rss_kb")?;
        wait(REST);
        Ok(Resident { awake, at_rest: resident_kib(gateway.pid())? })
    }
}

impl Kept {
    fn name(self) -> &'static str {
        match self {
            Self::OnDisk => "on disk",
            Self::OnValkey => "on valkey",
        }
    }

    /// What is counted of that which is written.
    fn unit(self) -> &'static str {
        match self {
            Self::OnDisk => "bytes written",
            Self::OnValkey => "commands to the store",
        }
    }

    /// A node renews its own lease every 3 s, with a few commands; on disk it is alone and has none.
    fn written_max(self) -> f64 {
        match self {
            Self::OnDisk => 4096.0,
            Self::OnValkey => 50.0,
        }
    }

    /// How much was written so far.
    fn written(self, gateway: &Server, valkey: &Server) -> Result<u64> {
        match self {
            Self::OnDisk => {
                let io = std::fs::read_to_string(format!("/proc/{}/io", gateway.pid()))?;
                let line = io.lines().find_map(|line| line.strip_prefix("wchar:")).context("no wchar")?;
                line.trim().parse().context("wchar is no number")
            }
            Self::OnValkey => commands(valkey),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "one thread with nothing else to do")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}

fn resident_kib(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).context("VmRSS is no number")
}

/// What a process computed, in steps of 10 ms.
fn cpu_ticks(pid: u32) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("no stat")?;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    ticks.sum::<Result<u64, _>>().context("ticks are no numbers")
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
