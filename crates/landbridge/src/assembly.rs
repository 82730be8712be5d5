//! What every way of serving needs: the servers of a config, the gateway, and the way down.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lb_backend::{Children, Environment, Names};
use lb_config::settings::{INLINE_CONFIG, Settings};
use lb_exchange::{Logins, ServerSpec, Tasks};
use lb_gateway::{Clients, Gateway, Keeping, Limits, Policy, Setup, Surface};
use lb_telemetry::Tracer;

use crate::cli::SurfaceName;
use crate::logs::{Words, tell};
use crate::run::Failure;
use crate::shelf;
use crate::{embedded, files};

/// How long sessions and children may take to end.
const CLOSE_GRACE: Duration = Duration::from_secs(10);
/// How long what is left may take. A child that will not go is ended after 5 s, and that must be seen.
const TASKS_GRACE: Duration = Duration::from_secs(7);

/// Sessions that one principal may have, where people log in.
const PRINCIPAL_SESSIONS_MAX: usize = 100;
/// Processes that one principal may have, where people log in.
const PRINCIPAL_CHILDREN_MAX: usize = 8;

/// The servers of a config.
#[derive(Default)]
pub struct Loaded {
    /// Those to serve.
    pub servers: Vec<ServerSpec>,
    /// Those that are switched off.
    pub disabled: Vec<ServerSpec>,
}

/// The servers of the config that these settings name, or of the variable that takes its place.
///
/// # Errors
/// Everything that is wrong, when it cannot be used.
pub fn read_servers(settings: &Settings) -> Result<lb_config::Loaded, Vec<lb_config::Problem>> {
    match (&settings.inline_servers, &settings.config) {
        (Some(text), _) => lb_config::load_inline(text, Path::new(INLINE_CONFIG)),
        (None, Some(path)) => lb_config::load(path),
        (None, None) => Ok(lb_config::Loaded::default()),
    }
}

/// Reads the servers, says everything that is wrong with the file at once, and goes on only if it can.
pub fn load(settings: &Settings, surface: SurfaceName) -> Result<Loaded, Failure> {
    let place = match (&settings.inline_servers, &settings.config) {
        (Some(_), Some(path)) => {
            let why = format!("{INLINE_CONFIG} is set, so that {} is not read", path.display());
            Words::warning("config_not_read", &why).plain(format!("warning: {why}\n")).say();
            INLINE_CONFIG.to_owned()
        }
        (Some(_), None) => INLINE_CONFIG.to_owned(),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => {
            return match surface {
                SurfaceName::Tools => Ok(Loaded::default()),
                SurfaceName::Server => Err(Failure::usage("--surface server needs --config with the server in it")),
            };
        }
    };
    let loaded = read_servers(settings).map_err(|problems| {
        tell(&problems);
        Failure::usage(format!("{place} cannot be used"))
    })?;
    tell(&loaded.warnings);
    tell(&loaded.left_out);
    tell(&files::missing_programs(&loaded, Path::new(&place)));
    let (disabled, servers): (Vec<_>, Vec<_>) = loaded.servers.into_iter().partition(|server| server.disabled);
    match (servers.as_slice(), disabled.as_slice()) {
        ([], off) if surface == SurfaceName::Tools => {
            if !off.is_empty() {
                let why = format!("every server of {place} is disabled: {}", names(off));
                Words::warning("all_disabled", why).say();
            }
            Ok(Loaded { servers, disabled })
        }
        ([], []) => Err(Failure::usage(format!("{place} names no server to serve"))),
        ([], off) => Err(Failure::usage(format!("every server of {place} is disabled: {}", names(off)))),
        _ => Ok(Loaded { servers, disabled }),
    }
}

/// Their names, for people.
pub fn names(servers: &[ServerSpec]) -> String {
    servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// How much a gateway takes on with these settings.
pub fn limits(settings: &Settings) -> Limits {
    let mut limits = Limits {
        sessions_max: settings.sessions_max,
        principal_sessions_max: settings.login.as_ref().map(|_| PRINCIPAL_SESSIONS_MAX),
        idle_after: settings.session_ttl,
        // Those that live for a short time rest early in it, but not between two requests.
        rest_after: (settings.session_ttl / 4).clamp(Duration::from_secs(5), Duration::from_secs(60)),
        sweep_every: settings.cleanup_every,
        ..Limits::default()
    };
    limits.streams.open_for = settings.event_age_max;
    limits.streams.ended_for = limits.streams.ended_for.min(settings.event_age_max);
    limits.streams.session_messages_max = settings.events_max;
    limits.streams.stream_messages_max = limits.streams.stream_messages_max.min(settings.events_max);
    limits
}

/// What servers need to be reached.
pub fn environment(tasks: &Tasks, logins: Option<Arc<dyn Logins>>) -> Result<Environment, Failure> {
    let supervisor = lb_process::own_supervisor()
        .map_err(|error| Failure::runtime(format!("cannot find this program's own file: {error}")))?;
    let embedded = Arc::new(embedded::servers(tasks));
    let children = Children::new(lb_backend::CHILDREN_MAX);
    Ok(Environment { supervisor, embedded, tasks: tasks.clone(), children, logins, names: Names::default() })
}

/// What tells one way of serving from another.
pub struct Way {
    /// Whom it is for.
    pub clients: Clients,
    /// What they see.
    pub surface: SurfaceName,
    /// How surfaces of our own behave.
    pub policy: Policy,
    /// Makes spans, where they are exported.
    pub tracer: Option<Arc<Tracer>>,
    /// Where sessions are kept beyond this process.
    pub keeping: Option<Keeping>,
    /// What we prove ourselves with at servers that want a login.
    pub logins: Option<Arc<dyn Logins>>,
}

/// A gateway in front of these servers.
pub async fn gateway(
    servers: Vec<ServerSpec>,
    way: Way,
    settings: &Settings,
    tasks: &Tasks,
) -> Result<Gateway, Failure> {
    let Way { clients, surface, policy, tracer, keeping, logins } = way;
    let mut environment = environment(tasks, logins)?;
    if settings.login.is_some() {
        environment.children = Children::shared_out(lb_backend::CHILDREN_MAX, Some(PRINCIPAL_CHILDREN_MAX));
    }
    let shelf = shelf::disk();
    let tools: Option<Arc<dyn Surface>> = Some(Arc::new(lb_tools::Tools::default()));
    let only_server = surface == SurfaceName::Server;
    let (limits, record_args) = (limits(settings), settings.record_args);
    let setup = Setup { limits, clients, policy, tools, only_server, record_args, tracer, shelf, keeping };
    let gateway = Gateway::start(servers, environment, setup).await;
    gateway.map_err(|(name, error)| Failure::usage(format!("{name}: {error}")))
}

/// Ends sessions, connections and children.
pub async fn close(gateway: &Gateway, tasks: &Tasks) {
    if tokio::time::timeout(CLOSE_GRACE, gateway.close()).await.is_err() {
        tracing::warn!("servers did not end in time; they are killed");
    }
    if !tasks.close(TASKS_GRACE).await {
        tracing::warn!("tasks outlived the grace period");
    }
    tracing::info!("shutdown_complete");
}
