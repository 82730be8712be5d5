//! `landbridge smoke`: walks through one session with a server over HTTP, and says what held and what did not.
//!
//! Without a URL it starts a demo server of its own, and ends it whatever happens.

mod client;
mod report;
mod server;
mod steps;

use clap::Args;

use self::client::{Client, Target};
use self::report::Report;
use self::server::Server;
use crate::run::Failure;

/// `landbridge smoke`
#[derive(Debug, Args)]
pub struct Smoke {
    /// Where the server is, as in http://127.0.0.1:8080/mcp; without it, a demo server is started for the test.
    #[arg(value_name = "URL", value_parser = Target::parse)]
    pub url: Option<Target>,

    /// Print the steps as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs all steps and prints them.
pub async fn smoke(Smoke { url, json }: Smoke) -> Result<(), Failure> {
    let (server, target) = match url {
        Some(target) => (None, target),
        None => {
            let server = Server::start().await?;
            let target = server.target.clone();
            (Some(server), target)
        }
    };
    let mut report = Report::new(target.to_string(), server.is_some());
    steps::all(&Client::new(target), &mut report).await;
    if let Some(server) = server {
        report.add("the demo server ends", server.stop().await);
    }
    report.print(json)
}
