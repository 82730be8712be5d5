//! From a command to its exit code.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use crate::assembly::load;
use crate::cli::{Cli, Command, SurfaceName};
use crate::reload::Reload;
use crate::serve::serve;
use crate::settled::Settled;
use crate::{auth, config_command, demo, embedded, files, hint, init, logs, nodes, smoke, stdio, wrap};

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
pub async fn run(cli: Cli, settled: Settled, logs: logs::Handle) -> ExitCode {
    let on_pipes = match &cli.command {
        Some(Command::Stdio(_) | Command::Wrap(_)) => true,
        Some(Command::Demo(demo)) => !demo.is_over_http(),
        _ => false,
    };
    if on_pipes && std::io::stdin().is_terminal() {
        let what = "this talks to an MCP client on stdin and stdout, which starts it by itself; Ctrl-D ends it";
        logs::Words::info("on_a_terminal", what).say();
    }
    let result = match cli.command {
        None => match embedded::demo() {
            Ok(servers) => serve(settled, SurfaceName::Tools, servers, None).await,
            Err(failure) => Err(failure),
        },
        Some(Command::Serve(_)) => serve_config(settled, logs).await,
        Some(Command::Stdio(ref stdio)) => stdio::stdio(stdio, settled, logs).await,
        Some(Command::Wrap(ref command)) => wrap::wrap(command).await,
        Some(Command::Config(ref config)) => config_command::config(config, &settled),
        Some(Command::Auth(ref command)) => auth::command::run(command, &settled.settings).await,
        Some(Command::Nodes(command)) => nodes::nodes(command, settled.settings).await,
        Some(Command::Demo(ref demo)) => demo::demo(demo, settled).await,
        Some(Command::Init(init)) => init::init(init).await,
        Some(Command::Smoke(smoke)) => smoke::smoke(smoke).await,
    };
    end(result)
}

/// A text as a terminal may have it: what was typed or read may hold characters that a terminal obeys.
pub fn harmless(text: &str) -> String {
    let obeyed = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if obeyed(c) { safe.extend(c.escape_unicode()) } else { safe.push(c) }
    }
    safe
}

/// Says what is wrong with a command line, or what it asked to be told.
pub fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render();
    let shown = if error.use_stderr() {
        let hint = hint::of(error, std::env::args()).map(|hint| format!("\n{hint}\n")).unwrap_or_default();
        eprint!("{}", harmless(&format!("{text}{hint}")));
        Ok(())
    } else {
        // Help and version are ours, in colour where a terminal is.
        error.print()
    };
    let code = if shown.is_ok() { error.exit_code() } else { 1 };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Says why a command ended badly.
pub fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, text)) => {
            logs::Words::new(tracing::Level::ERROR, "failed", text).with("exit_code", code).say();
            ExitCode::from(code)
        }
    }
}

async fn serve_config(settled: Settled, logs: logs::Handle) -> Result<(), Failure> {
    let surface = settled.settings.surface.into();
    let loaded = load(&settled.settings, surface)?;
    logs::tell(&files::useless_keys(&settled.settings, &loaded.servers));
    let reload = Reload::new(&settled, surface, &loaded, logs);
    serve(settled, surface, loaded.servers, Some(reload)).await
}

/// As a shell takes it for one word.
pub fn quoted(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,@%:=".contains(&byte);
    if !path.is_empty() && path.bytes().all(plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}
