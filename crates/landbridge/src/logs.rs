//! Logs, always on stderr: on the stdio transport stdout belongs to the protocol.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};

/// Starts logging at the level that fits the command.
pub fn start(cli: &Cli) {
    let default = match cli.command {
        Some(Command::Stdio(_)) => "warn",
        Some(Command::Serve(_)) | None => "info",
    };
    let level = cli.log_level.as_deref().unwrap_or(default);
    // The SDK of the embedded demo logs every error it sends, which is no news to an operator.
    let filter = EnvFilter::try_new(format!("{level},rmcp=off")).unwrap_or_else(|error| {
        eprintln!("landbridge: --log-level {level:?} is not usable ({error}), using {default}");
        EnvFilter::new(format!("{default},rmcp=off"))
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
