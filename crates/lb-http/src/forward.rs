//! Sending a request on to the node that has what it names: one hop, as it came, and the answer back as it comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use lb_exchange::{Mount, Place};
use lb_front::{Arrival, Route};
use lb_wire::revision::Era;

use crate::body::Body;
use crate::hop::{self, Claims, HOP};
use crate::inbound;
use crate::nodes::{Letter, SendError};
use crate::onward::{Kind, Onward};
use crate::phase::Level;
use crate::record::{REQUEST_ID, Record};
use crate::reply::{bare, refuse};
use crate::service::Visit;
use crate::settings::NodeSettings;
use crate::throttle;
use crate::told::tell;

/// How often a request is sent, where nothing of it has reached anybody before.
const ATTEMPTS_MAX: usize = 2;
/// How often it is asked whether a node that has not answered still has what the request names. One that is frozen keeps
/// its connections open, and its sessions go elsewhere.
const LOOK_AGAIN_EVERY: Duration = Duration::from_secs(5);
/// Headers of one connection, and those that are written anew.
const OF_ONE_CONNECTION: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

impl Visit<'_> {
    /// Sends a request on to where what it names is; `None` when it is to be served here.
    ///
    /// Cancel safe: dropping it is the client leaving, which the other node sees by its connection.
    pub(crate) async fn elsewhere(
        &self,
        request: &Request<Incoming>,
        body: &Bytes,
        record: &Record,
        era: Era,
        mount: Option<&Mount>,
    ) -> Option<Response<Body>> {
        // Who repeats a header hears of it here.
        let headers = inbound::headers(request.headers()).ok()?;
        let visitor = self.visitor();
        let arrival = mount.map(|mount| Arrival { mount, visitor: &visitor });
        let mut why = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let place = match self.server.front.route(&headers, arrival) {
                Route::Here => return None,
                Route::Ask(place) => place.await,
            };
            let url = match place {
                Place::Here => return None,
                Place::Away(after) => return Some(later(era, AWAY, after)),
                Place::Full(after) => return Some(later(era, FULL, after)),
                // It came here from a node that was mistaken, and may ask again; from here it goes nowhere.
                Place::Node(_) if self.claims.is_some() => return Some(bare(StatusCode::MISDIRECTED_REQUEST)),
                Place::Node(url) => url,
            };
            let sent = tokio::select! {
                sent = self.send_on(&url, request, body, record) => sent,
                () = self.moved_from(&url, &headers, arrival) => Err(SendError::Lost("it has moved elsewhere".to_owned())),
            };
            match sent {
                // It refuses us, and not the client.
                Ok(response) if response.status() == StatusCode::UNAUTHORIZED => {
                    why = "it does not know this node as one: keys or clocks differ, its log says which".to_owned();
                }
                Ok(response) if response.status() == StatusCode::MISDIRECTED_REQUEST => {
                    why = "it has just moved".to_owned();
                }
                Ok(response) => {
                    self.server.nodes.forwarded.fetch_add(1, Ordering::Relaxed);
                    return Some(response);
                }
                Err(SendError::Unreached(error)) => why = error,
                Err(SendError::Lost(error)) => {
                    tell!(self.server.nodes.lost, node = %url, %error, "hop_lost");
                    let why =
                        "the node that has this session broke off before it answered; the request may have been run";
                    return Some(unavailable(era, why));
                }
            }
            tell!(self.server.nodes.failed, node = %url, %why, "hop_failed");
        }
        let why = format!("the node that has this session cannot be reached, and the request was not sent: {why}");
        Some(unavailable(era, &why))
    }

    /// Waits until what a request names is not at this node any more.
    async fn moved_from(&self, url: &Arc<str>, headers: &lb_front::Headers<'_>, arrival: Option<Arrival<'_>>) {
        loop {
            tokio::time::sleep(LOOK_AGAIN_EVERY).await;
            match self.server.front.route(headers, arrival) {
                Route::Here => return,
                Route::Ask(place) => match place.await {
                    Place::Node(there) if there == *url => {}
                    Place::Away(_) => {}
                    Place::Node(_) | Place::Here | Place::Full(_) => return,
                },
            }
        }
    }

    async fn send_on(
        &self,
        url: &Arc<str>,
        request: &Request<Incoming>,
        body: &Bytes,
        record: &Record,
    ) -> Result<Response<Body>, SendError> {
        let keyless = || SendError::Unreached("this node has no key to prove that it is one".to_owned());
        let alone =
            || SendError::Unreached("this node is not among the others: start it with --node-listen".to_owned());
        let settings = self.settings.node.as_ref().ok_or_else(alone)?;
        let node = self.server.nodes.at(url, settings)?;
        let mut letter = self.letter(url, request, body, record, settings).ok_or_else(keyless)?;
        letter.headers.insert(HOST, node.authority().clone());
        let kind = |response: &HeaderMap| match response.get(CONTENT_TYPE).map(HeaderValue::as_bytes) {
            Some(kind) if !kind.starts_with(b"text/event-stream") => Kind::Whole,
            None => Kind::Whole,
            Some(_) if *request.method() == Method::GET => Kind::Endless,
            Some(_) => Kind::Events,
        };
        let sent = tokio::select! {
            sent = node.send(letter) => sent,
            () = self.server.phase.reached(Level::Closing) => Err(SendError::Lost("landbridge is stopping".to_owned())),
        };
        let (conn, response) = sent?;
        let (mut head, incoming) = response.into_parts();
        strip(&mut head.headers);
        let (phase, kind) = (self.server.phase.clone(), kind(&head.headers));
        let body = Onward::new(incoming, conn, node, kind, phase, self.settings.retry_after);
        Ok(Response::from_parts(head, Body::onward(body)))
    }

    /// The request as it is sent on: as it came, with what we know of it.
    fn letter(
        &self,
        url: &Arc<str>,
        request: &Request<Incoming>,
        body: &Bytes,
        record: &Record,
        settings: &NodeSettings,
    ) -> Option<Letter> {
        let text = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let claims = Claims {
            principal: self.visitor().principal.as_str().to_owned(),
            grant: self.caller.map(|caller| lb_auth::Grant::clone(&caller.grant)),
            ip: self.peer.client(request.headers(), self.settings),
            id: text(Some(record.id()))?,
            host: text(request.headers().get(HOST)),
            scheme: if self.peer.secure { "https" } else { "http" }.to_owned(),
            to: (**url).to_owned(),
            body: hop::digest(body),
        };
        let target: Uri = hop::target_of(request.uri()).parse().ok()?;
        let mut headers = request.headers().clone();
        strip(&mut headers);
        // Whose request it is, is in the claims.
        headers.remove(header::AUTHORIZATION);
        headers.remove(CONTENT_LENGTH);
        if !body.is_empty() {
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
        headers.insert(REQUEST_ID, record.id().clone());
        headers.insert(HOP, hop::sign(settings, request.method(), &target, &claims)?);
        Some(Letter { method: request.method().clone(), target, headers, body: body.clone() })
    }
}

/// Takes out what belongs to one connection.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_ONE_CONNECTION) {
        headers.remove(name);
    }
}

fn unavailable(era: Era, why: &str) -> Response<Body> {
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, era, &format!("Service Unavailable: {why}"));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

const AWAY: &str = "it cannot be told at the moment where this session is, because the store or the node that has it does not answer; please retry later";
const FULL: &str = "too many sessions are open here to take this one up again; please retry later";

fn later(era: Era, why: &str, after: Duration) -> Response<Body> {
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, era, why);
    response.headers_mut().insert(RETRY_AFTER, throttle::seconds(after).max(1).into());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_one_connection_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Private"),
            ("connection", "x-other"),
            ("keep-alive", "timeout=5"),
            ("x-private", "1"),
            ("x-other", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("expect", "100-continue"),
            ("mcp-session-id", "s"),
            ("x-public", "1"),
            ("x-public", "2"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let left: Vec<_> = headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect();
        assert_eq!(left, ["mcp-session-id=s", "x-public=1", "x-public=2"]);
    }
}
