//! The last lines that a program wrote to its standard error.

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;

/// Hears the lines of a program's standard error, without their ends. Called by the task that reads; must not block.
pub type LineHook = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The last 1,000 lines or 64 KiB of a program's standard error, whichever is less. Clones share one ring.
#[derive(Clone, Default)]
pub struct StderrRing(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Line ends in `bytes`; counted on the way in and out, so that a push costs what it brings.
    lines: usize,
}

impl StderrRing {
    /// Bytes kept at most; the oldest go first.
    pub const BYTES_MAX: usize = 64 * 1024;
    /// Complete lines kept at most; the oldest go first.
    pub const LINES_MAX: usize = 1000;

    /// The end of what is kept, at most `bytes_max` long and never cut inside a character.
    ///
    /// Bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub fn tail(&self, bytes_max: usize) -> String {
        let bytes: Vec<u8> = {
            let kept = self.0.lock();
            let skipped = kept.bytes.len().saturating_sub(bytes_max);
            kept.bytes.iter().skip(skipped).copied().collect()
        };
        // What the cut left of a character whose first byte is gone.
        let torn = bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count();
        let mut text = String::from_utf8_lossy(bytes.get(torn..).unwrap_or_default()).into_owned();
        // U+FFFD is longer than the byte it stands for, so the text may have outgrown the limit.
        let surplus = text.len().saturating_sub(bytes_max);
        let cut = (surplus..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text.drain(..cut);
        text
    }

    /// Appends what was read and forgets the oldest beyond the limits.
    pub(crate) fn push(&self, read: &[u8]) {
        let newest = read.get(read.len().saturating_sub(Self::BYTES_MAX)..).unwrap_or_default();
        let mut kept = self.0.lock();
        kept.lines += newest.iter().filter(|byte| **byte == b'\n').count();
        kept.bytes.extend(newest);
        let surplus = kept.bytes.len().saturating_sub(Self::BYTES_MAX);
        kept.forget(surplus);
        while Self::LINES_MAX < kept.lines {
            let line = kept.bytes.iter().position(|byte| *byte == b'\n').map_or(kept.bytes.len(), |end| end + 1);
            kept.forget(line);
        }
    }
}

impl Kept {
    fn forget(&mut self, bytes: usize) {
        self.lines -= self.bytes.drain(..bytes).filter(|byte| *byte == b'\n').count();
    }
}

/// Sizes only: what a program says may hold secrets.
impl fmt::Debug for StderrRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.lock();
        f.debug_struct("StderrRing").field("bytes", &kept.bytes.len()).field("lines", &kept.lines).finish()
    }
}

/// Says every line of a program's standard error at debug level, and to whoever wants to hear it.
pub(crate) struct StderrLog {
    server: String,
    heard: Option<LineHook>,
    /// The start of a line whose end has not come.
    open: Vec<u8>,
}

impl StderrLog {
    /// Characters of a line that are said.
    const CHARS_MAX: usize = 1000;
    /// Bytes kept of a line: one more than anybody keeps, so that it shows where it was cut.
    const BYTES_MAX: usize = (16 << 10) + 1;

    pub(crate) fn new(server: String, heard: Option<LineHook>) -> Self {
        Self { server, heard, open: Vec::new() }
    }

    /// Says the lines that end in what was read.
    pub(crate) fn push(&mut self, read: &[u8]) {
        let said = tracing::enabled!(tracing::Level::DEBUG);
        if !said && self.heard.is_none() {
            return;
        }
        let (server, heard) = (std::mem::take(&mut self.server), self.heard.take());
        self.lines(read, |line| {
            if said {
                tracing::debug!(server, "stderr: {}", printable(line, Self::CHARS_MAX));
            }
            if let Some(heard) = &heard {
                heard(line);
            }
        });
        (self.server, self.heard) = (server, heard);
    }

    /// Says what has no end.
    pub(crate) fn end(&mut self) {
        if !self.open.is_empty() {
            self.push(b"\n");
        }
    }

    fn lines(&mut self, read: &[u8], mut say: impl FnMut(&[u8])) {
        for piece in read.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let room = Self::BYTES_MAX.saturating_sub(self.open.len());
            self.open.extend(text.iter().take(room));
            if ends {
                let line = std::mem::take(&mut self.open);
                let line = line.trim_ascii_end();
                if !line.is_empty() {
                    say(line);
                }
            }
        }
    }
}

/// What a program wrote, for one line of a log: control characters escaped, and cut after `chars_max` characters.
#[must_use]
pub fn printable(bytes: &[u8], chars_max: usize) -> String {
    // No character is longer than 4 bytes.
    let start = bytes.get(..bytes.len().min(4 * chars_max)).unwrap_or_default();
    let text = String::from_utf8_lossy(start);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars().take(chars_max) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if start.len() < bytes.len() || text.chars().nth(chars_max).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(pushes: &[&[u8]]) -> StderrRing {
        let ring = StderrRing::default();
        for push in pushes {
            ring.push(push);
        }
        ring
    }

    #[test]
    fn a_tail_is_never_longer_than_asked_and_never_cut_inside_a_character() {
        let table: [(&[u8], usize, &str); 9] = [
            (b"", 10, ""),
            (b"abc", 10, "abc"),
            (b"abc", 2, "bc"),
            (b"abc", 0, ""),
            ("aé".as_bytes(), 2, "é"),
            ("aé".as_bytes(), 1, ""),
            ("x🦀y".as_bytes(), 4, "y"),
            ("x🦀y".as_bytes(), 5, "🦀y"),
            (b"\xff\xff", 4, "\u{fffd}"),
        ];
        for (bytes, bytes_max, want) in table {
            assert_eq!(ring(&[bytes]).tail(bytes_max), want, "{bytes:?}, {bytes_max}");
        }
    }

    #[test]
    fn every_cut_of_multibyte_text_is_a_suffix_of_it() {
        let text = "aé漢🦀\n".repeat(3);
        let ring = ring(&[text.as_bytes()]);
        for bytes_max in 0..=text.len() {
            let tail = ring.tail(bytes_max);
            assert!(text.ends_with(&tail) && bytes_max < tail.len() + 4, "{bytes_max}: {tail:?}");
        }
    }

    #[test]
    fn the_oldest_bytes_go_first() {
        let long = vec![b'x'; StderrRing::BYTES_MAX];
        let ring = ring(&[b"first\n", &long, b"last"]);
        let tail = ring.tail(usize::MAX);
        assert_eq!(tail.len(), StderrRing::BYTES_MAX);
        assert!(!tail.contains("first") && tail.ends_with("xlast"));
    }

    #[test]
    fn one_push_larger_than_the_ring_keeps_its_end() {
        let mut long = vec![b'\n'; 3 * StderrRing::BYTES_MAX];
        long.extend(b"end");
        assert_eq!(ring(&[&long]).tail(4), "\nend");
    }

    #[test]
    fn the_oldest_lines_go_first() {
        let ring = StderrRing::default();
        for line in 0..StderrRing::LINES_MAX + 5 {
            ring.push(format!("{line}\n").as_bytes());
        }
        let tail = ring.tail(usize::MAX);
        assert_eq!(tail.lines().count(), StderrRing::LINES_MAX);
        assert!(tail.starts_with("5\n6\n"), "{:?}", tail.lines().next());
    }

    #[test]
    fn lines_are_said_once_they_have_ended_however_they_come() {
        let mut log = StderrLog::new("it".to_owned(), None);
        let mut said = Vec::new();
        let long = vec![b'x'; 3 * StderrLog::BYTES_MAX];
        for read in [b"on".as_slice(), b"e\r\ntw", b"o\n\n", b"\x1bthree\nfo", &long, b"\n"] {
            log.lines(read, |line| said.push(printable(line, StderrLog::CHARS_MAX)));
        }
        let last = said.pop().unwrap_or_default();
        assert_eq!(said, ["one", "two", "\\u{1b}three"]);
        assert!(last.starts_with("fox") && last.ends_with('…'), "{last}");
        assert_eq!(last.chars().count(), StderrLog::CHARS_MAX + 1);
        assert!(log.open.is_empty());
    }

    #[test]
    fn what_is_printed_is_one_line_of_bounded_length() {
        let table: [(&[u8], &str); 5] = [
            (b"plain", "plain"),
            (b"a\tb\x1b[1m", "a\\tb\\u{1b}[1m"),
            (b"\xffx", "\u{fffd}x"),
            (b"0123456789", "0123456789"),
            (b"0123456789a", "0123456789…"),
        ];
        for (bytes, want) in table {
            assert_eq!(printable(bytes, 10), want);
        }
    }
}
