//! `list_resource_templates`: the resource templates of the servers.

use lb_gateway::Listing;

use crate::catalog::{Hints, Run, Tool};
use crate::fanout;

pub(crate) static TOOL: Tool = Tool {
    name: "list_resource_templates",
    title: "List resource templates",
    description: "List URI templates of servers: [{server, uriTemplate, name}]. Fill in the parameters (complete \
                  suggests values) and read the URI with read_resource.",
    operation: "list resource templates",
    input: r#"{ "server": { "type": "string", "description": "Only this server; all if left out" } }"#,
    required: &[],
    output: Some(r#"{ "resourceTemplates": { "type": "array" } }"#),
    hints: Hints::ReadsServers,
    run: Run::Waits(|request| {
        Box::pin(async move {
            fanout::of_one_or_all(&request, Listing::Templates, "resourceTemplates", "No resource templates available")
                .await
                .into()
        })
    }),
};
