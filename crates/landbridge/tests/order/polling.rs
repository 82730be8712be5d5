//! Servers that end a stream before its answer (SEP-1699), and what each kind of client sees of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, Server, Wire, message_of};
use crate::script::{Act, Script, event, legacy, stream_head};

fn call() -> Value {
    json!({ "name": "test_reconnection", "arguments": {} })
}

/// Calls the tool, and reads its stream to the end: the cursor and the retry it was told, in ms.
async fn polled(client: &mut Client) -> (Value, String, u64) {
    let id = client.send("tools/call", call()).await;
    assert!(client.head().await.is_sse());
    let (mut cursor, mut retry) = (None, None);
    while let Some(event) = client.conn().event().await.expect("an event or the end") {
        assert_eq!(message_of(&event), None, "nothing is said before the connection closes");
        cursor = event.id.or(cursor);
        retry = event.retry.and_then(|retry| retry.parse().ok()).or(retry);
    }
    (id, cursor.expect("a cursor"), retry.expect("a retry"))
}

#[tokio::test]
async fn the_connection_closes_early_and_the_answer_waits() {
    let server = Server::fixture(Behind::Http).await;
    let gateway = server.gateway().await;
    let mut client = Client::http(gateway.address, LEGACY, json!({})).await;
    // Back after the time that was named.
    let start = Instant::now();
    let (id, cursor, retry) = polled(&mut client).await;
    assert!(start.elapsed() < Duration::from_millis(900), "closed at once: {:?}", start.elapsed());
    assert_eq!(retry, 500, "the server's own word");
    tokio::time::sleep(Duration::from_millis(retry)).await;
    let rest = client.again().await.resume(&cursor).await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!((&rest[0].1["id"], rest[0].1["result"]["content"].is_array()), (&id, true));

    // Back at once: the server is asked at once too, and answers within its 100 ms.
    let mut client = Client::http(gateway.address, LEGACY, json!({})).await;
    let (id, cursor, _) = polled(&mut client).await;
    let start = Instant::now();
    let rest = client.again().await.resume(&cursor).await;
    assert_eq!(rest.last().map(|(_, last)| &last["id"]), Some(&id));
    assert!(start.elapsed() < Duration::from_millis(450), "waited for the retry: {:?}", start.elapsed());

    // Back late: nothing is lost.
    let mut client = Client::http(gateway.address, LEGACY, json!({})).await;
    let (id, cursor, retry) = polled(&mut client).await;
    tokio::time::sleep(Duration::from_millis(2 * retry)).await;
    let rest = client.again().await.resume(&cursor).await;
    assert_eq!(rest.iter().map(|(_, message)| &message["id"]).collect::<Vec<_>>(), [&id]);
}

/// A server that closes on everybody: clients that cannot poll are kept waiting on their own stream.
#[tokio::test]
async fn clients_that_do_not_poll_just_wait() {
    let script = || {
        let asked = Arc::new(AtomicUsize::new(0));
        Script::start(move |seen| match (seen.verb.as_str(), seen.method.as_str()) {
            (_, "tools/call") => {
                let hint = Act::Write(b"id: e-1\nretry: 200\ndata: \n\n".to_vec());
                vec![stream_head(), hint, Act::Close]
            }
            ("GET", _) if seen.last_event_id.as_deref() == Some("e-1") => {
                // Once more without an answer, then with it. The request was the third message: 0, notification, 1.
                if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                    vec![stream_head(), Act::Close]
                } else {
                    let end = json!({ "jsonrpc": "2.0", "id": 1, "result": crate::script::content("at last") });
                    vec![stream_head(), event(Some("e-2"), &end), Act::Close]
                }
            }
            _ => legacy(seen),
        })
    };
    for (wire, version) in [(Wire::Http, "2025-06-18"), (Wire::Stdio, LEGACY), (Wire::Http, MODERN)] {
        let script = script().await;
        let server = Server { entry: script.entry(), peer: None };
        let mut client = Client::start(wire, &server, version, json!({})).await;
        let all = client.run("tools/call", call()).await;
        assert_eq!(all.len(), 1, "{wire:?} {version}: {all:?}");
        assert_eq!(all[0]["result"]["content"][0]["text"], "at last", "{wire:?} {version}");
        let calls = script.methods().iter().filter(|method| *method == "tools/call").count();
        assert_eq!(calls, 1, "{wire:?} {version}: a call is not sent again");
    }
}
