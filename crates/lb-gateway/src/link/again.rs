//! What a server was told for longer than one call, and is told again when it was started anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lb_backend::Connection;
use lb_exchange::{Call, FeedItem, List, Note};
use lb_wire::compose::Object;
use lb_wire::revision::Era;
use lb_wire::{Message, Raw, Text, compose};
use tokio::sync::oneshot;

use super::Link;

/// Subscriptions of one link; a client that wants more is refused by the server or by memory.
const SUBSCRIPTIONS_MAX: usize = 1000;

/// How long calls wait until a server that was started anew has answered what it is told again.
const TELL_MAX: Duration = Duration::from_secs(2);

const CHANGES: &[(List, &str, &str)] = &[
    (List::Tools, "tools", "notifications/tools/list_changed"),
    (List::Prompts, "prompts", "notifications/prompts/list_changed"),
    (List::Resources, "resources", "notifications/resources/list_changed"),
];

/// What a server was told and must be told again after a restart.
#[derive(Debug, Default)]
pub(super) struct Restore {
    log_level: Option<Raw>,
    subscriptions: Vec<Raw>,
    /// Whether there ever was something to tell again.
    ever: bool,
}

impl Link {
    /// Remembers what a request tells the server for longer than itself.
    pub fn remember(&self, call: &Call) {
        let mut restore = self.restore.lock();
        match call.message.method() {
            "logging/setLevel" => restore.log_level = call.message.body(),
            "resources/subscribe" => {
                let uri = call.message.member("uri");
                if let Some(uri) = uri.filter(|uri| !restore.subscriptions.contains(uri))
                    && restore.subscriptions.len() < SUBSCRIPTIONS_MAX
                {
                    restore.subscriptions.push(uri);
                }
            }
            "resources/unsubscribe" => {
                let uri = call.message.member("uri");
                restore.subscriptions.retain(|known| Some(known) != uri.as_ref());
            }
            _ => return,
        }
        restore.ever = true;
    }

    /// What the server was told and must be told again, as it is written; `None` when that was never anything.
    pub(crate) fn told(&self) -> Option<Raw> {
        let restore = self.restore.lock();
        let subscriptions = compose::array(restore.subscriptions.iter());
        let told = Object::new().maybe("level", restore.log_level.as_ref()).raw("subscriptions", &subscriptions);
        restore.ever.then(|| told.finish())
    }

    /// Its client has told all this to the process before this one, and does not say it again.
    pub(crate) fn was_told(&self, told: Option<&Raw>) {
        self.state.lock().client_is_ready = true;
        // As after a restart, for the server and for the client alike.
        self.connections.fetch_add(1, Ordering::Relaxed);
        let Some(told) = told else { return };
        let subscriptions = told.member("subscriptions").and_then(|all| all.read::<Vec<String>>().ok());
        *self.restore.lock() = Restore {
            log_level: told.member("level").map(|level| level.detached()),
            subscriptions: subscriptions.unwrap_or_default().iter().map(|uri| Raw::string(uri)).collect(),
            ever: true,
        };
    }

    /// The same for one of several clients: what the server need not be told again by others. A level that one of them
    /// has said meanwhile counts.
    pub(crate) fn was_asked_for(self: &Arc<Self>, uris: &[Text], level: Option<Raw>) {
        let (new, level) = {
            let mut restore = self.restore.lock();
            let uris = uris.iter().map(|uri| Raw::string(uri));
            let new: Vec<Raw> = uris.filter(|uri| !restore.subscriptions.contains(uri)).collect();
            restore.subscriptions.extend(new.iter().take(SUBSCRIPTIONS_MAX).cloned());
            let level = level.filter(|_| restore.log_level.is_none());
            restore.log_level = restore.log_level.take().or_else(|| level.clone());
            (new, level)
        };
        if new.is_empty() && level.is_none() {
            return;
        }
        // As after a restart, if this is the first connection.
        self.connections.fetch_max(1, Ordering::Relaxed);
        let Some(connection) = self.current().filter(|connection| connection.era() == Era::Legacy) else { return };
        self.tasks().spawn(async move {
            if let Some(level) = level {
                connection.request("logging/setLevel", Some(&level)).await;
            }
            for uri in new {
                connection.request("resources/subscribe", Some(&compose::object(&[("uri", &uri)]))).await;
            }
        });
    }

    /// Whether the server was asked to tell of changes.
    pub(super) fn has_subscriptions(&self) -> bool {
        !self.restore.lock().subscriptions.is_empty()
    }

    /// Nobody wants to hear of these resources any more.
    pub fn unsubscribe(&self, uris: &[Text]) {
        let gone: Vec<Raw> = {
            let mut restore = self.restore.lock();
            let is_gone = |uri: &mut Raw| uri.to_text().is_some_and(|uri| uris.iter().any(|gone| **gone == *uri));
            restore.subscriptions.extract_if(.., is_gone).collect()
        };
        let Some(connection) = self.current().filter(|connection| connection.era() == Era::Legacy) else { return };
        self.tasks().spawn(async move {
            for uri in gone {
                connection.request("resources/unsubscribe", Some(&compose::object(&[("uri", &uri)]))).await;
            }
        });
    }

    /// After a restart: the server is told again what it was told, before it is asked anything, and the client that it may
    /// have missed something.
    pub(super) async fn restored(&self, connection: &Arc<Connection>) {
        tracing::info!(server = self.name(), "server restarted");
        let again = self.to_tell_again(connection);
        if !again.is_empty() {
            let (telling, told) = oneshot::channel::<()>();
            let connection = connection.clone();
            self.wish.tasks.spawn(async move {
                for (method, params) in again {
                    connection.request(method, Some(&params)).await;
                }
                drop(telling);
            });
            // One that does not answer this may still answer calls.
            tokio::time::timeout(TELL_MAX, told).await.ok();
        }
        // What is kept is compared with what it says now, and only what is another is told.
        if self.kept.is_some() {
            return;
        }
        for (list, capability, method) in CHANGES {
            if connection.declares(capability, Some("listChanged")) {
                drop(self.feed().push(FeedItem::Changed(*list, Note::new(Text::from_static(method), None))));
            }
        }
    }

    /// What a server was told before and must be told again.
    fn to_tell_again(&self, connection: &Arc<Connection>) -> Vec<(&'static str, Raw)> {
        let restore = self.restore.lock();
        let mut again: Vec<(&'static str, Raw)> = Vec::new();
        let legacy = connection.era() == Era::Legacy;
        match restore.log_level.clone() {
            Some(params) if legacy => again.push(("logging/setLevel", params)),
            // There the level goes with every call.
            Some(params) => params.member("level").into_iter().for_each(|level| connection.set_log_level(level)),
            None => {}
        }
        // A modern server was never asked for them.
        for uri in restore.subscriptions.iter().filter(|_| legacy) {
            again.push(("resources/subscribe", compose::object(&[("uri", uri)])));
            let note =
                Note::new(Text::from_static("notifications/resources/updated"), Some(compose::object(&[("uri", uri)])));
            let uri = uri.to_text().map(|uri| Text::from(&*uri)).unwrap_or_else(|| Text::from_static(""));
            drop(self.feed().push(FeedItem::Updated(uri, note)));
        }
        again
    }
}

/// Whether a server is told something by this that it must be told again after a restart.
pub(crate) fn tells(message: &Message) -> bool {
    matches!(message.method(), "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe")
}
