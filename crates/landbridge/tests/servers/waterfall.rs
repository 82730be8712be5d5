//! What operators see: the waterfall of requests, and the sessions.

use lb_peers::harness::Gateway;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Response, headers};
use lb_peers::tools::ToolClient;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::desk::{Desk, Front};
use crate::world::{add, fixture, script};

async fn get(gateway: &Gateway, path: &str) -> Response {
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    http.request("GET", path, &[], b"").await.expect("an answer")
}

async fn page(gateway: &Gateway) -> Value {
    serde_json::from_str(&get(gateway, "/waterfall/json").await.text()).expect("JSON")
}

/// The rows of all sessions.
fn rows(page: &Value) -> Vec<Value> {
    let sessions = page["sessions"].as_object().expect("sessions").values();
    sessions.flat_map(|rows| rows.as_array().cloned().unwrap_or_default()).collect()
}

#[tokio::test]
async fn every_request_is_a_row_with_its_kind_its_end_and_its_time() {
    let mut desk = Desk::open(Front::Http, json!({ "s": fixture("legacy") })).await;
    desk.works("s").await;
    desk.run("s", "no_such_tool", json!({})).await;
    desk.ok("read_resource", json!({ "server": "s", "uri": "test://static-text" })).await;
    desk.ok("get_prompt", json!({ "server": "s", "name": "test_simple_prompt" })).await;
    let task = desk.task("s", "sleep", json!({ "ms": 1_000 })).await;
    let now = page(desk.gateway()).await;
    let sleeping =
        rows(&now).into_iter().find(|row| row["type"] == "backend_tool" && row["name"] == "sleep").expect("a row");
    assert_eq!(sleeping["status"], "timeout", "{sleeping}");
    desk.ok("get_task_result", json!({ "task_id": task })).await;
    let now = page(desk.gateway()).await;
    assert!(now["generatedAt"].is_string() && now["stats"]["sessionCount"] == 1, "{now}");
    let rows = rows(&now);
    assert_eq!(now["stats"]["totalRequests"].as_u64(), Some(rows.len() as u64), "{now}");
    let total = |group: &str| {
        now["stats"][group].as_object().into_iter().flat_map(|by| by.values()).filter_map(Value::as_u64).sum::<u64>()
    };
    assert_eq!((total("byStatus"), total("byType")), (rows.len() as u64, rows.len() as u64), "{now}");
    for (kind, name, status) in [
        ("tool_call", "execute_tool", "completed"),
        ("backend_tool", "echo", "completed"),
        ("backend_tool", "no_such_tool", "failed"),
        ("backend_tool", "sleep", "completed"),
        ("backend_resource", "test://static-text", "completed"),
        ("backend_prompt", "test_simple_prompt", "completed"),
    ] {
        let found = rows.iter().find(|row| row["type"] == kind && row["name"] == name && row["status"] == status);
        let row = found.unwrap_or_else(|| panic!("no {kind} {name} {status} in {rows:#?}"));
        assert!(row["requestId"].is_string() && row["sessionId"].is_string() && row["startedAt"].is_string(), "{row}");
        assert!(row["endedAt"].is_string() && row["durationMs"].is_number(), "{row}");
        assert!(kind == "tool_call" || row["server"] == "s", "{row}");
        assert!(row.get("args").is_none(), "arguments are not kept unless asked for: {row}");
        assert_eq!(row.get("error").is_some(), status == "failed", "{row}");
    }
    let sleep = rows.iter().find(|row| row["type"] == "backend_tool" && row["name"] == "sleep").expect("a row");
    assert!(sleep["durationMs"].as_f64().is_some_and(|ms| 900.0 <= ms), "its whole time: {sleep}");
    let session = desk.client.session_id().expect("a session");
    assert!(!now.to_string().contains(&session), "a session id is a secret");
}

#[tokio::test]
async fn a_session_keeps_a_hundred_rows_and_takes_them_with_it() {
    let desk = Desk::open(Front::Http, json!({})).await;
    for _ in 0..130 {
        desk.client.call("list_timers", json!({})).await;
    }
    let now = page(desk.gateway()).await;
    assert_eq!(rows(&now).len(), 100, "{}", now["stats"]);
    let other = ToolClient::http(desk.gateway()).await;
    other.call("list_tasks", json!({})).await;
    assert_eq!(desk.client.end().await, 200);
    let now = page(desk.gateway()).await;
    assert!(now["stats"]["sessionCount"] == 1 && rows(&now).iter().all(|row| row["name"] == "list_tasks"), "{now}");
}

#[tokio::test]
async fn all_sessions_together_keep_a_thousand_rows() {
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({}), &[]).await;
    let mut clients = Vec::new();
    for _ in 0..12 {
        let client = ToolClient::http(&gateway).await;
        for _ in 0..100 {
            client.call("list_timers", json!({})).await;
        }
        clients.push(client);
    }
    let now = page(&gateway).await;
    assert_eq!(rows(&now).len(), 1_000, "{}", now["stats"]);
    assert_eq!(now["stats"]["totalRequests"], 1_000, "{}", now["stats"]);
}

#[tokio::test]
async fn arguments_are_shown_only_when_asked_for_and_cut_and_without_secrets() {
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({ "s": fixture("legacy") }), &["--record-args"]).await;
    let mut desk = Desk::at(&gateway).await;
    desk.works("s").await;
    let args = json!({ "message": "y".repeat(5_000), "password": "hunter2-secret" });
    desk.run("s", "echo", args).await;
    let now = page(&gateway).await;
    let kept: Vec<_> = rows(&now).into_iter().filter(|row| row.get("args").is_some()).collect();
    assert!(!kept.is_empty(), "{now}");
    for row in &kept {
        assert!(row["args"].to_string().len() <= 1_200, "{row}");
    }
    assert!(!now.to_string().contains("hunter2-secret"), "{now}");
    assert!(!get(&gateway, "/waterfall").await.text().contains("hunter2-secret"));
}

#[tokio::test]
async fn the_page_refreshes_itself_and_escapes_what_clients_send() {
    const HOSTILE: &str = "<script>alert(1)</script>\"'&";
    let mut desk = Desk::open(Front::Http, json!({})).await;
    desk.ok("add_server", add("s", &script(&json!({})))).await;
    desk.run("s", HOSTILE, json!({})).await;
    desk.run(HOSTILE, "echo", json!({})).await;
    desk.call("read_resource", json!({ "server": "s", "uri": HOSTILE })).await;
    for path in ["/waterfall", "/waterfall/"] {
        let page = get(desk.gateway(), path).await;
        assert_eq!(page.head.status(), 200);
        assert!(page.head.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
        let text = page.text();
        assert!(!text.contains("<script>alert(1)"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(1)") || !text.contains("alert(1)"), "{text}");
        let policy = page.head.header("content-security-policy").unwrap_or_default().to_owned();
        assert!(policy.contains("default-src 'none'"), "{policy}");
    }
    let json = get(desk.gateway(), "/waterfall/json").await;
    assert!(json.head.header("content-type").is_some_and(|kind| kind.starts_with("application/json")));
    let named = rows(&serde_json::from_str(&json.text()).expect("JSON")).iter().any(|row| row["name"] == HOSTILE);
    assert!(named, "{}", json.text());
}

#[tokio::test]
async fn only_operators_see_the_pages() {
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({}), &[]).await;
    for path in ["/waterfall", "/waterfall/json"] {
        let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
        let forwarded = headers(&[("X-Forwarded-For", "203.0.113.7")]);
        let answer = http.request("GET", path, &forwarded, b"").await.expect("an answer");
        assert_eq!(answer.head.status(), 403, "{path}");
    }
}
