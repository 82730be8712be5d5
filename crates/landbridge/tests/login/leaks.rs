//! What somebody sends to get in stays at the door: it is in no log, and no server sees it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::idp::CLIENT_SECRET;
use lb_peers::raw::http::{headers, modern_headers, modern_meta};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::LANDBRIDGE;
use crate::world::{ALLOW, Client, OPERATOR, World, form_to, get, provider, send, serve, tokens, value, with_provider};

/// Stands before a server, and keeps what is sent to it.
#[expect(clippy::disallowed_methods, reason = "a test's tap ends with its runtime")]
pub async fn tap(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (at, heard) = (listener.local_addr().expect("its address"), Arc::new(Mutex::new(Vec::new())));
    let kept = heard.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let kept = kept.clone();
            tokio::spawn(async move {
                let node = TcpStream::connect(server).await.expect("it listens");
                let ((mut from, mut back), (mut answers, mut to)) = (client.into_split(), node.into_split());
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut back).await.ok() });
                let mut piece = [0; 4_096];
                while let Ok(read @ 1..) = from.read(&mut piece).await {
                    kept.lock().expect("no panic holds it").extend_from_slice(&piece[..read]);
                    if to.write_all(&piece[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (at, heard)
}

#[tokio::test]
async fn no_server_sees_what_a_client_got_in_with_and_no_log_has_it() {
    let fixture = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
    let (tapped, heard) = tap(fixture.address).await;
    let address = format!("127.0.0.1:{}", crate::world::free_port());
    let url = format!("http://{address}");
    let idp = provider(&[&url]).await;
    let (mut command, folder) = serve(ALLOW);
    let web = json!({ "mcpServers": { "web": { "url": format!("http://{tapped}/mcp") } } });
    std::fs::write(folder.path().join("mcp.json"), web.to_string()).expect("written");
    let log = folder.path().join("log");
    with_provider(&mut command, &url, &idp);
    command.args(["--listen", &address, "--log-level", "trace", "--log-file"]).arg(&log);
    let world = World::new(Gateway::launch(command, folder).await, url, idp);
    let got = world.tokens("alice", "mcp:call").await;
    let client = Client::begin_at(world.at(), &got.access, "/mcp/server/web").await;
    let answer = client.call("echo", json!({ "message": "heard" })).await;
    assert!(answer.head.status() == 200 && answer.text().contains("heard"), "{}", answer.text());
    let tools = Client::begin(world.at(), &got.access).await;
    let inner = json!({ "server": "web", "tool": "echo", "args": { "message": "again" } });
    assert!(tools.call("execute_tool", inner).await.text().contains("again"));
    let refresh = [("grant_type", "refresh_token"), ("client_id", &got.client), ("refresh_token", &got.refresh)];
    let (status, told) = form_to(world.at(), "/token", &refresh).await;
    assert_eq!(status, 200, "{told}");
    let next = tokens(&got.client, &told);
    assert_eq!(form_to(world.at(), "/revoke", &[("token", &next.refresh), ("client_id", &got.client)]).await.0, 200);
    let operator = format!("Bearer {OPERATOR}");
    assert_eq!(get(world.at(), "/sessions", &[("Authorization", &operator)]).await.head.status(), 200);

    let heard = String::from_utf8_lossy(&heard.lock().expect("no panic holds it")).into_owned();
    assert!(heard.contains("again") && !heard.to_ascii_lowercase().contains("authorization:"), "{heard}");
    let logged = std::fs::read_to_string(log).expect("a log");
    assert!(logged.contains("/mcp/server/web"), "it is a log: {logged}");
    let said = world.gateway.said();
    for secret in [&got.access, &got.refresh, &next.access, &next.refresh, OPERATOR, CLIENT_SECRET] {
        for (place, text) in [("a server", &heard), ("the log", &logged), ("stderr", &said)] {
            assert!(!text.contains(secret), "{secret} is at {place}");
        }
    }
}

#[tokio::test]
async fn a_client_without_a_session_needs_its_token_with_every_request() {
    let world = World::start(ALLOW, &[]).await;
    let got = world.tokens("alice", "mcp:read").await;
    let call = |tool: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"{tool}","arguments":{{}},"_meta":{}}}}}"#,
            modern_meta("")
        )
    };
    for (tool, token, want) in [
        ("list_servers", Some(&got.access), 200),
        ("list_servers", None, 401),
        ("execute_tool", Some(&got.access), 403),
    ] {
        let mut all = modern_headers("tools/call", Some(tool));
        all.extend(token.iter().flat_map(|token| headers(&[("Authorization", &format!("Bearer {token}"))])));
        let answer = send(world.at(), "POST", "/mcp", &all, call(tool).as_bytes()).await;
        assert_eq!(answer.head.status(), want, "{tool}: {}", answer.text());
        if want == 403 {
            assert_eq!(value(&answer)["id"], "a");
            assert!(answer.head.header("www-authenticate").is_some_and(|told| told.contains("scope=\"mcp:call\"")));
        }
    }
}
