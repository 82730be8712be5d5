//! Questions of a server to its client, there and back.

use serde_json::{Value, json};

use crate::client::{Behind, Client, End, LEGACY, MODERN, PAIRS, Server, Wire};
use crate::script::{Script, event, legacy, result, stream_head};

fn all_capabilities() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

/// What this client answers.
fn answer_to(ask: &Value) -> Value {
    match ask["method"].as_str().unwrap_or_default() {
        "elicitation/create" => {
            json!({ "action": "accept", "content": { "username": "ann", "email": "a@b", "name": "ann" } })
        }
        "sampling/createMessage" => {
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Paris" } })
        }
        "roots/list" => json!({ "roots": [{ "uri": "file:///r" }] }),
        other => panic!("asked {other}: {ask}"),
    }
}

/// Calls a tool, answers what it asks, and gives the asks and the text of the result.
async fn converse(client: &mut Client, tool: &str, arguments: Value) -> (Vec<Value>, String) {
    let id = client.send("tools/call", json!({ "name": tool, "arguments": arguments })).await;
    let over_http = matches!(client.end, End::Http { .. });
    if over_http {
        assert!(client.head().await.is_sse(), "{tool}");
    }
    let mut asks = Vec::new();
    loop {
        let (_, message) = client.message().await.expect("an ask or an answer");
        if message["id"] == id && message.get("method").is_none() {
            let text = message["result"]["content"][0]["text"].as_str();
            assert!(!over_http || client.message().await.is_none(), "{tool}: the stream ends with its answer");
            return (asks, text.unwrap_or_else(|| panic!("{tool}: {message}")).to_owned());
        }
        if message.get("id").is_none() {
            continue;
        }
        let result = answer_to(&message);
        if over_http {
            client.again().await.answer(&message, result).await;
        } else {
            client.answer(&message, result).await;
        }
        asks.push(message);
    }
}

#[tokio::test]
async fn questions_make_the_round_trip_over_every_pair() {
    for (wire, behind) in PAIRS {
        for isolation in ["session", "shared"] {
            let server = Server::fixture(behind).await.with("isolation", isolation);
            let mut client = Client::start(wire, &server, LEGACY, all_capabilities()).await;
            let context = format!("{wire:?} {behind:?} {isolation}");
            for (tool, arguments, want, count) in [
                ("test_elicitation", json!({ "message": "who?" }), "Action accept with", 1),
                ("test_sampling", json!({ "prompt": "capital?" }), "The model said: Paris", 1),
                ("test_input_required_result_list_roots", json!({}), "file:///r", 1),
                ("test_input_required_result_multiple_inputs", json!({}), "Paris ann, your roots are", 3),
                ("test_input_required_result_multi_round", json!({}), "likes", 2),
                ("test_streaming_elicitation", json!({}), "Action accept", 1),
            ] {
                let (asks, text) = converse(&mut client, tool, arguments).await;
                assert!(text.contains(want), "{context} {tool}: {text}");
                assert_eq!(asks.len(), count, "{context} {tool}");
            }
        }
    }
}

/// A declined or failed question is the server's to deal with; an answer comes back as it was given.
#[tokio::test]
async fn refusals_reach_the_server() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, all_capabilities()).await;
        for (answer, want) in [
            (json!({ "result": { "action": "decline" } }), "Action decline"),
            (json!({ "result": { "action": "cancel" } }), "Action cancel"),
            (json!({ "error": { "code": -1, "message": "the user said no" } }), "the user said no"),
        ] {
            let call = json!({ "name": "test_elicitation", "arguments": { "message": "?" } });
            let mut asked = client.again().await;
            asked.send("tools/call", call).await;
            assert!(asked.head().await.is_sse());
            let (_, ask) = asked.message().await.expect("an ask");
            let mut message = json!({ "jsonrpc": "2.0", "id": ask["id"] });
            message.as_object_mut().expect("an object").extend(answer.as_object().expect("an object").clone());
            client.tell(message).await;
            let (_, end) = asked.message().await.expect("an answer");
            assert!(end.to_string().contains(want), "{behind:?}: {end}");
        }
    }
}

/// What the client did not declare it is not asked, and the server knows.
#[tokio::test]
async fn a_client_without_the_capability_is_not_asked() {
    for (wire, behind) in PAIRS {
        for isolation in ["session", "shared"] {
            let server = Server::fixture(behind).await.with("isolation", isolation);
            let mut client = Client::start(wire, &server, LEGACY, json!({ "roots": {} })).await;
            let all = client.run("tools/call", json!({ "name": "test_elicitation", "arguments": { "message": "?" } }));
            let all = all.await;
            let text = all.last().expect("an answer").to_string();
            assert!(text.contains("did not declare elicitation"), "{wire:?} {behind:?} {isolation}: {text}");
            assert_eq!(all.len(), 1, "{wire:?} {behind:?} {isolation}: {all:?}");
        }
    }
}

/// In the modern era a question is a result, and its answer the request sent again.
#[tokio::test]
async fn questions_of_the_modern_era_pass_through() {
    for (wire, behind) in PAIRS {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(wire, &server, MODERN, all_capabilities()).await;
        let context = format!("{wire:?} {behind:?}");
        let mut params = json!({ "name": "test_input_required_result_multi_round", "arguments": {} });
        for round in ["step1", "step2"] {
            let asked = client.run("tools/call", params.clone()).await.pop().expect("a result");
            let asked = &asked["result"];
            assert_eq!(asked["resultType"], "input_required", "{context}: {asked}");
            let ask = &asked["inputRequests"][round];
            assert_eq!(ask["method"], "elicitation/create", "{context}: {asked}");
            let field = if round == "step1" { "name" } else { "color" };
            params["requestState"] = asked["requestState"].clone();
            params["inputResponses"] = json!({ round: { "action": "accept", "content": { field: "blue" } } });
        }
        let end = client.run("tools/call", params).await.pop().expect("a result");
        assert_eq!(end["result"]["content"][0]["text"], "\"blue\" likes \"blue\"", "{context}");
    }
}

/// A question asked on a stream that broke can be answered while away; the rest waits in the stream.
#[tokio::test]
async fn an_ask_is_answered_while_its_stream_is_lost() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, all_capabilities()).await;
        let mut away = client.again().await;
        let id = away.send("tools/call", json!({ "name": "test_elicitation", "arguments": { "message": "?" } })).await;
        assert!(away.head().await.is_sse());
        let (anchor, ask) = away.message().await.expect("an ask");
        drop(away);
        client.answer(&ask, answer_to(&ask)).await;
        client.await_counts("test_elicitation", [1, 1, 0]).await;
        let rest = client.again().await.resume(&anchor.expect("an event id")).await;
        assert_eq!(rest.len(), 1, "{behind:?}: {rest:?}");
        assert_eq!(rest[0].1["id"], id, "{behind:?}");
        assert!(rest[0].1.to_string().contains("Action accept"), "{behind:?}");
    }
}

/// A question that was asked while the client was away is sent on resume, under an id that can be answered.
#[tokio::test]
async fn an_ask_is_sent_again_on_resume_and_answered_then() {
    for behind in [Behind::Stdio, Behind::Http] {
        let server = Server::fixture(behind).await;
        let mut client = Client::start(Wire::Http, &server, LEGACY, all_capabilities()).await;
        let mut away = client.again().await;
        let id = away.send("tools/call", json!({ "name": "test_elicitation", "arguments": { "message": "?" } })).await;
        assert!(away.head().await.is_sse());
        let priming = away.conn().event().await.expect("an event").expect("an event");
        drop(away);
        let mut back = client.again().await;
        assert!(back.get(Some(&priming.id.expect("a cursor"))).await.is_sse());
        let (_, ask) = back.message().await.expect("the ask");
        assert_eq!(ask["method"], "elicitation/create", "{behind:?}: {ask}");
        client.answer(&ask, answer_to(&ask)).await;
        let (_, end) = back.message().await.expect("an answer");
        assert_eq!(end["id"], id, "{behind:?}");
        assert!(end.to_string().contains("Action accept"), "{behind:?}: {end}");
        assert!(back.message().await.is_none(), "{behind:?}");
    }
}

/// A server that no longer wants an answer says so, and the client hears it under the id it was asked with.
#[tokio::test]
async fn a_server_may_take_its_question_back() {
    let script = Script::start(|seen| match seen.method.as_str() {
        "tools/call" => {
            let ask = json!({ "jsonrpc": "2.0", "id": "q-7", "method": "elicitation/create",
                "params": { "message": "?", "requestedSchema": { "type": "object", "properties": {} } } });
            let back =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "q-7" } });
            let end = result(seen, crate::script::content("never mind"));
            vec![stream_head(), event(None, &ask), event(None, &back), event(None, &end), crate::script::Act::Close]
        }
        _ => legacy(seen),
    })
    .await;
    let over_http = Server { entry: script.entry(), peer: None };
    let odd = lb_peers::harness::peer(crate::client::LANDBRIDGE, "odd_probe");
    let over_stdio = Server { entry: json!({ "command": odd }), peer: None };
    for (name, server) in [("http", over_http), ("stdio", over_stdio)] {
        for wire in [Wire::Http, Wire::Stdio] {
            let mut client = Client::start(wire, &server, LEGACY, all_capabilities()).await;
            let all = client.run("tools/call", json!({ "name": "withdraw", "arguments": {} })).await;
            let context = format!("{name} {wire:?}: {all:?}");
            assert_eq!(all.len(), 3, "{context}");
            assert_eq!(all[0]["method"], "elicitation/create", "{context}");
            assert_eq!(all[1]["method"], "notifications/cancelled", "{context}");
            assert_eq!(all[1]["params"]["requestId"], all[0]["id"], "{context}");
            assert!(all[2]["result"].is_object(), "{context}");
            // A late answer does no harm.
            client.answer(&all[0], answer_to(&all[0])).await;
            client.run("tools/list", json!({})).await;
        }
    }
    let answers = script.seen().into_iter().filter(|seen| seen.verb == "POST" && seen.body["id"] == "q-7");
    assert_eq!(answers.count(), 0, "an answer nobody waits for was passed on");
}
