//! A list asked for right after a result that changed it is the new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::client::{Behind, Client, LEGACY, MODERN, PAIRS, Server, Wire};
use crate::script::{Act, Script, content, event, json_reply, legacy, result, stream_head, tool};

const ROUNDS: usize = 25;

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("no list: {answer}"));
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

/// What the fixture announces unasked is in the way on stdio only.
async fn list(client: &mut Client) -> Value {
    client.run("tools/list", json!({})).await.pop().expect("a list")
}

async fn check(wire: Wire, behind: Behind, isolation: &str, version: &str) {
    let server = Server::fixture(behind).await.with("isolation", isolation);
    let mut client = Client::start(wire, &server, version, json!({})).await;
    // A client that listens is one for which the gateway keeps lists.
    let mut ear = None;
    if wire == Wire::Http && version != MODERN {
        let mut listening = client.again().await;
        assert_eq!(listening.get(None).await.status(), 200);
        ear = Some(listening);
    }
    for round in 1..=ROUNDS {
        let before = list(&mut client).await;
        client.call("change_tools", json!({})).await;
        let after = list(&mut client).await;
        let context = format!("{wire:?} {behind:?} {isolation} {version} round {round}");
        let added = format!("added_{round}");
        assert!(!names(&before).contains(&added.as_str()), "{context}");
        assert!(names(&after).contains(&added.as_str()), "{context}: stale");
        assert_eq!(names(&after).len(), names(&before).len() + 1, "{context}");
    }
    drop(ear);
}

#[tokio::test]
async fn a_list_after_the_result_that_changed_it_is_new_legacy() {
    for (wire, behind) in PAIRS {
        for isolation in ["session", "shared"] {
            check(wire, behind, isolation, LEGACY).await;
        }
    }
}

#[tokio::test]
async fn a_list_after_the_result_that_changed_it_is_new_modern() {
    for (wire, behind) in PAIRS {
        for isolation in ["session", "shared"] {
            check(wire, behind, isolation, MODERN).await;
        }
    }
}

/// The notification itself reaches a listening legacy client before it can list again, once per change.
#[tokio::test]
async fn the_change_is_told_to_whoever_listens() {
    for behind in [Behind::Stdio, Behind::Http] {
        for isolation in ["session", "shared"] {
            let server = Server::fixture(behind).await.with("isolation", isolation);
            let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
            let mut ear = client.again().await;
            assert_eq!(ear.get(None).await.status(), 200);
            client.call("change_tools", json!({})).await;
            let (id, told) = ear.message().await.expect("a notification");
            assert_eq!(told["method"], "notifications/tools/list_changed", "{behind:?} {isolation}");
            assert!(id.is_some(), "{behind:?} {isolation}");
        }
    }
}

/// Over HTTP the notification and the result take different connections, and the notification may be the later one. The
/// list is new all the same.
#[tokio::test]
async fn a_list_is_new_although_its_notification_is_late() {
    for isolation in ["session", "shared"] {
        let late = Arc::new(Notify::new());
        let changed = Arc::new(AtomicBool::new(false));
        let (told, state) = (late.clone(), changed.clone());
        let script = Script::start(move |seen| match (seen.verb.as_str(), seen.method.as_str()) {
            ("GET", _) => {
                let note = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                vec![stream_head(), Act::Until(told.clone()), event(None, &note), Act::Until(told.clone())]
            }
            (_, "tools/list") => {
                let name = if state.load(Ordering::SeqCst) { "new" } else { "old" };
                json_reply(200, &result(seen, json!({ "tools": [tool(name)] })))
            }
            (_, "tools/call") => {
                state.store(true, Ordering::SeqCst);
                json_reply(200, &result(seen, content("changed")))
            }
            _ => legacy(seen),
        })
        .await;
        let server = Server { entry: script.entry(), peer: None }.with("isolation", isolation);
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let mut ear = client.again().await;
        assert_eq!(ear.get(None).await.status(), 200);
        // The gateway listens once it has opened the stream of its own.
        script.until("GET").await;
        // Kept as soon as the reply to that GET has been read.
        let asked = || script.methods().iter().filter(|method| *method == "tools/list").count();
        let mut lists = 0;
        while lists == asked() {
            assert_eq!(names(&list(&mut client).await), ["old"], "{isolation}");
            lists += 1;
            assert!(lists < 1_000, "{isolation}: the list is never kept");
        }
        client.call("change", json!({})).await;
        assert_eq!(names(&list(&mut client).await), ["new"], "{isolation}: stale");
        late.notify_one();
        let (_, note) = ear.message().await.expect("the notification");
        assert_eq!(note["method"], "notifications/tools/list_changed", "{isolation}");
    }
}
