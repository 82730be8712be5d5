//! The table of tools: what a client is told of them, and what runs them. It never changes while we run.

use std::sync::LazyLock;

use lb_exchange::{BoxFuture, End, Yield};
use lb_gateway::Tracked;
use lb_wire::Raw;
use lb_wire::compose::{self, Object};
use lb_wire::revision::Revision;
use serde_json::{Map, Value, json};

use crate::reply::Reply;
use crate::request::Request;
use crate::tools;

/// One tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// For models that know nothing of us.
    pub(crate) description: &'static str,
    /// What it fails to do when it fails: "Failed to ...".
    pub(crate) operation: &'static str,
    /// The `properties` of its input, beside `session`.
    pub(crate) input: &'static str,
    pub(crate) required: &'static [&'static str],
    /// The `properties` of its output, beside `error`; `None` where the content is a server's.
    pub(crate) output: Option<&'static str>,
    pub(crate) hints: Hints,
    pub(crate) run: Run,
}

/// What a tool does to the world.
#[derive(Clone, Copy)]
pub(crate) enum Hints {
    /// Looks at what we know.
    Reads,
    /// Looks at what servers know.
    ReadsServers,
    /// Hands out events, each once.
    Takes,
    /// Changes what we know, in a way that can be repeated.
    Sets,
    /// Adds something that stays.
    Adds,
    /// Ends something.
    Ends,
    /// Makes a server do something that we cannot judge.
    Acts,
}

/// How a tool runs.
pub(crate) enum Run {
    /// At once.
    Now(fn(&Request) -> Reply),
    /// Waiting for servers; stopped when the client cancels.
    Waits(fn(Request) -> BoxFuture<'static, Reply>),
    /// Waiting for nothing but what happens, of no use once nobody listens.
    Listens(fn(Request) -> BoxFuture<'static, Reply>),
    /// With steps of its own.
    Drives(fn(Request, Yield, Tracked) -> BoxFuture<'static, End>),
}

/// Every tool, in the order in which they are listed.
pub(crate) static TOOLS: [&Tool; 33] = [
    &tools::add_server::TOOL,
    &tools::remove_server::TOOL,
    &tools::reconnect_server::TOOL,
    &tools::list_servers::TOOL,
    &tools::get_server_status::TOOL,
    &tools::list_tools::TOOL,
    &tools::execute_tool::TOOL,
    &tools::list_tasks::TOOL,
    &tools::get_task::TOOL,
    &tools::get_task_result::TOOL,
    &tools::cancel_task::TOOL,
    &tools::await_activity::TOOL,
    &tools::get_notifications::TOOL,
    &tools::get_logs::TOOL,
    &tools::set_log_level::TOOL,
    &tools::list_resources::TOOL,
    &tools::list_resource_templates::TOOL,
    &tools::read_resource::TOOL,
    &tools::subscribe_resource::TOOL,
    &tools::unsubscribe_resource::TOOL,
    &tools::list_prompts::TOOL,
    &tools::get_prompt::TOOL,
    &tools::complete::TOOL,
    &tools::get_elicitations::TOOL,
    &tools::respond_to_elicitation::TOOL,
    &tools::cancel_elicitation_request::TOOL,
    &tools::get_sampling_requests::TOOL,
    &tools::respond_to_sampling::TOOL,
    &tools::cancel_sampling_request::TOOL,
    &tools::set_timer::TOOL,
    &tools::list_timers::TOOL,
    &tools::get_timer::TOOL,
    &tools::delete_timer::TOOL,
];

/// The tool of this name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.into_iter().find(|tool| tool.name == name)
}

/// The result of `tools/list` for clients of a revision: the same bytes every time.
pub(crate) fn listed(revision: Revision) -> Raw {
    static PLAIN: LazyLock<Raw> = LazyLock::new(|| build(Revision::V2024_11_05));
    static ANNOTATED: LazyLock<Raw> = LazyLock::new(|| build(Revision::V2025_03_26));
    static STRUCTURED: LazyLock<Raw> = LazyLock::new(|| build(Revision::V2025_06_18));
    match (revision.tool_annotations(), revision.structured_content()) {
        (_, true) => STRUCTURED.clone(),
        (true, false) => ANNOTATED.clone(),
        (false, false) => PLAIN.clone(),
    }
}

fn build(revision: Revision) -> Raw {
    let rows: Vec<Raw> = TOOLS.iter().map(|tool| tool.row(revision)).collect();
    Object::new().raw("tools", &compose::array(rows.iter())).finish()
}

const SESSION: &str = "Session handle, if any";

impl Tool {
    fn row(&self, revision: Revision) -> Raw {
        let row = Object::new().text("name", self.name);
        let row = if revision.titles() { row.text("title", self.title) } else { row };
        let row = row.text("description", self.description).raw("inputSchema", &self.input_schema());
        let output = self.output_schema().filter(|_| revision.structured_content());
        let row = row.maybe("outputSchema", output.as_ref());
        let row = if revision.tool_annotations() { row.raw("annotations", &self.hints.annotations()) } else { row };
        row.finish()
    }

    /// What it takes, as JSON Schema.
    pub(crate) fn input_schema(&self) -> Raw {
        let mut properties = properties(self.input);
        properties.insert("session".into(), json!({ "type": "string", "description": SESSION }));
        let schema = Object::new().text("type", "object").raw("properties", &Raw::value(&properties));
        if self.required.is_empty() { schema } else { schema.raw("required", &Raw::value(&self.required)) }.finish()
    }

    /// What it gives back, as JSON Schema. Nothing is required, because a failure has only `error`.
    pub(crate) fn output_schema(&self) -> Option<Raw> {
        let mut properties = properties(self.output?);
        properties.entry("error").or_insert_with(|| json!({ "type": "object" }));
        Some(Object::new().text("type", "object").raw("properties", &Raw::value(&properties)).finish())
    }
}

/// A schema is written to be read, and sent without the room that takes.
fn properties(text: &'static str) -> Map<String, Value> {
    // Every text in the table is checked by a test.
    serde_json::from_str(text).unwrap_or_default()
}

impl Hints {
    /// What only reads destroys nothing and can be repeated, which need not be said.
    fn annotations(self) -> Raw {
        let (destroys, repeats, open) = match self {
            Self::Reads => return Raw::from_static(r#"{"readOnlyHint":true,"openWorldHint":false}"#),
            Self::ReadsServers => return Raw::from_static(r#"{"readOnlyHint":true,"openWorldHint":true}"#),
            Self::Takes => (false, false, false),
            Self::Sets => (false, true, true),
            Self::Adds => (false, false, true),
            Self::Ends => (true, false, false),
            Self::Acts => (true, false, true),
        };
        Object::new()
            .flag("readOnlyHint", false)
            .flag("destructiveHint", destroys)
            .flag("idempotentHint", repeats)
            .flag("openWorldHint", open)
            .finish()
    }
}

#[cfg(test)]
mod tests;
