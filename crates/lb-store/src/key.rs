//! Names under which things are kept.

use std::fmt;
use std::sync::Arc;

use crate::Error;

/// Opens the names that are ours alone; no [`Key`] contains it.
const OURS: char = '\u{1}';

/// The name of a value, a stream, a claim or a channel: 1 to 512 bytes of printable ASCII without spaces.
///
/// Braces mark a tag: at most one, not empty, as in `session:{4f1c}:record`. A batch may only touch keys of one tag,
/// because a Valkey cluster keeps those, and only those, on one node. A key without braces is a tag of its own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    /// [`Error::WrongShape`] with the rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() || Self::BYTES_MAX < text.len() {
            return Err(Error::WrongShape("a key has 1 to 512 bytes"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::WrongShape("a key is printable ASCII without spaces"));
        }
        let braces: String = text.chars().filter(|c| matches!(c, '{' | '}')).collect();
        if !matches!(braces.as_str(), "" | "{}") || text.contains("{}") {
            return Err(Error::WrongShape("a key has at most one tag in braces, and that is not empty"));
        }
        Ok(Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What decides where it lies: the text in braces, or all of it.
    pub fn tag(&self) -> &str {
        let inside = self.0.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        inside.map_or(&self.0, |(tag, _)| tag)
    }

    /// Whether a cluster keeps both on one node.
    pub(crate) fn lies_with(&self, other: &Self) -> bool {
        // A key without braces lies where its whole name leads, which is not where a tag of that text does.
        self.tag() == other.tag() && self.0.contains('{') == other.0.contains('{')
    }

    /// Where a store in this process keeps the last token of a claim: it outlives the claim.
    pub(crate) fn token(&self) -> Arc<str> {
        format!("{OURS}{}", self.0).into()
    }

    /// The same on a server: in the place of the key, so that a cluster keeps both on one node.
    pub(crate) fn token_on_server(&self, prefix: &str) -> String {
        if self.0.contains('{') {
            format!("{prefix}{OURS}{}", self.0)
        } else {
            format!("{prefix}{OURS}{{{prefix}{}}}", self.0)
        }
    }

    /// A name that was read back; `None` for those that are ours.
    pub(crate) fn read(text: &str) -> Option<Self> {
        Self::parse(text).ok()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl std::str::FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_printable_and_have_at_most_one_tag() {
        let long = "k".repeat(512);
        for good in ["a", "session:{4f}:record", "{x}", "*?[\\", long.as_str()] {
            assert_eq!(Key::parse(good).unwrap().as_str(), good);
        }
        let longer = "k".repeat(513);
        for bad in ["", "a b", "a\u{1}", "ä", "{}", "a{}b", "{a", "a}", "{a}{b}", "}a{", "{{a}}", longer.as_str()] {
            assert!(matches!(Key::parse(bad), Err(Error::WrongShape(_))), "key {bad:?}");
        }
    }

    #[test]
    fn the_tag_is_what_stands_in_braces_or_all() {
        for (key, tag) in [("session:{4f}:record", "4f"), ("{x}", "x"), ("plain", "plain")] {
            assert_eq!(Key::parse(key).unwrap().tag(), tag, "key {key:?}");
        }
    }

    #[test]
    fn the_token_of_a_claim_lies_where_the_claim_lies() {
        let hashed = |text: &str| match text.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
            Some((tag, _)) => tag.to_owned(),
            None => text.to_owned(),
        };
        for key in ["plain", "owner:{4f}"] {
            let parsed = Key::parse(key).unwrap();
            assert_eq!(hashed(&parsed.token_on_server("p:")), hashed(&format!("p:{key}")), "key {key:?}");
        }
    }
}
