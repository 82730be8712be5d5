//! The event stream decoder, after the WHATWG rules, fed with chunks cut anywhere.

use std::{collections::VecDeque, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One block of the stream, up to its blank line. Field values are raw bytes.
///
/// A browser would swallow a block without data. We hand it over, because its id and its reconnection time count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The block's own `id`, which may be empty. The id that lasts is [`Decoder::last_event_id`].
    pub id: Option<Bytes>,
    /// The block's `event`; absent means `message`.
    pub event: Option<Bytes>,
    /// The data lines, joined by LF.
    pub data: Bytes,
    /// The block's `retry`.
    pub retry: Option<Duration>,
    /// There was a data line, even if it was empty.
    pub has_data: bool,
}

impl Event {
    /// It gives a cursor and no message.
    #[must_use]
    pub fn is_priming(&self) -> bool {
        self.id.is_some() && self.data.is_empty()
    }

    /// It is of the default kind, by absence or by name.
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.event.as_ref().is_none_or(|name| name.is_empty() || name.as_ref() == b"message")
    }
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event is larger than allowed; the stream has lost its place.
    #[error("server-sent event exceeds {event_bytes_max} bytes")]
    TooLarge {
        /// The limit that was passed.
        event_bytes_max: usize,
    },
}

/// Turns chunks into events.
///
/// [`push`](Self::push) a chunk, then take events with `next()` until it gives `None`, which means *no more for now*.
/// A line that lies within one chunk is handed out as a slice of it. A line cut by a chunk border is gathered, and
/// its bytes are searched once. After an error nothing more comes until [`finish`](Self::finish).
#[derive(Debug)]
pub struct Decoder {
    event_bytes_max: usize,
    chunk: Bytes,
    /// Chunks behind `chunk`, when the caller pushes faster than it takes.
    more: VecDeque<Bytes>,
    place: Place,
    /// The start of a line whose end has not come.
    partial: BytesMut,
    block: Block,
    last_event_id: Vec<u8>,
    retry: Option<Duration>,
    comments: u64,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Start of the stream, with so many bytes of a byte order mark seen.
    Start(usize),
    Line,
    /// Behind a CR: an LF would belong to the same line end.
    AfterCr,
    /// In a comment, whose text is not kept.
    Comment,
    Failed,
}

/// The fields of the block so far.
#[derive(Debug, Default)]
struct Block {
    id: Option<Bytes>,
    event: Option<Bytes>,
    retry: Option<Duration>,
    data: Data,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    Joined(BytesMut),
}

impl Decoder {
    /// A decoder that holds at most `event_bytes_max` bytes of one event, counting its field values and the line in
    /// hand.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            chunk: Bytes::new(),
            more: VecDeque::new(),
            place: Place::Start(0),
            partial: BytesMut::new(),
            block: Block::default(),
            last_event_id: Vec::new(),
            retry: None,
            comments: 0,
        }
    }

    /// Adds what came from the stream, cut anywhere.
    pub fn push(&mut self, chunk: Bytes) {
        if self.place == Place::Failed {
            return;
        }
        if self.chunk.is_empty() && self.more.is_empty() {
            self.chunk = chunk;
        } else {
            self.more.push_back(chunk);
        }
    }

    /// Ends the stream. An event without its blank line is discarded, as the standard says; true if there was one.
    ///
    /// The decoder is then ready for the stream that resumes this one: the last id and `retry` stay.
    pub fn finish(&mut self) -> bool {
        let unfinished = !self.partial.is_empty() || !self.block.is_empty();
        self.clear();
        self.place = Place::Start(0);
        unfinished
    }

    /// The id to resume from: that of the last finished block that had one. Empty when there is none.
    #[must_use]
    pub fn last_event_id(&self) -> &[u8] {
        &self.last_event_id
    }

    /// The reconnection time last named. Unlike ids it counts as soon as its line is complete.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// How many comments have passed, so that a keep-alive can be told from silence.
    #[must_use]
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// Bytes kept of the unfinished event.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.partial.len() + self.block.len()
    }

    /// Works through the current chunk until an event is complete or the chunk is used up.
    fn step(&mut self) -> Option<Result<Event, SseError>> {
        while !self.chunk.is_empty() {
            match self.place {
                Place::Failed => return None,
                Place::Start(seen) => self.start(seen),
                Place::AfterCr => {
                    if self.chunk.first() == Some(&b'\n') {
                        self.chunk.advance(1);
                    }
                    self.place = Place::Line;
                }
                Place::Comment => self.comment(),
                Place::Line => match self.line() {
                    Ok(None) => {}
                    Ok(Some(event)) => return Some(Ok(event)),
                    Err(error) => {
                        self.clear();
                        self.place = Place::Failed;
                        return Some(Err(error));
                    }
                },
            }
        }
        None
    }

    /// Skips a byte order mark, which may come in pieces.
    fn start(&mut self, seen: usize) {
        let wanted = BOM.get(seen..).unwrap_or_default();
        let same = wanted.iter().zip(self.chunk.iter()).take_while(|(want, got)| want == got).count();
        let whole = same == wanted.len();
        if whole || same == self.chunk.len() {
            self.chunk.advance(same);
            self.place = if whole { Place::Line } else { Place::Start(seen + same) };
        } else {
            // Not a mark after all: what earlier chunks had of it starts the first line.
            self.partial.put_slice(BOM.get(..seen).unwrap_or_default());
            self.place = Place::Line;
        }
    }

    fn comment(&mut self) {
        match memchr::memchr2(b'\n', b'\r', &self.chunk) {
            Some(end) => {
                self.comments += 1;
                self.pass_line_end(end);
            }
            None => self.chunk = Bytes::new(),
        }
    }

    /// Takes one line, or the part of it that the chunk has.
    fn line(&mut self) -> Result<Option<Event>, SseError> {
        if self.partial.is_empty() && self.chunk.first() == Some(&b':') {
            self.place = Place::Comment;
            return Ok(None);
        }
        let end = memchr::memchr2(b'\n', b'\r', &self.chunk);
        let length = self.partial.len() + end.unwrap_or(self.chunk.len());
        if self.event_bytes_max < self.block.len() + length {
            return Err(SseError::TooLarge { event_bytes_max: self.event_bytes_max });
        }
        let Some(end) = end else {
            self.partial.extend_from_slice(&self.chunk);
            self.chunk = Bytes::new();
            return Ok(None);
        };
        let event = if length == 0 { self.dispatch() } else { self.set_field(end) };
        self.pass_line_end(end);
        Ok(event)
    }

    /// The line in hand ends at `end` in the chunk; it completes no event.
    fn set_field(&mut self, end: usize) -> Option<Event> {
        if self.partial.is_empty() {
            let (name, value) = field(self.chunk.get(..end).unwrap_or_default());
            self.block.apply(name, self.chunk.slice(value..end));
        } else {
            self.partial.extend_from_slice(self.chunk.get(..end).unwrap_or_default());
            let mut line = std::mem::take(&mut self.partial).freeze();
            let (name, value) = field(&line);
            line.advance(value);
            self.block.apply(name, line);
        }
        self.retry = self.block.retry.or(self.retry);
        None
    }

    /// Moves behind the line end at `end`.
    fn pass_line_end(&mut self, end: usize) {
        let cr = self.chunk.get(end) == Some(&b'\r');
        self.chunk.advance(end + 1);
        self.place = if cr { Place::AfterCr } else { Place::Line };
    }

    /// The blank line: the block becomes an event, unless it has no fields.
    fn dispatch(&mut self) -> Option<Event> {
        if self.block.is_empty() {
            return None;
        }
        let Block { id, event, retry, data } = std::mem::take(&mut self.block);
        if let Some(id) = &id {
            self.last_event_id.clear();
            self.last_event_id.extend_from_slice(id);
        }
        let has_data = !matches!(data, Data::None);
        Some(Event { id, event, data: data.into_bytes(), retry, has_data })
    }

    fn clear(&mut self) {
        self.chunk = Bytes::new();
        self.more = VecDeque::new();
        self.partial = BytesMut::new();
        self.block = Block::default();
    }
}

/// Not fused: `None` means that the next chunk is needed.
impl Iterator for Decoder {
    type Item = Result<Event, SseError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.step() {
                return Some(item);
            }
            self.chunk = self.more.pop_front()?;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Data,
    Event,
    Id,
    Retry,
    Other,
}

/// The field a line sets, and where its value starts.
fn field(line: &[u8]) -> (Name, usize) {
    let colon = memchr::memchr(b':', line).unwrap_or(line.len());
    let name = match line.get(..colon).unwrap_or_default() {
        b"data" => Name::Data,
        b"event" => Name::Event,
        b"id" => Name::Id,
        b"retry" => Name::Retry,
        _ => Name::Other,
    };
    let value = match line.get(colon + 1) {
        Some(b' ') => colon + 2,
        Some(_) => colon + 1,
        None => line.len(),
    };
    (name, value)
}

impl Block {
    fn is_empty(&self) -> bool {
        self.id.is_none() && self.event.is_none() && self.retry.is_none() && matches!(self.data, Data::None)
    }

    fn len(&self) -> usize {
        let of = |field: &Option<Bytes>| field.as_ref().map_or(0, Bytes::len);
        of(&self.id) + of(&self.event) + self.data.len()
    }

    fn apply(&mut self, name: Name, value: Bytes) {
        match name {
            Name::Data => self.data.add(value),
            Name::Event => self.event = Some(value),
            // A NUL would cut the id short in some clients, so the standard ignores the whole field.
            Name::Id if !value.contains(&0) => self.id = Some(value),
            Name::Retry => self.retry = millis(&value).or(self.retry),
            Name::Id | Name::Other => {}
        }
    }
}

/// Digits only. Larger than 32 bits is cut to that, so that adding it to a clock cannot overflow.
fn millis(value: &[u8]) -> Option<Duration> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    Some(Duration::from_millis(value.iter().fold(0, add).into()))
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(data) => data.len(),
            Self::Joined(data) => data.len(),
        }
    }

    fn add(&mut self, value: Bytes) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(value),
            Self::One(first) => {
                let mut data = BytesMut::with_capacity(first.len() + 1 + value.len());
                data.extend_from_slice(&first);
                join(data, &value)
            }
            Self::Joined(data) => join(data, &value),
        };
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::One(data) => data,
            Self::Joined(data) => data.freeze(),
        }
    }
}

fn join(mut data: BytesMut, value: &[u8]) -> Data {
    data.put_u8(b'\n');
    data.extend_from_slice(value);
    Data::Joined(data)
}
