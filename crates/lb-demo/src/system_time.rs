//! `system_time`: what time it is, in a zone and a spelling of the caller's choice.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit, Zoned};
use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::CallToolResult;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::registry::{failed, said};
use crate::server::Demo;

const FORMAT_CHARS_MAX: usize = 200;

/// Arguments of `system_time`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SystemTime {
    /// How to write the time [default: iso]
    format: Option<Format>,
    /// A zone such as Europe/Berlin; the server's own unless given
    timezone: Option<String>,
    /// For the format custom: YYYY YY MM DD HH hh mm ss SSS are filled in, ZZ is the offset, what stands in [brackets]
    /// and all other text stays
    custom_format: Option<String>,
    /// Write the zone behind the time [default: true]
    include_timezone: Option<bool>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Iso,
    Unix,
    Human,
    Custom,
}

/// Structured result of `system_time`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Told {
    /// The time as asked for
    timestamp: String,
    /// The zone it is told in
    timezone: String,
    format: String,
    /// ISO 8601, UTC
    utc: String,
    /// Seconds since 1970
    unix: i64,
    /// For people
    human: String,
}

#[tool_router(router = time_tools, vis = "pub(crate)")]
impl Demo {
    #[tool(
        title = "System time",
        description = "What time it is, in a time zone and a format of your choice",
        output_schema = schema_for_output::<Told>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn system_time(&self, Parameters(wanted): Parameters<SystemTime>) -> CallToolResult {
        match tell(&wanted, Timestamp::now()) {
            Ok(told) => {
                let mut result = said(told.timestamp.clone());
                result.structured_content = Some(json!(told));
                result
            }
            Err(why) => failed(why),
        }
    }
}

/// This moment as ISO 8601 in UTC, to the millisecond.
pub(crate) fn now_iso() -> String {
    utc(Timestamp::now())
}

fn utc(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn tell(wanted: &SystemTime, now: Timestamp) -> Result<Told, String> {
    let zone = zone(wanted.timezone.as_deref())?;
    let now = now.round(Unit::Millisecond).unwrap_or(now);
    let there = now.to_zoned(zone);
    let with_zone = wanted.include_timezone.unwrap_or(true);
    let human = if with_zone { "%A, %-d %B %Y, %H:%M:%S %Z" } else { "%A, %-d %B %Y, %H:%M:%S" };
    let human = there.strftime(human).to_string();
    let format = wanted.format.unwrap_or_default();
    let (name, timestamp) = match (format, &wanted.custom_format) {
        (Format::Iso, _) => ("iso", iso(&there, with_zone)),
        (Format::Unix, _) => ("unix", now.as_second().to_string()),
        (Format::Human, _) => ("human", human.clone()),
        (Format::Custom, Some(pattern)) if pattern.chars().count() <= FORMAT_CHARS_MAX => {
            let text = custom(pattern, &there);
            let zone = if with_zone { there.strftime(" %Z").to_string() } else { String::new() };
            ("custom", text + &zone)
        }
        (Format::Custom, Some(_)) => return Err(format!("customFormat is longer than {FORMAT_CHARS_MAX} characters")),
        (Format::Custom, None) => return Err("the format custom needs customFormat, as in YYYY-MM-DD".to_owned()),
    };
    let timezone = there.time_zone().iana_name().map_or_else(|| there.strftime("%Z").to_string(), str::to_owned);
    Ok(Told { timestamp, timezone, format: name.to_owned(), utc: utc(now), unix: now.as_second(), human })
}

fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    match name {
        Some(name) => TimeZone::get(name).map_err(|_| format!("no time zone {name:?}; give one such as Europe/Berlin")),
        // A machine that does not say where it is runs on UTC.
        None => Ok(TimeZone::try_system().unwrap_or(TimeZone::UTC)),
    }
}

/// Local time with its offset from UTC; `Z` only for UTC itself.
fn iso(there: &Zoned, with_zone: bool) -> String {
    let local = there.strftime("%Y-%m-%dT%H:%M:%S%.3f").to_string();
    match (with_zone, there.time_zone() == &TimeZone::UTC) {
        (false, _) => local,
        (true, true) => local + "Z",
        (true, false) => local + &there.strftime("%:z").to_string(),
    }
}

/// Fills in a pattern. A word is filled in only if it consists of tokens altogether (and `T` between them), so that
/// other words keep their letters; brackets keep anything.
fn custom(pattern: &str, there: &Zoned) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some((literal, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            out.push_str(literal);
            rest = after;
            continue;
        }
        if !first.is_ascii_alphabetic() {
            out.push(first);
            rest = rest.strip_prefix(first).unwrap_or_default();
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out.push_str(&filled(word, there).unwrap_or_else(|| word.to_owned()));
        rest = after;
    }
    out
}

/// Longest first, so that a longer token is not taken for a shorter one.
const TOKENS: [(&str, &str); 10] = [
    ("YYYY", "%Y"),
    ("SSS", "%3f"),
    ("YY", "%y"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("HH", "%H"),
    ("hh", "%I"),
    ("mm", "%M"),
    ("ss", "%S"),
    ("ZZ", "%:z"),
];

fn filled(word: &str, there: &Zoned) -> Option<String> {
    let mut out = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let token = TOKENS.iter().find_map(|(token, format)| Some((rest.strip_prefix(token)?, *format)));
        match (token, rest.strip_prefix('T')) {
            (Some((after, format)), _) => {
                out.push_str(&there.strftime(format).to_string());
                rest = after;
            }
            (None, Some(after)) => {
                out.push('T');
                rest = after;
            }
            (None, None) => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(format: Format, timezone: Option<&str>, custom_format: Option<&str>, with_zone: bool) -> String {
        let wanted = SystemTime {
            format: Some(format),
            timezone: timezone.map(str::to_owned),
            custom_format: custom_format.map(str::to_owned),
            include_timezone: Some(with_zone),
        };
        let now: Timestamp = "2026-07-04T22:05:09.0071Z".parse().unwrap();
        tell(&wanted, now).map_or_else(|why| why, |told| told.timestamp)
    }

    #[test]
    fn iso_carries_the_offset_of_its_zone_and_no_false_z() {
        assert_eq!(at(Format::Iso, Some("UTC"), None, true), "2026-07-04T22:05:09.007Z");
        assert_eq!(at(Format::Iso, Some("Europe/Berlin"), None, true), "2026-07-05T00:05:09.007+02:00");
        assert_eq!(at(Format::Iso, Some("Asia/Kolkata"), None, true), "2026-07-05T03:35:09.007+05:30");
        assert_eq!(at(Format::Iso, Some("Europe/Berlin"), None, false), "2026-07-05T00:05:09.007");
    }

    #[test]
    fn custom_formats_keep_their_literal_text() {
        for (pattern, want) in [
            ("YYYY-MM-DD", "2026-07-04"),
            ("DD.MM.YY at HH:mm:ss", "04.07.26 at 22:05:09"),
            ("YYYYMMDDTHHmmssSSS", "20260704T220509007"),
            ("Today is DD/MM; my Dad's mess Should stay", "Today is 04/07; my Dad's mess Should stay"),
            ("[DD] = DD, [a [b] c", "DD = 04, a [b c"),
            ("hh o'clock ZZ", "10 o'clock +00:00"),
            ("[open DD", "[open 04"),
            ("é—MM—🦀", "é—07—🦀"),
        ] {
            assert_eq!(at(Format::Custom, Some("UTC"), Some(pattern), false), want, "{pattern}");
        }
    }

    #[test]
    fn the_other_spellings_and_what_is_refused() {
        assert_eq!(at(Format::Unix, Some("Asia/Kolkata"), None, true), "1783202709");
        assert_eq!(at(Format::Human, Some("UTC"), None, true), "Saturday, 4 July 2026, 22:05:09 UTC");
        assert_eq!(at(Format::Human, Some("Europe/Berlin"), None, true), "Sunday, 5 July 2026, 00:05:09 CEST");
        assert_eq!(at(Format::Custom, Some("UTC"), Some("HH"), true), "22 UTC");
        assert!(at(Format::Iso, Some("Mars/Base"), None, true).contains("no time zone \"Mars/Base\""));
        assert!(at(Format::Custom, None, None, true).contains("needs customFormat"));
        assert!(at(Format::Custom, None, Some(&"x".repeat(201)), true).contains("longer than 200"));
    }
}
