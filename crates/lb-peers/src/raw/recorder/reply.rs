//! What a call is answered with, to the byte, and the file it is told in.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use super::hex;

/// In a note, stands for the progress token of the call that is answered; without one, the note is left out.
pub const TOKEN: &[u8] = b"@token@";

/// The answer to one `tools/call`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Whole messages that go out before the response, such as notifications; see [`TOKEN`].
    pub notes: Vec<Vec<u8>>,
    /// The raw `result`, or `error`.
    pub body: Vec<u8>,
    /// Whether the body is an error object.
    pub is_error: bool,
    /// Whether the answer comes as an event stream over HTTP even without notes.
    pub is_stream: bool,
    /// Whether the response waits for the next message that is a response itself; on stdio only.
    pub waits: bool,
}

impl Reply {
    /// A plain result.
    #[must_use]
    pub fn result(body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..Self::default() }
    }

    /// `[sse ][wait ][note HEX ]*[error ]HEX`
    fn to_line(&self) -> String {
        let mut line = String::new();
        if self.is_stream {
            line.push_str("sse ");
        }
        if self.waits {
            line.push_str("wait ");
        }
        for note in &self.notes {
            line.push_str(&format!("note {} ", hex::encode(note)));
        }
        if self.is_error {
            line.push_str("error ");
        }
        line.push_str(&hex::encode(&self.body));
        line.push('\n');
        line
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut reply = Self::default();
        let mut words = line.split(' ');
        loop {
            match words.next()? {
                "sse" => reply.is_stream = true,
                "wait" => reply.waits = true,
                "error" => reply.is_error = true,
                "note" => reply.notes.push(hex::decode(words.next()?)?),
                body => {
                    reply.body = hex::decode(body)?;
                    return words.next().is_none().then_some(reply);
                }
            }
        }
    }

    /// The messages of the answer to request `id`, in order; the response comes last.
    pub(super) fn messages(&self, id: &str, token: Option<&str>) -> Vec<Vec<u8>> {
        let member = if self.is_error { "error" } else { "result" };
        let mut response = format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":"#).into_bytes();
        response.extend_from_slice(&self.body);
        response.push(b'}');
        let notes = self.notes.iter().filter_map(|note| with_token(note, token));
        notes.chain(std::iter::once(response)).collect()
    }
}

/// `None` when the note needs a token and there is none.
fn with_token(note: &[u8], token: Option<&str>) -> Option<Vec<u8>> {
    let Some(at) = note.windows(TOKEN.len()).position(|window| window == TOKEN) else { return Some(note.to_vec()) };
    let (before, after) = note.split_at(at);
    Some([before, token?.as_bytes(), after.strip_prefix(TOKEN).unwrap_or(after)].concat())
}

/// Writes a file for `--replies`: the answer to each call in turn.
///
/// # Errors
/// When the file cannot be written.
pub fn write_script(path: &Path, replies: &[Reply]) -> Result<()> {
    std::fs::write(path, replies.iter().map(Reply::to_line).collect::<String>())
}

pub(super) fn read_script(path: &Path) -> Result<Vec<Reply>> {
    let text = std::fs::read_to_string(path)?;
    let bad = || Error::new(ErrorKind::InvalidData, "a line of the replies is not understood");
    text.lines().map(|line| Reply::from_line(line).ok_or_else(bad)).collect()
}

/// One message as an event in a chunk of its own. Each line break in it starts a further `data:` line, as a reader of
/// the stream will put it together again.
pub(super) fn event_chunk(message: &[u8]) -> Vec<u8> {
    let mut event = b"event: message\n".to_vec();
    for line in message.split(|byte| matches!(byte, b'\r' | b'\n')) {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    [format!("{:x}\r\n", event.len()).as_bytes(), &event, b"\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_survives_its_line_and_takes_the_token() {
        let reply = Reply {
            notes: vec![b"{\"t\":@token@}".to_vec(), b"x".to_vec()],
            body: b"{ }".to_vec(),
            is_error: true,
            is_stream: true,
            waits: true,
        };
        assert_eq!(Reply::from_line(reply.to_line().trim_end()), Some(reply.clone()));
        let want: [&[u8]; 3] = [b"{\"t\":\"a\"}", b"x", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{ }}"];
        assert_eq!(reply.messages("1", Some("\"a\"")), want);
        assert_eq!(reply.messages("1", None), want.get(1..).unwrap_or_default());
        for bad in ["note", "note 00", "zz", "00 00", "sse error"] {
            assert_eq!(Reply::from_line(bad), None, "input {bad:?}");
        }
        assert_eq!(Reply::from_line(""), Some(Reply::default()));
    }

    #[test]
    fn line_breaks_become_further_data_lines() {
        assert_eq!(event_chunk(b"a\r\nb"), b"27\r\nevent: message\ndata: a\ndata: \ndata: b\n\n\r\n");
    }
}
