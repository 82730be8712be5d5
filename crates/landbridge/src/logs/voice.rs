//! What the program says whatever the level of its logs: where it listens, what is wrong, that it stops.
//!
//! On stderr it is text for people, or with JSON logs one object per line, so that whoever reads them need not tell two
//! kinds of lines apart. In a log file it is a line as any other.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use lb_config::settings::LogFormat;
use lb_config::{Problem, Severity};
use serde_json::Value;
use tracing::Level;

use super::file::LogFile;
use super::line::Line;
use super::sink::to_stderr;
use crate::run::harmless;

/// Where it goes, and how it looks there.
struct Voice {
    format: LogFormat,
    file: Option<Arc<LogFile>>,
}

static VOICE: RwLock<Voice> = RwLock::new(Voice { format: LogFormat::Text, file: None });

/// Speaks like this from now on.
pub fn speak(format: LogFormat, file: Option<Arc<LogFile>>) {
    *VOICE.write().unwrap_or_else(PoisonError::into_inner) = Voice { format, file };
}

/// Something to say.
pub struct Words {
    level: Level,
    event: &'static str,
    message: String,
    fields: Vec<(&'static str, Value)>,
    plain: Option<String>,
}

impl Words {
    /// A sentence, and the name under which programs find it.
    pub fn new(level: Level, event: &'static str, message: impl Into<String>) -> Self {
        Self { level, event, message: message.into(), fields: Vec::new(), plain: None }
    }

    /// Something that goes as usual.
    pub fn info(event: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::INFO, event, message)
    }

    /// Something to look at.
    pub fn warning(event: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::WARN, event, message)
    }

    /// What programs may want to know beside.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// What people read on stderr instead of the sentence; ends in a line break.
    #[must_use]
    pub fn plain(self, text: impl Into<String>) -> Self {
        Self { plain: Some(text.into()), ..self }
    }

    /// Says it.
    pub fn say(self) {
        let voice = VOICE.read().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        match (voice.format, &self.plain) {
            (LogFormat::Json, _) => to_stderr(&self.line(voice.format, now)),
            (LogFormat::Text, Some(plain)) => to_stderr(&harmless(plain)),
            (LogFormat::Text, None) => to_stderr(&harmless(&format!("landbridge: {}\n", self.message))),
        }
        if let Some(file) = &voice.file
            && let Some(lost) = file.write(self.line(voice.format, now).as_bytes(), Instant::now())
        {
            to_stderr(&lost_line(&lost, voice.format));
        }
    }

    fn line(&self, format: LogFormat, now: Duration) -> String {
        let line = Line::new(&self.message, &self.fields);
        match format {
            LogFormat::Text => line.text(self.level, now, false),
            LogFormat::Json => line.named(self.event).json(self.level, env!("CARGO_PKG_NAME"), now),
        }
    }
}

/// Tells people of problems; the errors last, where they are seen.
pub fn tell(problems: &[Problem]) {
    for severity in [Severity::Warning, Severity::Error] {
        for problem in problems.iter().filter(|problem| problem.severity == severity) {
            let level = if severity == Severity::Error { Level::ERROR } else { Level::WARN };
            let mut words = Words::new(level, "problem", &problem.message).plain(format!("{problem}\n"));
            if !problem.file.as_os_str().is_empty() {
                words = words.with("file", problem.file.to_string_lossy());
            }
            if problem.line != 0 {
                words = words.with("line", problem.line);
            }
            if !problem.key.is_empty() {
                words = words.with("key", problem.key.as_str());
            }
            if let Some(hint) = &problem.hint {
                words = words.with("hint", hint.as_str());
            }
            words.say();
        }
    }
}

/// That a log file cannot be written, as stderr has it.
pub fn lost_line(lost: &str, format: LogFormat) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    match format {
        LogFormat::Text => format!("landbridge: {lost}\n"),
        LogFormat::Json => Words::warning("log_lost", lost).line(format, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_line_for_programs_and_in_files() {
        let words = Words::info("listening", "listening on http://127.0.0.1:1").with("version", "1").plain("a\nb\n");
        let json: Value = serde_json::from_str(&words.line(LogFormat::Json, Duration::ZERO)).expect("JSON");
        let want = [("event", "listening"), ("message", "listening on http://127.0.0.1:1"), ("level", "info")];
        for (name, value) in want {
            assert_eq!(json[name], value, "{json}");
        }
        let text = words.line(LogFormat::Text, Duration::ZERO);
        assert_eq!(text, "1970-01-01T00:00:00.000Z  INFO listening on http://127.0.0.1:1 version=1\n");
    }
}
