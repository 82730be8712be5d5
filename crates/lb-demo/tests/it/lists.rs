//! Opening a connection, and what the server offers: lists, resources, the prompt, and what it does not have.

use serde_json::{Value, json};

use crate::client::{Client, ERAS, Era};

fn names<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn initialize_tells_who_and_what() {
    let mut client = Client::silent(Era::Handshake, json!({}));
    let result = client.initialize().await;
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["serverInfo"]["name"], "landbridge-demo");
    let expect = json!({
        "completions": {},
        "logging": {},
        "prompts": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "tools": { "listChanged": true },
    });
    assert_eq!(result["capabilities"], expect);
    assert!(result["instructions"].as_str().unwrap().contains("add_note"));
    assert_eq!(client.ask("ping", json!({})).await, json!({}));
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn discover_tells_the_same_and_leaves_both_eras_open() {
    let mut client = Client::silent(Era::Stateless, json!({}));
    let result = client.ask("server/discover", json!({})).await;
    let versions = result["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")), "{result}");
    assert_eq!(result["capabilities"]["resources"]["listChanged"], true);
    assert!(result["instructions"].as_str().unwrap().contains("add_note"));
    // A probe may be given up, which must not end the connection.
    client.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    assert_eq!(client.ask("tools/list", json!({})).await["resultType"], "complete");
    client.close().await;

    let mut client = Client::silent(Era::Stateless, json!({}));
    client.ask("server/discover", json!({})).await;
    assert_eq!(client.initialize().await["protocolVersion"], "2025-11-25");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn tools_are_listed_with_their_schemas() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        let list = client.ask("tools/list", json!({})).await;
        let tools = &list["tools"];
        let expect = [
            "add_note",
            "crash",
            "echo",
            "elicit_demo",
            "list_notes",
            "log_spam",
            "notify",
            "roots_demo",
            "sample_demo",
            "sample_tool",
            "simulate_work",
            "slow",
            "streaming",
            "system_time",
        ];
        assert_eq!(names(tools, "name"), expect, "{era:?}");
        let tool = |name: &str| tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        for tool in tools.as_array().unwrap() {
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
            assert!(tool["description"].is_string() && tool["title"].is_string(), "{tool}");
        }
        assert_eq!(tool("add_note")["inputSchema"]["properties"]["note"]["maxLength"], 500);
        assert_eq!(tool("list_notes")["outputSchema"]["properties"]["notes"]["type"], "array");
        assert_eq!(tool("slow")["inputSchema"]["properties"]["ms"]["maximum"], 60_000);
        assert_eq!(tool("simulate_work")["inputSchema"]["properties"]["closeSseAfterStep"]["maximum"], 20);
        assert_eq!(tool("echo")["_meta"]["landbridge/tool"]["timeoutMs"], 2000);
        for structured in ["echo", "streaming", "system_time"] {
            assert_eq!(tool(structured)["outputSchema"]["type"], "object", "{structured}");
        }
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn notes_are_resources() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        let list = client.ask("resources/list", json!({})).await;
        assert_eq!(names(&list["resources"], "uri"), ["session://overview", "echo://documentation"]);
        client.add_note("first").await;
        client.add_note("second").await;
        let list = client.ask("resources/list", json!({})).await;
        let expect = ["session://overview", "echo://documentation", "session://notes/0", "session://notes/1"];
        assert_eq!(names(&list["resources"], "uri"), expect);
        let list = client.ask("resources/templates/list", json!({})).await;
        assert_eq!(
            names(&list["resourceTemplates"], "uriTemplate"),
            ["session://notes/{index}", "echo://result/{resultId}"]
        );

        let read = client.ask("resources/read", json!({ "uri": "session://notes/1" })).await;
        let expect = json!([{ "uri": "session://notes/1", "mimeType": "text/plain", "text": "first" }]);
        assert_eq!(read["contents"], expect, "{era:?}");

        let read = client.ask("resources/read", json!({ "uri": "session://overview" })).await;
        assert_eq!(read["contents"][0]["mimeType"], "application/json");
        let overview: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(overview["noteCount"], 2);
        // Seven requests so far, and `initialize` where there is one.
        assert_eq!(overview["requestCount"], if era == Era::Handshake { 8 } else { 7 });
        assert!(overview["createdAt"].as_u64() <= overview["lastActivity"].as_u64(), "{overview}");
        assert!(overview["sessionId"].as_str().unwrap().starts_with("demo-"));
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn connections_share_nothing() {
    let mut one = Client::open(Era::Handshake, json!({})).await;
    let mut two = Client::open(Era::Handshake, json!({})).await;
    one.add_note("mine").await;
    assert_eq!(two.call("list_notes", json!({})).await["structuredContent"], json!({ "notes": [] }));
    one.close().await;
    two.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_an_error() {
    for (era, not_found) in [(Era::Handshake, -32002), (Era::Stateless, -32602)] {
        let mut client = Client::open(era, json!({})).await;
        client.add_note("only").await;
        for uri in ["session://notes/1", "session://notes/00", "session://notes/+0", "session://notes/", "file:///x"] {
            assert_eq!(client.refused("resources/read", json!({ "uri": uri })).await, not_found, "{era:?} {uri}");
        }
        let unknown = client.error("tools/call", json!({ "name": "nothing" })).await;
        assert_eq!(unknown, json!({ "code": -32602, "message": "unknown tool \"nothing\"" }));
        assert_eq!(client.refused("prompts/get", json!({ "name": "nothing" })).await, -32602);
        assert_eq!(client.refused("no/such/method", json!({})).await, -32601);
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_prompt_holds_objective_and_notes() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        let list = client.ask("prompts/list", json!({})).await;
        assert_eq!(names(&list["prompts"], "name"), ["echo", "study-notes"]);
        assert_eq!(list["prompts"][1]["arguments"][0]["name"], "objective");
        assert_ne!(list["prompts"][1]["arguments"][0]["required"], true);

        let prompt = client.ask("prompts/get", json!({ "name": "study-notes" })).await;
        let message = |text: &str| json!([{ "role": "user", "content": { "type": "text", "text": text } }]);
        let expect = "Objective: Summarise the notes and extract the next actions.\n\nNotes:\n(none yet)";
        assert_eq!(prompt["messages"], message(expect));

        client.add_note("first").await;
        client.add_note("second").await;
        let arguments = json!({ "objective": "Learn" });
        let prompt = client.ask("prompts/get", json!({ "name": "study-notes", "arguments": arguments })).await;
        assert_eq!(prompt["messages"], message("Objective: Learn\n\nNotes:\n1. second\n2. first"));
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_echo_prompt_repeats_as_told() {
    let mut client = Client::open(Era::Handshake, json!({})).await;
    let get = |arguments: Value| json!({ "name": "echo", "arguments": arguments });
    let prompt = client.ask("prompts/get", get(json!({ "message": "ah", "repeat": "2", "uppercase": "true" }))).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Please repeat exactly: AH AH");
    for wrong in [json!({}), json!({ "message": "x", "repeat": "11" }), json!({ "message": "x", "uppercase": "loud" })]
    {
        assert_eq!(client.refused("prompts/get", get(wrong.clone())).await, -32602, "{wrong}");
    }
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_of_fifty() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        for number in 0..50 {
            client.add_note(&format!("note {number}")).await;
        }
        let first = client.ask("resources/list", json!({})).await;
        assert_eq!(first["resources"].as_array().map(Vec::len), Some(50));
        assert_eq!(first["nextCursor"], "NTA=");
        let second = client.ask("resources/list", json!({ "cursor": "NTA=" })).await;
        assert_eq!(names(&second["resources"], "uri"), ["session://notes/48", "session://notes/49"]);
        assert_eq!(second["nextCursor"], Value::Null);
        for method in ["resources/list", "tools/list", "prompts/list", "resources/templates/list"] {
            // No base64, no number, another spelling of one, beyond the end.
            for cursor in ["?", "eHg=", "KzU=", "OTk5", ""] {
                let code = client.refused(method, json!({ "cursor": cursor })).await;
                assert_eq!(code, -32602, "{era:?} {method} {cursor:?}");
            }
        }
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_are_completed() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        client.add_note("a").await;
        client.add_note("b").await;
        let prompt = |name: &str| json!({ "type": "ref/prompt", "name": name });
        let template = |uri: &str| json!({ "type": "ref/resource", "uri": uri });
        for (reference, argument, value, expect) in [
            (prompt("study-notes"), "objective", "make", json!(["Make a quiz from the notes."])),
            (prompt("echo"), "uppercase", "", json!(["true", "false"])),
            (prompt("echo"), "repeat", "1", json!(["1", "10"])),
            (prompt("echo"), "message", "x", json!([])),
            (template("session://notes/{index}"), "index", "", json!(["0", "1"])),
            (template("echo://result/{resultId}"), "resultId", "", json!([])),
        ] {
            let params = json!({ "ref": reference, "argument": { "name": argument, "value": value } });
            let got = client.ask("completion/complete", params.clone()).await;
            assert_eq!(got["completion"]["values"], expect, "{era:?} {params}");
        }
        let unknown = json!({ "ref": prompt("nothing"), "argument": { "name": "x", "value": "" } });
        assert_eq!(client.refused("completion/complete", unknown).await, -32602);
        client.close().await;
    }
}
