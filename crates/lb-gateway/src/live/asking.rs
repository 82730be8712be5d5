//! How often, and for what, a server may ask whoever uses it.
//!
//! This is for the surface of tools, where we ask. On a server's own path its client speaks with it, and knows that it does.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use lb_exchange::Target;
use lb_session::is_unsafe;
use lb_wire::{Raw, Text};
use tokio::time::Instant;

use super::{Backend, Live};

/// The time that questions are counted in.
const WINDOW: Duration = Duration::from_secs(60);

/// When each server has asked, in one session.
pub(super) type Asks = HashMap<Text, VecDeque<Instant>>;

impl Backend {
    /// Whether a session may be asked this on behalf of the server, which counts as asked then.
    pub fn may_ask(&self, live: &Live, params: &Raw) -> bool {
        if is_unsafe(params, self.is_here()) {
            tracing::warn!(target: "audit", event = "question", who = &*self.name, server = &*self.name, outcome = "unsafe");
            return false;
        }
        let allowed = live.asks_once_more(&self.name);
        if !allowed {
            let (who, server) = (&*self.name, &*self.name);
            tracing::warn!(target: "audit", event = "question", who, server, outcome = "too_many");
        }
        allowed
    }

    /// Whether the server runs on this machine.
    fn is_here(&self) -> bool {
        match &self.entry.spec().target {
            Target::Child { .. } | Target::Embedded(_) => true,
            Target::Http { url, .. } => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let host = rest.split(['/', '?']).next().unwrap_or_default();
                let ends =
                    |name: &str| host.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
                ["localhost", "127.0.0.1", "[::1]"].into_iter().any(ends)
            }
        }
    }
}

impl Live {
    /// Counts a question of a server; false when it has asked too often.
    fn asks_once_more(&self, server: &Text) -> bool {
        let Some(max) = self.policy().asks_per_minute else { return true };
        let (mut asks, now) = (self.asks.lock(), Instant::now());
        asks.retain(|_, times| {
            times.retain(|at| now.duration_since(*at) < WINDOW);
            !times.is_empty()
        });
        let times = asks.entry(server.clone()).or_default();
        let room = times.len() < max;
        if room {
            times.push_back(now);
        }
        room
    }
}
