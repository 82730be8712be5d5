//! What the server says beside its answers: logs, progress, changes, and the wish to be left alone for a while.

#![expect(deprecated, reason = "logging is on its way out of the protocol, and clients still have it")]

use rmcp::RoleServer;
use rmcp::model::{
    CustomNotification, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
    ResourceUpdatedNotificationParam, ServerNotification,
};
use rmcp::service::{RequestContext, ServiceError};
use serde_json::json;
use tracing::debug;

use crate::server::Demo;

/// Asks the gateway in front to close the client's stream of a request, while the work goes on. Only a gateway that
/// has this server in its own process understands it, and passes it on to nobody.
const PAUSE: &str = "landbridge/pause";

/// A kind of list, and how its change is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
}

impl Demo {
    /// Logs to the client, if it wants to hear of this level.
    ///
    /// In the handshake era it hears all from `info` on until it sets a level; in the later one each request says what
    /// it wants to hear, or nothing.
    pub(crate) async fn log(&self, context: &RequestContext<RoleServer>, level: LoggingLevel, text: String) {
        let least = match context.peer.peer_info() {
            Some(_) => self.session.log_level(),
            None => match context.meta.log_level() {
                Some(level) => level,
                None => return,
            },
        };
        if rank(level) < rank(least) {
            return;
        }
        let params = LoggingMessageNotificationParam::new(level, json!(text)).with_logger("landbridge-demo");
        sent("log", self.before_close(context.peer.notify_logging_message(params)).await);
    }

    /// Reports progress on the token that came with the request, if one did.
    pub(crate) async fn progress(&self, context: &RequestContext<RoleServer>, done: u32, total: u32, text: String) {
        let Some(token) = context.meta.get_progress_token() else { return };
        let params = ProgressNotificationParam::new(token, done.into()).with_total(total.into()).with_message(text);
        sent("progress", self.before_close(context.peer.notify_progress(params)).await);
    }

    /// Tells that a list changed: a client of the handshake era by the plain notification, one of the later era where
    /// it listens for it.
    pub(crate) async fn changed(&self, context: &RequestContext<RoleServer>, list: List) {
        if context.peer.peer_info().is_some() {
            let told = match list {
                List::Tools => self.before_close(context.peer.notify_tool_list_changed()).await,
                List::Prompts => self.before_close(context.peer.notify_prompt_list_changed()).await,
                List::Resources => self.before_close(context.peer.notify_resource_list_changed()).await,
            };
            sent("list change", told);
        }
        for sink in self.session.listeners() {
            let told = async {
                match list {
                    List::Tools => sink.notify_tool_list_changed().await,
                    List::Prompts => sink.notify_prompt_list_changed().await,
                    List::Resources => sink.notify_resource_list_changed().await,
                }
            };
            // Refused where the listener did not ask for it.
            if let Some(Err(error)) = self.session.closed.run_until_cancelled(told).await {
                debug!(%error, "list change not sent to a listener");
            }
        }
    }

    /// Tells those who subscribed to a resource that it changed, and whether there was one.
    pub(crate) async fn updated(&self, context: &RequestContext<RoleServer>, uri: &str) -> bool {
        let mut heard = false;
        if self.session.is_subscribed(uri) {
            heard = true;
            let params = ResourceUpdatedNotificationParam::new(uri);
            sent("update", self.before_close(context.peer.notify_resource_updated(params)).await);
        }
        for sink in self.session.listeners() {
            let wanted = sink.accepted().resource_subscriptions.as_ref();
            if wanted.is_some_and(|uris| uris.iter().any(|wanted| wanted == uri)) {
                heard = true;
                let told = sink.notify_resource_updated(uri);
                if let Some(Err(error)) = self.session.closed.run_until_cancelled(told).await {
                    debug!(%error, "update not sent to a listener");
                }
            }
        }
        heard
    }

    /// Asks for the client's stream of this request to be closed; the client resumes it for what comes later.
    pub(crate) async fn pause(&self, context: &RequestContext<RoleServer>) {
        let params = json!({ "requestId": context.id });
        let pause = ServerNotification::CustomNotification(CustomNotification::new(PAUSE, Some(params)));
        sent("pause", self.before_close(context.peer.send_notification(pause)).await);
    }

    /// Nothing that is said may hold up the end of the connection.
    async fn before_close(
        &self,
        saying: impl Future<Output = Result<(), ServiceError>>,
    ) -> Option<Result<(), ServiceError>> {
        self.session.closed.run_until_cancelled(saying).await
    }
}

fn sent(what: &str, result: Option<Result<(), ServiceError>>) {
    if let Some(Err(error)) = result {
        debug!(%error, "{what} not sent");
    }
}

fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
