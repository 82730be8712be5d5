//! From a bare 401 to a call, and to the end of the tokens.

use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::post_headers;
use serde_json::json;

use crate::world::{ALLOW, Client, World, form_to, get, send, tokens, value};

/// How long a stream is read that should have ended.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// A quoted parameter of a challenge.
fn quoted(challenge: &str, name: &str) -> Option<String> {
    let (_, rest) = challenge.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

#[tokio::test]
async fn a_client_that_knows_a_url_gets_in_calls_refreshes_and_leaves() {
    let world = World::start(ALLOW, &[]).await;
    let at = world.at();
    let refused = send(at, "POST", "/mcp", &post_headers(), b"{}").await;
    assert_eq!(refused.head.status(), 401, "{}", refused.text());
    assert_eq!(value(&refused), json!({ "error": "unauthorized" }));
    let challenge = refused.head.header("www-authenticate").expect("a challenge").to_owned();
    let metadata = quoted(&challenge, "resource_metadata").expect("where to look");
    assert_eq!(metadata, format!("{}/.well-known/oauth-protected-resource/mcp", world.url));
    assert_eq!(quoted(&challenge, "scope").as_deref(), Some("mcp:read mcp:call"));
    assert!(!challenge.contains("error"), "nothing was wrong with a token: {challenge}");

    let path = metadata.strip_prefix(&world.url).expect("it is ours");
    let resource = get(at, path, &[("Origin", "https://app.example")]).await;
    assert_eq!(resource.head.header("access-control-allow-origin"), Some("*"));
    let resource = value(&resource);
    assert_eq!(resource["resource"], format!("{}/mcp", world.url));
    assert_eq!(resource["authorization_servers"], json!([world.url]));
    let server = value(&get(at, "/.well-known/oauth-authorization-server", &[]).await);
    assert_eq!(server["issuer"], world.url);
    for (name, path) in
        [("token_endpoint", "/token"), ("authorization_endpoint", "/authorize"), ("registration_endpoint", "/register")]
    {
        assert_eq!(server[name], format!("{}{path}", world.url));
    }

    let got = world.tokens("alice", "mcp:read mcp:call").await;
    let client = Client::begin(at, &got.access).await;
    let answer = client.call("list_servers", json!({})).await;
    assert!(answer.head.status() == 200 && answer.text().contains("\\\"it\\\""), "{}", answer.text());
    let by_itself = Client::begin_at(at, &got.access, "/mcp/server/it").await;
    assert!(by_itself.ask(1, "tools/list", json!({})).await.text().contains("inputSchema"));

    let refresh = [("grant_type", "refresh_token"), ("client_id", &got.client), ("refresh_token", &got.refresh)];
    let (status, told) = form_to(at, "/oauth/token", &refresh).await;
    assert_eq!(status, 200, "{told}");
    let next = tokens(&got.client, &told);
    let answer = client.as_sent(at, &next.access).call("list_servers", json!({})).await;
    assert_eq!(answer.head.status(), 200, "the session goes on with the next token: {}", answer.text());

    let revoke = [("token", next.refresh.as_str()), ("client_id", &got.client)];
    assert_eq!(form_to(at, "/oauth/revoke", &revoke).await.0, 200);
    let began = Instant::now();
    loop {
        let answer = client.as_sent(at, &next.access).call("list_servers", json!({})).await;
        if answer.head.status() == 401 {
            let challenge = answer.head.header("www-authenticate").expect("a challenge");
            assert_eq!(quoted(challenge, "error").as_deref(), Some("invalid_token"));
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(50), "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn whoever_has_no_token_learns_nothing_of_what_is_behind() {
    let world = World::start(ALLOW, &[]).await;
    let at = world.at();
    for path in ["/mcp", "/mcp/tools", "/mcp/server/it", "/mcp/server/other", "/mcp/x"] {
        for method in ["POST", "GET", "DELETE"] {
            let answer = send(at, method, path, &post_headers(), b"{}").await;
            assert_eq!(answer.head.status(), 401, "{method} {path}: {}", answer.text());
            assert_eq!(answer.head.header("cache-control"), Some("no-store"));
        }
    }
    for path in ["/sessions", "/metrics", "/waterfall", "/waterfall/json"] {
        assert_eq!(get(at, path, &[]).await.head.status(), 401, "{path}");
    }
    assert!(!get(at, "/", &[]).await.text().contains("server/it"));
    assert_eq!(get(at, "/ping", &[]).await.head.status(), 200);
    let preflight = send(at, "OPTIONS", "/mcp", &post_headers(), b"").await;
    assert_eq!(preflight.head.status(), 204);
    let other = send(at, "PUT", "/mcp", &post_headers(), b"{}").await;
    assert_eq!(other.head.status(), 405);
    for bad in ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/mcp"] {
        assert_eq!(get(at, bad, &[]).await.head.status(), 404, "{bad}");
    }
}

#[tokio::test]
async fn a_session_is_that_of_whoever_began_it() {
    let world = World::start(ALLOW, &[]).await;
    let at = world.at();
    let (alice, bob) = (world.tokens("alice", "mcp:call").await, world.tokens("bob", "mcp:call").await);
    let session = Client::begin(at, &alice.access).await;
    let foreign = session.as_sent(at, &bob.access);
    let answer = foreign.call("list_servers", json!({})).await;
    assert_eq!(answer.head.status(), 404, "{}", answer.text());
    for method in ["GET", "DELETE"] {
        let answer = send(at, method, "/mcp", &foreign.headers(), b"").await;
        assert_eq!(answer.head.status(), 404, "{method} {}", answer.text());
    }
    assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200, "it is still there");
}

#[tokio::test]
async fn an_open_stream_ends_with_the_login_it_was_opened_with() {
    let world = World::start(ALLOW, &[]).await;
    let (alice, bob) = (world.tokens("alice", "mcp:call").await, world.tokens("bob", "mcp:call").await);
    let mut streams = Vec::new();
    for got in [&alice, &bob] {
        let client = Client::begin(world.at(), &got.access).await;
        let mut http = RawHttp::connect(world.at()).await.expect("it listens");
        http.send("GET", "/mcp", &client.headers(), b"").await.expect("sent");
        assert_eq!(http.head().await.expect("a head").status(), 200);
        streams.push((http, client));
    }
    let revoke = [("token", alice.refresh.as_str()), ("client_id", &alice.client)];
    assert_eq!(form_to(world.at(), "/revoke", &revoke).await.0, 200);
    let (mut of_bob, bob_too) = streams.pop().expect("two");
    let (mut of_alice, _) = streams.pop().expect("two");
    // Longer than it takes by far: how long that is stands where it is measured.
    of_alice.patience = ENDS_WITHIN * 2;
    let end = async { while let Ok(Some(_)) = of_alice.event().await {} };
    tokio::time::timeout(ENDS_WITHIN, end).await.expect("it ends");
    assert_eq!(bob_too.call("list_servers", json!({})).await.head.status(), 200);
    of_bob.patience = Duration::from_millis(200);
    let mut last = of_bob.event().await;
    while let Ok(Some(_)) = last {
        last = of_bob.event().await;
    }
    assert_eq!(last.map_err(|error| error.kind()).expect_err("it is open"), std::io::ErrorKind::TimedOut);
}
