//! What is open ends with the login it was opened with: on every node, in both eras, and with a key that is taken away.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lb_peers::idp::Decision;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{modern_headers, modern_meta};
use lb_peers::valkey::Valkey;

use crate::nodes::node;
use crate::world::{ALLOW, Client, World, form_to, free_port, get, login, parameter, provider, redeem, register};

/// Five seconds are promised; a machine that runs many tests at once gets ten times as many.
const WITHIN: Duration = Duration::from_secs(50);

/// A modern client listens at a path.
pub async fn listens(at: SocketAddr, path: &str, token: &str) -> RawHttp {
    let mut http = RawHttp::connect(at).await.expect("it listens");
    let mut sent = modern_headers("subscriptions/listen", None);
    sent.push(("Authorization".into(), format!("Bearer {token}")));
    let meta = modern_meta("");
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{"notifications":{{}},"_meta":{meta}}}}}"#
    );
    http.send("POST", path, &sent, body.as_bytes()).await.expect("sent");
    assert_eq!(http.head().await.expect("a head").status(), 200, "{path}");
    http.patience = WITHIN;
    http
}

/// A legacy session has its stream open.
async fn streams(client: &Client) -> RawHttp {
    let mut http = RawHttp::connect(client.at).await.expect("it listens");
    http.send("GET", "/mcp", &client.headers(), b"").await.expect("sent");
    assert_eq!(http.head().await.expect("a head").status(), 200);
    http.patience = WITHIN;
    http
}

async fn is_open(http: &mut RawHttp) -> bool {
    http.patience = Duration::from_millis(200);
    let mut last = http.event().await;
    while let Ok(Some(_)) = last {
        last = http.event().await;
    }
    http.patience = WITHIN;
    last.is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

/// Reads to the end, within the patience of the connection.
async fn ends(http: &mut RawHttp, what: &str) {
    loop {
        match http.event().await {
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => {
                assert_ne!(error.kind(), std::io::ErrorKind::TimedOut, "{what} is open");
                return;
            }
        }
    }
}

#[tokio::test]
async fn everything_open_on_the_other_node_ends_with_the_login() {
    let store = Valkey::start();
    let store = format!("valkey://127.0.0.1:{}", store.port);
    let url = format!("http://127.0.0.1:{}", free_port());
    let idp = provider(&[&url]).await;
    let (one, two) = (node(&store, &url, &idp).await, node(&store, &url, &idp).await);
    let balancer = tokio::net::TcpListener::bind(url.strip_prefix("http://").expect("http")).await.expect("its port");
    crate::nodes::balance(balancer, [one.address, two.address]);
    let mut got = Vec::new();
    for user in ["alice", "bob"] {
        let client = register(one.address).await;
        let stopped = login(&url, &client, "mcp:call", user, Decision::Approve).await;
        let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{:?} {}", stopped.trace, one.said()));
        got.push(redeem(one.address, &client, &code).await);
    }
    let (alice, bob) = (&got[0], &got[1]);
    let session = Client::begin(two.address, &alice.access).await;
    let mut open = vec![
        ("a legacy stream", streams(&session).await),
        ("a listen", listens(two.address, "/mcp", &alice.access).await),
        ("a listen to a server", listens(two.address, "/mcp/server/it", &alice.access).await),
    ];
    let mut of_bob = listens(two.address, "/mcp", &bob.access).await;
    for (what, http) in &mut open {
        assert!(is_open(http).await, "{what}: {}", two.said());
    }
    let revoked = Instant::now();
    assert_eq!(
        form_to(one.address, "/revoke", &[("token", &alice.refresh), ("client_id", &alice.client)]).await.0,
        200
    );
    for (what, http) in &mut open {
        ends(http, what).await;
    }
    assert!(revoked.elapsed() < WITHIN, "{:?}", revoked.elapsed());
    assert!(is_open(&mut of_bob).await, "that of others goes on");
}

#[tokio::test]
async fn a_server_that_the_rules_keep_from_somebody_is_not_named_to_them() {
    let rules = format!("{ALLOW}[[auth.rules]]\nwho = {{ groups = [\"admins\"] }}\nservers = [\"*\"]\n");
    let world = World::start(&rules, &[]).await;
    for (user, want) in [("alice", false), ("carol", true)] {
        let got = world.tokens(user, "mcp:call").await;
        let bearer = format!("Bearer {}", got.access);
        let answer = get(world.at(), "/mcp/server/unknown", &[("Authorization", &bearer)]).await;
        assert_eq!(answer.head.status(), 404, "{}", answer.text());
        assert_eq!(answer.text().contains("\"it\""), want, "{user}: {}", answer.text());
    }
}
