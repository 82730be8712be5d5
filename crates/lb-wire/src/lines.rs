//! Lines out of a byte stream, whatever its chunks, with a bound.

use bytes::{Bytes, BytesMut};

use crate::message::Message;
use crate::raw::Id;

/// How much of a line that is too long is searched for its id.
const PREFIX: usize = 4096;
/// How much room there is for reading at most.
const CHUNK: usize = 64 << 10;
/// And at least. Lines share the chunk they came in, so that making more room begins a new one; done for every read,
/// each line would cost a chunk.
const ROOM_MIN: usize = 8 << 10;

/// Splits a stream into lines. Bytes go into [`Lines::buffer`], lines come out of [`Lines::next_line`].
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    line_bytes_max: usize,
    /// Inside a line that is too long: everything up to its end is thrown away.
    skipping: bool,
}

/// A line that is too long. The rest of it is skipped; the next line is good again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineTooLong {
    /// The id of the message, if it stands near its start.
    pub id: Option<Id>,
}

impl Lines {
    /// Lines of at most this many bytes.
    pub fn new(line_bytes_max: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, line_bytes_max, skipping: false }
    }

    /// Where bytes are read into, at its end, with room for some kilobytes.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < ROOM_MIN {
            self.buffer.reserve(CHUNK);
        }
        &mut self.buffer
    }

    /// The next line, without its end; `None` until more bytes have come.
    ///
    /// # Errors
    /// The line is too long; said once per such line.
    pub fn next_line(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(at) = memchr::memchr(b'\n', unsearched) else {
                self.searched = self.buffer.len();
                return self.bound().map(Err);
            };
            let end = self.searched + at;
            if self.line_bytes_max < end && !self.skipping {
                let too_long = self.too_long();
                drop(self.buffer.split_to(end + 1));
                self.searched = 0;
                return Some(Err(too_long));
            }
            let mut line = self.buffer.split_to(end + 1);
            self.searched = 0;
            if !std::mem::take(&mut self.skipping) {
                line.truncate(end);
                return Some(Ok(line.freeze()));
            }
        }
    }

    /// The last line when no more bytes come and its end is missing, if it is a whole message: all of it was said.
    pub fn take_last(&mut self) -> Option<Bytes> {
        self.searched = 0;
        let last = std::mem::take(&mut self.buffer).freeze();
        let is_whole = || Message::scan(last.clone()).is_ok() || matches!(Message::batch(&last), Ok(Some(_)));
        (!self.skipping && is_whole()).then_some(last)
    }

    /// Throws the start of an endless line away.
    fn bound(&mut self) -> Option<LineTooLong> {
        if self.buffer.len() <= self.line_bytes_max && !self.skipping {
            return None;
        }
        let told = (!self.skipping).then(|| self.too_long());
        self.skipping = true;
        // A fresh buffer: the old one has grown to the size of the line.
        self.buffer = BytesMut::new();
        self.searched = 0;
        told
    }

    fn too_long(&self) -> LineTooLong {
        let prefix = self.buffer.get(..PREFIX.min(self.buffer.len())).unwrap_or_default();
        LineTooLong { id: Message::id_in_prefix(prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_line_without_its_end_counts_if_it_is_a_whole_message() {
        let message = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let array = format!("[{message}]");
        for (text, want) in [
            (message, Some(message)),
            (array.as_str(), Some(array.as_str())),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}"#, None),
            ("starting", None),
            ("", None),
        ] {
            let mut lines = Lines::new(100);
            lines.buffer().extend_from_slice(b"one\n");
            lines.buffer().extend_from_slice(text.as_bytes());
            assert_eq!(lines.next_line(), Some(Ok(Bytes::from_static(b"one"))));
            assert_eq!(lines.next_line(), None);
            assert_eq!(lines.take_last().as_deref(), want.map(str::as_bytes), "{text}");
            assert_eq!(lines.take_last(), None, "once");
        }
        let mut lines = Lines::new(3);
        lines.buffer().extend_from_slice(b"too long");
        assert!(matches!(lines.next_line(), Some(Err(_))));
        lines.buffer().extend_from_slice(message.as_bytes());
        assert_eq!(lines.take_last(), None, "it is the end of the line that is too long");
    }

    #[test]
    fn lines_come_out_whole_whatever_the_chunks() {
        let text = b"one\n\ntwo\r\nthree";
        for size in 1..text.len() {
            let mut lines = Lines::new(100);
            let mut got = Vec::new();
            for chunk in text.chunks(size) {
                lines.buffer().extend_from_slice(chunk);
                while let Some(line) = lines.next_line() {
                    got.push(line.unwrap());
                }
            }
            assert_eq!(got, [&b"one"[..], b"", b"two\r"], "chunks of {size}");
        }
    }

    #[test]
    fn lines_that_are_kept_share_a_chunk_and_there_is_always_room() {
        let mut lines = Lines::new(100);
        let mut kept: Vec<Bytes> = Vec::new();
        let mut chunks = 1;
        for _ in 0..5000 {
            assert!(lines.buffer().capacity() - lines.buffer().len() >= ROOM_MIN);
            lines.buffer().extend_from_slice(&[b'x'; 49]);
            lines.buffer().extend_from_slice(b"\n");
            let line = lines.next_line().unwrap().unwrap();
            let next = kept.last().map(|last| last.as_ptr().wrapping_add(last.len() + 1));
            chunks += usize::from(next.is_some_and(|next| next != line.as_ptr()));
            kept.push(line);
        }
        // 250,000 bytes in chunks of which the last 8 KiB stay unused.
        assert_eq!(chunks, 5);
    }

    #[test]
    fn a_line_that_is_too_long_is_told_once_with_its_id_and_skipped() {
        let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{}\"}}", "x".repeat(5000));
        for size in [1, 100, 100_000] {
            let mut lines = Lines::new(64);
            let mut got = Vec::new();
            for chunk in format!("{long}\ngood\n").into_bytes().chunks(size) {
                lines.buffer().extend_from_slice(chunk);
                while let Some(line) = lines.next_line() {
                    got.push(line);
                }
                assert!(lines.buffer().len() <= 64 + size, "holds {} bytes", lines.buffer().len());
            }
            let told: Vec<_> = got.iter().filter_map(|line| line.as_ref().err()).collect();
            assert_eq!(told, [&LineTooLong { id: Some(Id::number(7)) }], "chunks of {size}");
            assert_eq!(got.last(), Some(&Ok(Bytes::from_static(b"good"))));
        }
    }
}
