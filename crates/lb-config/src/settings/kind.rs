//! What kinds of values there are, and how each is read from a text.

use std::net::IpAddr;
use std::time::Duration;

use super::check;

/// What a setting may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// On or off.
    Switch,
    /// A whole number between two bounds, both allowed.
    Count(u64, u64),
    /// A time of at least this many milliseconds; a number alone counts seconds, in variables named `…_MS` milliseconds.
    Time(u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text, judged by a function.
    Text(Check),
    /// Several texts, each judged.
    List(Check),
    /// Several networks or addresses.
    Networks,
    /// Part of a feature that this build does not have; only these values, which switch it off, are fine.
    Absent {
        /// What it belongs to, as a message names it.
        feature: &'static str,
        /// Values that ask for nothing.
        off: &'static [&'static str],
    },
}

/// Takes a text, perhaps in another spelling, or says what is allowed.
pub type Check = fn(&str) -> Result<String, &'static str>;

/// A value that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// A number.
    Count(u64),
    /// A time.
    Time(Duration),
    /// A text or a word.
    Text(String),
    /// Several texts.
    List(Vec<String>),
    /// Networks: address and length of the prefix.
    Networks(Vec<(IpAddr, u8)>),
    /// Nothing, on purpose: a feature that is not there was switched off.
    Off,
}

/// A value as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Raw {
    /// A flag or a variable: always text.
    Text(String),
    /// A flag that was given several times, or an array of a file.
    List(Vec<String>),
    /// A number of a file.
    Number(i64),
    /// `true` or `false` of a file.
    Bool(bool),
    /// Anything else of a file, by its kind.
    Other(&'static str),
}

/// What a bare number of a time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

impl Kind {
    /// Reads a value.
    pub(crate) fn read(self, raw: &Raw, unit: Unit) -> Result<Value, String> {
        match self {
            Self::Switch => switch(raw).map(Value::Switch),
            Self::Count(least, most) => count(raw, least, most).map(Value::Count),
            Self::Time(least) => time(raw, unit, least).map(Value::Time),
            Self::Word(words) => word(raw, words).map(Value::Text),
            Self::Text(check) => check(text(raw)?).map(Value::Text).map_err(str::to_owned),
            Self::List(check) => list(raw)?
                .iter()
                .map(|item| check(item).map_err(str::to_owned))
                .collect::<Result<_, _>>()
                .map(Value::List),
            Self::Networks => {
                list(raw)?.iter().map(|item| check::network(item)).collect::<Result<_, _>>().map(Value::Networks)
            }
            Self::Absent { feature, off } => absent(raw, feature, off),
        }
    }

    /// Whether a flag of this kind stands alone.
    #[must_use]
    pub fn is_switch(self) -> bool {
        matches!(self, Self::Switch)
    }

    /// Whether a flag of this kind may be given several times.
    #[must_use]
    pub fn is_list(self) -> bool {
        matches!(self, Self::List(_) | Self::Networks)
    }
}

fn text(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Text(text) => Ok(text),
        // A file may hold an array of one just as well.
        Raw::List(list) => match list.as_slice() {
            [only] => Ok(only),
            _ => Err("give one text".to_owned()),
        },
        Raw::Number(_) | Raw::Bool(_) => Err("give a text, in quotes".to_owned()),
        Raw::Other(kind) => Err(format!("give a text, not {kind}")),
    }
}

fn switch(raw: &Raw) -> Result<bool, String> {
    let said = "give true or false";
    match raw {
        Raw::Bool(value) => Ok(*value),
        Raw::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(said.to_owned()),
        },
        Raw::Number(_) | Raw::List(_) | Raw::Other(_) => Err(said.to_owned()),
    }
}

fn count(raw: &Raw, least: u64, most: u64) -> Result<u64, String> {
    let number = match raw {
        Raw::Number(number) => u64::try_from(*number).ok(),
        Raw::Text(text) => text.trim().replace('_', "").parse().ok(),
        Raw::List(_) | Raw::Bool(_) | Raw::Other(_) => None,
    };
    let allowed = || match most {
        u64::MAX => format!("give a whole number from {least} on"),
        _ => format!("give a whole number from {least} to {most}"),
    };
    number.filter(|number| (least..=most).contains(number)).ok_or_else(allowed)
}

/// No setting of a time means anything beyond this.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

fn time(raw: &Raw, unit: Unit, least_ms: u64) -> Result<Duration, String> {
    let bare = |number: u64| match unit {
        Unit::Seconds => Duration::from_secs(number),
        Unit::Milliseconds => Duration::from_millis(number),
    };
    let read = match raw {
        Raw::Number(number) => u64::try_from(*number).ok().map(bare),
        Raw::Text(text) => {
            let text = text.trim();
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let unit = text.strip_prefix(digits).unwrap_or_default();
            digits.trim_end().parse::<u64>().ok().and_then(|number| match unit {
                "" => Some(bare(number)),
                "ms" => Some(Duration::from_millis(number)),
                "s" => Some(Duration::from_secs(number)),
                "m" | "min" => number.checked_mul(60).map(Duration::from_secs),
                "h" => number.checked_mul(3_600).map(Duration::from_secs),
                "d" => number.checked_mul(86_400).map(Duration::from_secs),
                _ => None,
            })
        }
        Raw::List(_) | Raw::Bool(_) | Raw::Other(_) => None,
    };
    let least = Duration::from_millis(least_ms);
    let unit = match unit {
        Unit::Seconds => "seconds, or a time such as 500ms, 30s, 5m, 24h",
        Unit::Milliseconds => "milliseconds",
    };
    let allowed = || match least_ms {
        0 => format!("give {unit}, at most a year"),
        _ => format!("give {unit}, at least {least:?}, at most a year"),
    };
    read.filter(|time| (least..=TIME_MAX).contains(time)).ok_or_else(allowed)
}

fn word(raw: &Raw, words: &[&str]) -> Result<String, String> {
    let allowed = || format!("give {}", words.join(" or "));
    let Raw::Text(text) = raw else { return Err(allowed()) };
    let text = text.trim().to_ascii_lowercase();
    if words.contains(&text.as_str()) { Ok(text) } else { Err(allowed()) }
}

/// Texts out of an array, a JSON array, or what stands between commas.
fn list(raw: &Raw) -> Result<Vec<String>, String> {
    let given: &[String] = match raw {
        Raw::Text(text) => std::slice::from_ref(text),
        Raw::List(list) => list,
        Raw::Number(_) | Raw::Bool(_) | Raw::Other(_) => return Err("give an array of texts".to_owned()),
    };
    let mut found = Vec::new();
    for text in given {
        let text = text.trim();
        if text.starts_with('[') && !is_address(text) {
            let items: Vec<String> = serde_json::from_str(text)
                .map_err(|_| "give a JSON array of texts, or texts with commas between them".to_owned())?;
            found.extend(items);
        } else {
            found.extend(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned));
        }
    }
    Ok(found)
}

/// An address of version 6 begins with a bracket too.
fn is_address(text: &str) -> bool {
    text.split(',').all(|item| check::host(item.trim()).is_ok())
}

fn absent(raw: &Raw, feature: &str, off: &[&str]) -> Result<Value, String> {
    let said = match raw {
        Raw::Text(text) => text.trim().to_ascii_lowercase(),
        Raw::Bool(value) => value.to_string(),
        Raw::Number(number) => number.to_string(),
        Raw::List(_) | Raw::Other(_) => String::new(),
    };
    if off.contains(&said.as_str()) {
        return Ok(Value::Off);
    }
    Err(format!("{feature} is not part of this build; leave it out"))
}
