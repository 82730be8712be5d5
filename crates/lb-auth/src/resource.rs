//! Which of our paths a token is for.

/// The path of the whole gateway; every other resource lies below it.
const ROOT: &str = "/mcp";

/// The resources of one gateway: `PUBLIC_URL/mcp` and every path below it.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    public_url: String,
}

impl Resources {
    pub fn new(public_url: &str) -> Self {
        Self { public_url: public_url.to_owned() }
    }

    /// The whole gateway.
    pub fn root(&self) -> String {
        format!("{}{ROOT}", self.public_url)
    }

    /// A resource as we write it; `None` when it is not ours.
    pub fn ours(&self, resource: &str) -> Option<String> {
        let path = plain(resource.strip_prefix(&self.public_url)?)?;
        Some(format!("{}{path}", self.public_url))
    }

    /// The resource that a request for this path belongs to.
    pub fn of_path(&self, path: &str) -> String {
        plain(path).map_or_else(|| self.root(), |path| format!("{}{path}", self.public_url))
    }

    /// Whether a token for this resource is good at a path: it names the path or one that the path lies below. What is
    /// not MCP belongs to the whole gateway.
    pub fn covers(&self, audience: &str, path: &str) -> bool {
        let Some(granted) = audience.strip_prefix(&self.public_url).and_then(plain) else { return false };
        match plain(path) {
            Some(path) => path.strip_prefix(granted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            None => granted == ROOT && !path.starts_with(ROOT),
        }
    }
}

/// A path of ours without a slash at its end; `None` when anything in it could be read in two ways.
fn plain(path: &str) -> Option<&str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let rest = path.strip_prefix(ROOT)?;
    let fits = |part: &[u8]| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        !matches!(part, b"" | b"." | b"..") && part.iter().all(plain)
    };
    (rest.is_empty() || rest.strip_prefix('/')?.as_bytes().split(|byte| *byte == b'/').all(fits)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_at_its_path_and_below() {
        let ours = Resources::new("https://gw.test");
        for (audience, path, want) in [
            ("https://gw.test/mcp", "/mcp", true),
            ("https://gw.test/mcp/", "/mcp/", true),
            ("https://gw.test/mcp", "/mcp/server/git", true),
            ("https://gw.test/mcp/server/git", "/mcp/server/git", true),
            ("https://gw.test/mcp/server/git", "/mcp/server/git/x", true),
            ("https://gw.test/mcp/server/git", "/mcp/server/github", false),
            ("https://gw.test/mcp/server/git", "/mcp", false),
            ("https://gw.test/mcp/server/git", "/mcp/native", false),
            ("https://gw.test/mcp", "/mcp/../admin", false),
            ("https://gw.test/mcp", "/mcp/%2e%2e/x", false),
            ("https://gw.test/mcp/server", "/mcp/server%2fgit", false),
            ("https://gw.test/mcp", "/mcp//x", false),
            ("https://gw.test/mcp", "/mcpx", false),
            ("https://gw.test/mcp", "/servers", true),
            ("https://gw.test/mcp/native", "/servers", false),
            ("https://evil.test/mcp", "/mcp", false),
            ("https://gw.test.evil/mcp", "/mcp", false),
            ("https://gw.test", "/mcp", false),
            ("", "/mcp", false),
        ] {
            assert_eq!(ours.covers(audience, path), want, "{audience} {path}");
        }
    }

    #[test]
    fn foreign_resources_are_not_ours() {
        let ours = Resources::new("https://gw.test");
        assert_eq!(ours.ours("https://gw.test/mcp/").as_deref(), Some("https://gw.test/mcp"));
        assert_eq!(ours.ours("https://gw.test/mcp/server/a.b").as_deref(), Some("https://gw.test/mcp/server/a.b"));
        for bad in [
            "https://gw.test",
            "https://gw.test/",
            "https://gw.test/mcpx",
            "https://gw.test/mcp?x",
            "https://gw.test/mcp#x",
            "https://gw.test/mcp/a%2fb",
            "https://gw.test/mcp/..",
            "http://gw.test/mcp",
            "https://gw.test:443/mcp",
            "mcp",
            "",
        ] {
            assert_eq!(ours.ours(bad), None, "{bad}");
        }
    }
}
