use lb_front::Accept;
use lb_testkit::{note, result};
use serde_json::{Value, json};

use crate::desk::*;

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_array_unless_something_must_be_streamed() {
    let middle = middle();
    middle.on("slow", |_, _| async {
        tokio::time::sleep(SECOND / 2).await;
        result(&json!("slow"))
    });
    middle.on("talks", |_, out| async move {
        out.step(note("notifications/1", &json!({}))).await;
        result(&json!("talks"))
    });
    let client = Client::seated(front(&middle), "2025-03-26", json!({})).await;
    let batch = json!([
        tool_call(1, "slow"),
        { "jsonrpc": "2.0", "id": 2, "method": 3 },
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        request(3, "ping", json!({})),
        request(4, "initialize", json!({})),
        request(5, "tools/list", json!({})),
    ]);
    let (status, body) = json_of(client.post(&batch).await);
    let mut shown: Vec<String> = body.as_array().unwrap().iter().map(short).collect();
    shown.sort();
    assert_eq!(status, 200);
    let want =
        ["error 2 -32600", "error 4 -32600", "result 1 \"slow\"", "result 3 {}", r#"result 5 {"method":"tools/list"}"#];
    assert_eq!(shown, want);
    assert!(
        middle.log().iter().position(|line| line.starts_with("note"))
            < middle.log().iter().position(|line| line == "open slow")
    );

    let mut frames = stream_of(
        client.post(&json!([tool_call(1, "slow"), tool_call(2, "talks"), request(3, "ping", json!({}))])).await,
    );
    let shown = rest(&mut frames).await;
    assert_eq!(shown, ["result 3 {}", "note notifications/1", "result 2 \"talks\"", "result 1 \"slow\""]);

    let json_only = Client { accept: Accept::Json, ..client.clone() };
    let (_, body) = json_of(json_only.post(&json!([tool_call(1, "slow"), tool_call(2, "talks")])).await);
    assert_eq!(body.as_array().map(Vec::len), Some(2));
    let notes = json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }]);
    assert_eq!(json_of(client.post(&notes).await), (202, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn batches_have_bounds() {
    let client = Client::seated(front(&middle()), "2025-03-26", json!({})).await;
    let many: Vec<Value> = (0..65).map(|id| request(id, "ping", json!({}))).collect();
    assert_eq!(code_of(client.post(&json!([])).await), (400, -32600));
    assert_eq!(code_of(client.post(&json!(many)).await), (400, -32600));
    assert_eq!(json_of(client.post(&json!(many[..64])).await).1.as_array().map(Vec::len), Some(64));
}
