//! Scoring a folder of conformance results: which scenarios pass, fail, or prove nothing.
//!
//! The suite itself ticks every scenario without a FAILURE, also one that checked nothing; this module does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The check that only says the messages were well-formed; an all-errors server passes it.
const WELL_FORMED: &str = "wire-schema-valid";

/// Scenarios that also need SUCCESS on one named check, because without it they pass on less than they are about.
const NEEDED: &[(&str, &str)] = &[("server-sse-polling", "server-sse-disconnect-resume")];

/// What one scenario showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    /// Neither a SUCCESS that counts nor a FAILURE: nothing was shown.
    Void,
}

/// One scenario with its warnings by check id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    pub verdict: Verdict,
    pub warnings: Vec<String>,
    /// The failed checks, with what the suite said.
    pub failures: Vec<String>,
}

/// All scenarios of one run, by name.
pub type Scenarios = BTreeMap<String, Scenario>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    #[serde(default)]
    id: String,
    #[serde(default)]
    status: String,
    error_message: Option<String>,
    description: Option<String>,
}

/// Reads every scenario folder below `dir`. A folder without `checks.json` is void.
pub fn read(dir: &Path) -> Result<Scenarios> {
    let mut found = Scenarios::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            let folder_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            match scenario_name(&folder_name) {
                Some(name) => {
                    // Client scenarios lie in a folder that is part of their name: `auth/basic`.
                    let group = folder.strip_prefix(dir).ok().filter(|group| *group != Path::new(""));
                    let text = fs::read_to_string(path.join("checks.json")).ok();
                    let full = group.map_or_else(|| name.to_owned(), |group| format!("{}/{name}", group.display()));
                    // Two results for one scenario: somebody else wrote here, or the suite tried twice.
                    if found.insert(full.clone(), judge(name, text.as_deref())).is_some() {
                        bail!("{} holds two results of {full}", dir.display());
                    }
                }
                None => todo.push(path),
            }
        }
    }
    Ok(found)
}

/// The scenario of a result folder, `server-NAME-2026-11-15T20-51-00-123Z`; `None` for any other folder.
fn scenario_name(folder: &str) -> Option<&str> {
    const STAMP: &str = "-0000-00-00T00-00-00-";
    let millis_end = folder.strip_suffix('Z')?;
    let without_millis = millis_end.trim_end_matches(|c: char| c.is_ascii_digit());
    if without_millis.len() == millis_end.len() {
        return None;
    }
    let at = without_millis.len().checked_sub(STAMP.len())?;
    let (name, stamp) = (without_millis.get(..at)?, without_millis.get(at..)?);
    let shape_fits =
        stamp.chars().zip(STAMP.chars()).all(|(c, want)| if want == '0' { c.is_ascii_digit() } else { c == want });
    shape_fits.then(|| name.strip_prefix("server-").unwrap_or(name))
}

/// The verdict on one scenario from the text of its `checks.json`.
fn judge(name: &str, checks: Option<&str>) -> Scenario {
    let checks: Vec<Check> = match checks.map(serde_json::from_str) {
        None => Vec::new(),
        Some(Ok(checks)) => checks,
        Some(Err(error)) => {
            let failures = vec![format!("checks.json cannot be read: {error}")];
            return Scenario { verdict: Verdict::Failed, warnings: Vec::new(), failures };
        }
    };
    let with = |status: &'static str| checks.iter().filter(move |check| check.status == status);
    let failures: Vec<String> = with("FAILURE")
        .map(|check| {
            let why = check.error_message.as_deref().or(check.description.as_deref()).unwrap_or("");
            format!("{}: {}", check.id, why.chars().take(200).collect::<String>())
        })
        .collect();
    let needed = NEEDED.iter().find(|(scenario, _)| *scenario == name).map(|(_, check)| *check);
    let shown = with("SUCCESS").any(|check| match needed {
        Some(needed) => check.id == needed,
        None => check.id != WELL_FORMED,
    });
    let verdict = match (failures.is_empty(), shown) {
        (false, _) => Verdict::Failed,
        (true, true) => Verdict::Passed,
        (true, false) => Verdict::Void,
    };
    Scenario { verdict, warnings: with("WARNING").map(|check| check.id.clone()).collect(), failures }
}

/// The sum of one run, set beside the direct run of the same suite.
#[derive(Debug, PartialEq, Eq)]
pub struct Score {
    pub passed: usize,
    pub failed: usize,
    pub void: Vec<String>,
    pub warnings: usize,
    /// Failed scenarios, and those with warnings that the direct run does not have.
    pub bad: Vec<String>,
}

/// Counts a run. A warning that `direct` does not have fails the scenario; `None` when this is the direct run.
pub fn score(run: &Scenarios, direct: Option<&Scenarios>) -> Score {
    let mut score = Score { passed: 0, failed: 0, void: Vec::new(), warnings: 0, bad: Vec::new() };
    for (name, scenario) in run {
        score.warnings += scenario.warnings.len();
        let known = direct.and_then(|direct| direct.get(name)).map_or(&[][..], |scenario| &scenario.warnings);
        let new_warning = direct.is_some() && exceeds(&scenario.warnings, known);
        match scenario.verdict {
            Verdict::Failed => score.bad.push(name.clone()),
            Verdict::Passed if new_warning => score.bad.push(name.clone()),
            Verdict::Passed => score.passed += 1,
            Verdict::Void => score.void.push(name.clone()),
        }
    }
    score.failed = score.bad.len();
    score
}

/// Whether some check warned more often than it did in `known`.
fn exceeds(warnings: &[String], known: &[String]) -> bool {
    let count = |list: &[String], id: &str| list.iter().filter(|other| *other == id).count();
    warnings.iter().any(|id| count(known, id) < count(warnings, id))
}

#[cfg(test)]
mod tests;
