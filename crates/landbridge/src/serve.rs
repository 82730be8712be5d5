//! `landbridge serve`, and the demo that runs without a command: the gateway over HTTP.

use std::io;
use std::sync::Arc;

use lb_exchange::{ServerSpec, Tasks};
use lb_front::Front;
use lb_gateway::Policy;
use tokio::net::TcpListener;

use crate::assembly::{close, gateway, signal};
use crate::banner::banner;
use crate::cli::{Listen, SurfaceName};
use crate::run::Failure;
use crate::telemetry;
use crate::watch;

/// Serves these servers until it is told to stop.
pub async fn serve(settings: Listen, surface: SurfaceName, servers: Vec<ServerSpec>) -> Result<(), Failure> {
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
    http.pages.push(telemetry::page(&gateway));
    http.pages.extend(watch::pages(&gateway));
    http.health = Some(watch::health(&gateway));
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
