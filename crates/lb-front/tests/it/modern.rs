use std::time::Duration;

use lb_front::{Accept, Headers, Reply};
use lb_testkit::{ask, error, modern_result, note, replay, result, wait_for_answer, wait_for_cancel};
use lb_wire::revision::Era;
use serde_json::{Value, json};

use crate::desk::*;

const VERSION: &str = "2026-07-28";

fn with_meta(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    message
}

fn headers<'a>(method: &'a str, name: Option<&'a str>) -> Headers<'a> {
    Headers {
        version: Some(VERSION.as_bytes()),
        method: Some(method.as_bytes()),
        name: name.map(str::as_bytes),
        ..Headers::default()
    }
}

async fn call(client: &Client, id: u64, tool: &str) -> Reply {
    let body = with_meta(tool_call(id, tool)).to_string();
    client.post_with(headers("tools/call", Some(tool)), &body).await
}

#[tokio::test(start_paused = true)]
async fn requests_are_checked_in_the_order_that_clients_rely_on() {
    let middle = middle();
    middle.on("unknown/method", |_, _| async { error(&json!({ "code": -32601, "message": "no" }), Era::Modern) });
    middle.on("bad", |_, _| async { error(&json!({ "code": -32602, "message": "no" }), Era::Modern) });
    middle.on("needs", |_, _| async { error(&json!({ "code": -32021, "message": "no" }), Era::Modern) });
    let client = Client::new(front(&middle));
    let list = with_meta(request(1, "tools/list", json!({})));
    let patched = |path: &str, value: Value| {
        let mut list = list.clone();
        *list.pointer_mut(path).unwrap() = value;
        list
    };
    let version = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
    let capabilities = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
    let good = headers("tools/list", None);
    let other = Headers { version: Some(b"v999.0.0"), ..good };
    let plain = |method: &str| with_meta(request(1, method, json!({})));
    for (what, headers, body, want) in [
        ("no _meta", good, request(1, "tools/list", json!({})), (400, -32602)),
        ("no version", good, patched(version, json!(1)), (400, -32602)),
        ("no capabilities", good, patched(capabilities, json!([])), (400, -32602)),
        ("no version, unknown header", other, request(1, "tools/list", json!({})), (400, -32602)),
        ("header differs", good, patched(version, json!("v999.0.0")), (400, -32020)),
        ("no header", Headers { version: None, ..good }, list.clone(), (400, -32020)),
        ("unknown version", other, patched(version, json!("v999.0.0")), (400, -32022)),
        ("no method header", Headers { method: None, ..good }, list.clone(), (400, -32020)),
        ("other method header", headers("prompts/list", None), list.clone(), (400, -32020)),
        ("method header in capitals", headers("TOOLS/LIST", None), list.clone(), (400, -32020)),
        ("no name header", headers("tools/call", None), with_meta(tool_call(1, "x")), (400, -32020)),
        ("other name header", headers("tools/call", Some("y")), with_meta(tool_call(1, "x")), (400, -32020)),
        ("initialize", headers("initialize", None), plain("initialize"), (404, -32601)),
        ("bare initialize", headers("initialize", None), request(1, "initialize", json!({})), (404, -32601)),
        ("ping", headers("ping", None), plain("ping"), (404, -32601)),
        ("setLevel", headers("logging/setLevel", None), plain("logging/setLevel"), (404, -32601)),
        ("subscribe", headers("resources/subscribe", None), plain("resources/subscribe"), (404, -32601)),
        ("unknown method", headers("unknown/method", None), plain("unknown/method"), (404, -32601)),
        ("bad params of a tool", headers("tools/call", Some("bad")), with_meta(tool_call(1, "bad")), (200, -32602)),
        ("missing capability", headers("tools/call", Some("needs")), with_meta(tool_call(1, "needs")), (400, -32021)),
        ("a response", good, json!({ "jsonrpc": "2.0", "id": 1, "result": {} }), (400, -32600)),
    ] {
        let reply = client.post_with(headers, &body.to_string()).await;
        let (status, body) = json_of(reply);
        assert_eq!((status, body["error"]["code"].as_i64().unwrap_or_default()), want, "{what}: {body}");
        assert_eq!(body["id"], 1, "{what}: errors echo the id");
        if what == "no version, unknown header" {
            let text = body["error"]["message"].as_str().unwrap_or_default();
            assert!(text.contains("unsupported protocol version"), "{body}");
            assert_eq!(body["error"]["data"]["requested"], "v999.0.0");
            assert!(body["error"]["data"]["supported"].as_array().is_some_and(|all| all.contains(&json!(VERSION))));
        }
        if want.1 == -32022 {
            assert_eq!(body["error"]["data"], json!({ "supported": [VERSION], "requested": "v999.0.0" }));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn good_requests_pass_with_or_without_encoding_and_padding() {
    let client = Client::new(front(&middle()));
    for (tool, name) in [("plain", "plain"), ("plain", "  plain  "), ("grün", "=?base64?Z3LDvG4=?=")] {
        let body = with_meta(tool_call(1, tool)).to_string();
        let (status, body) = json_of(client.post_with(headers("tools/call", Some(name)), &body).await);
        assert_eq!((status, &body["result"]["resultType"]), (200, &json!("complete")), "name {name:?}: {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_id_means_no_id_member() {
    let client = Client::new(front(&middle()));
    let (status, body) = json_of(client.post_with(headers("tools/list", None), "{").await);
    assert_eq!((status, &body["error"]["code"], body.get("id")), (400, &json!(-32700), None));
    let (status, body) = json_of(client.post_with(headers("tools/list", None), "[]").await);
    assert_eq!((status, &body["error"]["code"], body.get("id")), (400, &json!(-32600), None));
}

#[tokio::test(start_paused = true)]
async fn only_post_exists_and_notifications_are_taken() {
    let client = Client { version: Some(VERSION), ..Client::new(front(&middle())) };
    for reply in [client.get(None), client.front.delete(&client.request(client.headers()))] {
        let Reply::NotAllowed { allow: "POST", .. } = reply else { panic!("{reply:?}") };
    }
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(json_of(client.post(&cancelled).await).0, 202);
}

#[tokio::test(start_paused = true)]
async fn results_of_legacy_servers_gain_what_modern_clients_need() {
    let middle = middle();
    middle.on("tools/list", |_, _| async { result(&json!({ "tools": [] })) });
    middle.on("modern", |_, _| async { modern_result(&json!({ "anything": 1 })) });
    middle.on("resources/read", |_, _| async {
        error(&json!({ "code": -32002, "message": "gone", "data": { "uri": "x" } }), Era::Legacy)
    });
    let client = Client::new(front(&middle));
    let list = with_meta(request(1, "tools/list", json!({}))).to_string();
    let want = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [] });
    assert_eq!(json_of(client.post_with(headers("tools/list", None), &list).await).1["result"], want);
    assert_eq!(json_of(call(&client, 2, "modern").await).1["result"], json!({ "anything": 1 }), "untouched");
    let read = with_meta(request(3, "resources/read", json!({ "uri": "x" }))).to_string();
    assert_eq!(code_of(client.post_with(headers("resources/read", Some("x")), &read).await), (200, -32602));
}

#[tokio::test(start_paused = true)]
async fn closing_the_stream_cancels() {
    let middle = middle();
    middle.on("waits", |_, out| async move { wait_for_cancel(&out).await.1 });
    let client = Client::new(front(&middle));
    // Before the reply began.
    let early = tokio::time::timeout(Duration::from_millis(500), call(&client, 1, "waits")).await;
    assert!(early.is_err());
    assert_eq!(middle.log(), ["open waits", "drop waits"]);
    // After.
    let mut frames = stream_of(call(&client, 2, "waits").await);
    assert_eq!(show(&frames.next().await.unwrap()), "comment", "no priming, no ids");
    drop(frames);
    assert_eq!(middle.log(), ["open waits", "drop waits", "open waits", "drop waits"], "nothing was adopted");
}

#[tokio::test(start_paused = true)]
async fn modern_streams_carry_no_event_ids() {
    let middle = middle();
    middle.on("talks", |_, out| async move {
        out.step(note("notifications/progress", &json!({}))).await;
        modern_result(&json!({}))
    });
    let client = Client::new(front(&middle));
    let mut frames = stream_of(call(&client, 1, "talks").await);
    let frame = frames.next().await.unwrap();
    assert_eq!((show(&frame), event_id(&frame)), ("note notifications/progress".into(), None));
    assert_eq!(rest(&mut frames).await, ["result 1 {}"]);
}

#[tokio::test(start_paused = true)]
async fn errors_after_the_stream_began_are_in_band() {
    let middle = middle();
    middle.on("talks", |_, out| async move {
        out.step(note("notifications/progress", &json!({}))).await;
        error(&json!({ "code": -32601, "message": "no" }), Era::Modern)
    });
    let client = Client::new(front(&middle));
    let mut frames = stream_of(call(&client, 1, "talks").await);
    assert_eq!(rest(&mut frames).await, ["note notifications/progress", "error 1 -32601"]);
}

#[tokio::test(start_paused = true)]
async fn a_listen_is_a_stream_at_once_and_has_no_deadline() {
    let middle = middle();
    middle.on("subscriptions/listen", |_, out| async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        out.step(note("notifications/subscriptions/acknowledged", &json!({}))).await;
        tokio::time::sleep(Duration::from_secs(8 * 3600)).await;
        modern_result(&json!({ "resultType": "complete" }))
    });
    let client = Client::new(front(&middle));
    let listen = with_meta(request(1, "subscriptions/listen", json!({}))).to_string();
    let start = tokio::time::Instant::now();
    let mut frames = stream_of(client.post_with(headers("subscriptions/listen", None), &listen).await);
    assert_eq!((start.elapsed().as_millis(), frames.is_endless()), (0, true));
    let mut shown = rest(&mut frames).await;
    shown.retain(|frame| frame != "comment");
    assert_eq!(shown, ["note notifications/subscriptions/acknowledged", r#"result 1 {"resultType":"complete"}"#]);
}

#[tokio::test(start_paused = true)]
async fn live_asks_are_refused_and_replays_passed_on() {
    let middle = middle();
    middle.on("live", |_, out| async move {
        out.step(ask("k", "elicitation/create", &json!({}))).await;
        modern_result(&json!(wait_for_answer(&out).await))
    });
    middle.on("replay", |_, out| async move {
        out.step(replay("k", "elicitation/create", &json!({}))).await;
        modern_result(&json!({ "resultType": "input_required", "requestState": "s" }))
    });
    let client = Client::new(front(&middle));
    assert_eq!(json_of(call(&client, 1, "live").await).1["result"], r#"{"action":"cancel"}"#);
    let want = json!({ "resultType": "input_required", "requestState": "s" });
    assert_eq!(json_of(call(&client, 2, "replay").await).1["result"], want);
}

#[tokio::test(start_paused = true)]
async fn json_only_modern_clients_get_json() {
    let middle = middle();
    middle.on("talks", |_, out| async move {
        out.step(note("notifications/progress", &json!({}))).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        modern_result(&json!("x"))
    });
    let client = Client::new(front(&middle));
    let headers = Headers { accept: Accept::Json, ..headers("tools/call", Some("talks")) };
    let body = with_meta(tool_call(1, "talks")).to_string();
    assert_eq!(json_of(client.post_with(headers, &body).await).1["result"], "x");
}

#[tokio::test(start_paused = true)]
async fn session_headers_mean_nothing() {
    let client = Client::new(front(&middle()));
    let list = with_meta(request(1, "tools/list", json!({}))).to_string();
    let headers = Headers { session: Some(b"unknown"), ..headers("tools/list", None) };
    let Reply::Json { status: 200, session: None, .. } = client.post_with(headers, &list).await else { panic!() };
}
