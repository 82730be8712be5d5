//! What must not be shown: values of keys that look secret, and texts that look like credentials.
//!
//! Rather too much than too little: a hidden harmless value costs a look elsewhere.

use std::borrow::Cow;

/// What stands for what is hidden.
const HIDDEN: &str = "***";
/// Keys that hold one of these are secret, whatever their case, `_` and `-`.
const KEY_PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "cookie",
    "bearer",
    "jwt",
    "sessionid",
    "signature",
];
/// Keys that are secret only as a whole: inside of others these mean nothing.
const KEYS: &[&str] = &["auth", "pass", "pin", "otp", "key", "sid", "sig", "env", "headers"];
/// How credentials begin that are known by their beginning.
const CREDENTIALS: &[&str] = &[
    "sk-",
    "pk_live_",
    "sk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "eyJ",
    "lbk_",
    "lbr_",
    "lbc_",
];
/// Shorter words are no credentials.
const CREDENTIAL_BYTES_MIN: usize = 12;
/// Shorter words behind `bearer` are words.
const BEARER_BYTES_MIN: usize = 16;

/// A JSON text without its secrets, cut to a length. Nothing behind the cut is read.
pub fn redacted_json(json: &str, bytes_max: usize) -> Box<str> {
    let mut out = String::with_capacity(json.len().min(bytes_max + 1));
    let mut rest = json;
    while out.len() <= bytes_max {
        let Some((before, string)) = rest.split_once('"') else {
            out.push_str(first_bytes(rest, bytes_max + 1));
            break;
        };
        out.push_str(first_bytes(before, bytes_max + 1));
        let end = string_end(string);
        let content = string.get(..end).unwrap_or_default();
        rest = string.get(end + 1..).unwrap_or_default();
        out.push('"');
        let value = rest.trim_start().strip_prefix(':');
        match value {
            Some(value) => {
                out.push_str(first_bytes(content, bytes_max));
                out.push_str("\":");
                rest = value;
                if is_secret(&unescaped(first_bytes(content, bytes_max))) {
                    out.push_str("\"***\"");
                    rest = value.get(value_end(value)..).unwrap_or_default();
                }
            }
            None => {
                out.push_str(&redacted_text(first_bytes(content, bytes_max)));
                out.push('"');
            }
        }
    }
    if bytes_max < out.len() {
        out.truncate(out.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8())));
        out.push('…');
    }
    out.into()
}

/// A text without what looks like a credential, such as `token=abc`, `Bearer abc` or `https://user:pass@host`.
pub fn redacted_text(text: &str) -> Cow<'_, str> {
    // Names of tools and prompts, which come with every request, are one word.
    if text.chars().all(is_word) && !looks_credential(text) {
        return text.into();
    }
    let mut out = String::new();
    let (mut rest, mut hidden) = (text, false);
    // Whether what comes next is the value of a secret key, or follows `Bearer`.
    let (mut after_key, mut after_bearer) = (false, false);
    while !rest.is_empty() {
        let (between, from_word) = rest.split_at(rest.find(is_word).unwrap_or(rest.len()));
        out.push_str(between);
        let assigns = between.contains([':', '=']) && between.chars().all(|c| " \t\"'\\:=".contains(c));
        let hide_value = after_key && assigns;
        let login = between.ends_with("://").then(|| login_end(from_word)).flatten();
        let end = from_word.find(|c| !is_word(c)).unwrap_or(from_word.len());
        let (word, behind) = from_word.split_at(end);
        let follows_bearer = after_bearer && between == " " && BEARER_BYTES_MIN <= word.len();
        let scheme = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
        if let Some(end) = login {
            out.push_str(HIDDEN);
            (rest, hidden) = (from_word.get(end..).unwrap_or_default(), true);
        } else if hide_value && scheme && behind.starts_with(' ') {
            // The credential itself is behind the word.
            let (value, after) = behind.trim_start().split_at(plain_end(behind.trim_start()));
            out.push_str(word);
            out.push_str(if value.is_empty() { "" } else { " ***" });
            (rest, hidden) = (after, true);
        } else if (hide_value && !word.is_empty()) || looks_credential(word) || follows_bearer {
            out.push_str(HIDDEN);
            (rest, hidden) = (from_word.get(plain_end(from_word)..).unwrap_or_default(), true);
        } else {
            out.push_str(word);
            rest = behind;
        }
        after_key = is_secret(word);
        after_bearer = word.eq_ignore_ascii_case("bearer");
    }
    if hidden { out.into() } else { text.into() }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Whether values of this key are to be hidden.
fn is_secret(key: &str) -> bool {
    let plain: String = key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    KEYS.contains(&plain.as_str()) || KEY_PARTS.iter().any(|part| plain.contains(part))
}

fn looks_credential(word: &str) -> bool {
    CREDENTIAL_BYTES_MIN <= word.len() && CREDENTIALS.iter().any(|start| word.starts_with(start))
}

/// Where a value in running text ends.
fn plain_end(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || "\"'\\&,;)}]".contains(c)).unwrap_or(text.len())
}

/// Where the login of a URL ends, from behind its `://`, if it has one.
fn login_end(text: &str) -> Option<usize> {
    let authority = text.split(['/', '?', '#', ' ', '"']).next().unwrap_or_default();
    authority.rfind('@')
}

/// Where a JSON string ends, from behind its first quote.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

/// Where a JSON value ends that the text begins with, white space included.
fn value_end(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, text.len() - text.trim_start().len());
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => at += string_end(text.get(at + 1..).unwrap_or_default()) + 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// A key as it is meant: escapes could hide what it says.
fn unescaped(key: &str) -> Cow<'_, str> {
    if !key.contains('\\') {
        return key.into();
    }
    let (mut out, mut rest) = (String::new(), key);
    while let Some((before, escape)) = rest.split_once('\\') {
        out.push_str(before);
        let code = escape.strip_prefix('u').and_then(|hex| u32::from_str_radix(hex.get(..4)?, 16).ok());
        match code {
            Some(code) => {
                out.push(char::from_u32(code).unwrap_or('?'));
                rest = escape.get(5..).unwrap_or_default();
            }
            // White space and punctuation make no difference in a key.
            None => rest = escape.get(1..).unwrap_or_default(),
        }
    }
    out.push_str(rest);
    out.into()
}

fn first_bytes(text: &str, count: usize) -> &str {
    text.get(..text.floor_char_boundary(count)).unwrap_or_default()
}
