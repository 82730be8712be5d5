//! Logs: kept for who asks, and nobody is woken by them.

use std::time::Instant;

use lb_peers::tools::ToolClient;
use serde_json::{Value, json};

use crate::world::{self, drain, execute, gateway};

/// Logs that match, once there are as many.
async fn logs(client: &ToolClient, mut filter: Value, wanted: usize) -> Vec<Value> {
    filter["clear"] = json!(false);
    let start = Instant::now();
    loop {
        let rows = client.call("get_logs", filter.clone()).await.json();
        let rows = rows.as_array().cloned().unwrap_or_default();
        if wanted <= rows.len() || world::PATIENCE < start.elapsed() {
            return rows;
        }
    }
}

#[tokio::test]
async fn a_log_wakes_nobody() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    let logged = execute(&client, "one", "log", json!({ "count": 3 })).await;
    assert!(!logged.is_error() && logged.events().is_empty(), "{logged}");
    let waited = client.call("await_activity", json!({ "timeout_ms": 500 })).await.json();
    assert_eq!((&waited["triggers"][0]["type"], &waited["events"]), (&json!("timeout"), &json!([])));
    assert_eq!(logs(&client, json!({ "server": "one", "sources": ["protocol"] }), 3).await.len(), 3);
}

#[tokio::test]
async fn five_hundred_lines_are_kept_of_each_server() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    // Fewer at once than a call's own queue holds: what is beyond that may be lost on the way.
    for from in [0, 100, 200, 300, 400] {
        execute(&client, "one", "log", json!({ "from": from, "count": 100 })).await;
    }
    execute(&client, "one", "log", json!({ "from": 500, "count": 1 })).await;
    execute(&client, "two", "log", json!({ "count": 1 })).await;
    let rows = logs(&client, json!({ "server": "one", "sources": ["protocol"], "limit": 500 }), 500).await;
    assert_eq!(rows.len(), 500);
    let start = Instant::now();
    let mut last = rows.last().cloned().unwrap_or_default();
    while last["data"] != "line 500" && start.elapsed() < world::PATIENCE {
        let rows = logs(&client, json!({ "server": "one", "limit": 500 }), 500).await;
        last = rows.last().cloned().unwrap_or_default();
    }
    let rows = logs(&client, json!({ "server": "one", "limit": 500 }), 500).await;
    assert_eq!((&rows[0]["data"], &rows[499]["data"]), (&json!("line 1"), &json!("line 500")), "the first one went");
    assert_eq!(logs(&client, json!({ "server": "two" }), 1).await.len(), 1);
}

#[tokio::test]
async fn lines_are_found_by_where_they_came_from() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    execute(&client, "one", "print", json!({ "to": "stderr", "line": "to the side" })).await;
    execute(&client, "one", "print", json!({ "to": "stdout", "line": "no JSON" })).await;
    execute(&client, "one", "log", json!({ "count": 1, "level": "error" })).await;
    for (source, data, level) in
        [("stderr", "to the side", "warning"), ("stdout", "no JSON", "info"), ("protocol", "line 0", "error")]
    {
        let rows = logs(&client, json!({ "server": "one", "sources": [source] }), 1).await;
        assert_eq!(rows.len(), 1, "{source}: {rows:?}");
        let row = &rows[0];
        assert_eq!((&row["source"], &row["data"], &row["level"]), (&json!(source), &json!(data), &json!(level)));
        let rows = logs(&client, json!({ "server": "one", "exclude_sources": [source] }), 2).await;
        assert!(rows.iter().all(|row| row["source"] != source) && rows.len() == 2, "{rows:?}");
    }
}

#[tokio::test]
async fn what_is_kept_of_a_server_goes_with_it() {
    let gateway = gateway().await;
    let client = world::http(&gateway).await;
    execute(&client, "one", "log", json!({ "count": 2 })).await;
    execute(&client, "two", "log", json!({ "count": 2 })).await;
    assert_eq!(logs(&client, json!({ "server": "one" }), 2).await.len(), 2);
    assert!(!client.call("remove_server", json!({ "name": "one" })).await.is_error());
    drain(&client).await;
    let left = logs(&client, json!({}), 2).await;
    assert!(left.iter().all(|row| row["server"] == "two") && left.len() == 2, "{left:?}");
}
