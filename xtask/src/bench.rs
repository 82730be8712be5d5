//! `cargo xtask bench`: landbridge beside a direct call and beside a bare hop, measured in the same run.
//!
//! The machine is noisy, so nothing is judged by its absolute figure: targets take turns within a round, and ratios are
//! medians over pairs of the same round.

mod aims;
mod flood;
mod load;
mod login;
mod resting;
mod state;
mod targets;

use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{sh, workspace};
use aims::Aim;
use flood::Beside;
use load::{Effort, Measured};
use targets::{Bench, Setting};

/// What is measured and how it is printed.
pub struct Options {
    pub as_json: bool,
    /// Few rounds and calls: to see that it runs, not to learn from.
    pub quick: bool,
    /// Leave landbridge out.
    pub floors: bool,
    /// Only these parts; all where empty.
    pub only: Vec<Part>,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    HttpHttp,
    HttpStdio,
    StdioStdio,
    /// Start, memory, cached lists, events.
    Gateway,
    /// Calls beside another session's million notifications.
    Flood,
    /// Calls, forwarded calls, takeovers and resting sessions with a store.
    State,
    /// Calls that show a token.
    Login,
    Allocations,
}

impl Options {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// One target under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub path: &'static str,
    pub wire: &'static str,
    pub concurrency: usize,
    pub bytes: usize,
    pub target: String,
    pub p50_us: f64,
    pub p99_us: f64,
    pub calls_s: f64,
    pub cpu_us: f64,
    /// Over the direct call; `None` for the direct call itself.
    pub added_p50_us: Option<f64>,
    /// Added latency as a multiple of the bare hop's; `None` without one.
    pub ratio_hop: Option<f64>,
}

#[derive(Serialize)]
struct Results {
    commit: String,
    profile: &'static str,
    rounds: usize,
    rows: Vec<Row>,
    aims: Vec<Aim>,
}

/// The loads that each setting is put under: callers at once, bytes of payload.
const LOADS: &[(usize, usize)] = &[(1, 64), (32, 64), (1, 64 << 10), (32, 64 << 10)];
const LOADS_QUICK: &[(usize, usize)] = &[(1, 64), (32, 64)];

/// How many sessions are held at once.
const HELD: &[usize] = &[200, 2000];
const HELD_QUICK: &[usize] = &[200];

/// Sessions of tools that are held at once, each with events.
const SESSIONS_WITH_EVENTS: usize = 1000;

/// The command. A missed aim is printed, not an error: whether a figure is a regression is for a reader to judge.
pub fn command(options: &Options) -> Result<bool> {
    let effort = if options.quick { Effort { rounds: 3, calls: 300 } } else { Effort { rounds: 7, calls: 1500 } };
    let bench = Bench::build(options.floors)?;
    let mut rows = Vec::new();
    let mut found = Vec::new();
    let loads = if options.quick { LOADS_QUICK } else { LOADS };
    for setting in Setting::ALL.iter().filter(|setting| options.wants(setting.part())) {
        let running = bench.start(*setting)?;
        for (concurrency, bytes) in loads {
            eprintln!("{} {}: {concurrency} at once, {bytes} B", setting.path(), setting.wire());
            let measured = bench.compare(&running, *concurrency, *bytes, "tools/call", effort)?;
            rows.extend(load::rows(*setting, *concurrency, *bytes, &measured));
            found.extend(aims::of_calls(*setting, *concurrency, *bytes, &measured));
        }
    }
    // What fails comes last: the figures of the others took long enough.
    let mut failed = Ok(());
    let parts = [Part::Gateway, Part::Flood, Part::State, Part::Login, Part::Allocations];
    for part in parts.into_iter().filter(|part| !options.floors && options.wants(*part)) {
        match part_aims(&bench, part, effort, options.quick) {
            Ok(aims) => found.extend(aims),
            Err(error) => failed = Err(error),
        }
    }
    let results = Results { commit: commit()?, profile: targets::PROFILE, rounds: effort.rounds, rows, aims: found };
    if options.as_json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        print(&results);
    }
    failed.map(|()| true)
}

/// What is measured of one part besides calls.
fn part_aims(bench: &Bench, part: Part, effort: Effort, quick: bool) -> Result<Vec<Aim>> {
    match part {
        Part::HttpHttp | Part::HttpStdio | Part::StdioStdio => Ok(Vec::new()),
        Part::Gateway => gateway_aims(bench, effort, if quick { HELD_QUICK } else { HELD }),
        Part::Flood => Ok(vec![flood_aim(bench, effort)?]),
        Part::State => bench.state_aims(effort, quick),
        Part::Login => bench.token_aims(effort),
        Part::Allocations => allocation_aims(bench),
    }
}

/// What is measured on landbridge alone: cached lists, start, memory.
fn gateway_aims(bench: &Bench, effort: Effort, held: &[usize]) -> Result<Vec<Aim>> {
    let mut found = Vec::new();
    let running = bench.start(Setting::HttpHttpLegacy)?;
    let lists: Vec<Measured> = bench.compare(&running, 1, 64, "tools/list", effort)?;
    found.extend(aims::of_lists(&lists));
    drop(running);
    let (startup_ms, idle_kib) = bench.startup(effort)?;
    found.push(Aim::at_most("start to first initialize, ms", Some(startup_ms), 15.0));
    let (all_ms, child_ms) = bench.startup_with_child(effort)?;
    found.push(Aim::at_most("the same with a stdio server, less its own start, ms", Some(all_ms - child_ms), 15.0));
    found.push(Aim::at_most("RSS idle, MB", Some(idle_kib / 1024.0), 10.0));
    let (wake, wake_worst) = bench.wake_up()?;
    found.push(Aim::at_most("await_activity: event to answer, p50 us (timers tick every ms)", Some(wake), 2000.0));
    found.push(Aim::at_most("await_activity: event to answer, p99 us", Some(wake_worst), 10_000.0));
    let with_events = bench.sessions_with_events(SESSIONS_WITH_EVENTS)?;
    let name = format!("{SESSIONS_WITH_EVENTS} sessions of tools with 10 events each, MB");
    found.push(Aim::at_most(name, Some(with_events), 64.0));
    for sessions in held {
        let kib = bench.held_sessions(*sessions)?;
        found.push(Aim::at_most(format!("KiB per session, {sessions} held"), Some(kib), 16.0));
    }
    Ok(found)
}

/// The notifications of one session may cost the machine what they cost, but no call of another more than if they
/// went through another process.
fn flood_aim(bench: &Bench, effort: Effort) -> Result<Aim> {
    let ratio = bench.beside_a_flood(effort)?.map(|found| {
        let Beside { quiet_us, apart_us, through_us } = found;
        eprintln!("p99: {quiet_us:.0} us alone, {apart_us:.0} beside the notifications, {through_us:.0} among them");
        through_us / apart_us
    });
    let name = "p99 of calls with another session's 1,000,000 notifications, x the same in another process";
    Ok(Aim::at_most(name, ratio, 1.3))
}

fn allocation_aims(bench: &Bench) -> Result<Vec<Aim>> {
    let settings = [Setting::HttpHttpJson, Setting::HttpHttpModern, Setting::HttpStdioLegacy, Setting::HttpStdioModern];
    let aim = |setting: Setting| {
        let name = format!("{} {}: allocations per call", setting.path(), setting.wire());
        Ok(Aim::at_most(name, Some(bench.allocations(setting)?), 8.0))
    };
    settings.into_iter().map(aim).collect()
}

fn commit() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short", "HEAD"]).current_dir(workspace::root());
    Ok(sh::stdout_of(&mut git).context("the commit that was measured")?.trim().to_owned())
}

fn print(results: &Results) {
    println!("commit {}, profile {}, {} rounds; medians", results.commit, results.profile, results.rounds);
    println!(
        "{:<11} {:<11} {:>3} {:>6} {:<11} {:>8} {:>8} {:>8} {:>7} {:>8} {:>6}",
        "path", "wire", "c", "bytes", "target", "p50 us", "p99 us", "calls/s", "cpu us", "+p50 us", "x hop"
    );
    let shown = |value: Option<f64>, digits: usize| value.map_or(String::new(), |value| format!("{value:.digits$}"));
    for row in &results.rows {
        println!(
            "{:<11} {:<11} {:>3} {:>6} {:<11} {:>8.0} {:>8.0} {:>8.0} {:>7.1} {:>8} {:>6}",
            row.path,
            row.wire,
            row.concurrency,
            row.bytes,
            row.target,
            row.p50_us,
            row.p99_us,
            row.calls_s,
            row.cpu_us,
            shown(row.added_p50_us, 0),
            shown(row.ratio_hop, 2)
        );
    }
    println!("\n{:<90} {:>9} {:>9}", "aim", "value", "bound");
    for aim in &results.aims {
        let verdict = match aim.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        };
        println!("{:<90} {:>9} {:>9}  {verdict}", aim.name, shown(aim.value, 2), aim.aim);
    }
}
