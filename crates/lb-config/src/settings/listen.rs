//! Where to listen: one address out of three settings.

use std::net::IpAddr;
use std::path::PathBuf;

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

impl Listen {
    /// Whether only this machine can connect. A name that is not `localhost` may lead anywhere.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.rsplit_once(':').is_some_and(|(host, _)| is_loopback(host)),
        }
    }
}

/// Whether a host, perhaps in brackets, is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let address: Option<IpAddr> = bare.parse().ok();
    bare.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.to_canonical().is_loopback())
}

impl Gathered {
    /// The address: the stronger of `listen` and its parts, part by part.
    pub(crate) fn listen(&mut self) -> (Listen, Place) {
        let take = |key: &str| self.held.get(key).cloned();
        let (whole, host, port) = (take("listen"), take("host"), take("port"));
        let text = |held: &Held| match &held.value {
            Value::Text(text) => text.clone(),
            Value::Count(number) => number.to_string(),
            _ => String::new(),
        };
        let Some(whole) = whole else {
            let strongest =
                [&host, &port].into_iter().flatten().map(|held| &held.place).max_by_key(|place| place.rank());
            let place = strongest.cloned().unwrap_or(Place::Default);
            let host = host.as_ref().map_or_else(|| "127.0.0.1".to_owned(), text);
            let port = port.as_ref().map_or_else(|| "8080".to_owned(), text);
            return (Listen::Tcp(format!("{host}:{port}")), place);
        };
        for part in [&host, &port].into_iter().flatten() {
            if part.place.rank() == whole.place.rank() {
                let message = format!("says the same as {}: leave one of them out", whole.place);
                self.error(
                    if matches!(part.value, Value::Count(_)) { "port" } else { "host" },
                    &part.place,
                    message,
                    None,
                );
            }
        }
        let stronger = |part: &Option<Held>| part.clone().filter(|part| whole.place.rank() < part.place.rank());
        let (host, port) = (stronger(&host), stronger(&port));
        let written = text(&whole);
        if host.is_none()
            && port.is_none()
            && let Some(path) = written.strip_prefix("unix:")
        {
            return (Listen::Unix(path.into()), whole.place);
        }
        let place = [&host, &port].into_iter().flatten().map(|held| held.place.clone()).max_by_key(Place::rank);
        let (whole_host, whole_port) = match written.rsplit_once(':') {
            Some((host, port)) if !written.starts_with("unix:") => (host.to_owned(), port.to_owned()),
            _ => ("127.0.0.1".to_owned(), "8080".to_owned()),
        };
        let host = host.as_ref().map_or(whole_host, text);
        let port = port.as_ref().map_or(whole_port, text);
        (Listen::Tcp(format!("{host}:{port}")), place.unwrap_or(whole.place))
    }
}
