//! HTTP servers that answer the era probe in every way that servers do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::client::{Client, LEGACY, MODERN, Server, Wire};
use crate::script::{Act, Script, Seen, error, event, json_reply, legacy, modern, result, stream_head, text_reply};

const CODES: [i64; 13] =
    [-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, -32020, -32021, -32042, 0, 4711];

/// What a server does with one request.
type Answer = Box<dyn Fn(&Seen) -> Vec<Act> + Send + Sync>;

/// How a server that knows only `initialize` may answer `server/discover`.
fn refusals() -> Vec<(String, Answer)> {
    let mut all: Vec<(String, Answer)> = Vec::new();
    for status in [400, 404, 405, 406, 409, 410, 415, 422] {
        all.push((format!("{status} text"), Box::new(move |_| text_reply(status, "what is this?"))));
        all.push((format!("{status} empty"), Box::new(move |_| text_reply(status, ""))));
    }
    for code in CODES {
        all.push((format!("400 {code}"), Box::new(move |seen| json_reply(400, &error(seen, code)))));
        all.push((format!("200 {code}"), Box::new(move |seen| json_reply(200, &error(seen, code)))));
    }
    all.push(("404 -32601".into(), Box::new(|seen| json_reply(404, &error(seen, -32601)))));
    all.push(("400 null id".into(), Box::new(|_| json_reply(400, &error_without_id()))));
    all.push(("400 no message".into(), Box::new(|_| json_reply(400, &json!({ "error": "Bad Request" })))));
    all.push((
        "400 -32022 names legacy".into(),
        Box::new(|seen| {
            let mut answer = error(seen, -32022);
            answer["error"]["data"] = json!({ "supported": ["2025-11-25", "2025-06-18"], "requested": MODERN });
            json_reply(400, &answer)
        }),
    ));
    all.push(("200 empty result".into(), Box::new(|seen| json_reply(200, &result(seen, json!({}))))));
    all.push((
        "200 stream with an error".into(),
        Box::new(|seen| vec![stream_head(), event(None, &error(seen, -32601)), Act::Close]),
    ));
    all.push(("200 page".into(), Box::new(|_| text_reply(200, "<html>welcome</html>"))));
    all.push(("202".into(), Box::new(|_| text_reply(202, ""))));
    all
}

fn error_without_id() -> Value {
    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "Bad Request: no session" } })
}

/// A modern client reaches a legacy server, whatever that says to the probe, and the verdict is kept.
#[tokio::test]
async fn a_server_that_refuses_the_probe_is_spoken_to_in_the_legacy_era() {
    for (name, refuse) in refusals() {
        let script = Script::start(move |seen| match seen.method.as_str() {
            "server/discover" => refuse(seen),
            _ => legacy(seen),
        })
        .await;
        let server = Server { entry: script.entry(), peer: None };
        let gateway = server.gateway().await;
        for _ in 0..2 {
            let mut client = Client::http(gateway.address, MODERN, json!({})).await;
            let answer = client.run("tools/call", json!({ "name": "legacy", "arguments": {} })).await;
            let answer = answer.last().expect("an answer");
            assert_eq!(answer["result"]["content"][0]["text"], "from the legacy era", "{name}: {answer}");
            assert_eq!(answer["result"]["resultType"], "complete", "{name}: {answer}");
        }
        let methods = script.methods();
        let count = |method: &str| methods.iter().filter(|seen| *seen == method).count();
        assert_eq!((count("server/discover"), count("initialize")), (1, 1), "{name}: {methods:?}");
    }
}

/// What says nothing about the era is an error of this request, and remembered by nobody.
#[tokio::test]
async fn an_outage_is_not_taken_for_an_era() {
    for (status, body) in [(401, ""), (403, ""), (429, "slow down"), (500, "oops"), (502, ""), (503, "later")] {
        for (version, healthy, other) in [(MODERN, "modern", "initialize"), (LEGACY, "legacy", "server/discover")] {
            let ill = Arc::new(AtomicBool::new(true));
            let told = ill.clone();
            let script = Script::start(move |seen| {
                if told.load(Ordering::SeqCst) {
                    return text_reply(status, body);
                }
                if healthy == "modern" { modern(seen) } else { legacy(seen) }
            })
            .await;
            let server = Server { entry: script.entry(), peer: None };
            let gateway = server.gateway().await;
            let context = format!("{status} {version}");
            if version == MODERN {
                let mut client = Client::http(gateway.address, MODERN, json!({})).await;
                let answer = client.run("tools/list", json!({})).await.pop().expect("an answer");
                assert_eq!(answer["error"]["code"], -32603, "{context}: {answer}");
            } else {
                let mut http = lb_peers::raw::RawHttp::connect(gateway.address).await.expect("it listens");
                let hello = lb_peers::raw::http::initialize_request("1", LEGACY);
                let headers = lb_peers::raw::http::post_headers();
                let answer = http.post(crate::client::PATH, &headers, hello.as_bytes()).await.expect("an answer");
                assert!(answer.text().contains("-32603"), "{context}: {}", answer.text());
                assert_eq!(answer.head.header("mcp-session-id"), None, "{context}: no session is left");
            }
            ill.store(false, Ordering::SeqCst);
            let mut client = Client::http(gateway.address, version, json!({})).await;
            let answer = client.run("tools/list", json!({})).await.pop().expect("an answer");
            assert_eq!(answer["result"]["tools"][0]["name"], healthy, "{context}: {answer}");
            let methods = script.methods();
            assert!(!methods.iter().any(|method| method == other), "{context}: {methods:?}");
        }
    }
}

/// A server that is down when first asked is no legacy server either.
#[tokio::test]
async fn a_server_that_cannot_be_reached_is_asked_again_in_the_same_era() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let server = Server { entry: json!({ "url": format!("http://{address}/mcp") }), peer: None };
    let gateway = server.gateway().await;
    let mut client = Client::http(gateway.address, MODERN, json!({})).await;
    let answer = client.run("tools/list", json!({})).await.pop().expect("an answer");
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
}

/// A legacy client reaches a server that knows only the modern era, whatever that says to `initialize`.
#[tokio::test]
async fn a_modern_only_server_is_found_by_a_legacy_client() {
    for (name, refuse) in refusals() {
        if name == "400 -32022 names legacy" {
            continue; // it contradicts itself
        }
        let script = Script::start(move |seen| match seen.method.as_str() {
            "initialize" => refuse(seen),
            _ => modern(seen),
        })
        .await;
        let server = Server { entry: script.entry(), peer: None };
        let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
        let answer = client.run("tools/call", json!({ "name": "modern", "arguments": {} })).await;
        let answer = answer.last().expect("an answer");
        assert_eq!(answer["result"]["content"][0]["text"], "from the modern era", "{name}: {answer}");
        assert_eq!(answer["result"].get("resultType"), None, "{name}: {answer}");
    }
}

/// A legacy client's server is not probed at all.
#[tokio::test]
async fn a_legacy_pair_needs_no_probe() {
    let script = Script::start(legacy).await;
    let server = Server { entry: script.entry(), peer: None };
    let mut client = Client::start(Wire::Http, &server, LEGACY, json!({})).await;
    client.run("tools/list", json!({})).await;
    assert_eq!(script.methods(), ["initialize", "notifications/initialized", "tools/list"]);
}
