//! What is on the wire: headers of the steps of a login, the order of the checks, and a store that is away.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lb_peers::raw::http::{Response, headers, post_headers};
use serde_json::json;

use crate::cluster::Cluster;
use crate::world::{ALLOW, Client, World, authorize, get, register, send, value};

/// That an answer has each of these headers once, and this in it.
fn has(answer: &Response, what: &str, wanted: &[(&str, &str)]) {
    for (name, part) in wanted {
        let all: Vec<_> = answer.head.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).collect();
        assert!(all.len() == 1 && all[0].1.contains(part), "{what}: {name} is {all:?} and not {part}");
    }
}

#[tokio::test]
async fn every_step_of_a_login_has_the_headers_of_a_page_that_nobody_may_frame() {
    let world = World::start(ALLOW, &[]).await;
    let client = register(world.at()).await;
    let start = authorize(&world.url, &client, "mcp:read");
    let start = start.strip_prefix(&world.url).expect("ours");
    let asked = get(world.at(), start, &[]).await;
    assert_eq!(asked.head.status(), 303);
    let consent = asked.head.header("location").and_then(|to| to.strip_prefix(&world.url)).expect("ours").to_owned();
    let unknown = start.replace(&client, "mcp_00000000000000000000000000000000");
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let posted = async |origin: &[(&str, &str)]| {
        send(world.at(), "POST", "/consent", &headers(&[&form[..], origin].concat()), b"id=x&csrf=y&decision=approve")
            .await
    };
    for (what, status, answer) in [
        ("/authorize", 303, asked),
        ("/authorize of nobody", 400, get(world.at(), &unknown, &[]).await),
        ("/oauth/authorize of nobody", 400, get(world.at(), &format!("/oauth{unknown}"), &[]).await),
        ("/consent", 200, get(world.at(), &consent, &[]).await),
        ("/consent that is over", 400, get(world.at(), "/consent?id=x", &[]).await),
        ("a form of nobody", 403, posted(&[]).await),
        ("/oauth/callback", 400, get(world.at(), "/oauth/callback?code=x&state=y", &[]).await),
    ] {
        assert_eq!(answer.head.status(), status, "{what}: {}", answer.text());
        has(
            &answer,
            what,
            &[
                ("content-security-policy", "default-src 'none'"),
                ("content-security-policy", "frame-ancestors 'none'"),
                ("x-frame-options", "DENY"),
                ("referrer-policy", "same-origin"),
                ("cross-origin-opener-policy", "unsafe-none"),
                ("x-content-type-options", "nosniff"),
                ("cache-control", "no-store"),
            ],
        );
        assert!(!answer.head.header("content-security-policy").unwrap_or_default().contains("form-action"), "{what}");
    }
    // Pages of others do not come as far as that.
    for origin in ["https://evil.example", "null"] {
        let answer = posted(&[("Origin", origin)]).await;
        assert_eq!((answer.head.status(), answer.head.header("location")), (403, None), "{origin}");
        has(&answer, origin, &[("x-frame-options", "DENY"), ("content-security-policy", "frame-ancestors 'none'")]);
    }
}

#[tokio::test]
async fn cheap_checks_come_first_and_a_refusal_of_many_names_all_that_is_missing() {
    let world = World::start(ALLOW, &[]).await;
    let (alice, bob) = (world.tokens("alice", "mcp:read").await, world.tokens("bob", "mcp:call").await);
    let theirs = Client::begin(world.at(), &bob.access).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "set_timer", "arguments": {} } });
    let status = async |over: &[(&str, &str)], token: &str, body: &str| {
        let mut all = post_headers();
        all.retain(|(name, _)| !over.iter().any(|(other, _)| name.eq_ignore_ascii_case(other)));
        all.extend(headers(over));
        all.push(("Authorization".into(), format!("Bearer {token}")));
        send(world.at(), "POST", "/mcp", &all, body.as_bytes()).await.head.status()
    };
    let (origin, kind) = (("Origin", "https://evil.example"), ("Content-Type", "text/plain"));
    let session = theirs.headers().into_iter().find(|(name, _)| name == "Mcp-Session-Id").expect("a session").1;
    let session = ("Mcp-Session-Id", session.as_str());
    let call = call.to_string();
    for (over, token, want) in [
        (vec![origin, kind], "wrong", 403),
        (vec![kind], "wrong", 415),
        (vec![session], "wrong", 401),
        // Whose session it is comes before what a token may do.
        (vec![session], alice.access.as_str(), 404),
    ] {
        assert_eq!(status(&over, token, &call).await, want, "{over:?}");
    }
    // The whole body is read before anything is decided, and what it needs is said at once.
    let mut all = post_headers();
    all.push(("Authorization".into(), format!("Bearer {}", alice.access)));
    let params = json!({
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let answer = send(world.at(), "POST", "/mcp", &all, begin.as_bytes()).await;
    all.push(("Mcp-Session-Id".into(), answer.head.header("mcp-session-id").expect("a session").to_owned()));
    let one = |id: u32, tool: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": {} } });
    let batch = json!([one(1, "list_timers"), one(2, "set_timer"), one(3, "execute_tool")]).to_string();
    let refused = send(world.at(), "POST", "/mcp", &all, batch.as_bytes()).await;
    assert_eq!(refused.head.status(), 403, "{}", refused.text());
    has(
        &refused,
        "a batch",
        &[
            ("www-authenticate", "error=\"insufficient_scope\""),
            ("www-authenticate", "scope=\"mcp:call\""),
            ("www-authenticate", "resource_metadata=\""),
            ("cache-control", "no-store"),
        ],
    );
    assert_eq!(value(&refused)["error"]["data"]["scope"], "mcp:call");
}

#[tokio::test]
async fn while_the_store_is_away_it_is_said_so_and_what_it_lost_is_over() {
    let mut cluster = Cluster::start(&[]).await;
    let got = cluster.tokens("alice", "mcp:call").await;
    let bearer = format!("Bearer {}", got.access);
    let asked = async |cluster: &Cluster| get(cluster.at()[0], "/mcp", &[("Authorization", &bearer)]).await;
    assert_ne!(asked(&cluster).await.head.status(), 401);
    cluster.store.kill9();
    let began = Instant::now();
    // What was read a moment ago counts for five seconds.
    let away = loop {
        let answer = asked(&cluster).await;
        if answer.head.status() == 503 {
            break answer;
        }
        assert_ne!(answer.head.status(), 401, "nobody is told that a token is bad which nobody can check");
        assert!(began.elapsed() < Duration::from_secs(45), "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    has(&away, "away", &[("retry-after", "1"), ("cache-control", "no-store")]);
    assert!(away.head.header("www-authenticate").is_none());
    // Nor is anybody taken for a stranger, who has a hundred a minute, because nobody can tell who it is.
    for answer in join_all((0..120).map(|_| asked(&cluster))).await {
        assert_eq!(answer.head.status(), 503, "{}", answer.text());
    }
    cluster.store.start_again();
    while asked(&cluster).await.head.status() != 401 {
        assert!(began.elapsed() < Duration::from_secs(55), "what is not in the store is over");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
