//! A stream of HTTP+SSE ends with the login it was opened with.

use std::time::Duration;

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{headers, initialize_request, post_headers};

use crate::world::{ALLOW, World, form_to, send};

/// Five seconds are promised; a machine that runs many tests at once gets ten times as many.
const WITHIN: Duration = Duration::from_secs(50);

#[tokio::test]
async fn a_session_of_the_old_transport_ends_with_the_login() {
    let world = World::start(ALLOW, &["--sse"]).await;
    let got = world.tokens("alice", "mcp:read").await;
    let bearer = format!("Bearer {}", got.access);
    let mut stream = RawHttp::connect(world.at()).await.expect("it listens");
    stream.send("GET", "/sse", &headers(&[("Authorization", &bearer)]), b"").await.expect("sent");
    assert_eq!(stream.head().await.expect("a head").status(), 200);
    let event = stream.event().await.expect("an event").expect("the stream goes on");
    let at = String::from_utf8(event.data.expect("where to post")).expect("text");
    let mut with = post_headers();
    with.push(("Authorization".to_owned(), bearer));
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let forbidden = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"set_timer","arguments":{}}}"#;
    for body in [initialize_request("1", "2025-06-18").as_str(), ready, forbidden] {
        let accepted = send(world.at(), "POST", &at, &with, body.as_bytes()).await;
        assert_eq!(accepted.head.status(), 202, "{}", accepted.text());
    }
    let mut said = String::new();
    while !said.contains("\"id\":2") {
        let event = stream.event().await.expect("an event").expect("the stream goes on");
        said.push_str(&String::from_utf8_lossy(&event.raw));
    }
    assert!(said.contains("mcp:call"), "what the token lacks is told: {said}");

    let (status, _) = form_to(world.at(), "/revoke", &[("token", &got.refresh), ("client_id", &got.client)]).await;
    assert_eq!(status, 200);
    // It may say that it is still there, and must not go on to.
    let ended = async { while stream.event().await.is_ok_and(|event| event.is_some()) {} };
    tokio::time::timeout(WITHIN, ended).await.expect("the stream ends with the login");
    assert_eq!(send(world.at(), "POST", &at, &with, ready.as_bytes()).await.head.status(), 401);
}
