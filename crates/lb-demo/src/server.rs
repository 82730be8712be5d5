//! The server itself: who it is, what it can do, its resources and its prompt. The tools are in `notes`, `work` and `ask`.

use std::sync::Arc;

use rmcp::handler::server::router::prompt::PromptRouter;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, GetPromptResult, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, PaginatedRequestParams, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role, ServerCapabilities, ServerConfig,
    SubscriptionFilter,
};
use rmcp::service::{RequestContext, SubscriptionContext, serve_server_with_ct};
use rmcp::{ErrorData, RoleServer, ServerHandler, prompt, prompt_handler, prompt_router, tool_handler};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

use crate::session::Session;
use crate::wire::Wire;

/// The name under which the gateway offers this server.
pub const NAME: &str = "demo";

const INSTRUCTIONS: &str = "A demo server for trying out a client or a gateway; it keeps everything in memory, per \
connection. Start with add_note and list_notes, then read session://overview or a note by its index \
(session://notes/0 is the newest), or fetch the prompt study-notes. echo answers at once; slow takes as long as you \
say, reports progress when you send a progress token and stops when cancelled. elicit_demo asks the user for a name \
and sample_demo asks your model a question; both say so in plain words when the client cannot be asked.";

const OVERVIEW_URI: &str = "session://overview";
const NOTE_PREFIX: &str = "session://notes/";
const OBJECTIVE_DEFAULT: &str = "Summarise the notes and extract the next actions.";

/// Serves one connection until the client closes it; every connection starts with no notes.
///
/// Cancel safe: yes; dropping the future ends the connection and the calls in it.
pub async fn serve(io: impl AsyncRead + AsyncWrite + Send + 'static) {
    let session = Arc::new(Session::new());
    let wire = Wire::new(io, Arc::clone(&session));
    let closed = session.closed.clone();
    match serve_server_with_ct(Demo::new(session), wire, closed).await {
        Ok(running) => match running.waiting().await {
            Ok(reason) => debug!(?reason, "demo connection ended"),
            Err(error) => debug!(%error, "demo connection failed"),
        },
        Err(error) => debug!(%error, "demo connection ended before its first request"),
    }
}

/// One connection's server.
pub(crate) struct Demo {
    pub(crate) session: Arc<Session>,
    tools: ToolRouter<Self>,
    prompts: PromptRouter<Self>,
}

impl Demo {
    fn new(session: Arc<Session>) -> Self {
        let tools = Self::note_tools() + Self::work_tools() + Self::ask_tools();
        Self { session, tools, prompts: Self::prompts() }
    }
}

#[tool_handler(router = self.tools)]
#[prompt_handler(router = self.prompts)]
impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_list_changed()
            .build();
        let implementation =
            Implementation::new("landbridge-demo", env!("CARGO_PKG_VERSION")).with_title("Landbridge demo server");
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(INSTRUCTIONS)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The SDK's own refusal does not say which tool.
        if !self.tools.has_route(&request.name) {
            let message = format!("unknown tool {:?}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        }
        self.tools.call(ToolCallContext::new(self, request, context)).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let overview = Resource::new(OVERVIEW_URI, "session-overview")
            .with_title("Session overview")
            .with_description("Counters of this connection, as JSON; times are milliseconds since 1970")
            .with_mime_type("application/json");
        let notes = (0..self.session.notes().len()).map(|index| {
            Resource::new(format!("{NOTE_PREFIX}{index}"), format!("session-note-{index}"))
                .with_title(format!("Note {index}"))
                .with_mime_type("text/plain")
        });
        Ok(ListResourcesResult::with_all_items(std::iter::once(overview).chain(notes).collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let note = ResourceTemplate::new(format!("{NOTE_PREFIX}{{index}}"), "session-note")
            .with_title("Note by index")
            .with_description("One note of this connection; 0 is the newest")
            .with_mime_type("text/plain");
        Ok(ListResourceTemplatesResult::with_all_items(vec![note]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let contents = if uri == OVERVIEW_URI {
            let overview = serde_json::to_string_pretty(&self.session.overview())
                .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            ResourceContents::text(overview, uri).with_mime_type("application/json")
        } else {
            match note_index(&uri).and_then(|index| self.session.note(index)) {
                Some(note) => ResourceContents::text(note, uri),
                None => return Err(ErrorData::resource_not_found("resource not found", Some(json!({ "uri": uri })))),
            }
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().resources_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        if !self.session.listen(context.sink().clone()) {
            return Err(ErrorData::invalid_request("too many open subscriptions on this connection", None));
        }
        context.cancelled().await;
        self.session.unlisten(context.sink().id());
        Ok(())
    }
}

/// Index of a note's URI; only the spelling that the list shows (`0`, not `00` or `+0`).
fn note_index(uri: &str) -> Option<usize> {
    let text = uri.strip_prefix(NOTE_PREFIX)?;
    let index: usize = text.parse().ok()?;
    (index.to_string() == text).then_some(index)
}

/// Arguments of the prompt `study-notes`.
#[derive(Deserialize, JsonSchema)]
struct StudyNotes {
    /// What to do with the notes; a summary with next actions unless given
    objective: Option<String>,
}

#[prompt_router(router = "prompts")]
impl Demo {
    #[prompt(
        name = "study-notes",
        title = "Study the notes",
        description = "Work through the notes of this connection"
    )]
    async fn study_notes(&self, Parameters(StudyNotes { objective }): Parameters<StudyNotes>) -> GetPromptResult {
        let objective =
            objective.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or(OBJECTIVE_DEFAULT);
        let notes = self.session.numbered_notes().unwrap_or_else(|| "(none yet)".to_owned());
        let text = format!("Objective: {objective}\n\nNotes:\n{notes}");
        GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
            .with_description("The objective and the notes of this connection")
    }
}
