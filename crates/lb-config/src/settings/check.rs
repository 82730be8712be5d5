//! Texts that a setting may be, as they are used later. Each says what is allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Anything.
pub(crate) fn any(text: &str) -> Result<String, &'static str> {
    Ok(text.to_owned())
}

/// A path, which is not looked at yet.
pub(crate) fn path(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains('\0') { Err("give a path") } else { Ok(text.to_owned()) }
}

/// A host and a port, or the path of a socket. Whether the host exists is seen when it is listened on.
pub(crate) fn listen(text: &str) -> Result<String, &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        let good = path.starts_with('/') && !path.ends_with('/') && !path.contains('\0');
        let advice = "give an absolute path, as in unix:/run/user/1000/landbridge/http.sock";
        return if good { any(text) } else { Err(advice) };
    }
    let good = text.rsplit_once(':').is_some_and(|(host, port)| {
        bare_host(host).is_ok() && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    });
    if good { any(text) } else { Err("give HOST:PORT, as in 127.0.0.1:9999, or unix:PATH") }
}

/// A host to listen on; an address of version 6 may stand without brackets.
pub(crate) fn bare_host(text: &str) -> Result<String, &'static str> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(format!("[{address}]"));
    }
    let named = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => !text.is_empty() && !text.contains([':', '/', '[', ']']) && !text.contains(char::is_whitespace),
    };
    if named { any(text) } else { Err("give a name or address alone, as in 127.0.0.1 or ::1") }
}

/// A host as requests name it, in lower case, or `*`.
pub(crate) fn host(text: &str) -> Result<String, &'static str> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let named = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let good = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => text == "*" || (!text.is_empty() && named(text)),
    };
    let advice = "give a name or address alone, without scheme, port or path, as in mcp.example.com or [2001:db8::1]";
    if good { Ok(text.to_ascii_lowercase()) } else { Err(advice) }
}

/// An origin as browsers send it, or `*`.
pub(crate) fn origin(text: &str) -> Result<String, &'static str> {
    let good = text.split_once("://").is_some_and(|(scheme, rest)| {
        let odd = |c: char| c.is_whitespace() || "/?#@".contains(c);
        !scheme.is_empty() && !scheme.contains(odd) && !rest.is_empty() && !rest.contains(odd)
    });
    let advice = "give scheme and host, without a path, as in https://app.example.com";
    if good || text == "*" { any(text) } else { Err(advice) }
}

/// A network as address and length, or one address.
pub(crate) fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let advice = || "give an address or a network, as in 10.0.0.0/8 or ::1".to_owned();
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| advice())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => return Ok((address, most)),
        Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            length.parse().ok().filter(|length| *length <= most).ok_or_else(advice)?
        }
        Some(_) => return Err(advice()),
    };
    // Most likely a slip: was one address meant, or all of them?
    let base = base(address, length);
    if base == address {
        Ok((address, length))
    } else {
        Err(format!("give {base}/{length} for the whole network, or {address} for one address"))
    }
}

/// The first address of a network.
fn base(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// Where clients reach us from elsewhere: scheme, host and perhaps a port.
pub(crate) fn public_url(text: &str) -> Result<String, &'static str> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let http = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let good = http.is_some_and(|rest| !rest.is_empty() && origin(text).is_ok() && listen_or_host(rest));
    if good {
        any(text)
    } else {
        Err("give http:// or https:// and a host, without a path, as in https://mcp.example.com")
    }
}

fn listen_or_host(text: &str) -> bool {
    bare_host(text).is_ok() || listen(text).is_ok()
}

/// The issuer of a provider, byte for byte. The name of a host alone is a tenant as Auth0 writes it.
pub(crate) fn issuer(text: &str) -> Result<String, &'static str> {
    let advice = "give the issuer's URL as the provider writes it, as in https://login.example.com/";
    if !text.contains('/') && host(text).is_ok() && text != "*" {
        return Ok(format!("https://{text}/"));
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let odd = |c: char| c.is_whitespace() || c.is_control() || "?#@".contains(c);
    let good = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(odd));
    if good { any(text) } else { Err(advice) }
}

/// A text without spaces.
pub(crate) fn word(text: &str) -> Result<String, &'static str> {
    let good = !text.is_empty() && text.len() <= 4_096 && !text.contains(char::is_whitespace);
    if good { any(text) } else { Err("give a text without spaces") }
}

/// A program by its absolute path, with its arguments.
pub(crate) fn command(text: &str) -> Result<String, &'static str> {
    let program = text.split_whitespace().next().unwrap_or_default();
    let good = program.starts_with('/') && !program.contains('*') && !text.chars().any(char::is_control);
    if good { any(text) } else { Err("give a program by its absolute path, then its arguments") }
}

/// Where the protocol is served below the root.
pub(crate) fn mcp_path(text: &str) -> Result<String, &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let good = text.len() <= 128
        && text.starts_with('/')
        && text.len() != 1
        && !text.ends_with('/')
        && !text.contains("//")
        && text.bytes().all(plain);
    let taken = ["/health", "/ping", "/sessions", "/metrics", "/waterfall", "/oauth", "/.well-known"];
    // Below them, too: /sessions/x would be taken for the page of a session.
    let is_under = |page: &str| text.strip_prefix(page).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_taken = taken.into_iter().any(is_under);
    if good && !is_taken { any(text) } else { Err("give a path that is free, as in /mcp") }
}

/// A level or a filter; an empty one, as a variable may be, stands for the default.
pub(crate) fn level(text: &str) -> Result<String, &'static str> {
    // A filter takes any other word for the name of a module, and would log nothing else.
    let is_level = |word: &str| {
        ["off", "error", "warn", "info", "debug", "trace"].iter().any(|level| level.eq_ignore_ascii_case(word))
    };
    let named = |part: &str| match part.split_once('=') {
        Some((module, level)) => !module.trim().is_empty() && is_level(level.trim()),
        None => is_level(part),
    };
    let good = text.is_empty() || text.split(',').map(str::trim).all(named);
    let advice = "give off, error, warn, info, debug or trace, or a filter such as lb_backend=debug";
    if good { any(text) } else { Err(advice) }
}

/// A name that is shown to clients.
pub(crate) fn name(text: &str) -> Result<String, &'static str> {
    let good = !text.is_empty() && text.chars().count() <= 64 && !text.contains(char::is_control);
    if good { any(text) } else { Err("give 1 to 64 characters") }
}

/// A sentence that is shown to clients.
pub(crate) fn sentence(text: &str) -> Result<String, &'static str> {
    let good = text.chars().count() <= 1_000 && !text.contains(char::is_control);
    if good { any(text) } else { Err("give at most 1000 characters, on one line") }
}

/// A secret that is long enough not to be guessed.
pub(crate) fn token(text: &str) -> Result<String, &'static str> {
    let good = 16 <= text.len() && text.len() <= 4_096 && text.bytes().all(|byte| byte.is_ascii_graphic());
    match good {
        true if is_placeholder(text) => Err(PLACEHOLDER),
        true => any(text),
        false => Err("give at least 16 characters without spaces, for example of openssl rand -hex 32"),
    }
}

/// The address of a server that keeps state; read in full by whoever connects to it. Nothing of it is shown: it may hold
/// a password.
pub(crate) fn store(text: &str) -> Result<String, &'static str> {
    let schemes = ["valkey://", "redis://", "valkeys://", "rediss://"];
    let good = schemes.iter().any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    let advice = "give valkey://HOST:PORT, redis:// or rediss://, with /DB behind it and USER:PASSWORD@ before HOST if \
                  need be";
    if good { any(text) } else { Err(advice) }
}

/// What keys begin with.
pub(crate) fn prefix(text: &str) -> Result<String, &'static str> {
    let good = text.len() <= 128 && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}*?[]\\".contains(&byte));
    if good { any(text) } else { Err("give at most 128 printable characters, without spaces, braces and wildcards") }
}

/// Why a placeholder is no secret.
const PLACEHOLDER: &str = "this stands for a secret that nobody has put in: variables are expanded in the config of \
                           servers only";

/// Whether a text stands for a variable that was to be put in its place. Anybody could guess it.
fn is_placeholder(text: &str) -> bool {
    text.contains("${")
}

/// Whether a text is a secret and not what stands for one. What a file holds is taken as it stands there.
///
/// # Errors
/// What it is instead, for people.
pub fn secret(text: &str) -> Result<(), &'static str> {
    if is_placeholder(text) { Err(PLACEHOLDER) } else { Ok(()) }
}

/// Whether nobody else knows a secret that things are sealed with, as far as that can be seen.
///
/// # Errors
/// Why it is not, for people.
pub fn unknown(text: &str) -> Result<(), &'static str> {
    // Long enough to be typed, and known to everybody.
    let is_known = ["changeme", "change-me", "your-secret", "your_secret", "replace", "example"]
        .iter()
        .any(|word| text.to_ascii_lowercase().contains(word));
    secret(text)?;
    if is_known { Err("this is an example of a secret: make one with openssl rand -hex 32") } else { Ok(()) }
}

/// A secret that things are sealed with.
pub(crate) fn key(text: &str) -> Result<String, &'static str> {
    let good = 32 <= text.len() && text.len() <= 4_096 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !good {
        return Err("give at least 32 characters without spaces, for example of openssl rand -hex 32");
    }
    unknown(text)?;
    any(text)
}

/// A host and a port that other nodes connect to.
pub(crate) fn node_listen(text: &str) -> Result<String, &'static str> {
    if text.starts_with("unix:") { Err("give HOST:PORT, as in 10.0.0.5:8081") } else { listen(text) }
}
