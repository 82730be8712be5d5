//! `landbridge auth`: keys for programs that have no browser, and logins at servers.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lb_auth::{ApiKeys, Scopes, new_key};
use lb_config::settings::{Given, Settings};
use serde_json::json;

use super::login::{self, Login, Logout, Show};
use crate::run::Failure;

/// `landbridge auth`
#[derive(Debug, Args)]
pub struct Command {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What can be done about who gets in.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Make keys for programs, for `landbridge serve --auth keys FILE`.
    Key(Key),
    /// Log in at a server whose config says `"auth": "user"`: print a URL, and wait up to 5 minutes until somebody has
    /// logged in there.
    #[command(
        after_help = "Exit codes: 0 logged in, 1 failed or denied, 2 wrong usage.\n\nThe login is kept for this \
                            user, and every landbridge that is used without a login of its own sees it. With `serve --auth` each \
                            person logs in through the gateway instead."
    )]
    Login(Login),
    /// End a login at a server.
    Logout(Logout),
    /// Say where somebody is logged in.
    Status(Show),
}

/// `landbridge auth key`
#[derive(Debug, Args)]
pub struct Key {
    /// What to do.
    #[command(subcommand)]
    pub action: KeyAction,
}

/// What can be done about keys.
#[derive(Debug, Subcommand)]
pub enum KeyAction {
    /// Make a key: print it once, and the line that its file needs.
    #[command(
        after_help = "Examples:\n  landbridge auth key new ci --file keys.txt\n  landbridge auth key new reader --scope \
                      mcp:read --json\n\nA program sends it as `Authorization: Bearer KEY`. Only its hash is in the file; a \
                      line that is taken out of it ends the key."
    )]
    New(New),
}

/// `landbridge auth key new`
#[derive(Debug, Args)]
pub struct New {
    /// Its name: 1 to 64 letters, digits, dots, `_` and `-`.
    pub id: String,

    /// What it may do: mcp:read, mcp:call, mcp:admin or server:NAME; may be given several times [default: mcp:read and
    /// mcp:call].
    #[arg(long, value_name = "SCOPE")]
    pub scope: Vec<String>,

    /// Add the line to this file, and print the key alone.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Print JSON: {id, key, line}.
    #[arg(long)]
    pub json: bool,
}

impl Command {
    /// The settings that were given with it.
    pub fn given(&self) -> Option<&Given> {
        match &self.action {
            Action::Key(_) => None,
            Action::Login(Login { flags, .. }) | Action::Logout(Logout { flags, .. }) => Some(&flags.given),
            Action::Status(Show { flags, .. }) => Some(&flags.given),
        }
    }
}

/// Does it.
pub async fn run(command: &Command, settings: &Settings) -> Result<(), Failure> {
    match &command.action {
        Action::Key(Key { action: KeyAction::New(new) }) => make(new),
        Action::Login(command) => login::login(command, settings).await,
        Action::Logout(command) => login::logout(command, settings).await,
        Action::Status(command) => login::status(command, settings).await,
    }
}

fn make(new: &New) -> Result<(), Failure> {
    let scopes = Scopes::parse(&new.scope.join(" ").replace(',', " "));
    let scopes = scopes
        .ok_or_else(|| Failure::usage("--scope: give mcp:read, mcp:call, mcp:admin or server:NAME".to_owned()))?;
    let (key, line) = new_key(&new.id, &scopes).map_err(Failure::usage)?;
    if let Some(file) = &new.file {
        add(file, &new.id, &line)?;
    }
    let text = match (new.json, &new.file) {
        (true, _) => json!({ "id": new.id, "key": key.expose(), "line": line }).to_string(),
        (false, Some(_)) => key.expose().to_owned(),
        (false, None) => format!("key:  {}\nline: {line}", key.expose()),
    };
    writeln!(std::io::stdout(), "{text}").map_err(|error| Failure::runtime(format!("cannot write: {error}")))
}

/// Adds a line to a file of keys, which is made for this user alone.
fn add(file: &Path, id: &str, line: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::runtime(format!("{} cannot be written: {error}", file.display()));
    let before = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let known = (1..).zip(before.lines()).find(|(_, line)| line.split_whitespace().next() == Some(id));
    if let Some((at, _)) = known {
        let file = file.display();
        return Err(Failure::usage(format!(
            "{file} has a key {id:?} already: choose another name, or take line {at} out of it"
        )));
    }
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let added = format!("{gap}{line}\n");
    ApiKeys::parse(&format!("{before}{added}"))
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
    opened.and_then(|mut opened| opened.write_all(added.as_bytes())).map_err(failed)
}
