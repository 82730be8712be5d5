//! Two nodes on one store: a login on either counts on both.

use std::net::{Ipv4Addr, SocketAddr};

use lb_peers::harness::Gateway;
use lb_peers::idp::{Decision, Idp};
use lb_peers::valkey::Valkey;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::world::{
    ALLOW, Client, form_to, login, parameter, provider, redeem, register, serve, tokens, value, with_provider,
};

pub async fn node(store: &str, url: &str, idp: &Idp) -> Gateway {
    let (mut command, folder) = serve(ALLOW);
    with_provider(&mut command, url, idp);
    command.args(["--listen", "127.0.0.1:0", "--store", store, "--node-listen", "127.0.0.1:0"]);
    command.env("LANDBRIDGE_KEY", "0123456789abcdef0123456789abcdef-login");
    Gateway::launch(command, folder).await
}

/// Gives each connection to the next node.
#[expect(clippy::disallowed_methods, reason = "a test's balancer ends with its runtime")]
pub fn balance(listener: TcpListener, nodes: [SocketAddr; 2]) {
    tokio::spawn(async move {
        let mut turn = nodes.into_iter().cycle();
        while let (Ok((mut client, _)), Some(node)) = (listener.accept().await, turn.next()) {
            tokio::spawn(async move {
                let mut node = TcpStream::connect(node).await.expect("it listens");
                // Whoever closes first ends both.
                tokio::io::copy_bidirectional(&mut client, &mut node).await.ok();
            });
        }
    });
}

#[tokio::test]
async fn a_login_at_one_node_counts_at_the_other() {
    let store = Valkey::start();
    let store = format!("valkey://127.0.0.1:{}", store.port);
    let balancer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let url = format!("http://{}", balancer.local_addr().expect("its address"));
    let idp = provider(&[&url]).await;
    let (one, two) = (node(&store, &url, &idp).await, node(&store, &url, &idp).await);
    // The pages of a login come from both in turn.
    balance(balancer, [one.address, two.address]);
    let client = register(two.address).await;
    let stopped = login(&url, &client, "mcp:read", "alice", Decision::Approve).await;
    let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{:?} {}", stopped.trace, one.said()));
    let got = redeem(two.address, &client, &code).await;

    let session = Client::begin(one.address, &got.access).await;
    let elsewhere = session.as_sent(two.address, &got.access);
    for _ in 0..4 {
        for client in [&session, &elsewhere] {
            let answer = client.call("list_servers", json!({})).await;
            assert_eq!(answer.head.status(), 200, "{} {} {}", answer.text(), one.said(), two.said());
        }
    }
    let refused = elsewhere.call("set_timer", json!({ "duration_ms": 1_000, "message": "x" })).await;
    assert_eq!(refused.head.status(), 403, "rights travel with the request: {}", refused.text());
    assert_eq!(value(&refused)["id"], 7);
    let inner = json!({ "server": "it", "tool": "echo", "args": { "message": "x" } });
    assert_eq!(elsewhere.call("execute_tool", inner).await.head.status(), 403);

    let refresh = [("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", &got.refresh)];
    let (status, told) = form_to(one.address, "/token", &refresh).await;
    assert_eq!(status, 200, "{told}");
    let next = tokens(&client, &told);
    let answer = session.as_sent(two.address, &next.access).call("list_servers", json!({})).await;
    assert_eq!(answer.head.status(), 200, "{}", answer.text());
    assert_eq!(session.as_sent(two.address, "").call("list_servers", json!({})).await.head.status(), 401);
    assert_eq!(form_to(one.address, "/revoke", &[("token", &next.refresh), ("client_id", &client)]).await.0, 200);
    let began = std::time::Instant::now();
    while session.as_sent(two.address, &next.access).call("list_servers", json!({})).await.head.status() != 401 {
        assert!(began.elapsed() < std::time::Duration::from_secs(50), "what was revoked at one is dead at the other");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
