//! What can happen in a session: every type of event, and what it says.

mod log;
#[cfg(test)]
mod tests;

use std::time::Duration;

use lb_wire::compose::Object;
use lb_wire::{Raw, Text};

use crate::backend::Listed;
use crate::moment::rfc3339;
use crate::ulid::Ulid;

/// Something that the client of a session is told once.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "what an event says is named as clients see it")]
pub enum Happening {
    /// A call became a task.
    TaskCreated { task: Ulid, tool: Text, args: Raw, ttl: Duration },
    /// A task has its result; `None` when it is too large for an event.
    TaskCompleted { task: Ulid, tool: Text, result: Option<Raw> },
    /// A task got no result.
    TaskFailed { task: Ulid, tool: Text, error: Box<str>, reason: Option<&'static str> },
    /// A task was cancelled.
    TaskCancelled { task: Ulid, tool: Text },
    /// A task took too long.
    TaskExpired { task: Ulid, tool: Text, ttl: Duration },
    /// A server asks a person for something.
    ElicitationRequest { request: Ulid, params: Raw },
    /// That can no longer be answered.
    ElicitationExpired { request: Ulid, reason: Box<str>, cause: Cause },
    /// A server asks a model for something.
    SamplingRequest { request: Ulid, params: Raw },
    /// That can no longer be answered.
    SamplingExpired { request: Ulid, reason: Box<str>, cause: Cause },
    /// A server said something; `count` times in a row, the newest shown.
    Notification { method: Text, params: Option<Raw>, count: u32 },
    /// A server is connected for the first time.
    ServerConnected(Box<Listed>),
    /// A server is gone, or was sent away.
    ServerDisconnected { intentional: bool, reason: Option<Box<str>> },
    /// A server is tried again.
    ServerReconnecting { attempt: u32, next_retry: Duration, error: Box<str> },
    /// A server is back.
    ServerReconnected(Box<Reconnected>),
    /// A server was defined.
    ServerAdded { target: Raw, transport: &'static str, by: Option<Text>, updated: bool },
    /// A definition was removed.
    ServerRemoved { by: Option<Text> },
    /// A server no longer answers its health checks.
    ServerHealthDegraded { failures: u32, last_error: Box<str> },
    /// It does again.
    ServerHealthRestored,
    /// The process of a server ended by itself.
    ServerProcessCrashed { exit_code: Option<i32>, signal: Option<Box<str>> },
    /// The process of a server is not started again.
    ServerRestartFailed { error: Box<str>, attempts: u32 },
    /// A timer fired.
    TimerExpired { timer: Ulid, message: Box<str>, fired: u64, interval: bool },
    /// Events were lost before anybody had them.
    EventsDropped { count: u64, first: Ulid, last: Ulid, node_lost: bool },
}

/// Why a request of a server can no longer be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the causes explain themselves")]
pub enum Cause {
    Timeout,
    Cancelled,
    ServerDisconnected,
    ServerRemoved,
    ServerCancelled,
    Shutdown,
    NodeLost,
}

impl Cause {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::ServerDisconnected => "server_disconnected",
            Self::ServerRemoved => "server_removed",
            Self::ServerCancelled => "server_cancelled",
            Self::Shutdown => "shutdown",
            Self::NodeLost => "node_lost",
        }
    }
}

/// How a server came back, and what that cost.
#[derive(Clone, Debug)]
pub struct Reconnected {
    /// Attempts that it took.
    pub attempts: u32,
    /// Whether the server kept what it knew of us: a blip of the network, not a restart.
    pub blip: bool,
    /// Whether somebody asked for it.
    pub forced: bool,
    /// What the server can do now.
    pub capabilities: Raw,
    /// Tools that it lists now.
    pub tools: usize,
    /// Resources that it lists now.
    pub resources: usize,
    /// Prompts that it lists now.
    pub prompts: usize,
    /// Tasks that failed with the old connection.
    pub tasks_failed: usize,
    /// Elicitations that went with it.
    pub elicitations_lost: usize,
    /// Sampling requests that went with it.
    pub sampling_lost: usize,
}

impl Happening {
    /// All types of events.
    pub(crate) const KINDS: [&'static str; 22] = [
        "task_created",
        "task_completed",
        "task_failed",
        "task_cancelled",
        "task_expired",
        "elicitation_request",
        "elicitation_expired",
        "sampling_request",
        "sampling_expired",
        "notification",
        "server_connected",
        "server_disconnected",
        "server_reconnecting",
        "server_reconnected",
        "server_added",
        "server_removed",
        "server_health_degraded",
        "server_health_restored",
        "server_process_crashed",
        "server_restart_failed",
        "timer_expired",
        "events_dropped",
    ];

    /// The type of the event.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TaskCreated { .. } => "task_created",
            Self::TaskCompleted { .. } => "task_completed",
            Self::TaskFailed { .. } => "task_failed",
            Self::TaskCancelled { .. } => "task_cancelled",
            Self::TaskExpired { .. } => "task_expired",
            Self::ElicitationRequest { .. } => "elicitation_request",
            Self::ElicitationExpired { .. } => "elicitation_expired",
            Self::SamplingRequest { .. } => "sampling_request",
            Self::SamplingExpired { .. } => "sampling_expired",
            Self::Notification { .. } => "notification",
            Self::ServerConnected(_) => "server_connected",
            Self::ServerDisconnected { .. } => "server_disconnected",
            Self::ServerReconnecting { .. } => "server_reconnecting",
            Self::ServerReconnected(_) => "server_reconnected",
            Self::ServerAdded { .. } => "server_added",
            Self::ServerRemoved { .. } => "server_removed",
            Self::ServerHealthDegraded { .. } => "server_health_degraded",
            Self::ServerHealthRestored => "server_health_restored",
            Self::ServerProcessCrashed { .. } => "server_process_crashed",
            Self::ServerRestartFailed { .. } => "server_restart_failed",
            Self::TimerExpired { .. } => "timer_expired",
            Self::EventsDropped { .. } => "events_dropped",
        }
    }

    /// What the event says. `server` is the one it speaks of, `unix` when it happened.
    pub fn data(&self, server: &str, unix: Duration) -> Raw {
        let data = Object::new();
        match self {
            Self::TaskCreated { .. }
            | Self::TaskCompleted { .. }
            | Self::TaskFailed { .. }
            | Self::TaskCancelled { .. }
            | Self::TaskExpired { .. } => self.task_data(),
            Self::ElicitationRequest { request, params } | Self::SamplingRequest { request, params } => {
                bounded(data.text("requestId", &request.to_string()), "params", "paramsOmitted", Some(params))
            }
            Self::ElicitationExpired { request, reason, cause } | Self::SamplingExpired { request, reason, cause } => {
                data.text("requestId", &request.to_string()).text("reason", reason).text("cause", cause.as_str())
            }
            Self::Notification { method, params, count } => {
                let data = bounded(data.text("method", method), "params", "paramsOmitted", params.as_ref());
                let data = if 1 < *count { data.number("count", *count) } else { data };
                data.text("timestamp", &rfc3339(unix))
            }
            Self::TimerExpired { timer, message, fired, interval } => data
                .text("timerId", &timer.to_string())
                .text("message", message)
                .number("fireCount", *fired)
                .flag("interval", *interval),
            Self::EventsDropped { count, first, last, node_lost } => data
                .number("count", *count)
                .text("firstLostId", &first.to_string())
                .text("lastLostId", &last.to_string())
                .maybe_text("cause", node_lost.then_some(Cause::NodeLost.as_str())),
            _ => self.server_data(data.text("name", server)),
        }
        .finish()
    }

    fn task_data(&self) -> Object {
        let named = |task: &Ulid, tool: &Text| Object::new().text("taskId", &task.to_string()).text("toolName", tool);
        match self {
            Self::TaskCreated { task, tool, args, ttl } => {
                bounded(named(task, tool), "args", "argsOmitted", Some(args)).number("ttl", millis(*ttl))
            }
            Self::TaskCompleted { task, tool, result } => match result {
                Some(result) => named(task, tool).raw("result", result),
                None => named(task, tool).flag("resultOmitted", true),
            },
            Self::TaskFailed { task, tool, error, reason } => {
                named(task, tool).text("error", error).maybe_text("reason", *reason)
            }
            Self::TaskCancelled { task, tool } => named(task, tool),
            Self::TaskExpired { task, tool, ttl } => named(task, tool).number("ttl", millis(*ttl)),
            _ => Object::new(),
        }
    }

    fn server_data(&self, data: Object) -> Object {
        match self {
            Self::ServerConnected(listed) => data.raw("capabilities", &listed.capabilities),
            Self::ServerDisconnected { intentional, reason } => {
                data.flag("wasIntentional", *intentional).maybe_text("reason", reason.as_deref())
            }
            Self::ServerReconnecting { attempt, next_retry, error } => {
                data.number("attempt", *attempt).number("nextRetryMs", millis(*next_retry)).text("error", error)
            }
            Self::ServerReconnected(how) => reconnected_data(data, how),
            Self::ServerAdded { target, transport, by, updated } => {
                let place = if *transport == "stdio" { "command" } else { "url" };
                let data = data.raw(place, target).text("type", transport).maybe_text("addedBy", by.as_deref());
                if *updated { data.flag("updated", true) } else { data }
            }
            Self::ServerRemoved { by } => data.maybe_text("removedBy", by.as_deref()),
            Self::ServerHealthDegraded { failures, last_error } => {
                data.number("consecutiveFailures", *failures).text("lastError", last_error)
            }
            Self::ServerProcessCrashed { exit_code, signal } => {
                let code = exit_code.map_or_else(|| Raw::from_static("null"), |code| Raw::value(&code));
                let signal = signal.as_deref().map_or_else(|| Raw::from_static("null"), Raw::string);
                data.raw("exitCode", &code).raw("signal", &signal)
            }
            Self::ServerRestartFailed { error, attempts } => data.text("error", error).number("attempts", *attempts),
            _ => data,
        }
    }
}

/// Bytes of what others wrote that an event carries; events are kept by the hundred, and told in answers to other calls.
const CARRIED_BYTES_MAX: usize = 16 << 10;

/// With a value, or a word that it is too large to be told here.
fn bounded(data: Object, name: &str, omitted: &str, value: Option<&Raw>) -> Object {
    match value {
        Some(value) if CARRIED_BYTES_MAX < value.as_bytes().len() => data.flag(omitted, true),
        value => data.maybe(name, value),
    }
}

fn reconnected_data(data: Object, how: &Reconnected) -> Object {
    let data = data
        .number("attemptsTaken", how.attempts)
        .text("type", if how.blip { "network_blip" } else { "restart" })
        .raw("capabilities", &how.capabilities);
    let data = if how.forced { data.flag("forced", true) } else { data };
    data.number("refreshedTools", how.tools)
        .number("refreshedResources", how.resources)
        .number("refreshedPrompts", how.prompts)
        .number("invalidatedTasks", how.tasks_failed)
        .number("invalidatedElicitations", how.elicitations_lost)
        .number("invalidatedSampling", how.sampling_lost)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
