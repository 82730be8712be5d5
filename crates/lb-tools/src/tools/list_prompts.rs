//! `list_prompts`: the prompts of the servers.

use lb_gateway::Listing;

use crate::catalog::{Hints, Run, Tool};
use crate::fanout;

pub(crate) static TOOL: Tool = Tool {
    name: "list_prompts",
    title: "List prompts",
    description: "List the prompt templates of servers with their arguments: [{server, name, description, \
                  arguments}]. Get the messages of one with get_prompt.",
    operation: "list prompts",
    input: r#"{ "server": { "type": "string", "description": "Only this server; all if left out" } }"#,
    required: &[],
    output: Some(r#"{ "prompts": { "type": "array" } }"#),
    hints: Hints::ReadsServers,
    run: Run::Waits(|request| {
        Box::pin(async move {
            fanout::of_one_or_all(&request, Listing::Prompts, "prompts", "No prompts available").await.into()
        })
    }),
};
