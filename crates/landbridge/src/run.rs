//! From settings to a running gateway, and down again.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lb_backend::{Children, Environment};
use lb_exchange::{Mount, Principal, ServerName, ServerSpec, Tasks};
use lb_front::Front;
use lb_gateway::{Gateway, Policy, Setup, Surface};
use tokio::net::TcpListener;

use crate::banner::banner;
use crate::cli::{Cli, Command, Listen, Stdio, SurfaceName};
use crate::embedded;

/// How long sessions and children may take to end.
const CLOSE_GRACE: Duration = Duration::from_secs(10);
/// How long what is left may take. A child that will not go is ended after 5 s, and that must be seen.
const TASKS_GRACE: Duration = Duration::from_secs(7);

/// Why a command ended badly: the exit code, and what to say on stderr.
struct Failure(u8, String);

impl Failure {
    fn usage(text: impl Into<String>) -> Self {
        Self(2, text.into())
    }

    fn runtime(text: impl Into<String>) -> Self {
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

/// The servers of a config.
#[derive(Default)]
struct Loaded {
    servers: Vec<ServerSpec>,
    disabled: Vec<ServerSpec>,
}

/// Reads the servers, says everything that is wrong with the file at once, and goes on only if it can.
fn load(path: Option<&Path>, surface: SurfaceName) -> Result<Loaded, Failure> {
    let Some(path) = path else {
        return match surface {
            SurfaceName::Tools => Ok(Loaded::default()),
            SurfaceName::Server => Err(Failure::usage("--surface server needs --config with the server in it")),
        };
    };
    let show = |problems: &[lb_config::Problem]| {
        for problem in problems {
            eprintln!("{problem}");
        }
    };
    match lb_config::load(path) {
        Ok(loaded) => {
            show(&loaded.warnings);
            show(&loaded.left_out);
            let (disabled, servers): (Vec<_>, Vec<_>) = loaded.servers.into_iter().partition(|server| server.disabled);
            match (servers.as_slice(), disabled.as_slice()) {
                ([], off) if surface == SurfaceName::Tools => {
                    if !off.is_empty() {
                        eprintln!("landbridge: every server of {} is disabled: {}", path.display(), names(off));
                    }
                    Ok(Loaded { servers, disabled })
                }
                ([], []) => Err(Failure::usage(format!("{} names no server to serve", path.display()))),
                ([], off) => {
                    Err(Failure::usage(format!("every server of {} is disabled: {}", path.display(), names(off))))
                }
                _ => Ok(Loaded { servers, disabled }),
            }
        }
        Err(problems) => {
            show(&problems);
            Err(Failure::usage(format!("{} cannot be used", path.display())))
        }
    }
}

fn names(servers: &[ServerSpec]) -> String {
    servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(", ")
}

async fn serve(settings: Listen, surface: SurfaceName, servers: Vec<ServerSpec>) -> Result<(), Failure> {
    let wanted = settings.address();
    let listener = TcpListener::bind(wanted).await.map_err(|error| no_listener(wanted, &error))?;
    let address = listener.local_addr().map_err(|error| Failure::runtime(error.to_string()))?;
    let text = banner(address, surface, &servers);
    let tasks = Tasks::default();
    let policy = Policy { allow_spawn: settings.allow_stdio_spawn, ..Policy::default() };
    let gateway = gateway(servers, surface, policy, settings.record_args, &tasks)?;
    let front = Arc::new(Front::new(Arc::new(gateway.clone()), lb_front::Settings::default()));
    let mut http = lb_http::Settings::default();
    http.allowed_hosts.extend(settings.allow_host);
    http.allowed_origins = settings.allow_origin;
    http.pages.push(waterfall(&gateway));
    let counted = gateway.clone();
    http.health = Some(Arc::new(move || vec![("activeSessions", counted.sessions().into())]));
    eprint!("{text}");
    lb_http::serve(listener, front, http, tasks.clone(), signal()).await;
    close(&gateway, &tasks).await;
    Ok(())
}

fn no_listener(wanted: &str, error: &io::Error) -> Failure {
    let why = match (error.kind(), wanted.rsplit_once(':')) {
        (io::ErrorKind::AddrInUse, Some((host, _))) => {
            format!("Address already in use; choose another with --listen {host}:0")
        }
        _ => error.to_string(),
    };
    Failure::runtime(format!("cannot listen on {wanted}: {why}"))
}

/// The waterfall of what is called.
fn waterfall(gateway: &Gateway) -> lb_http::Pages {
    let pages = lb_ui::Waterfall::new(gateway.tracker().clone(), Arc::new(gateway.clock()));
    let source = move |path: &str, query: Option<&str>| {
        let lb_ui::Page { status, content_type, body, content_security_policy } = pages.page(path, query)?;
        Some(lb_http::Page { status, content_type, body, content_security_policy })
    };
    lb_http::Pages { path: "/waterfall", source: Arc::new(source) }
}

async fn stdio(settings: &Stdio) -> Result<(), Failure> {
    let surface = match (settings.surface, &settings.server) {
        (Some(SurfaceName::Tools), Some(_)) => {
            return Err(Failure::usage("--surface tools serves all servers; leave out --server"));
        }
        (Some(surface), _) => surface,
        (None, Some(_)) => SurfaceName::Server,
        (None, None) => SurfaceName::Tools,
    };
    if let (Some(_), None) = (&settings.server, &settings.config) {
        return Err(Failure::usage("--server names a server of a config: give it with --config FILE"));
    }
    let loaded = load(settings.config.as_deref(), surface)?;
    let mount = match surface {
        SurfaceName::Tools => Mount::Tools,
        SurfaceName::Server => Mount::Server(choose(&loaded, settings.server.as_deref())?),
    };
    let tasks = Tasks::default();
    // Whoever starts us on a pipe could start any other program too.
    let policy = Policy { allow_spawn: true, ..Policy::default() };
    let gateway = gateway(loaded.servers, surface, policy, false, &tasks)?;
    let front = Front::new(Arc::new(gateway.clone()), lb_front::Settings::default());
    let served = lb_stdio::serve(&front, mount, Principal::local(), signal()).await;
    close(&gateway, &tasks).await;
    served.map_err(|error| Failure::runtime(error.to_string()))
}

/// The server to serve alone.
fn choose(Loaded { servers, disabled }: &Loaded, wanted: Option<&str>) -> Result<ServerName, Failure> {
    let Some(wanted) = wanted else {
        return match servers.as_slice() {
            [only] => Ok(only.name.clone()),
            many => Err(Failure::usage(format!("several servers: choose one with --server: {}", names(many)))),
        };
    };
    let is_wanted = |server: &&ServerSpec| server.name.as_str() == wanted;
    if let Some(found) = servers.iter().find(is_wanted) {
        return Ok(found.name.clone());
    }
    let why = match disabled.iter().find(is_wanted) {
        Some(_) => format!("server {wanted:?} is disabled in the config; enabled are: {}", names(servers)),
        None => format!("no server {wanted:?} in the config; it has: {}", names(servers)),
    };
    Err(Failure::usage(why))
}

fn gateway(
    servers: Vec<ServerSpec>,
    surface: SurfaceName,
    policy: Policy,
    record_args: bool,
    tasks: &Tasks,
) -> Result<Gateway, Failure> {
    let supervisor = lb_process::own_supervisor()
        .map_err(|error| Failure::runtime(format!("cannot find this program's own file: {error}")))?;
    let embedded = Arc::new(embedded::servers(tasks));
    let children = Children::new(lb_backend::CHILDREN_MAX);
    let environment = Environment { supervisor, embedded, tasks: tasks.clone(), children };
    let tools: Option<Arc<dyn Surface>> = Some(Arc::new(lb_tools::Tools::default()));
    let only_server = surface == SurfaceName::Server;
    let setup = Setup { policy, tools, only_server, record_args, ..Setup::default() };
    Gateway::new(servers, &environment, setup).map_err(|(name, error)| Failure::usage(format!("{name}: {error}")))
}

async fn close(gateway: &Gateway, tasks: &Tasks) {
    if tokio::time::timeout(CLOSE_GRACE, gateway.close()).await.is_err() {
        tracing::warn!("servers did not end in time; they are killed");
    }
    if !tasks.close(TASKS_GRACE).await {
        tracing::warn!("tasks outlived the grace period");
    }
}

/// Resolves at the first Ctrl-C or SIGTERM; a second one ends the process at once.
async fn signal() {
    next_signal().await;
    eprintln!("landbridge: stopping; once more to stop at once");
    // A set of its own, which nobody closes: it must hear the second signal to the very end.
    Tasks::default().spawn(async {
        next_signal().await;
        std::process::exit(130);
    });
}

async fn next_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}
