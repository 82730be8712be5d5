//! What a client may add, and what is never shown of it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lb_peers::harness::Gateway;
use lb_peers::raw::http1::{Conn, response};
use lb_peers::raw::{RawHttp, endpoint};
use lb_peers::tools::{Settings, ToolClient};
use serde_json::json;
use tokio::task::JoinSet;

use crate::LANDBRIDGE;
use crate::desk::{Desk, FRONTS, Front};
use crate::world::{add, fixture_on_http, kill, script, with};

#[tokio::test]
async fn programs_cannot_be_added_over_http_without_the_flag() {
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({}), &[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let lives = folder.path().join("lives");
    for settings in [Settings::default(), Settings::modern()] {
        let client = ToolClient::http_as(&gateway, settings).await;
        let reply = client.call("add_server", add("s", &script(&json!({ "lives": lives })))).await;
        assert!(reply.is_error() && reply.code() == "FORBIDDEN", "{reply}");
        assert!(reply.text().contains("--allow-stdio-spawn"), "{reply}");
        assert!(!lives.exists(), "nothing was started");
        assert_eq!(client.call("list_servers", json!({})).await.json(), json!([]));
    }
}

#[tokio::test]
async fn programs_can_be_added_over_stdio_and_with_the_flag_over_http() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &script(&json!({})))).await;
        desk.works("s").await;
    }
}

#[tokio::test]
async fn addresses_of_the_machine_s_own_network_cannot_be_added() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        for url in [
            "http://169.254.169.254/mcp",
            "http://169.254.169.254:80/latest/meta-data/",
            "http://169.254.1.1/mcp",
            "http://169.254.170.2/mcp",
            "http://[fe80::1]/mcp",
            "http://[fd00:ec2::254]/mcp",
            "http://[::ffff:169.254.169.254]/mcp",
            "http://[::ffff:a9fe:a9fe]/mcp",
            "http://0xa9fea9fe/mcp",
            "http://2852039166/mcp",
            "http://0xa9.0xfe.0xa9.0xfe/mcp",
            "http://0251.0376.0251.0376/mcp",
            "http://169.254.43518/mcp",
            "http://[64:ff9b::a9fe:a9fe]/mcp",
            "http://metadata.google.internal/mcp",
            "http://metadata/mcp",
        ] {
            let reply = desk.call("add_server", json!({ "name": "m", "url": url })).await;
            assert!(reply.is_error() && reply.code() == "FORBIDDEN", "{front:?} {url}: {reply}");
        }
        assert_eq!(desk.ok("list_servers", json!({})).await.json(), json!([]), "{front:?}");
    }
}

#[tokio::test]
async fn urls_that_are_none_are_refused() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    for url in [
        "",
        "mcp",
        "/mcp",
        "file:///etc/passwd",
        "ftp://127.0.0.1/mcp",
        "http://",
        "javascript:alert(1)",
        "unix:/run/x",
    ] {
        let reply = desk.call("add_server", json!({ "name": "m", "url": url })).await;
        assert!(reply.is_error() && reply.text().starts_with("Failed to add server: "), "{url}: {reply}");
        assert_eq!(reply.code(), "INVALID_ARGUMENT", "{url}: {reply}");
    }
}

#[tokio::test]
async fn servers_on_loopback_can_be_added_over_http() {
    let remote = fixture_on_http("dual").await;
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        let host = if front.is_http() { "127.0.0.1" } else { "localhost" };
        let url = format!("http://{host}:{}/mcp", remote.address.port());
        desk.ok("add_server", json!({ "name": "far", "url": url })).await;
        desk.works("far").await;
    }
}

/// Everything the gateway shows to anybody.
async fn shown(desk: &mut Desk) -> String {
    let mut all = String::new();
    for (tool, arguments) in [
        ("list_servers", json!({})),
        ("get_server_status", json!({ "server": "near" })),
        ("get_server_status", json!({ "server": "far" })),
        ("list_tools", json!({})),
        ("list_tasks", json!({ "include_completed": true })),
        ("get_notifications", json!({})),
        ("get_logs", json!({ "clear": false })),
        ("await_activity", json!({ "timeout_ms": 100 })),
    ] {
        all += &desk.call(tool, arguments).await.message.to_string();
    }
    if let Some(gateway) = &desk.gateway {
        for path in ["/", "/health", "/sessions", "/waterfall", "/waterfall/json", "/metrics"] {
            let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
            all += &http.request("GET", path, &[], b"").await.expect("an answer").text();
        }
    }
    all + &desk.said() + &desk.told()
}

const SECRET: &str = "hunter2-secret";

/// Two servers with secrets live through all that can happen to them; everything that was shown meanwhile.
async fn life_with_secrets(front: Front, args: &[&str]) -> String {
    let remote = fixture_on_http("dual").await;
    let near = with(script(&json!({})), &json!({ "env": { "TOKEN": SECRET, "PLACE": SECRET } }));
    let headers = json!({ "Authorization": format!("Bearer {SECRET}"), "X-Place": SECRET });
    let far = json!({ "url": remote.url(), "headers": headers });
    let mut desk = Desk::open_with(front, json!({}), args).await;
    let mut all = String::new();
    for (name, entry) in [("near", &near), ("far", &far)] {
        all += &desk.ok("add_server", add(name, entry)).await.message.to_string();
    }
    assert_eq!(desk.text("near", "variable", json!({ "name": "PLACE" })).await, SECRET, "the server does get it");
    kill(desk.pid("near").await);
    desk.event("server_reconnected").await;
    assert_eq!(desk.text("near", "variable", json!({ "name": "TOKEN" })).await, SECRET, "also after a restart");
    // Only the servers themselves may repeat a secret, so what they said is left out from here on.
    let changed = with(near.clone(), &json!({ "env": { "TOKEN": SECRET, "MORE": SECRET } }));
    all += &desk.ok("add_server", add("near", &changed)).await.message.to_string();
    for entry in [
        with(far.clone(), &json!({ "url": format!("http://{}/mcp", crate::world::nowhere().await) })),
        with(far.clone(), &json!({ "url": "http://169.254.169.254/mcp" })),
        with(far.clone(), &json!({ "url": "nonsense" })),
        with(near.clone(), &json!({ "command": "/nonexistent/program" })),
        with(script(&json!({ "dies_at_hello": true })), &json!({ "env": { "TOKEN": SECRET } })),
        with(near.clone(), &json!({ "url": remote.url() })),
    ] {
        let reply = desk.call("add_server", add("bad", &entry)).await;
        assert!(reply.is_error(), "{reply}");
        all += &reply.message.to_string();
    }
    drop(remote);
    all += &desk.run("far", "echo", json!({ "message": "x" })).await.message.to_string();
    all += &shown(&mut desk).await;
    all += &desk.ok("remove_server", json!({ "name": "far" })).await.message.to_string();
    all + &shown(&mut desk).await
}

/// The surroundings of the first secret in a text.
fn leak(all: &str) -> Option<String> {
    let (before, after) = all.split_once(SECRET)?;
    let before: String = before.chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
    Some(before + SECRET + &after.chars().take(50).collect::<String>())
}

#[tokio::test]
async fn headers_and_environment_are_never_shown() {
    for front in FRONTS {
        let spawn: &[&str] = if front.is_http() { &["--allow-stdio-spawn"] } else { &[] };
        let args = [spawn, &["--log-level", "debug"]].concat();
        assert_eq!(leak(&life_with_secrets(front, &args).await), None, "{front:?}");
    }
}

#[tokio::test]
async fn headers_and_environment_are_not_recorded_with_other_arguments() {
    let args = ["--allow-stdio-spawn", "--record-args"];
    assert_eq!(leak(&life_with_secrets(Front::Http, &args).await), None);
}

/// A server that writes down the `X-Key` of each request and gives every one the same answer.
async fn answers_with(answer: Vec<u8>) -> (SocketAddr, Arc<Mutex<Vec<String>>>, JoinSet<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let keys = Arc::<Mutex<Vec<String>>>::default();
    let seen = keys.clone();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut conn = Conn::new(stream);
            while let Ok(Some((head, _))) = endpoint::read(&mut conn).await {
                seen.lock().expect("lock").push(head.header("x-key").unwrap_or_default().to_owned());
                if conn.write(&answer).await.is_err() {
                    break;
                }
            }
        }
    });
    (address, keys, serving)
}

#[tokio::test]
async fn a_header_reaches_the_server_and_no_error_message() {
    let (address, keys, _serving) = answers_with(response(500, &[], b"no")).await;
    let mut desk = Desk::open(Front::Http, json!({})).await;
    let entry = json!({ "name": "far", "url": format!("http://{address}/mcp"), "headers": { "X-Key": "open-sesame" } });
    let reply = desk.call("add_server", entry).await;
    assert!(reply.is_error() && !reply.message.to_string().contains("open-sesame"), "{reply}");
    let seen = keys.lock().expect("lock").clone();
    assert!(!seen.is_empty() && seen.iter().all(|key| key == "open-sesame"), "{seen:?}");
}

#[tokio::test]
async fn a_server_cannot_send_us_elsewhere() {
    for status in [301, 302, 303, 307, 308] {
        let (elsewhere, keys, _there) = answers_with(response(500, &[], b"no")).await;
        for target in [format!("http://{elsewhere}/mcp"), "http://169.254.169.254/mcp".to_owned()] {
            let (address, _, _here) = answers_with(response(status, &[("Location", &target)], b"")).await;
            let mut desk = Desk::open(Front::Http, json!({})).await;
            let headers = json!({ "X-Key": "open-sesame" });
            let entry = json!({ "name": "far", "url": format!("http://{address}/mcp"), "headers": headers });
            let start = std::time::Instant::now();
            let reply = desk.call("add_server", entry).await;
            assert!(reply.is_error() && start.elapsed().as_secs() < 10, "{status} to {target}: {reply}");
        }
        let seen = keys.lock().expect("lock").clone();
        assert!(seen.is_empty(), "{status}: headers went to another server: {seen:?}");
    }
}
