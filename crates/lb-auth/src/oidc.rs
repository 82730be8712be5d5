//! The provider at which people log in: found, asked and believed only as far as it is signed.

mod idtoken;
mod known;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response};
use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;
use url::form_urlencoded::Serializer;

use self::idtoken::{Expected, IdError};
use self::known::Known;
use crate::family::Login;
use crate::fetch::{Ask, Fetch, fetch};
use crate::policy::Need;
use crate::redirect::is_loopback;
use crate::secret::{Hash, Secret};
use crate::settings::Provider;

/// How long what a provider says of itself, and its keys, are believed.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(600);
/// The same before somebody is sent there: it must answer now, because what a browser shows of a provider that is away
/// helps nobody. Those who are sent at the same time wait for one answer.
pub(crate) const PROBED_FOR: Duration = Duration::ZERO;
/// How often keys are asked for because of one that is not known.
const KEYS_EVERY: Duration = Duration::from_secs(60);
/// How long one answer may take. A person is told within five seconds that there is none.
const ASK_TIMEOUT: Duration = Duration::from_secs(4);
/// How long everything may take that is asked when somebody comes back.
const LOGIN_TIMEOUT: Duration = Duration::from_millis(4_500);
const BYTES_MAX: usize = 256 * 1_024;
const GROUPS_MAX: usize = 256;

/// Why a login came to nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LoginError {
    /// The provider cannot be asked now.
    #[error("the provider cannot be reached: {0}")]
    Away(String),
    /// What it says is not what it should say.
    #[error("the provider's answer is not good: {0}")]
    Wrong(&'static str),
}

/// What a provider says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// What belongs to one login.
#[derive(Clone, Debug, serde::Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub nonce: String,
    pub verifier: String,
}

impl Attempt {
    pub fn new() -> Self {
        Self { nonce: Secret::random().expose().to_owned(), verifier: Secret::random().expose().to_owned() }
    }
}

/// The provider, and what is known of it.
pub(crate) struct Idp {
    pub settings: Provider,
    callback: String,
    port: Arc<dyn Fetch>,
    metadata: Known<Metadata>,
    keys: Known<JwkSet>,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: Option<String>,
    access_token: Option<String>,
}

impl Idp {
    pub fn new(settings: Provider, public_url: &str, port: Arc<dyn Fetch>) -> Self {
        let callback = format!("{public_url}/oauth/callback");
        Self { settings, callback, port, metadata: Known::default(), keys: Known::default() }
    }

    /// What the provider says of itself, not older than this. Cancel safe: others who ask go on.
    pub async fn metadata(&self, age_max: Duration, now: SystemTime) -> Result<Arc<Metadata>, LoginError> {
        let (port, issuer) = (self.port.clone(), self.settings.issuer.clone());
        let ask = || async move { configuration(&*port, &issuer).await.map(Arc::new) }.boxed();
        self.metadata.get(age_max, now, ask).await
    }

    /// Where a person's browser is sent to log in.
    pub fn login_address(&self, metadata: &Metadata, state: &str, attempt: &Attempt) -> Result<String, LoginError> {
        let mut url = endpoint(&metadata.authorization_endpoint)?;
        let mut scopes = vec!["openid"];
        scopes.extend(self.settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid"));
        let challenge = Hash::of(attempt.verifier.as_bytes()).base64();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.callback)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .extend_pairs(&self.settings.parameters);
        Ok(url.into())
    }

    /// Whether the provider that sent the browser back is the one that it was sent to.
    pub fn came_from_us(&self, metadata: &Metadata, iss: Option<&str>) -> bool {
        match iss {
            Some(iss) => iss == self.settings.issuer,
            None => !metadata.authorization_response_iss_parameter_supported.unwrap_or(false),
        }
    }

    /// Exchanges the provider's code for who has logged in. Its tokens are dropped at the end.
    pub async fn login(&self, code: &str, attempt: &Attempt, need: Need, now: SystemTime) -> Result<Login, LoginError> {
        let login = self.identify(code, attempt, need, now);
        let late = || LoginError::Away("it did not answer in time".to_owned());
        tokio::time::timeout(LOGIN_TIMEOUT, login).await.map_err(|_| late())?
    }

    async fn identify(&self, code: &str, attempt: &Attempt, need: Need, now: SystemTime) -> Result<Login, LoginError> {
        let metadata = self.metadata(KEPT_FOR, now).await?;
        let tokens = self.exchange(&metadata, code, attempt).await?;
        let token = tokens.id_token.ok_or(LoginError::Wrong("there is no id_token"))?;
        let expected =
            Expected { issuer: &self.settings.issuer, client_id: &self.settings.client_id, nonce: &attempt.nonce, now };
        let keys = self.keys(&metadata, KEPT_FOR, now).await?;
        let mut claims = match idtoken::verify(&token, &keys, &expected) {
            // It may have new keys.
            Err(IdError::UnknownKey) => {
                let keys = self.keys(&metadata, KEYS_EVERY, now).await?;
                idtoken::verify(&token, &keys, &expected)
            }
            verified => verified,
        }
        .map_err(|error| LoginError::Wrong(error.why()))?;
        if let (Some(access), Some(address)) = (&tokens.access_token, &metadata.userinfo_endpoint)
            && (!claims.contains_key("email") || !claims.contains_key(&self.settings.groups_claim))
        {
            let lacks = |name: &str| !claims.contains_key(name);
            let needed = (need.email && lacks("email")) || (need.groups && lacks(&self.settings.groups_claim));
            match self.supplement(&mut claims, address, access).await {
                Err(error) if needed => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "the provider tells no more of somebody, and no rule asks for it")
                }
                Ok(()) => {}
            }
        }
        Ok(self.who(&claims))
    }

    /// Adds what the provider tells only to those who ask for it. What was signed stays as it was.
    async fn supplement(&self, claims: &mut Map<String, Value>, address: &str, access: &str) -> Result<(), LoginError> {
        let answer = get(&*self.port, &endpoint(address)?, Some(access)).await?;
        let more: Map<String, Value> =
            serde_json::from_slice(answer.body()).map_err(|_| LoginError::Wrong("its userinfo cannot be read"))?;
        if more.get("sub") != claims.get("sub") {
            return Err(LoginError::Wrong("its userinfo is somebody else's"));
        }
        // An address and whether it is verified belong together.
        let has_email = claims.contains_key("email");
        for (name, value) in more {
            let of_email = matches!(name.as_str(), "email" | "email_verified");
            if (of_email && !has_email) || (!of_email && !claims.contains_key(&name)) {
                claims.insert(name, value);
            }
        }
        Ok(())
    }

    fn who(&self, claims: &Map<String, Value>) -> Login {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let subject = text("sub").unwrap_or_default().to_owned();
        let verified = claims.get("email_verified") == Some(&Value::Bool(true));
        let domain = text("email").filter(|_| verified).and_then(|email| email.rsplit_once('@'));
        let groups = match claims.get(&self.settings.groups_claim) {
            Some(Value::Array(groups)) => {
                groups.iter().filter_map(Value::as_str).take(GROUPS_MAX).map(str::to_owned).collect()
            }
            Some(Value::String(group)) => vec![group.clone()],
            _ => Vec::new(),
        };
        Login {
            principal: principal(&self.settings.issuer, &subject),
            subject,
            domain: domain.map(|(_, domain)| domain.to_ascii_lowercase()),
            groups,
        }
    }

    async fn exchange(&self, metadata: &Metadata, code: &str, attempt: &Attempt) -> Result<Tokens, LoginError> {
        let answer = put(&*self.port, self.exchange_of(metadata, code, attempt)?).await?;
        serde_json::from_slice(answer.body()).map_err(|_| LoginError::Wrong("its tokens cannot be read"))
    }

    fn exchange_of(&self, metadata: &Metadata, code: &str, attempt: &Attempt) -> Result<Ask, LoginError> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code").append_pair("code", code);
        form.append_pair("redirect_uri", &self.callback).append_pair("code_verifier", &attempt.verifier);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let methods = metadata.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let has = |name: &str| methods.iter().any(|method| method == name);
        match &self.settings.client_secret {
            Some(secret) if has("client_secret_basic") || !has("client_secret_post") => {
                headers.insert(AUTHORIZATION, basic(&self.settings.client_id, secret)?);
            }
            secret => {
                form.append_pair("client_id", &self.settings.client_id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret.expose());
                }
            }
        }
        Ok(Ask {
            method: Method::POST,
            url: endpoint(&metadata.token_endpoint)?,
            headers,
            body: Bytes::from(form.finish()),
            bytes_max: BYTES_MAX,
            timeout: ASK_TIMEOUT,
        })
    }

    /// The provider's keys, not older than this.
    async fn keys(&self, metadata: &Metadata, age_max: Duration, now: SystemTime) -> Result<Arc<JwkSet>, LoginError> {
        // Also when it did not answer: whoever comes with a key that nobody knows asks for none within a minute.
        if age_max <= KEYS_EVERY
            && let Some(keys) = self.keys.since(KEYS_EVERY, now)
        {
            return Ok(keys);
        }
        let (port, url) = (self.port.clone(), endpoint(&metadata.jwks_uri)?);
        let ask = || async move {
            let answer = get(&*port, &url, None).await?;
            let keys = serde_json::from_slice(answer.body());
            keys.map(Arc::new).map_err(|_| LoginError::Wrong("its keys cannot be read"))
        };
        self.keys.get(age_max, now, || ask().boxed()).await
    }
}

/// What a provider says of itself.
async fn configuration(port: &dyn Fetch, issuer: &str) -> Result<Metadata, LoginError> {
    let address = format!("{}/.well-known/openid-configuration", issuer.strip_suffix('/').unwrap_or(issuer));
    let answer = get(port, &endpoint(&address)?, None).await?;
    let metadata: Metadata =
        serde_json::from_slice(answer.body()).map_err(|_| LoginError::Wrong("its configuration cannot be read"))?;
    if metadata.issuer != issuer {
        return Err(LoginError::Wrong("its configuration names another issuer; they must be equal byte for byte"));
    }
    for address in [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri] {
        endpoint(address)?;
    }
    Ok(metadata)
}

async fn get(port: &dyn Fetch, url: &Url, bearer: Option<&str>) -> Result<Response<Bytes>, LoginError> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    if let Some(token) = bearer {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| LoginError::Wrong("its access token cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let (method, body) = (Method::GET, Bytes::new());
    put(port, Ask { method, url: url.clone(), headers, body, bytes_max: BYTES_MAX, timeout: ASK_TIMEOUT }).await
}

async fn put(port: &dyn Fetch, ask: Ask) -> Result<Response<Bytes>, LoginError> {
    let answer = fetch(port, ask).await.map_err(|error| LoginError::Away(error.to_string()))?;
    match answer.status().as_u16() {
        200 => Ok(answer),
        429 | 500.. => Err(LoginError::Away(format!("it answered {}", answer.status()))),
        _ => Err(LoginError::Wrong("it refused what it was asked")),
    }
}

/// The name that everything of a person's is kept under.
pub(crate) fn principal(issuer: &str, subject: &str) -> String {
    let hash = Hash::of(format!("{issuer}\0{subject}").as_bytes()).hex();
    format!("u_{}", hash.chars().take(32).collect::<String>())
}

pub(crate) fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, LoginError> {
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)))
        .map_err(|_| LoginError::Wrong("our credentials cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// An address of the provider's: encrypted, or on this machine.
pub(crate) fn endpoint(text: &str) -> Result<Url, LoginError> {
    let url = Url::parse(text).map_err(|_| LoginError::Wrong("one of its addresses cannot be read"))?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err(LoginError::Wrong("one of its addresses is not https")),
    }
}

impl std::fmt::Debug for Idp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idp").field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
