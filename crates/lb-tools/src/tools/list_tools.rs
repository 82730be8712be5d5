//! `list_tools`: the tools of the servers.

use lb_gateway::Listing;
use lb_wire::{Raw, splice};
use regex::Regex;

use crate::args::{Args, Checked, refuse};
use crate::catalog::{Hints, Run, Tool};
use crate::fanout;
use crate::pattern;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "list_tools",
    title: "List tools of servers",
    description: "List the tools of the servers with their input schemas: [{server, name, description, \
                  inputSchema}]. Filter by regex (unanchored, case-sensitive). Call one with execute_tool.",
    operation: "list tools",
    input: r#"{
        "server": { "type": "string", "default": ".*", "description": "Regex for the server name" },
        "tool": { "type": "string", "default": ".*", "description": "Regex for the tool name" }
    }"#,
    required: &[],
    output: Some(r#"{ "tools": { "type": "array" } }"#),
    hints: Hints::ReadsServers,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let (servers, tools) = (given(&request.args, "server")?, given(&request.args, "tool")?);
    let matches = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|regex| regex.is_match(text));
    let lists = fanout::ask(&request, Listing::Tools, |name| matches(&servers, name)).await;
    let named = |row: &Raw| name_of(row).is_some_and(|name| matches(&tools, &name));
    let rows: Vec<Raw> = lists
        .rows
        .iter()
        .flat_map(|(server, rows)| {
            let shown = |row: &&Raw| named(row) && name_of(row).is_some_and(|name| request.shows(server, &name));
            let backend = request.live().backend(server).ok();
            let changed = move |row: &Raw| {
                backend.as_ref().is_some_and(|backend| name_of(row).is_some_and(|name| backend.has_changed(&name)))
            };
            rows.iter().filter(shown).map(move |row| match changed(row) {
                true => splice::with(&splice::without(&fanout::labelled(server, row), &["changed"]), &[noted()]),
                false => fanout::labelled(server, row),
            })
        })
        .collect();
    let hint = match (&servers, lists.rows.is_empty() && lists.errors.is_empty()) {
        (Some(pattern), true) => {
            let names: Vec<String> = request.live().servers().iter().map(|view| view.name.to_string()).collect();
            format!("No server matches '{}'; defined are: {}", pattern.as_str(), names.join(", "))
        }
        _ => String::new(),
    };
    Ok(fanout::listed(&request, "tools", &rows, &lists.errors, "No tools available").with_sentence(&hint))
}

/// What a row says whose tool is not what it was when it was first seen.
fn noted() -> (&'static str, Raw) {
    ("changed", Raw::from_static("true"))
}

/// What a tool is called; a row without a name has the empty one.
fn name_of(row: &Raw) -> Option<String> {
    Some(row.member("name")?.to_text().unwrap_or_default().into_owned())
}

fn given(args: &Args, name: &str) -> Checked<Option<Regex>> {
    let Some(text) = args.maybe_text(name)? else { return Ok(None) };
    pattern::compile(&text).map(Some).map_err(|error| refuse(name, &error.to_string()))
}
