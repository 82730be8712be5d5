//! The tools that only work: `echo`, which answers at once, and `slow`, which takes its time.

use std::time::Duration;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ProgressNotificationParam};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use crate::notes::{failed, said};
use crate::server::Demo;

const SLOW_MS_MAX: u32 = 60_000;
const PROGRESS_MS: u32 = 250;

/// Arguments of `echo`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Echo {
    /// The text to send back
    message: String,
}

/// Arguments of `slow`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Slow {
    /// How long to take, in milliseconds, up to a minute
    #[schemars(range(max = 60000))]
    ms: u32,
}

#[tool_router(router = work_tools, vis = "pub(crate)")]
impl Demo {
    #[tool(
        title = "Echo",
        description = "Send the message back as it came",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn echo(&self, Parameters(Echo { message }): Parameters<Echo>) -> CallToolResult {
        said(message)
    }

    #[tool(
        title = "Slow",
        description = "Take the given time, with progress every 250 ms when a progress token is given; stops when cancelled",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn slow(
        &self,
        Parameters(Slow { ms }): Parameters<Slow>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        if SLOW_MS_MAX < ms {
            return failed(format!("ms is more than {SLOW_MS_MAX}"));
        }
        match context.ct.run_until_cancelled(take(ms, &context)).await {
            Some(()) => said(format!("Took {ms} ms")),
            None => failed("cancelled"),
        }
    }
}

/// Lets `ms` milliseconds pass and reports them; the last report says that all have passed.
async fn take(ms: u32, context: &RequestContext<RoleServer>) {
    let start = Instant::now();
    let token = context.meta.get_progress_token();
    let mut passed = 0;
    while passed < ms {
        passed = ms.min(passed + PROGRESS_MS);
        sleep_until(start + Duration::from_millis(passed.into())).await;
        let Some(token) = &token else { continue };
        let progress = ProgressNotificationParam::new(token.clone(), passed.into())
            .with_total(ms.into())
            .with_message(format!("{passed} of {ms} ms"));
        if let Err(error) = context.peer.notify_progress(progress).await {
            debug!(%error, "progress not sent");
        }
    }
}
