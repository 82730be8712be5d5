//! What is wrong with a file, and where, as its writer reads it.

use std::fmt;
use std::path::PathBuf;

/// What a problem means for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file, or the server in it, can be used, but may not mean what its writer thinks.
    Warning,
    /// The file, or the server in it, cannot be used.
    Error,
}

impl Severity {
    /// The word in front of a problem.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing to correct in a config file. Holds names and places, never a configured value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the file can be used as it is.
    pub severity: Severity,
    /// The file, as the caller named it; empty for a flag or a variable, which `key` names then.
    pub file: PathBuf,
    /// Line, from 1; 0 when the problem is with the file as a whole.
    pub line: usize,
    /// Column in characters, from 1; 0 when `line` is.
    pub column: usize,
    /// Path of the key, `mcpServers.git.args[0]`; empty at the top of the file.
    pub key: String,
    /// What is wrong, in lower case and without a full stop.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Problem {
    /// Adds what to write instead.
    pub(crate) fn hint(&mut self, hint: impl Into<String>) {
        self.hint = Some(hint.into());
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.severity.as_str())?;
        if !self.file.as_os_str().is_empty() {
            write!(f, " {}:", self.file.display())?;
        }
        match (self.line, self.column) {
            (0, _) => {}
            (line, 0) => write!(f, "{line}:")?,
            (line, column) => write!(f, "{line}:{column}:")?,
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Problems as a JSON array of `{file, line, key, message, hint}`; `file`, `line` and `hint` are null where there is none.
#[must_use]
pub fn problems_json(problems: &[Problem]) -> String {
    let row = |problem: &Problem| {
        serde_json::json!({
            "file": (!problem.file.as_os_str().is_empty()).then(|| problem.file.to_string_lossy()),
            "line": (problem.line != 0).then_some(problem.line),
            "key": problem.key,
            "message": problem.message,
            "hint": problem.hint,
        })
    };
    serde_json::Value::Array(problems.iter().map(row).collect()).to_string()
}
