//! Where a browser may be sent back to.

use url::{Host, Url};

/// The longest address, in bytes.
pub const URI_BYTES_MAX: usize = 2_048;

/// Schemes that no operator can have meant: they run or read something in the browser.
const NEVER: &[&str] = &["javascript", "data", "file", "blob", "about", "vbscript", "view-source", "ws", "wss", "ftp"];

/// Checks an address that a client registers: `https`, `http` on loopback, or a scheme of an application that the
/// operator has allowed. It must be written as a browser would write it, so that nobody reads another host in it.
pub fn check(text: &str, schemes: &[String]) -> Result<(), &'static str> {
    parse(text, schemes).map(drop)
}

fn parse(text: &str, schemes: &[String]) -> Result<Url, &'static str> {
    if text.is_empty() || URI_BYTES_MAX < text.len() {
        return Err("an address has 1 to 2048 bytes");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("an address is printable ASCII");
    }
    if text.contains(['\\', '*', '#', '<', '>', '"']) {
        return Err("an address has no fragment, wildcard, backslash or quote");
    }
    let url = Url::parse(text).map_err(|_| "the address cannot be read")?;
    if !url.username().is_empty() || url.password().is_some() || text.contains('@') && url.path().find('@').is_none() {
        return Err("an address has no user and no password");
    }
    if has_dots(text) {
        return Err("an address has no `.` or `..` in its path");
    }
    let written = url.as_str();
    if written != text && written.strip_suffix('/') != Some(text) {
        return Err("write the address as a browser does: lower case host, no default port, nothing to resolve");
    }
    match url.scheme() {
        "https" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err("http is for 127.0.0.1, [::1] and localhost: use https"),
        other if NEVER.contains(&other) => Err("the scheme is never allowed"),
        other if schemes.iter().any(|scheme| scheme == other) => Ok(url),
        _ => Err("the scheme is not allowed: use https, or let the operator add it to auth.redirect_schemes"),
    }
}

/// Whether an address that a request names is one of those that were registered: the very same, or on loopback the same
/// but for the port, which an application cannot choose in advance.
pub fn is_registered<'a>(text: &str, registered: impl IntoIterator<Item = &'a str>, schemes: &[String]) -> bool {
    let Ok(url) = parse(text, schemes) else { return false };
    registered.into_iter().any(|known| known == text || same_but_port(&url, known))
}

fn same_but_port(url: &Url, known: &str) -> bool {
    let Ok(mut known) = Url::parse(known) else { return false };
    if url.scheme() != "http" || known.scheme() != "http" || !is_loopback(url) || !is_loopback(&known) {
        return false;
    }
    known.set_port(url.port()).is_ok() && known == *url
}

/// What is shown to a person: the host, or the scheme of an application.
pub fn shown_host(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => match url.host_str() {
            Some(host) if matches!(url.scheme(), "http" | "https") => host.to_owned(),
            _ => format!("{}:", url.scheme()),
        },
        Err(_) => String::new(),
    }
}

/// Whether an address stays on the machine of whoever opens it.
pub fn stays_local(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| is_loopback(&url))
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address == std::net::Ipv4Addr::LOCALHOST,
        Some(Host::Ipv6(address)) => address == std::net::Ipv6Addr::LOCALHOST,
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Whether a part of the path is `.` or `..`, however it is written.
pub(crate) fn has_dots(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
    path.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
}

#[cfg(test)]
mod tests;
