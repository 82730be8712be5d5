//! `respond_to_sampling`: a model's answer to a server.

use lb_exchange::Answer;
use lb_session::PendingKind;
use lb_wire::compose::Object;
use lb_wire::{Kind, Raw};

use crate::args::{Checked, refuse};
use crate::catalog::{Hints, Run, Tool};
use crate::reply::Reply;
use crate::request::Request;
use crate::respond;
use crate::splice;

pub(crate) static TOOL: Tool = Tool {
    name: "respond_to_sampling",
    title: "Answer a sampling request",
    description: "Send the text that a server asked a model for: a string, a content block, or an array of blocks \
                  (text, image, tool_use). Waits up to 10 s for the task that asked and returns its result, or its \
                  state.",
    operation: "respond to sampling",
    input: r#"{
        "request_id": { "type": "string", "description": "requestId of the request" },
        "role": { "enum": ["user", "assistant"], "description": "Who speaks; a model is the assistant" },
        "content": { "type": ["string", "object", "array"], "description": "The answer" },
        "model": { "type": "string", "description": "Name of the model that answered" },
        "stop_reason": { "enum": ["endTurn", "maxTokens", "stopSequence", "toolUse"], "description": "Why it ended" }
    }"#,
    required: &["request_id", "role", "content", "model"],
    output: None,
    hints: Hints::Acts,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let asked = respond::find(&request, PendingKind::Sampling)?;
    let args = &request.args;
    let role = args.need_word("role", &["user", "assistant"])?;
    let content = content(&args.need("content")?)?;
    let model = args.text("model")?;
    let reason = args.word("stop_reason", &["endTurn", "maxTokens", "stopSequence", "toolUse"])?;
    let answer = Object::new()
        .text("role", role)
        .raw("content", &content)
        .text("model", &model)
        .maybe_text("stopReason", reason)
        .finish();
    respond::answer(&request, asked, Answer::Result(answer)).await
}

/// A text is a block of text; blocks are passed on as they are.
fn content(given: &Raw) -> Checked<Raw> {
    match given.kind() {
        Kind::String => Ok(splice::text_block(&given.to_text().unwrap_or_default())),
        Kind::Object | Kind::Array => Ok(given.clone()),
        Kind::Number | Kind::Bool | Kind::Null => {
            Err(refuse("content", "must be a string, a content block or an array of content blocks"))
        }
    }
}
