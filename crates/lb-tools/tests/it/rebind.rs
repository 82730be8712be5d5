//! A server whose name has a public address when it is added, and one of ours when it is connected to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lb_backend::{Lookup, Names};
use lb_exchange::BoxFuture;
use lb_gateway::{Policy, Setup};
use lb_tools::Tools;
use serde_json::json;
use tokio::net::TcpListener;

use crate::client::Client;
use crate::world::{Plan, World};

/// Says the first at first, and the others from then on.
struct Rebinding {
    first: Vec<Ipv4Addr>,
    then: Vec<Ipv4Addr>,
    asked: AtomicUsize,
}

impl Lookup for Rebinding {
    fn lookup<'a>(&'a self, _host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        let answer = if self.asked.fetch_add(1, Ordering::Relaxed) == 0 { &self.first } else { &self.then };
        let answer = answer.iter().map(|address| SocketAddr::new(IpAddr::V4(*address), port)).collect();
        Box::pin(async move { Ok(answer) })
    }
}

/// Who comes from afar adds a server by a name; gives whether that was refused, and how often the name was looked up.
async fn added(first: &[Ipv4Addr], then: &[Ipv4Addr]) -> (bool, usize) {
    let ours = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = ours.local_addr().expect("its address").port();
    let lookup = Arc::new(Rebinding { first: first.to_vec(), then: then.to_vec(), asked: AtomicUsize::new(0) });
    let policy = Policy { from_afar: true, ..Policy::default() };
    let setup = Setup { tools: Some(Arc::new(Tools::default())), policy, ..Setup::default() };
    let world = World::planned(Plan { setup, names: Names::by(lookup.clone()), alone: true, ..Plan::default() });
    let client = Client::new(&world.front).await;
    let url = format!("https://rebind.test:{port}/mcp");
    let reply = client.call("add_server", json!({ "name": "far", "url": url })).await;
    let refused = reply.code() == "FORBIDDEN";
    // Refused by the first look, or by the one of whoever connects: in the same words.
    assert!(reply.is_error() && reply.response.to_string().contains("is no public address"), "{reply:?}");
    client.call("list_tools", json!({ "server": "^far$" })).await;
    let visit = tokio::time::timeout(Duration::from_millis(50), ours.accept()).await;
    assert!(visit.is_err(), "nobody may come to us by way of that name");
    (refused, lookup.asked.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_name_that_becomes_one_of_our_addresses_leads_nobody_to_us() {
    const PUBLIC: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
    const OURS: Ipv4Addr = Ipv4Addr::LOCALHOST;
    let (refused, asked) = added(&[PUBLIC], &[OURS]).await;
    assert!(!refused && 2 <= asked, "it was public when it was added, and was looked at again: {asked}");
    assert!(added(&[PUBLIC, OURS], &[OURS]).await.0, "one of its addresses is ours");
    assert!(added(&[OURS, PUBLIC], &[OURS]).await.0, "one of its addresses is ours");
}
