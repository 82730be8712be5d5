//! The events that operators see too, under names that they may build upon.

use super::{Cause, Happening};

impl Happening {
    /// Logs what is not logged where it is caused.
    pub(crate) fn log(&self, server: &str) {
        match self {
            Self::TaskCompleted { task, tool, .. } => tracing::debug!(server, tool = &**tool, %task, "task_completed"),
            Self::TaskFailed { task, tool, error, .. } => {
                tracing::debug!(server, tool = &**tool, %task, %error, "task_failed");
            }
            Self::ElicitationRequest { request, .. } => tracing::debug!(server, %request, "elicitation_received"),
            Self::ElicitationExpired { request, cause: Cause::Timeout, .. } => {
                tracing::warn!(server, %request, "elicitation_timeout");
            }
            Self::ServerReconnecting { attempt, next_retry, .. } => {
                tracing::info!(server, attempt, ?next_retry, "server_reconnecting");
            }
            _ => {}
        }
    }
}
