//! `cargo xtask`: the one entry to everything that is done to this repository besides writing it.
#![expect(clippy::print_stdout, reason = "a command line tool prints its findings")]

mod runner;
mod sh;
mod test;
mod workspace;

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
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Task::Test => test::everything(),
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
