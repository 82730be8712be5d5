//! The tools that need nothing from the client: notes, echo, work.

use serde_json::json;

use crate::client::{Client, ERAS, Era, failed, text};

#[tokio::test(start_paused = true)]
async fn notes_are_kept_newest_first() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        let list = client.call("list_notes", json!({})).await;
        assert_eq!(text(&list), "No notes in this session yet.");
        assert_eq!(list["structuredContent"], json!({ "notes": [] }));

        client.add_note("first").await;
        let (told, result) = client.telling("add_note", json!({ "note": "  second\n" }), json!({})).await;
        let methods: Vec<_> = told.iter().map(|message| message["method"].as_str().unwrap()).collect();
        match era {
            // The change is told before the result that made it, so that a list asked for next is never stale.
            Era::Handshake => {
                assert_eq!(methods, ["notifications/message", "notifications/resources/list_changed"]);
                assert_eq!(told[0]["params"]["data"], "note #2 saved");
            }
            Era::Stateless => assert_eq!(methods, [""; 0]),
        }
        assert_eq!(text(&result), "Saved note #2: second");

        let list = client.call("list_notes", json!({})).await;
        assert_eq!(text(&list), "1. second\n2. first");
        assert_eq!(list["structuredContent"], json!({ "notes": ["second", "first"] }));
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_notes_are_kept() {
    let mut client = Client::open(Era::Stateless, json!({})).await;
    for number in 0..52 {
        client.add_note(&format!("note {number}")).await;
    }
    let list = client.call("list_notes", json!({})).await;
    let notes = list["structuredContent"]["notes"].as_array().unwrap();
    assert_eq!((notes.len(), &notes[0], &notes[49]), (50, &json!("note 51"), &json!("note 2")));
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_told_to_the_model() {
    let mut client = Client::open(Era::Handshake, json!({})).await;
    for (tool, arguments) in [
        ("add_note", json!({ "note": " \n" })),
        ("add_note", json!({ "note": "x".repeat(501) })),
        ("add_note", json!({})),
        ("echo", json!({ "message": 1 })),
        ("echo", json!({ "message": "" })),
        ("echo", json!({ "message": "x".repeat(1001) })),
        ("echo", json!({ "message": "x", "repeat": 11 })),
        ("simulate_work", json!({ "steps": 0 })),
        ("simulate_work", json!({ "steps": 21 })),
        ("simulate_work", json!({ "delayMs": 49 })),
        ("simulate_work", json!({ "closeSseAfterStep": 0 })),
        ("streaming", json!({ "count": 51 })),
        ("streaming", json!({ "intervalMs": 99 })),
        ("streaming", json!({ "dataType": "weather" })),
        ("system_time", json!({ "timezone": "Mars/Base" })),
        ("notify", json!({ "what": "weather" })),
        ("log_spam", json!({ "count": 1001 })),
        ("crash", json!({ "code": 256 })),
        ("sample_tool", json!({ "value": 1 })),
        ("slow", json!({ "ms": 60_001 })),
        ("slow", json!({ "ms": -1 })),
    ] {
        let result = client.call(tool, arguments.clone()).await;
        assert!(failed(&result), "{tool} {arguments}: {result}");
        let error: serde_json::Value = serde_json::from_str(text(&result)).unwrap();
        assert_eq!(error["success"], false, "{tool} {arguments}: {error}");
        assert!(!error["error"].as_str().unwrap().is_empty() && error["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    client.add_note(&"é".repeat(500)).await;
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn listeners_of_the_later_era_hear_of_new_notes() {
    let mut client = Client::open(Era::Stateless, json!({})).await;
    let notifications = json!({ "resourcesListChanged": true });
    let listen = client.request("subscriptions/listen", json!({ "notifications": notifications })).await;
    let acknowledged = client.next().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({ "resourcesListChanged": true }));

    let add = json!({ "name": "add_note", "arguments": { "note": "x" } });
    let id = client.request("tools/call", add.clone()).await;
    let changed = client.next().await;
    assert_eq!(changed["method"], "notifications/resources/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
    client.result_of(id).await;

    client.notify("notifications/cancelled", json!({ "requestId": listen })).await;
    client.ask("tools/call", add).await;
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn echo_sends_any_text_back() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        for message in ["hi", "two\nlines \u{2028} \"quoted\" \\ é 🦀", &"é".repeat(1000)] {
            assert_eq!(text(&client.call("echo", json!({ "message": message })).await), message);
        }
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn echo_answers_in_structure_with_links_to_what_it_kept() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        let arguments = json!({ "message": "ah", "repeat": 3, "uppercase": true });
        let (told, result) = client.telling("echo", arguments, json!({ "progressToken": "mine" })).await;
        let progress: Vec<_> = told.iter().map(|message| &message["params"]).collect();
        assert_eq!(progress.len(), 2, "{told:?}");
        assert_eq!((&progress[0]["progressToken"], &progress[0]["progress"]), (&json!("mine"), &json!(0.0)));
        assert_eq!((&progress[1]["progress"], &progress[1]["total"]), (&json!(100.0), &json!(100.0)));
        let structured = json!({
            "originalMessage": "ah", "processedMessage": "AH AH AH", "repeat": 3, "uppercase": true, "length": 8,
        });
        assert_eq!(result["structuredContent"], structured);
        assert_eq!(text(&result), "AH AH AH");
        assert_eq!(result["content"][0]["annotations"]["audience"], json!(["user", "assistant"]));
        let links: Vec<_> = [1, 2].map(|at| result["content"][at].clone()).into();
        assert_eq!((&links[0]["type"], &links[0]["uri"]), (&json!("resource_link"), &json!("echo://result/1")));
        assert_eq!((&links[1]["type"], &links[1]["uri"]), (&json!("resource_link"), &json!("echo://documentation")));
        assert!(links[0]["annotations"]["lastModified"].is_string(), "{links:?}");
        assert_eq!(links[0]["annotations"]["priority"], 0.5);

        let kept = client.ask("resources/read", json!({ "uri": "echo://result/1" })).await;
        let kept: serde_json::Value = serde_json::from_str(kept["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(kept, structured);
        let docs = client.ask("resources/read", json!({ "uri": "echo://documentation" })).await;
        assert_eq!(docs["contents"][0]["mimeType"], "text/markdown");
        for _ in 0..50 {
            client.call("echo", json!({ "message": "more" })).await;
        }
        let read = |id: u32| json!({ "uri": format!("echo://result/{id}") });
        assert!(client.ask("resources/read", read(51)).await["contents"].is_array());
        assert!(client.ask("resources/read", read(2)).await["contents"].is_array());
        let not_found = if era == Era::Handshake { -32002 } else { -32602 };
        assert_eq!(client.refused("resources/read", read(1)).await, not_found, "{era:?}");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn simulate_work_logs_every_step_and_asks_for_a_pause_where_told() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        let arguments = json!({ "steps": 3, "delayMs": 50, "closeSseAfterStep": 2 });
        let meta = json!({ "progressToken": 9, "io.modelcontextprotocol/logLevel": "info" });
        let started = tokio::time::Instant::now();
        let (told, result) = client.telling("simulate_work", arguments, meta).await;
        assert_eq!(started.elapsed().as_millis(), 150);
        let told: Vec<_> = told
            .iter()
            .map(|message| match message["method"].as_str().unwrap() {
                "notifications/message" => message["params"]["data"].as_str().unwrap().to_owned(),
                "notifications/progress" => {
                    format!("{} {}", message["params"]["progressToken"], message["params"]["progress"])
                }
                other => other.to_owned(),
            })
            .collect();
        let expect = [
            "simulate_work progress: 1/3",
            "9 1.0",
            "simulate_work progress: 2/3",
            "9 2.0",
            "landbridge/pause",
            "simulate_work progress: 3/3",
            "9 3.0",
        ];
        assert_eq!(told, expect, "{era:?}");
        assert_eq!(text(&result), "Done: 3 steps of 50 ms");

        // Beyond the last step it has no effect, and without a token there is no progress.
        let arguments = json!({ "steps": 2, "delayMs": 50, "closeSseAfterStep": 3 });
        let (told, _) = client.telling("simulate_work", arguments, json!({})).await;
        assert_eq!(told.len(), if era == Era::Handshake { 2 } else { 0 }, "{told:?}");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn streaming_tells_each_point_on_the_callers_token() {
    for era in ERAS {
        let mut client = Client::open(era, json!({})).await;
        for data_type in ["metrics", "stock_prices", "sensor_data", "custom"] {
            let arguments = json!({ "dataType": data_type, "count": 3, "intervalMs": 100 });
            let (told, result) = client.telling("streaming", arguments, json!({ "progressToken": "own" })).await;
            let points = result["structuredContent"]["points"].as_array().unwrap();
            assert_eq!((told.len(), points.len()), (3, 3));
            for (number, (told, point)) in told.iter().zip(points).enumerate() {
                assert_eq!(told["params"]["progressToken"], "own", "{era:?} {told}");
                assert_eq!(told["params"]["progress"], json!(number as f64 + 1.0));
                assert_eq!(told["params"]["message"], point["data"].to_string());
            }
        }
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_stream_is_not_cut_by_its_own_limit() {
    let mut client = Client::open(Era::Stateless, json!({})).await;
    // A client would give up on a call without progress; this one waits on a paused clock.
    let id =
        client.request("tools/call", json!({ "name": "streaming", "arguments": { "count": 50, "intervalMs": 5000 } }));
    let id = id.await;
    tokio::time::sleep(std::time::Duration::from_secs(244)).await;
    let result = client.result_of(id).await;
    assert_eq!(result["structuredContent"]["points"].as_array().map(Vec::len), Some(50), "{result}");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn system_time_tells_the_time_in_every_format() {
    let mut client = Client::open(Era::Handshake, json!({})).await;
    let result = client.call("system_time", json!({ "timezone": "Europe/Berlin" })).await;
    let told = &result["structuredContent"];
    assert_eq!((&told["format"], &told["timezone"]), (&json!("iso"), &json!("Europe/Berlin")));
    assert_eq!(told["timestamp"], text(&result));
    assert!(!text(&result).ends_with('Z') && text(&result).contains("+0"), "{told}");
    assert!(told["utc"].as_str().unwrap().ends_with('Z') && told["unix"].is_i64() && told["human"].is_string());
    let custom = json!({ "format": "custom", "customFormat": "[at] YYYY", "includeTimezone": false });
    assert!(text(&client.call("system_time", custom).await).starts_with("at 2"));
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn the_sample_tool_has_the_name_it_was_given() {
    let mut client = Client::open(Era::Handshake, json!({})).await;
    assert_eq!(text(&client.call("sample_tool", json!({ "value": "x" })).await), "test string print: x");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn slow_reports_progress_to_the_token_it_was_given() {
    for era in ERAS {
        for token in [json!("t-1"), json!(7)] {
            let mut client = Client::open(era, json!({})).await;
            let params = json!({ "name": "slow", "arguments": { "ms": 600 }, "_meta": { "progressToken": token } });
            let started = tokio::time::Instant::now();
            let id = client.request("tools/call", params).await;
            for passed in [250.0, 500.0, 600.0] {
                let message = client.next().await;
                assert_eq!(message["method"], "notifications/progress", "{message}");
                assert_eq!(message["params"]["progressToken"], token);
                assert_eq!(message["params"]["progress"], passed);
                assert_eq!(message["params"]["total"], 600.0);
            }
            assert_eq!(text(&client.result_of(id).await), "Took 600 ms");
            assert_eq!(started.elapsed().as_millis(), 600);
            client.close().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn slow_is_quiet_without_a_token_and_blocks_nobody() {
    let mut client = Client::open(Era::Handshake, json!({})).await;
    let id = client.request("tools/call", json!({ "name": "slow", "arguments": { "ms": 20_000 } })).await;
    assert_eq!(text(&client.call("echo", json!({ "message": "meanwhile" })).await), "meanwhile");
    assert_eq!(text(&client.result_of(id).await), "Took 20000 ms");
    assert_eq!(text(&client.call("slow", json!({ "ms": 0 })).await), "Took 0 ms");
    client.close().await;
}
