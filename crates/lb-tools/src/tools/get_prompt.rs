//! `get_prompt`: the messages of one prompt.

use lb_gateway::Kind;
use lb_wire::Raw;
use lb_wire::compose::Object;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::plain::{self, Plain};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "get_prompt",
    title: "Get a prompt",
    description: "Get the messages of a server's prompt template, filled in with your arguments: {description, \
                  messages}. list_prompts shows names and arguments. Follow them if the user wants that.",
    operation: "get prompt",
    input: r#"{
        "server": { "type": "string", "description": "Server name" },
        "name": { "type": "string", "description": "Name of the prompt" },
        "arguments": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Its arguments" }
    }"#,
    required: &["server", "name"],
    output: None,
    hints: Hints::ReadsServers,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let (backend, name) = (request.backend("server", "prompts/get")?, request.args.text("name")?);
    // Read for its check; what goes on is what was written.
    request.args.text_map("arguments")?;
    let arguments = request.args.raw("arguments").unwrap_or_else(Raw::empty_object);
    let params = Object::new().text("name", &name).raw("arguments", &arguments).finish();
    let kind = Some((Kind::BackendPrompt, &*name));
    let result = plain::ask(&request, &backend, Plain { method: "prompts/get", params, kind }).await?;
    Ok(Reply::object(result))
}
