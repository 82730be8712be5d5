//! Who is at the other end of a connection, and whose request it is that comes through a proxy.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};

use crate::listen::Side;
use crate::network::Network;
use crate::settings::{ProxyHeader, Settings};

/// What processes of this machine count as where an address is asked for and they have none.
pub(crate) const THIS_MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How a connection reached us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// From this machine, on an address that only this machine has.
    Loopback,
    /// From this machine, on an address that others have too.
    Open,
    /// From another machine.
    Remote,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its address; none on a unix socket, where it is a process of our own user.
    pub(crate) address: Option<IpAddr>,
    pub(crate) reach: Reach,
    /// Whether TLS lies between.
    pub(crate) secure: bool,
    /// Whether it came when the shutdown had begun.
    pub(crate) late: bool,
    /// Whom it says that it is.
    pub(crate) side: Side,
}

impl Peer {
    /// A process of our own user.
    pub(crate) const OWN_USER: Self =
        Self { address: None, reach: Reach::Loopback, secure: false, late: false, side: Side::Clients };

    /// What two addresses say.
    pub(crate) fn new(own: Option<SocketAddr>, peer: SocketAddr) -> Self {
        let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        let reach = match (is_loopback(peer), own.is_some_and(is_loopback)) {
            (false, _) => Reach::Remote,
            (true, false) => Reach::Open,
            (true, true) => Reach::Loopback,
        };
        Self { address: Some(peer.ip().to_canonical()), reach, secure: false, late: false, side: Side::Clients }
    }

    /// Whether connections from there are counted: many clients may share this machine, a proxy or another node.
    pub(crate) fn counted(&self, proxies: &[Network]) -> Option<IpAddr> {
        if self.side == Side::Nodes {
            return None;
        }
        self.address.filter(|address| !address.is_loopback() && !is_among(proxies, *address))
    }

    /// Whose request this is: the peer's, or, when that is a proxy we trust, that of the last hop we do not. One on a unix
    /// socket has no address. It is trusted where 127.0.0.1 is, from where not only our own user could come.
    pub(crate) fn client(&self, headers: &HeaderMap, settings: &Settings) -> Option<IpAddr> {
        let proxies = settings.trusted_proxies.as_slice();
        let mut client = self.address;
        if !is_among(proxies, self.address.unwrap_or(THIS_MACHINE)) {
            return client;
        }
        // What a hop says of those before it counts only while all hops on the way are trusted.
        for hop in hops(headers, settings.proxy_header).into_iter().rev() {
            let Some(address) = hop else { break };
            client = Some(address);
            if !is_among(proxies, address) {
                break;
            }
        }
        client
    }
}

fn is_among(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// Hops as the proxies tell them, the last one last; `None` for one that cannot be read. Only the header that the proxies
/// write counts: they pass any other on as the client sent it.
fn hops(headers: &HeaderMap, told_in: ProxyHeader) -> Vec<Option<IpAddr>> {
    const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
    let values = |name: &HeaderName| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    if told_in == ProxyHeader::Forwarded {
        let of = |element: &str| {
            let node = element.split(';').find_map(|pair| {
                let (name, value) = pair.split_once('=')?;
                name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
            });
            node.and_then(node_address)
        };
        return values(&FORWARDED).flat_map(|value| value.split(',')).map(of).collect();
    }
    values(&FORWARDED_FOR).flat_map(|value| value.split(',')).map(|node| node_address(node.trim())).collect()
}

/// The address of a node: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn node_address(node: &str) -> Option<IpAddr> {
    let bare = node.strip_prefix('[').and_then(|node| node.strip_suffix(']')).unwrap_or(node);
    let address = bare.parse::<IpAddr>().ok();
    address.or_else(|| node.parse::<SocketAddr>().ok().map(|node| node.ip())).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(&'static str, &str)], proxy_header: ProxyHeader) -> String {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        let settings = Settings { trusted_proxies, proxy_header, ..Settings::default() };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let peer = Peer::new(None, SocketAddr::new(peer.parse().unwrap(), 1));
        peer.client(&map, &settings).unwrap().to_string()
    }

    #[test]
    fn the_client_is_the_last_hop_that_is_not_trusted() {
        let xff = "x-forwarded-for";
        for (peer, headers, want) in [
            ("192.0.2.1", vec![(xff, "203.0.113.9")], "192.0.2.1"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec![(xff, "203.0.113.9")], "203.0.113.9"),
            ("10.0.0.1", vec![(xff, "1.1.1.1, 203.0.113.9")], "203.0.113.9"),
            ("10.0.0.1", vec![(xff, "203.0.113.9, 10.0.0.2")], "203.0.113.9"),
            ("10.0.0.1", vec![(xff, "1.1.1.1"), (xff, "203.0.113.9")], "203.0.113.9"),
            ("10.0.0.1", vec![(xff, "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
            ("10.0.0.1", vec![(xff, "203.0.113.9, unknown, 10.0.0.2")], "10.0.0.2"),
            ("10.0.0.1", vec![(xff, "203.0.113.9:4711")], "203.0.113.9"),
            ("10.0.0.1", vec![(xff, "")], "10.0.0.1"),
            ("::ffff:10.0.0.1", vec![(xff, "::ffff:203.0.113.9")], "203.0.113.9"),
            ("2001:db8::7", vec![(xff, "203.0.113.9, 2001:db8::8")], "203.0.113.9"),
            ("10.0.0.1", vec![("cf-connecting-ip", "1.1.1.1"), ("x-real-ip", "1.1.1.1")], "10.0.0.1"),
        ] {
            assert_eq!(client(peer, &headers, ProxyHeader::XForwardedFor), want, "{peer} {headers:?}");
        }
        for (peer, headers, want) in [
            ("192.0.2.1", vec![("forwarded", "for=203.0.113.9")], "192.0.2.1"),
            ("10.0.0.1", vec![("forwarded", "for=1.1.1.1, for=\"[2001:db9::1]:80\";proto=https")], "2001:db9::1"),
            ("10.0.0.1", vec![("forwarded", "proto=https;For=203.0.113.9"), (xff, "1.1.1.1")], "203.0.113.9"),
            ("10.0.0.1", vec![("forwarded", "for=203.0.113.9, for=_hidden"), (xff, "1.1.1.1")], "10.0.0.1"),
        ] {
            assert_eq!(client(peer, &headers, ProxyHeader::Forwarded), want, "{peer} {headers:?}");
        }
    }

    #[test]
    fn a_header_that_the_proxy_does_not_write_says_nothing() {
        let both = [("forwarded", "for=198.51.100.1"), ("x-forwarded-for", "203.0.113.9")];
        assert_eq!(client("10.0.0.1", &both, ProxyHeader::XForwardedFor), "203.0.113.9");
        assert_eq!(client("10.0.0.1", &both, ProxyHeader::Forwarded), "198.51.100.1");
        assert_eq!(client("10.0.0.1", &both[..1], ProxyHeader::XForwardedFor), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &both[1..], ProxyHeader::Forwarded), "10.0.0.1");
    }

    #[test]
    fn a_proxy_on_a_unix_socket_is_believed_only_when_it_is_named() {
        let headers =
            HeaderMap::from_iter([(HeaderName::from_static("x-forwarded-for"), "203.0.113.9".parse().unwrap())]);
        for (proxies, want) in [
            (vec![], None),
            (vec!["10.0.0.0/8"], None),
            (vec!["127.0.0.1"], Some("203.0.113.9")),
            (vec!["127.0.0.0/8", "203.0.113.0/24"], Some("203.0.113.9")),
        ] {
            let trusted_proxies = proxies.iter().map(|network| network.parse().unwrap()).collect();
            let settings = Settings { trusted_proxies, ..Settings::default() };
            let want = want.map(|address: &str| address.parse().unwrap());
            assert_eq!(Peer::OWN_USER.client(&headers, &settings), want, "{proxies:?}");
            assert_eq!(Peer::OWN_USER.client(&HeaderMap::new(), &settings), None, "it has no address of its own");
        }
    }

    #[test]
    fn this_machine_and_proxies_are_not_counted() {
        let proxies = ["10.0.0.0/8".parse().unwrap()];
        for (peer, want) in [("127.0.0.1", false), ("::1", false), ("10.1.1.1", false), ("192.0.2.1", true)] {
            let peer = Peer::new(None, SocketAddr::new(peer.parse().unwrap(), 1));
            assert_eq!(peer.counted(&proxies).is_some(), want, "{peer:?}");
        }
        assert_eq!(Peer::OWN_USER.counted(&proxies), None);
    }
}
