//! Who is calling.

use std::sync::Arc;

/// Who is calling, after authentication. State of one principal is never visible to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Everybody on a gateway without a login: one principal.
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }

    /// The one with this name, as it was authenticated before.
    pub fn named(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
