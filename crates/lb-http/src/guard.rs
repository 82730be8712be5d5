//! Who may address us, from which web pages, and at what length.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Request};

use crate::settings::Settings;

/// Names and values of all headers together. What hyper bounds is its buffer, which may hold twice as much.
const HEADERS_BYTES_MAX: usize = 32 * 1024;
/// The target of a request.
const TARGET_BYTES_MAX: usize = 8 * 1024;

/// Why a request is turned away before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// More than one `Host`.
    Malformed,
    /// We are not called that.
    Host,
    /// The page that sent it may not.
    Origin,
    /// Its target is too long.
    Target,
    /// Its headers are too long.
    Headers,
}

/// What of a header a message repeats at most.
const SHOWN_CHARS_MAX: usize = 100;

/// Checks the length of the head.
pub(crate) fn check_length<B>(request: &Request<B>) -> Result<(), Refused> {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if TARGET_BYTES_MAX < target {
        return Err(Refused::Target);
    }
    let bytes: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if HEADERS_BYTES_MAX < bytes { Err(Refused::Headers) } else { Ok(()) }
}

/// Checks the host under which we are addressed.
pub(crate) fn check_host<B>(request: &Request<B>, settings: &Settings) -> Result<(), Refused> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(if request.headers().contains_key(HOST) { Refused::Malformed } else { Refused::Host });
    };
    let named = host.to_str().ok().map(without_port).is_some_and(|host| is_ours(host, settings));
    let target = request.uri().host().is_none_or(|host| is_ours(host, settings));
    if named && target { Ok(()) } else { Err(Refused::Host) }
}

/// Checks the page that sent a request, if one did.
pub(crate) fn check_origin(headers: &HeaderMap, settings: &Settings) -> Result<(), Refused> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let allowed = origins.next().is_none() && origin.to_str().is_ok_and(|origin| may_call(origin, headers, settings));
    if allowed { Ok(()) } else { Err(Refused::Origin) }
}

/// What a request is told whose host or page is refused: which one it is, and what would let it in.
pub(crate) fn explain<B>(refused: Refused, request: &Request<B>, settings: &Settings) -> String {
    let (what, option) = match refused {
        Refused::Origin => ("Origin", "--allow-origin"),
        Refused::Host | Refused::Malformed | Refused::Target | Refused::Headers => ("Host", "--allow-host"),
    };
    let named = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let culprit = match refused {
        Refused::Origin => named(ORIGIN),
        _ => match named(HOST).map(without_port) {
            // The header is fine, so it was the target.
            Some(host) if is_ours(host, settings) => request.uri().host(),
            host => host,
        },
    };
    let Some(culprit) = culprit.filter(|culprit| !culprit.is_empty()) else {
        return format!("Forbidden - {what} is missing or unreadable");
    };
    let shown: String = culprit.chars().take(SHOWN_CHARS_MAX).collect();
    let whole = shown.len() == culprit.len();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]/".contains(&byte);
    let typed = whole && culprit.bytes().all(plain) && (what == "Host" || culprit.contains("://"));
    match typed {
        true => format!("Forbidden - {what} {shown:?} is not allowed; start landbridge with {option} {shown}"),
        false => format!("Forbidden - {what} {shown:?} is not allowed"),
    }
}

fn is_ours(host: &str, settings: &Settings) -> bool {
    settings.allowed_hosts.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(host))
}

fn may_call(origin: &str, headers: &HeaderMap, settings: &Settings) -> bool {
    if settings.allowed_origins.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin)) {
        return true;
    }
    let Some((scheme, rest)) = origin.split_once("://") else { return false };
    if !matches!(scheme, "http" | "https") || rest.contains(['/', '@', '?', '#']) {
        return false;
    }
    let host = without_port(rest);
    let own = headers.get(HOST).and_then(|host| host.to_str().ok()).map(without_port);
    is_loopback(host) || own.is_some_and(|own| own.eq_ignore_ascii_case(host))
}

pub(crate) fn is_loopback(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// The host part of an authority. A port is digits only, so that nothing else hides behind a colon.
pub(crate) fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_accepted() {
        let settings = Settings { allowed_hosts: vec!["localhost".into(), "[::1]".into()], ..Settings::default() };
        for (host, want) in [
            ("localhost", Ok(())),
            ("LOCALHOST:8080", Ok(())),
            ("[::1]:8080", Ok(())),
            ("[::1]", Ok(())),
            ("127.0.0.1", Err(Refused::Host)),
            ("evil.example.com", Err(Refused::Host)),
            ("localhost.evil.example.com", Err(Refused::Host)),
            ("localhost:80@evil", Err(Refused::Host)),
            ("evil:localhost", Err(Refused::Host)),
            ("", Err(Refused::Host)),
        ] {
            let request = Request::builder().uri("/mcp").header(HOST, host).body(()).unwrap();
            assert_eq!(check_host(&request, &settings), want, "host {host:?}");
        }
        let twice = Request::builder().header(HOST, "localhost").header(HOST, "localhost").body(()).unwrap();
        assert_eq!(check_host(&twice, &settings), Err(Refused::Malformed));
        let target = Request::builder().uri("http://evil.example.com/mcp").header(HOST, "localhost").body(()).unwrap();
        assert_eq!(check_host(&target, &settings), Err(Refused::Host), "the target counts too");
        assert_eq!(check_host(&Request::builder().body(()).unwrap(), &settings), Err(Refused::Host));
    }

    #[test]
    fn a_refusal_says_what_would_be_let_in() {
        let settings = Settings::default();
        let long = "x".repeat(SHOWN_CHARS_MAX + 1);
        let cut = format!("Forbidden - Host {:?} is not allowed", "x".repeat(SHOWN_CHARS_MAX));
        for (refused, uri, name, value, want) in [
            (
                Refused::Host,
                "/mcp",
                HOST,
                "192.0.2.2:8080",
                r#"Forbidden - Host "192.0.2.2" is not allowed; start landbridge with --allow-host 192.0.2.2"#,
            ),
            (
                Refused::Host,
                "http://evil.example/mcp",
                HOST,
                "localhost",
                r#"Forbidden - Host "evil.example" is not allowed; start landbridge with --allow-host evil.example"#,
            ),
            (Refused::Host, "/mcp", HOST, r#"a"; rm x"#, r#"Forbidden - Host "a\"; rm x" is not allowed"#),
            (Refused::Host, "/mcp", HOST, &long, &cut),
            (Refused::Host, "/mcp", HOST, "", "Forbidden - Host is missing or unreadable"),
            (
                Refused::Origin,
                "/mcp",
                ORIGIN,
                "https://a.example:8443",
                r#"Forbidden - Origin "https://a.example:8443" is not allowed; start landbridge with --allow-origin https://a.example:8443"#,
            ),
            (Refused::Origin, "/mcp", ORIGIN, "null", r#"Forbidden - Origin "null" is not allowed"#),
        ] {
            let request = Request::builder().uri(uri).header(name, value).body(()).unwrap();
            assert_eq!(explain(refused, &request, &settings), want);
        }
    }

    #[test]
    fn heads_are_bounded() {
        let request = |target: usize, header: usize| {
            let uri = format!("/{}", "x".repeat(target - 1));
            Request::builder().uri(uri).header("x", "y".repeat(header - 1)).body(()).unwrap()
        };
        assert_eq!(check_length(&request(TARGET_BYTES_MAX, HEADERS_BYTES_MAX)), Ok(()));
        assert_eq!(check_length(&request(TARGET_BYTES_MAX + 1, 10)), Err(Refused::Target));
        assert_eq!(check_length(&request(10, HEADERS_BYTES_MAX + 1)), Err(Refused::Headers));
    }

    #[test]
    fn pages_of_other_hosts_are_refused() {
        let settings = Settings { allowed_origins: vec!["https://app.example.com".into()], ..Settings::default() };
        for (origin, want) in [
            ("http://localhost:3000", true),
            ("http://127.0.0.1", true),
            ("https://[::1]:1", true),
            ("https://app.example.com", true),
            ("https://app.example.com:8443", false),
            ("http://mcp.internal:1", true),
            ("http://evil.example.com", false),
            ("http://localhost.evil.example.com", false),
            ("http://localhost@evil.example.com", false),
            ("null", false),
            ("file://", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "mcp.internal:8080".parse().unwrap());
            headers.insert(ORIGIN, origin.parse().unwrap());
            assert_eq!(check_origin(&headers, &settings).is_ok(), want, "origin {origin:?}");
        }
    }
}
