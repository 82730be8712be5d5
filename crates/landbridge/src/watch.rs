//! What an operator and a monitor can see of a gateway over HTTP: its sessions, what was called, and how it is doing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lb_gateway::{Gateway, SessionView, rfc3339};
use lb_store::{Facts, Kind, Store};
use serde_json::{Map, Value, json};

/// The pages for operators.
pub fn pages(gateway: &Gateway) -> Vec<lb_http::Pages> {
    vec![waterfall(gateway), sessions(gateway)]
}

/// What `/health` says of the gateway, and of the store that keeps its sessions.
pub fn health(gateway: &Gateway, store: Option<Arc<dyn Store>>) -> lb_http::HealthSource {
    let gateway = gateway.clone();
    Arc::new(move || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut told = vec![("activeSessions", gateway.sessions().into()), ("timestamp", rfc3339(now).into())];
        if let Some(store) = &store {
            told.extend(storage(&store.facts(), now));
        }
        told
    })
}

/// How the store stands. Without it, what is here goes on.
fn storage(facts: &Facts, now: Duration) -> Vec<(&'static str, Value)> {
    let kind = match facts.kind {
        Kind::Memory => "memory",
        Kind::Disk => "disk",
        Kind::Valkey | Kind::Cluster => "valkey",
    };
    let mut storage = json!({ "type": kind, "ok": facts.away_since.is_none() });
    if let Some(latency) = facts.latency {
        storage["latencyMs"] = json!(latency.as_secs_f64() * 1_000.0);
    }
    let Some(since) = facts.away_since else { return vec![("storage", storage)] };
    let since = since.duration_since(UNIX_EPOCH).unwrap_or(now);
    storage["awaySince"] = json!(rfc3339(since));
    let works = json!(["sessions that are on this node", "requests that need no session"]);
    vec![("ok", json!(false)), ("status", json!("degraded")), ("storage", storage), ("works", works)]
}

/// The waterfall of what is called.
fn waterfall(gateway: &Gateway) -> lb_http::Pages {
    let pages = lb_ui::Waterfall::new(gateway.tracker().clone(), Arc::new(gateway.clock()));
    let source = move |path: &str, query: Option<&str>| {
        let lb_ui::Page { status, content_type, body, content_security_policy } = pages.page(path, query)?;
        Some(lb_http::Page { status, content_type, body, content_security_policy })
    };
    lb_http::Pages { path: "/waterfall", source: Arc::new(source) }
}

/// Who is here.
fn sessions(gateway: &Gateway) -> lb_http::Pages {
    let gateway = gateway.clone();
    let source = move |path: &str, _: Option<&str>| {
        let page = || lb_http::Page::document(&listed(&gateway.session_views(), gateway.sessions_resting()));
        matches!(path, "/sessions" | "/sessions/").then(page)
    };
    lb_http::Pages { path: "/sessions", source: Arc::new(source) }
}

fn listed(views: &[SessionView], resting: usize) -> Value {
    let rows: Vec<Value> = views.iter().map(row).collect();
    json!({ "activeSessions": views.len(), "restingSessions": resting, "sessions": rows })
}

fn row(view: &SessionView) -> Value {
    let backends: Map<String, Value> =
        view.backends.iter().map(|(name, status)| (name.clone(), Value::from(*status))).collect();
    json!({
        "id": view.id,
        "createdAt": rfc3339(view.created_at),
        "lastActivity": rfc3339(view.last_activity),
        "requestCount": view.request_count,
        "openStreams": view.open_streams,
        "workingTasks": view.working_tasks,
        "pendingClient": view.pending_client,
        "backends": backends,
    })
}
