//! Whom to let wait: those who ask too often, and everybody when there is too much to do.

use std::time::{Duration, Instant};

use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use lb_wire::revision::Era;

use crate::body::Body;
use crate::peer::Peer;
use crate::rate::{Allowance, Rate, Source};
use crate::reply::refuse;
use crate::server::Server;
use crate::settings::Settings;

/// What whoever finds us busy is told to wait.
const BUSY_RETRY: HeaderValue = HeaderValue::from_static("1");

/// What is left for whoever sent this; `None` where nothing is counted.
pub(crate) fn allowance(server: &Server, headers: &HeaderMap, settings: &Settings, peer: Peer) -> Option<Allowance> {
    let (source, rate) = counted(headers, settings, peer)?;
    let here = server.buckets.take(source, rate, Instant::now());
    let others = settings.node.as_ref().and_then(|node| node.together.as_deref());
    Some(others.map_or(here, |others| here.together(source, others)))
}

/// What is left for somebody who has logged in; `None` where nothing is counted.
pub(crate) fn of_principal(server: &Server, principal: &str, settings: &Settings) -> Option<Allowance> {
    let rate = settings.principal_rate?;
    let source = Source::named(principal);
    let here = server.buckets.take(source, rate, Instant::now());
    let others = settings.node.as_ref().and_then(|node| node.together.as_deref());
    Some(others.map_or(here, |others| here.together(source, others)))
}

fn counted(headers: &HeaderMap, settings: &Settings, peer: Peer) -> Option<(Source, Rate)> {
    if let Some(rate) = settings.rate {
        let client = peer.client(headers, settings);
        return Some((client.map_or(Source::OWN_USER, Source::of), rate));
    }
    // Without a login an address is all that tells one caller from another, and of this machine there is one.
    let rate = settings.principal_rate.filter(|_| !settings.login)?;
    let client = peer.client(headers, settings)?;
    (!client.is_loopback()).then(|| (Source::of(client), rate))
}

/// Says what is left, and how long to wait where it is nothing.
pub(crate) fn tell(allowance: &Allowance, headers: &mut HeaderMap) {
    let seconds = seconds(allowance.reset);
    headers.insert(HeaderName::from_static("ratelimit-limit"), allowance.rate.max.into());
    headers.insert(HeaderName::from_static("ratelimit-remaining"), allowance.remaining.into());
    headers.insert(HeaderName::from_static("ratelimit-reset"), seconds.into());
    if !allowance.granted {
        headers.insert(RETRY_AFTER, seconds.into());
    }
}

/// Up to the next whole one, so that nobody comes back too early.
pub(crate) fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() != 0)
}

/// The response to somebody who asks too often.
pub(crate) fn refused(era: Era) -> Response<Body> {
    refuse(StatusCode::TOO_MANY_REQUESTS, era, "Too many requests, please retry later")
}

/// The response when there is too much to do, or nothing more is done.
pub(crate) fn busy(era: Era, why: &str) -> Response<Body> {
    let message = format!("Service Unavailable: {why}, please retry later");
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, era, &message);
    response.headers_mut().insert(RETRY_AFTER, BUSY_RETRY);
    response
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn this_machine_is_counted_only_when_asked_for() {
        let rate = Rate { max: 1, window: Duration::from_secs(60) };
        let quiet = Settings::default();
        let asked = Settings { rate: Some(rate), ..Settings::default() };
        let login = Settings { login: true, ..Settings::default() };
        let proxied = Settings { trusted_proxies: vec!["127.0.0.1".parse().unwrap()], ..Settings::default() };
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", HeaderValue::from_static("203.0.113.9"));
        let from = |address: &str| Peer::new(None, SocketAddr::new(address.parse().unwrap(), 1));
        for (settings, peer, want) in [
            (&quiet, from("127.0.0.1"), None),
            (&quiet, Peer::OWN_USER, None),
            (&quiet, from("192.0.2.1"), Some(100)),
            (&login, from("192.0.2.1"), None),
            (&asked, from("127.0.0.1"), Some(1)),
            (&asked, Peer::OWN_USER, Some(1)),
            (&proxied, from("127.0.0.1"), Some(100)),
        ] {
            assert_eq!(counted(&headers, settings, peer).map(|(_, rate)| rate.max), want, "{peer:?}");
        }
    }

    #[test]
    fn nobody_is_told_to_come_back_too_early() {
        for (millis, want) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)] {
            assert_eq!(seconds(Duration::from_millis(millis)), want, "{millis} ms");
        }
    }
}
