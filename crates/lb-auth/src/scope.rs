//! Scopes: what a token may do.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// How many scopes are read from one text.
const SCOPES_MAX: usize = 64;

/// One thing that a token may do. Each only adds to what others allow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Lists, reads and gets, on every server.
    Read,
    /// Calls as well, on every server.
    Call,
    /// Changes the gateway as well. Counts only for those whom the rules name.
    Admin,
    /// Reads and calls on this server.
    Server(Box<str>),
}

impl Scope {
    /// Reads one scope.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "mcp:read" => Some(Self::Read),
            "mcp:call" => Some(Self::Call),
            "mcp:admin" => Some(Self::Admin),
            other => {
                let name = other.strip_prefix("server:")?;
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
                ((1..=64).contains(&name.len()) && name.chars().all(fits)).then(|| Self::Server(name.into()))
            }
        }
    }

    /// Whether whoever has this one has the other one by it.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Admin, _) => true,
            (Self::Call, Self::Call | Self::Read | Self::Server(_)) | (Self::Read, Self::Read) => true,
            (Self::Server(mine), Self::Server(theirs)) => mine == theirs,
            (Self::Call, Self::Admin) | (Self::Read | Self::Server(_), _) => false,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str("mcp:read"),
            Self::Call => f.write_str("mcp:call"),
            Self::Admin => f.write_str("mcp:admin"),
            Self::Server(name) => write!(f, "server:{name}"),
        }
    }
}

/// A set of scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    /// What whoever asks for nothing in particular gets.
    pub fn usual() -> Self {
        Self(BTreeSet::from([Scope::Read, Scope::Call]))
    }

    /// Reads scopes between spaces. `offline_access` is understood and means nothing here: whether there is a refresh
    /// token is up to the client's registration. `None` when one of them is not ours.
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        if SCOPES_MAX < words.len() {
            return None;
        }
        words.into_iter().filter(|word| *word != "offline_access").map(Scope::parse).collect::<Option<_>>().map(Self)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one is in it, by itself or by a larger one.
    pub fn has(&self, scope: &Scope) -> bool {
        self.0.iter().any(|mine| mine.includes(scope))
    }

    /// Whether the one for a server is in it, by itself or by a larger one.
    pub fn has_server(&self, server: &str) -> bool {
        self.0.iter().any(|mine| match mine {
            Scope::Admin | Scope::Call => true,
            Scope::Server(name) => **name == *server,
            Scope::Read => false,
        })
    }

    /// Whether all of the others are in it.
    pub fn covers(&self, others: &Self) -> bool {
        others.0.iter().all(|scope| self.has(scope))
    }

    /// Whether there is one for a single server.
    pub fn names_servers(&self) -> bool {
        self.0.iter().any(|scope| matches!(scope, Scope::Server(_)))
    }

    /// Adds one.
    #[must_use]
    pub fn with(mut self, scope: Scope) -> Self {
        self.0.insert(scope);
        self
    }

    /// What is in either.
    #[must_use]
    pub fn union(mut self, others: &Self) -> Self {
        self.0.extend(others.0.iter().cloned());
        self
    }

    /// The same for one whom the rules do not name as an administrator: what is below that stays.
    #[must_use]
    pub fn without_admin(mut self) -> Self {
        if self.0.remove(&Scope::Admin) {
            self.0.insert(Scope::Call);
        }
        self
    }

    /// The same without a copy where there is nothing to take away.
    pub(crate) fn below_admin(&self) -> Cow<'_, Self> {
        let has_admin = self.0.contains(&Scope::Admin);
        if has_admin { Cow::Owned(self.clone().without_admin()) } else { Cow::Borrowed(self) }
    }

    /// One by one, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, scope) in self.0.iter().enumerate() {
            let gap = if place == 0 { "" } else { " " };
            write!(f, "{gap}{scope}")?;
        }
        Ok(())
    }
}

impl serde::Serialize for Scopes {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Scopes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("unknown scope"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_and_written_alike() {
        for (text, want) in [
            ("mcp:call mcp:read", Some("mcp:read mcp:call")),
            ("  mcp:read   mcp:read ", Some("mcp:read")),
            ("server:git-hub_2.x mcp:admin", Some("mcp:admin server:git-hub_2.x")),
            ("mcp:read offline_access", Some("mcp:read")),
            ("", Some("")),
            ("all", None),
            ("mcp:Read", None),
            ("server:", None),
            ("server:a/b", None),
            ("mcp:read\tmcp:call", None),
        ] {
            assert_eq!(Scopes::parse(text).map(|scopes| scopes.to_string()).as_deref(), want, "input {text:?}");
        }
    }
}
