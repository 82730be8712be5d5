//! The server itself: who it is, what it can do, and where each request goes. The tools have a file for each family.

#![expect(deprecated, reason = "logging levels and plain subscriptions are of the handshake era, which we serve too")]

use std::sync::Arc;

use rmcp::handler::server::prompt::PromptContext;
use rmcp::handler::server::router::prompt::PromptRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, serve_server_with_ct};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

use crate::registry::{Registry, RegistryError, registry};
use crate::resources::{not_found, page};
use crate::session::Session;
use crate::wire::Wire;

/// The name under which the gateway offers this server.
pub const NAME: &str = "demo";

const INSTRUCTIONS: &str = "A demo server for trying out a client or a gateway; it keeps everything in memory, per \
connection. Start with add_note and list_notes, then read session://overview or a note by its index \
(session://notes/0 is the newest), or fetch the prompt study-notes. echo answers at once and links to its result; \
simulate_work, streaming and slow take their time, report progress when you send a progress token and stop when \
cancelled. elicit_demo asks the user for a name, sample_demo asks your model a question and roots_demo asks for your \
folders; each says so in plain words when the client cannot be asked. crash, notify and log_spam try out how a client \
or a gateway takes trouble.";

/// The demo server: its table of tools, from which every connection is served.
#[derive(Clone)]
pub struct Server {
    tools: Arc<Registry<Demo>>,
    prompts: Arc<PromptRouter<Demo>>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed it, or it broke.
    Closed,
    /// The tool `crash` was called, with this exit code.
    Crashed(u8),
}

impl Server {
    /// A server with one more tool by the name `sample`, if one is given.
    ///
    /// # Errors
    /// Two tools would have one name, or one would have none.
    pub fn new(sample: Option<&str>) -> Result<Self, RegistryError> {
        Ok(Self { tools: Arc::new(registry(sample)?), prompts: Arc::new(Demo::prompts()) })
    }

    /// Serves one connection until the client closes it; every connection starts with no notes.
    ///
    /// Cancel safe: yes; dropping the future ends the connection and the calls in it.
    pub async fn serve(&self, io: impl AsyncRead + AsyncWrite + Send + 'static) -> Ended {
        let session = Arc::new(Session::new());
        let wire = Wire::new(io, Arc::clone(&session));
        let demo = Demo { session: Arc::clone(&session), server: self.clone() };
        let ended = tokio::select! {
            () = run(demo, wire) => Ended::Closed,
            code = session.crashed() => Ended::Crashed(code),
        };
        session.closed.cancel();
        ended
    }
}

async fn run<S: AsyncRead + AsyncWrite + Send + 'static>(demo: Demo, wire: Wire<S>) {
    let closed = demo.session.closed.clone();
    match serve_server_with_ct(demo, wire, closed).await {
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
    server: Server,
}

impl Demo {
    /// Logs what a client wants to hear of unless it says otherwise.
    pub(crate) async fn info(&self, context: &RequestContext<RoleServer>, text: String) {
        self.log(context, LoggingLevel::Info, text).await;
    }

    pub(crate) async fn spam(&self, count: u32, context: &RequestContext<RoleServer>) {
        let levels = [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Warning, LoggingLevel::Error];
        for (number, level) in (1..=count).zip(levels.into_iter().cycle()) {
            self.log(context, level, format!("log_spam {number}/{count}")).await;
        }
    }
}

impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
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
        self.server.tools.call(ToolCallContext::new(self, request, context)).await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (tools, next) = page(self.server.tools.list(), request)?;
        Ok(ListToolsResult { next_cursor: next, ..ListToolsResult::with_all_items(tools) })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.tools.tool(name)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (resources, next) = page(self.resources(), request)?;
        Ok(ListResourcesResult { next_cursor: next, ..ListResourcesResult::with_all_items(resources) })
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let (templates, next) = page(Self::templates(), request)?;
        Ok(ListResourceTemplatesResult { next_cursor: next, ..ListResourceTemplatesResult::with_all_items(templates) })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resource(request.uri).map(Into::into)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (prompts, next) = page(self.server.prompts.list_all(), request)?;
        Ok(ListPromptsResult { next_cursor: next, ..ListPromptsResult::with_all_items(prompts) })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt = PromptContext::new(self, request.name, request.arguments, context);
        self.server.prompts.get_prompt(prompt).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.completions(&request).map(CompleteResult::new)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.set_log_level(request.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.can_change(&request.uri) {
            return Err(not_found(&request.uri));
        }
        match self.session.subscribe(request.uri) {
            true => Ok(()),
            false => Err(ErrorData::invalid_request("too many subscriptions on this connection", None)),
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.retain(|uri| self.can_change(uri));
        }
        Some(accepted)
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
