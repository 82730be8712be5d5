//! `${VAR}` in values: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, and `$${` for a literal `${`.
//!
//! Knows the environment only as a lookup. What comes out is never expanded again.

use crate::report::cut;

/// How variables are looked up.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// An expanded value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub text: String,
    /// At least one variable was in it.
    pub used_variable: bool,
}

/// Why a value cannot be expanded. Names the variable, never a value or a default.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpandError {
    #[error("the variable {0} is not set")]
    Missing(String),
    #[error("{0:?} is no variable name")]
    Name(String),
    #[error("a ${{ is not closed")]
    Open,
    #[error("a default holds another ${{")]
    Nested,
}

impl ExpandError {
    pub fn hint(&self) -> String {
        match self {
            Self::Missing(name) if name == "workspaceFolder" => "editors set this one; write the folder out".into(),
            Self::Missing(name) if name == "userHome" => "write ${HOME}".into(),
            Self::Missing(name) => format!("set it, or write ${{{name}:-default}}"),
            Self::Name(name) if name.starts_with("input:") => "editors ask for inputs; write ${NAME} and set it".into(),
            Self::Name(_) | Self::Open => "write $${ for a literal ${".into(),
            Self::Nested => "set one of the variables before the start instead".into(),
        }
    }
}

/// Replaces every variable in `text`.
pub(crate) fn expand(text: &str, env: Lookup<'_>) -> Result<Expanded, ExpandError> {
    let mut out = String::with_capacity(text.len());
    let mut used_variable = false;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(literal) = before.strip_suffix('$') {
            out.push_str(literal);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let (inner, behind) = after.split_once('}').ok_or(ExpandError::Open)?;
        out.push_str(&variable(inner, env)?);
        used_variable = true;
        rest = behind;
    }
    out.push_str(rest);
    Ok(Expanded { text: out, used_variable })
}

/// The value of what stands between the braces. An empty variable takes its default, as in a shell.
fn variable(inner: &str, env: Lookup<'_>) -> Result<String, ExpandError> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    // Parentheses are in the names of two Windows variables, `ProgramFiles(x86)` among them.
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | ')');
    if !starts_well || !name.chars().all(allowed) {
        return Err(ExpandError::Name(cut(name)));
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(ExpandError::Nested);
    }
    match (env(name), default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(ExpandError::Missing(cut(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Result<&str, ExpandError>) {
        let env = |name: &str| match name {
            "HOME" => Some("/home/a".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICK" => Some("${HOME}".to_owned()),
            "ProgramFiles(x86)" => Some("P".to_owned()),
            _ => None,
        };
        let got = expand(text, &env).map(|expanded| expanded.text);
        assert_eq!(got, want.map(String::from), "input {text:?}");
    }

    #[test]
    fn variables_are_replaced_once_and_only_in_braces() {
        check("", Ok(""));
        check("plain $HOME $ $$ 5$", Ok("plain $HOME $ $$ 5$"));
        check("${HOME}/x:${HOME}", Ok("/home/a/x:/home/a"));
        check("${env:HOME}", Ok("/home/a"));
        check("a${EMPTY}b", Ok("ab"));
        check("${EMPTY:-d}${NONE:-e}${HOME:-f}${NONE:-}", Ok("de/home/a"));
        check("${env:NONE:-a:-b}", Ok("a:-b"));
        check("${TRICK}", Ok("${HOME}"));
        check("$${HOME} $${", Ok("${HOME} ${"));
        check("${ProgramFiles(x86)}", Ok("P"));
    }

    #[test]
    fn what_cannot_be_replaced_is_named() {
        check("${NONE}", Err(ExpandError::Missing("NONE".into())));
        check("${input:token}", Err(ExpandError::Name("input:token".into())));
        check("${}", Err(ExpandError::Name(String::new())));
        check("${A B:-hunter2}", Err(ExpandError::Name("A B".into())));
        check("${1A}", Err(ExpandError::Name("1A".into())));
        check("x ${HOME", Err(ExpandError::Open));
        check("${NONE:-${HOME}}", Err(ExpandError::Nested));
    }

    #[test]
    fn literal_values_are_told_from_variables() {
        let used = |text: &str| expand(text, &|_| Some("v".into())).unwrap().used_variable;
        assert!(used("Bearer ${TOKEN}"));
        assert!(!used("Bearer token"));
        assert!(!used("$${TOKEN}"));
    }
}
