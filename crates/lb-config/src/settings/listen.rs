//! Where to listen: one address out of three settings.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::gather::{Gathered, Held, Place};
use super::kind::Value;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A host and a port.
    Tcp(String),
    /// The path of a socket.
    Unix(PathBuf),
}

/// Who can connect to a host that is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Only this machine.
    Local,
    /// Others too.
    Open,
    /// Nobody: it is a name without an address.
    Nowhere,
}

impl Listen {
    /// Whether only this machine can connect.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.reach() == Reach::Local
    }

    /// Who can connect. A name other than `localhost` is looked up.
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::Unix(_) => Reach::Local,
            Self::Tcp(address) => address.rsplit_once(':').map_or(Reach::Nowhere, |(host, _)| reach(host)),
        }
    }
}

/// Whether a host, perhaps in brackets, is this machine by its mere spelling.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || literal(host).is_some_and(|address| address.to_canonical().is_loopback())
}

fn literal(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// Names that were looked up. Once is enough: what is listened on does not change while it runs, and a name server that
/// is slow is not asked again by every reload.
static KNOWN: Mutex<BTreeMap<String, Reach>> = Mutex::new(BTreeMap::new());

fn reach(host: &str) -> Reach {
    match literal(host) {
        _ if is_loopback(host) => return Reach::Local,
        Some(_) => return Reach::Open,
        None => {}
    }
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reach) = known().get(host) {
        return *reach;
    }
    let reach = reach_of(&addresses(host));
    known().insert(host.to_owned(), reach);
    reach
}

fn addresses(host: &str) -> Vec<IpAddr> {
    // The port plays no part.
    (host, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
}

/// Any of them may become the one that is listened on.
fn reach_of(addresses: &[IpAddr]) -> Reach {
    match addresses {
        [] => Reach::Nowhere,
        all if all.iter().all(|address| address.to_canonical().is_loopback()) => Reach::Local,
        _ => Reach::Open,
    }
}

/// The address that holds, and where its parts are from.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub listen: Listen,
    pub host: Place,
    pub port: Place,
}

impl Address {
    /// Host and port as they hold; a socket has neither.
    pub fn parts(&self) -> Option<(&str, &str)> {
        match &self.listen {
            Listen::Tcp(address) => address.rsplit_once(':'),
            Listen::Unix(_) => None,
        }
    }

    /// Every place that has a part in it, the host's first.
    pub fn source(&self) -> String {
        match (&self.host, &self.port) {
            (host, port) if host == port => host.to_string(),
            (Place::Default, one) | (one, Place::Default) => one.to_string(),
            (host, port) => format!("{host}, {port}"),
        }
    }
}

/// What holds when nobody says.
const DEFAULT: (&str, &str) = ("127.0.0.1", "8080");

impl Gathered {
    /// The address: the stronger of `listen` and its parts, part by part.
    pub(crate) fn address(&self) -> Address {
        let text = |held: &Held| match &held.value {
            Value::Text(text) => text.clone(),
            Value::Count(number) => number.to_string(),
            _ => String::new(),
        };
        let whole = self.held.get("listen");
        let place = whole.map_or(Place::Default, |whole| whole.place.clone());
        let stronger = |key: &str| self.held.get(key).filter(|part| place.rank() < part.place.rank());
        let (host, port) = (stronger("host"), stronger("port"));
        let written = whole.map(text).unwrap_or_default();
        let path = written.strip_prefix("unix:");
        if let (None, None, Some(path)) = (host, port, path) {
            return Address { listen: Listen::Unix(path.into()), host: place.clone(), port: place };
        }
        // Of a socket, no part is left beside a host or a port.
        let (whole_host, whole_port, place) = match written.rsplit_once(':') {
            Some((host, port)) if path.is_none() => (host, port, place),
            _ => (DEFAULT.0, DEFAULT.1, Place::Default),
        };
        let part = |held: Option<&Held>, whole: &str| match held {
            Some(held) => (text(held), held.place.clone()),
            None => (whole.to_owned(), place.clone()),
        };
        let ((host_text, host), (port_text, port)) = (part(host, whole_host), part(port, whole_port));
        Address { listen: Listen::Tcp(format!("{host_text}:{port_text}")), host, port }
    }

    /// Two that are equally strong and say the same thing.
    pub(crate) fn check_address(&mut self) {
        let Some(whole) = self.held.get("listen").map(|held| held.place.clone()) else { return };
        for key in ["host", "port"] {
            if let Some(part) = self.held.get(key).map(|held| held.place.clone())
                && part.rank() == whole.rank()
            {
                self.error(key, &part, format!("says the same as {whole}: leave one of them out"), None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_as_open_as_where_it_leads() {
        let all = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect::<Vec<_>>();
        for (found, want) in [
            (&[][..], Reach::Nowhere),
            (&["127.0.1.1"], Reach::Local),
            (&["127.0.0.1", "::1"], Reach::Local),
            (&["::1", "192.0.2.1"], Reach::Open),
            (&["192.0.2.1"], Reach::Open),
        ] {
            assert_eq!(reach_of(&all(found)), want, "{found:?}");
        }
        assert_eq!((reach("LOCALHOST"), reach("[::1]"), reach("0.0.0.0")), (Reach::Local, Reach::Local, Reach::Open));
        assert_eq!(reach("name.invalid"), Reach::Nowhere);
    }
}
