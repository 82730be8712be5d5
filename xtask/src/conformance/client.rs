//! The suite as the server: a client program is driven against it, directly and with landbridge in between.
//!
//! What the driver passes directly, it must pass through us. What it cannot do by itself says nothing about us.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{Programs, SUITE_DURATION_MAX, Suite, name_of};
use crate::peers::{self, CONFORMANCE};
use crate::score::{self, Scenarios, Verdict};
use crate::sh;

/// Scenarios that cannot be the same through a gateway, each with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// The hidden command that the suite starts in the driver's place: a gateway in front of `url`, then the driver.
pub fn through(landbridge: &Path, out: &Path, driver_file: &Path, url: &str) -> Result<bool> {
    let driver = fs::read_to_string(driver_file)?;
    // Scenarios run side by side, so each needs a folder of its own.
    let out = out.join(std::process::id().to_string());
    fs::create_dir_all(&out)?;
    let gateway = super::start_landbridge(landbridge, &out, "suite", &json!({"url": url}))?;
    let mut words = driver.split_whitespace();
    let mut command = Command::new(words.next().context("the driver's command is empty")?);
    command.args(words).arg(format!("{}/mcp/server/suite", gateway.url));
    Ok(command.status().context("cannot start the driver")?.success())
}

/// The scenarios the driver passes directly, as they went through landbridge.
pub fn run(programs: &Programs, suite: Suite, out: &Path) -> Result<Scenarios> {
    let driver = programs.driver.as_deref().context("--path client needs --driver")?;
    let landbridge = programs.landbridge.as_ref().context("landbridge was not built")?;
    let direct = drive(suite, driver, &out.join("direct"))?;
    let myself = std::env::current_exe()?;
    let words: [&Path; 4] = [&myself, Path::new("through"), landbridge, &out.join("gateways")];
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    if words.iter().any(|word| word.contains(char::is_whitespace)) {
        bail!("the suite splits its command at spaces, and one of these paths holds one: {}", words.join(", "));
    }
    // The driver's command is one argument to us, and the suite knows no quotes: it goes through a file.
    let command_file = out.join("driver");
    fs::write(&command_file, driver)?;
    let through = drive(suite, &format!("{} {}", words.join(" "), command_file.display()), &out.join("through"))?;
    let passed_directly = |name: &str| direct.get(name).is_some_and(|one| one.verdict == Verdict::Passed);
    let excepted = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
    Ok(through.into_iter().filter(|(name, _)| passed_directly(name) && !excepted(name)).collect())
}

fn drive(suite: Suite, command: &str, out: &Path) -> Result<Scenarios> {
    let results: PathBuf = out.join("results");
    fs::create_dir_all(&results)?;
    let mut node = Command::new(peers::NODE.program()?);
    node.arg(CONFORMANCE.program()?).args(["client", "--suite", "all", "--spec-version", &name_of(&suite)]);
    node.args(["--command", command]).arg("-o").arg(&results).env(peers::ENV, peers::folder()?);
    let output = sh::capture(&mut node, SUITE_DURATION_MAX)?;
    fs::write(out.join("suite.log"), &output.text)?;
    if output.status.is_none() {
        bail!("the suite did not end within {SUITE_DURATION_MAX:?}");
    }
    score::read(&results)
}
