//! The least that is needed to look into JSON text without trusting anybody's parser: where the members of an object
//! stand. Text that is not JSON is a panic, which here is a failed test.

use std::ops::Range;

/// The members of an object: name without its quotes, and value, both as written.
pub fn members(text: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut at = white(text, 0);
    assert_eq!(text.get(at), Some(&b'{'), "an object: {}", show(text));
    let mut found = Vec::new();
    at = white(text, at + 1);
    while text[at] != b'}' {
        let name = at + 1..value(text, at) - 1;
        at = white(text, name.end + 1);
        assert_eq!(text[at], b':', "a colon at {at}: {}", show(text));
        let start = white(text, at + 1);
        let end = value(text, start);
        found.push((&text[name], &text[start..end]));
        at = white(text, end);
        if text[at] == b',' {
            at = white(text, at + 1);
        } else {
            assert_eq!(text[at], b'}', "a comma or the end at {at}: {}", show(text));
        }
    }
    assert_eq!(white(text, at + 1), text.len(), "nothing after the object: {}", show(text));
    found
}

/// A member or an element as it stands in its container.
pub struct Child {
    /// From the start of the name, or of the value where there is none, to the end of the value.
    pub whole: Range<usize>,
    pub value: Range<usize>,
}

/// The children of the object or array that is all of `text`.
pub fn children(text: &[u8]) -> Vec<Child> {
    let mut found = Vec::new();
    let mut at = white(text, 1);
    while !matches!(text[at], b'}' | b']') {
        let start = at;
        if text[0] == b'{' {
            at = white(text, string(text, at)) + 1;
            at = white(text, at);
        }
        let end = value(text, at);
        found.push(Child { whole: start..end, value: at..end });
        at = white(text, end);
        if text[at] == b',' {
            at = white(text, at + 1);
        }
    }
    found
}

/// The value of a member whose name is written plainly.
pub fn member<'t>(text: &'t [u8], name: &str) -> Option<&'t [u8]> {
    members(text).into_iter().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
}

/// Past the value that starts at `at`. Brackets are counted, not matched: the texts come out of our generator.
pub fn value(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    loop {
        match text[at] {
            b'"' => at = string(text, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            _ => at = word(text, at),
        }
        if depth == 0 {
            return at;
        }
    }
}

/// Past the string that starts at `at`.
pub fn string(text: &[u8], mut at: usize) -> usize {
    at += 1;
    loop {
        match text[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Past the number or literal that starts at `at`.
pub fn word(text: &[u8], at: usize) -> usize {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    let length = text[at..].iter().take_while(|byte| plain(byte)).count();
    assert_ne!(length, 0, "a value at {at}: {}", show(text));
    at + length
}

/// Past the white space at `at`.
pub fn white(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// Text for a failure message.
pub fn show(text: &[u8]) -> String {
    let end = text.len().min(2_000);
    String::from_utf8_lossy(&text[..end]).escape_debug().to_string()
}
