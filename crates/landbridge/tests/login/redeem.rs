//! Many at once at two nodes: a code is worth one answer, and a family does not fork.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::headers;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::world::{Client, REDIRECT, VERIFIER, form_to, get, tokens, value};

/// How nodes are told to believe what a balancer says of addresses: a client is limited by its own.
const BEHIND_A_PROXY: [&str; 2] = ["--trusted-proxies", "127.0.0.1"];

/// Sends the same form many times at once, to both nodes in turn, each from an address of its own.
async fn flood(cluster: &Cluster, times: usize, form: &[(&str, &str)]) -> Vec<(u16, Value)> {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let at = cluster.at();
    // All are connected before the first one speaks.
    let connections = join_all((0..times).map(|n| RawHttp::connect(at[n % 2]))).await;
    let asked = connections.into_iter().enumerate().map(async |(n, http)| {
        let kind = [("Content-Type", "application/x-www-form-urlencoded")];
        let from = format!("192.0.2.{n}");
        let with = headers(&[&kind[..], &[("X-Forwarded-For", &from)]].concat());
        let mut http = http.expect("it listens");
        http.patience = Duration::from_secs(45);
        let answer = http.request("POST", "/token", &with, body.as_bytes()).await.expect("an answer");
        (answer.head.status(), value(&answer))
    });
    join_all(asked).await
}

/// How long a token is still good at an address.
async fn until_dead(at: SocketAddr, token: &str) -> Duration {
    let (began, bearer) = (Instant::now(), format!("Bearer {token}"));
    while get(at, "/mcp", &[("Authorization", &bearer)]).await.head.status() != 401 {
        // Five seconds are promised; a machine that is busy has some more.
        assert!(began.elapsed() < Duration::from_secs(50), "it lives on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

#[tokio::test]
async fn of_a_hundred_redemptions_at_two_nodes_one_is_answered_and_what_it_got_dies() {
    let cluster = Cluster::start(&BEHIND_A_PROXY).await;
    let (client, code) = cluster.code("alice", "mcp:call").await;
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", &client),
        ("code", &code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    let answers = flood(&cluster, 100, &form).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|(status, _)| *status == 200);
    assert_eq!((won.len(), lost.len()), (1, 99), "{answers:?}");
    for (status, told) in lost {
        assert_eq!((*status, &told["error"]), (400, &json!("invalid_grant")), "{told}");
    }
    let won = tokens(&client, &won[0].1);
    for at in cluster.at() {
        eprintln!("dead at {at} after {:?}", until_dead(at, &won.access).await);
    }
    let refresh = [("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", &won.refresh)];
    for at in cluster.at() {
        let (status, told) = form_to(at, "/token", &refresh).await;
        assert_eq!((status, &told["error"]), (400, &json!("invalid_grant")), "{told}");
    }
}

#[tokio::test]
async fn fifty_refreshes_at_two_nodes_leave_one_family() {
    let cluster = Cluster::start(&BEHIND_A_PROXY).await;
    let got = cluster.tokens("alice", "mcp:call").await;
    let refresh = [("grant_type", "refresh_token"), ("client_id", &got.client), ("refresh_token", &got.refresh)];
    let answers = flood(&cluster, 50, &refresh).await;
    assert!(answers.iter().all(|answer| answer.0 == 200 && answer == &answers[0]), "one answer for all: {answers:?}");
    let next = tokens(&got.client, &answers[0].1);
    assert!(next.refresh != got.refresh && next.access != got.access);
    for at in cluster.at() {
        let session = Client::begin(at, &next.access).await;
        assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200);
    }
    // There is one branch: it goes on, and whoever comes with its root ends it at both nodes.
    let again = [("grant_type", "refresh_token"), ("client_id", &got.client), ("refresh_token", &next.refresh)];
    let (status, told) = form_to(cluster.at()[0], "/token", &again).await;
    assert_eq!(status, 200, "{told}");
    let last = tokens(&got.client, &told);
    let (status, told) = form_to(cluster.at()[1], "/token", &refresh).await;
    assert_eq!((status, &told["error"]), (400, &json!("invalid_grant")), "{told}");
    for at in cluster.at() {
        eprintln!("dead at {at} after {:?}", until_dead(at, &last.access).await);
    }
    let (status, told) = form_to(
        cluster.at()[0],
        "/token",
        &[("grant_type", "refresh_token"), ("client_id", &got.client), ("refresh_token", &last.refresh)],
    )
    .await;
    assert_eq!((status, &told["error"]), (400, &json!("invalid_grant")), "{told}");
}
