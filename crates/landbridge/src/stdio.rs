//! `landbridge stdio`: the gateway on stdin and stdout.

use std::sync::Arc;

use lb_exchange::{Logins, Mount, ServerName, ServerSpec, Tasks, Visitor};
use lb_front::Front;
use lb_gateway::{Clients, Policy};

use crate::assembly::{Loaded, Way, close, gateway, load, names};
use crate::auth::behind::on_demand;
use crate::cli::{Stdio, SurfaceName};
use crate::logs::Handle;
use crate::reload::Reload;
use crate::run::Failure;
use crate::serve;
use crate::settled::Settled;
use crate::state::logins;
use crate::stop::{REST_MAX, Stop};
use crate::telemetry::{Telemetry, Watched};

/// Serves until the client closes stdin, or it is told to stop.
pub async fn stdio(command: &Stdio, settled: Settled, logs: Handle) -> Result<(), Failure> {
    let settings = &settled.settings;
    let surface = match (command.surface, &command.server) {
        (Some(SurfaceName::Tools), Some(_)) => {
            return Err(Failure::usage("--surface tools serves all servers; leave out --server"));
        }
        (Some(surface), _) => surface,
        (None, Some(_)) => SurfaceName::Server,
        (None, None) => SurfaceName::Tools,
    };
    if let (Some(_), None, None) = (&command.server, &settings.config, &settings.inline_servers) {
        return Err(Failure::usage("--server names a server of a config: give it with --config FILE"));
    }
    let loaded = load(settings, surface)?;
    let mount = match surface {
        SurfaceName::Tools => Mount::Tools,
        SurfaceName::Server => Mount::Server(choose(&loaded, command.server.as_deref())?),
    };
    let telemetry = Telemetry::read()?;
    let tasks = Tasks::default();
    // Whoever starts us on a pipe could start any other program too.
    let policy = Policy { allow_spawn: true, pin: crate::serve::pin(settings.pin), ..Policy::default() };
    let reload = Reload::new(&settled, surface, &loaded, logs);
    // Also where no server wants one: one that is added later may.
    let behind = on_demand(settings, logins::on_demand(&settings.state), &tasks)?;
    let logins = Some(Arc::new(behind.clone()) as Arc<dyn Logins>);
    let way = Way { clients: Clients::One, surface, policy, tracer: telemetry.tracer(), keeping: None, logins };
    let gateway = gateway(loaded.servers, way, settings, &tasks).await?;
    let exporting = telemetry.export(&Watched::alone(&gateway), &tasks)?;
    reload.start(&gateway, None, &tasks);
    let settings = serve::front(settings);
    let grace = settings.grace;
    let front = Front::new(Arc::new(gateway.clone()), settings);
    let stop = Stop::listen(move || grace, REST_MAX);
    let asked = stop.asked_with(front.clone(), move || grace);
    let asked = async {
        asked.await;
        gateway.leave();
    };
    let begin = || {
        stop.begin();
        gateway.leave();
    };
    let served = lb_stdio::serve(&front, mount, Visitor::local(), asked, begin).await;
    close(&gateway, &tasks).await;
    behind.close().await;
    exporting.finish().await;
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
