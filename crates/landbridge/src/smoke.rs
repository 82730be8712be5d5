//! `landbridge smoke`: walks through one session with a server over HTTP, and says what held and what did not.
//!
//! Without a URL it starts a demo server of its own, and ends it whatever happens.

mod client;
mod report;
mod server;
mod steps;

use std::path::PathBuf;

use clap::Args;
use lb_backend::Trust;

use self::client::{Client, Target};
use self::report::Report;
use self::server::Server;
use crate::run::Failure;

/// `landbridge smoke`
#[derive(Debug, Args)]
pub struct Smoke {
    /// Where the server is, as in http://127.0.0.1:8080/mcp or https://…; without it, a demo server is started for the
    /// test.
    #[arg(value_name = "URL", value_parser = Target::parse)]
    pub url: Option<Target>,

    /// Trust https certificates of the authorities in this file (PEM), and no others.
    #[arg(long, value_name = "FILE", requires = "url")]
    pub ca: Option<PathBuf>,

    /// Trust any https certificate: for a test of one's own server only.
    #[arg(long, requires = "url", conflicts_with = "ca")]
    pub insecure: bool,

    /// A header for every request, as in 'Authorization: Bearer KEY'; may be given several times.
    #[arg(long, value_name = "NAME: VALUE", requires = "url", value_parser = client::header)]
    pub header: Vec<(String, String)>,

    /// Print the steps as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs all steps and prints them.
pub async fn smoke(Smoke { url, ca, insecure, header, json }: Smoke) -> Result<(), Failure> {
    let trust = match (ca, insecure) {
        (Some(file), _) => Trust::File(file),
        (None, true) => Trust::Anybody,
        (None, false) => Trust::Usual,
    };
    if let Some(target) = &url
        && !target.is_secure()
        && trust != Trust::Usual
    {
        return Err(Failure::usage("--ca and --insecure are for https: the URL begins with http"));
    }
    let (server, target) = match url {
        Some(target) => (None, target),
        None => {
            let server = Server::start().await?;
            let target = server.target.clone();
            (Some(server), target)
        }
    };
    let mut report = Report::new(target.to_string(), server.is_some());
    let client = Client::new(target, &trust, header).map_err(|error| Failure::usage(error.to_string()))?;
    steps::all(&client, &mut report).await;
    if let Some(server) = server {
        report.add("the demo server ends", server.stop().await);
    }
    report.print(json)
}
