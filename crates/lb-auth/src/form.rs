//! Parameters of queries and forms.

/// Names and values, decoded. A value that is empty counts as absent, as OAuth says.
#[derive(Debug)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a query or the body of a form; `None` when it is not UTF-8, because a value could not be given back then.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let pairs: Vec<(String, String)> = url::form_urlencoded::parse(bytes)
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        let unread = |text: &str| text.contains('\u{fffd}');
        (!pairs.iter().any(|(name, value)| unread(name) || unread(value))).then_some(Self(pairs))
    }

    /// The value of a parameter, the first if there are several.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Whether a parameter stands there more than once; only `resource` may.
    pub fn repeats(&self) -> bool {
        let mut names: Vec<&str> =
            self.0.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "resource").collect();
        names.sort_unstable();
        names.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_once() {
        let form = Form::parse(b"a=1+2&b=%C3%A4&empty=&resource=x&resource=y").unwrap();
        assert_eq!((form.get("a"), form.get("b"), form.get("empty")), (Some("1 2"), Some("ä"), None));
        assert_eq!(form.all("resource"), ["x", "y"]);
        assert!(!form.repeats() && Form::parse(b"a=1&a=1").unwrap().repeats());
        assert!(Form::parse(b"state=%ff").is_none());
    }
}
