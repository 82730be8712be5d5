//! `landbridge demo`: the demo server by itself, on stdin and stdout or over HTTP.

use std::sync::Arc;

use clap::Args;
use lb_config::settings::{Given, Settings};
use lb_exchange::{Mount, Tasks, Visitor};
use lb_front::Front;
use lb_gateway::{Clients, Policy};

use crate::assembly::{Way, close, gateway};
use crate::cli::SurfaceName;
use crate::embedded;
use crate::flags::{self, Flags};
use crate::run::Failure;
use crate::serve::serve;
use crate::settled::Settled;
use crate::stop::{REST_MAX, Stop};
use crate::telemetry::{Telemetry, Watched};

/// `landbridge demo`
#[derive(Debug, Args)]
pub struct Demo {
    /// Serve over HTTP instead of stdin and stdout, at /mcp; port 0 takes any free one, which is then printed
    /// [default: 127.0.0.1:8080, or what the variables HOST and PORT say].
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1)]
    pub http: Option<Option<String>>,

    /// The same as --http HOST:PORT.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "http")]
    pub listen: Option<String>,

    /// Who may call over HTTP.
    #[command(flatten)]
    pub flags: Flags<flags::Callers>,
}

impl Demo {
    /// What is given here of the settings of `serve`.
    pub fn given(&self) -> Given {
        let http = self.http.iter().flatten().map(|address| ("http", vec![address.clone()]));
        let listen = self.listen.iter().map(|address| ("listen", vec![address.clone()]));
        http.chain(listen).chain(self.flags.given.iter().cloned()).collect()
    }

    /// Whether it is served over HTTP.
    pub fn is_over_http(&self) -> bool {
        self.http.is_some() || self.listen.is_some()
    }
}

/// Serves the demo until the client closes stdin, or it is told to stop.
pub async fn demo(demo: &Demo, settled: Settled) -> Result<(), Failure> {
    match demo.is_over_http() {
        true => serve(settled, SurfaceName::Server, embedded::demo()?, None).await,
        false if !demo.flags.given.is_empty() => {
            Err(Failure::usage("on stdin and stdout nobody else calls: add --http"))
        }
        false => stdio(&settled.settings).await,
    }
}

async fn stdio(settings: &Settings) -> Result<(), Failure> {
    let servers = embedded::demo_alone()?;
    let mount = match servers.as_slice() {
        [only] => Mount::Server(only.name.clone()),
        _ => return Err(Failure::runtime("the demo server has no name")),
    };
    let telemetry = Telemetry::read()?;
    let tasks = Tasks::default();
    let (surface, policy, tracer) = (SurfaceName::Server, Policy::default(), telemetry.tracer());
    let way = Way { clients: Clients::One, surface, policy, tracer, keeping: None, logins: None };
    let gateway = gateway(servers, way, settings, &tasks).await?;
    let exporting = telemetry.export(&Watched::alone(&gateway), &tasks)?;
    let settings = lb_front::Settings::default();
    let grace = settings.grace;
    let front = Front::new(Arc::new(gateway.clone()), settings);
    let stop = Stop::listen(move || grace, REST_MAX);
    let served = lb_stdio::serve(&front, mount, Visitor::local(), stop.asked(), || stop.begin()).await;
    close(&gateway, &tasks).await;
    exporting.finish().await;
    served.map_err(|error| Failure::runtime(error.to_string()))
}
