//! Where the readers put what they find: problems by kind, with byte offsets turned into lines and columns.

use std::fmt;
use std::path::Path;

use lb_exchange::ServerName;

use crate::file::CommandPlace;
use crate::problem::{Problem, Severity};

/// Everything found in one file so far.
pub(crate) struct Report<'a> {
    file: &'a Path,
    lines: Lines<'a>,
    /// The file cannot be used.
    pub errors: Vec<Problem>,
    /// The file can be used, but may not mean what its writer thinks.
    pub warnings: Vec<Problem>,
    /// A server that cannot be served beside the others.
    pub left_out: Vec<Problem>,
    /// Secrets written into the file, a fault only where others can read it.
    pub secrets: Vec<Problem>,
    /// Where programs are named.
    pub commands: Vec<CommandPlace>,
}

impl<'a> Report<'a> {
    pub fn new(file: &'a Path, text: &'a [u8]) -> Self {
        let (errors, warnings, left_out, secrets, commands) = <_>::default();
        Self { file, lines: Lines::new(text), errors, warnings, left_out, secrets, commands }
    }

    pub fn error(&mut self, at: usize, key: &KeyPath, message: impl Into<String>) -> &mut Problem {
        let problem = self.problem(Severity::Error, at, key, message.into());
        push(&mut self.errors, problem)
    }

    pub fn warn(&mut self, at: usize, key: &KeyPath, message: impl Into<String>) -> &mut Problem {
        let problem = self.problem(Severity::Warning, at, key, message.into());
        push(&mut self.warnings, problem)
    }

    pub fn leave_out(&mut self, at: usize, key: &KeyPath, message: impl Into<String>) -> &mut Problem {
        let problem = self.problem(Severity::Error, at, key, message.into());
        push(&mut self.left_out, problem)
    }

    pub fn secret(&mut self, at: usize, key: &KeyPath) {
        let message = "a secret is written out in a file that others can read".into();
        let problem = self.problem(Severity::Warning, at, key, message);
        push(&mut self.secrets, problem).hint("write ${NAME} and set the variable, or run chmod go-r on the file");
    }

    /// Notes where the program of a server is named.
    pub fn command(&mut self, server: &ServerName, at: usize, key: &KeyPath) {
        let (line, column) = self.lines.place(at);
        self.commands.push(CommandPlace { server: server.clone(), line, column, key: key.0.clone() });
    }

    /// The line of a byte offset, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines.place(at).0
    }

    fn problem(&self, severity: Severity, at: usize, key: &KeyPath, message: String) -> Problem {
        let (line, column) = self.lines.place(at);
        Problem { severity, file: self.file.into(), line, column, key: key.0.clone(), message, hint: None }
    }
}

/// Most problems of one kind; nobody reads more, and a hostile file could fill the memory with them.
const PROBLEMS_MAX: usize = 1_000;

/// Adds a problem. Past the limit the last one is replaced, so that the caller always has one to add to.
fn push(list: &mut Vec<Problem>, problem: Problem) -> &mut Problem {
    if list.len() == PROBLEMS_MAX {
        list.pop();
    }
    list.push_mut(problem)
}

/// Path of a key, as shown to the writer of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyPath(String);

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl KeyPath {
    /// The path of a member. Unusual names are quoted and escaped, so that a file cannot write to a terminal.
    pub fn key(&self, name: &str) -> Self {
        let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
        let mut path = self.0.clone();
        if !name.is_empty() && name.chars().all(usual) {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&cut(name));
        } else {
            path.push_str(&format!("[{:?}]", cut(name)));
        }
        Self(path)
    }

    /// The path of an element.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

/// A text from the file, short enough to be shown.
pub(crate) fn cut(text: &str) -> String {
    const CHARS_MAX: usize = 64;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Where the lines of a text start, and how many characters are before each stretch of it.
struct Lines<'a> {
    text: &'a [u8],
    starts: Vec<usize>,
    /// Characters before each stretch, so that a place costs the same in a file of one long line.
    before: Vec<usize>,
}

impl<'a> Lines<'a> {
    const STRETCH: usize = 128;

    fn new(text: &'a [u8]) -> Self {
        let breaks = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        // A byte order mark takes no column.
        let first = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        let sums = text.chunks(Self::STRETCH).scan(0, |sum, stretch| {
            *sum += characters(stretch);
            Some(*sum)
        });
        let before = std::iter::once(0).chain(sums).collect();
        Self { text, starts: std::iter::once(first).chain(breaks).collect(), before }
    }

    /// Line and column of a byte offset, both from 1, the column in characters.
    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.characters_before(at).saturating_sub(self.characters_before(start)) + 1;
        (line, column)
    }

    fn characters_before(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        let stretch = at / Self::STRETCH;
        let rest = self.text.get(stretch * Self::STRETCH..at).unwrap_or_default();
        self.before.get(stretch).copied().unwrap_or(0) + characters(rest)
    }
}

/// Characters that start in these bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_lines_and_character_columns() {
        let text = "ab\r\nä€x\n\ny".as_bytes();
        let lines = Lines::new(text);
        for (at, want) in [(0, (1, 1)), (3, (1, 4)), (4, (2, 1)), (6, (2, 2)), (9, (2, 3)), (11, (3, 1)), (12, (4, 1))]
        {
            assert_eq!(lines.place(at), want, "offset {at}");
        }
        assert_eq!(lines.place(999), (4, 2), "past the end is the end");
        assert_eq!(Lines::new(b"\xEF\xBB\xBF{").place(3), (1, 1));
        assert_eq!(Lines::new(b"\xEF\xBB\xBF{").place(0), (1, 1));
        assert_eq!(Lines::new(b"").place(0), (1, 1));
        let long = format!("x\n{}", "ä".repeat(3_000));
        assert_eq!(Lines::new(long.as_bytes()).place(2 + 2 * 2_500), (2, 2_501));
    }

    #[test]
    fn key_paths_escape_what_a_terminal_would_obey() {
        let path = KeyPath::default().key("servers").index(2).key("env").key("A\u{1b}[2J").key("");
        assert_eq!(path.0, r#"servers[2].env["A\u{1b}[2J"][""]"#);
        assert_eq!(cut(&"ä".repeat(70)), format!("{}…", "ä".repeat(64)));
    }
}
