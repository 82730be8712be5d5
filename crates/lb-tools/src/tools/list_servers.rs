//! `list_servers`: every server and how it is doing.

use lb_gateway::ServerView;
use lb_session::rfc3339;
use lb_wire::Raw;
use lb_wire::compose::Object;

use crate::catalog::{Hints, Run, Tool};
use crate::failure::millis;
use crate::fanout;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "list_servers",
    title: "List servers",
    description: "List the MCP servers reachable through landbridge, with transport and status (connected, \
                  not_connected, connecting, reconnecting, disconnected, error, login_needed). Start here, then \
                  list_tools. A not_connected server connects at first use; loginUrl is for the user.",
    operation: "list servers",
    input: "{}",
    required: &[],
    output: Some(r#"{ "servers": { "type": "array" } }"#),
    hints: Hints::Reads,
    run: Run::Waits(|request| Box::pin(async move { run(&request).await })),
};

/// How a server stands that waits for a login.
pub(crate) const LOGIN_NEEDED: &str = "login_needed";

async fn run(request: &Request) -> Reply {
    request.live().look_at_logins().await;
    let rows: Vec<Raw> = request.live().servers().iter().map(row).collect();
    fanout::listed(request, "servers", &rows, &[], "No servers configured")
}

/// A server as it is listed. Its headers and the variables of its environment are not in the view.
pub(crate) fn row(view: &ServerView) -> Raw {
    let status = if view.login.is_some() { LOGIN_NEEDED } else { view.status.as_str() };
    let (connected, reconnecting) = (status == "connected", status == "reconnecting");
    let since = view.connected_at.filter(|_| connected).map(rfc3339);
    let mut row = Object::new()
        .text("name", &view.name)
        .text("url", &view.address)
        .text("transport", view.transport)
        .text("status", status)
        .flag("connected", connected)
        .maybe_text("connectedAt", since.as_deref())
        .maybe_text("loginUrl", view.login.as_ref().map(|login| login.url.as_str()))
        .maybe_text("lastError", view.last_error.as_deref().filter(|_| view.login.is_none()));
    if let Some(attempt) = view.attempt.filter(|_| reconnecting) {
        row = row.number("reconnectAttempt", attempt);
    }
    if let Some(wait) = view.next_retry.filter(|_| reconnecting) {
        row = row.number("nextRetryMs", millis(wait));
    }
    if let Some(healthy) = view.healthy.filter(|_| connected) {
        row = row.text("healthStatus", if healthy { "healthy" } else { "degraded" });
    }
    if let Some(failures) = view.health_failures.filter(|_| connected) {
        row = row.number("consecutiveHealthFailures", failures);
    }
    match view.pid {
        Some(pid) => row.number("pid", pid),
        None => row,
    }
    .finish()
}
