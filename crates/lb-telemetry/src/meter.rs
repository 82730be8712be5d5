//! What is counted of the requests to one server, and the watch that one request carries to its end.

use std::sync::Arc;
use std::time::Instant;

use crate::family::Family;
use crate::measure::{Counter, Gauge, Histogram};
use crate::span::{Entered, Span};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Ok,
    /// With an error.
    Error,
    /// With a result that says that it is an error.
    ToolError,
    /// Nobody waited for its end.
    Cancelled,
    /// It took too long.
    Timeout,
    /// It was not taken on.
    Refused,
}

impl Outcome {
    const ALL: [Self; 6] = [Self::Ok, Self::Error, Self::ToolError, Self::Cancelled, Self::Timeout, Self::Refused];

    /// As labels and attributes say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::ToolError => "tool_error",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
        }
    }
}

/// Counts requests to one server, by method and outcome. Both are known from the start, so that counting is one addition
/// and nobody outside can make it grow.
#[derive(Debug)]
pub struct Meter {
    methods: &'static [&'static str],
    /// One row of outcomes per method, and one for all other methods.
    requests: Box<[[Counter; Outcome::ALL.len()]]>,
    seconds: Histogram,
    open: Gauge,
}

/// What methods are called that have no row of their own.
const OTHER: &str = "other";

impl Meter {
    /// Counts these methods by name, and all others together. The first has its numbers shown from the start.
    pub fn new(methods: &'static [&'static str]) -> Arc<Self> {
        let requests = (0..=methods.len()).map(|_| Default::default()).collect();
        Arc::new(Self { methods, requests, seconds: Histogram::default(), open: Gauge::default() })
    }

    /// Watches one request from now on.
    pub fn watch(self: &Arc<Self>, method: &str) -> Watch {
        let row = self.methods.iter().position(|known| *known == method).unwrap_or(self.methods.len());
        self.open.add(1);
        let row = u16::try_from(row).unwrap_or(u16::MAX);
        Watch { meter: self.clone(), since: Some(Instant::now()), row, outcome: Outcome::Cancelled, spans: None }
    }

    /// Adds what was counted, as the server of this name.
    pub fn requests(&self, server: &str, into: &mut Family) {
        for (at, row) in self.requests.iter().enumerate() {
            for (outcome, counter) in Outcome::ALL.into_iter().zip(row) {
                let count = counter.value();
                // Never used ones would be most of all there is.
                if count == 0 && at != 0 {
                    continue;
                }
                let method = self.methods.get(at).copied().unwrap_or(OTHER);
                let server = server.to_owned().into();
                let labels = vec![("server", server), ("method", method.into()), ("outcome", outcome.as_str().into())];
                into.count(labels, count);
            }
        }
    }

    /// How long requests took.
    pub fn seconds(&self) -> &Histogram {
        &self.seconds
    }

    /// How many requests are open.
    pub fn open(&self) -> i64 {
        self.open.value()
    }
}

/// Goes with one request and counts it at its end; dropped before, it counts as cancelled.
#[derive(Debug)]
pub struct Watch {
    meter: Arc<Meter>,
    /// Since when; `None` for what takes as long as its client likes.
    since: Option<Instant>,
    row: u16,
    outcome: Outcome,
    /// Those that end with it, outermost first.
    spans: Option<Box<[Span]>>,
}

impl Watch {
    /// Does not look at how long it takes.
    #[must_use]
    pub fn untimed(mut self) -> Self {
        self.since = None;
        self
    }

    /// Ends these spans with it. The first is current while the request is worked on.
    #[must_use]
    pub fn with_spans(mut self, spans: Box<[Span]>) -> Self {
        self.spans = (!spans.is_empty()).then_some(spans);
        self
    }

    /// Makes its span the current one for as long as the guard lives.
    pub fn enter(&self) -> Option<Entered> {
        self.spans.as_ref()?.first().map(Span::enter)
    }

    /// The end.
    pub fn end(mut self, outcome: Outcome, code: Option<i64>) {
        self.outcome = outcome;
        for span in self.spans.iter_mut().flatten() {
            span.set_outcome(outcome, code);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.meter.open.add(-1);
        let row = self.meter.requests.get(usize::from(self.row));
        if let Some(counter) = row.and_then(|row| row.get(self.outcome as usize)) {
            counter.inc();
        }
        if let Some(since) = self.since {
            self.meter.seconds.record(since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Kind, Value};

    fn counted(meter: &Meter) -> Vec<(String, i64)> {
        let mut family = Family::new("r", "", Kind::Counter);
        meter.requests("s", &mut family);
        let row = |point: crate::family::Point| {
            let labels: Vec<_> = point.labels.iter().map(|(_, value)| value.to_string()).collect();
            let Value::Whole(count) = point.value else { unreachable!("requests are counted") };
            (labels.join(" "), count)
        };
        family.points.into_iter().map(row).filter(|(_, count)| *count != 0).collect()
    }

    #[test]
    fn a_request_counts_once_by_method_and_outcome() {
        let meter = Meter::new(&["tools/call", "ping"]);
        meter.watch("ping").end(Outcome::Ok, None);
        meter.watch("tools/call").end(Outcome::ToolError, None);
        drop(meter.watch("tools/call"));
        meter.watch("strange").end(Outcome::Error, Some(-1));
        meter.watch("stranger").untimed().end(Outcome::Error, None);
        let want =
            [("s tools/call tool_error", 1), ("s tools/call cancelled", 1), ("s ping ok", 1), ("s other error", 2)];
        assert_eq!(counted(&meter), want.map(|(labels, count)| (labels.to_owned(), count)));
        assert_eq!(meter.open(), 0);
        assert_eq!(meter.seconds().distribution().counts.iter().sum::<u64>(), 4);
    }

    #[test]
    fn a_new_server_has_its_own_numbers_from_the_start_and_strange_methods_add_one_row() {
        let meter = Meter::new(&["tools/call", "ping"]);
        let points = |meter: &Meter| {
            let mut family = Family::new("r", "", Kind::Counter);
            meter.requests("s", &mut family);
            family.points.len()
        };
        assert_eq!(points(&meter), 6);
        for n in 0..1000 {
            meter.watch(&format!("m{n}")).end(Outcome::Error, None);
        }
        assert_eq!(points(&meter), 7);
    }

    #[test]
    fn open_requests_are_those_that_have_not_ended() {
        let meter = Meter::new(&[]);
        let (one, two) = (meter.watch("a"), meter.watch("b"));
        assert_eq!(meter.open(), 2);
        one.end(Outcome::Ok, None);
        assert_eq!(meter.open(), 1);
        drop(two);
        assert_eq!(meter.open(), 0);
    }
}
