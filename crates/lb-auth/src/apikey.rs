//! Keys for programs that have no browser: `lbk_` and 43 characters, of which a file keeps the hashes.

use std::collections::HashMap;

use crate::scope::Scopes;
use crate::secret::{Hash, Secret, encode, random};

const PREFIX: &str = "lbk_";

/// Keys that are good, by their hash.
///
/// A key is found by the SHA-256 of all of it, and by nothing of the key itself. Where in a table a hash leads, and whether
/// another one lies there, may show in the time that it takes; but whoever guesses cannot choose what a guess hashes to, and
/// one that is nearly right has a hash as far from the right one as any other. Two hashes are compared in constant time.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys(HashMap<Hash, ApiKey>);

/// What is known of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its name.
    pub id: String,
    /// What it may do.
    pub scopes: Scopes,
}

/// What is wrong with a file of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct KeyFileError {
    /// Which line, from 1 on.
    pub line: usize,
    /// What to change.
    pub why: &'static str,
}

impl ApiKeys {
    /// Reads a file: a key in each line, `ID SHA256HEX SCOPE...`. Empty lines and those that begin with `#` do not count.
    ///
    /// # Errors
    /// The first line that is none.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut keys = HashMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (hash, key) = parse_line(text).map_err(|why| KeyFileError { line, why })?;
            let again = keys.values().any(|other: &ApiKey| other.id == key.id) || keys.insert(hash, key).is_some();
            if again {
                return Err(KeyFileError { line, why: "the id or the key stands in an earlier line, too" });
            }
        }
        Ok(Self(keys))
    }

    /// Finds the key that was sent.
    pub fn find(&self, sent: &str) -> Option<&ApiKey> {
        sent.strip_prefix(PREFIX).and_then(|_| self.0.get(&Hash::of(sent.as_bytes())))
    }

    /// The one with this hash.
    pub(crate) fn by_hash(&self, hash: &Hash) -> Option<&ApiKey> {
        self.0.get(hash)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a bearer token has the form of a key.
    pub(crate) fn looks_like(sent: &str) -> bool {
        sent.starts_with(PREFIX)
    }
}

fn parse_line(text: &str) -> Result<(Hash, ApiKey), &'static str> {
    let mut words = text.split_whitespace();
    let id =
        words.next().filter(|id| is_id(id)).ok_or("an id has 1 to 64 characters of a-z, A-Z, 0-9, `_`, `-` and `.`")?;
    let hash = words
        .next()
        .and_then(Hash::from_hex)
        .ok_or("after the id comes the SHA-256 of the key, 64 hexadecimal digits")?;
    let scopes = words.collect::<Vec<_>>().join(" ");
    let scopes = Scopes::parse(&scopes).filter(|scopes| !scopes.is_empty());
    let scopes = scopes.ok_or("after the hash come scopes: mcp:read, mcp:call, mcp:admin or server:NAME")?;
    Ok((hash, ApiKey { id: id.to_owned(), scopes }))
}

fn is_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=64).contains(&text.len()) && text.chars().all(fits)
}

/// Makes a key: what its user gets, and the line for the file.
///
/// # Errors
/// When the id could not stand in the file.
pub fn new_key(id: &str, scopes: &Scopes) -> Result<(Secret, String), &'static str> {
    if !is_id(id) {
        return Err("an id has 1 to 64 characters of a-z, A-Z, 0-9, `_`, `-` and `.`");
    }
    let scopes = if scopes.is_empty() { &Scopes::usual() } else { scopes };
    let key = Secret::new(format!("{PREFIX}{}", encode(&random::<32>())));
    let line = format!("{id} {} {scopes}", key.hash().hex());
    Ok((key, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_found_by_its_line_and_only_by_itself() {
        let (key, line) = new_key("ci", &Scopes::default()).unwrap();
        assert_eq!(key.expose().len(), 47);
        assert!(!line.contains(key.expose()));
        let keys = ApiKeys::parse(&format!("# keys\n\n{line}\n")).unwrap();
        assert_eq!(keys.find(key.expose()).unwrap().id, "ci");
        assert_eq!(keys.find(key.expose()).unwrap().scopes, Scopes::usual());
        let hash = line.split(' ').nth(1).unwrap();
        for bad in ["", "lbk_", hash, &format!("{}x", key.expose()), &key.expose().to_lowercase()] {
            assert!(keys.find(bad).is_none(), "{bad}");
        }
        assert!(new_key("a b", &Scopes::default()).is_err());
    }

    #[test]
    fn lines_that_are_wrong_are_named() {
        let hash = "a".repeat(64);
        for (text, line) in [
            (format!("a {hash} mcp:read\nb {hash} mcp:read"), 2),
            (format!("a {hash} mcp:read\na {} mcp:read", "b".repeat(64)), 2),
            (format!("\n#\na/b {hash} mcp:read"), 3),
            ("a 1234 mcp:read".into(), 1),
            (format!("a {hash}"), 1),
            (format!("a {hash} all"), 1),
            ("a".into(), 1),
        ] {
            assert_eq!(ApiKeys::parse(&text).unwrap_err().line, line, "{text}");
        }
    }
}
