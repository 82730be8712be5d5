//! Faults over HTTP that concern one response.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use lb_peers::evil::{Transport, payload};
use lb_peers::raw::handshake::Era;

use super::peer::{HttpPeer, answer, calm, data, modern_answer, post, post_modern_call, strike};

#[tokio::test]
async fn die_before_reply_closes_without_a_byte() {
    let mut peer = HttpPeer::evil(&["--fault", "die-before-reply"]).await;
    let (mut client, session) = peer.session().await;
    client.send("POST", "/mcp", &session, strike("1", "x").as_bytes()).await.expect("sent");
    let error = client.head().await.expect_err("no response");
    assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
    assert_eq!(peer.process.wait().await.expect("it ends").code(), Some(3));
}

#[tokio::test]
async fn die_after_reply_answers_first() {
    let mut peer = HttpPeer::evil(&["--fault", "die-after-reply"]).await;
    let (mut client, session) = peer.session().await;
    let response = post(&mut client, &session, &strike("1", "last")).await;
    assert_eq!((response.text(), response.complete), (answer("1", "last"), true));
    assert_eq!(peer.process.wait().await.expect("it ends").code(), Some(3));
}

#[tokio::test]
async fn half_line_closes_in_the_middle_of_the_body() {
    let peer = HttpPeer::evil(&["--fault", "half-line"]).await;
    let (mut client, session) = peer.session().await;
    let response = post(&mut client, &session, &strike("1", "half")).await;
    let whole = answer("1", "half");
    assert_eq!(response.head.header("content-length"), Some(whole.len().to_string().as_str()));
    assert!(!response.complete);
    assert_eq!(response.body.len(), whole.len() / 2);
    assert!(whole.as_bytes().starts_with(&response.body));
    let mut second = peer.connect().await;
    assert_eq!(post(&mut second, &session, &calm("2", "x")).await.text(), answer("2", "x"));
}

#[tokio::test]
async fn garbage_is_announced_as_json() {
    let peer = HttpPeer::evil(&["--fault", "garbage"]).await;
    let (mut client, session) = peer.session().await;
    let response = post(&mut client, &session, &strike("1", "x")).await;
    assert_eq!(response.head.header("content-type"), Some("application/json"));
    assert_eq!(response.body, payload::random_bytes(300));
    assert_eq!(post(&mut client, &session, &calm("2", "x")).await.text(), answer("2", "x"));
}

#[tokio::test]
async fn flood_streams_50_megabytes_before_the_answer() {
    let peer = HttpPeer::evil(&["--fault", "flood"]).await;
    let (mut client, session) = peer.session().await;
    client.send("POST", "/mcp", &session, strike("1", "after").as_bytes()).await.expect("sent");
    assert!(client.head().await.expect("a head").is_sse());
    let (mut bytes, mut last) = (0, String::new());
    while let Some(event) = client.event().await.expect("an event") {
        last = event.text();
        bytes += last.len();
    }
    assert_eq!(last, answer("1", "after"));
    assert_eq!(bytes, payload::FLOOD_BYTES + last.len());
}

#[tokio::test]
async fn hang_sends_nothing_and_others_are_served() {
    let peer = HttpPeer::evil(&["--fault", "hang"]).await;
    let (mut client, session) = peer.session().await;
    client.send("POST", "/mcp", &session, strike("1", "x").as_bytes()).await.expect("sent");
    let mut second = peer.connect().await;
    assert_eq!(post(&mut second, &session, &calm("2", "x")).await.text(), answer("2", "x"));
    client.patience = Duration::from_millis(500);
    assert_eq!(client.head().await.expect_err("no response").kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn slow_arrives_byte_by_byte() {
    let peer = HttpPeer::evil(&["--fault", "slow"]).await;
    let (mut client, session) = peer.session().await;
    let start = Instant::now();
    client.send("POST", "/mcp", &session, strike("1", "s").as_bytes()).await.expect("sent");
    client.head().await.expect("a head");
    let (mut pieces, mut body) = (0, Vec::new());
    while let Some(piece) = client.piece().await.expect("a piece") {
        pieces += 1;
        body.extend_from_slice(&piece);
    }
    assert_eq!(String::from_utf8_lossy(&body), answer("1", "s"));
    assert!(body.len() / 4 < pieces, "{pieces} pieces for {} bytes", body.len());
    assert!(Duration::from_millis(20) * u32::try_from(body.len() - 1).expect("small") <= start.elapsed());
}

#[tokio::test]
async fn huge_line_is_a_body_of_40_megabytes() {
    let peer = HttpPeer::evil(&["--fault", "huge-line"]).await;
    let mut client = peer.connect().await;
    let response = post_modern_call(&mut client, "1", "strike", "x").await;
    assert_eq!(response.body.len(), modern_answer("1", "").len() + payload::HUGE_BYTES);
    assert!(response.complete);
}

#[tokio::test]
async fn odd_content_keeps_its_bytes() {
    let peer = HttpPeer::evil(&["--fault", "odd-content"]).await;
    let (mut client, session) = peer.session().await;
    let want = |era| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, payload::odd_result(era, Transport::Http));
    assert_eq!(post(&mut client, &session, &strike("1", "")).await.text(), want(Era::Legacy));
    assert_eq!(post_modern_call(&mut client, "1", "strike", "").await.text(), want(Era::Modern));
}

#[tokio::test]
async fn two_strikes_get_each_others_ids_even_across_sessions() {
    let peer = HttpPeer::evil(&["--fault", "swapped-ids"]).await;
    let (mut one, session_one) = peer.session().await;
    let (mut two, session_two) = peer.session().await;
    let (left, right) = (strike("1", "one"), strike("2", "two"));
    let (first, second) = tokio::join!(post(&mut one, &session_one, &left), post(&mut two, &session_two, &right));
    assert_eq!((first.text(), second.text()), (answer("2", "one"), answer("1", "two")));
    assert_eq!(post(&mut one, &session_one, &strike("3", "three")).await.text(), answer("3", "three"));
}

#[tokio::test]
async fn stale_answers_and_progress_come_as_events() {
    let peer = HttpPeer::evil(&["--fault", "stale-ids,progress-storm"]).await;
    let (mut client, session) = peer.session().await;
    post(&mut client, &session, &calm("7", "x")).await;
    let events = data(&post(&mut client, &session, &strike("8", "true")).await);
    for id in ["7", "\"8\"", "987654321", "\"never-issued\""] {
        assert!(events.contains(&answer(id, "stale")), "no stale answer to {id} in {events:?}");
    }
    assert_eq!(events.last(), Some(&answer("8", "true")));
    let storm = strike("9", "calm after")
        .replace(r#""arguments":{"#, r#""_meta":{"progressToken":5},"arguments":{"fault":"progress-storm","#);
    let events = data(&post(&mut client, &session, &storm).await);
    assert_eq!(events.len(), payload::PROGRESS_COUNT + 1);
    assert!(payload::progress("5").eq(events.iter().take(payload::PROGRESS_COUNT).cloned()));
    assert_eq!(events.last(), Some(&answer("9", "calm after")));
}
