//! `landbridge`: lets any MCP client use any MCP server.
//!
//! Wires the crates together: command line, settings, gateway, transports, signals, exit codes. Nothing here knows the
//! protocol.

mod assembly;
mod auth;
mod banner;
mod cli;
mod config_command;
mod demo;
mod embedded;
mod files;
mod flags;
mod hint;
mod init;
mod keyring;
mod logs;
mod manage;
mod nodes;
mod reload;
mod run;
mod serve;
mod settled;
mod shelf;
mod smoke;
mod state;
mod stdio;
mod stop;
mod telemetry;
mod watch;
mod wrap;

use std::process::ExitCode;

use clap::Parser;

/// One client on a pipe needs one thread: with more, every line would wake another one.
fn runtime(cli: &cli::Cli) -> tokio::runtime::Builder {
    match cli.command {
        Some(cli::Command::Demo(ref demo)) if demo.is_over_http() => tokio::runtime::Builder::new_multi_thread(),
        Some(
            cli::Command::Stdio(_)
            | cli::Command::Demo(_)
            | cli::Command::Wrap(_)
            | cli::Command::Init(_)
            | cli::Command::Smoke(_)
            | cli::Command::Nodes(_)
            | cli::Command::Auth(_),
        ) => tokio::runtime::Builder::new_current_thread(),
        Some(cli::Command::Serve(_) | cli::Command::Config(_)) | None => tokio::runtime::Builder::new_multi_thread(),
    }
}

/// Runs a command as a task. The future of `block_on` itself is polled only after a look for events: a system call that
/// every answer on a pipe would have to wait for.
async fn as_a_task(command: impl Future<Output = ExitCode> + Send + 'static) -> ExitCode {
    let (say, code) = tokio::sync::oneshot::channel();
    lb_exchange::Tasks::default().spawn(async move {
        let code = command.await;
        if say.send(code).is_err() {
            tracing::debug!("nobody waits for the exit code");
        }
    });
    // It panicked, and has said why.
    code.await.unwrap_or(ExitCode::FAILURE)
}

/// Settings, and logs as they want them.
fn prepare(cli: &cli::Cli) -> Result<(settled::Settled, logs::Handle), run::Failure> {
    let settled = settled::Settled::read(cli);
    logs::speak(settled.settings.log_format, None);
    match &cli.command {
        // Says itself what is wrong.
        Some(cli::Command::Config(_)) => return Ok((settled, logs::Handle::default())),
        Some(_) if !cli.demo.given.is_empty() => {
            return Err(run::Failure::usage(
                "--listen, --allow-host and the like stand behind the command: landbridge serve --listen ...",
            ));
        }
        _ => settled.check(cli)?,
    }
    let default = match &cli.command {
        Some(cli::Command::Demo(demo)) if !demo.is_over_http() => "warn",
        Some(cli::Command::Stdio(_) | cli::Command::Wrap(_) | cli::Command::Init(_) | cli::Command::Smoke(_)) => "warn",
        _ => "info",
    };
    let traced = match &cli.command {
        Some(cli::Command::Wrap(settings)) => wrap::trace::asked_for(settings),
        _ => None,
    };
    let handle = logs::start(&settled.settings, default, traced)?;
    // Now that the log file can have them too.
    logs::tell(settled.gathered.problems());
    Ok((settled, handle))
}

fn main() -> ExitCode {
    // First of all: the supervisor of a child is this binary too, and must stay small.
    if let Some(code) = lb_process::supervise_entry() {
        return code;
    }
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return run::usage(&error),
    };
    let (settled, logs) = match prepare(&cli) {
        Ok(prepared) => prepared,
        Err(failure) => return run::end(Err(failure)),
    };
    let runtime = match runtime(&cli).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return run::end(Err(run::Failure::runtime(format!("cannot start: {error}")))),
    };
    let code = runtime.block_on(as_a_task(run::run(cli, settled, logs)));
    // Blocking reads of stdin cannot be cancelled; nothing waits for them.
    runtime.shutdown_background();
    code
}
