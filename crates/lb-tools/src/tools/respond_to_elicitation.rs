//! `respond_to_elicitation`: the user's answer to a question of a server.

use lb_exchange::Answer;
use lb_session::PendingKind;
use lb_wire::compose::Object;

use crate::args::{Checked, refuse};
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::form;
use crate::reply::Reply;
use crate::request::Request;
use crate::respond;

pub(crate) static TOOL: Tool = Tool {
    name: "respond_to_elicitation",
    title: "Answer a question",
    description: "Answer a server's question in the user's name: 'accept' with content that fits its \
                  requestedSchema, 'decline', or 'cancel'. Ask the user first. Waits up to 10 s for the task that \
                  asked and returns its result, or its state.",
    operation: "respond to elicitation",
    input: r#"{
        "request_id": { "type": "string", "description": "requestId of the question" },
        "action": { "enum": ["accept", "decline", "cancel"], "description": "What the user decided" },
        "content": { "type": "object", "description": "For accept: the values, by name" }
    }"#,
    required: &["request_id", "action"],
    output: None,
    hints: Hints::Acts,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let asked = respond::find(&request, PendingKind::Elicitation)?;
    let action = request.args.need_word("action", &["accept", "decline", "cancel"])?;
    let mut answer = Object::new().text("action", action);
    let content = request.args.object("content")?;
    if action == "accept" && !asked.by_link {
        let content = content.ok_or_else(|| refuse("content", "is required to accept"))?;
        if let Some(schema) = asked.params.member("requestedSchema") {
            let (schema, values) = (schema.read().unwrap_or_default(), content.read().unwrap_or_default());
            let problems = form::problems(&schema, &values);
            if !problems.is_empty() {
                let message = format!("content does not fit, and the question still waits: {}", problems.join("; "));
                return Err(Failure::new(failure::INVALID_ARGUMENT, message)
                    .with(Object::new().text("argument", "content").finish()));
            }
        }
        answer = answer.raw("content", &content);
    }
    tracing::debug!(session = request.live().hash(), action, "elicitation_responded");
    respond::answer(&request, asked, Answer::Result(answer.finish())).await
}
