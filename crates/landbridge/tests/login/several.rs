//! Several things at once: logins in one browser, and one name on two nodes.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lb_peers::harness::{Gateway, peer};
use lb_peers::idp::{Browser, Decision, Stopped};
use lb_peers::valkey::Valkey;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::policy::with_keys;
use crate::world::{ALLOW, Client, REDIRECT, World, authorize, parameter, redeem, register, value};

/// Goes on with a login until it would come to this address.
async fn goes_on(browser: &mut Browser, from: &str, stop_at: &str) -> Stopped {
    let login = browser.login(from, stop_at, "carol", Decision::Approve);
    tokio::time::timeout(Duration::from_secs(40), login).await.expect("it ends").expect("it goes on")
}

fn logins(browser: &Browser) -> usize {
    browser.cookies().filter(|(name, _)| name.starts_with("lb_tx_")).count()
}

/// An editor opens a page for each of its servers, and whoever sits there comes back from all of them.
#[tokio::test]
async fn logins_in_one_browser_come_to_their_ends() {
    let world = World::start(ALLOW, &[]).await;
    let clients = [register(world.at()).await, register(world.at()).await];
    let mut browser = Browser::default();
    let callback = format!("{}/oauth/callback", world.url);
    let mut back = Vec::new();
    for client in &clients {
        let start = authorize(&world.url, client, "mcp:read");
        back.push(goes_on(&mut browser, &start, &callback).await.url);
    }
    let page = goes_on(&mut browser, &format!("{}/login?next=/sessions", world.url), &callback).await.url;
    assert_eq!(logins(&browser), 3);
    for (client, url) in clients.iter().zip(&back) {
        let stopped = goes_on(&mut browser, url.as_str(), REDIRECT).await;
        let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{stopped:?} {}", world.gateway.said()));
        let got = redeem(world.at(), client, &code).await;
        let session = Client::begin(world.at(), &got.access).await;
        assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200);
    }
    let shown = browser.open(&page, None).await.expect("a page");
    assert!(shown.head.status() == 200 && shown.text().contains("You are logged in"), "{}", shown.text());
    assert_eq!(logins(&browser), 0, "each cookie ends with its login");
}

/// What `add_server` said.
async fn adds(client: &Client, name: &str, command: &str) -> Value {
    let answer = client.call("add_server", json!({ "name": name, "command": command })).await;
    value(&answer)["result"].clone()
}

async fn has(client: &Client, name: &str) -> bool {
    client.call("list_servers", json!({})).await.text().contains(&format!("\\\"{name}\\\""))
}

/// Two administrators at two nodes who add a server of the same name at the same time: one has it, and the other is told.
#[tokio::test]
async fn a_name_that_is_added_at_two_nodes_at_once_is_one_persons() {
    let store = Valkey::start();
    let fixture = peer(LANDBRIDGE, "fixture");
    let toml = format!("allow_commands = [{fixture:?}]\n");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.txt");
    let args = ["--store", &store.url(), "--node-listen", "127.0.0.1:0"];
    let scopes = [("one", "mcp:admin"), ("two", "mcp:admin")];
    let (first, keys) = with_keys(&toml, &scopes, Some(&file), &args).await;
    let (second, _) = with_keys(&toml, &[], Some(&file), &args).await;
    let nodes: [&Gateway; 2] = [&first, &second];
    let clients = [Client::begin(first.address, &keys[0]).await, Client::begin(second.address, &keys[1]).await];
    for round in 0..4 {
        let name = format!("both-{round}");
        let told = join_all(clients.iter().map(|client| adds(client, &name, &fixture))).await;
        let said = || nodes.map(Gateway::said).concat();
        let got: Vec<usize> = (0..2).filter(|at| told[*at]["isError"] != true).collect();
        assert_eq!(got.len(), 1, "exactly one has it: {told:?} {}", said());
        assert!(told[1 - got[0]].to_string().contains("taken"), "{told:?}");
        // It is theirs at both nodes, and nobody else's, for good.
        let winner = &clients[got[0]];
        let began = Instant::now();
        for node in nodes {
            let there = Client::begin(node.address, &winner.token).await;
            while !has(&there, &name).await {
                assert!(began.elapsed() < Duration::from_secs(30), "{}", said());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let other = Client::begin(node.address, &clients[1 - got[0]].token).await;
            assert!(!has(&other, &name).await);
        }
    }
}
