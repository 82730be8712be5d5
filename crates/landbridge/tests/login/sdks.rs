//! Clients of others, as their users have them: all they are given is a URL.
//!
//! Each is told who it is in both ways, by registering and by a document of its own, and each meets one node and two
//! nodes behind a balancer.

mod more;
mod python;
mod rust;

use std::process::Stdio;
use std::time::Duration;

use lb_peers::idp::{Browser, Decision};
use lb_peers::installed::{file, folder, node};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use url::Url;

use crate::cluster::Cluster;
use crate::site::{Site, site};
use crate::world::{ALLOW, REDIRECT, World, parameter};

/// How long each of their steps may take.
const STEP_MAX: Duration = Duration::from_secs(45);

/// Who is to get in.
#[derive(Clone, Copy, Debug)]
enum Sdk {
    TypeScript1,
    TypeScript2,
    Python,
    Rust,
}

/// Lets one in at an address: as a client that registers, and as one with a document.
async fn both_ways(sdk: Sdk, url: &str, site: &Site) {
    let url = format!("{url}/mcp");
    for document in [None, Some(site.id.as_str())] {
        eprintln!("{sdk:?} at {url} with {document:?}");
        let (mut command, more) = match sdk {
            Sdk::Rust => {
                rust::gets_in(&url, document).await;
                continue;
            }
            Sdk::TypeScript1 => (script(node(), "sdk.mjs"), vec!["1".into(), peer("typescript-v1")]),
            Sdk::TypeScript2 => (script(node(), "sdk.mjs"), vec!["2".into(), peer("typescript-v2")]),
            Sdk::Python => (script(file("python", "bin/python"), "sdk.py"), vec![]),
        };
        command.args(more).arg(&url).args(document);
        gets_in(command, document).await;
    }
}

fn script(program: String, name: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(format!("{}/tests/login/{name}", env!("CARGO_MANIFEST_DIR")));
    command
}

fn peer(name: &str) -> String {
    folder(name).to_string_lossy().into_owned()
}

/// Runs one from its start to what its call answered.
async fn gets_in(mut command: Command, document: Option<&str>) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut said = async || {
        let line = tokio::time::timeout(STEP_MAX, lines.next_line()).await.expect("in time").expect("text");
        serde_json::from_str::<Value>(&line.expect("it goes on")).expect("JSON")
    };
    let told = said().await;
    let start = told["authorize"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    let came = logged_in(&start, document, "alice").await;
    let mut to = child.stdin.take().expect("piped");
    to.write_all(format!("{came}\n").as_bytes()).await.expect("it listens");
    let told = said().await;
    assert!(told["tools"].as_u64().is_some_and(|tools| 20 < tools), "{told}");
    assert!(told["answer"].to_string().contains("it"), "{told}");
    assert_eq!(told["refreshed"], true, "{told}");
    let status = tokio::time::timeout(STEP_MAX, child.wait()).await.expect("in time").expect("it ends");
    assert!(status.success());
}

/// Somebody logs in where a client sends them, and comes out with a code.
async fn logged_in(start: &str, document: Option<&str>, user: &str) -> Url {
    let asks = Url::parse(start).expect("a URL");
    let client = parameter(&asks, "client_id").expect("it says who it is");
    match document {
        Some(document) => assert_eq!(client, document),
        None => assert!(client.starts_with("mcp_"), "{client}"),
    }
    // Some add offline_access, because we say that there are refresh tokens.
    for (name, want) in [("code_challenge_method", "S256"), ("scope", "mcp:read mcp:call"), ("response_type", "code")] {
        assert!(parameter(&asks, name).is_some_and(|said| said.starts_with(want)), "{name}: {start}");
    }
    assert!(parameter(&asks, "resource").is_some_and(|resource| resource.ends_with("/mcp")), "{start}");
    let mut browser = Browser::default();
    let login = browser.login(start, REDIRECT, user, Decision::Approve);
    let stopped = tokio::time::timeout(STEP_MAX, login).await.expect("a login ends").expect("it goes on");
    assert!(stopped.page.is_none(), "{:?} {:?}", stopped.page, stopped.trace);
    stopped.url
}

/// Lets these in at one node.
async fn at_one_node(sdks: &[Sdk]) {
    let site = site().await;
    let world = World::start(ALLOW, &site.args()).await;
    for sdk in sdks {
        both_ways(*sdk, &world.url, &site).await;
    }
}

/// Lets these in at two nodes, which answer in turn.
async fn at_two_nodes(sdks: &[Sdk]) {
    let site = site().await;
    let cluster = Cluster::start(&site.args()).await;
    for sdk in sdks {
        both_ways(*sdk, &cluster.url, &site).await;
    }
}

#[tokio::test]
async fn the_typescript_sdks_find_their_way_in() {
    at_one_node(&[Sdk::TypeScript1, Sdk::TypeScript2]).await;
}

#[tokio::test]
async fn the_python_sdk_finds_its_way_in() {
    at_one_node(&[Sdk::Python]).await;
}

#[tokio::test]
async fn the_rust_sdk_finds_its_way_in() {
    at_one_node(&[Sdk::Rust]).await;
}

#[tokio::test]
async fn the_typescript_sdks_find_their_way_in_at_two_nodes() {
    at_two_nodes(&[Sdk::TypeScript1, Sdk::TypeScript2]).await;
}

#[tokio::test]
async fn the_python_sdk_finds_its_way_in_at_two_nodes() {
    at_two_nodes(&[Sdk::Python]).await;
}

#[tokio::test]
async fn the_rust_sdk_finds_its_way_in_at_two_nodes() {
    at_two_nodes(&[Sdk::Rust]).await;
}
