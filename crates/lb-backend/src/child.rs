//! A server that we start: its process, its pipe, and what its callers are told when it dies.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Feed, Output, Target, Tasks};
use lb_process::{Child, Command, Grace, Inherit};
use lb_wire::Raw;
use lb_wire::revision::Era;

use crate::error::{self, ConnectError};
use crate::inbound;
use crate::pipe::{Ends, Pipe, Runs};

/// How much of its stderr a client is shown when a server dies.
const STDERR_SHOWN: usize = 4 << 10;
/// How long the end of its output may come before the end of its process.
const EXIT_AFTER_EOF: Duration = Duration::from_millis(500);

/// A started server.
pub struct Started {
    /// Its pipe.
    pub pipe: Arc<Pipe>,
    /// Its process; `None` for an embedded server.
    pub child: Option<Arc<Child>>,
}

/// Starts a child.
pub async fn start(
    server: &str,
    target: &Target,
    supervisor: &std::path::Path,
    era: Era,
    feed: Feed,
    tasks: &Tasks,
) -> Result<Started, ConnectError> {
    let lines = feed.clone();
    let heard = Arc::new(move |line: &[u8]| inbound::output(&lines, Output::Stderr, line));
    let child = Child::spawn(&command(target, supervisor).called(server).heard(heard)).await.map_err(|error| {
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let why = format!("{error}{hint}");
        if error.is_lasting() { ConnectError::NoProgram(why) } else { ConnectError::Spawn(why) }
    })?;
    let child = Arc::new(child);
    let (stdin, stdout) = child.take_pipes().ok_or_else(|| ConnectError::Spawn("no pipes".to_owned()))?;
    let closed = closed(server.to_owned(), child.clone());
    let ends = Ends(Box::new(stdout), Box::new(stdin), Runs::Apart);
    let pipe = Pipe::open(server, ends, era, feed, tasks, closed);
    Ok(Started { pipe, child: Some(child) })
}

/// How a child that has closed a pipe ended, in words, and what it last wrote to stderr. A server that closed one is of
/// no use any more, even if its process lives on.
///
/// Cancel safe: yes.
pub async fn last_words(child: &Child) -> (Option<String>, String) {
    if tokio::time::timeout(EXIT_AFTER_EOF, child.wait()).await.is_err() {
        tracing::debug!(pid = child.pid(), "server closed a pipe and lives on");
    }
    (child.exit().map(|exit| exit.to_string()), stderr_shown(child))
}

/// What a client is shown of its stderr.
pub fn stderr_shown(child: &Child) -> String {
    child.stderr().tail(STDERR_SHOWN)
}

/// What open calls are told once its output has ended.
async fn closed(server: String, child: Arc<Child>) -> Raw {
    let (exit, stderr) = last_words(&child).await;
    error::closed(&format!("server {server:?}"), exit.as_deref(), Some(&stderr))
}

/// Ends a child: its input is closed by then.
pub async fn stop(child: Arc<Child>) {
    let exit = child.stop(Grace::default()).await;
    tracing::debug!(pid = child.pid(), %exit, "server stopped");
}

/// The environment that a child has.
pub fn environment(target: &Target) -> Vec<(OsString, OsString)> {
    let Target::Child { env, inherit_env, .. } = target else { return Vec::new() };
    let added: Vec<_> = env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
    let inherit = if *inherit_env { Inherit::All } else { Inherit::Listed };
    lb_process::environment(&added, inherit, std::env::vars_os())
}

fn command(target: &Target, supervisor: &std::path::Path) -> Command {
    let Target::Child { command, args, cwd, .. } = target else { return Command::new("", supervisor) };
    let command = Command::new(command, supervisor).args(args).env(environment(target));
    match cwd {
        Some(cwd) => command.cwd(cwd),
        None => command,
    }
}
