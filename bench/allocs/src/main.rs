//! Counts what the gateway allocates for one warm call: the whole gateway in this process, over real sockets, with a
//! client that allocates nothing and the server elsewhere.
//!
//!     allocs CONFIG SERVER legacy|modern

mod client;
mod counting;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use lb_backend::{Children, Environment};
use lb_exchange::Tasks;
use lb_front::Front;
use lb_gateway::{Gateway, Setup};
use tokio::net::TcpListener;

use client::Client;
use counting::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Calls before the count, so that buffers have grown to what they need.
const WARM_UP: u64 = 500;
const CALLS: u64 = 2000;

fn main() -> ExitCode {
    if let Some(code) = lb_process::supervise_entry() {
        return code;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("allocs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [config, server, wire] = args.as_slice() else { bail!("usage: allocs CONFIG SERVER legacy|modern") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let tasks = Tasks::default();
    // The gateway starts tasks of its own.
    let _inside = runtime.enter();
    let gateway = gateway(config, &tasks)?;
    let front = Arc::new(Front::new(Arc::new(gateway.clone()), lb_front::Settings::default()));
    runtime.spawn(lb_http::serve(listener, front, lb_http::Settings::default(), tasks, std::future::pending()));
    let mut client = Client::open(address, &format!("/mcp/server/{server}"), wire == "modern")?;
    for _ in 0..WARM_UP {
        client.call()?;
    }
    let before = ALLOCATOR.so_far();
    for _ in 0..CALLS {
        client.call()?;
    }
    let after = ALLOCATOR.so_far();
    let per_call = |count: u64| count as f64 / CALLS as f64;
    let (allocations, bytes) = (per_call(after.0 - before.0), per_call(after.1 - before.1));
    println!(r#"{{"allocations":{allocations:.2},"bytes":{bytes:.0},"calls":{CALLS}}}"#);
    runtime.block_on(gateway.close());
    Ok(())
}

fn gateway(config: &str, tasks: &Tasks) -> Result<Gateway> {
    let loaded = lb_config::load(config.as_ref()).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    let environment = Environment {
        supervisor: lb_process::own_supervisor().context("this program's own file")?,
        embedded: Arc::default(),
        tasks: tasks.clone(),
        children: Children::new(lb_backend::CHILDREN_MAX),
        logins: None,
        names: lb_backend::Names::default(),
    };
    Gateway::new(loaded.servers, &environment, Setup::default())
        .map_err(|(name, error)| anyhow::anyhow!("{name}: {error}"))
}
