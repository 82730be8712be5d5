//! What a token may do is decided before anything is done.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{headers, post_headers};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::LANDBRIDGE;
use crate::world::{ALLOW, Client, OPERATOR, World, get, send, serve, value};

/// How long a change of the rules may take to be heard of and to end something.
const WITHIN: Duration = Duration::from_secs(20);

/// A gateway with these keys, each with its scopes.
async fn keyed(toml: &str, scopes: &[(&str, &str)]) -> (Gateway, Vec<String>) {
    with_keys(toml, scopes, None, &[]).await
}

/// The same with further arguments. Those who have the same file have the same keys.
pub async fn with_keys(
    toml: &str,
    scopes: &[(&str, &str)],
    file: Option<&Path>,
    args: &[&str],
) -> (Gateway, Vec<String>) {
    let (mut command, folder) = serve(toml);
    let file = &file.map_or_else(|| folder.path().join("keys.txt"), Path::to_owned);
    let mut keys = Vec::new();
    for (id, scopes) in scopes {
        let mut new = Command::new(LANDBRIDGE);
        new.args(["auth", "key", "new", id, "--scope", scopes, "--file"]).arg(file).stdin(Stdio::null());
        let out = new.output().await.expect("it runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        keys.push(String::from_utf8_lossy(&out.stdout).trim().to_owned());
    }
    command.args(["--listen", "127.0.0.1:0", "--log-level", "trace", "--auth", "keys"]).arg(file).args(args);
    command.env("LANDBRIDGE_KEY", crate::cluster::KEY);
    (Gateway::launch(command, folder).await, keys)
}

#[tokio::test]
async fn a_token_that_may_only_read_is_told_what_it_lacks_before_anything_runs() {
    let world = World::start(ALLOW, &[]).await;
    let got = world.tokens("alice", "mcp:read").await;
    let client = Client::begin(world.at(), &got.access).await;
    assert_eq!(client.call("list_servers", json!({})).await.head.status(), 200);
    let refused = client.call("set_timer", json!({ "duration_ms": 60_000, "message": "x" })).await;
    assert_eq!(refused.head.status(), 403, "{}", refused.text());
    let told = value(&refused);
    assert_eq!((&told["id"], &told["error"]["data"]["scope"]), (&json!(7), &json!("mcp:call")));
    let challenge = refused.head.header("www-authenticate").expect("a challenge");
    for part in ["error=\"insufficient_scope\"", "scope=\"mcp:call\"", "resource_metadata=\""] {
        assert!(challenge.contains(part), "{part} is not in {challenge}");
    }
    let timers = client.call("list_timers", json!({})).await.text();
    assert!(!timers.contains("\\\"x\\\""), "nothing was set: {timers}");
    let admin = client.call("add_server", json!({ "name": "x", "url": "https://example.com/mcp" })).await;
    assert_eq!(admin.head.status(), 403);
    assert!(admin.head.header("www-authenticate").is_none(), "no scope would help");
    let by_itself = Client::begin_at(world.at(), &got.access, "/mcp/server/it").await;
    let refused = by_itself.call("echo", json!({ "message": "x" })).await;
    assert_eq!(refused.head.status(), 403, "{}", refused.text());
}

#[tokio::test]
async fn a_batch_stands_or_falls_as_a_whole() {
    let (gateway, keys) = keyed("", &[("reader", "mcp:read")]).await;
    let mut all = post_headers();
    all.push(("Authorization".into(), format!("Bearer {}", keys[0])));
    let params = json!({
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let answer = send(gateway.address, "POST", "/mcp", &all, begin.as_bytes()).await;
    let session = answer.head.header("mcp-session-id").expect("a session").to_owned();
    all.push(("Mcp-Session-Id".into(), session));
    let call = |id: u32, tool: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": { "duration_ms": 60_000, "message": "never" } } });
    let batch = json!([call(1, "list_timers"), call(2, "set_timer")]).to_string();
    let refused = send(gateway.address, "POST", "/mcp", &all, batch.as_bytes()).await;
    assert_eq!(refused.head.status(), 403, "{}", refused.text());
    assert!(value(&refused)["id"].is_null());
    let batch = json!([call(3, "list_timers")]).to_string();
    let timers = send(gateway.address, "POST", "/mcp", &all, batch.as_bytes()).await;
    assert!(timers.head.status() == 200 && !timers.text().contains("never"), "{}", timers.text());
}

#[tokio::test]
async fn a_token_for_one_server_opens_that_one() {
    let (gateway, keys) = keyed("", &[("one", "server:it"), ("other", "server:else")]).await;
    let at = gateway.address;
    let mine = Client::begin_at(at, &keys[0], "/mcp/server/it").await;
    let answer = mine.call("echo", json!({ "message": "heard" })).await;
    assert!(answer.head.status() == 200 && answer.text().contains("heard"), "{}", answer.text());
    let mut foreign = Client::new(at, &keys[1]);
    foreign.path = "/mcp/server/it".into();
    let refused = foreign.ask(1, "initialize", json!({})).await;
    assert_eq!(refused.head.status(), 403, "{}", refused.text());
    assert_eq!(value(&refused)["error"]["data"]["scope"], "server:it");
}

#[tokio::test]
async fn rules_permit_servers_and_tools_and_are_taken_up_while_it_runs() {
    let rules = |tools: &str| format!("[[auth.rules]]\nservers = [\"it\"]\ntools = [{tools}]\n");
    let (gateway, keys) = keyed(&rules("\"ec*\""), &[("ci", "mcp:call")]).await;
    let client = Client::begin_at(gateway.address, &keys[0], "/mcp/server/it").await;
    let status = async |tool: &str| client.call(tool, json!({ "message": "x" })).await.head.status();
    assert_eq!((status("echo").await, status("test_simple_text").await), (200, 403));
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", gateway.pid())).expect("it runs");
    let settings = arguments.split('\0').find(|word| word.ends_with("landbridge.toml")).expect("a file").to_owned();
    std::fs::write(settings, rules("\"test_*\"")).expect("written");
    let began = Instant::now();
    while status("test_simple_text").await != 200 {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", gateway.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status("echo").await, 403);
}

/// Where the only server is what clients see, the rules end a session there as on the server's own path.
#[tokio::test]
async fn a_session_at_the_only_server_ends_when_the_rules_take_it_away() {
    let rules = |server: &str| format!("[[auth.rules]]\nservers = [\"{server}\"]\n");
    let (gateway, keys) = with_keys(&rules("it"), &[("ci", "mcp:call")], None, &["--surface", "server"]).await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    let answer = client.call("echo", json!({ "message": "heard" })).await;
    assert!(answer.head.status() == 200 && answer.text().contains("heard"), "{}", answer.text());
    let mut stream = RawHttp::connect(gateway.address).await.expect("it listens");
    stream.send("GET", "/mcp", &client.headers(), b"").await.expect("sent");
    assert_eq!(stream.head().await.expect("a head").status(), 200);
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", gateway.pid())).expect("it runs");
    let settings = arguments.split('\0').find(|word| word.ends_with("landbridge.toml")).expect("a file").to_owned();
    std::fs::write(settings, rules("other")).expect("written");
    stream.patience = WITHIN;
    // Whatever comes on it meanwhile, it does not stay open.
    let over = tokio::time::timeout(WITHIN, async { while let Ok(Some(_)) = stream.event().await {} }).await;
    assert!(over.is_ok(), "its stream is open: {}", gateway.said());
    assert_eq!(client.call("echo", json!({ "message": "x" })).await.head.status(), 404, "and so is the session");
}

#[tokio::test]
async fn pages_for_operators_are_theirs_alone() {
    let world = World::start(ALLOW, &[]).await;
    let (alice, carol) = (world.tokens("alice", "mcp:call").await, world.tokens("carol", "mcp:admin").await);
    for path in ["/sessions", "/metrics", "/waterfall", "/waterfall/json", "/oauth/stats"] {
        let status = async |token: &str| {
            let with = [("Authorization", format!("Bearer {token}"))];
            get(world.at(), path, &[(with[0].0, &with[0].1)]).await.head.status()
        };
        assert_eq!(get(world.at(), path, &[]).await.head.status(), 401, "{path}");
        assert_eq!(status(&alice.access).await, 403, "{path}");
        assert_eq!(status("wrong-operator-token").await, 401, "{path}");
        assert_eq!(status(&carol.access).await, 200, "{path}");
        assert_eq!(status(OPERATOR).await, 200, "{path}");
    }
    // Nobody is an administrator whom the rules do not name.
    let client = crate::world::register(world.at()).await;
    let stopped = world.login(&client, "mcp:admin", "bob", lb_peers::idp::Decision::Approve).await;
    assert_eq!(crate::world::parameter(&stopped.url, "error").as_deref(), Some("invalid_scope"));
}

#[tokio::test]
async fn a_token_is_sent_once_and_in_the_header() {
    let (gateway, keys) = keyed("", &[("ci", "mcp:call")]).await;
    let (at, key) = (gateway.address, keys[0].as_str());
    let bearer = format!("Bearer {key}");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    for (path, with, want) in [
        (format!("/mcp?access_token={key}"), vec![], 400),
        (format!("/mcp?access_token={key}"), vec![bearer.as_str()], 400),
        ("/mcp".to_owned(), vec![bearer.as_str(), bearer.as_str()], 400),
        ("/mcp".to_owned(), vec!["Bearer "], 400),
        ("/mcp".to_owned(), vec!["Bearer a b"], 400),
        ("/mcp".to_owned(), vec!["Basic Y2k6Y2k="], 401),
        ("/mcp".to_owned(), vec!["Bearer eyJhbGciOiJub25lIn0.e30."], 401),
    ] {
        let mut all = post_headers();
        all.extend(with.iter().map(|value| ("Authorization".to_owned(), (*value).to_owned())));
        let answer = send(at, "POST", &path, &all, body.as_bytes()).await;
        assert_eq!(answer.head.status(), want, "{with:?}: {}", answer.text());
    }
    // Cheap checks come first.
    let kind = headers(&[("Content-Type", "text/plain"), ("Accept", "*/*")]);
    assert_eq!(send(at, "POST", "/mcp", &kind, b"x").await.head.status(), 415);
    let mut foreign = post_headers();
    foreign.push(("Origin".into(), "https://evil.example".into()));
    assert_eq!(send(at, "POST", "/mcp", &foreign, b"{}").await.head.status(), 403);
    let session = Client::begin(at, key).await;
    assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200);
    let said = gateway.said();
    assert!(!said.contains(key) && !said.contains(OPERATOR), "a key is in the log");
    let told: Value = value(&get(at, "/health", &[]).await);
    assert_eq!(told["ok"], true);
}
