//! What one node tells another of a request that it sends on, and how the other knows that a node said it.
//!
//! One header: `Landbridge-Hop: v1 TIME NONCE CLAIMS MAC`. The MAC covers everything else of it, the method and the
//! target; the claims hold a hash of the body. Whoever has no key of the cluster can neither make one nor use one again.

mod claims;
#[cfg(test)]
mod generated;
mod key;
mod nonces;
#[cfg(test)]
mod tests;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};

pub(crate) use claims::{Claims, digest};
pub use key::NodeKeys;
use nonces::Nonces;

use crate::settings::NodeSettings;
use crate::told::{Told, tell};

/// The header.
pub(crate) const HOP: HeaderName = HeaderName::from_static("landbridge-hop");
/// How far two clocks may be apart, and how long a header can be used.
const WINDOW: Duration = Duration::from_secs(30);

/// Why a request on the listener for nodes is turned away. Only the log hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unproven {
    /// It came without the header, or with two.
    #[error("it has no Landbridge-Hop header, or more than one")]
    Missing,
    /// The header is none.
    #[error("its Landbridge-Hop header cannot be read")]
    Malformed,
    /// It was made with another key, or changed on the way.
    #[error("its MAC is wrong: nodes must share one key (--key-file), and nothing may change a request between them")]
    Forged,
    /// It is too old, or from the future.
    #[error("its time is more than 30 s from ours: keep the clocks of all nodes together")]
    Untimely,
    /// It came before.
    #[error("it was sent a second time")]
    Replayed,
    /// It was meant for another node.
    #[error("it was sent to another node's URL (--node-url)")]
    Astray,
    /// The body is another than was sent.
    #[error("its body is not the one that was sent")]
    Body,
    /// One of the nodes has a login, and the other has none.
    #[error("only one of the two nodes has a login: give all nodes the same --auth")]
    Login,
    /// Too many were used within their time.
    #[error("too many requests came from other nodes to tell whether it was sent a second time")]
    Crowded,
    /// There is no key.
    #[error("there is no key to prove it with")]
    Keyless,
}

/// Which headers were used, and who was turned away.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    nonces: Nonces,
    refused: Told,
    misplaced: Told,
}

impl Hops {
    /// What a node says of this request.
    pub(crate) fn admit<B>(&self, request: &Request<B>, node: Option<&NodeSettings>) -> Result<Claims, Unproven> {
        let node = node.ok_or(Unproven::Keyless)?;
        let header = single(request.headers()).ok_or(Unproven::Missing)?;
        let said = Said::read(header).ok_or(Unproven::Malformed)?;
        let covered = said.covered(request.method(), request.uri());
        if !node.keys.verify(&covered, &said.mac) {
            return Err(Unproven::Forged);
        }
        let now = node.now();
        if WINDOW.as_secs() < said.time.abs_diff(now) {
            return Err(Unproven::Untimely);
        }
        let claims = Claims::read(said.claims).ok_or(Unproven::Malformed)?;
        if node.url.as_ref().is_some_and(|own| **own != *claims.to) {
            return Err(Unproven::Astray);
        }
        self.nonces.take(said.time, said.nonce, now)?;
        Ok(claims)
    }

    /// Tells the operator why somebody was turned away, now and then.
    pub(crate) fn tell(&self, why: Unproven, peer: Option<std::net::IpAddr>) {
        let peer = peer.map(tracing::field::display);
        tell!(self.refused, peer, %why, "hop_refused");
    }

    /// Tells that somebody says to be a node where clients come in.
    pub(crate) fn tell_misplaced(&self, peer: Option<std::net::IpAddr>) {
        let peer = peer.map(tracing::field::display);
        tell!(self.misplaced, peer, why = "Landbridge-Hop is for the listener of nodes", "hop_misplaced");
    }
}

/// The header for a request that is sent on.
pub(crate) fn sign(node: &NodeSettings, method: &Method, target: &Uri, claims: &Claims) -> Option<HeaderValue> {
    sign_at(&node.keys, method, target, claims, node.now(), rand::random::<u128>())
}

fn sign_at(
    keys: &NodeKeys,
    method: &Method,
    target: &Uri,
    claims: &Claims,
    time: u64,
    nonce: u128,
) -> Option<HeaderValue> {
    let claims = claims.write();
    let said = Said { time, nonce, claims: &claims, mac: [0; 32] };
    let mac = URL_SAFE_NO_PAD.encode(keys.sign(&said.covered(method, target)));
    let nonce = URL_SAFE_NO_PAD.encode(nonce.to_be_bytes());
    let mut value = HeaderValue::from_str(&format!("v1 {time} {nonce} {claims} {mac}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The parts of a header.
struct Said<'a> {
    time: u64,
    nonce: u128,
    claims: &'a str,
    mac: [u8; 32],
}

impl<'a> Said<'a> {
    fn read(header: &'a HeaderValue) -> Option<Self> {
        let mut parts = header.to_str().ok()?.split(' ');
        let mut next = || parts.next().filter(|part| !part.is_empty());
        let (version, time, nonce, claims, mac) = (next()?, next()?, next()?, next()?, next()?);
        if version != "v1" || parts.next().is_some() || !time.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let nonce: [u8; 16] = URL_SAFE_NO_PAD.decode(nonce).ok()?.try_into().ok()?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?.try_into().ok()?;
        Some(Self { time: time.parse().ok()?, nonce: u128::from_be_bytes(nonce), claims, mac })
    }

    /// What the MAC covers. No part can hold a line break, so no two requests have the same text.
    fn covered(&self, method: &Method, target: &Uri) -> String {
        let (time, nonce, claims) = (self.time, self.nonce, self.claims);
        format!("landbridge-hop v1\n{time}\n{nonce:032x}\n{method}\n{}\n{claims}", target_of(target))
    }
}

/// Path and query.
pub(crate) fn target_of(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
}

fn single(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut values = headers.get_all(&HOP).iter();
    values.next().filter(|_| values.next().is_none())
}
