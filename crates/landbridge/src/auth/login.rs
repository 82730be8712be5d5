//! `landbridge auth status`, `login` and `logout`: the logins of whoever sits at this machine.
//!
//! They are kept in a folder that every landbridge of this user reads, so that one that runs sees them with its next
//! request. A gateway that people log in to keeps those of each person by itself.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lb_auth::behind::{Ended, Status};
use lb_config::settings::{Settings, Store};
use lb_exchange::{Principal, ServerSpec, Tasks};
use serde_json::Value;

use super::behind::on_demand;
use crate::assembly::{load, names};
use crate::cli::SurfaceName;
use crate::flags::{self, Flags};
use crate::run::Failure;
use crate::state;
use crate::state::logins::{self, KeptIn};

/// How long somebody has to log in.
const WAIT_MAX: Duration = Duration::from_secs(5 * 60);

/// `landbridge auth login`
#[derive(Debug, Args)]
pub struct Login {
    /// The server, by its name in the config.
    pub server: String,

    /// Print the URL, and open no browser.
    #[arg(long)]
    pub print_url: bool,

    /// Where the servers are.
    #[command(flatten)]
    pub flags: Flags<flags::Servers>,
}

/// `landbridge auth logout`
#[derive(Debug, Args)]
pub struct Logout {
    /// The server, by its name in the config.
    pub server: String,

    /// Where the servers are.
    #[command(flatten)]
    pub flags: Flags<flags::Servers>,
}

/// `landbridge auth status`
#[derive(Debug, Args)]
pub struct Show {
    /// Print JSON: an array of {server, type, issuer, scopes, expiresAt, state, key}.
    #[arg(long)]
    pub json: bool,

    /// Where the servers are.
    #[command(flatten)]
    pub flags: Flags<flags::Servers>,
}

/// Logs in, and waits until somebody has.
///
/// # Errors
/// Nobody did, or it failed.
pub async fn login(command: &Login, settings: &Settings) -> Result<(), Failure> {
    let (server, tasks) = (find(&command.server, settings)?, Tasks::default());
    let behind = on_demand(settings, kept(settings).await?.store, &tasks)?;
    let begun = behind.login(&Principal::local(), &server).await;
    let needed = begun.map_err(|error| Failure::runtime(error.to_string()))?;
    print(&needed.url)?;
    if !command.print_url {
        open(&needed.url);
    }
    let ended = tokio::time::timeout(WAIT_MAX, behind.wait(&needed.id)).await;
    behind.close().await;
    match ended {
        Ok(Ended::Done) => Ok(()),
        Ok(Ended::Failed(why)) => Err(Failure::runtime(format!("nobody is logged in at {}: {why}", server.name))),
        Ok(Ended::Over) | Err(_) => {
            Err(Failure::runtime(format!("nobody is logged in at {}: nobody came back from there", server.name)))
        }
    }
}

/// Ends a login.
///
/// # Errors
/// It may still be kept.
pub async fn logout(command: &Logout, settings: &Settings) -> Result<(), Failure> {
    let (server, tasks) = (find(&command.server, settings)?, Tasks::default());
    let behind = on_demand(settings, kept(settings).await?.store, &tasks)?;
    let ended = behind.logout(&Principal::local(), &server).await;
    let was_there = ended.map_err(|error| Failure::runtime(error.to_string()))?;
    print(if was_there { "logged out" } else { "nobody was logged in" })
}

/// Says where somebody is logged in.
///
/// # Errors
/// The config, or what is kept, cannot be read.
pub async fn status(command: &Show, settings: &Settings) -> Result<(), Failure> {
    let tasks = Tasks::default();
    let servers: Vec<Arc<ServerSpec>> = load(settings, SurfaceName::Tools)?.servers.into_iter().map(Arc::new).collect();
    let kept = kept(settings).await?;
    let behind = on_demand(settings, kept.store, &tasks)?;
    let all = behind.status(&Principal::local(), &servers).await;
    if servers.is_empty() && !command.json {
        return print("there are no servers: name the config that has some with --config FILE");
    }
    let text = match command.json {
        true => as_json(&all, kept.key).map_err(|error| Failure::runtime(error.to_string()))?,
        false => as_table(&all, kept.key),
    };
    print(text.trim_end())
}

/// What is kept for whoever sits at this machine; where gateways share a store, theirs.
async fn kept(settings: &Settings) -> Result<logins::Opened, Failure> {
    if matches!(settings.state.store, Store::Shared { .. })
        && let Some(shared) = state::open(&settings.state, false).await?
    {
        return Ok(logins::Opened { store: shared.store, key: KeptIn::Settings });
    }
    logins::open(&settings.state).await.map_err(|why| Failure::runtime(why.text()))
}

/// The rows, each with where the key is that they are sealed with.
fn as_json(all: &[Status], key: KeptIn) -> serde_json::Result<String> {
    let mut rows = serde_json::to_value(all)?;
    for row in rows.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        row.insert("key".to_owned(), key.word().into());
    }
    serde_json::to_string(&rows)
}

fn as_table(all: &[Status], key: KeptIn) -> String {
    let mut text = format!("{:<20} {:<8} {:<11} {:<21} {}\n", "server", "type", "state", "until", "issuer");
    for one in all {
        let state = serde_json::to_value(one.state).ok();
        let state = state.as_ref().and_then(Value::as_str).unwrap_or_default();
        let (until, issuer) = (one.expires_at.as_deref().unwrap_or("-"), one.issuer.as_deref().unwrap_or("-"));
        text += &format!("{:<20} {:<8} {state:<11} {until:<21} {issuer}\n", one.server, one.kind);
    }
    text += match key {
        KeptIn::Keyring => "\nThey are sealed with a key in the keyring of the system.\n",
        KeptIn::Folder => "\nThey are sealed with a key in the same folder: no keyring of the system is used.\n",
        KeptIn::Settings => "\nThey are in the store that gateways share, sealed with the key that those have.\n",
    };
    text
}

fn find(name: &str, settings: &Settings) -> Result<Arc<ServerSpec>, Failure> {
    let servers = load(settings, SurfaceName::Tools)?.servers;
    let known = names(&servers);
    let found = servers.into_iter().find(|server| server.name.as_str() == name);
    found.map(Arc::new).ok_or_else(|| match known.is_empty() {
        true => Failure::usage(format!("no server {name:?}: name the config that has it with --config FILE")),
        false => Failure::usage(format!("no server {name:?} in the config; it has: {known}")),
    })
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let printed = writeln!(out, "{text}").and_then(|()| out.flush());
    printed.map_err(|error| Failure::runtime(format!("cannot print: {error}")))
}

/// Opens a browser where there is one; the URL is printed anyway.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = std::process::Command::new(program);
    let started = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = started {
        tracing::debug!(%error, program, "no browser was opened");
    }
}
