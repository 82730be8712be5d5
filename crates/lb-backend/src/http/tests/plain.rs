//! Calls that are answered with JSON, or not at all.

use lb_exchange::{Cancel, Secret, Tasks};
use serde_json::json;

use super::script::Script;
use super::*;

#[tokio::test]
async fn a_call_is_one_post_in_the_session_with_our_id_and_token() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/mcp"));
        for (name, want) in [
            ("mcp-session-id", "s-1"),
            ("mcp-protocol-version", "2025-11-25"),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ] {
            assert_eq!(asked.header(name), Some(want), "{name}");
        }
        assert_eq!(asked.header("host"), Some(server.url().trim_start_matches("http://").trim_end_matches("/mcp")));
        let params = json!({"name": "t", "arguments": {"x": 1}, "_meta": {"progressToken": 1}});
        assert_eq!(asked.body, json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        asked.json(r#"{"jsonrpc":"2.0","id":1,"result":{"odd" :[1.0, "\u00e9"]}}"#).await;
    });
    assert_eq!(got, r#"result {"odd" :[1.0, "\u00e9"]}"#);
    assert_eq!(connection.intake().calls.len(), 0);
}

#[tokio::test]
async fn warm_calls_share_one_connection_and_start_no_task() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let spawned = Tasks::spawned();
    for _ in 0..100 {
        let (got, ()) = tokio::join!(end(tool(&connection)), async {
            let asked = server.next().await;
            assert_eq!(asked.connection, 1);
            asked.json(&asked.result(&json!({}))).await;
        });
        assert_eq!(got, "result {}");
    }
    assert_eq!(Tasks::spawned(), spawned);
}

#[tokio::test]
async fn calls_at_once_have_connections_of_their_own() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (one, two, ()) = tokio::join!(end(tool(&connection)), end(tool(&connection)), async {
        let (first, second) = (server.next().await, server.next().await);
        assert_ne!(first.connection, second.connection);
        // One that is not answered does not hold up the other.
        second.json(&second.result(&json!({"n": 2}))).await;
        first.json(&first.result(&json!({"n": 1}))).await;
    });
    assert_eq!((one.as_str(), two.as_str()), (r#"result {"n":1}"#, r#"result {"n":2}"#));
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_is_replaced() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (_, asked) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        asked.json(&asked.result(&json!({}))).await;
        asked
    });
    asked.hang_up().await;
    look_around().await;
    // Our side closes too once it has looked at the socket, which it does when it wants to use it.
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        assert_eq!(asked.connection, 2);
        asked.json(&asked.result(&json!({"again": true}))).await;
    });
    assert_eq!(got, r#"result {"again":true}"#);
    assert_eq!(server.ended, [1]);
}

#[tokio::test]
async fn a_server_that_says_how_long_it_keeps_connections_is_believed() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    for want in [1, 2] {
        let (_, ()) = tokio::join!(end(tool(&connection)), async {
            let asked = server.next().await;
            assert_eq!(asked.connection, want);
            asked.respond("200 OK", &[("keep-alive", "timeout=1, max=100")], &asked.result(&json!({}))).await;
        });
    }
}

#[tokio::test]
async fn unused_connections_are_closed_after_a_minute() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    look_around().await;
    tokio::time::pause();
    tokio::time::advance(super::super::pool::IDLE_FOR).await;
    server.closed(1).await;
    drop(connection);
}

#[tokio::test]
async fn what_may_have_reached_the_server_is_not_sent_again() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        server.next().await.hang_up().await;
    });
    assert!(got.starts_with(r#"error -32603 "backend_closed""#), "{got}");
    // The next request that the server sees is the next call.
    let (_, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        assert_eq!(asked.body["id"], 2);
        asked.json(&asked.result(&json!({}))).await;
    });
}

#[tokio::test]
async fn a_server_that_dies_inside_its_answer_ends_the_call() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        asked.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"json").await;
        asked.hang_up().await;
    });
    assert!(got.starts_with(r#"error -32603 "backend_closed""#), "{got}");
}

#[tokio::test]
async fn bodies_are_whole_up_to_the_limit() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let text = "x".repeat(4 << 20);
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        asked.json(&asked.result(&json!({"text": text}))).await;
    });
    assert_eq!(got, format!("result {}", json!({"text": text})));
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        asked.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        for _ in 0..18 {
            asked.piece(&" ".repeat(1 << 20)).await;
        }
    });
    assert!(got.contains("longer than 16 MiB"), "{got}");
}

#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        let body = asked.result(&json!({"slow": true}));
        asked.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len())).await;
        for byte in body.bytes() {
            asked.write([byte]).await;
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(got, r#"result {"slow":true}"#);
}

#[tokio::test]
async fn error_statuses_are_told_in_the_words_of_the_server() {
    let rpc = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}"#;
    let anonymous = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"bad"}}"#;
    let rows = [
        ("401 Unauthorized", rpc, r#"error -32603 "authorization_required""#, "authorization required"),
        ("403 Forbidden", "", r#"error -32603 "authorization_required""#, "authorization required"),
        ("400 Bad Request", rpc, "error -32602 ", "no such tool"),
        ("400 Bad Request", anonymous, "error -32000 ", "bad"),
        ("500 Internal Server Error", "<h1>Oh\n no</h1>", r#"error -32603 "http_status""#, "HTTP 500: <h1>Oh no</h1>"),
        ("503 Service Unavailable", "", r#"error -32603 "http_status""#, "HTTP 503"),
        ("200 OK", "<html>", r#"error -32603 "no_answer""#, "does not answer the request"),
        ("202 Accepted", "", r#"error -32603 "no_answer""#, "answers nothing"),
    ];
    for (status, body, start, holds) in rows {
        let mut server = Script::start().await;
        let connection = legacy(&mut server).await;
        let (got, ()) = tokio::join!(end(tool(&connection)), async {
            server.next().await.respond(status, &[], body).await;
        });
        assert!(got.starts_with(start) && got.contains(holds), "{status} {body}: {got}");
        // Our own errors say whose fault it is.
        let called = format!("\"server \\\"it\\\" ({}): ", server.address());
        assert!(!start.contains("-32603") || got.contains(&called), "{status} {body}: {got}");
        assert_eq!(connection.intake().calls.len(), 0, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_but_told_without_its_query() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let to = [("location", "https://other.example/mcp?token=secret")];
        server.next().await.respond("307 Temporary Redirect", &to, "").await;
    });
    assert!(got.contains("HTTP 307: it moved to https://other.example/mcp; put the url"), "{got}");
}

#[tokio::test]
async fn configured_headers_go_with_every_request() {
    let mut server = Script::start().await;
    let headers = [("X-Api-Key".to_owned(), Secret::new("k")), ("Accept".to_owned(), Secret::new("text/html"))];
    let endpoint =
        Arc::new(Endpoint::new("it", &format!("{}?tenant=a", server.url()), &headers, Tasks::default()).unwrap());
    let (connected, ()) = tokio::join!(HttpConnection::legacy(endpoint, hello(), Feed::default()), async {
        let asked = server.next().await;
        assert_eq!(asked.path, "/mcp?tenant=a");
        assert_eq!(asked.header("x-api-key"), Some("k"));
        assert_eq!(asked.header("accept"), Some("application/json, text/event-stream"));
        asked.hang_up().await;
    });
    assert!(connected.is_err());
    for (url, headers) in [
        ("http://h/", vec![("bad name".to_owned(), Secret::new("v"))]),
        ("http://h/", vec![("good".to_owned(), Secret::new("line\nbreak"))]),
        ("ftp://h/", vec![]),
        ("not a url", vec![]),
    ] {
        assert!(Endpoint::new("it", url, &headers, Tasks::default()).is_err(), "{url}");
    }
}

#[tokio::test]
async fn nobody_there_is_said_so() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let url = server.url();
    // The listener goes away with its runtime task only at the end of the test, so another port is refused instead.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let endpoint = Arc::new(
        Endpoint::new("it", &format!("http://secret:secret@{free}/mcp?token=secret"), &[], Tasks::default()).unwrap(),
    );
    let error = HttpConnection::legacy(endpoint, hello(), Feed::default()).await.err().unwrap();
    let crate::error::EraError::Failed(error) = error else { panic!("{error:?}") };
    let text = error.to_string();
    assert!(text.starts_with(&format!("cannot connect to http://{free}/mcp: ")), "{text}");
    assert!(!text.contains("secret"), "{text}");
    drop((connection, url));
}

#[tokio::test]
async fn tls_to_a_server_that_has_none_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let endpoint = Arc::new(Endpoint::new("it", &url, &[], Tasks::default()).unwrap());
    let (error, ()) = tokio::join!(HttpConnection::modern(endpoint, None, Feed::default()), async {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    });
    let crate::error::EraError::Failed(error) = error.err().unwrap() else { panic!("an era was seen") };
    assert!(error.to_string().starts_with("cannot connect to https://"), "{error}");
}

#[tokio::test]
async fn a_cancelled_or_dropped_call_is_cancelled_at_the_server() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let mut exchange = tool(&connection);
    let asked = tokio::select! {
        _ = exchange.step() => panic!("no step yet"),
        asked = server.next() => asked,
    };
    exchange.remote().cancel(Cancel::Said(Some(raw(&json!("enough")))));
    assert_eq!(step(&mut exchange).await, "cancelled");
    let told = server.next().await;
    let params = json!({"requestId": asked.body["id"], "reason": "enough"});
    assert_eq!(told.body, json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    told.accept().await;
    drop(exchange);

    let mut exchange = tool(&connection);
    let asked = tokio::select! {
        _ = exchange.step() => panic!("no step yet"),
        asked = server.next() => asked,
    };
    drop(exchange);
    let told = server.next().await;
    assert_eq!(told.body["params"], json!({"requestId": asked.body["id"]}));
    assert_eq!(connection.intake().calls.len(), 0);
}

#[tokio::test]
async fn a_call_that_was_never_polled_says_nothing() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    drop(tool(&connection));
    connection.notify("notifications/roots/list_changed", None);
    assert_eq!(server.next().await.body["method"], "notifications/roots/list_changed");
}

#[tokio::test]
async fn requests_of_our_own_give_their_outcome() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(connection.request("tools/list", None), async {
        let asked = server.next().await;
        assert_eq!(asked.body, json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        asked.json(&asked.result(&json!({"tools": []}))).await;
    });
    assert!(matches!(got, Outcome::Result(result) if value(&result) == json!({"tools": []})));
}
