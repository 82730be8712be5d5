//! Patterns that others give us: short, small when compiled, and matched by an engine that never goes back.

use regex::{Regex, RegexBuilder};

/// Bytes that a pattern may have as text. What is made of it before its size is looked at grows with these: two of them
/// (`\w`) stand for some thousand bytes.
const TEXT_BYTES_MAX: usize = 1 << 10;
/// Memory that it may take when compiled. The time for a byte of a text that is matched grows with this in the worst case.
const COMPILED_BYTES_MAX: usize = 1 << 18;
/// How deep it may be nested.
const DEPTH_MAX: u32 = 32;

/// Why there is no pattern.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatternError {
    /// Its text is too long to be looked at.
    #[error("is longer than {TEXT_BYTES_MAX} bytes")]
    Long,
    /// It is no regular expression, or too large a one.
    #[error("is no regular expression: {0}")]
    Bad(String),
}

/// Compiles a pattern.
pub(crate) fn compile(text: &str) -> Result<Regex, PatternError> {
    if TEXT_BYTES_MAX < text.len() {
        return Err(PatternError::Long);
    }
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(COMPILED_BYTES_MAX).nest_limit(DEPTH_MAX);
    builder.build().map_err(|error| PatternError::Bad(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Patterns that engines which try one way after the other need ages for, and some whose states are many.
    const HOSTILE: [&str; 12] = [
        r"(a+)+$",
        r"^(a|a)*$",
        r"^(a|aa)+$",
        r"(a*)*b",
        r"(.*a){20}$",
        r"(?:a?){64}a{64}$",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
        r"(x+x+)+y",
        r"(a|b)*a(a|b){12}$",
        r"\w*\d\w*\d\w*\d$",
        r"(?:.|.|.|.)*!$",
        r"(?i:a|A|á)*z{3}",
    ];

    #[test]
    fn the_time_to_match_grows_with_the_text_and_no_faster() {
        for pattern in HOSTILE {
            let compiled = compile(pattern).unwrap();
            let took = |bytes: usize| {
                let text = "ab".repeat(bytes / 2) + "!";
                let start = Instant::now();
                std::hint::black_box(compiled.is_match(&text));
                start.elapsed()
            };
            took(1 << 10);
            let (short, long) = (took(1 << 17), took(1 << 20));
            // Eight times the text: with room for a machine that does other things, and far from the square of it.
            assert!(long < short * 80 + Duration::from_millis(50), "{pattern}: {short:?}, then {long:?}");
        }
    }

    #[test]
    fn what_would_be_large_is_refused_at_once() {
        let long = r"\w".repeat(1 << 20);
        let deep = "(".repeat(400) + &")".repeat(400);
        for pattern in [
            "((a{1000}){1000}){1000}",
            "a{1000000}",
            r"\pL{1000}",
            r"(\w{100}|\d{100}){100}",
            "(?:x{0,1000}){1000}",
            &r"(?i)\pL".repeat(140),
            &deep,
            &long,
            "(",
            "a{2,1}",
            r"(?=a)",
            r"(a)\1",
        ] {
            let start = Instant::now();
            let refused = compile(pattern).is_err();
            let took = start.elapsed();
            let shown: String = pattern.chars().take(40).collect();
            assert!(refused, "{shown}");
            // Ten times 50 ms.
            assert!(took < Duration::from_millis(500), "{shown}: {took:?}");
        }
    }

    #[test]
    fn what_people_write_is_compiled() {
        for (pattern, text, want) in [
            (r"^(get|list)_\w+$", "get_name", true),
            (r".*", "", true),
            (r"(?i)READ", "read_file", true),
            (r"^[a-z0-9_-]{1,64}$", "git-hub_2", true),
            (r"^\p{Lu}", "é", false),
            (r"^.{1,100}@example\.org$", "a@example.org", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), want, "{pattern} {text}");
        }
        let longest = "a".repeat(TEXT_BYTES_MAX);
        assert!(compile(&longest).unwrap().is_match(&longest));
        assert!(matches!(compile(&format!("{longest}a")), Err(PatternError::Long)));
    }
}
