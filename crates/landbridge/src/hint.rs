//! What somebody may have meant by a command line that cannot be read.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::run::quoted;

/// The command line that was probably meant, as a sentence.
pub fn of(error: &clap::Error, args: impl IntoIterator<Item = String>) -> Option<String> {
    let context = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(context) else { return None };
    let args: Vec<String> = args.into_iter().skip(1).collect();
    let meant = match word.as_str() {
        "--config" => config_without_command(&args)?,
        word if looks_like_config(word) => with_config(word, &args),
        word if error.kind() == ErrorKind::InvalidSubcommand && is_first(word, &args) && is_program(word) => {
            wrapped(&args)
        }
        _ => return None,
    };
    Some(format!("Did you mean: landbridge {meant}"))
}

/// `landbridge --config FILE`: only some commands have servers.
fn config_without_command(args: &[String]) -> Option<String> {
    let at = args.iter().position(|arg| arg == "--config" || arg.starts_with("--config="))?;
    let file = match args.get(at)?.strip_prefix("--config=") {
        Some(file) => file,
        None => args.get(at + 1).map_or("mcp.json", String::as_str),
    };
    Some(format!("serve --config {}", quoted(file)))
}

/// `landbridge serve FILE`, or with another command or none.
fn with_config(file: &str, args: &[String]) -> String {
    let words: Vec<&str> = args.iter().map(String::as_str).take_while(|word| *word != file).collect();
    let flag = if has_ending(file, &["toml"]) { "--settings" } else { "--config" };
    let command = match words.as_slice() {
        ["stdio", ..] => "stdio",
        ["config", "show", ..] => "config show",
        ["config", ..] => "config check",
        _ => "serve",
    };
    format!("{command} {flag} {}", quoted(file))
}

/// Whether it stands where a command of ours does; further words are those of a command.
fn is_first(word: &str, args: &[String]) -> bool {
    args.first().is_some_and(|first| first == word)
}

/// `landbridge npx …`: what wrap is for.
fn wrapped(args: &[String]) -> String {
    let words: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
    format!("wrap {}", words.join(" "))
}

fn looks_like_config(word: &str) -> bool {
    has_ending(word, &["json", "jsonc", "json5", "toml"]) && !word.starts_with('-')
}

fn has_ending(word: &str, endings: &[&str]) -> bool {
    Path::new(word).extension().is_some_and(|found| endings.iter().any(|ending| found.eq_ignore_ascii_case(ending)))
}

fn is_program(word: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |folder: &Path| folder.join(word).is_file();
    if word.contains('/') {
        is_there(Path::new(""))
    } else {
        std::env::split_paths(&path).any(|folder| is_there(&folder))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn hint(line: &str) -> Option<String> {
        let args = || std::iter::once("landbridge").chain(line.split(' ')).map(str::to_owned);
        of(&crate::cli::Cli::try_parse_from(args()).expect_err(line), args())
    }

    #[test]
    fn a_file_in_the_wrong_place_is_met_with_the_right_line() {
        for (line, want) in [
            ("serve mcp.json", Some("serve --config mcp.json")),
            ("stdio my.json", Some("stdio --config my.json")),
            ("config check mcp.jsonc", Some("config check --config mcp.jsonc")),
            ("config show x/mcp.json", Some("config show --config x/mcp.json")),
            ("mcp.json", Some("serve --config mcp.json")),
            ("--config mcp.json", Some("serve --config mcp.json")),
            ("--config=mcp.json", Some("serve --config mcp.json")),
            ("serve landbridge.toml", Some("serve --settings landbridge.toml")),
            ("sh -c ls", Some("wrap sh -c ls")),
            ("auth key rm x", None),
            ("serve --nothing", None),
            ("srve", None),
        ] {
            let got = hint(line);
            assert_eq!(got.as_deref().and_then(|hint| hint.strip_prefix("Did you mean: landbridge ")), want, "{line}");
        }
    }
}
