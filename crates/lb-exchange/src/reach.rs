//! Addresses that nobody may send us to but those who run us.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether it is an address of the link, of a group or of a cloud's metadata, also when it is written as IPv6.
#[must_use]
pub fn is_out_of_bounds(address: IpAddr) -> bool {
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

    #[test]
    fn only_addresses_of_the_link_and_of_metadata_are_out_of_bounds() {
        let is_out = |text: &str| is_out_of_bounds(text.parse().expect("an address"));
        for text in ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.5", "fd00::1", "203.0.113.1", "2001:db8::1"] {
            assert!(!is_out(text), "{text}");
        }
        for text in [
            "169.254.169.254",
            "169.254.1.1",
            "fe80::1",
            "::ffff:169.254.169.254",
            "::a9fe:a9fe",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            assert!(is_out(text), "{text}");
        }
    }
}
