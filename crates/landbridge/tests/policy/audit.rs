//! Every event is written down with who, what, when and what came of it, and never with what it was about.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use lb_peers::idp::Decision;
use serde_json::{Value, json};

use crate::keyed::tool;
use crate::world::{ALLOW, Client, OPERATOR, World, form_to, get, register, tokens};

const ARGUMENT: &str = "argument-that-nobody-shall-read-later";

fn events(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

/// Waits until one of each kind is there: they are written behind the requests.
async fn written(path: &std::path::Path, wanted: &[(&str, &str)]) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let events = events(path);
        let has = |(event, outcome): &&(&str, &str)| {
            events.iter().any(|it| it["event"] == *event && it["outcome"] == *outcome)
        };
        let missing: Vec<_> = wanted.iter().filter(|wanted| !has(wanted)).collect();
        if missing.is_empty() {
            return events;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "missing {missing:?} in {events:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn refresh(world: &World, client: &str, token: &str) -> (u16, Value) {
    let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
    form_to(world.at(), "/token", &form).await
}

#[tokio::test]
async fn what_happens_is_written_down_with_who_and_outcome_and_without_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, keys) = (folder.path().join("audit.jsonl"), folder.path().join("keys"));
    let [at, keys_at] = [&file, &keys].map(|path| path.to_string_lossy().into_owned());
    let mut new = tokio::process::Command::new(crate::LANDBRIDGE);
    new.args(["auth", "key", "new", "ci", "--scope", "mcp:admin", "--file", &keys_at]);
    let key = String::from_utf8(new.output().await.expect("it runs").stdout).expect("text").trim().to_owned();
    let world = World::start(ALLOW, &["--audit-log", &at, "--auth", "keys", &keys_at]).await;

    let denied = register(world.at()).await;
    world.login(&denied, "mcp:read", "alice", Decision::Deny).await;
    world.login(&denied, "mcp:read", "unverified", Decision::Approve).await;
    let first = world.tokens("alice", "mcp:read mcp:call").await;
    let client = Client::begin(world.at(), &first.access).await;
    let asked = json!({ "server": "it", "tool": "echo", "args": { "message": ARGUMENT } });
    assert!(tool(&client, "execute_tool", asked).await.to_string().contains(ARGUMENT));
    assert_eq!(
        client.call("add_server", json!({ "name": "x", "url": "https://example.com/" })).await.head.status(),
        403
    );
    let (status, second) = refresh(&world, &first.client, &first.refresh).await;
    assert_eq!(status, 200, "{second}");
    let second = tokens(&first.client, &second);
    let (_, third) = refresh(&world, &first.client, &second.refresh).await;
    let third = tokens(&first.client, &third);
    assert_eq!(refresh(&world, &first.client, &first.refresh).await.0, 400, "it was spent");
    let other = world.tokens("bob", "mcp:read").await;
    let revoked = [("client_id", other.client.as_str()), ("token", other.refresh.as_str())];
    assert_eq!(form_to(world.at(), "/revoke", &revoked).await.0, 200);
    assert_eq!(get(world.at(), "/mcp", &[("Accept", "text/event-stream")]).await.head.status(), 401);
    let operator = Client::begin(world.at(), &key).await;
    tool(&operator, "add_server", json!({ "name": "sh", "command": "/bin/sh" })).await;
    tool(&operator, "remove_server", json!({ "name": "it" })).await;
    get(world.at(), "/metrics", &[("Authorization", &format!("Bearer {OPERATOR}"))]).await;

    let wanted = [
        ("registration", "ok"),
        ("consent", "denied"),
        ("consent", "given"),
        ("login", "ok"),
        ("login", "access_denied"),
        ("token_issued", "ok"),
        ("token_refreshed", "ok"),
        ("refresh_reused", "login_ended"),
        ("token_revoked", "login_ended"),
        ("refused", "no_token"),
        ("key_used", "ok"),
        ("operator_access", "ok"),
        ("call", "allowed"),
        ("call", "denied"),
        ("server_added", "forbidden"),
        ("server_removed", "forbidden"),
    ];
    let all = written(&file, &wanted).await;
    for event in &all {
        for member in ["ts", "event", "who", "outcome"] {
            assert!(event[member].as_str().is_some_and(|text| !text.is_empty()), "no {member}: {event}");
        }
    }
    let logins = all.iter().filter(|it| it["event"] == "login" && it["outcome"] == "ok");
    let people: HashMap<_, _> = logins.map(|it| (it["who"].as_str(), it["subject"].as_str())).collect();
    let called = all.iter().find(|it| it["tool"] == "echo").expect("the call");
    assert_eq!(people.get(&called["who"].as_str()), Some(&Some("alice")), "{called}");
    assert_eq!((&called["server"], &called["method"]), (&json!("it"), &json!("tools/call")));
    let text = std::fs::read_to_string(&file).expect("text");
    let secrets = [&first.access, &first.refresh, &second.refresh, &third.access, &third.refresh, &other.access, &key];
    for secret in secrets.into_iter().map(String::as_str).chain([ARGUMENT, OPERATOR, "/bin/sh"]) {
        assert!(!text.contains(secret), "{secret} is in the audit log");
    }
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    assert!(!world.gateway.said().contains("subject="), "who somebody is stands in the audit log alone");
}
