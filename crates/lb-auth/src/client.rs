//! Clients: those the operator has set, those that registered themselves, and those that publish a document.

mod document;
mod register;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lb_store::{Key, Store};
use serde::{Deserialize, Serialize};

use self::document::Documents;
pub(crate) use self::register::RegisterError;
use crate::fetch::Fetch;
use crate::rate::{DOCUMENT_ADDRESS, DOCUMENT_HOST, counted};
use crate::redirect;
use crate::scope::Scopes;
use crate::secret::{Hash, Secret};
use crate::settings::{DocumentHosts, Settings};

/// How long a registration lives that nobody uses.
pub const UNUSED_LIFE: Duration = Duration::from_secs(86_400);
/// How long one lives after it was used.
pub const USED_LIFE: Duration = Duration::from_secs(90 * 86_400);
/// How many registrations there are at most.
pub const CLIENTS_MAX: usize = 10_000;

/// How a client shows that it is itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Method {
    /// It cannot.
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
    /// Either of both, for clients of the operator's.
    #[serde(rename = "client_secret")]
    Any,
}

/// Where a client comes from, which is what a person is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// The operator has set it.
    Operator,
    /// It has registered itself at this time. Its name is what it says.
    Registered { at: u64 },
    /// It is the document at its address. Its host is who it says.
    Document { host: String },
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub id: String,
    pub name: String,
    pub redirect_uris: Vec<String>,
    pub method: Method,
    pub secret: Option<Hash>,
    pub refreshes: bool,
    /// What it has said that it will ask for, which is told back to it. It binds nobody: a client may need more later, and a
    /// person agrees to each login.
    pub scopes: Option<Scopes>,
    pub origin: Origin,
}

/// What a client sends to show that it is itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub basic: Option<Secret>,
    pub post: Option<Secret>,
}

/// Why there is no such client.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("the client is not known: it must register first")]
    Unknown,
    #[error("{0}")]
    Document(&'static str),
    #[error("too many clients were looked up: try again later")]
    TooMany(Duration),
    #[error(transparent)]
    Store(#[from] lb_store::Error),
}

impl Client {
    /// Whether a request may send people here.
    pub fn may_redirect(&self, uri: &str, schemes: &[String]) -> bool {
        redirect::is_registered(uri, self.redirect_uris.iter().map(String::as_str), schemes)
    }

    /// Whether the client has shown that it is itself, in the one way that it has chosen.
    pub fn is_shown(&self, shown: &Shown) -> bool {
        let right = |secret: &Secret| self.secret.is_some_and(|kept| kept == secret.hash());
        match (self.method, &shown.basic, &shown.post) {
            (Method::None, None, None) => true,
            (Method::Basic | Method::Any, Some(secret), None) | (Method::Post | Method::Any, None, Some(secret)) => {
                right(secret)
            }
            (Method::None | Method::Basic | Method::Post | Method::Any, ..) => false,
        }
    }

    /// Whether every address of it is on the machine of whoever opens it, where any program can listen.
    pub fn is_local_only(&self) -> bool {
        self.redirect_uris.iter().all(|uri| redirect::stays_local(uri))
    }
}

/// All clients.
pub(crate) struct Clients {
    store: Arc<dyn Store>,
    known: Vec<Client>,
    documents: Documents,
    hosts: DocumentHosts,
    schemes: Vec<String>,
    count: register::Count,
}

/// What the id of a client names.
enum Named {
    Client(Box<Client>),
    /// A document at this address, of this host.
    Document(url::Url, String),
}

impl Clients {
    pub fn new(store: Arc<dyn Store>, fetch: Arc<dyn Fetch>, settings: &Settings) -> Self {
        let known = settings.clients.iter().map(|client| Client {
            id: client.id.clone(),
            name: client.name.clone(),
            redirect_uris: client.redirect_uris.clone(),
            method: if client.secret.is_some() { Method::Any } else { Method::None },
            secret: client.secret,
            refreshes: true,
            scopes: None,
            origin: Origin::Operator,
        });
        Self {
            store,
            known: known.collect(),
            documents: Documents::new(fetch),
            hosts: settings.documents.clone(),
            schemes: settings.redirect_schemes.clone(),
            count: register::Count::default(),
        }
    }

    pub fn schemes(&self) -> &[String] {
        &self.schemes
    }

    /// Finds a client; one that is a document is fetched unless it was a moment ago.
    pub async fn find(&self, id: &str, from: IpAddr, now: SystemTime) -> Result<Client, ClientError> {
        let (url, host) = match self.named(id).await? {
            Named::Client(client) => return Ok(*client),
            Named::Document(url, host) => (url, host),
        };
        if let Some(cached) = self.documents.cached(id, now) {
            return cached;
        }
        let good = self.documents.good(id, now);
        let note = document::note(id)?;
        // Whoever uses up what a host may be asked, with documents that it does not have, must not keep out the clients
        // that it has: those are counted by themselves, at every node and after a restart.
        let is_known = good.is_some() || self.store.get(&note).await?.is_some();
        let who = if is_known { id.to_owned() } else { host };
        for (rate, who) in [(DOCUMENT_ADDRESS, counted(from)), (DOCUMENT_HOST, who)] {
            if let Some(wait) = rate.take(&*self.store, &who, now).await? {
                return good.ok_or(ClientError::TooMany(wait));
            }
        }
        let found = self.documents.fetch(&url, &self.schemes, now).await;
        if found.is_ok() && good.is_none() {
            self.store.set(&note, "1", document::KNOWN_FOR).await?;
        }
        found
    }

    /// The same where tokens are exchanged: what a document says was looked at when its user logged in, and the tokens
    /// are bound to its address. Its host being away must not end anybody's work.
    pub async fn find_for_tokens(&self, id: &str, from: IpAddr, now: SystemTime) -> Result<Client, ClientError> {
        let host = match self.named(id).await? {
            Named::Client(client) => return Ok(*client),
            Named::Document(_, host) => host,
        };
        match self.find(id, from, now).await {
            // It now says that it can show who it is, or that it is another one.
            Err(ClientError::Document(why)) if document::is_said(why) => Err(ClientError::Document(why)),
            Err(ClientError::Store(error)) => Err(ClientError::Store(error)),
            Ok(_) | Err(_) => Ok(document::public(id, &host)),
        }
    }

    /// What an id names: a client that is known here, or a document of a host that is let in.
    async fn named(&self, id: &str) -> Result<Named, ClientError> {
        if let Some(client) = self.known.iter().find(|client| client.id == id) {
            return Ok(Named::Client(Box::new(client.clone())));
        }
        if !id.contains(':') {
            let client = self.registered(id).await?.ok_or(ClientError::Unknown)?;
            return Ok(Named::Client(Box::new(client)));
        }
        let url = document::address(id).map_err(ClientError::Document)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        if !self.hosts.allow(&host) {
            return Err(ClientError::Document("the operator does not let clients of this host in"));
        }
        Ok(Named::Document(url, host))
    }

    async fn registered(&self, id: &str) -> Result<Option<Client>, lb_store::Error> {
        let Some(key) = key(id) else { return Ok(None) };
        let Some(kept) = self.store.get(&key).await? else { return Ok(None) };
        Ok(serde_json::from_slice::<Client>(&kept).ok().filter(|client| client.id == id))
    }

    /// Lets a registration live on. That it was used is worth no failure.
    pub async fn used(&self, client: &Client) {
        if let (Origin::Registered { .. }, Some(key)) = (&client.origin, key(&client.id))
            && let Err(error) = self.store.expire(&key, USED_LIFE).await
        {
            tracing::debug!(%error, "a registration was not prolonged");
        }
    }
}

fn key(id: &str) -> Option<Key> {
    let hex =
        id.strip_prefix("mcp_").filter(|hex| hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Key::parse(&format!("client:{{{hex}}}")).ok()
}

/// A name as it can be shown: without control characters, and without those that turn or hide text.
pub(crate) fn clean(text: &str, chars_max: usize) -> String {
    let shown = |c: &char| {
        !c.is_control()
            && !matches!(*c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    let text: String = text.chars().filter(shown).take(chars_max).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests;
