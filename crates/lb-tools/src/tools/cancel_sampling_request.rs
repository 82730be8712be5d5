//! `cancel_sampling_request`: a request of a server that gets no answer.

use lb_session::PendingKind;

use crate::catalog::{Hints, Run, Tool};
use crate::respond;

pub(crate) static TOOL: Tool = Tool {
    name: "cancel_sampling_request",
    title: "Cancel a sampling request",
    description: "Refuse a server's request for text from a model; the server gets an error with your reason.",
    operation: "cancel sampling request",
    input: r#"{
        "request_id": { "type": "string", "description": "requestId of the request" },
        "reason": { "type": "string", "default": "User cancelled", "description": "Why" }
    }"#,
    required: &["request_id"],
    output: Some(r#"{ "success": { "type": "boolean" } }"#),
    hints: Hints::Ends,
    run: Run::Now(|request| respond::cancel(request, PendingKind::Sampling).into()),
};
