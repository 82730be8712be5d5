//! The raw clients against the fixture server, which shares no code with them.

use lb_peers::raw::http::{initialize_request, modern_headers};

use super::peer::{HttpPeer, modern, post, spawn};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fixture");
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

#[tokio::test]
async fn raw_http_opens_sessions_and_speaks_modern_on_one_connection() {
    let peer = HttpPeer::start(PROGRAM, &[]).await;
    let (mut client, session) = peer.session().await;
    let list = post(&mut client, &session, LIST).await;
    assert_eq!(list.head.status(), 200);
    assert!(list.complete && list.text().contains(r#""id":2"#), "{}", list.text());
    let body = modern("\"d\"", "server/discover", "");
    let found = post(&mut client, &modern_headers("server/discover", None), &body).await;
    assert_eq!(found.head.status(), 200, "{}", found.text());
    assert!(found.complete && found.text().contains("2026-07-28"), "{}", found.text());
}

#[tokio::test]
async fn raw_stdio_exchanges_lines() {
    let mut process = spawn(PROGRAM, &[]);
    let opened = process.ask(&initialize_request("1", "2025-06-18")).await.expect("an answer");
    assert!(opened.contains(r#""protocolVersion":"2025-06-18""#), "{opened}");
    let note = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    process.send(note).await.expect("sent");
    let list = process.ask(LIST).await.expect("an answer");
    assert!(list.contains(r#""id":2"#) && list.contains(r#""tools":["#), "{list}");
    process.close_stdin();
    assert!(process.wait().await.expect("it ends").success());
}
