//! Clients whose id is the address of a document about them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method as Verb, StatusCode};
use lb_store::Key;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{Client, ClientError, Method, Origin, clean};
use crate::fetch::{Ask, Fetch, fetch};
use crate::redirect;
use crate::scope::Scopes;
use crate::secret::Hash;

const BYTES_MAX: usize = 64 * 1_024;
const TIMEOUT: Duration = Duration::from_secs(5);
const KEPT_MIN: Duration = Duration::from_secs(60);
const KEPT_MAX: Duration = Duration::from_secs(86_400);
/// How long a failure is believed.
const FAILED_FOR: Duration = Duration::from_secs(30);
const DOCUMENTS_MAX: usize = 1_000;
/// How long it is remembered that a document was a good one.
pub(super) const KNOWN_FOR: Duration = Duration::from_secs(30 * 86_400);
const NOT_FETCHED: &str = "the client's document could not be fetched";
const OTHER_ID: &str = "the client's document has another client_id than its address";
const HAS_SECRET: &str = "the client's document has a secret, which everybody can read";
const OTHER_METHOD: &str = "the client's document asks for an authentication other than none";

/// Documents that were fetched a moment ago.
pub(super) struct Documents {
    port: Arc<dyn Fetch>,
    kept: Mutex<HashMap<String, Kept>>,
    /// One fetch at a time for each address.
    under_way: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// Whoever waits for one fetch. The last one removes it, also one that goes away before it is done.
struct Turn<'a> {
    under_way: &'a Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    id: &'a str,
    own: Arc<tokio::sync::Mutex<()>>,
}

impl Turn<'_> {
    fn joined(mut self) -> Self {
        self.own = self.under_way.lock().entry(self.id.to_owned()).or_insert_with(|| self.own.clone()).clone();
        self
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock();
        // The map's own and ours.
        if under_way.get(self.id).is_some_and(|turn| Arc::strong_count(turn) <= 2) {
            under_way.remove(self.id);
        }
    }
}

/// Whether a document says so: that it is of somebody else, or that its client can show who it is. A page of whoever
/// stands before its host for a while says nothing of the client.
pub(super) fn is_said(why: &str) -> bool {
    matches!(why, OTHER_ID | HAS_SECRET | OTHER_METHOD)
}

#[derive(Clone)]
struct Kept {
    /// Until when it is not asked again.
    until: SystemTime,
    /// Until when it does where it cannot be asked: a day longer than it said itself, however often it was tried.
    good_until: SystemTime,
    /// When it was last wanted.
    used: SystemTime,
    client: Result<Client, &'static str>,
}

#[derive(Deserialize)]
struct Document {
    client_id: String,
    client_name: Option<String>,
    redirect_uris: Option<Vec<String>>,
    token_endpoint_auth_method: Option<String>,
    grant_types: Option<Vec<String>>,
    scope: Option<String>,
    client_secret: Option<Value>,
    client_secret_expires_at: Option<Value>,
}

impl Documents {
    pub fn new(port: Arc<dyn Fetch>) -> Self {
        Self { port, kept: Mutex::default(), under_way: Mutex::default() }
    }

    /// How many are being fetched.
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.under_way.lock().len()
    }

    /// What is known without asking.
    pub fn cached(&self, id: &str, now: SystemTime) -> Option<Result<Client, ClientError>> {
        let mut kept = self.kept.lock();
        let known = kept.get_mut(id).filter(|kept| now < kept.until)?;
        known.used = now;
        Some(known.client.clone().map_err(ClientError::Document))
    }

    /// What a document said last, if it was a good one, though it is to be asked again: for when it cannot be.
    pub fn good(&self, id: &str, now: SystemTime) -> Option<Client> {
        self.good_until(id, now).map(|(client, _)| client)
    }

    fn good_until(&self, id: &str, now: SystemTime) -> Option<(Client, SystemTime)> {
        let mut kept = self.kept.lock();
        let known = kept.get_mut(id).filter(|kept| now < kept.good_until)?;
        known.used = now;
        Some((known.client.as_ref().ok()?.clone(), known.good_until))
    }

    /// Asks, unless somebody else does: then it waits for what they get. Cancel safe: the next one asks.
    pub async fn fetch(&self, url: &Url, schemes: &[String], now: SystemTime) -> Result<Client, ClientError> {
        let id = url.as_str();
        let turn = Turn { under_way: &self.under_way, id, own: Arc::default() };
        let turn = turn.joined();
        let _held = turn.own.lock().await;
        let known = self.cached(id, now);
        match known {
            Some(known) => known,
            None => {
                let (client, life, good_until) = match (self.ask(url, schemes).await, self.good_until(id, now)) {
                    (Ok((client, life)), _) => (Ok(client), life, now + life + KEPT_MAX),
                    // A host that is away for a while takes nobody's client away.
                    (Err(NOT_FETCHED), Some((before, good_until))) => (Ok(before), FAILED_FOR, good_until),
                    (Err(why), _) => (Err(why), FAILED_FOR, now),
                };
                let kept = Kept { until: now + life, good_until, used: now, client: client.clone() };
                self.keep(id, kept, now);
                client.map_err(ClientError::Document)
            }
        }
    }

    fn keep(&self, id: &str, document: Kept, now: SystemTime) {
        let mut kept = self.kept.lock();
        if DOCUMENTS_MAX <= kept.len() {
            kept.retain(|_, kept| now < kept.until.max(kept.good_until));
        }
        // Strangers must not keep others out by filling it up: what is no client gives way, then what nobody wants.
        let first = kept.iter().min_by_key(|(_, kept)| (kept.client.is_ok(), kept.used)).map(|(id, _)| id.clone());
        if let Some(first) = first.filter(|_| DOCUMENTS_MAX <= kept.len()) {
            kept.remove(&first);
        }
        kept.insert(id.to_owned(), document);
    }

    async fn ask(&self, url: &Url, schemes: &[String]) -> Result<(Client, Duration), &'static str> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let ask = Ask {
            method: Verb::GET,
            url: url.clone(),
            headers,
            body: Bytes::new(),
            bytes_max: BYTES_MAX,
            timeout: TIMEOUT,
        };
        let answer = fetch(&*self.port, ask).await.map_err(|error| {
            tracing::debug!(%error, %url, "a client's document was not fetched");
            NOT_FETCHED
        })?;
        if answer.status() != StatusCode::OK {
            return Err("the client's document is not there (its address must answer 200)");
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
            return Err("the client's document is not application/json");
        }
        let host = url.host_str().unwrap_or_default();
        Ok((read(answer.body(), url.as_str(), host, schemes)?, life(answer.headers())))
    }
}

/// Reads a document. Everything in it is what its host says; that it is that host is what we know.
fn read(body: &[u8], id: &str, host: &str, schemes: &[String]) -> Result<Client, &'static str> {
    let document: Document = serde_json::from_slice(body).map_err(|_| "the client's document cannot be read")?;
    if document.client_id != id {
        return Err(OTHER_ID);
    }
    if document.client_secret.is_some() || document.client_secret_expires_at.is_some() {
        return Err(HAS_SECRET);
    }
    if document.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none") {
        return Err(OTHER_METHOD);
    }
    let name = clean(document.client_name.as_deref().unwrap_or_default(), 128);
    if name.is_empty() {
        return Err("the client's document has no client_name");
    }
    let uris = document.redirect_uris.unwrap_or_default();
    if !(1..=10).contains(&uris.len()) || !uris.iter().all(|uri| redirect::check(uri, schemes).is_ok()) {
        return Err("the client's document has redirect_uris that are not allowed, or none, or more than 10");
    }
    let refreshes = document.grant_types.is_none_or(|grants| grants.iter().any(|grant| grant == "refresh_token"));
    // Scopes of other servers may stand there, too.
    let scopes = document.scope.as_deref().and_then(Scopes::parse).filter(|scopes| !scopes.is_empty());
    Ok(Client { name, redirect_uris: uris, refreshes, scopes, ..public(id, host) })
}

/// Where it is noted that a document was a good one.
pub(super) fn note(id: &str) -> Result<Key, lb_store::Error> {
    Key::parse(&format!("document:{{{}}}", Hash::of(id.as_bytes()).hex()))
}

/// A client of which only its address is known.
pub(super) fn public(id: &str, host: &str) -> Client {
    Client {
        id: id.to_owned(),
        name: String::new(),
        redirect_uris: Vec::new(),
        method: Method::None,
        secret: None,
        refreshes: true,
        scopes: None,
        origin: Origin::Document { host: host.to_owned() },
    }
}

/// The address of a document, if a client's id is one and can be read in one way only.
pub(super) fn address(id: &str) -> Result<Url, &'static str> {
    let wrong = "a client_id that is an address is https, has a path, and nothing in it to resolve";
    if redirect::URI_BYTES_MAX < id.len() || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong);
    }
    let url = Url::parse(id).map_err(|_| wrong)?;
    let plain = url.scheme() == "https" && url.as_str() == id && url.path() != "/" && !id.contains(['\\', '#']);
    let anonymous = url.username().is_empty() && url.password().is_none();
    if plain && anonymous && !redirect::has_dots(id) { Ok(url) } else { Err(wrong) }
}

/// For how long a document is believed.
fn life(headers: &HeaderMap) -> Duration {
    let text =
        headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    let parts = || text.split(',').map(str::trim);
    if parts().any(|part| matches!(part, "no-store" | "no-cache")) {
        return KEPT_MIN;
    }
    let age = parts().find_map(|part| part.strip_prefix("max-age=")?.parse().ok());
    Duration::from_secs(age.unwrap_or(0)).clamp(KEPT_MIN, KEPT_MAX)
}
