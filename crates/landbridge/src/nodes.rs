//! `landbridge nodes`: who shares the store, and how each is doing.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use lb_config::settings::{Settings, Store};
use lb_gateway::{Membership, NodeInfo};
use serde_json::Value;

use crate::flags::{self, Flags};
use crate::run::Failure;
use crate::state;

/// `landbridge nodes`
#[derive(Debug, Args)]
pub struct Nodes {
    /// Print JSON: an array of {id, url, version, startedAt, lastSeenMs, draining, sessions, streams, lagMs, store}.
    #[arg(long)]
    pub json: bool,

    /// The store.
    #[command(flatten)]
    pub flags: Flags<flags::Store>,
}

/// Prints the nodes that live.
pub async fn nodes(command: Nodes, settings: Settings) -> Result<(), Failure> {
    if !matches!(settings.state.store, Store::Shared { .. }) {
        let why = "nodes share a store on a server: give --store valkey://HOST:PORT, or the settings file that has it";
        return Err(Failure::usage(why));
    }
    let Some(opened) = state::open(&settings.state, false).await? else { return Ok(()) };
    let found = Membership::list(&*opened.store)
        .await
        .map_err(|error| Failure::runtime(format!("the store cannot be asked: {error}")))?;
    let there = Membership::count_all(&*opened.store).await.unwrap_or_default();
    if found.is_empty() && there != 0 {
        let why = "this command cannot read what they say: give it the key that they have, in LANDBRIDGE_KEY";
        return Err(Failure::runtime(format!("nodes use this store ({there}), and {why}")));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = if command.json { as_json(&found, now) } else { as_table(&found, now) };
    let printed = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
    printed.map_err(|error| Failure::runtime(format!("cannot print: {error}")))
}

fn as_json(nodes: &[NodeInfo], now: Duration) -> String {
    let rows: Vec<Value> =
        nodes.iter().filter_map(|node| serde_json::from_slice(node.view(now).bytes()).ok()).collect();
    Value::from(rows).to_string()
}

fn as_table(nodes: &[NodeInfo], now: Duration) -> String {
    if nodes.is_empty() {
        return "no node uses this store now".to_owned();
    }
    let mut text = format!(
        "{:<14} {:<28} {:<9} {:>8} {:>8} {:>9} {:>7} {:>8}  {}\n",
        "node", "url", "version", "sessions", "streams", "last seen", "lag", "store", "state"
    );
    for node in nodes {
        let store = if node.store.ok { format!("{} ms", node.store.rtt.as_millis()) } else { "away".to_owned() };
        text += &format!(
            "{:<14} {:<28} {:<9} {:>8} {:>8} {:>7.1} s {:>4} ms {:>8}  {}\n",
            node.id,
            node.url.as_deref().unwrap_or("none: --node-listen"),
            node.version,
            node.sessions,
            node.streams,
            now.saturating_sub(node.seen).as_secs_f64(),
            node.lag.as_millis(),
            store,
            if node.draining { "draining" } else { "serving" },
        );
    }
    text
}
