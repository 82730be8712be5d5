use std::sync::Arc;

use bytes::Bytes;
use lb_exchange::{Mount, Visitor};
use lb_front::Connection;
use lb_testkit::{ScriptedMiddle, ask, note, result, wait_for_answer, wait_for_cancel};
use serde_json::{Value, json};

use crate::desk::*;

fn connect(middle: &Arc<ScriptedMiddle>) -> Connection {
    front(middle).connection(Visitor::local(), Mount::Default)
}

fn send(connection: &mut Connection, message: &Value) {
    assert!(connection.wants_line());
    connection.take_line(Bytes::from(message.to_string()));
}

async fn line(connection: &mut Connection) -> Value {
    let outgoing = connection.next_line().await.expect("a line");
    serde_json::from_slice(outgoing.line.as_bytes()).expect("JSON")
}

async fn seated(middle: &Arc<ScriptedMiddle>, version: &str) -> Connection {
    let mut connection = connect(middle);
    let params = json!({ "protocolVersion": version, "capabilities": { "elicitation": {} } });
    send(&mut connection, &request(0, "initialize", params));
    assert!(!connection.wants_line(), "what comes next depends on the answer");
    assert_eq!(line(&mut connection).await["result"]["protocolVersion"], version);
    send(&mut connection, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    connection
}

fn modern(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    message
}

#[tokio::test(start_paused = true)]
async fn both_eras_share_a_connection() {
    let middle = middle();
    let mut connection = seated(&middle, "2025-11-25").await;
    send(&mut connection, &request(1, "tools/list", json!({})));
    assert_eq!(short(&line(&mut connection).await), r#"result 1 {"method":"tools/list"}"#);
    send(&mut connection, &modern(request(2, "tools/list", json!({}))));
    assert_eq!(line(&mut connection).await["result"]["resultType"], "complete");
    send(&mut connection, &request(3, "initialize", json!({ "protocolVersion": "2025-11-25" })));
    assert_eq!(short(&line(&mut connection).await), "error 3 -32600");
    connection.take_line(Bytes::from_static(b"{"));
    assert_eq!(short(&line(&mut connection).await), "error null -32700");
    assert_eq!(middle.log(), ["note notifications/initialized"]);
}

#[tokio::test(start_paused = true)]
async fn before_initialize_only_ping_and_modern_requests_are_answered() {
    let mut connection = connect(&middle());
    for (message, want) in [
        (request(1, "tools/list", json!({})), "error 1 -32600"),
        (request(2, "ping", json!({})), "result 2 {}"),
        (request(3, "server/discover", json!({})), "error 3 -32602"),
        (modern(request(4, "ping", json!({}))), "error 4 -32601"),
        (modern(request(5, "initialize", json!({}))), "error 5 -32601"),
    ] {
        send(&mut connection, &message);
        assert_eq!(short(&line(&mut connection).await), want);
    }
    let mut unknown = modern(request(6, "tools/list", json!({})));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("v9");
    send(&mut connection, &unknown);
    assert_eq!(short(&line(&mut connection).await), "error 6 -32022");
}

#[tokio::test(start_paused = true)]
async fn calls_run_side_by_side_with_asks_and_unasked_messages() {
    let middle = middle();
    middle.on("slow", |_, _| async {
        tokio::time::sleep(SECOND).await;
        result(&json!("slow"))
    });
    middle.on("asks", |_, out| async move {
        out.step(ask("k", "elicitation/create", &json!({}))).await;
        result(&json!(wait_for_answer(&out).await))
    });
    let mut connection = seated(&middle, "2025-06-18").await;
    send(&mut connection, &tool_call(1, "slow"));
    send(&mut connection, &tool_call(2, "asks"));
    assert_eq!(short(&line(&mut connection).await), "ask 1 elicitation/create");
    send(&mut connection, &json!({ "jsonrpc": "2.0", "id": 1, "result": { "a": 1 } }));
    assert_eq!(short(&line(&mut connection).await), r#"result 2 "{\"a\":1}""#);
    assert_eq!(short(&line(&mut connection).await), "result 1 \"slow\"");
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_no_request_comes_unasked() {
    let middle = middle();
    let mut connection = connect(&middle);
    send(&mut connection, &request(0, "initialize", json!({ "protocolVersion": "2025-06-18" })));
    line(&mut connection).await;
    let seat = middle.only_seat().unwrap();
    assert!(!seat.say(note("notifications/early", &json!({}))), "not before the client is ready");
    send(&mut connection, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert!(seat.say(note("notifications/x", &json!({}))));
    assert_eq!(short(&line(&mut connection).await), "note notifications/x");
}

#[tokio::test(start_paused = true)]
async fn cancelling_works_in_both_eras() {
    let middle = middle();
    middle.on("waits", |_, out| async move { wait_for_cancel(&out).await.1 });
    let mut connection = seated(&middle, "2025-06-18").await;
    send(&mut connection, &tool_call(1, "waits"));
    send(&mut connection, &modern(tool_call(2, "waits")));
    for id in [1, 2] {
        let params = json!({ "requestId": id });
        send(&mut connection, &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }
    send(&mut connection, &request(3, "ping", json!({})));
    assert_eq!(short(&line(&mut connection).await), "result 3 {}");
    connection.finish();
    assert!(connection.next_line().await.is_none(), "nothing is said about cancelled calls");
    assert_eq!(middle.log().iter().filter(|line| *line == "end waits").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn batches_are_answered_by_one_line() {
    let middle = middle();
    middle.on("talks", |_, out| async move {
        out.step(note("notifications/1", &json!({}))).await;
        result(&json!("talks"))
    });
    let mut connection = seated(&middle, "2025-03-26").await;
    send(&mut connection, &json!([tool_call(1, "talks"), request(2, "ping", json!({})), { "id": 3 }]));
    assert_eq!(short(&line(&mut connection).await), "note notifications/1");
    let answers = line(&mut connection).await;
    let mut shown: Vec<String> = answers.as_array().unwrap().iter().map(short).collect();
    shown.sort();
    assert_eq!(shown, ["error 3 -32600", "result 1 \"talks\"", "result 2 {}"]);
    let mut newer = seated(&middle, "2025-11-25").await;
    send(&mut newer, &json!([request(2, "ping", json!({}))]));
    assert_eq!(short(&line(&mut newer).await), "error null -32600");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_input_lets_calls_finish_for_a_while_then_ends_the_session() {
    let middle = middle();
    middle.on("slow", |_, _| async {
        tokio::time::sleep(5 * SECOND).await;
        result(&json!("slow"))
    });
    middle.on("stuck", |_, _| std::future::pending());
    let mut connection = seated(&middle, "2025-06-18").await;
    send(&mut connection, &tool_call(1, "slow"));
    send(&mut connection, &tool_call(2, "stuck"));
    connection.finish();
    assert!(!connection.wants_line());
    let start = tokio::time::Instant::now();
    assert_eq!(short(&line(&mut connection).await), "result 1 \"slow\"");
    let cut_off = line(&mut connection).await;
    assert_eq!((&cut_off["id"], &cut_off["error"]["data"]["reason"]), (&json!(2), &json!("shutdown")), "{cut_off}");
    assert!(connection.next_line().await.is_none());
    assert_eq!(start.elapsed().as_secs(), 10);
    let log = middle.log();
    assert!(log.contains(&"drop stuck".to_owned()) && log.contains(&"session end".to_owned()), "{log:?}");
}

/// A client that listened had to kill the process, because the grace was spent on a request that never ends.
#[tokio::test(start_paused = true)]
async fn a_listen_does_not_hold_up_the_end() {
    let middle = middle();
    middle.on("subscriptions/listen", |_, _| std::future::pending());
    let mut connection = connect(&middle);
    send(&mut connection, &modern(request(1, "subscriptions/listen", json!({ "notifications": {} }))));
    connection.finish();
    let start = tokio::time::Instant::now();
    assert!(connection.next_line().await.is_none());
    assert_eq!(start.elapsed().as_secs(), 0);
    assert!(middle.log().contains(&"drop subscriptions/listen".to_owned()), "{:?}", middle.log());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_connection_cancels_everything() {
    let middle = middle();
    middle.on("stuck", |_, _| std::future::pending());
    let mut connection = seated(&middle, "2025-06-18").await;
    send(&mut connection, &tool_call(1, "stuck"));
    drop(connection);
    let log = middle.log();
    assert!(log.contains(&"drop stuck".to_owned()) && log.contains(&"session end".to_owned()), "{log:?}");
    assert!(!log.contains(&"adopt".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_from() {
    let mut connection = connect(&middle());
    let mut taken = 0;
    while connection.wants_line() {
        send(&mut connection, &request(taken, "ping", json!({})));
        taken += 1;
        assert!(taken < 1_000);
    }
    assert_eq!(taken, 64);
}
