//! How an exchange ended, as it is counted.

use lb_telemetry::Outcome as Counted;
use lb_wire::Raw;

use crate::step::{End, ErrorBody, Outcome};

/// How it ended, and the code of its error.
pub fn outcome(end: &End, overdue: bool) -> (Counted, Option<i64>) {
    match &end.outcome {
        Outcome::Result(_) if end.failed => (Counted::ToolError, None),
        Outcome::Result(_) => (Counted::Ok, None),
        Outcome::Error(error) => (of_error(error), Some(error.code)),
        Outcome::Cancelled => (unended(overdue), None),
    }
}

/// How it ended of which nobody waited for the end.
pub fn unended(overdue: bool) -> Counted {
    if overdue { Counted::Timeout } else { Counted::Cancelled }
}

/// What our own errors say in `data.reason`.
fn of_error(error: &ErrorBody) -> Counted {
    let reason = error.raw.member("data").and_then(|data| data.member("reason"));
    match reason.as_ref().and_then(Raw::plain_str) {
        Some("timeout") => Counted::Timeout,
        Some("cancelled") => Counted::Cancelled,
        Some("limit_exceeded" | "circuit_open" | "overloaded" | "stopping") => Counted::Refused,
        Some(_) | None => Counted::Error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use lb_telemetry::{Family, Kind, Meter, Value};

    use super::*;
    use crate::{Cancel, Exchange, Step};

    fn error(data: &'static str) -> End {
        End::error(-32000, "x", Some(&Raw::from_static(data)))
    }

    fn counted(meter: &Meter) -> Vec<String> {
        let mut family = Family::new("r", "", Kind::Counter);
        meter.requests("s", &mut family);
        let used = family.points.iter().filter(|point| point.value != Value::Whole(0));
        used.filter_map(|point| point.labels.last().map(|(_, outcome)| outcome.to_string())).collect()
    }

    fn watched(exchange: Exchange) -> (Exchange, Arc<Meter>) {
        let meter = Meter::new(&["tools/call"]);
        (exchange.watched(meter.watch("tools/call")), meter)
    }

    #[test]
    fn an_end_counts_by_what_it_says() {
        let failed = End { failed: true, ..End::ours(Outcome::Result(Raw::empty_object())) };
        for (end, want) in [
            (End::ours(Outcome::Result(Raw::empty_object())), "ok"),
            (failed, "tool_error"),
            (End::error(-32603, "x", None), "error"),
            (error(r#"{"reason":"backend_closed"}"#), "error"),
            (error(r#"{"reason":"timeout"}"#), "timeout"),
            (error(r#"{"reason":"limit_exceeded"}"#), "refused"),
            (error(r#"{"reason":"circuit_open"}"#), "refused"),
            (End::ours(Outcome::Cancelled), "cancelled"),
        ] {
            let (mut exchange, meter) = watched(Exchange::ready(end));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(matches!(exchange.poll_step(&mut cx), Poll::Ready(Step::End(_))));
            drop(exchange);
            assert_eq!(counted(&meter), [want]);
        }
    }

    #[test]
    fn one_that_is_dropped_counts_once_as_cancelled_or_too_late() {
        for (why, want) in [(None, "cancelled"), (Some(Cancel::Gone), "cancelled"), (Some(Cancel::Deadline), "timeout")]
        {
            let (exchange, meter) = watched(Exchange::routine(|_| std::future::pending()));
            if let Some(why) = why {
                assert!(exchange.remote().cancel(why));
            }
            assert_eq!((meter.open(), counted(&meter)), (1, vec![]));
            drop(exchange);
            assert_eq!((meter.open(), counted(&meter)), (0, vec![want.to_owned()]));
        }
    }
}
