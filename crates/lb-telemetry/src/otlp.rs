//! Spans and metrics as the messages that collectors take. The numbers are the fields of the OTLP definitions.

use std::borrow::Cow;

use crate::family::{Family, Kind, Point, Value};
use crate::meter::Outcome;
use crate::protobuf::Message;
use crate::span::{Record, Role};

const SCOPE: &str = "landbridge";
/// Counted since the start, not since the last time.
const CUMULATIVE: u64 = 2;
const STATUS_ERROR: u64 = 2;

/// An `ExportTraceServiceRequest`.
pub(crate) fn traces(resource: &[(String, String)], records: &[Record]) -> Vec<u8> {
    request(resource, |scope| {
        for record in records {
            scope.message(2, |message| span(message, record));
        }
    })
}

/// An `ExportMetricsServiceRequest`.
pub(crate) fn metrics(resource: &[(String, String)], families: &[Family], start_ns: u64, now_ns: u64) -> Vec<u8> {
    request(resource, |scope| {
        for family in families {
            scope.message(2, |message| metric(message, family, start_ns, now_ns));
        }
    })
}

fn request(resource: &[(String, String)], write: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |all| {
        all.message(1, |message| {
            for (key, value) in resource {
                attribute(message, 1, key, value);
            }
        });
        all.message(2, |scope| {
            scope.message(1, |message| {
                message.text(1, SCOPE);
                message.text(2, env!("CARGO_PKG_VERSION"));
            });
            write(scope);
        });
    });
    request.into_bytes()
}

fn attribute(message: &mut Message, field: u32, key: &str, value: &str) {
    message.message(field, |pair| {
        pair.text(1, key);
        pair.message(2, |any| any.bytes(1, value.as_bytes()));
    });
}

fn span(message: &mut Message, record: &Record) {
    message.bytes(1, record.context.trace.as_bytes());
    message.bytes(2, record.context.span.as_bytes());
    message.text(3, record.state.as_deref().unwrap_or_default());
    if let Some(parent) = record.parent {
        message.bytes(4, parent.as_bytes());
    }
    message.text(5, &record.name);
    message.number(
        6,
        match record.role {
            Role::Server => 2,
            Role::Client => 3,
        },
    );
    message.fixed64(7, record.start_ns);
    message.fixed64(8, record.end_ns);
    for (key, value) in &record.attributes {
        attribute(message, 9, key, value);
    }
    if record.outcome == Outcome::Ok {
        return;
    }
    let what = match record.code {
        Some(code) if record.outcome == Outcome::Error => Cow::from(code.to_string()),
        Some(_) | None => record.outcome.as_str().into(),
    };
    attribute(message, 9, "error.type", &what);
    if let Some(code) = record.code {
        attribute(message, 9, "rpc.response.status_code", &code.to_string());
    }
    // That a client lost interest is no fault.
    if record.outcome != Outcome::Cancelled {
        message.message(15, |status| status.number(3, STATUS_ERROR));
    }
}

fn metric(message: &mut Message, family: &Family, start_ns: u64, now_ns: u64) {
    message.text(1, family.name);
    message.text(2, family.help);
    let field = match family.kind {
        Kind::Gauge => 5,
        Kind::Counter => 7,
        Kind::Histogram => 9,
    };
    message.message(field, |data| {
        for point in &family.points {
            data.message(1, |message| number(message, point, start_ns, now_ns));
        }
        if family.kind != Kind::Gauge {
            data.number(2, CUMULATIVE);
        }
        if family.kind == Kind::Counter {
            data.number(3, 1);
        }
    });
}

fn number(message: &mut Message, point: &Point, start_ns: u64, now_ns: u64) {
    message.fixed64(2, start_ns);
    message.fixed64(3, now_ns);
    let labels = match &point.value {
        Value::Whole(value) => {
            message.fixed64(6, value.cast_unsigned());
            7
        }
        Value::Real(value) => {
            message.double(4, *value);
            7
        }
        Value::Many(many) => {
            message.fixed64(4, many.counts.iter().sum());
            message.double(5, many.sum);
            message.packed(6, many.counts.iter().copied());
            message.packed(7, many.bounds.iter().map(|bound| bound.to_bits()));
            9
        }
    };
    for (key, value) in &point.labels {
        attribute(message, labels, key, value);
    }
}
