//! The one thing that whoever serves HTTP holds: it checks requests and answers those that are about tokens.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response, Uri};
use lb_exchange::Principal;
use lb_store::Store;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::apikey::ApiKeys;
use crate::audit::Seldom;
use crate::client::Clients;
use crate::clock::Clock;
use crate::family::Families;
use crate::fetch::Fetch;
use crate::form::Form;
use crate::keys::Keys;
use crate::oidc::Idp;
use crate::policy::{Decision, Rules, Target, Who, decide};
use crate::refusal::{Place, Refusal};
use crate::resource::Resources;
use crate::rights::Carried;
use crate::scope::{Scope, Scopes};
use crate::secret::{Hash, Secret, equal};
use crate::settings::Settings;
use crate::shown::{Shown, Token};
use crate::token::TokenError;

/// What stands for the family of those who do not log in: the hash of what they send comes behind it.
const KEY_FAMILY: &str = "key:";
const OPERATOR_FAMILY: &str = "operator:";

/// What somebody who was let in may do, for one request. Written as text, it can be carried to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Carried", into = "Carried")]
pub struct Grant {
    /// Who it is. A session belongs to the principal and the client together.
    pub who: Who,
    /// What the token may do.
    pub scopes: Scopes,
    /// The family of the token, or what stands for a key: what was used with it ends with it.
    pub family: Option<Arc<str>>,
    /// Whether everything is allowed, because the operator or a key of an administrator sent it.
    pub(crate) operator: bool,
}

impl Grant {
    /// Whether it came of a login, and not of a key or an operator's token.
    pub(crate) fn is_login(&self) -> bool {
        let own = |family: &Arc<str>| !family.starts_with(KEY_FAMILY) && !family.starts_with(OPERATOR_FAMILY);
        self.family.as_ref().is_some_and(own)
    }

    /// Whether the gateway itself may be changed.
    pub fn is_admin(&self) -> bool {
        self.scopes.has(&Scope::Admin)
    }
}

/// How others are reached.
#[derive(Clone)]
pub struct Ports {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Asks strangers for documents about clients: public addresses only.
    pub documents: Arc<dyn Fetch>,
    /// Asks the operator's provider.
    pub provider: Arc<dyn Fetch>,
}

/// Why it cannot be set up.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct SetupError(pub Vec<String>);

/// Checks requests, and answers those that are about tokens.
pub struct Auth {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) families: Families,
    pub(crate) clients: Clients,
    pub(crate) resources: Resources,
    pub(crate) idp: Option<Idp>,
    rules: RwLock<Arc<Rules>>,
    api_keys: RwLock<Arc<ApiKeys>>,
    operator: RwLock<Option<Hash>>,
    origins: RwLock<Vec<String>>,
    clock: Clock,
    shown: Shown,
    pub(crate) refusals: Seldom,
    pub(crate) keys_used: Seldom,
}

impl Auth {
    /// Sets it up.
    ///
    /// # Errors
    /// Everything in the settings that would let strangers in or nobody.
    pub fn new(mut settings: Settings, keys: Keys, ports: Ports) -> Result<Self, SetupError> {
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(SetupError(problems));
        }
        // Clients name us in one way only, whichever way the operator writes it.
        settings.public_url = crate::settings::plain(&settings.public_url);
        let keys = Arc::new(keys);
        let idp = settings.provider.clone().map(|provider| Idp::new(provider, &settings.public_url, ports.provider));
        Ok(Self {
            families: Families::new(ports.store.clone(), keys.clone(), &settings.public_url).with_lives(settings.lives),
            clients: Clients::new(ports.store.clone(), ports.documents, &settings),
            resources: Resources::new(&settings.public_url),
            rules: RwLock::new(Arc::new(settings.rules.clone())),
            api_keys: RwLock::new(Arc::new(settings.api_keys.clone())),
            operator: RwLock::new(settings.operator_token.as_ref().map(Secret::hash)),
            origins: RwLock::new(settings.origins.clone()),
            clock: Clock::new(ports.store.clone()),
            shown: Shown::default(),
            refusals: Seldom::default(),
            keys_used: Seldom::default(),
            store: ports.store,
            settings,
            keys,
            idp,
        })
    }

    /// Replaces the rules; they count from the next request on.
    pub fn set_rules(&self, rules: Rules) {
        *self.rules.write() = Arc::new(rules);
    }

    /// Replaces the keys of programs.
    pub fn set_api_keys(&self, keys: ApiKeys) {
        *self.api_keys.write() = Arc::new(keys);
    }

    /// Replaces what an operator sends; the one before is good no longer.
    pub fn set_operator_token(&self, token: Option<&Secret>) {
        *self.operator.write() = token.map(Secret::hash);
    }

    /// Replaces the origins of pages that may use `/token`, `/register` and `/revoke`.
    pub fn set_origins(&self, origins: Vec<String>) {
        *self.origins.write() = origins;
    }

    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        self.origins.read().iter().any(|allowed| allowed == origin)
    }

    /// What time it is for tokens: on several nodes that of the store they share. Cancel safe: yes.
    pub async fn now(&self) -> SystemTime {
        self.clock.now().await
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.read().clone()
    }

    /// Says who sent a request and what its token may do. Cancel safe: yes.
    ///
    /// # Errors
    /// Why it does not go on; [`refuse`](Self::refuse) makes the answer of it.
    pub async fn check(&self, headers: &HeaderMap, uri: &Uri, now: SystemTime) -> Result<Arc<Grant>, Refusal> {
        let sent = bearer(headers, uri)?;
        let hash = Hash::of(sent);
        if let Some(token) = self.shown.find(&hash) {
            return self.by_token(&token, uri.path(), now).await;
        }
        let sent = token(sent).ok_or(Refusal::Malformed)?;
        if self.operator.read().is_some_and(|operator| operator == hash) {
            let grant = operator(&hash);
            self.key_used(&grant, now);
            return Ok(Arc::new(grant));
        }
        if ApiKeys::looks_like(sent) {
            return self.by_key(&hash).inspect(|grant| self.key_used(grant, now)).map(Arc::new);
        }
        if self.idp.is_none() {
            return Err(Refusal::Invalid);
        }
        let token = self.shown.read(&self.keys, sent, hash).map_err(refusal)?;
        self.by_token(&token, uri.path(), now).await
    }

    async fn by_token(&self, token: &Token, path: &str, now: SystemTime) -> Result<Arc<Grant>, Refusal> {
        let claims = &token.claims;
        claims.hold(&self.settings.public_url, now).map_err(refusal)?;
        if !self.resources.covers(&claims.aud, path) {
            return Err(Refusal::Invalid);
        }
        let record = self.families.check(claims, now).await.map_err(|error| {
            tracing::warn!(%error, "tokens cannot be checked");
            Refusal::StoreAway
        })?;
        let record = record.ok_or(Refusal::Invalid)?;
        token.grant(&record, &self.rules()).ok_or(Refusal::Invalid)
    }

    /// What somebody lacks who is no administrator: a scope, if the rules would give it to them.
    pub fn lacks_admin(&self, grant: &Grant) -> Refusal {
        let scopes = Scopes::default().with(Scope::Admin);
        if self.rules().is_admin(&grant.who) { Refusal::Scope { scopes } } else { Refusal::Denied }
    }

    fn by_key(&self, hash: &Hash) -> Result<Grant, Refusal> {
        let keys = self.api_keys.read().clone();
        let key = keys.by_hash(hash).ok_or(Refusal::Invalid)?;
        let who = named(&format!("key:{}", key.id));
        let operator = key.scopes.has(&Scope::Admin);
        let family = Some(format!("{KEY_FAMILY}{}", hash.hex()).into());
        Ok(Grant { who, scopes: key.scopes.clone(), family, operator })
    }

    /// Decides on one request of somebody who was let in.
    pub fn decide(&self, grant: &Grant, method: &str, target: Target<'_>) -> Decision {
        if grant.operator { Decision::Allow } else { decide(&grant.who, &grant.scopes, &self.rules(), method, target) }
    }

    /// The answer to a request that does not go on. `id` is the id of the JSON-RPC request, where one was read.
    pub fn refuse(&self, refusal: &Refusal, path: &str, id: Option<&Value>) -> Response<Bytes> {
        let metadata = self.idp.as_ref().map(|_| self.resource_metadata_address(path));
        refusal.answer(&Place { metadata }, id)
    }

    /// Whether the family of a token still lives and its person is still let in, and to this server if one is named: for
    /// what must end with it. Not known while the store is away.
    ///
    /// # Errors
    /// What the store says.
    pub async fn is_alive(&self, family: &str, server: Option<&str>, now: SystemTime) -> Result<bool, lb_store::Error> {
        let rules = self.rules();
        if let Some(hash) = family.strip_prefix(KEY_FAMILY) {
            let keys = self.api_keys.read();
            let key = Hash::from_hex(hash).and_then(|hash| keys.by_hash(&hash));
            let reaches = |key: &crate::apikey::ApiKey| {
                let who = named(&format!("key:{}", key.id));
                key.scopes.has(&Scope::Admin) || server.is_none_or(|server| listens(&who, &key.scopes, &rules, server))
            };
            return Ok(key.is_some_and(reaches));
        }
        if let Some(hash) = family.strip_prefix(OPERATOR_FAMILY) {
            return Ok(self.operator.read().is_some_and(|operator| operator.hex() == hash));
        }
        let living = self.families.living(family, now).await?;
        Ok(living.is_some_and(|record| {
            let who = record.granted.login.who(&record.granted.client);
            let scopes = &record.granted.scopes;
            rules.lets_in(&who) && server.is_none_or(|server| listens(&who, scopes, &rules, server))
        }))
    }

    /// Ends once more what was ended here and what the store may have forgotten. Cancel safe: the next one goes on.
    pub async fn tend(&self, now: SystemTime) {
        if let Err(error) = self.families.tend(now).await {
            tracing::debug!(%error, "what was ended is ended again later");
        }
    }

    /// Whether a path is one that [`handle`](Self::handle) answers.
    pub fn handles(path: &str) -> bool {
        crate::endpoint::Route::of(path).is_some()
    }

    /// Answers a request for one of the paths of OAuth. Cancel safe: what was done stays done.
    pub async fn handle(&self, request: Request<Bytes>, from: IpAddr, now: SystemTime) -> Response<Bytes> {
        crate::endpoint::answer(self, &request, from, now).await
    }
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("public_url", &self.settings.public_url).finish_non_exhaustive()
    }
}

/// The one token of a request. What it is made of is not looked at.
fn bearer<'a>(headers: &'a HeaderMap, uri: &Uri) -> Result<&'a [u8], Refusal> {
    let in_query = |query: &str| Form::parse(query.as_bytes()).is_none_or(|form| form.get("access_token").is_some());
    if uri.query().is_some_and(in_query) {
        return Err(Refusal::Malformed);
    }
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let first = all.next().ok_or(Refusal::NoCredentials)?;
    if all.next().is_some() {
        return Err(Refusal::Malformed);
    }
    let bytes = first.as_bytes();
    let (scheme, sent) = bytes.split_at(bytes.iter().position(|byte| *byte == b' ').unwrap_or(bytes.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(if first.to_str().is_ok() { Refusal::NoCredentials } else { Refusal::Malformed });
    }
    let from = sent.iter().position(|byte| *byte != b' ').unwrap_or(sent.len());
    let to = sent.iter().rposition(|byte| *byte != b' ').map_or(from, |last| last + 1);
    Ok(sent.get(from..to).unwrap_or_default())
}

/// What can be a token at all, as text.
fn token(sent: &[u8]) -> Option<&str> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    let is_one = !sent.is_empty() && sent.iter().all(fits);
    std::str::from_utf8(sent).ok().filter(|_| is_one)
}

fn refusal(error: TokenError) -> Refusal {
    match error {
        TokenError::Expired => Refusal::Expired,
        TokenError::Invalid => Refusal::Invalid,
    }
}

/// Whether somebody with these scopes may still listen to a server.
fn listens(who: &Who, scopes: &Scopes, rules: &Rules, server: &str) -> bool {
    decide(who, scopes, rules, "subscriptions/listen", Target::Server { server, tool: None }) == Decision::Allow
}

fn operator(token: &Hash) -> Grant {
    let scopes = Scopes::default().with(Scope::Admin);
    let family = Some(format!("{OPERATOR_FAMILY}{}", token.hex()).into());
    Grant { who: named("operator"), scopes, family, operator: true }
}

fn named(name: &str) -> Who {
    Who {
        principal: Principal::named(name),
        subject: name.into(),
        domain: None,
        groups: Vec::new(),
        client: name.into(),
    }
}

/// Whether two texts that came from outside are the same.
pub(crate) fn same(a: &str, b: &str) -> bool {
    equal(a.as_bytes(), b.as_bytes())
}
