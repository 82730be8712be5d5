//! What kinds of reply a client takes.

/// The `Accept` header, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Accept {
    /// Both kinds; also when the header is absent.
    #[default]
    Both,
    /// A JSON body only.
    Json,
    /// An event stream only.
    Stream,
    /// Neither: 406.
    Neither,
}

impl Accept {
    /// From the values of all `Accept` headers.
    pub fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut json, mut stream, mut any) = (false, false, false);
        for value in values {
            any = true;
            // What nearly every client sends, byte for byte.
            if value == b"application/json, text/event-stream" {
                return Self::Both;
            }
            for range in value.split(|byte| *byte == b',') {
                let (to_json, to_stream) = range_of(range);
                json |= to_json;
                stream |= to_stream;
            }
        }
        match (any, json, stream) {
            (false, ..) | (true, true, true) => Self::Both,
            (true, true, false) => Self::Json,
            (true, false, true) => Self::Stream,
            (true, false, false) => Self::Neither,
        }
    }

    /// Whether a stream may be sent.
    pub fn takes_stream(self) -> bool {
        matches!(self, Self::Both | Self::Stream)
    }
}

/// Whether one media range covers JSON and event streams.
fn range_of(range: &[u8]) -> (bool, bool) {
    let mut parts = range.split(|byte| *byte == b';');
    let kind = parts.next().unwrap_or_default().trim_ascii();
    let refused = parts.any(|part| {
        let part = part.trim_ascii();
        part.len() > 2 && part.get(..2).is_some_and(|q| q.eq_ignore_ascii_case(b"q=")) && is_zero(part)
    });
    if refused {
        return (false, false);
    }
    let is = |want: &[u8]| kind.eq_ignore_ascii_case(want);
    (
        is(b"*/*") || is(b"application/*") || is(b"application/json"),
        is(b"*/*") || is(b"text/*") || is(b"text/event-stream"),
    )
}

/// `q=0`, `q=0.0` and so on.
fn is_zero(q: &[u8]) -> bool {
    q.iter().skip(2).all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_read_by_media_range() {
        for (values, want) in [
            (&[][..], Accept::Both),
            (&["application/json, text/event-stream"], Accept::Both),
            (&["text/event-stream,application/json"], Accept::Both),
            (&["application/json", "text/event-stream"], Accept::Both),
            (&["*/*"], Accept::Both),
            (&["text/html, */*;q=0.8"], Accept::Both),
            (&["application/json"], Accept::Json),
            (&["Application/JSON; charset=utf-8"], Accept::Json),
            (&["application/*"], Accept::Json),
            (&["text/event-stream"], Accept::Stream),
            (&["text/*;q=0.5"], Accept::Stream),
            (&["application/json;q=0, text/event-stream"], Accept::Stream),
            (&["text/html"], Accept::Neither),
            (&[""], Accept::Neither),
        ] {
            assert_eq!(Accept::parse(values.iter().map(|value| value.as_bytes())), want, "values {values:?}");
        }
    }
}
