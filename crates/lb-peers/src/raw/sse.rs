//! Events of a `text/event-stream` body, cut out of the bytes without altering them.

/// One event as it stood on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The bytes of the event, without the empty line that ends it.
    pub raw: Vec<u8>,
    /// The `event:` field.
    pub event: Option<String>,
    /// The `id:` field.
    pub id: Option<String>,
    /// The `retry:` field.
    pub retry: Option<String>,
    /// The `data:` lines joined by line feeds; `None` where there was no `data:` line, as in a comment.
    pub data: Option<Vec<u8>>,
}

impl Event {
    /// The data as text, empty where there is none.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.data.as_deref().unwrap_or_default()).into_owned()
    }

    fn parse(raw: &[u8]) -> Self {
        let mut event = Self { raw: raw.to_vec(), ..Self::default() };
        for line in lines(raw) {
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            let (name, rest) = line.split_at(colon);
            let value = rest.strip_prefix(b":").unwrap_or(rest);
            event.field(name, value.strip_prefix(b" ").unwrap_or(value));
        }
        event
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = || Some(String::from_utf8_lossy(value).into_owned());
        match name {
            b"event" => self.event = text(),
            b"id" => self.id = text(),
            b"retry" => self.retry = text(),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            _ => {}
        }
    }
}

/// Collects the bytes of a stream and hands out whole events.
#[derive(Debug, Default)]
pub struct Events {
    buffer: Vec<u8>,
    /// Bytes of the buffer already searched, so that a huge event is not searched again from its start.
    searched: usize,
}

impl Events {
    /// Appends bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Cuts off the next whole event, comments included.
    pub fn next_event(&mut self) -> Option<Event> {
        let from = self.searched.saturating_sub(3);
        let Some((end, next)) = blank_line(&self.buffer, from) else {
            self.searched = self.buffer.len();
            return None;
        };
        let event = Event::parse(self.buffer.get(..end).unwrap_or_default());
        self.buffer.drain(..next);
        self.searched = 0;
        Some(event)
    }

    /// What is left of an event that has not ended.
    #[must_use]
    pub fn unfinished(&self) -> &[u8] {
        &self.buffer
    }
}

/// Where the first empty line is: the end of the event before it, and the start of what follows.
fn blank_line(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    const ENDS: [&[u8]; 3] = [b"\r\n\r\n", b"\n\n", b"\r\r"];
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
        let tail = bytes.get(at..)?;
        if let Some(end) = ENDS.iter().find(|end| tail.starts_with(end)) {
            return Some((at, at + end.len()));
        }
        at += 1;
    }
}

/// Lines of an event, ended by CR LF, LF or CR.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_at_empty_lines_of_every_kind() {
        let mut events = Events::default();
        events.push(b": hello\n\nid: 7\r\nevent: message\r\ndata: {\"a\": 1}\r\ndata:x\r\n\r\nretry: 5\rdata:\r\r");
        assert_eq!(events.next_event().map(|e| (e.raw, e.data)), Some((b": hello".to_vec(), None)));
        let second = events.next_event().expect("a second event");
        assert_eq!(second.text(), "{\"a\": 1}\nx");
        assert_eq!((second.id.as_deref(), second.event.as_deref()), (Some("7"), Some("message")));
        let third = events.next_event().expect("a third event");
        assert_eq!((third.retry.as_deref(), third.data), (Some("5"), Some(Vec::new())));
        assert_eq!(events.next_event(), None);
    }

    #[test]
    fn an_event_may_arrive_byte_by_byte() {
        let mut events = Events::default();
        let mut seen = Vec::new();
        for byte in b"data: one\r\n\r\ndata: two\n\n" {
            events.push(&[*byte]);
            seen.extend(events.next_event().map(|event| event.text()));
        }
        assert_eq!(seen, ["one", "two"]);
        events.push(b"data: thr");
        assert_eq!((events.next_event(), events.unfinished()), (None, &b"data: thr"[..]));
    }
}
