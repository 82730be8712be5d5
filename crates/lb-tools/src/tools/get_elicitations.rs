//! `get_elicitations`: what servers ask the user.

use lb_session::{Pending, PendingKind};
use lb_wire::Raw;

use crate::catalog::{Hints, Run, Tool};
use crate::fanout;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "get_elicitations",
    title: "Get questions to the user",
    description: "List questions of servers to the user that wait for an answer: [{requestId, server, mode, \
                  message, requestedSchema, url}]. Ask the user, then answer with respond_to_elicitation.",
    operation: "get elicitations",
    input: "{}",
    required: &[],
    output: Some(r#"{ "elicitations": { "type": "array" } }"#),
    hints: Hints::Reads,
    run: Run::Now(|request| listed(request, PendingKind::Elicitation, "elicitations", "No pending elicitations")),
};

/// The requests of one kind that wait.
pub(crate) fn listed(request: &Request, kind: PendingKind, name: &'static str, empty: &str) -> Reply {
    let rows: Vec<Raw> = request.live().cell().with(|session| {
        session.pending(kind).filter(|pending| request.knows(pending.server())).map(Pending::row).collect()
    });
    fanout::listed(request, name, &rows, &[], empty)
}
