//! One event as one line. Nothing in it can end the line or move a cursor.

use std::fmt;
use std::time::Duration;

use lb_gateway::rfc3339;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::hide::{hidden, hidden_name};

/// The name of somebody, which is no credential although it may begin like one.
const WHO: &str = "who";

/// Names and values, as they were recorded.
#[derive(Clone, Default)]
pub struct Fields(Vec<(&'static str, Value)>);

/// An event, taken apart.
#[derive(Default)]
pub struct Line {
    message: String,
    fields: Fields,
    /// What it stands in, from the inside out.
    scopes: Vec<(&'static str, Fields)>,
}

impl Line {
    /// What an event says.
    pub fn of(event: &Event<'_>) -> Self {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.extract_if(.., |(name, _)| *name == "message").next();
        let message = match message {
            Some((_, Value::String(text))) => text,
            _ => String::new(),
        };
        Self { message, fields, scopes: Vec::new() }
    }

    /// A sentence that is no event, with what belongs to it.
    pub fn new(message: &str, fields: &[(&'static str, Value)]) -> Self {
        let hide = |value: &Value| match value {
            Value::String(text) => hidden(text).into_owned().into(),
            other => other.clone(),
        };
        let fields = fields.iter().map(|(name, value)| (*name, hide(value))).collect();
        Self { message: hidden(message).into_owned(), fields: Fields(fields), scopes: Vec::new() }
    }

    /// The same with a name for programs.
    pub fn named(mut self, event: &'static str) -> Self {
        self.fields.0.push(("event", event.into()));
        self
    }

    /// The same without these fields.
    pub fn without(mut self, names: &[&str]) -> Self {
        self.fields.0.retain(|(name, _)| !names.contains(name));
        self
    }

    /// Says what it stands in.
    pub fn within(&mut self, name: &'static str, fields: &Fields) {
        self.scopes.push((name, fields.clone()));
    }

    /// For people: time, level, message, fields.
    pub fn text(&self, level: Level, since_epoch: Duration, color: bool) -> String {
        let (on, off) = match (color, level) {
            (false, _) => ("", ""),
            (true, Level::ERROR) => ("\u{1b}[31m", "\u{1b}[0m"),
            (true, Level::WARN) => ("\u{1b}[33m", "\u{1b}[0m"),
            (true, Level::INFO) => ("\u{1b}[32m", "\u{1b}[0m"),
            (true, _) => ("\u{1b}[2m", "\u{1b}[0m"),
        };
        let mut text = format!("{} {on}{level:>5}{off} ", rfc3339(since_epoch));
        let (message, fields) = self.named_message();
        escape(&mut text, message);
        fields.write(&mut text);
        for (name, fields) in &self.scopes {
            text.push(' ');
            text.push_str(name);
            text.push('{');
            fields.write(&mut text);
            text.push_str(" }");
        }
        text.push('\n');
        text
    }

    /// What it says, and the rest: one that says nothing says its name.
    fn named_message(&self) -> (&str, Fields) {
        let name = self.fields.0.iter().find(|(name, _)| *name == "event").and_then(|(_, value)| value.as_str());
        match name.filter(|_| self.message.is_empty()) {
            Some(name) => (name, Fields(self.fields.0.iter().filter(|(name, _)| *name != "event").cloned().collect())),
            None => (&self.message, self.fields.clone()),
        }
    }

    /// For programs: `ts`, `level`, `event`, `target` and the fields.
    pub fn json(mut self, level: Level, target: &str, since_epoch: Duration) -> String {
        let mut object = Map::new();
        object.insert("ts".to_owned(), rfc3339(since_epoch).into());
        object.insert("level".to_owned(), level.as_str().to_ascii_lowercase().into());
        // What has a name beside its message says it in a field.
        let name = self.fields.0.extract_if(.., |(name, _)| *name == "event").next();
        match name {
            Some((_, name)) => {
                object.insert("event".to_owned(), name);
                if !self.message.is_empty() {
                    object.insert("message".to_owned(), plain(&self.message).into());
                }
            }
            None => {
                object.insert("event".to_owned(), plain(&self.message).into());
            }
        }
        object.insert("target".to_owned(), target.into());
        self.fields.insert(&mut object);
        for (name, fields) in self.scopes {
            let mut scope = Map::new();
            fields.insert(&mut scope);
            object.entry(name).or_insert(scope.into());
        }
        let mut text = Value::Object(object).to_string();
        text.push('\n');
        text
    }
}

impl Fields {
    fn write(&self, text: &mut String) {
        for (name, value) in &self.0 {
            text.push(' ');
            text.push_str(name);
            text.push('=');
            match value {
                Value::String(value) if value.contains([' ', '=', '"']) || value.is_empty() => {
                    text.push('"');
                    escape(text, &value.replace('"', "\\\""));
                    text.push('"');
                }
                Value::String(value) => escape(text, value),
                other => text.push_str(&other.to_string()),
            }
        }
    }

    fn insert(self, object: &mut Map<String, Value>) {
        for (name, value) in self.0 {
            let value = match value {
                Value::String(text) => plain(&text).into(),
                other => other,
            };
            // A field cannot pass itself off as one of ours.
            let name = if object.contains_key(name) { format!("field_{name}") } else { name.to_owned() };
            object.insert(name, value);
        }
    }

    fn add(&mut self, field: &Field, value: Value) {
        self.0.push((field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let value = if field.name() == WHO { hidden_name(value) } else { hidden(value) };
        self.add(field, value.into_owned().into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

/// Whether a terminal, or somebody who reads line by line, would take it for more than a character.
fn is_unruly(c: char) -> bool {
    let turns_text = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || turns_text
}

/// Adds a text in which nothing moves a cursor.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        if is_unruly(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
}

/// JSON escapes what is below a space; the rest of what is unruly is written out before.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unruly(c) && ' ' <= c { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of the audit log once had nothing but two spaces in the place of their names.
    #[test]
    fn an_event_without_a_message_says_its_name() {
        let line = || Line {
            message: String::new(),
            fields: Fields(vec![("event", "server_added".into()), ("who", "local".into())]),
            scopes: Vec::new(),
        };
        let text = line().text(Level::INFO, Duration::ZERO, false);
        assert_eq!(text, "1970-01-01T00:00:00.000Z  INFO server_added who=local\n");
        let json: Value = serde_json::from_str(&line().json(Level::INFO, "audit", Duration::ZERO)).expect("JSON");
        assert_eq!((&json["event"], json.get("message")), (&"server_added".into(), None));
    }

    #[test]
    fn nothing_in_a_line_ends_it_or_moves_a_cursor() {
        let evil = "a\u{1b}[2J\nb\r\u{9b}31m\u{202e}c\u{2028}d\u{7f}";
        let line = || Line {
            message: evil.to_owned(),
            fields: Fields(vec![("tool", evil.into()), ("n", 1.into())]),
            scopes: vec![("request", Fields(vec![("path", evil.into())]))],
        };
        let text = line().text(Level::INFO, Duration::ZERO, false);
        let json = line().json(Level::INFO, "t", Duration::ZERO);
        for text in [&text, &json] {
            assert_eq!(text.chars().filter(|c| is_unruly(*c)).collect::<String>(), "\n", "{text:?}");
            assert!(text.ends_with('\n'));
        }
        let parsed: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&parsed["level"], &parsed["n"]), (&"info".into(), &1.into()));
    }

    #[test]
    fn a_field_cannot_take_the_place_of_the_level() {
        let line = Line { message: "x".to_owned(), fields: Fields(vec![("level", "error".into())]), ..Line::default() };
        let parsed: Value = serde_json::from_str(&line.json(Level::INFO, "t", Duration::ZERO)).expect("JSON");
        assert_eq!((&parsed["level"], &parsed["field_level"]), (&"info".into(), &"error".into()));
    }
}
