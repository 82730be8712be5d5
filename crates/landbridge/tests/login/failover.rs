//! A replica takes the place of the store without having heard the last words: no login that was ended comes back, and
//! none goes on in two ways.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use lb_peers::idp::Decision;
use lb_peers::valkey::{Name, Valkey};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::cluster::node;
use crate::nodes::balance;
use crate::world::{Tokens, form_to, get, login, parameter, provider, redeem, register, tokens};

/// How long something may take on a machine that is busy. Five seconds are promised.
const PATIENCE: Duration = Duration::from_secs(40);

async fn signed_in(url: &str, at: SocketAddr, user: &str) -> Tokens {
    by_client(url, at, &register(at).await, user).await
}

async fn by_client(url: &str, at: SocketAddr, client: &str, user: &str) -> Tokens {
    let stopped = login(url, client, "mcp:call", user, Decision::Approve).await;
    let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{:?} {:?}", stopped.page, stopped.trace));
    redeem(at, client, &code).await
}

async fn refresh(at: SocketAddr, client: &str, token: &str) -> (u16, Value) {
    let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
    form_to(at, "/token", &form).await
}

/// What a token gets there: 401 for one that is no good, 503 while nobody can know.
async fn status(at: SocketAddr, token: &str) -> u16 {
    let answer = get(at, "/mcp", &[("Authorization", &format!("Bearer {token}"))]).await;
    if answer.head.status() == 401 {
        let challenge = answer.head.header("www-authenticate").unwrap_or_default();
        assert!(challenge.contains("error=\"invalid_token\""), "it is said what to do: {challenge}");
    }
    answer.head.status()
}

/// Whether a token is good there, once that can be known.
async fn is_good(at: SocketAddr, token: &str) -> bool {
    let began = Instant::now();
    loop {
        match status(at, token).await {
            503 => assert!(began.elapsed() < PATIENCE, "the new store is found"),
            status => {
                assert_ne!(status, 429, "nobody is let wait here");
                return status != 401;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a token is good nowhere, and sees that it stays so.
async fn dies(nodes: [SocketAddr; 2], token: &str, whose: &str) -> Duration {
    let began = Instant::now();
    while is_good(nodes[0], token).await || is_good(nodes[1], token).await {
        assert!(began.elapsed() < PATIENCE, "that of {whose} lives on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

/// A refresh that must come to nothing.
async fn refused(at: SocketAddr, client: &str, token: &str, what: &str) {
    let began = Instant::now();
    let (status, told) = loop {
        match refresh(at, client, token).await {
            (503, told) => assert!(began.elapsed() < PATIENCE, "the new store is found: {told}"),
            answer => break answer,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((status, &told["error"]), (400, &json!("invalid_grant")), "{what}: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_revoked_stays_so_and_no_login_forks_when_a_replica_that_missed_the_end_takes_over() {
    let (mut old, new) = (Valkey::start(), Valkey::start());
    new.command(&["REPLICAOF", "127.0.0.1", &old.port.to_string()]);
    let began = Instant::now();
    while !new.command(&["INFO", "replication"]).contains("master_link_status:up") {
        assert!(began.elapsed() < PATIENCE, "the replica follows");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let name = Name::of(old.port).await;
    let balancer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let url = format!("http://{}", balancer.local_addr().expect("its address"));
    let idp = provider(&[&url]).await;
    // Whoever asks again and again with what is no good is not to be let wait.
    let unlimited = ["--rate-limit-max", "0"];
    let (one, two) = (node(&name.url(), &url, &idp, &unlimited).await, node(&name.url(), &url, &idp, &unlimited).await);
    let nodes = [one.address, two.address];
    balance(balancer, nodes);
    let alice = signed_in(&url, nodes[0], "alice").await;
    let bob = signed_in(&url, nodes[0], "bob").await;
    let carol = signed_in(&url, nodes[0], "carol").await;
    let dan = signed_in(&url, nodes[0], "dan").await;
    let fred = signed_in(&url, nodes[0], "fred").await;
    old.command(&["WAIT", "1", "5000"]);

    // From here on the replica hears nothing.
    new.command(&["REPLICAOF", "127.0.0.1", "1"]);
    for one in [&bob, &fred] {
        let (status, _) = form_to(nodes[0], "/revoke", &[("token", &one.refresh), ("client_id", &one.client)]).await;
        assert_eq!(status, 200);
    }
    dies(nodes, &bob.access, "bob").await;
    let goes_on = async |had: &Tokens| {
        let (status, told) = refresh(nodes[0], &had.client, &had.refresh).await;
        assert_eq!(status, 200, "{told}");
        tokens(&had.client, &told)
    };
    let (carols, dans) = (goes_on(&carol).await, goes_on(&dan).await);
    let erin = by_client(&url, nodes[0], &alice.client, "erin").await;
    for at in nodes {
        assert!(is_good(at, &carols.access).await && is_good(at, &erin.access).await);
    }

    new.command(&["REPLICAOF", "NO", "ONE"]);
    old.kill9();
    name.moves_to(new.port);
    // A node that has ended it, or has seen that it is over, never says otherwise.
    for at in nodes {
        assert!(!is_good(at, &bob.access).await, "it is over");
        refused(at, &bob.client, &bob.refresh, "revoked").await;
        assert!(is_good(at, &alice.access).await, "what the replica has heard of goes on");
    }
    // One that was never asked hears of it from the one that ended it.
    assert!(!is_good(nodes[0], &fred.access).await, "it was ended here");
    eprintln!("what was revoked is good nowhere after {:?}", dies(nodes, &fred.access, "fred").await);
    for at in nodes {
        refused(at, &fred.client, &fred.refresh, "revoked").await;
        assert!(!is_good(at, &fred.access).await && !is_good(at, &bob.access).await, "what is over stays so");
    }
    // The replica has never heard of this one: a login is wanted, and said so.
    eprintln!("what the replica never heard of is over after {:?}", dies(nodes, &erin.access, "erin").await);
    refused(nodes[1], &erin.client, &erin.refresh, "unheard").await;
    // A client that goes on with what was lost has to log in again, and so has whoever holds what it had before.
    refused(nodes[1], &carol.client, &carols.refresh, "lost").await;
    for token in [&carol.access, &carols.access] {
        dies(nodes, token, "carol").await;
    }
    for at in nodes {
        refused(at, &carol.client, &carol.refresh, "spent").await;
    }
    // A token that was spent before counts again for who knows no better, and for one of both only.
    let (status, told) = refresh(nodes[1], &dan.client, &dan.refresh).await;
    if status == 200 {
        let branch = tokens(&dan.client, &told);
        eprintln!(
            "a lost refresh was made anew, and the lost token is good nowhere after {:?}",
            dies(nodes, &dans.access, "dan, lost").await
        );
        refused(nodes[0], &dan.client, &dans.refresh, "the other branch").await;
        dies(nodes, &branch.access, "dan, made anew").await;
        refused(nodes[1], &dan.client, &branch.refresh, "the family is over").await;
    }
    for token in [&dan.access, &dans.access] {
        dies(nodes, token, "dan").await;
    }
    for at in nodes {
        for token in [&dan.refresh, &dans.refresh] {
            refused(at, &dan.client, token, "nothing is left of it").await;
        }
    }
    // And nobody else has noticed.
    let next = goes_on(&alice).await;
    for at in nodes {
        assert!(is_good(at, &next.access).await);
    }
}
