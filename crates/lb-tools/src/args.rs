//! The arguments of one call of a tool of ours: read by name, checked, and refused in words that say what is allowed.
//!
//! Values are never rebuilt: what goes on to a server is taken out as the bytes that came. Names that a tool does not
//! read are ignored, as is `null`, which many models write for "not given".

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use lb_wire::compose::Object;
use lb_wire::{Cursor, Kind, Raw, Span};

use crate::failure::{self, Failure};

/// Members that are looked at.
const MEMBERS_MAX: usize = 1000;

/// The members of `arguments`.
#[derive(Debug)]
pub(crate) struct Args {
    text: Raw,
    members: Vec<(String, Span)>,
}

/// What a tool's reader gives back: a value, or the refusal that the model reads.
pub(crate) type Checked<T> = Result<T, Failure>;

impl Args {
    /// Takes `params.arguments`; without it, there are none.
    pub(crate) fn new(arguments: Option<Raw>) -> Checked<Self> {
        let text = arguments.filter(|raw| raw.kind() != Kind::Null).unwrap_or_else(Raw::empty_object);
        if text.kind() != Kind::Object {
            return Err(Failure::new(failure::INVALID_ARGUMENT, "the arguments must be a JSON object"));
        }
        let bytes = text.as_bytes();
        let mut members: Vec<(String, Span)> = Vec::new();
        let mut known = HashSet::new();
        let mut twice = None;
        let walk = Cursor::new(bytes).members(0, |cursor, key, _| {
            let (value, _) = cursor.skip(1)?;
            let quoted = Span::new(key.start() - 1, key.end() + 1);
            let name: String = serde_json::from_slice(quoted.of(bytes)).unwrap_or_default();
            if !known.insert(name.clone()) {
                twice.get_or_insert_with(|| name.clone());
            }
            // No tool here has nearly as many; the rest is none of ours.
            if members.len() < MEMBERS_MAX {
                members.push((name, value));
            }
            Ok(())
        });
        // Two readers could take a different one of them.
        match (walk, twice) {
            (Ok(()), None) => Ok(Self { members, text }),
            (_, Some(name)) => Err(refuse(&name, "is given twice")),
            (Err(_), None) => Err(Failure::new(failure::INVALID_ARGUMENT, "the arguments must be a JSON object")),
        }
    }

    /// All of them, as they came.
    pub(crate) fn written(&self) -> &Raw {
        &self.text
    }

    /// A value of any kind.
    pub(crate) fn raw(&self, name: &str) -> Option<Raw> {
        let (_, span) = self.members.iter().find(|(known, _)| known == name)?;
        let value = self.text.bytes().slice(span.start()..span.end());
        Raw::parse(value).ok().filter(|raw| raw.kind() != Kind::Null)
    }

    /// A value of any kind that must be there.
    pub(crate) fn need(&self, name: &str) -> Checked<Raw> {
        self.raw(name).ok_or_else(|| refuse(name, "is required"))
    }

    /// A text that must be there and not be empty.
    pub(crate) fn text(&self, name: &str) -> Checked<String> {
        self.maybe_text(name)?.ok_or_else(|| refuse(name, "is required"))
    }

    /// A text; an empty one is refused, because nothing here has an empty name.
    pub(crate) fn maybe_text(&self, name: &str) -> Checked<Option<String>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let text = raw.to_text().ok_or_else(|| wrong(name, "a string", &raw))?.into_owned();
        if text.is_empty() {
            return Err(refuse(name, "must not be empty"));
        }
        Ok(Some(text))
    }

    /// A truth value.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Checked<bool> {
        match self.raw(name) {
            None => Ok(default),
            Some(raw) => raw.read().map_err(|_| wrong(name, "true or false", &raw)),
        }
    }

    /// A whole number within bounds. `5.0` is one, as everywhere in JSON.
    pub(crate) fn integer(&self, name: &str, range: RangeInclusive<u64>) -> Checked<Option<u64>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let allowed = format!("an integer from {} to {}", range.start(), range.end());
        let number = raw.read::<u64>().ok().or_else(|| whole(raw.read().ok()?));
        match number {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(wrong(name, &allowed, &raw)),
        }
    }

    /// A time in milliseconds within bounds.
    pub(crate) fn millis(&self, name: &str, range: RangeInclusive<u64>) -> Checked<Option<Duration>> {
        Ok(self.integer(name, range)?.map(Duration::from_millis))
    }

    /// A number within bounds.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<f64>) -> Checked<Option<f64>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        match raw.read::<f64>() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(wrong(name, &format!("a number from {} to {}", range.start(), range.end()), &raw)),
        }
    }

    /// One of a few words.
    pub(crate) fn word(&self, name: &str, words: &[&'static str]) -> Checked<Option<&'static str>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let given = raw.to_text();
        let known = words.iter().find(|word| given.as_deref() == Some(word));
        known.copied().map(Some).ok_or_else(|| wrong(name, &format!("one of {}", words.join(", ")), &raw))
    }

    /// One of a few words that must be there.
    pub(crate) fn need_word(&self, name: &str, words: &[&'static str]) -> Checked<&'static str> {
        self.word(name, words)?.ok_or_else(|| refuse(name, &format!("is required: one of {}", words.join(", "))))
    }

    /// Several of a few words.
    pub(crate) fn words(&self, name: &str, words: &[&'static str]) -> Checked<Option<Vec<&'static str>>> {
        let Some(given) = self.texts(name)? else { return Ok(None) };
        let known = |text: &String| words.iter().find(|word| *word == text).copied();
        let found: Option<Vec<_>> = given.iter().map(known).collect();
        let refused = || refuse(name, &format!("may only hold {}", words.join(", ")));
        found.map(Some).ok_or_else(refused)
    }

    /// A list of texts.
    pub(crate) fn texts(&self, name: &str) -> Checked<Option<Vec<String>>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        raw.read().map(Some).map_err(|_| wrong(name, "an array of strings", &raw))
    }

    /// Texts by name, in the order in which they are written.
    pub(crate) fn text_map(&self, name: &str) -> Checked<Option<Vec<(String, String)>>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let refused = || refuse(name, "must be an object whose values are strings");
        let map: serde_json::Map<String, serde_json::Value> = raw.read().map_err(|_| refused())?;
        let pairs = map.into_iter().map(|(key, value)| match value {
            serde_json::Value::String(text) => Some((key, text)),
            _ => None,
        });
        pairs.collect::<Option<Vec<_>>>().map(Some).ok_or_else(refused)
    }

    /// An object, as it was written.
    pub(crate) fn object(&self, name: &str) -> Checked<Option<Raw>> {
        match self.raw(name) {
            Some(raw) if raw.kind() == Kind::Object => Ok(Some(raw)),
            Some(raw) => Err(wrong(name, "an object", &raw)),
            None => Ok(None),
        }
    }

    /// An object with arguments of its own.
    pub(crate) fn group(&self, name: &str) -> Checked<Option<Self>> {
        self.object(name)?.map(|raw| Self::new(Some(raw))).transpose()
    }
}

/// Refuses an argument.
pub(crate) fn refuse(name: &str, problem: &str) -> Failure {
    let details = Object::new().text("argument", name).finish();
    Failure::new(failure::INVALID_ARGUMENT, format!("argument '{name}' {problem}")).with(details)
}

fn wrong(name: &str, allowed: &str, given: &Raw) -> Failure {
    refuse(name, &format!("must be {allowed}, not {}", shown(given)))
}

/// What was given, short enough to be read.
fn shown(given: &Raw) -> String {
    const CHARS_MAX: usize = 60;
    match given.kind() {
        Kind::Object => "an object".into(),
        Kind::Array => "an array".into(),
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => {
            let text = given.as_str();
            let mut short: String = text.chars().take(CHARS_MAX).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            short
        }
    }
}

/// A number that is whole and can be counted exactly.
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    let counts = number.fract() == 0.0 && (0.0..=EXACT).contains(&number);
    counts.then(|| format!("{number:.0}").parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
