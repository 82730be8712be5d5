//! `landbridge`: lets any MCP client use any MCP server.
//!
//! Wires the crates together: command line, settings, gateway, transports, signals, exit codes. Nothing here knows the
//! protocol.

mod assembly;
mod banner;
mod cli;
mod embedded;
mod logs;
mod run;
mod serve;
mod stdio;
mod telemetry;
mod watch;

use std::process::ExitCode;

use clap::Parser;

/// One client on a pipe needs one thread: with more, every line would wake another one.
fn runtime(cli: &cli::Cli) -> tokio::runtime::Builder {
    match cli.command {
        Some(cli::Command::Stdio(_)) => tokio::runtime::Builder::new_current_thread(),
        Some(cli::Command::Serve(_)) | None => tokio::runtime::Builder::new_multi_thread(),
    }
}

fn main() -> ExitCode {
    // First of all: the supervisor of a child is this binary too, and must stay small.
    if let Some(code) = lb_process::supervise_entry() {
        return code;
    }
    let cli = cli::Cli::parse();
    logs::start(&cli);
    let runtime = match runtime(&cli).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("landbridge: cannot start: {error}");
            return ExitCode::from(1);
        }
    };
    let code = runtime.block_on(run::run(cli));
    // Blocking reads of stdin cannot be cancelled; nothing waits for them.
    runtime.shutdown_background();
    code
}
