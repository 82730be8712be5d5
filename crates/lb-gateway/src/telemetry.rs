//! What is counted of requests, and how it is told.
//!
//! Labels are the servers that are defined and the methods of the protocol, so that no client can make the numbers grow.

use std::sync::Arc;

use lb_telemetry::{Counter, Family, Kind, Meter, Watch};
use lb_wire::revision::method;

use crate::gateway::{Gateway, Shared};
use crate::live::Live;

/// The methods that are counted by name; what is shown from the start comes first.
const METHODS: &[&str] = &[
    method::TOOLS_CALL,
    method::TOOLS_LIST,
    method::RESOURCES_READ,
    method::PROMPTS_GET,
    method::PROMPTS_LIST,
    method::RESOURCES_LIST,
    method::RESOURCES_TEMPLATES_LIST,
    method::COMPLETION_COMPLETE,
    method::SERVER_DISCOVER,
    method::SUBSCRIPTIONS_LISTEN,
    method::INITIALIZE,
    method::PING,
    method::LOGGING_SET_LEVEL,
    method::RESOURCES_SUBSCRIBE,
    method::RESOURCES_UNSUBSCRIBE,
    method::TASKS_GET,
    method::TASKS_UPDATE,
    method::TASKS_CANCEL,
    method::TASKS_RESULT,
    method::TASKS_LIST,
];

/// What surfaces of our own are called among the servers.
const OURSELVES: &str = "landbridge";
/// The same, where a server has that name. No server can have this one.
const OURSELVES_BESIDE: &str = "landbridge:tools";

/// Watches the requests to one server, or to surfaces of our own.
pub struct Watcher {
    meter: Arc<Meter>,
}

impl Watcher {
    /// Nothing has been counted yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { meter: Meter::new(METHODS) })
    }

    /// Watches a request.
    pub fn watch(&self, method: &str) -> Watch {
        let watch = self.meter.watch(method);
        // It ends when its client likes.
        if method == method::SUBSCRIPTIONS_LISTEN { watch.untimed() } else { watch }
    }
}

/// What a gateway counts beside requests.
pub struct Totals {
    /// Requests to surfaces of our own.
    pub(crate) own: Arc<Watcher>,
    events_dropped: Counter,
    pub(crate) messages_dropped: Counter,
    pub(crate) sessions_refused: Counter,
}

impl Totals {
    pub(crate) fn new() -> Self {
        let (events_dropped, messages_dropped, sessions_refused) = Default::default();
        Self { own: Watcher::new(), events_dropped, messages_dropped, sessions_refused }
    }

    /// Counts what a session lost since it was last asked.
    pub(crate) fn events_lost(&self, live: &Live) {
        self.events_dropped.add(live.take_lost());
    }
}

impl Gateway {
    /// All that is counted, at this moment.
    pub fn metrics(&self) -> Vec<Family> {
        let shared = self.shared();
        let mut families = sessions(shared);
        families.extend(requests(shared));
        families.extend(servers(shared));
        families.extend(losses(shared));
        families
    }
}

fn sessions(shared: &Shared) -> Vec<Family> {
    let (on_tools, on_servers) = shared.count_sessions();
    let total = on_tools + on_servers;
    let mut by_surface = Family::new("landbridge_sessions", "Sessions, by what they see.", Kind::Gauge);
    for (surface, count) in [("tools", on_tools), ("server", on_servers)] {
        by_surface.count(vec![("surface", surface.into())], count as u64);
    }
    let mut all = Family::new("mcp_active_sessions", "Sessions that have not ended.", Kind::Gauge);
    all.count(Vec::new(), total as u64);
    let mut refused =
        Family::new("landbridge_sessions_refused_total", "Sessions that there was no room for.", Kind::Counter);
    refused.count(Vec::new(), shared.totals().sessions_refused.value());
    vec![all, by_surface, refused]
}

fn requests(shared: &Shared) -> Vec<Family> {
    let help = "Requests that have ended, by server, method and outcome; what surfaces of landbridge's own answered has \
                landbridge as its server.";
    let mut ended = Family::new("landbridge_requests_total", help, Kind::Counter);
    let mut seconds = Family::new("landbridge_request_seconds", "How long requests took.", Kind::Histogram);
    let mut open = Family::new("landbridge_requests_open", "Requests that have not ended.", Kind::Gauge);
    let mut add = |name: &str, meter: &Meter| {
        let labels = || vec![("server", name.to_owned().into())];
        meter.requests(name, &mut ended);
        seconds.many(labels(), meter.seconds());
        open.whole(labels(), meter.open());
    };
    let entries = shared.registry().all();
    let taken = entries.iter().any(|entry| entry.name().as_str() == OURSELVES);
    add(if taken { OURSELVES_BESIDE } else { OURSELVES }, &shared.totals().own.meter);
    for entry in &entries {
        add(entry.name().as_str(), &entry.watcher.meter);
    }
    vec![ended, seconds, open]
}

fn servers(shared: &Shared) -> Vec<Family> {
    let mut children = Family::new("landbridge_children", "Processes of a server that run.", Kind::Gauge);
    let mut broken =
        Family::new("landbridge_breaker_open", "Whether calls of a server are refused for a while.", Kind::Gauge);
    for entry in shared.registry().all() {
        let labels = || vec![("server", entry.name().as_str().to_owned().into())];
        children.count(labels(), entry.server.children() as u64);
        broken.whole(labels(), i64::from(entry.is_broken()));
    }
    vec![children, broken]
}

fn losses(shared: &Shared) -> Vec<Family> {
    let totals = shared.totals();
    for live in shared.lives() {
        totals.events_lost(&live);
    }
    let mut events = Family::new(
        "landbridge_events_dropped_total",
        "Events of sessions that went before their client had them.",
        Kind::Counter,
    );
    events.count(Vec::new(), totals.events_dropped.value());
    let mut messages = Family::new(
        "landbridge_messages_dropped_total",
        "Stored messages of streams that went for want of room.",
        Kind::Counter,
    );
    messages.count(Vec::new(), totals.messages_dropped.value());
    vec![events, messages]
}

#[cfg(test)]
mod tests {
    use lb_wire::revision::Era;

    use super::*;

    #[test]
    fn every_request_of_clients_is_counted_by_name() {
        let client_sends = |facts: &&method::MethodFacts| {
            [Era::Legacy, Era::Modern].into_iter().any(|era| facts.is_client_request(era))
        };
        let mut want: Vec<_> = method::ALL.iter().filter(client_sends).map(|facts| facts.name).collect();
        let mut got = METHODS.to_vec();
        want.sort_unstable();
        got.sort_unstable();
        assert_eq!(got, want);
    }
}
