//! Questions of servers: where they arrive, how they are answered or taken back, and what a waiting call says of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::desk::{Desk, FRONTS, Front, task_id};
use crate::world::{add, fixture, fixture_on_http, script};

/// The request ids in a list of pending requests.
fn ids(rows: &Value) -> Vec<String> {
    let rows = rows.as_array().into_iter().flatten();
    rows.filter_map(|row| row["requestId"].as_str().map(str::to_owned)).collect()
}

/// The text of a finished task.
async fn result(desk: &mut Desk, task: &str) -> String {
    desk.ok("get_task_result", json!({ "task_id": task })).await.text().to_owned()
}

#[tokio::test]
async fn what_a_program_says_arrives_where_it_belongs() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &script(&json!({})))).await;
        desk.settle().await;
        let log = json!({ "level": "error", "logger": "door", "data": { "open": true } });
        desk.text("s", "log", log).await;
        desk.text("s", "say", json!({ "to": "stderr", "text": "to stderr" })).await;
        desk.text("s", "say", json!({ "to": "stdout", "text": "no JSON at all" })).await;
        let mut logs = json!([]);
        for _ in 0..100 {
            logs = desk.ok("get_logs", json!({ "clear": false })).await.json();
            if logs.as_array().is_some_and(|rows| 3 <= rows.len()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let row = |source: &str| {
            let mut rows = logs.as_array().into_iter().flatten().filter(|row| row["source"] == source);
            rows.next().cloned().unwrap_or_else(|| panic!("{front:?}: no {source} in {logs}"))
        };
        let said = row("protocol");
        assert!(said["level"] == "error" && said["logger"] == "door" && said["data"]["open"] == true, "{said}");
        assert_eq!((&row("stderr")["data"], &row("stderr")["level"]), (&json!("to stderr"), &json!("warning")));
        assert_eq!((&row("stdout")["data"], &row("stdout")["level"]), (&json!("no JSON at all"), &json!("info")));
        let note = json!({ "method": "notifications/prompts/list_changed" });
        let reply = desk.client.call("execute_tool", json!({ "server": "s", "tool": "note", "args": note })).await;
        assert!(!reply.is_error(), "{reply}");
        desk.note(&reply);
        let note = desk.event("notification").await;
        assert_eq!(note["method"], "notifications/prompts/list_changed", "{front:?} {note}");
        assert!(!desk.told().contains("to stderr"), "logs are no events");
    }
}

#[tokio::test]
async fn questions_of_programs_and_remote_servers_are_answered_through_tools() {
    for (front, era, far) in [
        (Front::Stdio, "legacy", false),
        (Front::Http, "legacy", true),
        (Front::ModernHttp, "modern", true),
        (Front::ModernStdio, "modern", false),
        (Front::Http, "modern", true),
        (Front::ModernHttp, "legacy", true),
        (Front::ModernStdio, "legacy", false),
        (Front::Stdio, "modern", false),
    ] {
        let case = format!("{front:?} client, {era} server, remote: {far}");
        let remote = fixture_on_http(era).await;
        let entry = if far { json!({ "url": remote.url() }) } else { fixture(era) };
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &entry)).await;
        let start = Instant::now();
        let call =
            json!({ "server": "s", "tool": "test_elicitation", "args": { "message": "Who?" }, "timeout_ms": 120_000 });
        let reply = desk.ok("execute_tool", call).await;
        assert!(start.elapsed() < Duration::from_secs(5), "{case}: it waited");
        let waiting =
            &reply.objects().find(|(_, value)| value.get("waiting_for_input").is_some()).expect("a promotion").1;
        assert!(waiting["waiting_for_input"] == true && waiting["timeout"] == false, "{case} {reply}");
        assert!(reply.text().contains("respond_to_elicitation"), "{case} {reply}");
        let asked = desk.ok("get_elicitations", json!({})).await.json();
        assert!(
            asked[0]["message"] == "Who?" && asked[0]["mode"] == "form" && asked[0]["server"] == "s",
            "{case} {asked}"
        );
        let content = json!({ "username": "al", "email": "al@example.com" });
        let answer = json!({ "request_id": asked[0]["requestId"], "action": "accept", "content": content });
        let reply = desk.ok("respond_to_elicitation", answer).await;
        let all = reply.message.to_string();
        assert!(all.contains("Action accept with") && all.contains("al@example.com"), "{case} {reply}");

        let call =
            json!({ "server": "s", "tool": "test_sampling", "args": { "prompt": "Say it" }, "timeout_ms": 120_000 });
        let reply = desk.ok("execute_tool", call).await;
        assert!(reply.text().contains("respond_to_sampling"), "{case} {reply}");
        let asked = desk.ok("get_sampling_requests", json!({})).await.json();
        assert!(asked[0]["maxTokens"].is_u64() && asked[0]["messages"].is_array(), "{case} {asked}");
        let answer =
            json!({ "request_id": asked[0]["requestId"], "role": "assistant", "content": "here it is", "model": "m" });
        let reply = desk.ok("respond_to_sampling", answer).await;
        assert!(reply.message.to_string().contains("The model said: here it is"), "{case} {reply}");
        desk.works("s").await;
    }
}

#[tokio::test]
async fn a_question_taken_back_by_the_client_frees_the_server() {
    for front in FRONTS {
        let mut desk = Desk::open(front, json!({})).await;
        desk.ok("add_server", add("s", &script(&json!({})))).await;
        let task = task_id(&desk.run("s", "elicit", json!({})).await);
        let request = ids(&desk.ok("get_elicitations", json!({})).await.json()).remove(0);
        desk.ok("cancel_elicitation_request", json!({ "request_id": request, "reason": "no time" })).await;
        assert_eq!(result(&mut desk, &task).await, r#"{"action": "cancel"}"#, "{front:?}");
        let expired = desk.event("elicitation_expired").await;
        assert!(expired["requestId"] == request && expired["cause"] == "cancelled", "{expired}");
        let again = desk.call("cancel_elicitation_request", json!({ "request_id": request })).await;
        assert_eq!(again.code(), "REQUEST_NOT_FOUND", "{again}");

        let task = task_id(&desk.run("s", "sample", json!({})).await);
        let request = ids(&desk.ok("get_sampling_requests", json!({})).await.json()).remove(0);
        desk.ok("cancel_sampling_request", json!({ "request_id": request, "reason": "no money" })).await;
        let error: Value = serde_json::from_str(&result(&mut desk, &task).await).expect("JSON");
        assert!(
            error["code"] == -1 && error["message"].as_str().is_some_and(|text| text.contains("no money")),
            "{error}"
        );
        let expired = desk.event("sampling_expired").await;
        assert!(
            expired["requestId"] == request && expired["cause"] == "cancelled" && expired["reason"] == "no money",
            "{expired}"
        );
        desk.works("s").await;
    }
}

#[tokio::test]
async fn two_calls_that_wait_both_name_the_question_and_one_answer_ends_it() {
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    desk.ok("add_server", add("other", &script(&json!({})))).await;
    let slow = desk.start("s", "sleep", json!({ "ms": 3000 }), 1500).await;
    let asking = desk.start("s", "elicit", json!({ "message": "Which?" }), 1500).await;
    let apart = desk.start("other", "sleep", json!({ "ms": 3000 }), 1500).await;
    let (slow, asking, apart) = (slow.wait().await, asking.wait().await, apart.wait().await);
    let pending = |reply: &lb_peers::tools::Reply| {
        let found = reply.objects().find(|(_, value)| value.get("server_pending").is_some());
        found.unwrap_or_else(|| panic!("{reply}")).1["server_pending"].clone()
    };
    let request = ids(&pending(&asking)["elicitations"]);
    assert_eq!(request.len(), 1, "{asking}");
    assert_eq!(ids(&pending(&slow)["elicitations"]), request, "{slow}");
    assert!(ids(&pending(&apart)["elicitations"]).is_empty(), "another server's question: {apart}");
    for reply in [&slow, &asking, &apart] {
        desk.note(reply);
    }
    let answer = json!({ "request_id": request[0], "action": "accept", "content": { "name": "this" } });
    desk.ok("respond_to_elicitation", answer.clone()).await;
    assert!(result(&mut desk, &task_id(&asking)).await.contains("this"));
    assert_eq!(result(&mut desk, &task_id(&slow)).await, "slept");
    assert_eq!(desk.call("respond_to_elicitation", answer).await.code(), "REQUEST_NOT_FOUND");
}
