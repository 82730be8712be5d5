//! Header values, against a plain reading of the rules. An input is a value, a line feed, and the JSON beside it.

use lb_wire::header::{decode, encode, matches};
use lb_wire::revision::Revision;
use serde_json::Value;
use serde_json::value::RawValue;

/// True when the value can be decoded.
pub fn check(input: &[u8]) -> bool {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (value, json) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if let Some(revision) = Revision::parse(value) {
        assert_eq!(revision.as_str().as_bytes(), value);
    }
    let got = decode(value).ok();
    assert_eq!(got.as_deref(), plain(value).as_deref(), "decoded");
    if let Some(text) = &got {
        let sent = encode(text);
        assert!(sent.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')), "sent as {sent:?}");
        assert_eq!(decode(sent.as_bytes()).ok().as_ref(), Some(text), "sent as {sent:?}");
    }
    if let Ok(text) = std::str::from_utf8(json) {
        assert_eq!(decode(encode(text).as_bytes()).as_deref(), Ok(text), "any text survives");
    }
    if let Ok(body) = serde_json::from_slice::<Value>(json) {
        check_match(value, json, &body, got.as_deref());
    } else {
        // Unreadable JSON does not come so far, and must not be more than unequal if it did.
        std::hint::black_box(matches(value, json));
    }
    got.is_some()
}

fn check_match(value: &[u8], json: &[u8], body: &Value, text: Option<&str>) {
    let same = matches(value, json);
    match (body, text) {
        (Value::Null | Value::Array(_) | Value::Object(_), _) | (_, None) => assert!(!same, "nothing to compare"),
        (Value::Bool(truth), Some(text)) => assert_eq!(same, text == truth.to_string()),
        (Value::String(content), Some(text)) => assert_eq!(same, text == content),
        (Value::Number(_), Some(text)) => {
            let raw = std::str::from_utf8(json).expect("JSON is text").trim();
            if let Some(number) = decimal(raw) {
                assert_eq!(same, decimal(text) == Some(number), "{text:?} against {raw:?}");
            }
        }
    }
}

/// A JSON number as sign, digits without zeros at either end, and exponent; `None` for what is no number, and for
/// exponents of more than nine digits.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    serde_json::from_str::<&RawValue>(text).ok().filter(|raw| raw.get() == text)?;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = exponent.trim_start_matches(['+', '-']).trim_start_matches('0');
    let mut exponent = if digits.is_empty() { 0 } else { exponent.parse::<i64>().ok()? };
    if 9 < digits.len() || !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    let (whole, fraction) =
        mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa.trim_start_matches('-'), ""));
    exponent -= i64::try_from(fraction.len()).ok()?;
    let all = format!("{whole}{fraction}");
    let all = all.trim_start_matches('0');
    let short = all.trim_end_matches('0');
    if short.is_empty() {
        return Some((false, String::new(), 0));
    }
    exponent += i64::try_from(all.len() - short.len()).ok()?;
    Some((mantissa.starts_with('-'), short.to_owned(), exponent))
}

/// The value by the rules; `None` when it breaks one.
fn plain(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    if text.contains(|c: char| c != '\t' && !(' '..='~').contains(&c)) {
        return None;
    }
    let encoded = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        None => Some(text.to_owned()),
        Some(encoded) => String::from_utf8(base64(encoded)?).ok(),
    }
}

/// Base64 with padding, and with nothing in the bits that do not count.
fn base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if !text.len().is_multiple_of(4) || 2 < padding {
        return None;
    }
    let (mut out, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in digits.chars() {
        bits = bits << 6 | u32::try_from(ALPHABET.find(digit)?).ok()?;
        held += 6;
        if 8 <= held {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xFF).ok()?);
        }
    }
    (bits & ((1 << held) - 1) == 0).then_some(out)
}
