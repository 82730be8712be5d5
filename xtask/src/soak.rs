//! `cargo xtask soak`: the reliability scenarios in their long size, against a release build, for as long as one likes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::workspace::{build_bin, metadata};

/// What the command line asks for.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    /// How long to go on. The scenarios share this time equally, and when all have been run and time is left, they are
    /// run again with other seeds. None is smaller than in the tests, so that fewer than 15 minutes take about 15 all the
    /// same; none goes on for more than an hour
    #[arg(default_value_t = 10)]
    minutes: u64,
    /// Repeat a run: it decides everything that is random
    #[arg(long)]
    seed: Option<u64>,
    /// Only these scenarios, as in R4,R7. T44 is the long form of the measurement of how long secrets are looked at
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
    /// The sizes of the tests, however much time there is
    #[arg(long)]
    short: bool,
    #[command(subcommand)]
    command: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Judge the histories of an earlier run again
    Check {
        /// The folder they are in
        folder: PathBuf,
    },
}

/// The measurement of how long secrets are looked at; it is no scenario of load.
const MEASURED: &str = "T44";

/// The programs that lie beside the gateway.
const PEERS: [&str; 4] = ["ledger", "evil", "fixture", "slow"];

/// Runs it; false when a promise was broken.
pub fn command(options: &Options) -> Result<bool> {
    if let Some(Action::Check { folder }) = &options.command {
        let soak = build_bin("lb-soak", "soak", "release")?;
        return ended_well(Command::new(soak).arg("check").arg(folder));
    }
    let (measures, others) = scenarios(options.only.as_deref());
    if measures && !options.short && !timing()? {
        return Ok(false);
    }
    if options.only.is_some() && others.is_none() {
        return Ok(true);
    }
    let landbridge = build_bin("landbridge", "landbridge", "release")?;
    for peer in PEERS {
        build_bin("lb-peers", peer, "release")?;
    }
    let soak = build_bin("lb-soak", "soak", "release")?;
    let seed = options.seed.unwrap_or_else(|| u64::from(std::process::id()) << 20 | now());
    let out = metadata()?.target_directory.join("soak").join(seed.to_string());
    ended_well(&mut start(&soak, &landbridge, &out, seed, options, others.as_deref()))
}

/// Whether secrets are measured, and the names of what else was asked for.
fn scenarios(only: Option<&str>) -> (bool, Option<String>) {
    let Some(only) = only else { return (true, None) };
    let (measured, others): (Vec<&str>, Vec<&str>) = only.split(',').partition(|name| *name == MEASURED);
    (!measured.is_empty(), (!others.is_empty()).then(|| others.join(",")))
}

/// The measurement of the tests, with so many samples that it shows what they cannot.
fn timing() -> Result<bool> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--release", "--package", "lb-auth", "--lib", "timing::", "--", "--nocapture"]);
    ended_well(command.env("LANDBRIDGE_LONG", "1").current_dir(crate::workspace::root()))
}

fn start(soak: &Path, landbridge: &Path, out: &Path, seed: u64, options: &Options, only: Option<&str>) -> Command {
    let mut command = Command::new(soak);
    command.arg("--landbridge").arg(landbridge).arg("--out").arg(out);
    command.args(["--minutes", &options.minutes.to_string(), "--seed", &seed.to_string()]);
    if let Some(only) = only {
        command.args(["--only", only]);
    }
    if options.short {
        command.arg("--short");
    }
    command
}

fn ended_well(command: &mut Command) -> Result<bool> {
    let status = command.stdin(Stdio::null()).status().context("cannot start soak")?;
    Ok(status.success())
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_secs() & 0xf_ffff
}
