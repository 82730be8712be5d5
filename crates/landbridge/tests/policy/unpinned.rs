//! An operator who does not want to know whether tools change.

use serde_json::json;

use crate::keyed::{Keyed, result, server, tool};
use crate::world::Client;

#[tokio::test]
async fn without_pins_a_tool_that_changed_is_a_tool_like_any_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let audit = folder.path().join("audit");
    let mut keyed = Keyed::new(server(&[]), "pin = \"off\"\n", &["mcp:read mcp:call"]).await;
    keyed.command.arg("--audit-log").arg(&audit);
    let (gateway, keys) = keyed.start().await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    let own = Client::begin_at(gateway.address, &keys[0], "/mcp/server/it").await;
    let listed = async || {
        let both = [tool(&client, "list_tools", json!({})).await, result(&own.ask(1, "tools/list", json!({})).await)];
        both.map(|list| list.to_string())
    };
    let before = listed().await;
    let turns = json!({ "server": "it", "tool": "plain", "args": { "turn": true } });
    let turned = tool(&client, "execute_tool", turns).await;
    assert_eq!(turned["content"][0]["text"], "plained", "{turned}");
    let turned = result(&own.call("plain", json!({ "turn": true })).await);
    assert_eq!(turned["content"][0]["text"], "plained", "{turned}");
    let after = listed().await;
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(before, after, "it says something else now");
        assert!(!after.to_lowercase().contains("changed"), "{after}");
    }
    let later = tool(&client, "await_activity", json!({ "timeout_ms": 500 })).await.to_string();
    assert!(!later.contains("tool_changed"), "{later}");
    let greeted = tool(&client, "execute_tool", json!({ "server": "it", "tool": "greet" })).await;
    assert_eq!(greeted["content"][0]["text"], "greeted", "{greeted}");
    assert!(!gateway.said().contains("tool_changed"), "{}", gateway.said());
    assert!(!std::fs::read_to_string(&audit).unwrap_or_default().contains("tool_changed"));
}
