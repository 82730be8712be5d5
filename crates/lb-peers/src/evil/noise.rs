//! Messages that come before the answer, the same on every transport.

use std::future::Future;
use std::io::Result;

use super::catalog::{Catalog, Strike};
use super::fault::Fault;
use super::payload;
use crate::raw::message::error;

/// Bytes gathered before they are written, so that 50 MB do not cost 50,000 writes.
pub const BATCH_BYTES: usize = 64 * 1024;

/// A way to the client for whole messages.
pub trait Sink {
    /// Takes one message, now or in a batch.
    fn message(&mut self, json: &str) -> impl Future<Output = Result<()>> + Send;
}

/// Sends what comes before the answer of flood, progress-storm and stale-ids; nothing for other faults.
pub async fn send<S: Sink + Send>(catalog: &Catalog, strike: &Strike, sink: &mut S) -> Result<()> {
    match (strike.fault, &strike.token) {
        (Fault::Flood, _) => {
            for line in payload::flood() {
                sink.message(&line).await?;
            }
        }
        (Fault::ProgressStorm, Some(token)) => {
            for line in payload::progress(token) {
                sink.message(&line).await?;
            }
        }
        (Fault::StaleIds, _) => {
            for line in stale(catalog, strike) {
                sink.message(&line).await?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Answers nobody waits for. Among the ids never issued is the true one written as another JSON type.
fn stale(catalog: &Catalog, strike: &Strike) -> Vec<String> {
    let mut impostor = strike.clone();
    impostor.text = r#""stale""#.to_owned();
    let twin = match strike.id.strip_prefix('"') {
        Some(_) => "0".to_owned(),
        None => format!("\"{}\"", strike.id),
    };
    let mut ids = catalog.finished(&strike.session);
    ids.retain(|id| *id != strike.id);
    ids.extend([twin, "987654321".to_owned(), "-1".to_owned(), r#""never-issued""#.to_owned()]);
    let mut lines: Vec<_> = ids.iter().map(|id| impostor.answer_as(id)).collect();
    lines.push(error("null", -32603, "stale", None));
    lines.push(error("123456789", -32603, "stale", None));
    lines
}
