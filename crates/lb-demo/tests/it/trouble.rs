//! Logs, subscriptions, and the tools that make trouble.

use lb_demo::Ended;
use serde_json::{Value, json};

use crate::client::{Client, ERAS, Era, text};

fn methods(told: &[Value]) -> Vec<&str> {
    told.iter().map(|message| message["method"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_crash_ends_the_connection_without_an_answer() {
    for era in ERAS {
        for (arguments, code) in [(json!({}), 1), (json!({ "code": 42 }), 42), (json!({ "code": 0 }), 0)] {
            let mut client = Client::open(era, json!({})).await;
            let slow = json!({ "name": "slow", "arguments": { "ms": 60_000 } });
            client.request("tools/call", slow).await;
            client.request("tools/call", json!({ "name": "crash", "arguments": arguments })).await;
            assert_eq!(client.ended().await, Ended::Crashed(code), "{era:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn logs_keep_to_the_level_that_was_asked_for() {
    let mut client = Client::open(Era::Handshake, json!({})).await;
    let (told, result) = client.telling("log_spam", json!({ "count": 8 }), json!({})).await;
    // Of debug, info, warning and error in turn, all from info on.
    assert_eq!((told.len(), text(&result)), (6, "Logged 8 messages"));
    assert_eq!(told[0]["params"], json!({ "level": "info", "logger": "landbridge-demo", "data": "log_spam 2/8" }));
    for (level, count) in [("debug", 8), ("error", 2), ("emergency", 0)] {
        client.ask("logging/setLevel", json!({ "level": level })).await;
        assert_eq!(client.telling("log_spam", json!({ "count": 8 }), json!({})).await.0.len(), count, "{level}");
    }
    client.close().await;

    let mut client = Client::open(Era::Stateless, json!({})).await;
    assert_eq!(client.telling("log_spam", json!({}), json!({})).await.0.len(), 0);
    let meta = json!({ "io.modelcontextprotocol/logLevel": "warning" });
    assert_eq!(client.telling("log_spam", json!({}), meta).await.0.len(), 50);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn subscribers_hear_of_what_they_subscribed_to() {
    let mut client = Client::open(Era::Handshake, json!({})).await;
    client.ask("logging/setLevel", json!({ "level": "error" })).await;
    let updated = json!({ "what": "updated" });
    let (told, result) = client.telling("notify", updated.clone(), json!({})).await;
    assert_eq!((told.len(), text(&result)), (0, "Told nobody: nobody has subscribed to session://overview"));
    for uri in ["session://overview", "session://notes/0"] {
        client.ask("resources/subscribe", json!({ "uri": uri })).await;
    }
    let (told, result) = client.telling("notify", updated.clone(), json!({})).await;
    assert_eq!(text(&result), "Told that session://overview was updated");
    assert_eq!(
        (methods(&told), &told[0]["params"]["uri"]),
        (vec!["notifications/resources/updated"], &json!("session://overview"))
    );
    let (told, _) = client.telling("add_note", json!({ "note": "x" }), json!({})).await;
    let expect =
        ["notifications/resources/list_changed", "notifications/resources/updated", "notifications/resources/updated"];
    assert_eq!(methods(&told), expect);
    client.ask("resources/unsubscribe", json!({ "uri": "session://overview" })).await;
    assert_eq!(client.telling("notify", updated, json!({})).await.0.len(), 0);
    assert_eq!(client.refused("resources/subscribe", json!({ "uri": "file:///x" })).await, -32002);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn notify_tells_of_every_list() {
    let mut client = Client::open(Era::Handshake, json!({})).await;
    for list in ["tools", "prompts", "resources"] {
        let (told, result) = client.telling("notify", json!({ "what": list }), json!({})).await;
        assert_eq!(methods(&told), [format!("notifications/{list}/list_changed")]);
        assert_eq!(text(&result), format!("Told that the list of {list} changed"));
    }
    client.close().await;

    let mut client = Client::open(Era::Stateless, json!({})).await;
    let notifications =
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["session://overview", "file:///x"] });
    let listen = client.request("subscriptions/listen", json!({ "notifications": notifications })).await;
    let accepted = client.next().await["params"]["notifications"].clone();
    assert_eq!(accepted, json!({ "toolsListChanged": true, "resourceSubscriptions": ["session://overview"] }));
    for (what, method) in
        [("tools", Some("tools/list_changed")), ("prompts", None), ("updated", Some("resources/updated"))]
    {
        let (told, _) = client.telling("notify", json!({ "what": what }), json!({})).await;
        let expect: Vec<_> = method.iter().map(|method| format!("notifications/{method}")).collect();
        assert_eq!(methods(&told), expect, "{what}");
        for message in told {
            assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
        }
    }
    client.close().await;
}
