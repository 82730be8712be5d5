//! What is asked of an authorization server where it makes tokens.
//!
//! The SDK could do this, too, and does not here, for reasons that each would suffice: it writes codes and everything a
//! server adds to its answer (such as an id_token) to the log; it forgets which resource it asked for when another
//! process or node goes on with a login; it asks for `offline_access` with every refresh, also where that was not
//! granted, which servers refuse; and it tells what went wrong as text, from which nobody can tell whether somebody must
//! log in again or the server is merely away.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::fetch::{Ask, Fetch, fetch};
use crate::oidc::{basic, endpoint};
use crate::secret::Secret;

/// Shorter than a lock lasts, so that who renews still holds it when the answer comes.
const TIMEOUT: Duration = Duration::from_secs(10);
const BYTES_MAX: usize = 256 * 1_024;
/// The longest token, in bytes: it must fit into a header.
const TOKEN_BYTES_MAX: usize = 32 * 1_024;

/// What we are at an authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub id: String,
    pub secret: Option<String>,
    pub shows: Shows,
    /// Whether we registered ourselves, and can do so again.
    pub registered: bool,
}

/// How a secret is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Shows {
    Basic,
    Post,
    /// Not at all, also where there is one.
    Never,
}

impl Shows {
    /// The way that a server takes; the one that all must take, where it does not say.
    pub fn of(methods: &[String]) -> Self {
        let has = |name: &str| methods.iter().any(|method| method == name);
        match (has("client_secret_basic"), has("client_secret_post"), has("none")) {
            (true, ..) => Self::Basic,
            (false, true, _) => Self::Post,
            (false, false, true) => Self::Never,
            (false, false, false) => Self::Basic,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What was given.
#[derive(Clone)]
pub(super) struct Tokens {
    pub access: String,
    pub refresh: Option<String>,
    pub life: Option<Duration>,
    pub scopes: Option<Vec<String>>,
}

/// Why nothing was given. Says no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    /// Nobody said no: it may work later.
    #[error("{0}")]
    Away(String),
    /// What was shown is not good any more, and never will be.
    #[error("it does not take what was kept of the login (invalid_grant)")]
    Spent,
    /// We are not known there, or not any more.
    #[error("it does not know us, or not our secret (invalid_client)")]
    Unknown,
    /// Anything else that it said, or that cannot be believed.
    #[error("{0}")]
    Refused(String),
}

#[derive(Deserialize)]
struct Told {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Complaint {
    error: String,
}

/// Asks for tokens.
pub(super) async fn ask(
    port: &dyn Fetch,
    token_endpoint: &str,
    client: &Client,
    form: &[(&str, &str)],
) -> Result<Tokens, TokenError> {
    let answer = post(port, token_endpoint, client, form).await?;
    if answer.status() != 200 {
        return Err(complaint(&answer));
    }
    let wrong = |why: &str| TokenError::Refused(format!("its answer is not good: {why}"));
    let told: Told = serde_json::from_slice(answer.body()).map_err(|_| wrong("it cannot be read"))?;
    if !told.token_type.as_deref().unwrap_or("bearer").eq_ignore_ascii_case("bearer") {
        return Err(wrong("the token is not one that can simply be sent"));
    }
    let sendable = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b'\\');
    if told.access_token.is_empty()
        || TOKEN_BYTES_MAX < told.access_token.len()
        || !told.access_token.bytes().all(sendable)
    {
        return Err(wrong("the token cannot be sent"));
    }
    Ok(Tokens {
        access: told.access_token,
        refresh: told.refresh_token.filter(|token| !token.is_empty()),
        life: told.expires_in.as_ref().and_then(life),
        scopes: told.scope.map(|scope| scope.split_ascii_whitespace().map(str::to_owned).collect()),
    })
}

/// Tells an authorization server that a token is not needed any more.
pub(super) async fn revoke(
    port: &dyn Fetch,
    address: &str,
    client: &Client,
    token: &str,
    kind: &str,
) -> Result<(), TokenError> {
    let answer = post(port, address, client, &[("token", token), ("token_type_hint", kind)]).await?;
    if answer.status().is_success() { Ok(()) } else { Err(complaint(&answer)) }
}

async fn post(
    port: &dyn Fetch,
    address: &str,
    client: &Client,
    pairs: &[(&str, &str)],
) -> Result<Response<Bytes>, TokenError> {
    let ask = asked(address, client, pairs)?;
    let answer = fetch(port, ask).await.map_err(|error| TokenError::Away(error.to_string()))?;
    match answer.status().as_u16() {
        408 | 425 | 429 | 500.. => Err(TokenError::Away(format!("it answered {}", answer.status().as_u16()))),
        _ => Ok(answer),
    }
}

fn asked(address: &str, client: &Client, pairs: &[(&str, &str)]) -> Result<Ask, TokenError> {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(pairs);
    let mut headers = HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("application/json")),
        (CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
    ]);
    match (&client.secret, client.shows) {
        (Some(secret), Shows::Basic) => {
            let shown = basic(&client.id, &Secret::new(secret.as_str()));
            headers.insert(AUTHORIZATION, shown.map_err(|error| TokenError::Refused(error.to_string()))?);
        }
        (Some(secret), Shows::Post) => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
        }
        (None, _) | (_, Shows::Never) => {
            form.append_pair("client_id", &client.id);
        }
    }
    Ok(Ask {
        method: Method::POST,
        url: endpoint(address).map_err(|error| TokenError::Refused(error.to_string()))?,
        headers,
        body: Bytes::from(form.finish()),
        bytes_max: BYTES_MAX,
        timeout: TIMEOUT,
    })
}

/// What a server says that does not give anything. Its own words are not repeated: anybody may have put them there.
fn complaint(answer: &Response<Bytes>) -> TokenError {
    let status = answer.status().as_u16();
    let code = serde_json::from_slice::<Complaint>(answer.body()).map(|said| said.error).unwrap_or_default();
    let is_code =
        |code: &str| !code.is_empty() && code.len() <= 64 && code.bytes().all(|b| b == b'_' || b.is_ascii_lowercase());
    match code.as_str() {
        "invalid_grant" => TokenError::Spent,
        "invalid_client" | "unauthorized_client" => TokenError::Unknown,
        "temporarily_unavailable" | "server_error" | "slow_down" => TokenError::Away(format!("it says {code}")),
        code if is_code(code) => TokenError::Refused(format!("it says {code}")),
        _ => TokenError::Refused(format!("it answered {status}")),
    }
}

/// Seconds, also where they are written as text.
fn life(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    seconds.filter(|seconds| *seconds >= 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

#[cfg(test)]
mod tests;
