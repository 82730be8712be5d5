//! `get_sampling_requests`: what servers ask a model.

use lb_session::PendingKind;

use super::get_elicitations::listed;
use crate::catalog::{Hints, Run, Tool};

pub(crate) static TOOL: Tool = Tool {
    name: "get_sampling_requests",
    title: "Get requests to the model",
    description: "List requests of servers for text from a language model (you): [{requestId, server, messages, \
                  systemPrompt, maxTokens, tools}]. Answer with respond_to_sampling or refuse with \
                  cancel_sampling_request.",
    operation: "get sampling requests",
    input: "{}",
    required: &[],
    output: Some(r#"{ "samplingRequests": { "type": "array" } }"#),
    hints: Hints::Reads,
    run: Run::Now(|request| listed(request, PendingKind::Sampling, "samplingRequests", "No pending sampling requests")),
};
