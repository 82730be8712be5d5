//! Settings out of variables, and variables that are none.

use std::ffi::OsString;

use super::gather::{Place, Told};
use super::kind::{Raw, Unit};
use super::table::{INLINE_CONFIG, OTHER_VARIABLES, SETTINGS_VARIABLE, Setting, table};
use crate::problem::{Problem, Severity};
use crate::suggest::nearest;

/// The variables of a process.
pub(crate) struct Variables(Vec<(String, String)>);

impl Variables {
    /// Those that are text; ours can be nothing else.
    pub fn new(all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Self(all.into_iter().filter_map(text).collect())
    }

    /// A variable that holds something; an empty one counts as not set, as shells and unit files mean it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// What they say of a setting: our own name first, then the aliases.
    pub fn of(&self, setting: &Setting) -> Vec<Told> {
        let own = std::iter::once((setting.variable(), Place::Variable as fn(String) -> Place));
        let aliases = setting.aliases.iter().map(|name| ((*name).to_owned(), Place::Alias as fn(String) -> Place));
        let told = |(name, place): (String, fn(String) -> Place)| {
            let value = self.get(&name)?;
            let unit = if name.ends_with("_MS") { Unit::Milliseconds } else { Unit::Seconds };
            Some(Told { place: place(name), raw: Raw::Text(value.to_owned()), unit })
        };
        own.chain(aliases).filter_map(told).collect()
    }

    /// Warnings about names that look like ours and are not.
    pub fn unknown(&self) -> Vec<Problem> {
        let own: Vec<String> = table().iter().map(Setting::variable).collect();
        let mut known: Vec<&str> = table().iter().flat_map(|setting| setting.aliases).copied().collect();
        known.extend(own.iter().map(String::as_str));
        known.extend([SETTINGS_VARIABLE, INLINE_CONFIG]);
        let is_ours = |name: &str| name.starts_with("MCP_CONFIG_") || name.starts_with("LANDBRIDGE_");
        let mut unknown: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        unknown.retain(|name| is_ours(name) && !known.contains(name) && !OTHER_VARIABLES.contains(name));
        unknown.sort_unstable();
        unknown.into_iter().map(|name| warning(name, &known)).collect()
    }
}

fn warning(name: &str, known: &[&str]) -> Problem {
    Problem {
        severity: Severity::Warning,
        file: "".into(),
        line: 0,
        column: 0,
        key: crate::report::cut(name).escape_debug().to_string(),
        message: "a variable of this name has no effect".to_owned(),
        hint: nearest(name, known).map(|known| format!("did you mean {known}?")),
    }
}
