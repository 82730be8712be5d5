//! Which addresses a client may send us to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a URL that a client gave us may be connected to: loopback and private networks may, addresses of the link
/// and of a cloud's metadata never.
///
/// # Errors
/// Why not, for the client.
pub async fn check(url: &str) -> Result<(), String> {
    let Some((host, port)) = host_and_port(url) else { return Err("the url has no host".to_owned()) };
    if is_metadata_name(&host) {
        return Err(refusal(&host));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return if is_forbidden(address) { Err(refusal(&host)) } else { Ok(()) };
    }
    // A name that cannot be looked up is told when it is connected to.
    let Ok(addresses) = tokio::net::lookup_host((host.as_str(), port)).await else { return Ok(()) };
    match addresses.map(|address| address.ip()).find(|address| is_forbidden(*address)) {
        Some(address) => Err(refusal(&format!("{host} ({address})"))),
        None => Ok(()),
    }
}

fn refusal(what: &str) -> String {
    format!("{what} is a link-local or metadata address, which servers added by a client may not have")
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

/// Link-local, unspecified, multicast and metadata addresses, also when they are written as IPv6.
fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_forbidden_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(inner) => is_forbidden_v4(inner),
            None => is_forbidden_v6(address),
        },
    }
}

fn is_forbidden_v4(address: Ipv4Addr) -> bool {
    const METADATA: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
    address.is_link_local() || address.is_multicast() || address.is_broadcast() || METADATA.contains(&address)
}

fn is_forbidden_v6(address: Ipv6Addr) -> bool {
    let metadata = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);
    address.is_unicast_link_local() || address.is_multicast() || address == metadata
}

/// IPv4 inside IPv6: mapped, compatible, 6to4 and the well-known prefix of NAT64.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, .., g, h] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([p, q], [r, s]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(p, q, r, s)
    };
    let middle_is_zero = address.segments().get(2..6).is_some_and(|part| part.iter().all(|segment| *segment == 0));
    match (a, b) {
        (0x2002, _) => Some(v4(b, c)),
        (0x0064, 0xff9b) if middle_is_zero => Some(v4(g, h)),
        _ => address.to_ipv4().filter(|_| !address.is_loopback() && !address.is_unspecified()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_addresses_of_the_link_and_of_metadata_are_refused() {
        for url in [
            "http://127.0.0.1:1/mcp",
            "http://localhost/mcp",
            "http://[::1]:8080/",
            "http://10.0.0.1/",
            "https://192.168.1.5:9/x?y",
            "http://[fd00::1]/",
        ] {
            assert_eq!(check(url).await, Ok(()), "{url}");
        }
        for url in [
            "http://169.254.169.254/latest",
            "http://169.254.1.1:80/",
            "http://[fe80::1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://[::a9fe:a9fe]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:a9fe:a9fe::]/",
            "http://[fd00:ec2::254]/",
            "http://100.100.100.200/",
            "http://168.63.129.16/",
            "http://metadata.google.internal/",
            "http://Metadata.Google.Internal./",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
        ] {
            assert!(check(url).await.is_err(), "{url}");
        }
    }
}
