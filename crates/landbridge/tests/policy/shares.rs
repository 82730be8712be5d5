//! What one of several may have of what there is.

use lb_peers::harness::HttpPeer;
use lb_peers::raw::http::post_headers;
use serde_json::{Value, json};

use crate::keyed::{Keyed, page, result, server, tool};
use crate::world::{Client, send};

/// Begins a session, and says with which status.
async fn begin(at: std::net::SocketAddr, key: &str, path: &str) -> (u16, String) {
    let mut headers = post_headers();
    headers.push(("Authorization".into(), format!("Bearer {key}")));
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let answer = send(at, "POST", path, &headers, asked.to_string().as_bytes()).await;
    (answer.head.status(), answer.text())
}

#[tokio::test]
async fn nobody_has_more_than_a_hundred_sessions_or_eight_processes() {
    let mut keyed = Keyed::new(server(&[]), "", &["mcp:read mcp:call", "mcp:read mcp:call"]).await;
    // They come faster than one after the other would.
    keyed.command.args(["--rate-limit-principal", "0"]);
    let (gateway, keys) = keyed.start().await;
    let at = gateway.address;
    // Each of these has a process of its own.
    for number in 0..8 {
        let (status, text) = begin(at, &keys[0], "/mcp/server/it").await;
        assert_eq!(status, 200, "process {number}: {text}");
    }
    let busy = Client::begin(at, &keys[0]).await;
    // The idle ones make room for those of the same principal, and only for those.
    let other = Client::begin_at(at, &keys[1], "/mcp/server/it").await;
    assert_eq!(result(&other.call("plain", json!({})).await)["content"][0]["text"], "plained");
    let metrics = page(&gateway, "/metrics").await.text();
    let children = metrics.lines().find(|line| line.starts_with("landbridge_children{")).unwrap_or_default();
    let count: u32 = children.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(99);
    assert!(count <= 9, "{children}");
    drop(busy);
    let mut refused = None;
    for number in 9..=100 {
        let (status, text) = begin(at, &keys[0], "/mcp").await;
        if status != 200 {
            refused = Some((number, status, text));
            break;
        }
    }
    let (number, status, text) = refused.expect("the last one is too many");
    assert_eq!((number, status), (100, 503), "{text}");
    assert!(text.contains("100 sessions of yours"), "{text}");
    assert_eq!(begin(at, &keys[1], "/mcp").await.0, 200, "others are not concerned");
}

#[tokio::test]
async fn a_server_that_somebody_added_has_a_path_for_them_and_for_nobody_else() {
    let keyed = Keyed::new(server(&[]), "", &["mcp:admin", "mcp:admin"]).await;
    let mut keyed = keyed;
    let words = format!("/usr/bin/env python3 {} *", crate::SERVER);
    keyed.command.args(["--allow-commands", &words]);
    let (gateway, keys) = keyed.start().await;
    let at = gateway.address;
    let client = Client::begin(at, &keys[0]).await;
    let args = json!(["python3", crate::SERVER, "mine"]);
    let added = tool(&client, "add_server", json!({ "name": "mine", "command": "/usr/bin/env", "args": args })).await;
    assert_ne!(added["isError"], true, "{added}");
    let (status, text) = begin(at, &keys[0], "/mcp/server/mine").await;
    assert_eq!(status, 200, "{text}");
    let (status, text) = begin(at, &keys[1], "/mcp/server/mine").await;
    assert_eq!(status, 404, "{text}");
    let (status, unknown) = begin(at, &keys[1], "/mcp/server/never").await;
    assert_eq!(status, 404, "{unknown}");
}

/// Two who add a server of the same name at the same time: one has it, the other is told so.
#[tokio::test]
async fn a_name_that_is_taken_while_a_server_is_tried_is_not_taken_away() {
    let mut keyed = Keyed::new(server(&[]), "", &["mcp:admin", "mcp:admin"]).await;
    let words = format!("/usr/bin/env python3 {} *", crate::SERVER);
    keyed.command.args(["--allow-commands", &words]);
    let (gateway, keys) = keyed.start().await;
    let clients = [Client::begin(gateway.address, &keys[0]).await, Client::begin(gateway.address, &keys[1]).await];
    for round in 0..5 {
        let add = |client: usize| {
            let args = json!(["python3", crate::SERVER, format!("of-{client}")]);
            let asked = json!({ "name": format!("both-{round}"), "command": "/usr/bin/env", "args": args });
            tool(&clients[client], "add_server", asked)
        };
        let (one, other): (Value, Value) = tokio::join!(add(0), add(1));
        let has: Vec<usize> =
            [&one, &other].iter().enumerate().filter(|(_, it)| it["isError"] != true).map(|(at, _)| at).collect();
        assert_eq!(has.len(), 1, "exactly one has it: {one} {other}");
        let name = format!("both-{round}");
        for (at, client) in clients.iter().enumerate() {
            let servers = tool(client, "list_servers", json!({})).await.to_string();
            assert_eq!(servers.contains(&name), at == has[0], "{servers}");
        }
    }
}

/// Keeps the harness honest: a server over HTTP takes nobody's share.
#[tokio::test]
async fn servers_over_http_take_no_share_of_processes() {
    let peer = HttpPeer::start(&lb_peers::harness::peer(crate::LANDBRIDGE, "fixture"), &[]).await;
    let keyed = Keyed::new(json!({ "url": peer.url() }), "", &["mcp:read mcp:call"]).await;
    let (gateway, keys) = keyed.start().await;
    for number in 0..12 {
        let (status, text) = begin(gateway.address, &keys[0], "/mcp/server/it").await;
        assert_eq!(status, 200, "session {number}: {text}");
    }
}
