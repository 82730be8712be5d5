//! The name of a project: of its folder, its package and its program.

use std::fmt;

/// A name that is safe as a folder, a package and a word in a config: `[a-z][a-z0-9_-]{0,63}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

const BYTES_MAX: usize = 64;
/// As long as the name of a server may be.
const SERVER_BYTES_MAX: usize = 32;
/// What Cargo refuses, or what would stand in the way of the standard library or of Cargo's own folders.
const TAKEN: [&str; 62] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "target",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

impl Name {
    /// Reads a name: small letters for capitals, `-` for what is neither letter, digit, `-` nor `_`.
    ///
    /// # Errors
    /// A path, a control character, or nothing left to call it, with what to give instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let advice = "give a name such as my-server";
        if text.chars().any(|c| c.is_control() || matches!(c, '/' | '\\'))
            || text.starts_with('.')
            || text.contains("..")
        {
            return Err(format!("a name is no path; {advice}, and its place with --dir"));
        }
        let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
        let name: String = text.chars().map(allowed).collect();
        let name = name.trim_matches('-');
        match name.chars().next() {
            None => Err(format!("nothing is left of it; {advice}")),
            Some(first) if !first.is_ascii_lowercase() => Err(format!("a name begins with a letter; {advice}")),
            Some(_) if BYTES_MAX < name.len() => Err(format!("a name has {BYTES_MAX} characters at most")),
            Some(_) if TAKEN.contains(&name) => Err(format!("{name:?} means something to Rust or Cargo; {advice}")),
            Some(_) => Ok(Self(name.to_owned())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name for a config, where it is shorter and has no two `_` in a row.
    pub fn server(&self) -> String {
        let mut name: String = self.0.chars().take(SERVER_BYTES_MAX).collect();
        while name.contains("__") {
            name = name.replace("__", "_");
        }
        name
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_fit_or_refused() {
        for (text, want) in [
            ("weather", "weather"),
            ("My Server!", "my-server"),
            ("--Ärger--", "rger"),
            ("a_b-c9", "a_b-c9"),
            ("x", "x"),
        ] {
            assert_eq!(Name::parse(text).map(|name| name.0), Ok(want.to_owned()), "{text:?}");
        }
        let long = "x".repeat(65);
        let bad = [
            "",
            "-",
            "---",
            "!",
            "9lives",
            "_x",
            ".",
            "..",
            "../x",
            "../../etc/x",
            "/etc/x",
            "a/b",
            "a\\b",
            "a/../b",
            "a..b",
            ".hidden",
            "a\0b",
            "a\nb",
            "\u{1b}[31m",
            "\u{7f}",
            "fn",
            "test",
            "Self",
            "std",
            &long,
            "éé",
        ];
        for text in bad {
            assert!(Name::parse(text).is_err(), "{text:?}");
        }
        assert!(TAKEN.is_sorted());
        assert_eq!(Name("a__b___c".to_owned()).server(), "a_b_c");
    }
}
