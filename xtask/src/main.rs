//! `cargo xtask`: the one entry to everything that is done to this repository besides writing it.
#![expect(clippy::print_stdout, reason = "a command line tool prints its findings")]

mod bench;
mod conformance;
mod deny;
mod peers;
mod runner;
mod score;
mod sh;
mod soak;
mod spdx;
mod test;
mod tidy;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Checks, tests and measures landbridge.
///
/// Needs the Rust toolchain, Node 20 with npm, and Python 3.11 with pip and venv. Everything else is installed by name
/// into a cache folder the first time it is needed.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything CI runs: format, lints, tidy, licences, peers, build, tests, conformance, peer table
    Test,
    /// Which crate may use which, what may not stand in a source file
    Tidy,
    /// Licences, sources and banned crates, by the rules of deny.toml
    Deny,
    /// The official suites against the fixture server, directly and through landbridge
    ///
    /// A scenario passes with a SUCCESS that says more than that the messages were well-formed, no FAILURE, and no
    /// warning that the direct run does not have. One that shows nothing is void, not passed. Exits with 1 when a row
    /// misses its target.
    Conformance {
        /// `[{path, suite, passed, failed, void, warnings, bad}]`
        #[arg(long)]
        json: bool,
        /// How the suite reaches the fixture; all when not given
        #[arg(long, value_enum)]
        path: Vec<conformance::Way>,
        /// Which scenarios; all when not given
        #[arg(long, value_enum)]
        suite: Vec<conformance::Suite>,
        /// The client of the client path instead of ours: a command, split at spaces, with the server's URL added
        #[arg(long, value_name = "COMMAND")]
        driver: Option<String>,
    },
    /// Started by the suite in the driver's place on the client path
    #[command(hide = true)]
    Through { landbridge: PathBuf, out: PathBuf, driver_file: PathBuf, url: String },
    /// landbridge beside a direct call and beside a bare hop, in release builds, in the same run
    ///
    /// Every target takes its turn within a round; ratios are medians over pairs of the same round, so that a noisy
    /// machine does not decide. A missed aim is printed and is no error. Let the machine do nothing else meanwhile.
    Bench {
        /// `{commit, profile, rounds, rows, aims}`
        #[arg(long)]
        json: bool,
        /// Few rounds and calls: shows that it runs, not how fast
        #[arg(long)]
        quick: bool,
        /// Only the direct call and the bare hops: what this machine can do at best
        #[arg(long)]
        floors: bool,
        /// Only these parts, separated by commas
        #[arg(long, value_name = "PART", value_delimiter = ',')]
        only: Vec<bench::Part>,
    },
    /// The reliability scenarios, as large as the time allows, against a release build, and the verdict over what they saw
    ///
    /// Prints its seed first. Histories and verdict.json go to target/soak/SEED. Exits with 1 when a promise was broken.
    Soak(soak::Options),
    /// Install the programs the tests speak to, and print where each one is
    Peers {
        /// `[{peer, version, program, marker}]`
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Task::Test => test::everything(),
        Task::Tidy => tidy::check().map(|()| true),
        Task::Deny => deny::check().map(|()| true),
        Task::Conformance { json, path, suite, driver } => conformance::command(&path, &suite, driver, json),
        Task::Through { landbridge, out, driver_file, url } => {
            conformance::client::through(&landbridge, &out, &driver_file, &url)
        }
        Task::Bench { json, quick, floors, only } => {
            bench::command(&bench::Options { as_json: json, quick, floors, only })
        }
        Task::Soak(options) => soak::command(&options),
        Task::Peers { json } => peers::list(json),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
