//! The stream of what belongs to no request.

use lb_exchange::{Answer, FeedItem, List};
use serde_json::json;

use super::script::{Asked, Script};
use super::*;

/// Opens the stream.
async fn watching(server: &mut Script, connection: &Arc<HttpConnection>) -> Asked {
    connection.watch();
    connection.watch();
    let get = server.next().await;
    assert_eq!((get.method.as_str(), get.header("last-event-id")), ("GET", None));
    assert_eq!(get.header("mcp-session-id"), Some("s-1"));
    get.stream().await;
    get
}

#[tokio::test]
async fn what_comes_on_the_stream_goes_to_the_feed_or_to_its_call() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let get = watching(&mut server, &connection).await;
    get.event(Some("w-1"), &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    let feed = &connection.intake().feed;
    feed.ready().await;
    assert!(connection.is_watching());
    assert!(matches!(feed.drain().as_slice(), [FeedItem::Changed(List::Tools, _)]));

    let client = async {
        let mut exchange = tool(&connection);
        assert_eq!(step(&mut exchange).await, "ask 5 roots/list");
        // The answer comes on the wrong stream.
        assert_eq!(step(&mut exchange).await, r#"result {"wrong":"stream"}"#);
    };
    let ((), ()) = tokio::join!(client, async {
        let asked = server.next().await;
        get.event(None, &json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"})).await;
        get.event(None, &json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": {"wrong": "stream"}})).await;
        asked.stream().await;
        asked.finish().await;
    });
}

#[tokio::test]
async fn an_ask_out_of_the_blue_is_answered_through_the_feed() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let feed = connection.intake().feed.clone();
    feed.listen();
    let get = watching(&mut server, &connection).await;
    get.event(None, &json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"})).await;
    feed.ready().await;
    let mut items = feed.drain();
    let Some(FeedItem::Ask(ask, remote)) = items.pop() else { panic!("{items:?}") };
    assert!(remote.answer(ask.key, Answer::Result(raw(&json!({"roots": []})))));
    assert_eq!(server.next().await.body, json!({"jsonrpc": "2.0", "id": "r", "result": {"roots": []}}));
}

#[tokio::test]
async fn a_server_without_the_stream_is_not_asked_again() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    connection.watch();
    server.next().await.respond("405 Method Not Allowed", &[], "").await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        connection.watch();
        let asked = server.next().await;
        assert_eq!(asked.method, "POST");
        asked.json(&asked.result(&json!({}))).await;
    });
    assert_eq!(got, "result {}");
    assert!(!connection.is_watching());
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again_where_it_ended() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let get = watching(&mut server, &connection).await;
    get.piece("id: w-7\nretry: 100\ndata:\n\n").await;
    get.finish().await;
    let again = server.next().await;
    assert_eq!((again.method.as_str(), again.header("last-event-id")), ("GET", Some("w-7")));
    assert!(!connection.is_watching());
    again.stream().await;
    again.event(None, &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})).await;
    connection.intake().feed.ready().await;
    assert!(connection.is_watching());
    assert!(matches!(connection.intake().feed.drain().as_slice(), [FeedItem::Log(_)]));
}

#[tokio::test]
async fn without_a_cursor_the_lists_may_have_changed_meanwhile() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let get = watching(&mut server, &connection).await;
    get.piece("retry: 100\n\n").await;
    get.finish().await;
    let again = server.next().await;
    assert_eq!(again.header("last-event-id"), None);
    again.stream().await;
    connection.intake().feed.ready().await;
    assert!(matches!(connection.intake().feed.drain().as_slice(), [FeedItem::Changed(List::Tools, _)]));
}

#[tokio::test]
async fn closing_or_dropping_the_connection_closes_the_stream() {
    for close in [true, false] {
        let mut server = Script::start().await;
        let connection = legacy(&mut server).await;
        let get = watching(&mut server, &connection).await;
        if close {
            let ((), ()) = tokio::join!(connection.close(), async { server.next().await.accept().await });
        }
        drop(connection);
        server.closed(get.connection).await;
    }
}

#[tokio::test]
async fn a_stream_that_never_starts_does_not_keep_the_connection() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    connection.watch();
    let get = server.next().await;
    drop(connection);
    server.closed(get.connection).await;
}

#[tokio::test]
async fn a_session_found_gone_by_the_stream_is_opened_anew() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let get = watching(&mut server, &connection).await;
    get.piece("id: w-7\nretry: 100\ndata:\n\n").await;
    get.finish().await;
    server.next().await.respond("404 Not Found", &[], "").await;
    welcome(&mut server, "s-2").await;
    let again = server.next().await;
    assert_eq!((again.header("mcp-session-id"), again.header("last-event-id")), (Some("s-2"), None));
}
