//! Addresses that nobody may send us to but those who run us.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a server may be from us, by who defined it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounds {
    /// Anywhere: those who run us said so.
    #[default]
    Anywhere,
    /// A client on this machine said so: anywhere but the link, groups and a cloud's metadata.
    Near,
    /// A client from elsewhere said so: what everybody can reach.
    Public,
}

impl Bounds {
    /// Whether a server may have this address, also when it is IPv4 written as IPv6.
    #[must_use]
    pub fn allow(self, address: IpAddr) -> bool {
        let plain = match address {
            IpAddr::V6(address) => embedded_v4(address).map_or(IpAddr::V6(address), IpAddr::V4),
            address => address,
        };
        match self {
            Self::Anywhere => true,
            Self::Near => !is_forbidden(plain),
            Self::Public => !is_forbidden(plain) && !is_ours_alone(plain),
        }
    }

    /// What an address lacks that is not allowed, for people.
    #[must_use]
    pub fn why_not(self) -> &'static str {
        match self {
            Self::Public => "is no public address, and servers added from elsewhere may have no other",
            _ => "is a link-local or metadata address, which servers added by a client may not have",
        }
    }
}

fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_forbidden_v4(address),
        IpAddr::V6(address) => is_forbidden_v6(address),
    }
}

/// Whether it means this machine or a network that not everybody can reach.
fn is_ours_alone(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            let special = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
            let shared = a == 100 && (64..128).contains(&b);
            let reserved = a == 0 || 240 <= a || (a == 198 && (18..20).contains(&b));
            address.is_loopback() || address.is_private() || address.is_documentation() || shared || reserved || special
        }
        IpAddr::V6(address) => {
            let site = matches!(address.segments(), [0xfec0..=0xfeff, ..]);
            // Documentation, tunnels through others, and the local prefix of NAT64.
            let special = matches!(address.segments(), [0x2001, 0x0db8 | 0, ..] | [0x0064, 0xff9b, 1, ..]);
            address.is_loopback() || address.is_unspecified() || address.is_unique_local() || site || special
        }
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
        let is_out = |text: &str| !Bounds::Near.allow(text.parse().expect("an address"));
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
            assert!(Bounds::Anywhere.allow(text.parse().expect("an address")), "{text}");
            assert!(!Bounds::Public.allow(text.parse().expect("an address")), "{text}");
        }
    }

    #[test]
    fn from_afar_only_public_addresses_are_allowed() {
        let allowed = |text: &str| Bounds::Public.allow(text.parse().expect("an address"));
        for text in ["8.8.8.8", "100.63.0.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808"] {
            assert!(allowed(text), "{text}");
        }
        for text in [
            "127.0.0.1",
            "127.255.255.254",
            "192.0.0.192",
            "192.88.99.1",
            "2001:0:5ef5:79fd::1",
            "64:ff9b:1::a00:1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "198.18.0.1",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "fd00::1",
            "fc00::1",
            "fec0::1",
        ] {
            assert!(!allowed(text), "{text}");
        }
    }
}
