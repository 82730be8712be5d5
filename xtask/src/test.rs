//! `cargo xtask test`: the stages of CI, in order, with what each one took.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::conformance::{self, Suite};
use crate::peers::{self, PEERS, Peer};
use crate::workspace::cargo;
use crate::{deny, runner, sh, tidy};

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// Every order in which threads can wait for events and tell of them. The feature swaps the lock of the whole crate, so
/// that no other test may be run with it.
const LOOM: [&str; 8] = ["nextest", "run", "--package", "lb-session", "--features", "loom", "--test", "loom"];

/// Runs every stage; false when one failed. Only what cannot run without the build is left out after a build error.
pub fn everything() -> Result<bool> {
    let mut stages = Stages::default();
    stages.run("format", || sh::run(cargo().args(["fmt", "--all", "--check"])));
    stages.run("clippy", || {
        sh::run(cargo().args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    stages.run("tidy", tidy::check);
    stages.run("deny", deny::check);
    let peers_at = stages.run("peers", || peers::ensure(PEERS));
    let built = stages.run("build", || sh::run(cargo().args(["build", "--quiet", "--workspace", "--all-targets"])));
    let mut report = runner::Report::default();
    let mut rows = Vec::new();
    if built.is_some() {
        let env = peers_at.as_deref().map(|at| (peers::ENV, at));
        report = stages.run("tests", || runner::run(env.as_slice())).unwrap_or_default();
        stages.run("loom", || sh::run(cargo().args(LOOM)));
        stages.run("doc tests", || sh::run(cargo().args(["test", "--quiet", "--workspace", "--doc"])));
        rows = stages
            .run("conformance", || conformance::run(conformance::IN_CI, Suite::value_variants(), None, false))
            .unwrap_or_default();
        stages.run("conformance targets", || targets(&rows));
        stages.run("peer table", || peer_table(&report, &rows));
    }
    println!("\nthe slowest tests");
    for line in report.slowest(SLOWEST) {
        println!("  {line}");
    }
    stages.print();
    for test in report.shaky() {
        println!("FAILED BESIDE OTHERS, passed alone: {}: it hides something, see its output above", test.name);
    }
    let scenarios_bad: usize = rows.iter().map(|row| row.score.failed).sum();
    let scenarios_good: usize = rows.iter().map(|row| row.score.passed).sum();
    let failed = report.failed() + scenarios_bad;
    println!("{} passed, {failed} failed", report.passed() + scenarios_good);
    Ok(stages.all_passed() && failed == 0)
}

fn targets(rows: &[conformance::Row]) -> Result<()> {
    conformance::print(rows);
    let missed = rows.iter().filter(|row| !row.misses.is_empty()).count();
    if missed != 0 || rows.is_empty() {
        bail!("{missed} of {} rows miss their target", rows.len());
    }
    Ok(())
}

/// Prints how many tests used each peer. A peer nobody used proves nothing, so a zero fails.
fn peer_table(report: &runner::Report, rows: &[conformance::Row]) -> Result<()> {
    println!("{:<20} {:<16} {:>9}", "peer", "version", "tests run");
    let mut unused = Vec::new();
    for peer in PEERS {
        let count = uses(peer, report, rows);
        println!("{:<20} {:<16} {count:>9}", peer.key, peer.version());
        if count == 0 {
            unused.push(peer.key);
        }
    }
    if !unused.is_empty() {
        bail!("no test used {}", unused.join(", "));
    }
    Ok(())
}

/// Tests named after the peer, and for the suites the scenarios that were run.
fn uses(peer: &Peer, report: &runner::Report, rows: &[conformance::Row]) -> usize {
    let named = report.tests.iter().filter(|test| marked(&test.name, &peer.marker())).count();
    let run_by_peer = rows.iter().filter(|row| row.peers().contains(&peer.key));
    named + run_by_peer.map(conformance::Row::scenarios).sum::<usize>()
}

/// Whether one part of a test's path is the marker: `peer_python` marks `a::peer_python::b`, not `peer_python_old`.
fn marked(name: &str, marker: &str) -> bool {
    name.split([':', ' ']).any(|part| part == marker)
}

/// What has run so far, and how it went.
#[derive(Default)]
struct Stages {
    rows: Vec<(&'static str, Duration, Option<String>)>,
}

impl Stages {
    /// Runs one stage; `None` when it failed. A failure is printed at once and again in the summary.
    fn run<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        println!("== {name}");
        let started = Instant::now();
        let (value, problem) = match work() {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        if let Some(problem) = &problem {
            println!("{name} failed: {problem}");
        }
        self.rows.push((name, started.elapsed(), problem));
        value
    }

    fn all_passed(&self) -> bool {
        self.rows.iter().all(|(_, _, problem)| problem.is_none())
    }

    fn print(&self) {
        println!("\n{:<20} {:>8}", "stage", "seconds");
        for (name, took, problem) in &self.rows {
            let verdict = match problem {
                None => "ok",
                Some(problem) => problem.lines().next().unwrap_or("failed"),
            };
            println!("{name:<20} {:>8.1}  {verdict}", took.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_counted_for_the_peer_its_path_names() {
        for (name, marker, want) in [
            ("landbridge::it peer_python::lists_tools", "peer_python", true),
            ("landbridge::peer_python lists_tools", "peer_python", true),
            ("landbridge::it a::peer_python_old::lists", "peer_python", false),
            ("landbridge::it about_peer_python", "peer_python", false),
        ] {
            assert_eq!(marked(name, marker), want, "test {name:?}");
        }
    }

    #[test]
    fn one_failed_stage_fails_the_run_and_the_rest_still_runs() {
        let mut stages = Stages::default();
        assert_eq!(stages.run("bad", || -> Result<()> { bail!("broken") }), None);
        assert_eq!(stages.run("good", || Ok(1)), Some(1));
        assert!(!stages.all_passed());
    }

    #[test]
    fn a_peer_without_tests_fails_the_table() {
        let error = peer_table(&runner::Report::default(), &[]).unwrap_err().to_string();
        assert!(error.contains("python") && error.contains("conformance"), "{error}");
    }
}
