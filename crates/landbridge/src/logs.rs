//! Logs, always on stderr: on the stdio transport stdout belongs to the protocol.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

use crate::cli::{Cli, Command};

/// Starts logging at the level that fits the command.
pub fn start(cli: &Cli) {
    let default = match cli.command {
        Some(Command::Stdio(_)) => "warn",
        Some(Command::Serve(_)) | None => "info",
    };
    let level = cli.log_level.as_deref().filter(|level| !level.is_empty()).unwrap_or(default);
    let filter = filter(level).unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

/// A level or filter that can be used; an empty one, as a variable may be, stands for the default.
///
/// # Errors
/// With what is allowed.
pub fn level(text: &str) -> Result<String, &'static str> {
    // The filter takes any other word for the name of a module, and would log nothing else.
    let named = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
    let spans = text.contains('[');
    let good = text.is_empty() || ((spans || text.split(',').map(str::trim).all(named)) && filter(text).is_ok());
    let advice = "give off, error, warn, info, debug or trace, or a filter such as lb_backend=debug";
    if good { Ok(text.to_owned()) } else { Err(advice) }
}

fn filter(level: &str) -> Result<EnvFilter, ParseError> {
    // The SDK of the embedded demo logs every error it sends, which is no news to an operator.
    EnvFilter::try_new(format!("{level},rmcp=off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_one_of_the_words_or_a_filter() {
        for good in ["", "off", "error", "WARN", "info", "debug", "trace", "info,lb_backend=debug", "lb_http=off"] {
            assert_eq!(level(good), Ok(good.to_owned()));
        }
        for bad in ["verbose", "warning", "info,loud", "lb_http=loud", "=", "7"] {
            assert!(level(bad).is_err(), "{bad:?}");
        }
    }
}
