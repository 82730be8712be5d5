//! Legacy sessions: opened, greeted, found gone, opened anew, ended.

use lb_exchange::FeedItem;
use serde_json::json;

use super::script::{Asked, Script};
use super::*;

async fn gone(asked: &Asked) {
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    asked.respond("404 Not Found", &[("content-type", "application/json")], body).await;
}

#[tokio::test]
async fn a_session_that_is_gone_is_opened_anew_inside_the_call() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    connection.initialized(None);
    server.next().await.accept().await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let first = server.next().await;
        gone(&first).await;
        welcome(&mut server, "s-2").await;
        let greeting = server.next().await;
        assert_eq!(greeting.body["method"], "notifications/initialized");
        assert_eq!(greeting.header("mcp-session-id"), Some("s-2"));
        greeting.accept().await;
        let again = server.next().await;
        assert_eq!((again.header("mcp-session-id"), &again.body), (Some("s-2"), &first.body));
        again.json(&again.result(&json!({"healed": true}))).await;
    });
    assert_eq!(got, r#"result {"healed":true}"#);
    assert!(matches!(connection.intake().feed.drain().as_slice(), [FeedItem::Up(1)]));
    assert!(!connection.is_lost());
}

#[tokio::test]
async fn a_400_that_names_the_session_means_the_same_and_any_other_does_not() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let no_session =
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        server.next().await.respond("400 Bad Request", &[], no_session).await;
        welcome(&mut server, "s-2").await;
        let again = server.next().await;
        again.json(&again.result(&json!({}))).await;
    });
    assert_eq!(got, "result {}");
    let other = r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"no session of that dentist"},"id":2}"#;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        server.next().await.respond("400 Bad Request", &[], other).await;
    });
    assert_eq!(got, "error -32602  \"no session of that dentist\"");
}

#[tokio::test]
async fn many_calls_open_one_new_session() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (one, two, ()) = tokio::join!(end(tool(&connection)), end(tool(&connection)), async {
        let (first, second) = (server.next().await, server.next().await);
        gone(&first).await;
        gone(&second).await;
        welcome(&mut server, "s-2").await;
        for _ in 0..2 {
            let again = server.next().await;
            assert_eq!(
                (again.body["method"].as_str(), again.header("mcp-session-id")),
                (Some("tools/call"), Some("s-2"))
            );
            again.json(&again.result(&json!({}))).await;
        }
    });
    assert_eq!((one.as_str(), two.as_str()), ("result {}", "result {}"));
}

#[tokio::test]
async fn a_second_404_is_the_answer_and_a_refused_session_ends_the_connection() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        gone(&server.next().await).await;
        welcome(&mut server, "s-2").await;
        gone(&server.next().await).await;
    });
    assert!(got.starts_with("error -32001 "), "{got}");
    assert!(!connection.is_lost());
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        gone(&server.next().await).await;
        server.next().await.respond("500 Internal Server Error", &[], "").await;
    });
    assert!(got.starts_with(r#"error -32603 "http_status""#), "{got}");
    assert!(connection.is_lost());
}

#[tokio::test]
async fn without_a_session_id_a_404_is_just_an_error() {
    let mut server = Script::start().await;
    let endpoint = endpoint(&server);
    let (connected, ()) = tokio::join!(HttpConnection::legacy(endpoint, hello(), Feed::default()), async {
        let asked = server.next().await;
        asked.json(&asked.result(&json!({"protocolVersion": "2025-03-26", "capabilities": {}}))).await;
    });
    let connection = connected.unwrap().0;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        assert_eq!((asked.header("mcp-session-id"), asked.header("mcp-protocol-version")), (None, None));
        asked.respond("404 Not Found", &[], "nothing here").await;
    });
    assert!(got.contains("HTTP 404: nothing here"), "{got}");
    connection.close().await;
}

#[tokio::test]
async fn calls_wait_until_the_server_has_heard_the_greeting() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    connection.initialized(Some(raw(&json!({"a": 1}))));
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let greeting = server.next().await;
        assert_eq!(greeting.body["params"], json!({"a": 1}));
        // Were the call on its way, it would be here by now.
        look_around().await;
        greeting.accept().await;
        let asked = server.next().await;
        assert_eq!(asked.body["method"], "tools/call");
        assert_eq!(asked.connection, 1, "it went out after the greeting");
        asked.json(&asked.result(&json!({}))).await;
    });
    assert_eq!(got, "result {}");
}

#[tokio::test]
async fn notifications_arrive_in_order() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    for n in 0..50 {
        connection.notify("notifications/n", Some(&raw(&json!({"n": n}))));
    }
    for n in 0..50 {
        let asked = server.next().await;
        assert_eq!(asked.body["params"]["n"], n);
        // Both are in use.
        asked.respond(if n % 2 == 0 { "202 Accepted" } else { "204 No Content" }, &[], "").await;
    }
}

#[tokio::test]
async fn closing_ends_open_calls_and_the_session() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let mut exchange = tool(&connection);
    tokio::select! {
        _ = exchange.step() => panic!("no step yet"),
        _ = server.next() => {}
    }
    let ((), ()) = tokio::join!(connection.close(), async {
        let asked = server.next().await;
        assert_eq!((asked.method.as_str(), asked.header("mcp-session-id")), ("DELETE", Some("s-1")));
        asked.respond("204 No Content", &[], "").await;
    });
    assert!(step(&mut exchange).await.starts_with(r#"error -32603 "backend_closed""#));
    assert!(connection.is_lost());
    assert!(end(tool(&connection)).await.starts_with(r#"error -32603 "backend_closed""#));
}

#[tokio::test]
async fn a_connection_that_rests_ends_its_session_once() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    assert!(connection.intake().calls.close_if_idle(&Raw::empty_object()), "nothing is under way");
    let ((), ()) = tokio::join!(connection.close(), async {
        let asked = server.next().await;
        assert_eq!(asked.method, "DELETE");
        asked.respond("204 No Content", &[], "").await;
    });
    connection.close().await;
}

#[tokio::test]
async fn a_dropped_connection_ends_its_session_too() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    drop(connection);
    assert_eq!(server.next().await.method, "DELETE");
}
