//! `landbridge serve`, and the demo that runs without a command: the gateway over HTTP.

use std::sync::Arc;
use std::time::Duration;

use lb_auth::behind::Behind;
use lb_config::settings::{self, Environment, Listen, ProxyHeader, Settings};
use lb_exchange::{Logins, Secret, ServerSpec, Tasks};
use lb_front::Front;
use lb_gateway::{Clients, Commands, Pin, Policy};
use lb_http::{Http, ListenError, Listener, Network, Place, Rate, Tls};
use lb_store::Store;

use crate::assembly::{Way, close, gateway};
use crate::auth;
use crate::banner::{Reached, banner};
use crate::cli::SurfaceName;
use crate::logs::Words;
use crate::manage;
use crate::reload::{Door, Reload};
use crate::run::Failure;
use crate::settled::Settled;
use crate::state;
use crate::stop::Stop;
use crate::telemetry::{self, Telemetry};
use crate::watch;

/// How often a server may ask somebody from elsewhere for something.
const ASKS_PER_MINUTE: usize = 3;

/// Serves these servers until it is told to stop.
pub async fn serve(
    mut settled: Settled,
    surface: SurfaceName,
    servers: Vec<ServerSpec>,
    reload: Option<Reload>,
) -> Result<(), Failure> {
    let telemetry = Telemetry::read()?;
    let tls = tls(&settled.settings)?;
    let (listeners, handed) = listeners(&settled.settings, reload.is_some()).await?;
    // A socket that was handed over is where it is, whatever the settings say.
    let is_local = !listeners.iter().any(is_open);
    settled.settings = settled.settings.reached(is_local);
    let settings = &settled.settings;
    let at: Vec<_> = listeners.iter().map(|listener| at(settings, listener)).collect();
    let base_url = settings.public_url.clone().or_else(|| at.first().map(Reached::root)).unwrap_or_default();
    let configured = servers.clone();
    let listening = listening(&at, &servers);
    let with_tls = |listener: Listener| match &tls {
        Some(tls) if listener.address().is_some() => listener.with_tls(tls.clone()),
        _ => listener,
    };
    let mut listeners: Vec<_> = listeners.into_iter().map(with_tls).collect();
    let tasks = Tasks::default();
    let from_afar = is_reached_from_afar(settings, &listeners);
    let policy = policy(settings, from_afar);
    let mut kept = match &reload {
        Some(_) => state::keep(settings, settings.reuse_port || handed, tls.as_ref(), &tasks).await?,
        // The demo is for looking around.
        None => None,
    };
    let keeping = kept.as_ref().map(|kept| kept.keeping.clone());
    let auth = door_keeper(settings, &base_url, kept.as_ref().map(state::Kept::for_login)).await?;
    let behind =
        behind(settings, &base_url, auth.as_ref(), kept.as_ref().map(|kept| kept.keeping.store.clone())).await?;
    let logins: Option<Arc<dyn Logins>> = Some(Arc::new(behind.clone()));
    let way = Way { clients: Clients::Many, surface, policy, tracer: telemetry.tracer(), keeping, logins };
    let gateway = gateway(servers, way, settings, &tasks).await?;
    if let Some(auth) = &auth {
        gateway.watch_logins(auth.clone());
    }
    let front = Arc::new(Front::new(Arc::new(gateway.clone()), front(settings)));
    let running = Front::clone(&front);
    let mut shown = http(settings);
    if let Some(door) = kept.as_mut().and_then(|kept| kept.door.take()) {
        shown.node = Some(door.settings);
        listeners.push(door.listener);
    }
    shown.auth.clone_from(&auth);
    shown.behind = Some(behind.clone());
    let http = Http::new(front, shown.clone());
    let (shed, forwarded) = (Some(http.handle().shed()), Some(http.handle().forwarded()));
    let store = kept.as_ref().map(|kept| kept.keeping.store.clone());
    let audit = reload.as_ref().and_then(Reload::audit);
    let watched = telemetry::Watched { gateway: gateway.clone(), shed, forwarded, store, audit: audit.clone() };
    let exporting = telemetry.export(&watched, &tasks)?;
    shown.pages.push(telemetry::page(&watched));
    shown.pages.extend(watch::pages(&gateway));
    shown.managed.push(manage::servers(&gateway));
    shown.health = Some(watch::health(&gateway, kept.as_ref().map(|kept| kept.keeping.store.clone())));
    shown.closed = audit.clone().map(|audit| -> lb_http::Closed {
        Arc::new(move || audit.is_closed().then_some("what is done cannot be written down"))
    });
    http.handle().update(shown);
    if let Some(reload) = reload {
        reload.start(&gateway, Some(Door { handle: http.handle(), is_local, auth }), &tasks);
    }
    // First: whoever reads that it listens may tell it to stop.
    let handle = http.handle();
    let calls_max = move || handle.settings().drain_max;
    let stop = Stop::listen(calls_max.clone(), settings.close_timeout);
    let text = banner(&at, surface, &configured, &gateway.defined(), settings);
    match listening {
        Some(words) => words.plain(text).say(),
        None => return Err(Failure::runtime("there is nothing to listen on")),
    }
    let opening = kept.as_mut().and_then(|kept| kept.opening.take());
    let mut failed = None;
    let asked = async {
        tokio::select! {
            () = stop.asked_with(running, calls_max) => {}
            why = state::failure(opening) => failed = Some(why),
        }
        gateway.leave();
    };
    http.serve(listeners, tasks.clone(), asked).await;
    stop.begin();
    close(&gateway, &tasks).await;
    behind.close().await;
    if let Some(kept) = kept {
        kept.close().await;
    }
    exporting.finish().await;
    if let Some(audit) = audit {
        // Blocks, but nothing else is left to do.
        audit.flush();
    }
    failed.map_or(Ok(()), Err)
}

/// Who checks whoever connects, if they must log in.
async fn door_keeper(
    settings: &Settings,
    base_url: &str,
    kept: Option<(Arc<dyn Store>, Vec<Secret>)>,
) -> Result<Option<Arc<lb_auth::Auth>>, Failure> {
    let Some(login) = &settings.login else { return Ok(None) };
    let (store, keys) = match kept {
        Some(kept) => kept,
        // A key that was given is used: tokens then outlast the process as far as their families do.
        None => (state::in_process().await?, settings.state.key.iter().cloned().collect()),
    };
    auth::build(login, settings, base_url, &keys, store).map(Some)
}

/// Who logs in at servers behind us. People have their logins where everything else of theirs is; whoever sits at this
/// machine shares them with every other landbridge of theirs.
async fn behind(
    settings: &Settings,
    base_url: &str,
    auth: Option<&Arc<lb_auth::Auth>>,
    kept: Option<Arc<dyn Store>>,
) -> Result<Behind, Failure> {
    let shares = matches!(settings.state.store, lb_config::settings::Store::Shared { .. });
    let store = match kept {
        Some(kept) if auth.is_some() || shares => kept,
        Some(_) => state::logins::on_demand(&settings.state),
        None => state::in_process().await?,
    };
    auth::behind::at_gateway(settings, base_url, auth.cloned(), store)
}

/// What clients may do.
fn policy(settings: &Settings, from_afar: bool) -> Policy {
    // Where nobody logs in there are no administrators.
    let commands = settings.login.iter().flat_map(|_| settings.allow_commands.iter().map(String::as_str));
    Policy {
        allow_spawn: settings.allow_stdio_spawn,
        from_afar,
        pinned_packages: true,
        commands: Commands::new(commands),
        pin: pin(settings.pin),
        // Whoever runs the servers on their own machine knows whom they deal with.
        asks_per_minute: from_afar.then_some(ASKS_PER_MINUTE),
        ..Policy::default()
    }
}

/// What happens to tools that change.
pub fn pin(pin: settings::Pin) -> Pin {
    match pin {
        settings::Pin::Off => Pin::Off,
        settings::Pin::Warn => Pin::Warn,
        settings::Pin::Hide => Pin::Hide,
    }
}

/// Whether clients need not be on this machine, or not be its owner. What the flags allow to those who are is not meant for others.
fn is_reached_from_afar(settings: &Settings, listeners: &[Listener]) -> bool {
    let is_open = |listener: &Listener| listener.address().is_some_and(|address| !address.ip().is_loopback());
    listeners.iter().any(is_open) || settings.public_url.is_some() || settings.login.is_some()
}

fn tls(settings: &Settings) -> Result<Option<Tls>, Failure> {
    let load = |files: &lb_config::settings::Tls| Tls::load(&files.cert, &files.key);
    settings
        .tls
        .as_ref()
        .map(load)
        .transpose()
        .map_err(|error| Failure::usage(format!("TLS cannot be served: {error}")))
}

/// What was opened for us, else what the settings say; and whether it was the former.
async fn listeners(settings: &Settings, can_share: bool) -> Result<(Vec<Listener>, bool), Failure> {
    let handed = lb_process::inherited_sockets().map_err(|error| Failure::runtime(error.to_string()))?;
    if handed.is_empty() {
        let listener = listener(settings, can_share).await?;
        // A name may lead elsewhere than when it was looked up before.
        if is_open(&listener) && !settings.insecure_no_auth && settings.login.is_none() {
            let why = format!("{} leads to an address that can be reached from elsewhere", settings.listen_source);
            return Err(Failure::usage(format!("{why}; {OPEN}")));
        }
        return Ok((vec![listener], false));
    }
    let adopted: Result<Vec<_>, _> = handed.into_iter().map(Listener::adopt).collect();
    let adopted = adopted.map_err(|error| Failure::runtime(error.to_string()))?;
    if adopted.iter().any(is_open) && !settings.insecure_no_auth && settings.login.is_none() {
        let why = "the socket that was handed over (LISTEN_FDS) can be reached from elsewhere";
        return Err(Failure::usage(format!("{why}; {OPEN}")));
    }
    Ok((adopted, true))
}

/// What that means, and what to do.
const OPEN: &str = "everybody could use every server: let people log in with --auth, or say --insecure-no-auth if something in front of it keeps others out";

/// Whether others than this machine can connect.
fn is_open(listener: &Listener) -> bool {
    listener.address().is_some_and(|address| !address.ip().to_canonical().is_loopback())
}

async fn listener(settings: &Settings, can_share: bool) -> Result<Listener, Failure> {
    let (place, wanted) = match &settings.listen {
        Listen::Tcp(address) => (Place::Tcp(address.clone()), address.clone()),
        Listen::Unix(path) => (Place::Unix(path.clone()), format!("unix:{}", path.display())),
    };
    let bound = if settings.reuse_port { Listener::bind_shared(&place).await } else { Listener::bind(&place).await };
    let source = match settings.listen_source.as_str() {
        "default" => String::new(),
        // Who typed it knows.
        flag if flag.starts_with("--") => String::new(),
        source => format!(" (from {source})"),
    };
    bound.map_err(|error| {
        let share = match error {
            ListenError::InUse { .. } if can_share => ", or start both with --reuse-port",
            _ => "",
        };
        Failure::runtime(format!("cannot listen on {wanted}{source}: {error}{share}"))
    })
}

/// Where it listens, as a URL.
fn at(settings: &Settings, listener: &Listener) -> Reached {
    match (listener.address(), &settings.listen) {
        (Some(address), _) => {
            Reached::Address { address, scheme: if settings.tls.is_some() { "https" } else { "http" } }
        }
        (None, Listen::Unix(path)) => Reached::Socket(listener.path().unwrap_or_else(|| path.clone())),
        (None, Listen::Tcp(_)) => Reached::Socket(listener.path().unwrap_or_else(|| "(without a name)".into())),
    }
}

/// That it listens, for programs. The first place is the one that is told.
fn listening(at: &[Reached], servers: &[ServerSpec]) -> Option<Words> {
    let (first, others) = at.split_first()?;
    let names: Vec<String> = servers.iter().map(|server| server.name.to_string()).collect();
    let words = Words::info("listening", first.listening()).with("version", env!("CARGO_PKG_VERSION"));
    let others: Vec<String> = others.iter().map(Reached::listening).collect();
    let words = words.with("servers", names);
    Some(if others.is_empty() { words } else { words.with("also", others) })
}

/// What clients meet.
pub fn front(settings: &Settings) -> lb_front::Settings {
    lb_front::Settings {
        call_max: settings.call_timeout,
        quiet_max: settings.quiet_timeout,
        lookup_max: settings.lookup_timeout,
        ask_max: settings.ask_timeout,
        ..lb_front::Settings::default()
    }
}

/// How they come in.
pub fn http(settings: &Settings) -> lb_http::Settings {
    let rate = |max: u64, window| Rate { max: u32::try_from(max).unwrap_or(u32::MAX), window };
    let second = Duration::from_secs(1);
    let network = |(address, length): &(std::net::IpAddr, u8)| Network::around(*address, *length);
    let mut http = lb_http::Settings {
        mcp_path: settings.mcp_path.clone(),
        allowed_origins: settings.allow_origin.clone(),
        public_url: settings.public_url.clone(),
        login: settings.login.is_some(),
        operator_token: settings.operator_token.clone(),
        environment: match settings.environment {
            Environment::Dev => lb_http::Environment::Development,
            Environment::Staging => lb_http::Environment::Staging,
            Environment::Prod => lb_http::Environment::Production,
        },
        trusted_proxies: settings.trusted_proxies.iter().map(network).collect(),
        proxy_header: match settings.proxy_header {
            ProxyHeader::XForwardedFor => lb_http::ProxyHeader::XForwardedFor,
            ProxyHeader::Forwarded => lb_http::ProxyHeader::Forwarded,
        },
        rate: settings.rate_limit_max.map(|max| rate(max, settings.rate_limit_window)),
        principal_rate: settings.rate_limit_principal.map(|max| rate(max, second)),
        body_bytes_max: settings.body_bytes_max,
        body_read_max: settings.body_timeout,
        head_read_max: settings.header_timeout,
        idle_max: settings.keep_alive_timeout,
        drain_max: settings.drain_timeout,
        connections_max: settings.connections_max,
        connections_per_ip_max: settings.connections_per_ip_max.unwrap_or(usize::MAX),
        ..lb_http::Settings::default()
    };
    http.allowed_hosts.extend(settings.allow_host.iter().cloned());
    http
}
