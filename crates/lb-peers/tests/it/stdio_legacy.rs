//! The legacy wire over stdio.

use serde_json::{Value, json};

use crate::driver::{Stdio, TOOLS, answer_to, asking_tools, obliging, text_of};

#[tokio::test]
async fn initialize_echoes_a_known_version_and_offers_the_latest_otherwise() {
    for (wanted, got) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut peer = Stdio::start(&[]);
        let answer = peer.initialize(wanted, json!({})).await;
        assert_eq!(answer["result"]["protocolVersion"], got, "{wanted}");
        assert!(answer["result"]["capabilities"]["completions"].is_object());
        assert_eq!(peer.ask("ping", json!({})).await["result"], json!({}));
    }
}

#[tokio::test]
async fn every_tool_is_listed_in_order() {
    let mut peer = Stdio::legacy(json!({})).await;
    let answer = peer.ask("tools/list", json!({})).await;
    let names: Vec<_> = answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, TOOLS);
    assert!(answer["result"].get("resultType").is_none(), "a modern field on the legacy wire");
}

/// Answers questions until the response comes; returns it and the methods asked, in order.
async fn oblige(peer: &mut Stdio, id: u64) -> (Value, Vec<String>) {
    let mut asked = Vec::new();
    loop {
        let message = peer.receive().await;
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(ask)) => {
                let answer = json!({ "jsonrpc": "2.0", "id": ask, "result": answer_to(method) });
                asked.push(method.to_owned());
                peer.send(&answer).await;
            }
            (Some(_), None) => {}
            (None, _) => {
                assert_eq!(message["id"], id);
                return (message, asked);
            }
        }
    }
}

#[tokio::test]
async fn interactive_tools_ask_by_server_requests() {
    let mut peer = Stdio::legacy(obliging()).await;
    let tasks = [
        ("confirm_delete", json!({ "filename": "f.txt" }), vec![vec!["elicitation/create"]], "Deleted f.txt"),
        ("multi_input", json!({}), vec![vec!["elicitation/create", "elicitation/create"]], "Alice"),
        ("test_tool_with_task", json!({}), vec![vec!["elicitation/create"]], "Alice"),
    ];
    for (tool, arguments, rounds, word) in asking_tools().into_iter().chain(tasks) {
        let id = peer.post("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let (answer, asked) = oblige(&mut peer, id).await;
        assert_eq!(asked, rounds.concat(), "{tool}");
        assert!(text_of(&answer["result"]).contains(word), "{tool}: {answer}");
        assert!(answer["result"].get("isError").is_none(), "{tool}: {answer}");
    }
    let id = peer.post("prompts/get", json!({ "name": "test_input_required_result_prompt" })).await;
    let (answer, asked) = oblige(&mut peer, id).await;
    assert_eq!(asked, ["elicitation/create"]);
    assert!(answer["result"]["messages"][0]["content"]["text"].as_str().unwrap().contains("ctx"));
}

#[tokio::test]
async fn without_the_capability_a_tool_fails_readably_and_a_prompt_with_an_error() {
    let mut peer = Stdio::legacy(json!({ "elicitation": { "url": {} } })).await;
    for tool in ["test_missing_capability", "test_input_required_result_elicitation", "multi_input"] {
        let answer = peer.ask("tools/call", json!({ "name": tool })).await;
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
    }
    let answer = peer.ask("prompts/get", json!({ "name": "test_input_required_result_prompt" })).await;
    assert_eq!(answer["error"]["code"], -32603);
}

#[tokio::test]
async fn cancelling_stops_the_tool_and_leaves_its_request_unanswered() {
    let mut peer = Stdio::legacy(json!({})).await;
    let params = json!({ "name": "sleep", "arguments": { "ms": 600_000 }, "_meta": { "progressToken": 7 } });
    let id = peer.post("tools/call", params).await;
    let progress = peer.receive().await;
    assert_eq!(progress["params"], json!({ "progressToken": 7, "progress": 100, "total": 600_000 }));
    peer.cancel(id).await;
    for _ in 0..500 {
        let counters = peer.post("tools/call", json!({ "name": "counters" })).await;
        let mut answer = peer.receive().await;
        while answer["method"] == "notifications/progress" {
            answer = peer.receive().await;
        }
        assert_eq!(answer["id"], counters, "the cancelled request was answered: {answer}");
        if answer["result"]["structuredContent"]["sleep"]["cancelled"] == 1 {
            return;
        }
    }
    panic!("sleep was not stopped");
}

#[tokio::test]
async fn a_cancelled_call_takes_its_question_back() {
    let mut peer = Stdio::legacy(obliging()).await;
    let id = peer.post("tools/call", json!({ "name": "test_sampling", "arguments": { "prompt": "hi" } })).await;
    let question = peer.receive().await;
    peer.cancel(id).await;
    let notice = peer.receive().await;
    assert_eq!(notice["method"], "notifications/cancelled");
    assert_eq!(notice["params"]["requestId"], question["id"]);
}

#[tokio::test]
async fn a_refused_question_fails_the_tool() {
    let mut peer = Stdio::legacy(obliging()).await;
    let id = peer.post("tools/call", json!({ "name": "test_sampling", "arguments": { "prompt": "hi" } })).await;
    let question = peer.receive().await;
    peer.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": -1, "message": "not today" } }))
        .await;
    let answer = peer.receive().await;
    assert_eq!(answer["id"], id);
    assert_eq!(answer["result"]["isError"], true);
    assert!(text_of(&answer["result"]).contains("not today"));
}

#[tokio::test]
async fn changes_are_announced_to_those_concerned() {
    let mut peer = Stdio::legacy(json!({})).await;
    let watched = json!({ "uri": "test://watched-resource" });
    let touch = json!({ "name": "touch_resource", "arguments": watched });
    peer.ask("tools/call", touch.clone()).await;
    assert_eq!(peer.ask("resources/subscribe", watched.clone()).await["result"], json!({}));
    for (params, method) in [
        (touch.clone(), "notifications/resources/updated"),
        (json!({ "name": "test_trigger_tool_change" }), "notifications/tools/list_changed"),
        (json!({ "name": "test_trigger_prompt_change" }), "notifications/prompts/list_changed"),
        (json!({ "name": "change_tools" }), "notifications/tools/list_changed"),
    ] {
        let id = peer.post("tools/call", params).await;
        assert_eq!(peer.receive().await["method"], method);
        assert_eq!(peer.receive().await["id"], id);
    }
    let read = peer.ask("resources/read", watched.clone()).await;
    assert_eq!(read["result"]["contents"][0]["text"], "Revision 2");
    peer.ask("resources/unsubscribe", watched).await;
    peer.ask("tools/call", touch).await;
    let tools = peer.ask("tools/list", json!({})).await;
    let last = tools["result"]["tools"].as_array().unwrap().last().unwrap()["name"].clone();
    assert_eq!(last, "added_1");
    assert!(peer.ask("tools/call", json!({ "name": last })).await["result"]["content"].is_array());
}

#[tokio::test]
async fn bursts_arrive_whole_in_order_and_before_the_result() {
    let mut peer = Stdio::legacy(json!({})).await;
    let burst = json!({ "name": "progress_burst", "arguments": { "count": 1000 }, "_meta": { "progressToken": "t" } });
    let id = peer.post("tools/call", burst).await;
    for step in 1..=1000 {
        assert_eq!(peer.receive().await["params"]["progress"], step);
    }
    assert_eq!(peer.receive().await["id"], id);

    peer.ask("logging/setLevel", json!({ "level": "info" })).await;
    let lines = json!({ "name": "log_burst", "arguments": { "count": 300 } });
    let id = peer.post("tools/call", lines.clone()).await;
    for step in 1..=300 {
        assert_eq!(peer.receive().await["params"]["data"], format!("line {step}"));
    }
    assert_eq!(peer.receive().await["id"], id);
    peer.ask("logging/setLevel", json!({ "level": "error" })).await;
    peer.ask("tools/call", lines).await;
}

#[tokio::test]
async fn the_remaining_features_answer() {
    let mut peer = Stdio::legacy(json!({})).await;
    let structured = peer.ask("tools/call", json!({ "name": "structured" })).await;
    assert_eq!(structured["result"]["structuredContent"]["celsius"], 21.5);
    assert_eq!(structured["result"]["content"][1]["type"], "resource_link");
    let echo = peer.ask("tools/call", json!({ "name": "echo", "arguments": { "message": "héllo\n" } })).await;
    assert_eq!(text_of(&echo["result"]), "héllo\n");
    let missing = peer.ask("resources/read", json!({ "uri": "test://no" })).await;
    assert_eq!(missing["error"]["code"], -32002);
    let unknown = peer.ask("tools/call", json!({ "name": "no" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let failing = peer.ask("tools/call", json!({ "name": "protocol_error_job" })).await;
    assert_eq!(failing["error"]["code"], -32603);
    let argument = json!({ "name": "arg1", "value": "test" });
    let reference = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
    let completion = peer.ask("completion/complete", json!({ "ref": reference, "argument": argument })).await;
    assert_eq!(completion["result"]["completion"]["values"], json!(["testValue1", "testing"]));
    assert_eq!(peer.ask("no/such", json!({})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn a_legacy_server_does_not_know_discover() {
    let mut peer = Stdio::start(&["--era", "legacy"]);
    assert_eq!(peer.ask("server/discover", json!({})).await["error"]["code"], -32601);
    assert_eq!(peer.ask("tools/list", json!({})).await["error"]["code"], -32600);
    assert!(peer.initialize("2025-11-25", json!({})).await["result"].is_object());
}

#[tokio::test]
async fn batches_exist_in_one_revision_only() {
    for (version, batched) in [("2025-03-26", true), ("2025-06-18", false)] {
        let mut peer = Stdio::start(&[]);
        peer.initialize(version, json!({})).await;
        let batch = json!([
            { "jsonrpc": "2.0", "id": "a", "method": "ping" },
            { "jsonrpc": "2.0", "method": "notifications/progress" },
            { "jsonrpc": "2.0", "id": "b", "method": "tools/list" },
        ]);
        peer.send(&batch).await;
        let answer = peer.receive().await;
        if batched {
            let ids: Vec<_> = answer.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
            assert_eq!(ids, ["a", "b"]);
        } else {
            assert_eq!(answer["error"]["code"], -32600);
        }
    }
}

#[tokio::test]
async fn what_runs_when_stdin_ends_is_answered_or_stopped_and_the_process_ends() {
    let mut peer = Stdio::legacy(obliging()).await;
    let slow = peer.post("tools/call", json!({ "name": "sleep", "arguments": { "ms": 600_000 } })).await;
    let short = peer.post("tools/call", json!({ "name": "test_tool_with_logging" })).await;
    peer.process.close_stdin();
    let mut answered = Vec::new();
    while let Some(line) = peer.process.line().await.unwrap() {
        let message: Value = serde_json::from_slice(&line).unwrap();
        answered.extend(message["id"].as_u64());
    }
    assert_eq!(answered, [short], "{slow} must not be answered");
    assert!(peer.process.wait().await.unwrap().success());
}
