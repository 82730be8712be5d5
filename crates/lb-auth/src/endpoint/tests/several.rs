//! Several logins in one browser, and very many in all.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use serde_json::json;

use super::super::cookies::LOGINS_MAX;
use super::super::room;
use crate::testing::{Document, ISSUER, World, authorize, encoded, keys, settings};
use crate::{Auth, Ports};

/// Begins a login; returns its state and the nonce that the provider is asked for.
async fn begun(world: &World, client: &str) -> (String, String) {
    let state = world.agreed(client, &[]).await;
    (state, world.idp.nonce.lock().clone())
}

fn logins(world: &World) -> usize {
    world.cookies.lock().iter().filter(|(name, _)| name.starts_with("__Host-lb_tx_")).count()
}

#[tokio::test]
async fn logins_in_one_browser_do_not_disturb_one_another() {
    let world = World::new().await;
    let client = world.client().await;
    *world.idp.claims.lock() = json!({"sub": "root"});
    let first = begun(&world, &client).await;
    let second = begun(&world, &client).await;
    // An operator's browser, which is to show a page.
    let page = world.browse("GET", "/login?next=/sessions", &[], "").await;
    let third = (page.parameter("state").unwrap(), page.parameter("nonce").unwrap());
    assert_eq!(logins(&world), 3);
    for (state, nonce) in [first, second] {
        *world.idp.nonce.lock() = nonce;
        let seen = world.came_back(&state).await;
        let code = seen.parameter("code").unwrap_or_else(|| panic!("{} {}", seen.status, seen.text));
        assert_eq!(world.redeem(&client, &code, &[]).await.status, 200);
    }
    *world.idp.nonce.lock() = third.1;
    let seen = world.came_back(&third.0).await;
    assert!(seen.status == 200 && seen.text.contains("You are logged in"), "{}", seen.text);
    assert_eq!(logins(&world), 0, "each is over with its login");
}

#[tokio::test]
async fn a_browser_keeps_so_many_logins_and_the_first_gives_way() {
    let world = World::new().await;
    let client = world.client().await;
    let mut all = Vec::new();
    for _ in 0..=LOGINS_MAX {
        all.push(begun(&world, &client).await);
        assert!(logins(&world) <= LOGINS_MAX);
    }
    let first = all.remove(0);
    *world.idp.nonce.lock() = first.1;
    let seen = world.came_back(&first.0).await;
    assert!(seen.status == 400 && seen.text.contains("not one of this browser"), "{}", seen.text);
    for (state, nonce) in all {
        *world.idp.nonce.lock() = nonce;
        assert!(world.came_back(&state).await.parameter("code").is_some());
    }
    // What a browser sends is not written back unless it is a cookie of ours.
    let sent = (0..20).map(|n| format!("__Host-lb_tx_{n}evil=x")).collect::<Vec<_>>().join("; ");
    let seen = world.send("GET", "/login", &[("cookie", &sent)], "").await;
    assert_eq!(seen.headers.get_all("set-cookie").iter().count(), 1, "{:?}", seen.headers);
}

/// Asks for consent from an address of its own.
async fn asked(auth: &Auth, world: &World, client: &str, number: u32) -> (u16, String) {
    let from = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number / 20));
    let request = Request::get(authorize(client, &[])).body(Bytes::new()).unwrap();
    let answer = auth.handle(request, from, world.now()).await;
    let to = answer.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
    (answer.status().as_u16(), to.unwrap_or_else(|| String::from_utf8_lossy(answer.body()).into_owned()))
}

#[tokio::test]
async fn ten_thousand_logins_are_under_way_in_all_nodes_at_most() {
    let world = World::new().await;
    let client = world.client().await;
    let ports =
        Ports { store: world.store.clone(), documents: Arc::new(Document(json!({}))), provider: world.idp.clone() };
    let other = Auth::new(settings(), keys(), ports).unwrap();
    let nodes = [&*world.auth, &other];
    let most = u32::try_from(room::LOGINS_MAX).unwrap();
    let mut last = String::new();
    for number in 0..most {
        let (status, to) = asked(nodes[number as usize % 2], &world, &client, number).await;
        assert_eq!(status, 303, "{number}: {to}");
        last = to;
    }
    for (number, node) in (most..).step_by(20).zip(nodes) {
        let (status, page) = asked(node, &world, &client, number).await;
        assert!(status == 503 && page.contains("Too many logins are under way"), "{status} {page}");
    }
    let seen = world.get("/login").await;
    assert_eq!((seen.status, &seen.headers["retry-after"]), (503, &"60".parse().unwrap()));
    // Who has begun goes on: one that ends, in whichever way, leaves room for one more.
    let page = world.browse("GET", last.strip_prefix("https://gw.test").unwrap(), &[], "").await;
    assert_eq!(world.press(&page, "approve").await.status, 303, "to the provider");
    assert_eq!(asked(&other, &world, &client, most + 40).await.0, 503, "it is still under way");
    let state = world.cookies.lock().iter().find(|(name, _)| name.contains("lb_tx")).unwrap().1.clone();
    let denied = encoded(&[("error", "access_denied"), ("state", &state), ("iss", ISSUER)]);
    assert_eq!(world.browse("GET", &format!("/oauth/callback?{denied}"), &[], "").await.status, 303);
    assert_eq!(asked(&other, &world, &client, most + 60).await.0, 303, "there is room for one");
    assert_eq!(asked(&other, &world, &client, most + 80).await.0, 503, "and for no other");
    // And those that nobody goes on with are over by themselves.
    world.later(660);
    assert_eq!(asked(&other, &world, &client, most + 100).await.0, 303);
}
