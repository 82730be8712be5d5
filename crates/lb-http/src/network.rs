//! Networks of addresses, as in `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A network of addresses, or one address alone. An IPv4 address counts the same when it is written within IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// In IPv6, without the bits that do not count.
    base: u128,
    /// How many of the first bits count, in IPv6.
    bits: u8,
}

/// It is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The part before the slash is no address.
    #[error("give an address or a network, as in 10.0.0.7, 10.0.0.0/8 or 2001:db8::/32")]
    Address,
    /// The part behind the slash is no length.
    #[error("the length behind the slash must be 0 to {0}")]
    Length(u8),
    /// Bits are set that do not count: most likely a slip.
    #[error("bits are set behind the length; {0} is the network of that length")]
    Bits(Network),
}

/// Where IPv4 begins within IPv6.
const V4_BITS: u8 = 96;

impl Network {
    /// The network of this length that an address is in.
    #[must_use]
    pub fn around(address: IpAddr, length: u8) -> Self {
        let offset = if address.is_ipv4() { V4_BITS } else { 0 };
        let bits = offset.saturating_add(length).min(128);
        Self { base: widened(address) & mask(bits), bits }
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        widened(address) & mask(self.bits) == self.base
    }
}

fn widened(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address)?;
        let (offset, longest) = if address.is_ipv4() { (V4_BITS, 32) } else { (0, 128) };
        let length = match length {
            None => longest,
            Some(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok().filter(|length| *length <= longest).ok_or(NetworkError::Length(longest))?
            }
            Some(_) => return Err(NetworkError::Length(longest)),
        };
        let (whole, bits) = (widened(address), offset + length);
        let network = Self { base: whole & mask(bits), bits };
        if network.base == whole { Ok(network) } else { Err(NetworkError::Bits(network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.base);
        match address.to_ipv4_mapped().filter(|_| V4_BITS <= self.bits) {
            Some(address) => write!(f, "{address}/{}", self.bits - V4_BITS),
            None => write!(f, "{address}/{}", self.bits),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_written_as_usual_and_slips_are_pointed_out() {
        for (text, want) in [
            ("10.0.0.0/8", Ok("10.0.0.0/8")),
            ("10.0.0.7", Ok("10.0.0.7/32")),
            ("0.0.0.0/0", Ok("0.0.0.0/0")),
            ("::/0", Ok("::/0")),
            ("2001:db8::/32", Ok("2001:db8::/32")),
            ("::1", Ok("::1/128")),
            ("10.0.0.0/33", Err("must be 0 to 32")),
            ("::/129", Err("must be 0 to 128")),
            ("10.0.0.0/", Err("must be 0 to 32")),
            ("10.0.0.0/+8", Err("must be 0 to 32")),
            ("10.0.0.7/8", Err("10.0.0.0/8 is the network")),
            ("localhost", Err("give an address")),
            ("", Err("give an address")),
        ] {
            match (text.parse::<Network>(), want) {
                (Ok(network), Ok(want)) => assert_eq!(network.to_string(), want, "input {text:?}"),
                (Err(error), Err(want)) => assert!(error.to_string().contains(want), "input {text:?}: {error}"),
                (got, want) => panic!("input {text:?}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn a_network_is_made_of_any_of_its_addresses() {
        for (address, length, want) in
            [("10.0.0.7", 8, "10.0.0.0/8"), ("10.0.0.7", 32, "10.0.0.7/32"), ("2001:db8::7", 32, "2001:db8::/32")]
        {
            assert_eq!(Network::around(address.parse().unwrap(), length).to_string(), want);
        }
        assert_eq!(Network::around("10.0.0.7".parse().unwrap(), 200).to_string(), "10.0.0.7/32");
    }

    #[test]
    fn an_address_is_in_its_network_however_it_is_written() {
        for (network, address, want) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "::10.1.2.3", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "203.0.113.9", true),
            ("2001:db8::/33", "2001:db8:7fff::", true),
            ("2001:db8::/33", "2001:db8:8000::", false),
            ("::1", "::1", true),
            ("127.0.0.1", "127.0.0.2", false),
        ] {
            let found = network.parse::<Network>().unwrap().contains(address.parse().unwrap());
            assert_eq!(found, want, "{address} in {network}");
        }
    }
}
