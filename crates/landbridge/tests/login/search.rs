//! Finds secrets in texts, also those that were written in another way.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// A text that a secret might be in, under a name.
pub type Place = (String, String);

/// Where secrets are, and how they are written there. Secrets have names; a place says what stands around.
pub fn found(places: &[Place], secrets: &[(&str, String)]) -> Vec<String> {
    let mut all = Vec::new();
    for (what, secret) in secrets {
        assert!(12 <= secret.len(), "{what} is too short to be told from other words: {secret}");
        for (form, text) in forms(secret) {
            for (place, within) in places {
                if let Some(at) = within.find(&text) {
                    let (from, to) = (at.saturating_sub(80), (at + text.len() + 40).min(within.len()));
                    let (from, to) = (within.floor_char_boundary(from), within.ceil_char_boundary(to));
                    all.push(format!("{what}, {form}, in {place}: …{}…", within.get(from..to).unwrap_or_default()));
                }
            }
        }
    }
    all
}

/// The ways in which a text may be written.
fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let mut all = vec![("plain", secret.to_owned())];
    for (name, engine) in [("base64", &STANDARD_NO_PAD), ("base64url", &URL_SAFE_NO_PAD)] {
        // Within a longer text it begins at any of three places; what depends on its neighbours is left out.
        for (before, first) in [(0, 0), (1, 2), (2, 3)] {
            let padded = [&vec![0; before], secret.as_bytes()].concat();
            let encoded = engine.encode(&padded);
            all.push((name, encoded.get(first..padded.len() * 8 / 6).expect("ASCII").to_owned()));
        }
    }
    let each = |write: fn(&mut String, u8)| {
        secret.bytes().fold(String::new(), |mut text, byte| {
            write(&mut text, byte);
            text
        })
    };
    let hex = each(|text, byte| write!(text, "{byte:02x}").expect("a string"));
    all.extend([("hex", hex.to_uppercase()), ("hex", hex)]);
    let percent = each(|text, byte| write!(text, "%{byte:02X}").expect("a string"));
    all.extend([("percent-encoded", percent.to_lowercase()), ("percent-encoded", percent)]);
    let query: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    all.extend([("percent-encoded", query.replace('+', "%20")), ("percent-encoded", query)]);
    let json = within_quotes(secret);
    let codes = secret.encode_utf16().fold(String::new(), |mut text, unit| {
        write!(text, "\\u{unit:04x}").expect("a string");
        text
    });
    all.extend([("JSON", within_quotes(&json)), ("JSON", json.replace('/', "\\/")), ("JSON", json), ("JSON", codes)]);
    all.sort_by(|one, other| one.1.cmp(&other.1));
    all.dedup_by(|one, other| one.1 == other.1);
    all
}

/// A text as it stands in JSON.
fn within_quotes(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).expect("quotes").to_owned()
}

#[test]
fn what_is_there_is_found_in_whatever_way_it_is_written() {
    let secret = "se/cret\"with ümlaut+and\\more";
    let encode = |engine: &base64::engine::GeneralPurpose, around: &str| {
        engine.encode(format!("{around}{secret}{around}").as_bytes())
    };
    let hex: String = secret.bytes().map(|byte| format!("{byte:02X}")).collect();
    let percent: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("q", secret).finish();
    let mut written = vec![secret.to_owned(), hex.to_lowercase(), hex, percent, query];
    written.push(serde_json::json!({ "a": secret }).to_string());
    written.push(serde_json::json!({ "a": serde_json::json!({ "b": secret }).to_string() }).to_string());
    for around in ["", "x", "xy", "xyz"] {
        written.extend([encode(&STANDARD_NO_PAD, around), encode(&URL_SAFE_NO_PAD, around)]);
    }
    for text in written {
        let places = [("here".to_owned(), format!("before {text} behind")), ("there".to_owned(), "nothing".to_owned())];
        let found = found(&places, &[("it", secret.to_owned())]);
        assert!(!found.is_empty() && found.iter().all(|one| one.contains("in here")), "{text}: {found:?}");
    }
    let almost = [("here".to_owned(), "se/cret\"with ümlaut+and\\less".to_owned())];
    assert_eq!(found(&almost, &[("it", secret.to_owned())]), [""; 0]);
}
