//! Clients whose id is the address of a document about them.

use std::sync::atomic::Ordering;

use lb_peers::idp::Decision;
use serde_json::json;

use crate::site::site;
use crate::world::{ALLOW, Client, World, authorize, get, parameter, redeem};

#[tokio::test]
async fn a_client_that_names_a_document_gets_in_where_its_network_is_allowed() {
    let site = site().await;
    let world = World::start(ALLOW, &site.args()).await;
    let stopped = world.login(&site.id, "mcp:read", "alice", Decision::Approve).await;
    let code = parameter(&stopped.url, "code")
        .unwrap_or_else(|| panic!("{:?} {:?} {}", stopped.page, stopped.trace, world.gateway.said()));
    let got = redeem(world.at(), &site.id, &code).await;
    let client = Client::begin(world.at(), &got.access).await;
    assert_eq!(client.call("list_servers", json!({})).await.head.status(), 200);
    assert_eq!(site.visits.load(Ordering::SeqCst), 1, "it is asked once");
}

#[tokio::test]
async fn nobody_makes_us_ask_a_network_of_our_own() {
    let site = site().await;
    let world = World::start(ALLOW, &["--outbound-ca", site.ca()]).await;
    let start = authorize(&world.url, &site.id, "mcp:read");
    let answer = get(world.at(), start.strip_prefix(&world.url).expect("ours"), &[]).await;
    assert_eq!((answer.head.status(), answer.head.header("location")), (400, None), "{}", answer.text());
    assert_eq!(site.visits.load(Ordering::SeqCst), 0);
}
