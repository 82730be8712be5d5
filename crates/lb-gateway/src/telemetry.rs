//! What is counted of requests, and how it is told.
//!
//! Labels are the servers that are defined and the methods of the protocol, so that no client can make the numbers grow.

use std::sync::Arc;

use lb_exchange::{Call, ServerName, ServerSpec, Target, Trace};
use lb_telemetry::{Attribute, Counter, Family, Kind, Meter, Tracer, Watch};
use lb_wire::revision::method;
use lb_wire::{Message, Raw};

use crate::gateway::{Gateway, Shared};
use crate::live::Live;
use crate::trace;

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

/// What surfaces of our own are called among the servers; no server can have this name.
const OURSELVES: &str = ServerName::RESERVED;

/// Watches the requests to one server, or to surfaces of our own.
pub struct Watcher {
    meter: Arc<Meter>,
    tracer: Option<Arc<Tracer>>,
    server: Arc<str>,
    /// How it is reached, as spans say it.
    transport: &'static str,
}

impl Watcher {
    /// For this server, or for ourselves. Nothing has been counted yet.
    pub fn new(server: Option<&ServerSpec>, tracer: Option<Arc<Tracer>>) -> Arc<Self> {
        let transport = match server.map(|server| &server.target) {
            Some(Target::Http { .. }) => "tcp",
            Some(Target::Child { .. } | Target::Embedded(_)) | None => "pipe",
        };
        let server = server.map_or(OURSELVES, |server| server.name.as_str()).into();
        Arc::new(Self { meter: Meter::new(METHODS), tracer, server, transport })
    }

    /// Watches a request that is answered here.
    pub fn received(&self, message: &Message, trace: Option<&Trace>) -> Watch {
        let watch = self.watch(message.method());
        match &self.tracer {
            Some(tracer) => watch.with_spans(Box::new([trace::received(tracer, message, trace)])),
            None => watch,
        }
    }

    /// Watches a request that is passed on to the server, and says in it which span it comes from.
    pub fn passing(&self, call: Call) -> (Call, Watch) {
        let watch = self.watch(call.message.method());
        let Some(tracer) = &self.tracer else { return (call, watch) };
        let received = trace::received(tracer, &call.message, call.trace.as_deref());
        let (method, name) = (call.message.method(), call.message.member("name"));
        let sent = trace::sent(tracer, method, name.as_ref(), received.context(), self.attributes());
        let call = match sent.context() {
            Some(from) => trace::pass_on(call, from),
            None => call,
        };
        (call, watch.with_spans(Box::new([received, sent])))
    }

    /// Watches a request of our own to the server, on behalf of what is worked on; and the span that it comes from.
    pub fn sent(&self, method: &str, params: &Raw) -> (Watch, Option<Box<Trace>>) {
        let watch = self.watch(method);
        let Some(tracer) = &self.tracer else { return (watch, None) };
        let name = params.member("name");
        let sent = trace::sent(tracer, method, name.as_ref(), lb_telemetry::current(), self.attributes());
        let state = lb_telemetry::current_state().map(|state| Box::from(&*state));
        let from = sent.context().map(|parent| Box::new(Trace { parent, state }));
        (watch.with_spans(Box::new([sent])), from)
    }

    fn attributes(&self) -> [Attribute; 2] {
        [("network.transport", self.transport.into()), ("landbridge.server", self.server.to_string().into())]
    }

    fn watch(&self, method: &str) -> Watch {
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
    pub(crate) fn new(tracer: Option<Arc<Tracer>>) -> Self {
        let (events_dropped, messages_dropped, sessions_refused) = Default::default();
        Self { own: Watcher::new(None, tracer), events_dropped, messages_dropped, sessions_refused }
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
    let help = "Sessions that were here and are in the store alone, until somebody asks for them.";
    let mut resting = Family::new("landbridge_sessions_resting", help, Kind::Gauge);
    resting.count(Vec::new(), shared.count_resting() as u64);
    let mut refused =
        Family::new("landbridge_sessions_refused_total", "Sessions that there was no room for.", Kind::Counter);
    refused.count(Vec::new(), shared.totals().sessions_refused.value());
    vec![all, by_surface, resting, refused]
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
    add(OURSELVES, &shared.totals().own.meter);
    for entry in &shared.registry().all() {
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
