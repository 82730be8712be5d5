//! Spans: what is recorded of a request that is traced, and the queue in which it waits for export.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::context::{Context, SpanId, TraceId};
use crate::meter::Outcome;
use crate::settings::Sampler;

/// Spans that wait for export; further ones are dropped and counted.
const QUEUE_MAX: usize = 2048;
/// From this many on, export does not wait for its turn.
const BATCH: usize = 512;

/// Makes spans and keeps those that have ended until they are exported.
#[derive(Debug)]
pub struct Tracer {
    sampler: Sampler,
    ended: Mutex<Vec<Record>>,
    dropped: AtomicU64,
    many: Notify,
}

/// Which side of a request a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It was received.
    Server,
    /// It was sent.
    Client,
}

/// One thing that is known of a span.
pub type Attribute = (&'static str, Cow<'static, str>);

/// A span that has ended.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) context: Context,
    pub(crate) parent: Option<SpanId>,
    pub(crate) state: Option<Arc<str>>,
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) outcome: Outcome,
    pub(crate) code: Option<i64>,
}

impl Tracer {
    /// Nothing has been recorded yet.
    pub fn new(sampler: Sampler) -> Arc<Self> {
        Arc::new(Self { sampler, ended: Mutex::default(), dropped: AtomicU64::new(0), many: Notify::new() })
    }

    /// Starts a span: of the trace of its parent, or of a new one.
    pub fn start(self: &Arc<Self>, role: Role, name: String, parent: Option<Context>) -> Span {
        let trace = parent.map_or_else(TraceId::random, |parent| parent.trace);
        let sampled = match role {
            // Decided where the request came in.
            Role::Client if parent.is_some() => parent.is_some_and(|parent| parent.sampled),
            Role::Server | Role::Client => self.sampler.takes(trace, parent.map(|parent| parent.sampled)),
        };
        let record = Record {
            context: Context { trace, span: SpanId::random(), sampled },
            parent: parent.map(|parent| parent.span),
            state: None,
            role,
            name,
            start_ns: unix_ns(),
            end_ns: 0,
            attributes: Vec::new(),
            outcome: Outcome::Cancelled,
            code: None,
        };
        Span { tracer: self.clone(), since: Instant::now(), record: Some(record) }
    }

    /// How many spans there was no room for.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Takes what waits for export.
    pub(crate) fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.ended.lock())
    }

    /// Resolves when enough waits for export.
    ///
    /// Cancel safe: yes.
    pub(crate) async fn many(&self) {
        self.many.notified().await;
    }

    fn keep(&self, record: Record) {
        let mut ended = self.ended.lock();
        if QUEUE_MAX <= ended.len() {
            drop(ended);
            self.lost(1);
            return;
        }
        ended.push(record);
        let waiting = ended.len();
        drop(ended);
        if waiting == BATCH {
            self.many.notify_one();
        }
    }
}

/// A span that has not ended. Dropping it is its end.
#[derive(Debug)]
pub struct Span {
    tracer: Arc<Tracer>,
    since: Instant,
    /// Gone only while it is dropped.
    record: Option<Record>,
}

impl Span {
    /// How the next hop names it.
    pub fn context(&self) -> Option<Context> {
        self.record.as_ref().map(|record| record.context)
    }

    /// Adds what is known of it.
    #[must_use]
    pub fn with(mut self, attributes: impl IntoIterator<Item = Attribute>) -> Self {
        if let Some(record) = self.record.as_mut().filter(|record| record.context.sampled) {
            record.attributes.extend(attributes);
        }
        self
    }

    /// Keeps the `tracestate` that it came with.
    #[must_use]
    pub fn with_state(mut self, state: Option<&str>) -> Self {
        if let (Some(record), Some(state)) = (&mut self.record, state) {
            record.state = Some(state.into());
        }
        self
    }

    pub(crate) fn set_outcome(&mut self, outcome: Outcome, code: Option<i64>) {
        if let Some(record) = &mut self.record {
            (record.outcome, record.code) = (outcome, code);
        }
    }

    /// Makes it the current one of this thread for as long as the guard lives.
    pub(crate) fn enter(&self) -> Entered {
        let current = self.record.as_ref().map(|record| (record.context, record.state.clone()));
        Entered(CURRENT.with(|known| known.replace(current)))
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(mut record) = self.record.take().filter(|record| record.context.sampled) else { return };
        let took = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        record.end_ns = record.start_ns.saturating_add(took);
        self.tracer.keep(record);
    }
}

/// A span, and the `tracestate` that it came with.
type Current = Option<(Context, Option<Arc<str>>)>;

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(None) };
}

/// The span that is being worked on by this thread: that of the exchange which is being polled. What is sent on behalf of
/// a request is its child, however deep in the stack it is sent.
pub fn current() -> Option<Context> {
    CURRENT.with(|current| current.borrow().as_ref().map(|(context, _)| *context))
}

/// The `tracestate` that the span came with which is being worked on by this thread; it goes where the span goes.
pub fn current_state() -> Option<Arc<str>> {
    CURRENT.with(|current| current.borrow().as_ref().and_then(|(_, state)| state.clone()))
}

/// Puts the former current span back when dropped.
#[derive(Debug)]
pub struct Entered(Current);

impl Drop for Entered {
    fn drop(&mut self) {
        let former = self.0.take();
        CURRENT.with(|current| drop(current.replace(former)));
    }
}

pub(crate) fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_continues_the_trace_of_its_parent() {
        let tracer = Tracer::new(Sampler::Always);
        let parent = Context { trace: TraceId::random(), span: SpanId::random(), sampled: true };
        let server = tracer.start(Role::Server, "a".to_owned(), Some(parent));
        let client = tracer.start(Role::Client, "b".to_owned(), server.context());
        let (of_server, of_client) = (server.context(), client.context());
        drop((server, client));
        let records = tracer.take();
        let parents: Vec<_> = records.iter().map(|record| record.parent).collect();
        assert_eq!(parents, [Some(parent.span), of_server.map(|context| context.span)]);
        assert!(records.iter().all(|record| record.context.trace == parent.trace && record.start_ns <= record.end_ns));
        assert_ne!(of_server, of_client);
    }

    #[test]
    fn what_nobody_samples_is_passed_on_but_not_recorded() {
        let tracer = Tracer::new(Sampler::ParentOr(1.0));
        let parent = Context { trace: TraceId::random(), span: SpanId::random(), sampled: false };
        let server = tracer.start(Role::Server, "a".to_owned(), Some(parent));
        let passed = server.context();
        assert!(passed.is_some_and(|passed| passed.trace == parent.trace && !passed.sampled));
        drop(server);
        assert!(tracer.take().is_empty());
    }

    #[test]
    fn the_queue_is_bounded_and_says_what_it_dropped() {
        let tracer = Tracer::new(Sampler::Always);
        for _ in 0..QUEUE_MAX + 7 {
            drop(tracer.start(Role::Server, "a".to_owned(), None));
        }
        assert_eq!((tracer.take().len(), tracer.dropped()), (QUEUE_MAX, 7));
    }

    #[test]
    fn the_current_span_is_that_of_the_innermost_guard() {
        let tracer = Tracer::new(Sampler::Always);
        let (outer, inner) =
            (tracer.start(Role::Server, "a".to_owned(), None), tracer.start(Role::Server, "b".to_owned(), None));
        assert_eq!(current(), None);
        let outer = outer.with_state(Some("a=b"));
        let first = outer.enter();
        let second = inner.enter();
        assert_eq!((current(), current_state()), (inner.context(), None));
        drop(second);
        assert_eq!((current(), current_state().as_deref()), (outer.context(), Some("a=b")));
        drop(first);
        assert_eq!(current(), None);
    }
}
