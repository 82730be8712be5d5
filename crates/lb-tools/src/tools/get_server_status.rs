//! `get_server_status`: everything about one server.

use lb_session::{Filter, PendingKind, Session, Task};
use lb_wire::compose::{Object, array};
use lb_wire::{Raw, Text};

use super::list_servers;
use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "get_server_status",
    title: "Status of a server",
    description: "Show one server in detail: connection, capabilities, running tasks, requests that wait for an \
                  answer, subscriptions, and its last stderr lines. Use it to find out why a server fails. Nothing \
                  is consumed.",
    operation: "get server status",
    input: r#"{ "server": { "type": "string", "description": "Server name" } }"#,
    required: &["server"],
    output: Some(r#"{ "server": { "type": "object" }, "pending": { "type": "object" } }"#),
    hints: Hints::Reads,
    run: Run::Now(|request| run(request).into()),
};

const STDERR_LINES: usize = 20;

fn run(request: &Request) -> Checked<Reply> {
    let backend = request.backend("server", "tools/list")?;
    let name = backend.name().clone();
    let facts = backend.facts();
    let mut status = Object::new().raw("server", &list_servers::row(&backend.view()));
    if let Some(facts) = &facts {
        status = status
            .raw("capabilities", &facts.capabilities)
            .maybe("serverInfo", facts.server_info.as_ref())
            .text("protocolVersion", facts.revision.as_str());
    }
    let status = request.live().cell().with(|session| remembered(status, session, &name));
    Ok(Reply::object(status.raw("subscriptions", &Raw::value(&backend.subscriptions())).finish()))
}

/// What the session knows of the server.
fn remembered(status: Object, session: &Session, name: &Text) -> Object {
    let notifications = session.events.waiting(&Filter::Notifications { server: Some(name.clone()) });
    let counts = Object::new().number("notifications", notifications).number("logs", session.log_count(name)).finish();
    status
        .raw("working_tasks", &working(session, name))
        .raw("pending", &pending(session, name))
        .raw("counts", &counts)
        .raw("lastStderr", &Raw::value(&session.last_stderr(name, STDERR_LINES)))
}

/// The working tasks of a server, in few words.
pub(crate) fn working(session: &Session, server: &str) -> Raw {
    let rows: Vec<Raw> = session.working_of(server).map(Task::brief).collect();
    array(rows.iter())
}

/// What a server asks, of one kind.
pub(crate) fn asked(session: &Session, server: &str, kind: PendingKind) -> Raw {
    let of_kind = session.pending_of(server).filter(|request| request.kind() == kind);
    let rows: Vec<Raw> = of_kind.map(lb_session::Pending::row).collect();
    array(rows.iter())
}

fn pending(session: &Session, server: &str) -> Raw {
    Object::new()
        .raw("elicitations", &asked(session, server, PendingKind::Elicitation))
        .raw("sampling_requests", &asked(session, server, PendingKind::Sampling))
        .finish()
}
