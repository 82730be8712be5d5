//! Finding out who makes tokens for a server, and refusing those who would make them carelessly.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, WWWAuthenticateParams,
};
use serde_json::Value;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber as _;
use url::Url;

use super::credential::Credential;
use super::outward::{Outward, Resource, Seen};
use super::tokens::Shows;
use crate::fetch::{Ask, Fetch, fetch};
use crate::oidc::endpoint;
use crate::redirect::is_loopback;

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
const PROBE_BYTES_MAX: usize = 64 * 1_024;
/// What is shown of what a stranger wrote, in characters.
const SHOWN_MAX: usize = 200;
/// What is taken up of the scopes that a server names.
const SCOPES_MAX: usize = 64;
const SCOPE_BYTES_MAX: usize = 256;

/// Why nobody can be asked for a token, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DiscoverError {
    /// It may work later.
    #[error("where to log in could not be found out now: {0}")]
    Away(String),
    /// It will not.
    #[error("{0}")]
    Unfit(String),
}

/// Who makes tokens for a server.
#[derive(Clone, Debug)]
pub(super) struct Maker {
    /// Its name; for one that says nothing of itself, its origin.
    pub issuer: String,
    /// Whether it says who it is when a person comes back.
    pub says_iss: bool,
    /// Whether it says anything of itself.
    pub is_named: bool,
    pub token_endpoint: String,
    pub revocation_endpoint: Option<String>,
    pub registers: bool,
    /// Whether it takes documents as clients.
    pub takes_documents: bool,
    pub shows: Shows,
    pub offline: bool,
}

impl Maker {
    /// Where it makes tokens, as far as it matters to whom something is shown.
    pub fn origin(&self) -> String {
        origin(&self.token_endpoint)
    }

    /// Whether it is who made this, and makes it in the same place.
    pub fn made(&self, credential: &Credential) -> bool {
        self.issuer == credential.issuer && self.origin() == origin(&credential.token_endpoint)
    }
}

/// The origin of an address.
pub(super) fn origin(address: &str) -> String {
    Url::parse(address).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}

/// What was found out, and who goes on with it.
pub(super) struct Found {
    pub maker: Maker,
    /// What the server is called there.
    pub resource: String,
    pub manager: AuthorizationManager,
}

/// What a server says of what it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    header: Option<String>,
    pub scopes: Vec<String>,
    pub wants_more: bool,
}

impl Challenge {
    /// Reads what came with a refusal; the one that says most counts.
    pub fn of(values: &[String], server: &Url) -> Self {
        let read = |value: &String| {
            let is_bearer = value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
            is_bearer.then(|| (value.clone(), WWWAuthenticateParams::parse(value, server)))
        };
        let all: Vec<_> = values.iter().filter_map(read).collect();
        let best = all.iter().find(|(_, it)| it.resource_metadata_url.is_some()).or(all.first());
        let Some((header, params)) = best else { return Self::default() };
        Self {
            header: Some(header.clone()),
            scopes: params
                .scope
                .as_deref()
                .unwrap_or_default()
                .split_ascii_whitespace()
                .filter(|scope| scope.len() <= SCOPE_BYTES_MAX)
                .take(SCOPES_MAX)
                .map(str::to_owned)
                .collect(),
            wants_more: params.is_insufficient_scope(),
        }
    }

    /// Asks a server what it wants, where it was not asked a moment ago. Not to be told is no failure.
    pub async fn ask(port: &dyn Fetch, server: &Url) -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let (method, url, body) = (Method::GET, server.clone(), Bytes::new());
        let ask = Ask { method, url, headers, body, bytes_max: PROBE_BYTES_MAX, timeout: PROBE_TIMEOUT };
        match fetch(port, ask).await {
            Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
                let values = answer.headers().get_all(WWW_AUTHENTICATE).iter();
                let values: Vec<String> = values.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
                Self::of(&values, server)
            }
            Ok(_) | Err(_) => Self::default(),
        }
    }
}

/// Keeps what the SDK says to itself: it writes down addresses, codes and what servers answer.
pub(super) async fn silent<T>(work: impl Future<Output = T>) -> T {
    work.with_subscriber(Dispatch::none()).await
}

/// Finds out who makes tokens for a server.
///
/// Which addresses are asked is decided by the port. The SDK also refuses authorization servers that are named by a
/// private address, and not by a host: those must have a name, or be on loopback with the server.
pub(super) async fn discover(
    port: Arc<dyn Fetch>,
    server: &Url,
    challenge: &Challenge,
) -> Result<Found, DiscoverError> {
    let outward = Arc::new(Outward::new(port, server.clone()));
    let asked = async {
        let mut manager = AuthorizationManager::new_with_oauth_http_client(server.as_str(), outward.clone()).await?;
        let resolved = manager.resolve_metadata_from_challenge(challenge.header.as_deref()).await?;
        manager.set_metadata(resolved.metadata.clone());
        Ok::<_, AuthError>((manager, resolved))
    };
    let asked = silent(asked).await;
    let seen = outward.seen();
    let (manager, resolved) = asked.map_err(|error| failed(&error, &seen))?;
    let is_named = resolved.source == AuthorizationMetadataSource::ProtectedResourceMetadata;
    let said = seen.resource.as_ref().filter(|_| is_named);
    let maker = match resolved.source {
        AuthorizationMetadataSource::LegacyEndpointFallback => silent_maker(&resolved.metadata, server, &seen)?,
        _ => maker(&resolved.metadata, said, &seen, server)?,
    };
    let resource = said.and_then(|said| said.resource.clone()).unwrap_or_else(|| server.to_string());
    Ok(Found { maker, resource, manager })
}

fn failed(error: &AuthError, seen: &Seen) -> DiscoverError {
    match (&seen.unfit, &seen.away) {
        (Some(why), _) => DiscoverError::Unfit(clip(why)),
        (None, Some(why)) => DiscoverError::Away(why.clone()),
        (None, None) => DiscoverError::Unfit(clip(&error.to_string())),
    }
}

/// One that says something of itself.
fn maker(
    metadata: &AuthorizationMetadata,
    said: Option<&Resource>,
    seen: &Seen,
    server: &Url,
) -> Result<Maker, DiscoverError> {
    let unfit = |why: &str| DiscoverError::Unfit(why.to_owned());
    let issuer = metadata.issuer.as_deref().ok_or_else(|| unfit("the authorization server does not name itself"))?;
    // The SDK lets a slash at the end pass. Two issuers may differ in nothing else.
    if said.is_some_and(|said| !said.names(issuer)) {
        let why = format!(
            "the server names another authorization server than {}; both must be equal byte for byte",
            clip(issuer)
        );
        return Err(DiscoverError::Unfit(why));
    }
    // The SDK takes a document from wherever the server says that it lies, and believes what it says of whose it is.
    if !seen.place.as_ref().is_some_and(|place| is_kept_at(place, issuer)) {
        let why = format!("what is said of {} does not lie where that one would keep it", clip(issuer));
        return Err(DiscoverError::Unfit(why));
    }
    // The SDK only warns where nothing is said.
    let methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        let why = format!("{} does not say that it protects logins with PKCE (S256)", clip(issuer));
        return Err(DiscoverError::Unfit(why));
    }
    let more = |name: &str| metadata.additional_fields.get(name);
    let is = |name: &str| more(name) == Some(&Value::Bool(true));
    let texts = |name: &str| -> Vec<String> {
        let values = more(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    // A secret is shown there, too, and so it is one of the places that are looked at before it is shown.
    let is_theirs = |address: &str| [issuer, &metadata.token_endpoint].iter().any(|it| origin(it) == origin(address));
    let revocation = more("revocation_endpoint").and_then(Value::as_str).map(str::to_owned);
    let scopes = metadata.scopes_supported.as_deref().unwrap_or_default();
    let maker = Maker {
        issuer: issuer.to_owned(),
        says_iss: is("authorization_response_iss_parameter_supported"),
        is_named: true,
        token_endpoint: metadata.token_endpoint.clone(),
        revocation_endpoint: revocation.filter(|address| is_safe(address, server) && is_theirs(address)),
        registers: metadata.registration_endpoint.is_some(),
        takes_documents: is("client_id_metadata_document_supported"),
        shows: Shows::of(&texts("token_endpoint_auth_methods_supported")),
        offline: scopes.iter().any(|scope| scope == "offline_access"),
    };
    are_safe(metadata, server).map(|()| maker)
}

/// Whether this is where an issuer keeps what it says of itself: only who has its origin can put something there.
fn is_kept_at(place: &Url, issuer: &str) -> bool {
    let Ok(issuer) = Url::parse(issuer) else { return false };
    let (oauth, oidc) = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
    let is_form = match issuer.path().trim_matches('/') {
        "" => [oauth, oidc].contains(&place.path()),
        path => {
            let forms = [format!("{oauth}/{path}"), format!("{oidc}/{path}"), format!("/{path}{oidc}")];
            // Some with a path in their name have but one such document for their whole origin.
            forms.iter().any(|form| form == place.path()) || place.path() == oauth
        }
    };
    is_form && place.query().is_none() && place.origin() == issuer.origin()
}

/// One that says nothing of itself, as those of 2025-03-26 may: its addresses are then known.
fn silent_maker(metadata: &AuthorizationMetadata, server: &Url, seen: &Seen) -> Result<Maker, DiscoverError> {
    if seen.something {
        let why = "the server says something of where to log in, and it cannot be used";
        return Err(DiscoverError::Unfit(why.to_owned()));
    }
    are_safe(metadata, server)?;
    Ok(Maker {
        issuer: server.origin().ascii_serialization(),
        says_iss: false,
        is_named: false,
        token_endpoint: metadata.token_endpoint.clone(),
        revocation_endpoint: None,
        registers: true,
        takes_documents: false,
        shows: Shows::of(&[]),
        offline: false,
    })
}

/// Nobody is sent to an address where others can listen, and nothing is sent there.
fn are_safe(metadata: &AuthorizationMetadata, server: &Url) -> Result<(), DiscoverError> {
    let addresses = [Some(&metadata.authorization_endpoint), Some(&metadata.token_endpoint)];
    for address in addresses.into_iter().chain([metadata.registration_endpoint.as_ref()]).flatten() {
        if !is_safe(address, server) {
            let why =
                format!("one of the addresses of the authorization server is not https: {}", clip(&origin(address)));
            return Err(DiscoverError::Unfit(why));
        }
    }
    Ok(())
}

/// Encrypted, or on this machine with the server: one elsewhere must not have us, or a browser, speak to what listens
/// here.
fn is_safe(address: &str, server: &Url) -> bool {
    endpoint(address).is_ok_and(|url| !is_loopback(&url) || is_loopback(server))
}

/// The beginning of what a stranger wrote, which people and models will read.
fn clip(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod generated;
#[cfg(test)]
pub(super) mod tests;
