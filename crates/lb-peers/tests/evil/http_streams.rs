//! Faults over HTTP that concern more than one stream.

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Headers, modern_headers};

use super::peer::{HttpPeer, answer, call, calm, data, modern, modern_answer, post, post_modern_call, strike};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#;

async fn open_get(peer: &HttpPeer, session: &Headers) -> RawHttp {
    let mut stream = peer.connect().await;
    stream.send("GET", "/mcp", session, b"").await.expect("sent");
    assert!(stream.head().await.expect("a head").is_sse());
    stream
}

async fn next(stream: &mut RawHttp) -> String {
    stream.event().await.expect("an event").expect("the stream stays open").text()
}

#[tokio::test]
async fn a_legacy_list_change_comes_on_the_calls_own_stream_and_to_other_sessions() {
    let peer = HttpPeer::evil(&["--fault", "list-changed-first"]).await;
    let (mut client, session) = peer.session().await;
    let (_other, other_session) = peer.session().await;
    let mut stream = open_get(&peer, &other_session).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let before = post(&mut client, &session, list).await.text();
    let events = data(&post(&mut client, &session, &strike("2", "x")).await);
    assert_eq!(events, [CHANGED.to_owned(), answer("2", "x")]);
    let after = post(&mut client, &session, list).await.text();
    assert!(before != after && after.contains("extra_1"), "{after}");
    assert_eq!(next(&mut stream).await, CHANGED);
}

#[tokio::test]
async fn a_modern_list_change_goes_to_the_listens_only() {
    let peer = HttpPeer::evil(&["--fault", "list-changed-first"]).await;
    let mut stream = peer.connect().await;
    let listen = modern("\"L\"", "subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#);
    let headers = modern_headers("subscriptions/listen", None);
    stream.send("POST", "/mcp", &headers, listen.as_bytes()).await.expect("sent");
    assert!(stream.head().await.expect("a head").is_sse());
    let acknowledged = next(&mut stream).await;
    assert!(acknowledged.contains("subscriptions/acknowledged"), "{acknowledged}");
    let mut client = peer.connect().await;
    let response = post_modern_call(&mut client, "2", "strike", "x").await;
    assert_eq!(response.text(), modern_answer("2", "x"));
    let changed = next(&mut stream).await;
    assert!(changed.contains("tools/list_changed") && changed.contains(r#"subscriptionId":"L""#), "{changed}");
}

#[tokio::test]
async fn the_answer_comes_on_the_get_stream() {
    let peer = HttpPeer::evil(&["--fault", "wrong-stream"]).await;
    let (mut client, session) = peer.session().await;
    let mut stream = open_get(&peer, &session).await;
    let body = call("1", "strike", r#"{"message":"lost","via":"get"}"#);
    assert_eq!(data(&post(&mut client, &session, &body).await), Vec::<String>::new());
    assert_eq!(next(&mut stream).await, answer("1", "lost"));
}

#[tokio::test]
async fn the_answer_comes_on_the_stream_of_another_call() {
    let peer = HttpPeer::evil(&["--fault", "wrong-stream"]).await;
    let (mut client, session) = peer.session().await;
    let mut other = peer.connect().await;
    client.send("POST", "/mcp", &session, strike("1", "lost").as_bytes()).await.expect("sent");
    assert!(client.head().await.expect("a head").is_sse());
    let mut seen = Vec::new();
    // The strike may still be on its way to the place where calls look for it.
    for turn in 0..100 {
        let response = post(&mut other, &session, &calm("2", "mine")).await;
        if response.head.is_sse() {
            seen = data(&response);
            break;
        }
        assert_eq!(response.text(), answer("2", "mine"), "turn {turn}");
    }
    assert_eq!(seen, [answer("1", "lost"), answer("2", "mine")]);
    assert_eq!(client.event().await.expect("the end"), None);
}

#[tokio::test]
async fn two_wrong_strikes_cross_over() {
    let peer = HttpPeer::evil(&["--fault", "wrong-stream"]).await;
    let (mut one, session) = peer.session().await;
    let mut two = peer.connect().await;
    let body = |id: &str, text: &str| call(id, "strike", &format!(r#"{{"message":"{text}","via":"post"}}"#));
    let (left, right) = (body("1", "one"), body("2", "two"));
    let (first, second) = tokio::join!(post(&mut one, &session, &left), post(&mut two, &session, &right));
    assert_eq!((data(&first), data(&second)), (vec![answer("2", "two")], vec![answer("1", "one")]));
}
