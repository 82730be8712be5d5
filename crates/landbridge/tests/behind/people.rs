//! People who log in at the gateway, and each of them at the server behind it.

use std::process::Stdio;

use lb_peers::harness::Gateway;
use lb_peers::idp::{Browser, Decision};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{self, ALLOW, Client, World};
use crate::{LANDBRIDGE, config, open, row};

/// Two gateways with one provider: the second one is behind the first.
async fn worlds() -> (World, Gateway) {
    let addresses = [(); 2].map(|()| format!("127.0.0.1:{}", world::free_port()));
    let urls = addresses.clone().map(|address| format!("http://{address}"));
    let idp = world::provider(&[&urls[0], &urls[1]]).await;
    let (mut team, folder) = world::serve(ALLOW);
    world::with_provider(&mut team, &urls[1], &idp);
    team.args(["--listen", &addresses[1]]);
    let team = Gateway::launch(team, folder).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (file, settings) = (folder.path().join("mcp.json"), folder.path().join("landbridge.toml"));
    std::fs::write(&file, config(&urls[1])).expect("written");
    std::fs::write(&settings, ALLOW).expect("written");
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", &addresses[0], "--settings"]).arg(&settings).arg("--config").arg(&file);
    world::with_provider(&mut command, &urls[0], &idp);
    command.stdin(Stdio::null());
    let gateway = Gateway::launch(command, folder).await;
    (World::new(gateway, urls[0].clone(), idp), team)
}

async fn servers(session: &Client) -> Value {
    let answer = session.call("list_servers", json!({})).await;
    let all: Value = serde_json::from_str(&answer.text()).expect("JSON");
    all["result"]["structuredContent"].clone()
}

#[tokio::test]
async fn a_link_is_good_for_the_person_it_was_given_to() {
    let (gateway, _team) = worlds().await;
    let alice = gateway.tokens("alice", "mcp:read mcp:call").await;
    let session = Client::begin(gateway.at(), &alice.access).await;
    let call = json!({ "server": "team", "tool": "test_simple_text", "args": {} });
    session.call("execute_tool", call.clone()).await;
    let waiting = servers(&session).await;
    let link = row(&waiting)["loginUrl"].as_str().unwrap_or_else(|| panic!("{waiting}")).to_owned();
    assert!(link.starts_with(&format!("{}/oauth/backend/start?id=", gateway.url)), "{link}");
    let stranger = open(&mut Browser::default(), &link, "bob", Decision::Approve).await;
    assert_eq!(stranger.page.as_ref().map(|(status, _)| *status), Some(403), "{stranger:?}");
    assert_eq!(row(&servers(&session).await)["status"], "login_needed", "nothing came of it");
    let own = open(&mut Browser::default(), &link, "alice", Decision::Approve).await;
    assert_eq!(own.page.as_ref().map(|(status, _)| *status), Some(200), "{own:?} {}", gateway.gateway.said());
    let works = session.call("execute_tool", call.clone()).await.text();
    assert!(works.contains("plain text"), "{works} {}", gateway.gateway.said());
    // Somebody else has no part in it.
    let bob = gateway.tokens("bob", "mcp:read mcp:call").await;
    let session = Client::begin(gateway.at(), &bob.access).await;
    session.call("execute_tool", call).await;
    assert_eq!(row(&servers(&session).await)["status"], "login_needed");
}
