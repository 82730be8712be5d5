//! `cargo xtask test`: the stages of CI, in order, with what each one took.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::workspace::cargo;
use crate::{runner, sh};

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// Runs every stage; false when one failed. Only what cannot run without the build is left out after a build error.
pub fn everything() -> Result<bool> {
    let mut stages = Stages::default();
    stages.run("format", || sh::run(cargo().args(["fmt", "--all", "--check"])));
    stages.run("clippy", || {
        sh::run(cargo().args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    let built =
        stages.run("build", || sh::run(cargo().args(["build", "--quiet", "--workspace", "--all-targets"]))).is_some();
    let mut report = runner::Report::default();
    if built {
        if let Some(ran) = stages.run("tests", || runner::run(&[])) {
            report = ran;
        }
        stages.run("doc tests", || sh::run(cargo().args(["test", "--quiet", "--workspace", "--doc"])));
    }
    for line in report.slowest(SLOWEST) {
        println!("  {line}");
    }
    stages.print();
    println!("{} passed, {} failed", report.passed(), report.failed());
    Ok(stages.failed() == 0 && report.failed() == 0)
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

    fn failed(&self) -> usize {
        self.rows.iter().filter(|(_, _, problem)| problem.is_some()).count()
    }

    fn print(&self) {
        println!("\nstage                 seconds");
        for (name, took, problem) in &self.rows {
            let verdict = if problem.is_some() { "FAILED" } else { "ok" };
            println!("{name:<20} {:>8.1}  {verdict}", took.as_secs_f64());
        }
    }
}
