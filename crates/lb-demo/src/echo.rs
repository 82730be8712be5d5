//! `echo`, as a tool with structured output and links, and what it keeps of its results.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{Annotations, CallToolResult, ContentBlock, Resource, Role, TextContent};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::registry::{failed, within};
use crate::resources::{ECHO_DOCS_URI, RESULT_PREFIX};
use crate::server::Demo;

const MESSAGE_CHARS_MAX: usize = 1000;

/// Arguments of `echo`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Echo {
    /// The text to send back, 1 to 1000 characters
    #[schemars(length(min = 1, max = 1000))]
    message: String,
    /// How often to say it [default: 1]
    #[schemars(range(min = 1, max = 10))]
    repeat: Option<u32>,
    /// Say it in capitals [default: false]
    uppercase: Option<bool>,
}

/// Structured result of `echo`.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Echoed {
    /// What came
    original_message: String,
    /// What goes back
    processed_message: String,
    repeat: u32,
    uppercase: bool,
    /// Characters of what goes back
    length: usize,
}

#[tool_router(router = echo_tools, vis = "pub(crate)")]
impl Demo {
    #[tool(
        title = "Echo",
        description = "Send the message back, repeated or in capitals if asked; the result can be read again as a \
                       resource that the answer links to",
        output_schema = schema_for_output::<Echoed>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn echo(
        &self,
        Parameters(Echo { message, repeat, uppercase }): Parameters<Echo>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let repeat = match within("repeat", repeat, 1, 1, 10) {
            Ok(repeat) => repeat,
            Err(why) => return failed(why),
        };
        if message.is_empty() || MESSAGE_CHARS_MAX < message.chars().count() {
            return failed(format!("give a message of 1 to {MESSAGE_CHARS_MAX} characters"));
        }
        self.progress(&context, 0, 100, "started".to_owned()).await;
        let uppercase = uppercase.unwrap_or_default();
        let processed = processed(&message, repeat, uppercase);
        let length = processed.chars().count();
        let echoed =
            Echoed { original_message: message, processed_message: processed.clone(), repeat, uppercase, length };
        let id = self.session.keep_result(json!(echoed));
        self.progress(&context, 100, 100, "done".to_owned()).await;
        let mut result = CallToolResult::success(vec![answer(processed), result_link(id), docs_link()]);
        result.structured_content = Some(json!(echoed));
        result
    }
}

/// The message as asked for; repetitions stand beside each other with a space between.
pub(crate) fn processed(message: &str, repeat: u32, uppercase: bool) -> String {
    let once = if uppercase { message.to_uppercase() } else { message.to_owned() };
    vec![once; repeat as usize].join(" ")
}

fn answer(text: String) -> ContentBlock {
    let annotations = Annotations::default().with_audience(vec![Role::User, Role::Assistant]).with_priority(1.0);
    ContentBlock::Text(TextContent::new(text).with_annotations(annotations))
}

fn result_link(id: u64) -> ContentBlock {
    let annotations =
        Annotations::default().with_audience(vec![Role::Assistant]).with_priority(0.5).with_timestamp_now();
    let link = Resource::new(format!("{RESULT_PREFIX}{id}"), format!("echo-result-{id}"))
        .with_title("This result")
        .with_mime_type("application/json")
        .with_annotations(annotations);
    ContentBlock::resource_link(link)
}

fn docs_link() -> ContentBlock {
    let annotations = Annotations::default().with_audience(vec![Role::User]).with_priority(0.1);
    let link = Resource::new(ECHO_DOCS_URI, "echo-documentation")
        .with_title("About echo")
        .with_mime_type("text/markdown")
        .with_annotations(annotations);
    ContentBlock::resource_link(link)
}
