//! What a server writes on its stdout that is no message: most often the mark of a program that is no MCP server.

use std::sync::atomic::{AtomicBool, Ordering};

use lb_process::printable;
use parking_lot::Mutex;

/// Lines that are quoted, the first ones.
const QUOTED_MAX: usize = 2;
/// Characters of each.
const CHARS_MAX: usize = 100;

/// The lines of one pipe that are no messages.
#[derive(Debug, Default)]
pub struct Stray {
    lines: Mutex<Lines>,
    /// Whether there was a message, too.
    spoke: AtomicBool,
}

#[derive(Debug, Default)]
struct Lines {
    count: u64,
    first: Vec<String>,
}

impl Stray {
    /// One more line that is no message.
    pub fn line(&self, line: &[u8]) {
        let mut lines = self.lines.lock();
        lines.count += 1;
        if lines.first.len() < QUOTED_MAX {
            lines.first.push(format!("\"{}\"", printable(line, CHARS_MAX)));
        }
    }

    /// A message.
    pub fn message(&self) {
        if !self.spoke.load(Ordering::Relaxed) {
            self.spoke.store(true, Ordering::Relaxed);
        }
    }

    /// What there was, in words; empty when there was nothing.
    pub fn in_words(&self) -> String {
        let lines = self.lines.lock();
        let quoted = lines.first.join(", ");
        match (lines.count, self.spoke.load(Ordering::Relaxed)) {
            (0, _) => String::new(),
            (_, true) => format!("it wrote on stdout, where only messages belong: {quoted}"),
            (1, false) => format!("it wrote on stdout, which is no message of MCP: {quoted}"),
            (count, false) => {
                format!("it wrote {count} lines on stdout, and none is a message of MCP; the first: {quoted}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_quoted_and_whether_there_was_any_message() {
        let stray = Stray::default();
        assert_eq!(stray.in_words(), "");
        stray.line(b"Welcome to \x1b[1mmy server!");
        assert_eq!(
            stray.in_words(),
            r#"it wrote on stdout, which is no message of MCP: "Welcome to \u{1b}[1mmy server!""#
        );
        stray.line(b"two");
        stray.line(b"three");
        let words = stray.in_words();
        assert!(words.starts_with("it wrote 3 lines on stdout, and none is a message of MCP"), "{words}");
        assert!(words.ends_with(r#"my server!", "two""#), "{words}");
        stray.message();
        assert!(stray.in_words().starts_with("it wrote on stdout, where only messages belong: "), "{stray:?}");
    }
}
