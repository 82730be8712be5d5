//! Server-sent events: frames out, events in. No IO, no timers; the bytes of a message are never looked into.
//!
//! Frames are written by functions over a `BytesMut`, because a frame is stored and replayed as ready bytes. The
//! message itself comes as a [`Line`], so nothing in it can end a frame.

mod decode;

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::BytesMut;

pub use self::decode::{Decoder, Event, SseError};
use crate::line::Line;

/// What follows the line after [`message_head`].
pub const MESSAGE_TAIL: &[u8] = b"\n\n";

/// A whole message frame: `event: message`, the id if there is one, the line as data.
pub fn message(out: &mut BytesMut, id: Option<&str>, line: &Line) {
    let line = line.as_bytes();
    out.reserve(message_head_len(id) + line.len() + MESSAGE_TAIL.len());
    message_head(out, id);
    out.extend_from_slice(line);
    out.extend_from_slice(MESSAGE_TAIL);
}

/// The part of a message frame before the line, for a writer that sends the line itself without copying it.
pub fn message_head(out: &mut BytesMut, id: Option<&str>) {
    out.reserve(message_head_len(id));
    out.extend_from_slice(b"event: message\n");
    if let Some(id) = id {
        write_id(out, id);
    }
    out.extend_from_slice(b"data: ");
}

/// The priming event: gives the client a cursor and how long to wait before it reconnects.
///
/// The empty `data:` line stays in: without it a client following the standard never sees the event.
pub fn priming(out: &mut BytesMut, id: &str, retry: Duration) {
    write_id(out, id);
    write_retry(out, retry);
    out.extend_from_slice(b"data:\n\n");
}

/// A comment, which no client acts on: the keep-alive. Line breaks in `text` become spaces.
pub fn comment(out: &mut BytesMut, text: &str) {
    out.extend_from_slice(b": ");
    out.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.extend_from_slice(b"\n\n");
}

/// The reconnection time alone, for clients that do not know priming.
pub fn retry(out: &mut BytesMut, delay: Duration) {
    write_retry(out, delay);
    out.extend_from_slice(b"\n");
}

/// First event of the HTTP+SSE transport: where to post. Only visible ASCII of `uri` is written.
pub fn endpoint(out: &mut BytesMut, uri: &str) {
    out.extend_from_slice(b"event: endpoint\ndata: ");
    out.extend(uri.bytes().filter(u8::is_ascii_graphic));
    out.extend_from_slice(b"\n\n");
}

fn message_head_len(id: Option<&str>) -> usize {
    b"event: message\ndata: ".len() + id.map_or(0, |id| b"id: \n".len() + id.len())
}

/// Ids are ours and visible ASCII. One that is not is left out: an altered id would be a cursor into nothing.
fn write_id(out: &mut BytesMut, id: &str) {
    if id.bytes().all(|byte| byte.is_ascii_graphic()) {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b"\n");
    }
}

fn write_retry(out: &mut BytesMut, delay: Duration) {
    let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    out.extend_from_slice(b"retry: ");
    out.extend_from_slice(itoa::Buffer::new().format(millis).as_bytes());
    out.extend_from_slice(b"\n");
}
