//! The URL of a node's own listener.

use std::net::IpAddr;

use http::{HeaderValue, Uri};
use rustls::pki_types::ServerName;

use crate::guard::is_loopback;

/// Where a node is: `https://10.0.0.2:7700`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUrl {
    secure: bool,
    /// Without brackets.
    host: String,
    port: u16,
    authority: HeaderValue,
}

/// It is no URL under which a node can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeUrlError {
    /// It is none.
    #[error("the URL of a node is http:// or https://, a host, a port where it is not the usual one, and no path")]
    Malformed,
    /// It leads beyond this machine without TLS.
    #[error("nodes speak to each other over https beyond one machine; --node-insecure allows http")]
    Plain,
}

impl NodeUrl {
    /// Reads one. Without TLS it must lead to this machine, unless `insecure` says otherwise.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn parse(text: &str, insecure: bool) -> Result<Self, NodeUrlError> {
        let uri: Uri = text.parse().map_err(|_| NodeUrlError::Malformed)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(NodeUrlError::Malformed),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or(NodeUrlError::Malformed)?;
        let host = authority.host();
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || host.is_empty() {
            return Err(NodeUrlError::Malformed);
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_own = is_loopback(host) || bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
        if !secure && !insecure && !is_own {
            return Err(NodeUrlError::Plain);
        }
        let usual = if secure { 443 } else { 80 };
        let port = match authority.as_str().strip_prefix(host) {
            Some("") => usual,
            _ => authority.port_u16().ok_or(NodeUrlError::Malformed)?,
        };
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| NodeUrlError::Malformed)?;
        Ok(Self { secure, host: bare.to_owned(), port, authority })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    pub(super) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub(super) fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    pub(super) fn server_name(&self) -> Result<ServerName<'static>, String> {
        match self.host.parse::<IpAddr>() {
            Ok(address) => Ok(ServerName::IpAddress(address.into())),
            Err(_) => ServerName::try_from(self.host.clone()).map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_urls_lead_to_this_machine_unless_that_is_allowed() {
        for (text, want) in [
            ("http://127.0.0.1:7700", Ok(("127.0.0.1", 7700))),
            ("http://127.9.9.9:7700/", Ok(("127.9.9.9", 7700))),
            ("http://[::1]:7700", Ok(("::1", 7700))),
            ("http://localhost", Ok(("localhost", 80))),
            ("https://node-2.internal", Ok(("node-2.internal", 443))),
            ("https://10.0.0.2:7700", Ok(("10.0.0.2", 7700))),
            ("http://10.0.0.2:7700", Err(NodeUrlError::Plain)),
            ("http://localhost.evil.example", Err(NodeUrlError::Plain)),
            ("http://node-2.internal", Err(NodeUrlError::Plain)),
            ("ftp://10.0.0.2", Err(NodeUrlError::Malformed)),
            ("10.0.0.2:7700", Err(NodeUrlError::Malformed)),
            ("https://10.0.0.2/path", Err(NodeUrlError::Malformed)),
            ("https://10.0.0.2?x", Err(NodeUrlError::Malformed)),
            ("https://user@10.0.0.2", Err(NodeUrlError::Malformed)),
            ("https://10.0.0.2:99999", Err(NodeUrlError::Malformed)),
            ("", Err(NodeUrlError::Malformed)),
        ] {
            let got = NodeUrl::parse(text, false);
            assert_eq!(got.as_ref().map(NodeUrl::address).map_err(|error| *error), want, "{text}");
        }
        assert_eq!(NodeUrl::parse("http://10.0.0.2:7700", true).unwrap().address(), ("10.0.0.2", 7700));
    }
}
