//! `list_resources`: the resources of the servers.

use lb_gateway::Listing;

use crate::catalog::{Hints, Run, Tool};
use crate::fanout;

pub(crate) static TOOL: Tool = Tool {
    name: "list_resources",
    title: "List resources",
    description: "List the resources (files, records, other data) of servers: [{server, uri, name, mimeType}]. \
                  Read one with read_resource; see also list_resource_templates.",
    operation: "list resources",
    input: r#"{ "server": { "type": "string", "description": "Only this server; all if left out" } }"#,
    required: &[],
    output: Some(r#"{ "resources": { "type": "array" } }"#),
    hints: Hints::ReadsServers,
    run: Run::Waits(|request| {
        Box::pin(async move {
            fanout::of_one_or_all(&request, Listing::Resources, "resources", "No resources available").await.into()
        })
    }),
};
