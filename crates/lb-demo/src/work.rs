//! The tools that take their time: `simulate_work`, in steps, and `slow`, for as long as it is told.

use std::time::Duration;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::registry::{failed, said, within};
use crate::server::Demo;

const SLOW_MS_MAX: u32 = 60_000;
const PROGRESS_MS: u32 = 250;

/// Arguments of `simulate_work`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SimulateWork {
    /// How many steps to take [default: 5]
    #[schemars(range(min = 1, max = 20))]
    steps: Option<u32>,
    /// How long each step takes, in milliseconds [default: 250]
    #[schemars(range(min = 50, max = 2000))]
    delay_ms: Option<u32>,
    /// Close the client's event stream after this step and work on: the client resumes it with Last-Event-ID
    #[schemars(range(min = 1, max = 20))]
    close_sse_after_step: Option<u32>,
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
        title = "Simulate work",
        description = "Work in steps, with a log message for each, and progress when a progress token is given; can \
                       close the client's event stream on the way, to try out resuming it",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn simulate_work(
        &self,
        Parameters(work): Parameters<SimulateWork>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let steps = match within("steps", work.steps, 5, 1, 20) {
            Ok(steps) => steps,
            Err(why) => return failed(why),
        };
        let delay = match within("delayMs", work.delay_ms, 250, 50, 2000) {
            Ok(ms) => Duration::from_millis(ms.into()),
            Err(why) => return failed(why),
        };
        let close = match work.close_sse_after_step {
            None => None,
            Some(step) => match within("closeSseAfterStep", Some(step), 1, 1, 20) {
                Ok(step) => Some(step),
                Err(why) => return failed(why),
            },
        };
        match context.ct.run_until_cancelled(self.work(steps, delay, close, &context)).await {
            Some(()) => said(format!("Done: {steps} steps of {} ms", delay.as_millis())),
            None => failed("cancelled"),
        }
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
            return failed(format!("ms is {ms}; give {SLOW_MS_MAX} at most"));
        }
        match context.ct.run_until_cancelled(self.take(ms, &context)).await {
            Some(()) => said(format!("Took {ms} ms")),
            None => failed("cancelled"),
        }
    }
}

impl Demo {
    async fn work(&self, steps: u32, delay: Duration, close: Option<u32>, context: &RequestContext<RoleServer>) {
        for step in 1..=steps {
            sleep(delay).await;
            self.info(context, format!("simulate_work progress: {step}/{steps}")).await;
            self.progress(context, step, steps, format!("step {step} of {steps}")).await;
            if close == Some(step) {
                self.pause(context).await;
            }
        }
    }

    /// Lets `ms` milliseconds pass and reports them; the last report says that all have passed.
    async fn take(&self, ms: u32, context: &RequestContext<RoleServer>) {
        let start = Instant::now();
        let mut passed = 0;
        while passed < ms {
            passed = ms.min(passed + PROGRESS_MS);
            sleep_until(start + Duration::from_millis(passed.into())).await;
            self.progress(context, passed, ms, format!("{passed} of {ms} ms")).await;
        }
    }
}
