//! Calls that are answered with a stream of events.

use lb_exchange::{Answer, AskKey};
use lb_wire::Text;
use serde_json::json;

use super::super::running::STRAY_WAIT;
use super::script::Script;
use super::*;

fn progress(n: u32) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": n}})
}

fn done(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"done": true}})
}

#[tokio::test]
async fn progress_comes_in_order_before_the_result_and_the_connection_is_used_again() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let over = tokio::sync::Notify::new();
    let client = async {
        let mut exchange = tool(&connection);
        for n in 0..200 {
            let want = format!(r#"note notifications/progress {{"progress":{n},"progressToken":"tok"}}"#);
            let got = step(&mut exchange).await;
            let got = got.strip_prefix("note notifications/progress ").unwrap_or_else(|| panic!("{got}"));
            let got: Value = serde_json::from_str(got).unwrap();
            assert_eq!(got, json!({"progress": n, "progressToken": "tok"}), "{want}");
        }
        assert_eq!(step(&mut exchange).await, r#"result {"done":true}"#);
        over.notify_one();
    };
    let ((), ()) = tokio::join!(client, async {
        let asked = server.next().await;
        asked.stream().await;
        for n in 0..200 {
            asked.event(None, &progress(n)).await;
        }
        asked.event(None, &done(&asked.body["id"])).await;
        // The end of the body comes after the call is over.
        over.notified().await;
        asked.finish().await;
    });
    look_around().await;
    let (_, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        assert_eq!(asked.connection, 1);
        asked.json(&asked.result(&json!({}))).await;
    });
}

#[tokio::test]
async fn a_question_on_the_stream_is_answered_by_a_post() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let client = async {
        let mut exchange = tool(&connection);
        assert_eq!(step(&mut exchange).await, "ask \"q-1\" elicitation/create");
        let answer = Answer::Result(raw(&json!({"action": "accept", "content": {"a": 1}})));
        assert!(exchange.remote().answer(AskKey(Text::from("\"q-1\"")), answer));
        assert_eq!(step(&mut exchange).await, r#"result {"done":true}"#);
    };
    let ((), ()) = tokio::join!(client, async {
        let asked = server.next().await;
        asked.stream().await;
        asked.event(None, &json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
        let pong = server.next().await;
        assert_eq!(pong.body, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
        pong.accept().await;
        let params = json!({"message": "?", "requestedSchema": {}});
        asked
            .event(None, &json!({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": params}))
            .await;
        let answer = server.next().await;
        assert_eq!(answer.header("mcp-session-id"), Some("s-1"));
        let result = json!({"action": "accept", "content": {"a": 1}});
        assert_eq!(answer.body, json!({"jsonrpc": "2.0", "id": "q-1", "result": result}));
        answer.accept().await;
        asked.event(None, &done(&asked.body["id"])).await;
        asked.finish().await;
    });
}

#[tokio::test]
async fn a_stream_that_the_server_closes_early_is_resumed_when_somebody_is_back() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let client = async {
        let mut exchange = tool(&connection);
        assert_eq!(step(&mut exchange).await, "pause 3600000");
        exchange.remote().back();
        assert!(step(&mut exchange).await.starts_with("note notifications/progress"));
        // The second time nobody comes back, and the server's own time is short.
        assert_eq!(step(&mut exchange).await, "pause 5");
        assert_eq!(step(&mut exchange).await, r#"result {"done":true}"#);
    };
    let ((), ()) = tokio::join!(client, async {
        let asked = server.next().await;
        asked.stream().await;
        asked.piece("id: e-1\nretry: 3600000\ndata:\n\n").await;
        asked.finish().await;
        let first = server.next().await;
        assert_eq!((first.method.as_str(), first.header("last-event-id")), ("GET", Some("e-1")));
        assert_eq!(first.header("accept"), Some("text/event-stream"));
        assert_eq!(first.header("mcp-session-id"), Some("s-1"));
        assert_eq!((first.header("content-type"), first.header("content-length")), (None, None));
        first.stream().await;
        first.event(Some("e-2"), &progress(1)).await;
        first.piece("retry: 5\n\n").await;
        first.finish().await;
        let second = server.next().await;
        assert_eq!(second.header("last-event-id"), Some("e-2"));
        second.stream().await;
        second.event(Some("e-3"), &done(&asked.body["id"])).await;
        second.finish().await;
    });
}

#[tokio::test]
async fn a_stream_that_breaks_is_resumed_at_once_without_a_pause() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let client = async {
        let mut exchange = tool(&connection);
        assert!(step(&mut exchange).await.starts_with("note notifications/progress"));
        assert_eq!(step(&mut exchange).await, r#"result {"done":true}"#);
    };
    let ((), ()) = tokio::join!(client, async {
        let asked = server.next().await;
        asked.stream().await;
        asked.event(Some("e-1"), &progress(1)).await;
        // Half of an event is lost with the connection, and the server says it again.
        asked.piece("id: e-2\ndata: {\"jsonrpc\"").await;
        asked.hang_up().await;
        let again = server.next().await;
        assert_eq!((again.method.as_str(), again.header("last-event-id")), ("GET", Some("e-1")));
        again.stream().await;
        again.event(Some("e-2"), &done(&asked.body["id"])).await;
        again.finish().await;
    });
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_ends_the_call() {
    let rows: [(Option<&str>, Option<&str>, &str); 3] = [
        (Some("e-1"), Some("405 Method Not Allowed"), r#"error -32603 "backend_closed""#),
        (Some("e-1"), Some("404 Not Found"), r#"error -32603 "backend_closed""#),
        (None, None, r#"error -32603 "backend_closed""#),
    ];
    for (id, get, want) in rows {
        let mut server = Script::start().await;
        let connection = legacy(&mut server).await;
        let (got, ()) = tokio::join!(end(tool(&connection)), async {
            let asked = server.next().await;
            asked.stream().await;
            asked.event(id, &progress(1)).await;
            asked.hang_up().await;
            if let Some(status) = get {
                server.next().await.respond(status, &[], "").await;
            }
        });
        assert!(got.starts_with(want), "{id:?} {get:?}: {got}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_answer_or_cursor_ends_the_call() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        asked.stream().await;
        asked.event(None, &progress(1)).await;
        asked.finish().await;
    });
    assert!(got.starts_with(r#"error -32603 "backend_closed""#), "{got}");
}

#[tokio::test]
async fn answers_with_swapped_ids_reach_the_calls_they_name() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (one, two, ()) = tokio::join!(end(tool(&connection)), end(tool(&connection)), async {
        let (first, second) = (server.next().await, server.next().await);
        assert_eq!((&first.body["id"], &second.body["id"]), (&json!(1), &json!(2)));
        first.json(&second.result(&json!({"for": 2}))).await;
        // By now the second call is answered, and its own response is still to come.
        look_around().await;
        second.json(&first.result(&json!({"for": 1}))).await;
    });
    assert_eq!((one.as_str(), two.as_str()), (r#"result {"for":1}"#, r#"result {"for":2}"#));
}

/// With another call open, the answer may come with that one's; a response that is no answer at all says enough.
#[tokio::test(start_paused = true)]
async fn nonsense_ends_the_call_at_once_whatever_else_is_open() {
    let other = r#"{"jsonrpc":"2.0","id":77,"result":{}}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    for (body, wait_max) in
        [("<html>", 0), ("", 0), ("[]", 0), ("[1]", 0), ("{}", 0), (other, 0), (note, 0), ("SSE", 900)]
    {
        let mut server = Script::start().await;
        let connection = legacy(&mut server).await;
        connection.watch();
        let get = server.next().await;
        get.stream().await;
        let (mut slow, asked) = asked(&mut server, &connection).await;
        let start = tokio::time::Instant::now();
        let (got, ()) = tokio::join!(end(tool(&connection)), async {
            let asked = server.next().await;
            match body {
                "SSE" => {
                    asked.stream().await;
                    asked.finish().await;
                }
                _ => asked.json(body).await,
            }
        });
        let took = start.elapsed().as_millis();
        assert!(got.starts_with("error -32603 ") && took <= wait_max, "{body:?} after {took} ms: {got}");
        asked.json(&asked.result(&json!({}))).await;
        assert_eq!(step(&mut slow).await, "result {}");
    }
}

/// A call that the server has read.
async fn asked(server: &mut Script, connection: &Arc<HttpConnection>) -> (Exchange, super::script::Asked) {
    let mut exchange = tool(connection);
    let asked = tokio::select! {
        _ = exchange.step() => panic!("no step yet"),
        asked = server.next() => asked,
    };
    (exchange, asked)
}

/// The server sends the answer on the session's own stream, which is not known to be open yet.
#[tokio::test]
async fn an_answer_on_a_stream_that_just_opens_is_waited_for() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, sent) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        connection.watch();
        let get = server.next().await;
        asked.stream().await;
        asked.finish().await;
        // Its connection is used again once the call has read the end of the stream.
        for _ in 0..1000 {
            connection.notify("notifications/roots/list_changed", None);
            let note = server.next().await;
            note.accept().await;
            if note.connection == asked.connection {
                break;
            }
        }
        assert!(!connection.is_watching());
        get.stream().await;
        let sent = std::time::Instant::now();
        get.event(None, &done(&asked.body["id"])).await;
        sent
    });
    assert_eq!(got, r#"result {"done":true}"#);
    assert!(sent.elapsed() < STRAY_WAIT, "it is passed on when it comes: {:?}", sent.elapsed());
}

#[tokio::test]
async fn stale_answers_on_a_stream_are_passed_over() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        asked.stream().await;
        for id in [json!(77), json!("1"), json!("x")] {
            asked.event(None, &json!({"jsonrpc": "2.0", "id": id, "result": {"wrong": true}})).await;
        }
        asked.piece("data: no json\n\n: comment\n\nevent: other\ndata: {}\n\n").await;
        asked.event(None, &json!([progress(1), done(&asked.body["id"])])).await;
    });
    assert_eq!(got, r#"result {"done":true}"#);
}

#[tokio::test]
async fn a_list_change_takes_effect_before_the_result_that_follows_it() {
    let mut server = Script::start().await;
    let connection = legacy(&mut server).await;
    let mut exchange = tool(&connection);
    let (end, ()) = tokio::join!(exchange.step(), async {
        let asked = server.next().await;
        asked.stream().await;
        asked.event(None, &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
        asked.event(None, &done(&asked.body["id"])).await;
    });
    let Step::End(end) = end else { panic!("{end:?}") };
    assert_eq!(end.feed_mark, connection.intake().feed.mark());
    assert_eq!(end.feed_mark, 1);
}

#[tokio::test]
async fn what_a_calls_own_response_says_counts() {
    for streamed in [false, true] {
        let mut server = Script::start().await;
        let connection = legacy(&mut server).await;
        let heard = tokio::sync::Notify::new();
        let client = async {
            let mut exchange = tool(&connection);
            assert!(step(&mut exchange).await.starts_with("note notifications/progress"));
            heard.notify_one();
            end(exchange).await
        };
        let (one, two, ()) = tokio::join!(client, end(tool(&connection)), async {
            let (first, second) = (server.next().await, server.next().await);
            first.stream().await;
            first.event(None, &json!({"jsonrpc": "2.0", "id": second.body["id"], "result": {"wrong": true}})).await;
            first.event(None, &progress(1)).await;
            heard.notified().await;
            if streamed {
                second.stream().await;
                second.event(None, &done(&second.body["id"])).await;
                second.finish().await;
            } else {
                second.json(&second.result(&json!({"done": true}))).await;
            }
            first.event(None, &done(&first.body["id"])).await;
            first.finish().await;
        });
        assert_eq!((one.as_str(), two.as_str()), (r#"result {"done":true}"#, r#"result {"done":true}"#), "{streamed}");
    }
}
