//! From a command to its exit code.

use std::process::ExitCode;

use crate::assembly::load;
use crate::cli::{Cli, Command, SurfaceName};
use crate::embedded;
use crate::serve::serve;
use crate::stdio::stdio;

/// Why a command ended badly: the exit code, and what to say on stderr.
pub struct Failure(pub u8, pub String);

impl Failure {
    /// Wrong usage or config.
    pub fn usage(text: impl Into<String>) -> Self {
        Self(2, text.into())
    }

    /// It failed at run time.
    pub fn runtime(text: impl Into<String>) -> Self {
        Self(1, text.into())
    }
}

/// Runs a command to its end.
pub async fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        None => serve(cli.demo, SurfaceName::Tools, embedded::demo()).await,
        Some(_) if cli.demo.is_given() => Err(Failure::usage(
            "--listen, --allow-host and the like stand behind the command: landbridge serve --listen ...",
        )),
        Some(Command::Serve(settings)) => match load(settings.config.as_deref(), settings.surface) {
            Ok(loaded) => serve(settings.listen, settings.surface, loaded.servers).await,
            Err(failure) => Err(failure),
        },
        Some(Command::Stdio(settings)) => stdio(&settings).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, text)) => {
            eprintln!("landbridge: {text}");
            ExitCode::from(code)
        }
    }
}
