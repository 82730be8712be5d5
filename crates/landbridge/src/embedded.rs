//! Servers inside this process.

use std::collections::HashMap;
use std::sync::Arc;

use lb_backend::EmbeddedServers;
use lb_demo::Ended;
use lb_exchange::{ServerName, ServerSpec, Target, Tasks};

use crate::run::Failure;

/// Bytes that may wait in each direction between the gateway and an embedded server.
const STREAM_BYTES: usize = 256 << 10;
/// The demo as this whole process: when it crashes, so do we.
const ALONE: &str = "demo-alone";
/// Names one more tool of the demo.
const SAMPLE_VARIABLE: &str = "SAMPLE_TOOL_NAME";

/// The makers of all embedded servers.
pub fn servers(tasks: &Tasks) -> EmbeddedServers {
    // Whoever wants to serve it was told already why it cannot be made.
    let Ok(demo) = make() else { return EmbeddedServers::new() };
    let maker = |crashed: fn(u8)| {
        let (demo, tasks) = (demo.clone(), tasks.clone());
        move || {
            let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
            let demo = demo.clone();
            tasks.spawn(async move {
                if let Ended::Crashed(code) = demo.serve(theirs).await {
                    crashed(code);
                }
            });
            ours
        }
    };
    let within = maker(|code| tracing::warn!(code, "the demo server was told to crash; the gateway goes on"));
    let alone = maker(|code| std::process::exit(code.into()));
    HashMap::from([
        (lb_demo::NAME.to_owned(), Arc::new(within) as Arc<_>),
        (ALONE.to_owned(), Arc::new(alone) as Arc<_>),
    ])
}

/// The demo as the only server of a gateway that outlives its crashes.
pub fn demo() -> Result<Vec<ServerSpec>, Failure> {
    spec(lb_demo::NAME)
}

/// The demo as the only server of a process that ends with it.
pub fn demo_alone() -> Result<Vec<ServerSpec>, Failure> {
    spec(ALONE)
}

fn spec(target: &str) -> Result<Vec<ServerSpec>, Failure> {
    make()?;
    let name = ServerName::parse(lb_demo::NAME).map_err(|error| Failure::runtime(error.to_string()))?;
    Ok(vec![ServerSpec::new(name, Target::Embedded(target.to_owned()))])
}

fn make() -> Result<lb_demo::Server, Failure> {
    let sample = std::env::var(SAMPLE_VARIABLE).ok().filter(|name| !name.is_empty());
    lb_demo::Server::new(sample.as_deref()).map_err(|error| match sample {
        Some(_) => Failure::usage(format!("{error}: choose another {SAMPLE_VARIABLE}")),
        None => Failure::runtime(error.to_string()),
    })
}
