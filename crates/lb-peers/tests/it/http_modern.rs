//! The modern wire over HTTP.

use lb_peers::raw::http::{headers, modern_headers, post_headers};
use serde_json::{Value, json};

use crate::driver::{Http, message, meta, request, text_of};

#[tokio::test]
async fn closing_the_connection_stops_the_tool_before_and_after_the_response_began() {
    let server = Http::start(&["--era", "modern"]).await;
    let (headers, mut body) = Http::modern_call(1, "sleep", json!({ "ms": 600_000 }), &json!({}));
    let silent = server.open("POST", &headers, &body).await;
    // The call runs as soon as the server counts it.
    let (counters, counting) = Http::modern_call(2, "counters", json!({}), &json!({}));
    while server.post(&counters, &counting).await.1["result"]["structuredContent"]["sleep"]["started"] != 1 {
        tokio::task::yield_now().await;
    }
    drop(silent);
    server.until_cancelled("sleep", 1).await;

    body["params"]["_meta"]["progressToken"] = "p".into();
    let mut streaming = server.open("POST", &headers, &body).await;
    assert!(streaming.head().await.unwrap().is_sse());
    assert_eq!(message(&mut streaming).await.unwrap()["params"]["progress"], 100);
    drop(streaming);
    server.until_cancelled("sleep", 2).await;
}

#[tokio::test]
async fn a_lone_result_is_json_and_notifications_make_a_stream_without_ids() {
    let server = Http::start(&["--era", "modern"]).await;
    let (headers, body) = Http::modern_call(1, "echo", json!({ "message": "hi" }), &json!({}));
    let (status, answer) = server.post(&headers, &body).await;
    assert_eq!((status, text_of(&answer["result"])), (200, "hi"));

    let (headers, mut body) = Http::modern_call(2, "progress_burst", json!({ "count": 200 }), &json!({}));
    body["params"]["_meta"]["progressToken"] = 4.into();
    let response = server.connect().await.post("/mcp", &headers, body.to_string().as_bytes()).await.unwrap();
    assert!(response.head.header("mcp-session-id").is_none());
    let events = response.events();
    assert!(events.iter().all(|event| event.id.is_none()));
    let messages: Vec<Value> = events.iter().map(|event| serde_json::from_str(&event.text()).unwrap()).collect();
    let steps: Vec<_> = messages.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(steps, (1..=200).collect::<Vec<_>>());
    assert_eq!(messages.len(), 201);
    assert_eq!(messages.last().unwrap()["id"], 2);
}

#[tokio::test]
async fn a_listen_stream_hears_of_resources_and_tools() {
    let server = Http::start(&[]).await;
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://watched-resource"] });
    let params = json!({ "notifications": filter, "_meta": meta(&json!({})) });
    let body = request(1_700_000_000_000, "subscriptions/listen", &params);
    let mut listen = server.open("POST", &modern_headers("subscriptions/listen", None), &body).await;
    assert!(listen.head().await.unwrap().is_sse());
    assert_eq!(message(&mut listen).await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    for (tool, method) in [
        ("test_trigger_prompt_change", None),
        ("touch_resource", Some("notifications/resources/updated")),
        ("change_tools", Some("notifications/tools/list_changed")),
    ] {
        let arguments = json!({ "uri": "test://watched-resource" });
        let (headers, body) = Http::modern_call(2, tool, arguments, &json!({}));
        assert_eq!(server.post(&headers, &body).await.0, 200);
        if let Some(method) = method {
            let notice = message(&mut listen).await.unwrap();
            assert_eq!(notice["method"], method);
            assert_eq!(notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1_700_000_000_000_u64);
        }
    }
}

#[tokio::test]
async fn headers_must_agree_with_the_body() {
    let server = Http::start(&[]).await;
    let (good, body) = Http::modern_call(1, "test_custom_header", json!({ "value": "Hello" }), &json!({}));
    let with = |extra: &[(&str, &str)]| {
        let mut all = good.clone();
        all.extend(headers(extra));
        all
    };
    let without = |name: &str| good.iter().filter(|(known, _)| known != name).cloned().collect::<Vec<_>>();
    let value = ("Mcp-Param-Value", "Hello");
    for (case, headers, status) in [
        ("literal", with(&[value]), 200),
        ("base64", with(&[("mcp-param-value", "=?base64?SGVsbG8=?=")]), 200),
        ("bad base64", with(&[("Mcp-Param-Value", "=?base64?SGVsbG8?=")]), 400),
        ("other value", with(&[("Mcp-Param-Value", "Bye")]), 400),
        ("no value", good.clone(), 400),
        ("no method", without("Mcp-Method"), 400),
        ("no name", without("Mcp-Name"), 400),
        ("no version", without("MCP-Protocol-Version"), 400),
    ] {
        let (got, answer) = server.post(&headers, &body).await;
        assert_eq!(got, status, "{case}: {answer}");
        if status == 400 {
            assert_eq!(answer["error"]["code"], -32020, "{case}");
        }
    }
}

#[tokio::test]
async fn a_modern_server_has_no_sessions() {
    let server = Http::start(&["--era", "modern"]).await;
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    let (status, answer) = server.post(&post_headers(), &request(3, "initialize", &params)).await;
    assert_eq!((status, &answer["error"]["code"], &answer["id"]), (404, &json!(-32601), &json!(3)));
    assert_eq!(answer["error"]["data"]["supported"], json!(["2026-07-28"]));
    for method in ["GET", "DELETE"] {
        let answer = server.connect().await.request(method, "/mcp", &post_headers(), b"").await.unwrap();
        assert_eq!(answer.head.status(), 405, "{method}");
    }
    let (status, answer) = server.post(&post_headers(), &request(3, "tools/list", &json!({}))).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32602)));
}

#[tokio::test]
async fn an_unread_stream_holds_up_nobody() {
    let server = Http::start(&[]).await;
    let params = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta(&json!({})) });
    let body = request(1, "subscriptions/listen", &params);
    let _unread = server.open("POST", &modern_headers("subscriptions/listen", None), &body).await;
    let mut client = server.connect().await;
    for id in 0..300 {
        let (headers, body) = Http::modern_call(id, "test_trigger_tool_change", json!({}), &json!({}));
        let answer = client.post("/mcp", &headers, body.to_string().as_bytes()).await.unwrap();
        assert_eq!(answer.head.status(), 200);
    }
}
