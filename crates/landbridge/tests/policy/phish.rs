//! A server that asks for what it should not have.

use lb_peers::harness::Gateway;
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};

use crate::keyed::{Keyed, server, tool};
use crate::world::Client;

fn form(name: &str, field: &Value) -> Value {
    let schema = json!({ "type": "object", "properties": { name: field } });
    json!({ "message": "Please", "requestedSchema": schema })
}

fn link(url: &str) -> Value {
    json!({ "mode": "url", "message": "Please", "url": url, "elicitationId": "e1" })
}

/// What nobody is to be asked.
fn evil() -> Vec<Value> {
    let text = json!({ "type": "string" });
    vec![
        form("password", &text),
        form("apiKey", &text),
        form("value", &json!({ "type": "string", "title": "Your one-time passcode" })),
        form("value", &json!({ "type": "string", "description": "The password of your mail account" })),
        form("pin", &json!({ "type": "integer" })),
        link("http://example.org/login"),
        link("javascript:alert(1)"),
        link("https://bank.example@evil.example/"),
        link("file:///etc/passwd"),
    ]
}

/// A client without means of its own: its model would be asked.
#[tokio::test]
async fn nobody_is_asked_for_secrets_or_sent_to_unsafe_places() {
    let (gateway, keys) = Keyed::new(server(&[]), "", &["mcp:read mcp:call"]).await.start().await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    let evil = evil();
    let asked = json!({ "server": "it", "tool": "ask", "args": { "asked": evil } });
    let reply = tool(&client, "execute_tool", asked).await;
    let answers: Vec<Value> = serde_json::from_str(reply["content"][0]["text"].as_str().unwrap_or_default())
        .unwrap_or_else(|_| panic!("{reply}"));
    assert_eq!(answers.len(), evil.len());
    for (asked, answer) in evil.iter().zip(&answers) {
        assert_eq!(answer["result"], json!({ "action": "cancel" }), "{asked}");
    }
    let pending = tool(&client, "get_elicitations", json!({})).await;
    assert_eq!(pending["structuredContent"]["elicitations"], json!([]), "{pending}");
}

/// Three questions within a minute, and no more.
#[tokio::test]
async fn a_server_may_ask_three_times_a_minute() {
    let (gateway, keys) = Keyed::new(server(&[]), "", &["mcp:read mcp:call"]).await.start().await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    let asked =
        json!({ "server": "it", "tool": "ask", "args": { "asked": [form("name", &json!({ "type": "string" }))] } });
    for number in 0..4 {
        let reply = tool(&client, "execute_tool", asked.clone()).await;
        let pending = tool(&client, "get_elicitations", json!({})).await;
        let rows = pending["structuredContent"]["elicitations"].as_array().cloned().unwrap_or_default();
        if number == 3 {
            assert!(rows.is_empty(), "the fourth is refused: {reply} {rows:?}");
            break;
        }
        assert_eq!(rows.len(), 1, "question {number}: {reply} {pending}");
        assert_eq!(rows[0]["server"], "it", "who asks is told: {pending}");
        let id = &rows[0]["requestId"];
        tool(&client, "respond_to_elicitation", json!({ "request_id": id, "action": "decline" })).await;
    }
    let other = Client::begin(gateway.address, &keys[0]).await;
    tool(&other, "execute_tool", asked).await;
    let pending = tool(&other, "get_elicitations", json!({})).await.to_string();
    assert!(pending.contains("requestId"), "each session counts by itself: {pending}");
}

/// Who asks, and where a link leads, stands in what a person reads.
#[tokio::test]
async fn a_person_is_told_which_server_asks_and_where_a_link_leads() {
    let gateway = Gateway::serve_tools(crate::LANDBRIDGE, json!({ "it": server(&[]) }), &[]).await;
    let capabilities = json!({ "elicitation": { "form": {}, "url": {} } });
    let client = ToolClient::at(gateway.address, Settings { capabilities, ..Settings::default() }).await;
    let asked = json!([form("name", &json!({ "type": "string" })), link("https://login.example:8443/x?y")]);
    let running =
        client.start("execute_tool", json!({ "server": "it", "tool": "ask", "args": { "asked": asked } })).await;
    let link = "Server 'it' asks you to open a page at login.example:8443: Please";
    for want in ["Server 'it' asks: Please", link] {
        let ask = client.next_ask().await;
        assert_eq!(ask.params["message"], want);
        client.answer(&ask, json!({ "action": "decline" })).await;
    }
    let reply = running.wait().await;
    assert!(!reply.is_error(), "{reply}");
    let evil = evil();
    let asked = json!({ "server": "it", "tool": "ask", "args": { "asked": evil } });
    let reply = client.call("execute_tool", asked).await;
    assert_eq!((client.asks_waiting(), reply.is_error()), (0, false), "nobody is asked: {reply}");
    assert_eq!(reply.text().matches(r#"{"action": "cancel"}"#).count(), evil.len(), "{reply}");
}
