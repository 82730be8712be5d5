//! The tools that need nothing from the client: notes, echo, slow.

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
        let params = json!({ "name": "add_note", "arguments": { "note": "  second\n" } });
        let id = client.request("tools/call", params).await;
        if era == Era::Handshake {
            // The change is told before the result that made it, so that a list asked for next is never stale.
            assert_eq!(client.next().await["method"], "notifications/resources/list_changed");
        }
        assert_eq!(text(&client.result_of(id).await), "Saved note #2: second");

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
        ("slow", json!({ "ms": 60_001 })),
        ("slow", json!({ "ms": -1 })),
    ] {
        let result = client.call(tool, arguments.clone()).await;
        assert!(failed(&result), "{tool} {arguments}: {result}");
    }
    client.add_note(&"é".repeat(500)).await;
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn listeners_of_the_later_era_hear_of_new_notes() {
    let mut client = Client::open(Era::Stateless, json!({})).await;
    let notifications = json!({ "resourcesListChanged": true, "toolsListChanged": true });
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
        for message in ["hi", "", "two\nlines \u{2028} \"quoted\" \\ é 🦀", &"long ".repeat(200_000)] {
            assert_eq!(text(&client.call("echo", json!({ "message": message })).await), message);
        }
        client.close().await;
    }
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
