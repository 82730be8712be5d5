//! `cancel_elicitation_request`: a request of a server that gets no answer.

use lb_session::PendingKind;

use crate::catalog::{Hints, Run, Tool};
use crate::respond;

pub(crate) static TOOL: Tool = Tool {
    name: "cancel_elicitation_request",
    title: "Cancel a question",
    description: "Give up a server's question without an answer; the server is told that it was cancelled. To say no \
                  in the user's name, use respond_to_elicitation with 'decline'.",
    operation: "cancel elicitation request",
    input: r#"{
        "request_id": { "type": "string", "description": "requestId of the request" },
        "reason": { "type": "string", "default": "User cancelled", "description": "Why" }
    }"#,
    required: &["request_id"],
    output: Some(r#"{ "success": { "type": "boolean" } }"#),
    hints: Hints::Ends,
    run: Run::Now(|request| respond::cancel(request, PendingKind::Elicitation).into()),
};
