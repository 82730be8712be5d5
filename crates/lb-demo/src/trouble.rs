//! The tools that try out who is in front: `crash`, `notify` and `log_spam`.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::registry::{failed, said, within};
use crate::resources::OVERVIEW_URI;
use crate::server::Demo;
use crate::tell::List;

/// Arguments of `crash`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Crash {
    /// The exit code of a server that is a process of its own [default: 1]
    code: Option<u8>,
}

/// Arguments of `notify`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Notify {
    /// What to tell: that a list changed (tools, prompts, resources), or that a resource was updated
    what: What,
    /// Which resource was updated [default: session://overview]
    uri: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    Tools,
    Prompts,
    Resources,
    Updated,
}

/// Arguments of `log_spam`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct LogSpam {
    /// How many messages [default: 100]
    #[schemars(range(min = 1, max = 1000))]
    count: Option<u32>,
}

#[tool_router(router = trouble_tools, vis = "pub(crate)")]
impl Demo {
    #[tool(
        title = "Crash",
        description = "End this server without an answer, as a crash would: its notes are gone afterwards",
        annotations(destructive_hint = true, open_world_hint = false)
    )]
    async fn crash(&self, Parameters(Crash { code }): Parameters<Crash>) -> CallToolResult {
        self.session.crash(code.unwrap_or(1));
        // Whoever serves the connection drops it; there is no answer.
        self.session.closed.cancelled().await;
        failed("crashed")
    }

    #[tool(
        title = "Notify",
        description = "Tell the client that a list changed or a resource was updated, though nothing did",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn notify(
        &self,
        Parameters(Notify { what, uri }): Parameters<Notify>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let list = match what {
            What::Tools => List::Tools,
            What::Prompts => List::Prompts,
            What::Resources => List::Resources,
            What::Updated => {
                let uri = uri.as_deref().unwrap_or(OVERVIEW_URI);
                return match self.updated(&context, uri).await {
                    true => said(format!("Told that {uri} was updated")),
                    false => said(format!("Told nobody: nobody has subscribed to {uri}")),
                };
            }
        };
        self.changed(&context, list).await;
        said(format!("Told that the list of {list:?} changed").to_lowercase().replacen('t', "T", 1))
    }

    #[tool(
        title = "Log a lot",
        description = "Send many log messages, of all levels in turn, as fast as they are taken",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn log_spam(
        &self,
        Parameters(LogSpam { count }): Parameters<LogSpam>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let count = match within("count", count, 100, 1, 1000) {
            Ok(count) => count,
            Err(why) => return failed(why),
        };
        match context.ct.run_until_cancelled(self.spam(count, &context)).await {
            Some(()) => said(format!("Logged {count} messages")),
            None => failed("cancelled"),
        }
    }
}
