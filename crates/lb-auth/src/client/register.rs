//! Registration by anybody (RFC 7591). It gives no trust: a person sees that the client is unverified.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CLIENTS_MAX, Client, Clients, Method, Origin, UNUSED_LIFE, clean, key};
use crate::rate::{REGISTER_DAY, REGISTER_HOUR, counted};
use crate::redirect;
use crate::scope::Scopes;
use crate::secret::{Secret, hex, random};
use crate::token::seconds;

const URIS_MAX: usize = 10;
const NAME_CHARS_MAX: usize = 128;
/// How long a count of all registrations is believed.
const COUNTED_FOR: u64 = 60;

/// What a client says of itself. What we do not use is not looked at, a chosen `client_id` included.
#[derive(Debug, Deserialize)]
struct Said {
    redirect_uris: Option<Vec<String>>,
    client_name: Option<String>,
    token_endpoint_auth_method: Option<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    scope: Option<String>,
    application_type: Option<String>,
    client_uri: Option<String>,
    logo_uri: Option<String>,
}

/// Why a client was not registered.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum RegisterError {
    #[error("{0}")]
    RedirectUri(&'static str),
    #[error("{0}")]
    Metadata(&'static str),
    #[error("too many clients were registered: try again later")]
    TooMany(Duration),
    #[error(transparent)]
    Store(#[from] lb_store::Error),
}

/// How many registrations there are, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Count(Mutex<(u64, usize)>);

impl Clients {
    /// Registers a client and says what it is from now on.
    pub async fn register(&self, body: &[u8], from: IpAddr, now: SystemTime) -> Result<Value, RegisterError> {
        for rate in [REGISTER_HOUR, REGISTER_DAY] {
            if let Some(wait) = rate.take(&*self.store, &counted(from), now).await? {
                return Err(RegisterError::TooMany(wait));
            }
        }
        let said: Said = serde_json::from_slice(body)
            .map_err(|_| RegisterError::Metadata("the body is a JSON object as in RFC 7591"))?;
        let (mut client, told) = registered_as(said, &self.schemes, now)?;
        if CLIENTS_MAX <= self.registrations(now).await? {
            return Err(RegisterError::TooMany(Duration::from_secs(3_600)));
        }
        let secret = (client.method != Method::None).then(Secret::random);
        client.secret = secret.as_ref().map(Secret::hash);
        let (Some(key), Ok(kept)) = (key(&client.id), serde_json::to_vec(&client)) else {
            return Err(RegisterError::Metadata("the registration could not be kept"));
        };
        self.store.set(&key, kept, UNUSED_LIFE).await?;
        self.count.0.lock().1 += 1;
        Ok(registered(&client, told, secret.as_ref(), now))
    }

    /// How many registrations live. They end by themselves, so that they are counted anew now and then.
    async fn registrations(&self, now: SystemTime) -> Result<usize, lb_store::Error> {
        let (at, count) = *self.count.0.lock();
        if seconds(now).abs_diff(at) < COUNTED_FOR {
            return Ok(count);
        }
        let mut keys = self.store.scan("client:");
        let mut count = 0;
        while let Some(key) = keys.next().await {
            key?;
            count += 1;
        }
        *self.count.0.lock() = (seconds(now), count);
        Ok(count)
    }
}

/// Checks what a client says, and returns it with what it is told back.
fn registered_as(
    said: Said,
    schemes: &[String],
    now: SystemTime,
) -> Result<(Client, Map<String, Value>), RegisterError> {
    let redirect_uris = said.redirect_uris.unwrap_or_default();
    if !(1..=URIS_MAX).contains(&redirect_uris.len()) {
        return Err(RegisterError::RedirectUri("redirect_uris has 1 to 10 addresses"));
    }
    for uri in &redirect_uris {
        redirect::check(uri, schemes).map_err(RegisterError::RedirectUri)?;
    }
    let method = method(said.token_endpoint_auth_method.as_deref())?;
    let grants = grants(said.grant_types)?;
    if said.response_types.as_ref().is_some_and(|types| *types != ["code"]) {
        return Err(RegisterError::Metadata("response_types is [\"code\"]"));
    }
    let scopes = match said.scope.as_deref() {
        None | Some("") => None,
        Some(text) => Some(Scopes::parse(text).ok_or(RegisterError::Metadata("scope has one that there is not here"))?),
    };
    let application = said.application_type.as_deref();
    if application.is_some_and(|kind| !matches!(kind, "web" | "native")) {
        return Err(RegisterError::Metadata("application_type is web or native"));
    }
    let name = clean(said.client_name.as_deref().unwrap_or_default(), NAME_CHARS_MAX);
    let mut told = Map::new();
    told.insert("client_name".into(), json!(name));
    told.insert("grant_types".into(), json!(grants));
    for (key, text) in [
        ("application_type", application),
        ("client_uri", said.client_uri.as_deref()),
        ("logo_uri", said.logo_uri.as_deref()),
    ] {
        if let Some(text) = text.filter(|text| text.len() <= redirect::URI_BYTES_MAX) {
            told.insert(key.into(), json!(text));
        }
    }
    let client = Client {
        id: format!("mcp_{}", hex(&random::<16>())),
        name,
        redirect_uris,
        method,
        secret: None,
        refreshes: grants.iter().any(|grant| grant == "refresh_token"),
        scopes,
        origin: Origin::Registered { at: seconds(now) },
    };
    Ok((client, told))
}

fn method(said: Option<&str>) -> Result<Method, RegisterError> {
    match said {
        Some("none") => Ok(Method::None),
        // What RFC 7591 says when nothing is said.
        None | Some("client_secret_basic") => Ok(Method::Basic),
        Some("client_secret_post") => Ok(Method::Post),
        Some(_) => Err(RegisterError::Metadata(
            "token_endpoint_auth_method is none, client_secret_basic or client_secret_post",
        )),
    }
}

fn grants(said: Option<Vec<String>>) -> Result<Vec<String>, RegisterError> {
    let grants = said.unwrap_or_else(|| vec!["authorization_code".into(), "refresh_token".into()]);
    let known = |grant: &String| matches!(grant.as_str(), "authorization_code" | "refresh_token");
    if grants.len() <= 2 && grants.iter().all(known) && grants.iter().any(|grant| grant == "authorization_code") {
        Ok(grants)
    } else {
        Err(RegisterError::Metadata("grant_types has authorization_code, and refresh_token if the client may refresh"))
    }
}

/// What a client is told of its registration.
fn registered(client: &Client, mut told: Map<String, Value>, secret: Option<&Secret>, now: SystemTime) -> Value {
    told.insert("client_id".into(), json!(client.id));
    told.insert("client_id_issued_at".into(), json!(seconds(now)));
    told.insert("redirect_uris".into(), json!(client.redirect_uris));
    told.insert("response_types".into(), json!(["code"]));
    told.insert("token_endpoint_auth_method".into(), json!(client.method));
    if let Some(scopes) = &client.scopes {
        told.insert("scope".into(), json!(scopes));
    }
    if let Some(secret) = secret {
        told.insert("client_secret".into(), json!(secret.expose()));
        told.insert("client_secret_expires_at".into(), json!(0));
    }
    Value::Object(told)
}
