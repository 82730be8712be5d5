//! What an operator and a monitor can see of a gateway over HTTP: its sessions, what was called, and how it is doing.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lb_gateway::{Gateway, SessionView, rfc3339};
use serde_json::{Map, Value, json};

/// The pages for operators.
pub fn pages(gateway: &Gateway) -> Vec<lb_http::Pages> {
    vec![waterfall(gateway), sessions(gateway)]
}

/// What `/health` says of the gateway.
pub fn health(gateway: &Gateway) -> lb_http::HealthSource {
    let gateway = gateway.clone();
    Arc::new(move || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        vec![("activeSessions", gateway.sessions().into()), ("timestamp", rfc3339(now).into())]
    })
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
        let page = || lb_http::Page::document(&listed(&gateway.session_views()));
        matches!(path, "/sessions" | "/sessions/").then(page)
    };
    lb_http::Pages { path: "/sessions", source: Arc::new(source) }
}

fn listed(views: &[SessionView]) -> Value {
    let rows: Vec<Value> = views.iter().map(row).collect();
    json!({ "activeSessions": views.len(), "sessions": rows })
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
