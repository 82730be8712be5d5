//! HTTP+SSE: how a server of it is found, what the one stream carries, and what hostile ones are told.

use std::path::PathBuf;
use std::time::Duration;

use lb_exchange::{Answer, AskKey, Secret, ServerName, ServerSpec, Target, Transport};
use lb_wire::Text;
use serde_json::json;

use super::script::{Asked, Script};
use super::*;
use crate::connect::{Connection, EmbeddedServers, Environment, Server, Wish};

/// A server at the script's URL.
fn server(script: &Script, transport: Transport, init_timeout: Duration) -> Arc<Server> {
    let headers = vec![("x-key".to_owned(), Secret::new("k"))];
    let target = Target::Http { url: script.url(), headers };
    let plain = ServerSpec::new(ServerName::parse("it").unwrap(), target);
    let environment = Environment {
        supervisor: PathBuf::new(),
        embedded: Arc::new(EmbeddedServers::default()),
        tasks: Tasks::default(),
        children: crate::Children::new(1),
        logins: None,
        names: crate::Names::default(),
    };
    Server::new(Arc::new(ServerSpec { transport, init_timeout, ..plain }), environment).unwrap()
}

fn wish(revision: Revision) -> Wish {
    let caller = call(revision, "ping", &json!({})).caller;
    let (feed, tasks) = (Feed::default(), Tasks::default());
    Wish { caller, hello: None, feed, tasks, client_says_initialized: false }
}

const PATIENCE: Duration = Duration::from_secs(20);

/// Where the server of these tests wants messages.
const POST: &str = "/post?s=1";

/// Takes the GET and says where to post.
async fn opens(script: &mut Script, endpoint: &str) -> Asked {
    let stream = script.next().await;
    assert_eq!((stream.method.as_str(), stream.path.as_str()), ("GET", "/mcp"));
    assert_eq!((stream.header("accept"), stream.header("x-key")), (Some("text/event-stream"), Some("k")));
    stream.stream().await;
    stream.piece(&format!(": hello\n\nevent: endpoint\ndata: {endpoint}\n\n")).await;
    stream
}

/// The next message, accepted.
async fn posted(script: &mut Script, path: &str) -> Asked {
    let asked = script.next().await;
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", path));
    assert_eq!((asked.header("content-type"), asked.header("x-key")), (Some("application/json"), Some("k")));
    asked.respond("202 Accepted", &[], "Accepted").await;
    asked
}

/// Takes the GET and shakes hands over it.
async fn shakes(script: &mut Script) -> Asked {
    let stream = opens(script, POST).await;
    let asked = posted(script, POST).await;
    assert_eq!(asked.body["method"], "initialize");
    let result =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    stream.piece(&format!("event: message\ndata: {}\n\n", asked.result(&result))).await;
    assert_eq!(posted(script, POST).await.body["method"], "notifications/initialized");
    stream
}

/// A connection, and the GET that its stream answers.
async fn connected(script: &mut Script) -> (Arc<Connection>, Asked) {
    let server = server(script, Transport::Sse, PATIENCE);
    let wish = wish(LEGACY);
    let (connection, stream) = tokio::join!(server.connect(&wish), shakes(script));
    (connection.unwrap(), stream)
}

fn tool(connection: &Arc<Connection>) -> Exchange {
    let params = json!({"name": "t", "arguments": {}, "_meta": {"progressToken": "tok"}});
    connection.open(call(LEGACY, "tools/call", &params)).ok().unwrap()
}

#[tokio::test]
async fn the_stream_is_tried_where_nothing_takes_a_post_and_nowhere_else() {
    let modern = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"m"}}"#;
    let plain = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Method not allowed."}}"#;
    for (status, body, found) in [
        ("404 Not Found", "<html>Cannot POST /sse", true),
        ("405 Method Not Allowed", "", true),
        ("405 Method Not Allowed", plain, true),
        ("400 Bad Request", "no session", true),
        ("400 Bad Request", modern, false),
        ("401 Unauthorized", "", false),
        ("403 Forbidden", "", false),
        ("422 Unprocessable Entity", "", false),
        ("429 Too Many Requests", "", false),
        ("500 Internal Server Error", "", false),
        ("503 Service Unavailable", "", false),
        ("307 Temporary Redirect", "", false),
    ] {
        for revision in [LEGACY, MODERN] {
            let mut script = Script::start().await;
            let server = server(&script, Transport::Found, PATIENCE);
            let wish = wish(revision);
            let play = async {
                // A POST in each era, if the first did not say enough.
                let mut posts = 0;
                loop {
                    let asked = script.next().await;
                    if asked.method == "GET" {
                        asked.respond("418 I'm a teapot", &[], "").await;
                        return posts;
                    }
                    posts += 1;
                    asked.respond(status, &[("content-type", "application/json")], body).await;
                }
            };
            let case = format!("{revision} client, {status} {body}");
            tokio::select! {
                posts = play => assert!(found && posts == 2, "{case}: GET after {posts} POSTs"),
                connected = server.connect(&wish) => {
                    let error = connected.err().unwrap().to_string();
                    assert!(!found, "{case}: no GET, {error}");
                    assert!(status.split(' ').next().is_some_and(|code| error.contains(code)) || body == modern, "{case}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_was_found_is_remembered_until_it_is_something_else() {
    let mut script = Script::start().await;
    let server = server(&script, Transport::Found, PATIENCE);
    let refuse = async |script: &mut Script| {
        let asked = script.next().await;
        assert_eq!(asked.method, "POST");
        asked.respond("404 Not Found", &[], "").await;
    };
    let wish = wish(LEGACY);
    let (connection, _stream) = tokio::join!(server.connect(&wish), async {
        refuse(&mut script).await;
        refuse(&mut script).await;
        shakes(&mut script).await
    });
    assert_eq!(connection.unwrap().revision(), Revision::V2024_11_05);
    let (again, _stream) = tokio::join!(server.connect(&wish), shakes(&mut script));
    drop(again.unwrap());
    // It was replaced by one that speaks streamable HTTP.
    let (renewed, ()) = tokio::join!(server.connect(&wish), async {
        let asked = script.next().await;
        assert_eq!(asked.method, "GET");
        asked.respond("405 Method Not Allowed", &[], "").await;
        welcome(&mut script, "s-1").await;
    });
    assert_eq!(renewed.unwrap().revision(), LEGACY);
}

#[tokio::test]
async fn everything_comes_on_the_one_stream_and_goes_out_by_post() {
    let mut script = Script::start().await;
    let (connection, stream) = connected(&mut script).await;
    let mut exchange = tool(&connection);
    let asked = posted(&mut script, POST).await;
    assert_eq!(asked.body["method"], "tools/call");
    let params = json!({"progressToken": asked.body["params"]["_meta"]["progressToken"], "progress": 1});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    // Without a name it is a message, too, and the same place to post to is no news.
    stream.piece(&format!("data: {progress}\n\nevent: other\ndata: x\n\nevent: endpoint\ndata: {POST}\n\n")).await;
    assert_eq!(step(&mut exchange).await, r#"note notifications/progress {"progressToken":"tok","progress":1}"#);
    // One message may stand on several lines.
    stream
        .piece("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\ndata: \"method\":\"roots/list\"}\n\n")
        .await;
    assert_eq!(step(&mut exchange).await, r#"ask "q" roots/list"#);
    let key = AskKey(Text::from_static("\"q\""));
    assert!(exchange.remote().answer(key, Answer::Result(raw(&json!({"roots": []})))));
    let answered = async {
        let answer = posted(&mut script, POST).await;
        assert_eq!(answer.body, json!({"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}));
        stream.event(None, &serde_json::from_str(&asked.result(&json!({"content": []}))).unwrap()).await;
    };
    let (ended, ()) = tokio::join!(step(&mut exchange), answered);
    assert_eq!(ended, r#"result {"content":[]}"#);

    let exchange = tool(&connection);
    let asked = posted(&mut script, POST).await;
    drop(exchange);
    let cancelled = posted(&mut script, POST).await.body;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &asked.body["id"])
    );
    connection.close().await;
    script.closed(stream.connection).await;
}

#[tokio::test]
async fn calls_end_with_the_stream_and_another_connection_is_needed() {
    let mut script = Script::start().await;
    let (connection, stream) = connected(&mut script).await;
    let exchange = tool(&connection);
    posted(&mut script, POST).await;
    stream.finish().await;
    let ended = end(exchange).await;
    assert!(ended.starts_with("error -32603 \"backend_closed\"") && ended.contains("closed the connection"), "{ended}");
    assert!(connection.is_lost());
    assert!(connection.open(call(LEGACY, "tools/call", &json!({"name": "t"}))).is_err(), "it was not sent");
}

/// One call on a connection, and what it is told of what the server does to it.
async fn told(does: impl AsyncFnOnce(&mut Script, &Asked, Asked)) -> (String, bool) {
    let mut script = Script::start().await;
    let (connection, stream) = connected(&mut script).await;
    let exchange = tool(&connection);
    let asked = script.next().await;
    does(&mut script, &stream, asked).await;
    let told = tokio::time::timeout(PATIENCE, end(exchange)).await.expect("it ends");
    (told, connection.is_lost())
}

#[tokio::test]
async fn a_server_that_breaks_the_rules_later_is_told_so_and_left() {
    let (said, lost) = told(async |_, stream, asked| {
        asked.accept().await;
        stream.piece("event: endpoint\ndata: /elsewhere\n\n").await;
    })
    .await;
    assert!(
        lost && said.contains("somewhere else than it said first") && said.contains("\"backend_closed\""),
        "{said}"
    );

    let (said, lost) = told(async |script, stream, asked| {
        asked.accept().await;
        let flood = "x".repeat(1 << 20);
        stream.piece("data: ").await;
        // Only so much is held of what never ends; whoever writes on finds the connection closed.
        while !script.ended.contains(&stream.connection) {
            stream.piece(&flood).await;
            look_around().await;
            script.look();
        }
    })
    .await;
    assert!(lost && said.contains("longer than 16 MiB"), "{said}");

    let (said, lost) = told(async |_, _, asked| asked.respond("404 Not Found", &[], "no session").await).await;
    assert!(lost && said.contains("HTTP 404") && said.contains("the session is gone"), "{said}");
}

#[tokio::test]
async fn a_message_that_is_refused_ends_its_call_alone() {
    for (status, headers, want) in [
        ("500 Internal Server Error", vec![], "HTTP 500: oops"),
        ("400 Bad Request", vec![], "HTTP 400: oops"),
        ("401 Unauthorized", vec![], "authorization required"),
        ("307 Temporary Redirect", vec![("location", "http://other/x?k=1")], "it moved to http://other/x;"),
    ] {
        let (said, lost) = told(async |_, _, asked| asked.respond(status, &headers, "oops").await).await;
        assert!(said.contains(want) && !lost, "{status}: {said}");
    }
    let (said, lost) = told(async |_, _, asked| asked.hang_up().await).await;
    assert!(said.contains("it may have run the call") && !lost, "{said}");
    // Whatever else it says with its acceptance, the answer comes on the stream.
    let (said, _) = told(async |_, stream, asked| {
        asked.json(&asked.result(&json!({"content": ["not this"]}))).await;
        stream.event(None, &serde_json::from_str(&asked.result(&json!({"content": []}))).unwrap()).await;
    })
    .await;
    assert_eq!(said, r#"result {"content":[]}"#);
}

#[tokio::test]
async fn a_server_that_is_slow_to_accept_holds_nothing_up() {
    let mut script = Script::start().await;
    let (connection, stream) = connected(&mut script).await;
    let (one, two) = (tool(&connection), tool(&connection));
    // Neither is accepted before it is answered.
    let asked = [script.next().await, script.next().await];
    drop(one);
    let cancelled = script.next().await;
    assert_eq!(cancelled.body["method"], "notifications/cancelled");
    cancelled.accept().await;
    let kept = asked.iter().find(|asked| asked.body["id"] != cancelled.body["params"]["requestId"]).unwrap();
    stream.event(None, &serde_json::from_str(&kept.result(&json!({"content": []}))).unwrap()).await;
    assert_eq!(end(two).await, r#"result {"content":[]}"#);
}

#[tokio::test]
async fn what_cannot_be_used_is_told_when_connecting() {
    let short = Duration::from_millis(300);
    for (said, within, want) in [
        (
            "event: endpoint\ndata: http://other.example/post\n\n",
            PATIENCE,
            "posted to http://other.example, which is not",
        ),
        ("event: endpoint\ndata: https://127.0.0.1/post\n\n", PATIENCE, "posted to https://127.0.0.1, which is not"),
        ("event: endpoint\ndata: //127.0.0.1:1/post\n\n", PATIENCE, "posted to http://127.0.0.1:1, which is not"),
        ("event: endpoint\ndata: http://[\n\n", PATIENCE, "names no URL to post messages to"),
        ("data: {}\n\n: nothing else\n\n", short, "does not say within 0.3 s where to post"),
        ("event: endpoint\ndata: LONG\n\n", PATIENCE, "longer than 8 KiB"),
        ("END", PATIENCE, "its stream ended, before it said where to post"),
        ("event: endpoint\ndata: /post\n\n", short, "did not answer within 0.3 s"),
    ] {
        let mut script = Script::start().await;
        let server = server(&script, Transport::Sse, within);
        let wish = wish(LEGACY);
        let play = async {
            let stream = script.next().await;
            stream.stream().await;
            if said == "END" {
                return stream.finish().await;
            }
            stream.piece(&said.replace("LONG", &"x".repeat(9000))).await;
            script.closed(stream.connection).await;
        };
        let (connected, ()) = tokio::join!(server.connect(&wish), play);
        let error = connected.err().unwrap().to_string();
        assert!(error.contains(want), "{said:.60}: {error}");
    }
}

#[tokio::test]
async fn what_answers_the_get_is_told() {
    for (status, kind, body, want) in [
        ("200 OK", "text/html", "<html>", "something that is no stream of events"),
        ("404 Not Found", "text/html", "nothing here", "HTTP 404: nothing here"),
        ("401 Unauthorized", "text/html", "", "HTTP 401: authorization required"),
        ("503 Service Unavailable", "text/html", "later", "HTTP 503: later"),
    ] {
        let mut script = Script::start().await;
        let server = server(&script, Transport::Sse, PATIENCE);
        let wish = wish(LEGACY);
        let (connected, ()) = tokio::join!(server.connect(&wish), async {
            let asked = script.next().await;
            asked.respond(status, &[("content-type", kind)], body).await;
        });
        let error = connected.err().unwrap().to_string();
        assert!(error.contains(want), "{status}: {error}");
    }
}

#[tokio::test]
async fn a_stream_of_another_kind_leaves_what_the_server_said_first() {
    let mut script = Script::start().await;
    let server = server(&script, Transport::Found, Duration::from_millis(300));
    let wish = wish(LEGACY);
    let (connected, ()) = tokio::join!(server.connect(&wish), async {
        for _ in 0..2 {
            script.next().await.respond("400 Bad Request", &[], "no such revision").await;
        }
        let stream = script.next().await;
        stream.stream().await;
        stream.piece(": keep-alive\n\n").await;
        script.closed(stream.connection).await;
    });
    let error = connected.err().unwrap().to_string();
    assert!(error.contains("HTTP 400: no such revision"), "{error}");
}
