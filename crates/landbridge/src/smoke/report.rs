//! What the steps came to, for people and for scripts.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::run::Failure;

/// How one step went.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should, and what was seen.
    Passed(String),
    /// Not as it should, and what was seen instead.
    Failed(String),
    /// The server has nothing to try it with.
    NotApplicable(String),
}

/// All steps so far.
pub struct Report {
    url: String,
    /// The server was started for the test.
    own: bool,
    steps: Vec<(&'static str, Outcome, Duration)>,
    since: Instant,
}

impl Report {
    /// Nothing tried yet.
    pub fn new(url: String, own: bool) -> Self {
        Self { url, own, steps: Vec::new(), since: Instant::now() }
    }

    /// Whether the server was started for the test, and so is one of ours.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Adds a step that ended now.
    pub fn add(&mut self, name: &'static str, outcome: Outcome) {
        self.steps.push((name, outcome, self.since.elapsed()));
        self.since = Instant::now();
    }

    /// Prints it; an error if a step failed.
    pub fn print(&self, as_json: bool) -> Result<(), Failure> {
        let text = if as_json { self.json() } else { self.text() };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).map_err(|error| Failure::runtime(format!("cannot print: {error}")))?;
        match self.failed() {
            0 => Ok(()),
            1 => Err(Failure::runtime("one step of the smoke test failed")),
            many => Err(Failure::runtime(format!("{many} steps of the smoke test failed"))),
        }
    }

    fn failed(&self) -> usize {
        self.steps.iter().filter(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_))).count()
    }

    fn text(&self) -> String {
        let whose = if self.own { " (a demo server, started for this test)" } else { "" };
        let mut text = format!("Smoke test of {}{whose}\n\n", self.url);
        let width = self.steps.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
        for (name, outcome, took) in &self.steps {
            let (mark, seen) = outcome.words();
            text += &format!("  {mark:<4}  {name:<width$}  {:>5} ms  {seen}\n", took.as_millis());
        }
        let count = |mark: &str| self.steps.iter().filter(|(_, outcome, _)| outcome.words().0 == mark).count();
        text + &format!("\n{} passed, {} failed, {} not applicable\n", count("ok"), count("FAIL"), count("n/a"))
    }

    fn json(&self) -> String {
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|(name, outcome, took)| {
                let (mark, seen) = outcome.words();
                json!({ "name": name, "outcome": mark.to_lowercase(), "seen": seen, "ms": took.as_millis() })
            })
            .collect();
        format!("{:#}\n", json!({ "url": self.url, "ok": self.failed() == 0, "steps": steps }))
    }
}

impl Outcome {
    fn words(&self) -> (&'static str, &str) {
        match self {
            Self::Passed(seen) => ("ok", seen),
            Self::Failed(seen) => ("FAIL", seen),
            Self::NotApplicable(why) => ("n/a", why),
        }
    }
}
