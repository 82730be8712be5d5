//! A server that wants a login, behind a gateway that gives one. The server is a gateway of ours with people who log in at
//! a real provider, so that both halves meet.

#[path = "../login/world.rs"]
#[expect(dead_code, reason = "not all of what clients do is done here")]
mod world;

mod alone;
mod document;
mod guard;
#[path = "../login/hunt.rs"]
mod hunt;
mod keyring;
mod people;
#[path = "../login/search.rs"]
mod search;
mod secrets;
mod service;
mod shared;
mod tap;

use std::time::Duration;

use lb_peers::idp::{Browser, Decision, Stopped};
use serde_json::{Value, json};

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// How long a login may take on a machine that is busy.
const LOGIN_MAX: Duration = Duration::from_secs(40);

/// The config of a gateway in front of this server.
fn config(url: &str) -> String {
    json!({ "mcpServers": { "team": { "url": format!("{url}/mcp/server/it"), "auth": "user" } } }).to_string()
}

/// Opens a link and does what its pages ask for, until one leads nowhere.
async fn open(browser: &mut Browser, link: &str, user: &str, decision: Decision) -> Stopped {
    let login = browser.login(link, "nowhere:", user, decision);
    tokio::time::timeout(LOGIN_MAX, login).await.expect("a login ends").expect("it goes on")
}

/// The row of the server in an answer of `list_servers`.
fn row(servers: &Value) -> &Value {
    servers["servers"].as_array().and_then(|rows| rows.first()).unwrap_or_else(|| panic!("{servers}"))
}
