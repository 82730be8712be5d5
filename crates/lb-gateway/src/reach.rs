//! Which addresses a client may send us to.

use std::net::IpAddr;

use lb_backend::Names;
use lb_exchange::Bounds;

/// Whether a URL that a client gave us may be connected to. From elsewhere only over https: what answers is told to the
/// client, and nobody between shall see or change it. A name may have another address later; then it is looked at again
/// by whoever connects.
///
/// # Errors
/// Why not, for the client.
pub async fn check(url: &str, bounds: Bounds, names: &Names) -> Result<(), String> {
    let Some((host, port)) = host_and_port(url) else { return Err("the url has no host".to_owned()) };
    let refusal = |what: &str| format!("{what} {}", bounds.why_not());
    if is_metadata_name(&host) {
        return Err(refusal(&host));
    }
    if bounds == Bounds::Public && !url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")) {
        return Err("servers added from elsewhere must be reached over https".to_owned());
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return if bounds.allow(address) { Ok(()) } else { Err(refusal(&host)) };
    }
    // A name that cannot be looked up is told when it is connected to.
    let Ok(addresses) = names.find(&host, port).await else { return Ok(()) };
    match addresses.iter().map(|address| address.ip()).find(|address| !bounds.allow(*address)) {
        Some(address) => Err(refusal(&format!("{host} ({address})"))),
        None => Ok(()),
    }
}

fn host_and_port(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let standard = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
    let authority = rest.split(['/', '?']).next()?;
    if let Some(inner) = authority.strip_prefix('[') {
        let (host, after) = inner.split_once(']')?;
        let port = after.strip_prefix(':').and_then(|port| port.parse().ok()).unwrap_or(standard);
        return Some((host.to_owned(), port));
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    Some((host.trim_end_matches('.').to_ascii_lowercase(), port.parse().unwrap_or(standard)))
}

fn is_metadata_name(host: &str) -> bool {
    matches!(host, "metadata.google.internal" | "metadata" | "instance-data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_is_refused_by_its_name_and_by_its_address() {
        let names = Names::default();
        for url in ["http://127.0.0.1:1/mcp", "http://localhost/mcp", "http://[::1]:8080/", "https://192.168.1.5:9/x?y"]
        {
            assert_eq!(check(url, Bounds::Near, &names).await, Ok(()), "{url}");
            assert!(check(url, Bounds::Public, &names).await.is_err(), "{url}");
        }
        for url in [
            "http://169.254.169.254/latest",
            "http://[fe80::1]:80/",
            "http://[::ffff:169.254.169.254]/",
            "http://metadata.google.internal/",
            "http://Metadata.Google.Internal./",
        ] {
            assert!(check(url, Bounds::Near, &names).await.is_err(), "{url}");
        }
    }
}
