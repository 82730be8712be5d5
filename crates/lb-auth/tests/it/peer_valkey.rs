//! Two nodes with one store on a server.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use lb_auth::Refusal;
use lb_peers::idp::{Browser, Decision, Options};
use lb_peers::valkey::Valkey;
use lb_store::Store;

use crate::gateway::{World, parameter, redeem_at};

async fn node(server: &Valkey) -> Arc<dyn Store> {
    lb_store::open(&lb_store::Settings::parse(&server.url()).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_that_is_redeemed_on_two_nodes_at_once_is_good_once_and_a_store_that_is_away_is_told() {
    let mut server = tokio::task::spawn_blocking(Valkey::start).await.unwrap();
    let world = Arc::new(World::start(node(&server).await, Options::default()).await);
    let client = world.register().await;
    let stopped = world.login(&mut Browser::default(), &client, "mcp:call", "alice", Decision::Approve).await;
    let code = parameter(&stopped.url, "code").unwrap();
    let other = world.node(node(&server).await);
    let here = join_all((0..25).map(|_| world.redeem(&client, &code)));
    let there = join_all((0..25).map(|_| redeem_at(&other, &client, &code)));
    let (here, there) = tokio::join!(here, there);
    let answers = [here, there].concat();
    let won: Vec<_> = answers.iter().filter(|(status, _)| *status == 200).collect();
    assert_eq!(won.len(), 1);
    assert!(answers.iter().all(|(status, body)| *status == 200 || body["error"] == "invalid_grant"), "{answers:?}");
    let token = won[0].1["access_token"].as_str().unwrap();
    assert_eq!(world.check(token).await.unwrap_err(), Refusal::Invalid, "it was used twice");
    let stopped = world.login(&mut Browser::default(), &client, "mcp:call", "alice", Decision::Approve).await;
    let (_, tokens) = world.redeem(&client, &parameter(&stopped.url, "code").unwrap()).await;
    let token = tokens["access_token"].as_str().unwrap();
    world.check(token).await.unwrap();
    tokio::task::block_in_place(|| server.kill9());
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    let uri = "/mcp".parse().unwrap();
    let now = SystemTime::now();
    assert!(world.auth.check(&headers, &uri, now).await.is_ok(), "what was read a moment ago counts");
    let later = world.auth.check(&headers, &uri, now + Duration::from_secs(6)).await;
    assert_eq!(later.unwrap_err(), Refusal::StoreAway);
    let (status, body) = world.form("/revoke", &[("client_id", client.as_str()), ("token", token)]).await;
    assert_eq!((status, &body["error"]), (503, &"temporarily_unavailable".into()));
}
