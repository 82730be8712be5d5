//! A legacy session with a server: its id, its revision, and the headers that follow from them.

use std::sync::Arc;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use lb_wire::revision::Revision;
use lb_wire::{Raw, header};

use super::conn::Outgoing;
use super::endpoint::Endpoint;

const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(header::PROTOCOL_VERSION);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static(header::LAST_EVENT_ID);

/// One session, from one `initialize` to the next.
pub struct Session {
    endpoint: Arc<Endpoint>,
    headers: HeaderMap,
    /// Counts sessions of one connection.
    pub generation: u64,
}

impl Session {
    /// The session that an answer to `initialize` opened.
    pub fn new(endpoint: Arc<Endpoint>, id: Option<HeaderValue>, welcome: &Raw, generation: u64) -> Self {
        let mut headers = endpoint.headers().clone();
        if let Some(mut id) = id {
            id.set_sensitive(true);
            headers.insert(SESSION_ID, id);
        }
        let named = welcome.member("protocolVersion");
        let revision = named.as_ref().and_then(Raw::plain_str).and_then(|name| Revision::parse(name.as_bytes()));
        if let Some(revision) = revision.filter(|revision| revision.version_header_required()) {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        Self { endpoint, headers, generation }
    }

    /// The id that a response to `initialize` carries.
    pub fn id_in(headers: &HeaderMap) -> Option<HeaderValue> {
        headers.get(SESSION_ID).cloned()
    }

    /// Whether the server gave the session an id; without one, a 404 says nothing about it.
    pub fn has_id(&self) -> bool {
        self.headers.contains_key(SESSION_ID)
    }

    /// A POST of one message.
    pub fn post(&self, body: Bytes) -> Outgoing {
        self.endpoint.post(self.headers.clone(), body)
    }

    /// A GET of the stream that belongs to no request, or of the rest of any stream.
    pub fn get(&self, last_id: Option<&[u8]>) -> Outgoing {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_bytes(id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        self.endpoint.bare(Method::GET, headers)
    }

    /// The end of the session.
    pub fn delete(&self) -> Outgoing {
        self.endpoint.bare(Method::DELETE, self.headers.clone())
    }
}
