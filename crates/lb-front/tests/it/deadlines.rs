use std::time::Duration;

use lb_exchange::{Command, End, Outcome};
use lb_front::Accept;
use lb_testkit::note;
use serde_json::json;

use crate::desk::*;

#[tokio::test(start_paused = true)]
async fn calls_end_by_their_deadline_and_the_server_is_told() {
    let middle = middle();
    middle.on("silent", |_, out| async move {
        match out.command().await {
            Command::Cancel(why) => assert_eq!(why, lb_exchange::Cancel::Deadline),
            other => panic!("{other:?}"),
        }
        End::ours(Outcome::Cancelled)
    });
    middle.on("chatty", |_, out| async move {
        loop {
            out.step(note("notifications/progress", &json!({}))).await;
            tokio::time::sleep(Duration::from_secs(200)).await;
        }
    });
    for method in ["tools/list", "resources/read", "prompts/get", "completion/complete"] {
        middle.on(method, |_, _| std::future::pending());
    }
    let client = Client { accept: Accept::Json, ..Client::seated(front(&middle), "2025-11-25", json!({})).await };
    let body = |method: &str| match method {
        "silent" | "chatty" => tool_call(1, method),
        _ => request(1, method, json!({})),
    };
    for (method, seconds) in [
        ("silent", 300),
        ("chatty", 3600),
        ("tools/list", 30),
        ("resources/read", 30),
        ("prompts/get", 30),
        ("completion/complete", 30),
    ] {
        let start = tokio::time::Instant::now();
        let (status, body) = json_of(client.post(&body(method)).await);
        assert_eq!(start.elapsed().as_secs(), seconds, "{method}");
        assert_eq!(
            (status, &body["error"]["code"], &body["error"]["data"]["reason"]),
            (200, &json!(-32603), &json!("timeout"))
        );
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(&format!("no answer within {seconds} s")), "{message}");
    }
    assert!(middle.log().contains(&"end silent".to_owned()), "it had its say: {:?}", middle.log());
    assert!(middle.log().contains(&"drop chatty".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_detached_call_keeps_its_deadline() {
    let middle = middle();
    middle.on("silent", |_, out| async move {
        out.step(note("notifications/1", &json!({}))).await;
        std::future::pending().await
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let mut frames = stream_of(client.call(1, "silent").await);
    let cursor = event_id(&frames.next().await.unwrap()).unwrap();
    drop(frames);
    let mut shown = rest(&mut stream_of(client.get(Some(&cursor)))).await;
    shown.retain(|frame| frame != "comment");
    assert_eq!(shown, ["error 1 -32603"]);
}
