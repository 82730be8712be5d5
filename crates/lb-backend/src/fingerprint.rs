//! What makes a server the one that was asked before: its definition, and the files that it runs.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use lb_exchange::{OauthClient, ServerAuth, Target, Transport};
use sha2::{Digest as _, Sha256};

use crate::connect::Server;

impl Server {
    /// Another one when the server may be another: command, arguments, folder, environment and program file, or URL and
    /// headers. Only a hash, so that no secret can be read from it.
    ///
    /// Looks at the disk.
    pub fn fingerprint(&self) -> String {
        let mut sum = Sum(Sha256::new());
        match &self.spec().target {
            Target::Child { command, args, cwd, env: named, .. } => {
                let env = crate::child::environment(&self.spec().target);
                let folder = cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
                sum.field(b"child");
                sum.field(command.as_bytes());
                sum.field(folder.as_os_str().as_encoded_bytes());
                sum.fields(args.iter().map(String::as_bytes));
                let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
                sum.file(program(command, &folder, path.as_deref()).as_deref());
                // A program that runs another file is that file.
                let script = args.iter().find(|arg| is_script(arg)).map(|arg| folder.join(arg));
                sum.file(script.as_deref());
                sum.environment(env, |name| named.iter().any(|(known, _)| *name == **known));
            }
            Target::Http { url, headers } => {
                sum.field(b"http");
                sum.field(url.as_bytes());
                sum.fields(headers.iter().flat_map(|(name, value)| [name.as_bytes(), value.expose().as_bytes()]));
                // Whoever is asked on behalf of somebody else may tell something else.
                match &self.spec().auth {
                    ServerAuth::None => {}
                    ServerAuth::User(client) => sum.client(b"user", client),
                    ServerAuth::Service(client) => sum.client(b"service", client),
                }
                match self.spec().transport {
                    Transport::Found => {}
                    Transport::Sse => sum.field(b"sse"),
                }
            }
            Target::Embedded(name) => {
                sum.field(b"embedded");
                sum.field(name.as_bytes());
                sum.field(env!("CARGO_PKG_VERSION").as_bytes());
            }
        }
        sum.finish()
    }
}

/// Fields that cannot run into each other.
struct Sum(Sha256);

impl Sum {
    fn field(&mut self, bytes: &[u8]) {
        self.0.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(bytes);
    }

    fn fields<'a>(&mut self, all: impl Iterator<Item = &'a [u8]>) {
        let all: Vec<_> = all.collect();
        self.field(&all.len().to_le_bytes());
        all.into_iter().for_each(|bytes| self.field(bytes));
    }

    fn client(&mut self, kind: &[u8], client: &OauthClient) {
        self.field(kind);
        self.field(client.client_id.as_deref().unwrap_or_default().as_bytes());
        self.fields(client.scopes.iter().map(String::as_bytes));
    }

    /// Where a file is, how long it is, and when it was written.
    fn file(&mut self, path: Option<&Path>) {
        let Some((path, facts)) = path.and_then(|path| Some((path, std::fs::metadata(path).ok()?))) else {
            return self.field(b"");
        };
        let written = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        self.field(path.as_os_str().as_encoded_bytes());
        self.field(&facts.len().to_le_bytes());
        self.field(&written.as_nanos().to_le_bytes());
    }

    /// What somebody named for this server counts, and of what it merely inherits all that may last.
    fn environment(&mut self, env: Vec<(OsString, OsString)>, is_named: impl Fn(&OsStr) -> bool) {
        let counts = |name: &OsStr| is_named(name) || !is_fleeting(name);
        let mut env: Vec<_> = env.into_iter().filter(|(name, _)| counts(name)).collect();
        env.sort();
        self.fields(env.iter().flat_map(|(name, value)| [name.as_encoded_bytes(), value.as_encoded_bytes()]));
    }

    fn finish(self) -> String {
        self.0.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            write!(text, "{byte:02x}").ok();
            text
        })
    }
}

/// Variables that tell one terminal, login or start of a program from the next, and no server cares about.
fn is_fleeting(name: &OsStr) -> bool {
    const NAMES: &[&str] = &[
        "_",
        "COLORTERM",
        "COLUMNS",
        "CURSOR_TRACE_ID",
        "DESKTOP_STARTUP_ID",
        "DISPLAY",
        "GPG_AGENT_INFO",
        "GPG_TTY",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LINES",
        "LS_COLORS",
        "MANAGERPID",
        "OLDPWD",
        "PWD",
        "SECURITYSESSIONID",
        "SESSION_MANAGER",
        "SHLVL",
        "STY",
        "SYSTEMD_EXEC_PID",
        "VTE_VERSION",
        "WAYLAND_DISPLAY",
        "WINDOWID",
        "XAUTHORITY",
        "XDG_ACTIVATION_TOKEN",
        "XDG_RUNTIME_DIR",
        "XDG_SEAT",
        "XDG_VTNR",
        // Says how much we log, and nothing to the server.
        "LANDBRIDGE_WRAP_DEBUG",
        "MCP_WRAPPER_DEBUG",
    ];
    const PREFIXES: &[&str] = &[
        "ALACRITTY_",
        "DBUS_",
        "GIO_LAUNCHED_",
        "GNOME_TERMINAL_",
        "ITERM_",
        "KITTY_",
        "KONSOLE_",
        "SSH_",
        "TERM",
        "TMUX",
        "VSCODE_",
        "WEZTERM_",
        "XDG_SESSION_",
        "ZELLIJ",
    ];
    let name = name.to_string_lossy();
    NAMES.contains(&&*name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn is_script(arg: &str) -> bool {
    const KINDS: &[&str] = &["py", "js", "mjs", "cjs", "ts", "sh", "rb", "pl", "php", "jar", "wasm"];
    let kind = Path::new(arg).extension().and_then(OsStr::to_str);
    kind.is_some_and(|kind| KINDS.contains(&kind))
}

/// The file of a program, as the system finds it.
fn program(command: &str, folder: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(folder.join(command));
    }
    std::env::split_paths(path?).map(|at| at.join(command)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests;
