//! Of which servers somebody may know who looks at a session.

use std::fmt;

/// Those whose name this lets through; by default all of them.
#[derive(Clone, Copy, Default)]
pub struct Sight<'a>(Option<&'a dyn Fn(&str) -> bool>);

impl<'a> Sight<'a> {
    /// All of them.
    pub const ALL: Self = Self(None);

    /// These.
    pub fn of(knows: &'a dyn Fn(&str) -> bool) -> Self {
        Self(Some(knows))
    }

    /// Whether this one is among them.
    pub fn sees(&self, server: &str) -> bool {
        self.0.is_none_or(|knows| knows(server))
    }
}

impl fmt::Debug for Sight<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_none() { "Sight(all)" } else { "Sight(some)" })
    }
}
