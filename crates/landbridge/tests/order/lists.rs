//! A list asked for right after a result that changed it is the new one.

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, PAIRS, Server, Wire};

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
