//! How a call ended, read from bytes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::history::How;
use crate::jobs::markers;

/// Bytes of an answer that are kept for people.
const DETAIL_BYTES: usize = 300;
/// What only notifications begin with.
const NOTE: &[u8] = br#""method":"notifications/"#;

/// The end of a call, as its client sees it.
#[derive(Clone, Debug)]
pub struct End {
    /// How.
    pub how: How,
    /// The HTTP status, 0 where there is none.
    pub status: u16,
    /// Whether any of the response came.
    pub began: bool,
    /// What was said, except in results.
    pub detail: String,
    /// The markers in everything that came.
    pub markers: BTreeSet<String>,
    /// The id of the last event.
    pub last_event: Option<String>,
}

impl End {
    /// An end without an answer.
    pub fn new(how: How, detail: String) -> Self {
        Self { how, status: 0, began: false, detail, markers: BTreeSet::new(), last_event: None }
    }

    /// The end that a message is, if it answers this request.
    pub fn of(message: &[u8], id: u64) -> Option<Self> {
        let head = message.get(..message.len().min(80)).unwrap_or_default();
        // There may be a million of these.
        if head.windows(NOTE.len()).any(|window| window == NOTE) {
            return None;
        }
        let value: Value = serde_json::from_slice(message).ok()?;
        if value["id"] != id || value.get("method").is_some() {
            return None;
        }
        let good = value.get("result").is_some() && value["result"]["isError"] != true;
        let mut end = Self::new(if good { How::Result } else { How::Error }, String::new());
        if !good {
            end.detail = start(message);
        }
        end.began = true;
        end.markers = markers(message);
        Some(end)
    }
}

/// The number of a report.
pub fn progress(message: &[u8]) -> Option<u64> {
    let value: Value = serde_json::from_slice(message).ok()?;
    (value["method"] == "notifications/progress").then(|| value["params"]["progress"].as_u64())?
}

/// The beginning of some bytes, as text.
pub fn start(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..bytes.len().min(DETAIL_BYTES)).unwrap_or_default()).into_owned()
}
