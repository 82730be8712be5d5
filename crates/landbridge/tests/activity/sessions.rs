//! Sessions: what happens in one stays there.

use std::time::Instant;

use serde_json::json;

use crate::world::{self, count, drain, execute, gateway, promoted, question, until};

#[tokio::test]
async fn ending_a_session_twice_is_ending_it_once() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let other = world::http(&gateway).await;
    assert_eq!(client.end().await, 200);
    assert_eq!(client.end().await, 404);
    assert_eq!(client.end().await, 404);
    let next = other.call("list_servers", json!({})).await;
    assert!(!next.is_error() && next.rpc_error().is_none(), "{next}");
}

#[tokio::test]
async fn a_new_server_is_told_once_to_every_other_session() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let others = [world::http(&gateway).await, world::http(&gateway).await];
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/activity/server.py");
    let added = client.call("add_server", json!({ "name": "new", "command": "python3", "args": [script] })).await;
    assert!(!added.is_error(), "{added}");
    let again = client.call("add_server", json!({ "name": "new", "command": "python3", "args": [script] })).await;
    assert!(!again.is_error(), "{again}");
    for other in others {
        let told = until(&other, "server_added").await;
        let mut told_later = drain(&other).await;
        told_later.extend(told);
        assert_eq!(count(&told_later, "server_added"), 1, "{told_later:?}");
    }
    let mut own = added.events();
    own.extend(drain(&client).await);
    assert_eq!(count(&own, "server_added"), 0, "{own:?}");
}

#[tokio::test]
async fn a_notification_in_one_session_is_not_seen_in_another() {
    let gateway = gateway().await;
    let (client, other) = (world::http(&gateway).await, world::http(&gateway).await);
    execute(&client, "one", "later", json!({ "ms": 100 })).await;
    assert_eq!(count(&until(&client, "notification").await, "notification"), 1);
    assert!(drain(&other).await.is_empty());
    assert_eq!(other.call("get_notifications", json!({})).await.json(), json!([]));
}

#[tokio::test]
async fn a_question_is_seen_by_the_session_whose_call_asked() {
    let gateway = gateway().await;
    let (client, other) = (world::http(&gateway).await, world::http(&gateway).await);
    let running = client.start("execute_tool", json!({ "server": "one", "tool": "elicit" })).await;
    let request = question(&client, "get_elicitations").await;
    let seen = other.call("get_elicitations", json!({})).await;
    assert_eq!(seen.json(), json!([]));
    assert!(seen.context().is_none(), "{seen}");
    let foreign =
        other.call("respond_to_elicitation", json!({ "request_id": request, "action": "accept", "content": {} }));
    assert_eq!(foreign.await.code(), "REQUEST_NOT_FOUND");
    let own = client.call("respond_to_elicitation", json!({ "request_id": request, "action": "decline" })).await;
    assert!(!own.is_error(), "{own}");
    // The answer is in the call's own reply, or in this one if the call had become a task by then.
    let replies = format!("{own}{}", running.wait().await);
    assert!(replies.contains("decline"), "{replies}");
    let (_, task) = promoted(&client, "slow", json!({ "ms": 2_000 })).await;
    assert_eq!(other.call("get_task", json!({ "task_id": task })).await.code(), "TASK_NOT_FOUND");
}

#[tokio::test]
async fn questions_of_a_removed_server_go_and_no_others() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let first = client.start("execute_tool", json!({ "server": "one", "tool": "elicit" })).await;
    let second = client.start("execute_tool", json!({ "server": "two", "tool": "elicit" })).await;
    let start = Instant::now();
    loop {
        let rows = client.call("get_elicitations", json!({})).await.json();
        if rows.as_array().is_some_and(|rows| rows.len() == 2) {
            break;
        }
        assert!(start.elapsed() < world::PATIENCE, "{rows}");
    }
    first.wait().await;
    second.wait().await;
    let removed = client.call("remove_server", json!({ "name": "one" })).await;
    assert!(!removed.is_error());
    let mut told = removed.events();
    told.extend(drain(&client).await);
    let expired: Vec<_> = told.iter().filter(|event| event["type"] == "elicitation_expired").collect();
    assert_eq!(expired.len(), 1, "{told:?}");
    assert_eq!((&expired[0]["server"], &expired[0]["data"]["cause"]), (&json!("one"), &json!("server_removed")));
    let failed: Vec<_> = told.iter().filter(|event| event["type"] == "task_failed").collect();
    assert_eq!(failed.len(), 1, "{told:?}");
    assert!(failed[0]["data"]["error"].to_string().contains("Server removed"), "{}", failed[0]);
    let left = client.call("get_elicitations", json!({})).await.json();
    assert_eq!((left.as_array().map(Vec::len), &left[0]["server"]), (Some(1), &json!("two")));
}

/// Whoever comes last wins, and both sessions have the same server.
#[tokio::test]
async fn two_sessions_that_define_the_same_name_agree_afterwards() {
    let gateway = gateway().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/activity/server.py");
    let (first, second) = (world::http(&gateway).await, world::http(&gateway).await);
    for round in 0..5 {
        let name = format!("same{round}");
        let define = |who: &str| json!({ "name": name, "command": "python3", "args": [script, who] });
        let (one, other) =
            (first.start("add_server", define("a")).await, second.start("add_server", define("b")).await);
        let (one, other) = (one.wait().await, other.wait().await);
        assert!(!one.is_error() || !other.is_error(), "one of them wins: {one} {other}");
        let mut answers = Vec::new();
        for client in [&first, &second] {
            let start = Instant::now();
            let said = loop {
                let reply = execute(client, &name, "who", json!({})).await;
                if !reply.is_error() {
                    break reply.text().to_owned();
                }
                assert!(start.elapsed() < world::PATIENCE, "{reply}");
            };
            answers.push(said);
        }
        assert_eq!(answers[0], answers[1], "round {round}");
        assert!(["a", "b"].contains(&answers[0].as_str()), "{answers:?}");
        let rows = first.call("list_servers", json!({})).await.json();
        let rows = rows.as_array().expect("rows").iter().filter(|row| row["name"] == *name).count();
        assert_eq!(rows, 1);
    }
}
