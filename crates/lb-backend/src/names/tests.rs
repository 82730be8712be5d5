//! A resolver that says what an attacker wants, against listeners that tell whether anybody came.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use lb_exchange::{Bounds, Tasks};
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::*;
use crate::http::{Endpoint, SendError};

const GOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const BAD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Gives one answer after the other, and the last one for ever.
struct Turns {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Turns {
    fn new(answers: &[&[Ipv4Addr]]) -> Arc<Self> {
        let answers = answers.iter().map(|answer| answer.iter().copied().map(IpAddr::from).collect());
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: AtomicUsize::new(0) })
    }
}

impl Lookup for Turns {
    fn lookup<'a>(&'a self, _host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock();
        let answer = if answers.len() == 1 { answers[0].clone() } else { answers.pop_front().unwrap() };
        Box::pin(async move { Ok(answer.into_iter().map(|address| SocketAddr::new(address, port)).collect()) })
    }
}

/// Somebody at the same port of both addresses.
async fn both() -> (TcpListener, TcpListener, u16) {
    loop {
        let good = TcpListener::bind((GOOD, 0)).await.unwrap();
        let port = good.local_addr().unwrap().port();
        if let Ok(bad) = TcpListener::bind((BAD, port)).await {
            return (good, bad, port);
        }
    }
}

/// Whether somebody has come: who connects over loopback is there when the connection is.
async fn was_visited(listener: &TcpListener) -> bool {
    let mut accepting = Box::pin(listener.accept());
    for _ in 0..50 {
        let look = std::future::poll_fn(|cx| std::task::Poll::Ready(accepting.as_mut().poll(cx).is_ready()));
        if look.await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test]
async fn of_several_addresses_only_those_are_connected_to_that_may_be() {
    let is_good = |address: IpAddr| address == GOOD;
    for answer in [&[BAD, GOOD][..], &[GOOD, BAD], &[BAD, BAD, GOOD]] {
        let (good, bad, port) = both().await;
        let turns = Turns::new(&[answer]);
        let stream = Names::by(turns.clone()).connect("both.test", port, is_good).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), SocketAddr::from((GOOD, port)), "{answer:?}");
        assert!(was_visited(&good).await && !was_visited(&bad).await, "{answer:?}");
        assert_eq!(turns.asked.load(Ordering::Relaxed), 1, "what is connected to was not looked up again");
    }
}

/// The one that may be connected to is away: the other is no way out.
#[tokio::test]
async fn an_address_that_may_not_be_connected_to_stands_in_for_no_other() {
    let (good, bad, port) = both().await;
    drop(good);
    let names = Names::by(Turns::new(&[&[GOOD, BAD]]));
    let refused = names.connect("both.test", port, |address| address == GOOD).await;
    assert!(matches!(refused, Err(NoWay::Failed(_))), "{refused:?}");
    assert!(!was_visited(&bad).await);
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_looked_at_each_time() {
    let (good, bad, port) = both().await;
    let names = Names::by(Turns::new(&[&[GOOD], &[BAD]]));
    let is_good = |address: IpAddr| address == GOOD;
    names.connect("rebind.test", port, is_good).await.unwrap();
    assert!(was_visited(&good).await);
    let refused = names.connect("rebind.test", port, is_good).await;
    assert!(matches!(refused, Err(NoWay::Forbidden)), "{refused:?}");
    assert!(!was_visited(&bad).await && !was_visited(&good).await);
}

/// Whoever looked first saw a public address; a server's endpoint finds our own, whatever it is asked with.
#[tokio::test]
async fn an_endpoint_follows_no_name_to_an_address_that_is_out_of_bounds() {
    const PUBLIC: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
    const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
    for (bounds, then) in [(Bounds::Public, &[GOOD][..]), (Bounds::Public, &[GOOD, BAD]), (Bounds::Near, &[METADATA])] {
        let (good, bad, port) = both().await;
        let names = Names::by(Turns::new(&[&[PUBLIC], then]));
        let first = names.find("rebind.test", port).await.unwrap();
        assert!(first.iter().all(|address| bounds.allow(address.ip())), "it passes a check made before");
        let url = format!("http://rebind.test:{port}/mcp");
        let endpoint = Endpoint::new("it", &url, &[], Tasks::default()).unwrap().within(bounds).named_by(names);
        let endpoint = Arc::new(endpoint);
        let request = endpoint.post(endpoint.headers().clone(), bytes::Bytes::from_static(b"{}"));
        let refused = endpoint.send(request).await;
        let Err(SendError::Unreachable(why)) = refused else { panic!("{then:?}: it was sent") };
        assert!(why.to_string().contains(bounds.why_not()), "{then:?}: {why}");
        assert!(!was_visited(&good).await && !was_visited(&bad).await, "{then:?}");
    }
}
