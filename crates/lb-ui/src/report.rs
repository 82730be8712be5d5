//! Rows as the JSON that the page and other programs read.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lb_gateway::{Kind, Moment, Row, Status, rfc3339};
use serde::Serialize;
use serde_json::{Map, Value};

/// The document about these rows.
pub fn report(rows: &[Row], now: Moment) -> Bytes {
    let mut sessions: BTreeMap<&str, Vec<Request<'_>>> = BTreeMap::new();
    for row in rows {
        sessions.entry(&row.session).or_default().push(Request::of(row));
    }
    let of_status = |status: Status| rows.iter().filter(|row| row.status == status).count();
    let of_kind = |kind: Kind| rows.iter().filter(|row| row.kind == kind).count();
    let stats = Stats {
        total_requests: rows.len(),
        session_count: sessions.len(),
        by_status: Status::ALL.map(|status| (status.word().to_owned(), of_status(status).into())).into_iter().collect(),
        by_type: Kind::ALL.map(|kind| (kind.word().to_owned(), of_kind(kind).into())).into_iter().collect(),
    };
    let report = Report { stats, sessions, generated_at: rfc3339(now.unix) };
    // Names are strings and numbers are finite, so that it cannot fail.
    serde_json::to_vec(&report).map(Bytes::from).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    stats: Stats,
    sessions: BTreeMap<&'a str, Vec<Request<'a>>>,
    generated_at: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    total_requests: usize,
    session_count: usize,
    by_status: Map<String, Value>,
    by_type: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    request_id: String,
    session_id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a str>,
    status: &'static str,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_summary: Option<&'a str>,
}

impl<'a> Request<'a> {
    fn of(row: &'a Row) -> Self {
        Self {
            request_id: row.id.to_string(),
            session_id: &row.session,
            kind: row.kind.word(),
            name: &row.name,
            server: row.server.as_deref(),
            args: row.args.as_deref(),
            status: row.status.word(),
            started_at: rfc3339(row.started.unix),
            ended_at: row.ended.map(|took| rfc3339(row.started.unix + took)),
            duration_ms: row.ended.map(millis),
            error: row.error.as_deref(),
            result_summary: row.summary.as_deref(),
        }
    }
}

/// Milliseconds with three decimals: many calls take less than one.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
