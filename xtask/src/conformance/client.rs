//! The suite as the server: a client program is driven against it, directly and with landbridge in between.
//!
//! What the driver passes directly, it must pass through us. What it cannot do by itself says nothing about us.
//! Scenarios about authorization are left out: there landbridge itself is the client, see `client_auth`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{Programs, Run, SUITE_DURATION_MAX, Suite, name_of};
use crate::peers::{self, CONFORMANCE};
use crate::score::{self, Scenario, Scenarios, Verdict};
use crate::{sh, workspace};

/// Scenarios that cannot be the same through a gateway, each with the reason. There are none.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// Below the suite's own limit of 30 s, at which it would kill us and leave the gateway behind.
const DRIVER_DURATION_MAX: Duration = Duration::from_secs(25);

/// The client that is driven.
pub enum Driver {
    /// `xtask/drivers/client.mjs`, which passes every scenario directly.
    Ours,
    /// Any other command, measured by whatever it passes directly.
    Given(String),
}

impl Driver {
    /// The command as the suite takes it: words between spaces, no quotes.
    fn command(&self) -> Result<String> {
        match self {
            Self::Given(command) => Ok(command.clone()),
            Self::Ours => words(&[&peers::NODE.program()?, &workspace::root().join("xtask/drivers/client.mjs")]),
        }
    }
}

pub(super) fn words(paths: &[&Path]) -> Result<String> {
    let words: Vec<_> = paths.iter().map(|word| word.to_string_lossy()).collect();
    if words.iter().any(|word| word.contains(char::is_whitespace)) {
        bail!("the suite splits its command at spaces, and one of these paths holds one: {}", words.join(", "));
    }
    Ok(words.join(" "))
}

/// The hidden command that the suite starts in the driver's place: a gateway in front of `url`, then the driver.
pub fn through(landbridge: &Path, out: &Path, driver_file: &Path, url: &str) -> Result<bool> {
    let driver = fs::read_to_string(driver_file)?;
    // Suites run side by side, so each scenario needs a folder of its own.
    let out = out.join(std::process::id().to_string());
    fs::create_dir_all(&out)?;
    let gateway = super::start_landbridge(landbridge, &out, "suite", &json!({"url": url}))?;
    let mut words = driver.split_whitespace();
    let mut command = Command::new(words.next().context("the driver's command is empty")?);
    command.args(words).arg(format!("{}/mcp/server/suite", gateway.url));
    let output = sh::capture(&mut command, DRIVER_DURATION_MAX)?;
    // For the suite, which keeps it beside the result.
    eprintln!("{}", output.text);
    Ok(output.status.is_some_and(|status| status.success()))
}

/// The scenarios the driver passes directly, as they went through landbridge, beside all of its own.
pub fn run(programs: &Programs, suite: Suite, out: &Path) -> Result<Run> {
    let landbridge = programs.landbridge.as_ref().context("landbridge was not built")?;
    let driver = programs.driver.command()?;
    // The driver's command is one argument to us, and the suite knows no quotes: it goes through a file.
    let command_file = out.join("driver");
    fs::write(&command_file, &driver)?;
    let myself = own_path()?;
    let ours = words(&[&myself, Path::new("through"), landbridge, &out.join("gateways"), &command_file])?;
    let names = scenarios(suite, About::Everything)?;
    let direct = drive(suite, &names, &driver, &out.join("direct"))?;
    let through = drive(suite, &names, &ours, &out.join("through"))?;
    Ok(Run { scenarios: comparable(through, &direct), direct: Some(direct) })
}

/// What the driver passes directly and no exception is made for.
fn comparable(through: Scenarios, direct: &Scenarios) -> Scenarios {
    let passed_directly = |name: &str| direct.get(name).is_some_and(|one| one.verdict == Verdict::Passed);
    let excepted = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
    through.into_iter().filter(|(name, _)| passed_directly(name) && !excepted(name)).collect()
}

/// Which of the suite's client scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Those about authorization.
    Authorization,
    /// All others.
    Everything,
}

/// The names of the suite's client scenarios of this revision.
pub(super) fn scenarios(suite: Suite, about: About) -> Result<Vec<String>> {
    let mut node = Command::new(peers::NODE.program()?);
    let list = sh::stdout_of(node.arg(CONFORMANCE.program()?).args(["list", "--client"]))?;
    let names = named(&list, &name_of(&suite), about);
    if names.is_empty() {
        bail!("the suite lists no client scenarios of {}:\n{list}", name_of(&suite));
    }
    Ok(names)
}

/// Reads lines like `  - tools_call [2025-06-18,2025-11-25]`.
fn named(list: &str, revision: &str, about: About) -> Vec<String> {
    let entries = list.lines().filter_map(|line| line.trim().strip_prefix("- ")?.strip_suffix(']')?.split_once(" ["));
    let is_meant = |name: &str| name.starts_with("auth/") == (about == About::Authorization);
    let wanted = entries.filter(|(name, revisions)| is_meant(name) && revisions.split(',').any(|one| one == revision));
    wanted.map(|(name, _)| name.to_owned()).collect()
}

/// Runs the scenarios one by one, so that the suite says of each how its client ended.
/// Our own file. By the name we were started with: the system's own answer no longer names a file once a build has
/// replaced it.
fn own_path() -> Result<PathBuf> {
    let named = std::env::args_os().next().and_then(|name| fs::canonicalize(name).ok());
    named.map_or_else(|| Ok(std::env::current_exe()?), Ok)
}

pub(super) fn drive(suite: Suite, names: &[String], command: &str, out: &Path) -> Result<Scenarios> {
    let results = out.join("results");
    fs::create_dir_all(&results)?;
    let mut ended_well = Vec::new();
    for name in names {
        let mut node = Command::new(peers::NODE.program()?);
        node.arg(CONFORMANCE.program()?).args(["client", "--scenario", name, "--spec-version", &name_of(&suite)]);
        node.args(["--command", command]).arg("-o").arg(&results).env(peers::ENV, peers::folder()?);
        let output = sh::capture(&mut node, SUITE_DURATION_MAX)?;
        fs::write(out.join(format!("{}.log", name.replace('/', "-"))), &output.text)?;
        let status = output.status.with_context(|| format!("{name} did not end within {SUITE_DURATION_MAX:?}"))?;
        ended_well.push(status.success());
    }
    let mut found = score::read(&results)?;
    let each = names.iter().zip(ended_well);
    Ok(each.map(|(name, ended_well)| (name.clone(), settle(found.remove(name), ended_well))).collect())
}

/// A scenario whose checks all passed is failed all the same when its client was not content.
fn settle(found: Option<Scenario>, ended_well: bool) -> Scenario {
    let failed =
        |why: &str| Scenario { verdict: Verdict::Failed, warnings: Vec::new(), failures: vec![why.to_owned()] };
    match found {
        None => failed("the suite left no result"),
        // The suite's exit code speaks of warnings, too; those are counted beside the direct run.
        Some(one) if one.verdict == Verdict::Passed && one.warnings.is_empty() && !ended_well => {
            failed("the client did not end with 0")
        }
        Some(one) => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(verdict: Verdict, warnings: &[&str]) -> Scenario {
        let warnings = warnings.iter().map(|id| (*id).to_owned()).collect();
        Scenario { verdict, warnings, failures: Vec::new() }
    }

    #[test]
    fn the_list_is_read_without_auth_extensions_and_other_revisions() {
        let list = "Client scenarios (test against a client):\n  - initialize [2025-06-18,2025-11-25]\n  \
                    - tools_call [2025-11-25,2026-07-28]\n  - auth/basic [2025-11-25,2026-07-28]\n  \
                    - request-metadata [2026-07-28]\n  - sep-2640-client-no-prefetch [extension]\n";
        for (revision, want) in [
            ("2025-11-25", vec!["initialize", "tools_call"]),
            ("2026-07-28", vec!["tools_call", "request-metadata"]),
            ("2025-11-2", vec![]),
        ] {
            assert_eq!(named(list, revision, About::Everything), want, "revision {revision}");
        }
        assert_eq!(named(list, "2026-07-28", About::Authorization), ["auth/basic"]);
    }

    #[test]
    fn a_client_that_ends_badly_has_not_passed() {
        let passed = || scenario(Verdict::Passed, &[]);
        let warned = || scenario(Verdict::Passed, &["a"]);
        for (found, ended_well, want) in [
            (Some(passed()), true, Verdict::Passed),
            (Some(passed()), false, Verdict::Failed),
            (Some(warned()), false, Verdict::Passed),
            (Some(scenario(Verdict::Void, &[])), true, Verdict::Void),
            (Some(scenario(Verdict::Failed, &[])), false, Verdict::Failed),
            (None, true, Verdict::Failed),
        ] {
            assert_eq!(settle(found.clone(), ended_well).verdict, want, "{found:?} {ended_well}");
        }
    }

    #[test]
    fn only_what_the_driver_passes_by_itself_is_compared() {
        let run = |rows: &[(&str, Verdict)]| -> Scenarios {
            rows.iter().map(|(name, verdict)| ((*name).to_owned(), scenario(*verdict, &[]))).collect()
        };
        let direct =
            run(&[("a", Verdict::Passed), ("b", Verdict::Failed), ("c", Verdict::Void), ("d", Verdict::Passed)]);
        let through =
            run(&[("a", Verdict::Passed), ("b", Verdict::Passed), ("c", Verdict::Failed), ("d", Verdict::Failed)]);
        assert_eq!(comparable(through, &direct), run(&[("a", Verdict::Passed), ("d", Verdict::Failed)]));
    }

    #[test]
    fn a_path_with_a_space_is_refused() {
        assert_eq!(words(&[Path::new("/a"), Path::new("b")]).unwrap(), "/a b");
        assert!(words(&[Path::new("/a b")]).is_err());
    }
}
