//! Reading a request: the headers the protocol needs, and a body with limits.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Request};
use http_body::Body as _;
use hyper::body::Incoming;
use lb_exchange::ParamHeaders;
use lb_front::{Accept, Headers};
use lb_wire::header;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::settings::Settings;

/// How long a body may bring less than it must, for lines that are slow to start.
const SLOW_START: Duration = Duration::from_secs(5);

/// A header that must stand alone came twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeated(pub(crate) &'static str);

/// The headers that matter to the protocol.
pub(crate) fn headers(map: &HeaderMap) -> Result<Headers<'_>, Repeated> {
    Ok(Headers {
        version: single(map, header::PROTOCOL_VERSION)?,
        session: single(map, header::SESSION_ID)?,
        method: single(map, header::METHOD)?,
        name: single(map, header::NAME)?,
        last_event_id: single(map, header::LAST_EVENT_ID)?,
        accept: Accept::parse(map.get_all(ACCEPT).iter().map(http::HeaderValue::as_bytes)),
        traceparent: only(map, "traceparent"),
        tracestate: only(map, "tracestate"),
    })
}

fn single<'m>(map: &'m HeaderMap, name: &'static str) -> Result<Option<&'m [u8]>, Repeated> {
    let mut values = map.get_all(HeaderName::from_static(name)).iter();
    let first = values.next().map(http::HeaderValue::as_bytes);
    if values.next().is_some() { Err(Repeated(name)) } else { Ok(first) }
}

/// A header that says nothing when it comes twice.
fn only<'m>(map: &'m HeaderMap, name: &'static str) -> Option<&'m [u8]> {
    single(map, name).ok().flatten()
}

/// The parameters that a modern client repeats in headers.
pub(crate) fn params(map: &HeaderMap) -> ParamHeaders {
    let mut params = ParamHeaders::new();
    for (name, value) in map {
        if let Some(name) = name.as_str().strip_prefix(header::PARAM_PREFIX) {
            params.push((name.to_owned(), Bytes::copy_from_slice(value.as_bytes())));
        }
    }
    params
}

/// Whether the body says that it is JSON.
pub(crate) fn is_json(map: &HeaderMap) -> bool {
    let Some(value) = map.get(CONTENT_TYPE) else { return false };
    let kind = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is too large.
    Large,
    /// It took too long.
    Slow,
    /// The client broke off.
    Broken,
    /// Too much of other bodies waits for its rest.
    Crowded,
}

/// Whether the head says that the body has more bytes.
pub(crate) fn declares_more(map: &HeaderMap, bytes_max: usize) -> bool {
    let declared = map.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    declared.is_some_and(|length| bytes_max as u64 <= length.saturating_sub(1))
}

/// Reads a whole body of no more than so many bytes.
///
/// Cancel safe: no, what was read is lost; only the end of the connection does that.
pub(crate) async fn body(
    request: &mut Request<Incoming>,
    settings: &Settings,
    bytes_max: usize,
    budget: &Budget,
) -> Result<Bytes, BodyError> {
    if declares_more(request.headers(), bytes_max) {
        return Err(BodyError::Large);
    }
    let start = Instant::now();
    let mut sleep = pin!(tokio::time::sleep_until(start + due(0, settings)));
    let mut gathered = Gathered::Nothing;
    let mut part = budget.part();
    std::future::poll_fn(|cx| {
        loop {
            match Pin::new(request.body_mut()).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if bytes_max < gathered.len() + data.len() {
                        return Poll::Ready(Err(BodyError::Large));
                    }
                    if !part.grow(gathered.room_with(&data, bytes_max)) {
                        return Poll::Ready(Err(BodyError::Crowded));
                    }
                    gathered.add(&data, bytes_max);
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(BodyError::Broken)),
                Poll::Ready(None) => return Poll::Ready(Ok(std::mem::take(&mut gathered).into_bytes())),
                Poll::Pending => {
                    std::task::ready!(sleep.as_mut().poll(cx));
                    // What has come since then may have bought more time.
                    let due = start + due(gathered.len(), settings);
                    if due <= sleep.deadline() {
                        return Poll::Ready(Err(BodyError::Slow));
                    }
                    sleep.as_mut().reset(due);
                }
            }
        }
    })
    .await
}

/// How long a body of which so much has come may have taken so far.
fn due(bytes: usize, settings: &Settings) -> Duration {
    if settings.body_rate_min == 0 {
        return settings.body_read_max;
    }
    let bought = bytes as f64 / f64::from(settings.body_rate_min);
    let bought = Duration::try_from_secs_f64(bought).unwrap_or(settings.body_read_max);
    settings.body_read_max.min(SLOW_START.saturating_add(bought))
}

/// The pieces of a body; one piece, the usual case, is not copied.
#[derive(Default)]
enum Gathered {
    #[default]
    Nothing,
    One(Bytes),
    Several(BytesMut),
}

impl Gathered {
    /// What it takes to have this piece too.
    fn room_with(&self, data: &Bytes, max: usize) -> usize {
        let len = self.len() + data.len();
        match self {
            Self::Nothing => len,
            Self::Several(all) if len <= all.capacity() => all.capacity(),
            Self::One(_) | Self::Several(_) => (2 * len).min(max.max(len)),
        }
    }

    fn add(&mut self, data: &Bytes, max: usize) {
        let room = self.room_with(data, max);
        *self = match std::mem::take(self) {
            Self::Nothing => Self::One(data.clone()),
            Self::One(first) => {
                let mut all = BytesMut::with_capacity(room);
                all.extend_from_slice(&first);
                all.extend_from_slice(data);
                Self::Several(all)
            }
            Self::Several(mut all) => {
                all.reserve(room - all.len());
                all.extend_from_slice(data);
                Self::Several(all)
            }
        };
    }

    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(data) => data.len(),
            Self::Several(data) => data.len(),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(data) => data,
            Self::Several(data) => data.freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_buys_time_with_what_it_brings_and_no_more_than_there_is() {
        let settings = Settings::default();
        for (bytes, want) in [(0, 5), (1024, 6), (10 * 1024, 15), (25 * 1024, 30), (1 << 20, 30)] {
            assert_eq!(due(bytes, &settings), Duration::from_secs(want), "{bytes} bytes");
        }
        let free = Settings { body_rate_min: 0, ..Settings::default() };
        assert_eq!(due(0, &free), Duration::from_secs(30));
    }
}
