//! SPDX licence expressions: `MIT OR Apache-2.0`, `(A OR B) AND C`, `A WITH exception`, and the old `A/B`.

use std::collections::BTreeSet;

/// Whether an expression can be met with the allowed licences alone; an error names what cannot be read.
pub fn allowed(expression: &str, allow: &BTreeSet<String>) -> Result<bool, SpdxError> {
    // Crates published before expressions were checked write `/` where they mean OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allow };
    let verdict = reader.any()?;
    match reader.words.first() {
        None => Ok(verdict),
        Some(word) => Err(SpdxError::Unexpected((*word).to_owned())),
    }
}

/// Why an expression cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum SpdxError {
    /// This word stands where it may not.
    Unexpected(String),
    /// The expression stops where a licence is due.
    Ended,
}

impl std::fmt::Display for SpdxError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unexpected(word) => write!(out, "unexpected `{word}` in the licence expression"),
            Self::Ended => write!(out, "the licence expression ends too early"),
        }
    }
}

struct Reader<'a> {
    words: &'a [&'a str],
    allow: &'a BTreeSet<String>,
}

impl<'a> Reader<'a> {
    /// `all OR all OR …`; AND binds tighter.
    fn any(&mut self) -> Result<bool, SpdxError> {
        let mut verdict = self.all()?;
        while self.take("OR") {
            verdict |= self.all()?;
        }
        Ok(verdict)
    }

    fn all(&mut self) -> Result<bool, SpdxError> {
        let mut verdict = self.one()?;
        while self.take("AND") {
            verdict &= self.one()?;
        }
        Ok(verdict)
    }

    fn one(&mut self) -> Result<bool, SpdxError> {
        if self.take("(") {
            let verdict = self.any()?;
            return if self.take(")") { Ok(verdict) } else { Err(self.problem()) };
        }
        let licence = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok(self.allow.contains(&format!("{licence} WITH {exception}")));
        }
        Ok(self.allow.contains(licence))
    }

    fn name(&mut self) -> Result<&'a str, SpdxError> {
        match self.words.split_first() {
            Some((first, rest)) if !matches!(*first, "(" | ")" | "AND" | "OR" | "WITH") => {
                self.words = rest;
                Ok(first)
            }
            _ => Err(self.problem()),
        }
    }

    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }

    fn problem(&self) -> SpdxError {
        self.words.first().map_or(SpdxError::Ended, |word| SpdxError::Unexpected((*word).to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_the_allowed_licences() {
        let allow = ["MIT", "Apache-2.0", "ISC", "Apache-2.0 WITH LLVM-exception"].map(String::from).into();
        for (text, want) in [
            ("MIT", Ok(true)),
            ("GPL-3.0", Ok(false)),
            ("GPL-3.0 OR MIT", Ok(true)),
            ("MIT/GPL-3.0", Ok(true)),
            ("MIT AND GPL-3.0", Ok(false)),
            // AND binds tighter than OR, so the ISC arm alone is enough here and not in the next line.
            ("ISC OR MIT AND GPL-3.0", Ok(true)),
            ("(ISC OR MIT) AND GPL-3.0", Ok(false)),
            ("(MIT OR GPL-3.0) AND (ISC OR GPL-2.0)", Ok(true)),
            ("Apache-2.0 WITH LLVM-exception", Ok(true)),
            ("MIT WITH LLVM-exception", Ok(false)),
            ("", Err(SpdxError::Ended)),
            ("MIT OR", Err(SpdxError::Ended)),
            ("(MIT", Err(SpdxError::Ended)),
            ("MIT ISC", Err(SpdxError::Unexpected("ISC".into()))),
            ("MIT )", Err(SpdxError::Unexpected(")".into()))),
        ] {
            assert_eq!(allowed(text, &allow), want, "expression {text:?}");
        }
    }
}
