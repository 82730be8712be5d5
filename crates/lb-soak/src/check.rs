//! The verdict over a history: a pure function of its records, used by whoever has the file.

mod cluster;
mod figures;
mod rules;

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::history::{self, How, Measure, Record};

/// Violations that are told in full; the rest is counted.
const TOLD_MAX: usize = 20;

/// What a history shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which scenario.
    pub scenario: String,
    /// What it can be repeated with.
    pub seed: u64,
    /// Calls sent.
    pub calls: usize,
    /// Those that ended with a result.
    pub results: usize,
    /// With an error.
    pub errors: usize,
    /// With the end of their connection.
    pub broken: usize,
    /// Refused, shed or not.
    pub refused: usize,
    /// Things done to the gateway and its peers.
    pub faults: usize,
    /// The bounded figures: what, how much, at least, at most.
    pub figures: Vec<Figure>,
    /// What people were told.
    pub notes: Vec<String>,
    /// How many rules were broken.
    pub violated: usize,
    /// The first of them.
    pub violations: Vec<String>,
}

/// A figure and its bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// In words.
    pub what: String,
    /// The value.
    pub value: i64,
    /// At least.
    pub min: i64,
    /// At most.
    pub max: i64,
}

impl Verdict {
    /// Whether everything held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violated == 0
    }

    /// Adds what broke a rule.
    pub fn violation(&mut self, what: String) {
        self.violated += 1;
        if self.violations.len() < TOLD_MAX {
            self.violations.push(what);
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seed, calls, results, errors, broken, refused, faults, .. } = self;
        write!(
            f,
            "{scenario} (seed {seed}): {calls} calls: {results} results, {errors} errors, {broken} broken, \
             {refused} refused; {faults} faults"
        )?;
        for Figure { what, value, min, max } in &self.figures {
            let most = if *max == i64::MAX { String::new() } else { format!(", at most {max}") };
            let least = if *min == i64::MIN { String::new() } else { format!(", at least {min}") };
            write!(f, "\n  {what}: {value}{least}{most}")?;
        }
        for note in &self.notes {
            write!(f, "\n  {note}")?;
        }
        for violation in &self.violations {
            write!(f, "\n  VIOLATION {violation}")?;
        }
        match self.violated.saturating_sub(self.violations.len()) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more violations"),
        }
    }
}

/// Checks a file.
#[must_use]
pub fn file(path: &Path) -> Verdict {
    match history::read(path) {
        Ok(records) => records_of(&records),
        Err(problem) => {
            let mut verdict = Verdict::default();
            verdict.violation(format!("the history cannot be read: {problem}"));
            verdict
        }
    }
}

/// Checks records.
#[must_use]
pub fn records_of(records: &[Record]) -> Verdict {
    let mut verdict = Verdict::default();
    match records.first() {
        Some(Record::Begin { scenario, seed }) => {
            verdict.scenario.clone_from(scenario);
            verdict.seed = *seed;
        }
        _ => verdict.violation("the history has no beginning".to_owned()),
    }
    if records.last() != Some(&Record::Done) {
        verdict.violation("the history breaks off: the scenario did not come to its end".to_owned());
    }
    count(records, &mut verdict);
    rules::ends(records, &mut verdict);
    rules::canary(records, &mut verdict);
    rules::effects(records, &mut verdict);
    rules::streams(records, &mut verdict);
    rules::left(records, &mut verdict);
    cluster::all(records, &mut verdict);
    bounds(records, &mut verdict);
    verdict
}

fn count(records: &[Record], verdict: &mut Verdict) {
    for record in records {
        match record {
            Record::Sent { .. } => verdict.calls += 1,
            Record::Ended { how, .. } => match how {
                How::Result => verdict.results += 1,
                How::Error => verdict.errors += 1,
                How::Broken => verdict.broken += 1,
                How::Shed | How::Refused => verdict.refused += 1,
                How::Never => {}
            },
            Record::Fault { .. } => verdict.faults += 1,
            Record::Note { text } => verdict.notes.push(text.clone()),
            _ => {}
        }
    }
}

fn bounds(records: &[Record], verdict: &mut Verdict) {
    for record in records {
        let Record::Bound { of, min, max } = record else { continue };
        let what = figures::words(of);
        let Some(value) = figures::value(of, records) else {
            verdict.violation(format!("{what}: nothing was measured"));
            continue;
        };
        if value < *min || *max < value {
            verdict.violation(format!("{what} is {value}, not from {min} to {max}"));
        }
        verdict.figures.push(Figure { what, value, min: *min, max: *max });
    }
}

/// The figure behind a measure, for those who print it.
#[must_use]
pub fn figure(of: &Measure, records: &[Record]) -> Option<i64> {
    figures::value(of, records)
}

#[cfg(test)]
mod tests;
