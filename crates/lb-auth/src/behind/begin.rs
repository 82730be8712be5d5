//! Beginning a login: where it is, as whom we ask, and the link that a person opens.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use lb_exchange::{LoginError, LoginNeeded, OauthClient, ServerAuth};
use parking_lot::Mutex;
use rmcp::transport::auth::{AuthError, AuthorizationManager, OAuthClientConfig, StateStore, StoredAuthorizationState};
use url::Url;

use super::credential::{Credential, Steps, Whose};
use super::discover::{Challenge, DiscoverError, Found, Maker, discover, origin, silent};
use super::pending::{self, LIFE, Open, Pending, Sees};
use super::tokens::{Client, Shows};
use super::user::UserLogin;
use super::{Behind, Inner, Landing, resource_of};
use crate::secret::{Hash, Secret};
use crate::token::seconds;

/// What a login is wanted for.
#[derive(Clone, Debug, Default)]
pub(super) struct Want {
    /// What the server said; `None` to ask it.
    pub challenge: Option<Challenge>,
    /// What was granted before and must not be lost.
    pub scopes: Vec<String>,
    pub steps: Steps,
}

impl UserLogin {
    /// Begins a login, or returns the one that is open.
    pub(super) async fn begin(&self, want: Want) -> Result<LoginNeeded, LoginError> {
        let _turn = self.entry.opening.lock().await;
        // By the clock that a link is judged by when it is opened, at whichever node.
        let now = self.behind.now().await;
        let (open, replaced) = pending::open(&*self.behind.store, &self.entry.whose, now).await.map_err(away)?;
        let open = match open {
            Some(open) if open.covers(&want.scopes) => open,
            _ => self.open(want, replaced, now).await?,
        };
        Ok(LoginNeeded { server: self.spec.name.clone(), id: open.id, url: open.link })
    }

    async fn open(&self, want: Want, replaced: Option<Bytes>, now: SystemTime) -> Result<Open, LoginError> {
        let failed = |why: String| LoginError::Failed(format!("nobody can log in at {}: {why}", self.spec.name));
        self.is_person().map_err(failed)?;
        let server = resource_of(&self.spec).ok_or_else(|| failed("it has no address".to_owned()))?;
        let port = self.behind.fetch(self.spec.bounds);
        let challenge = match want.challenge {
            Some(challenge) => challenge,
            None => Challenge::ask(&*port, &server).await,
        };
        let found = discover(port, &server, &challenge).await.map_err(|error| failed(error.to_string()))?;
        let (redirect_uri, place) = match &self.behind.settings.landing {
            Landing::At(address) => (address.clone(), None),
            Landing::Opened(open) => {
                let place = open().await.map_err(failed)?;
                (place.address, Some(place.close))
            }
        };
        let scopes = self.scopes(&found, &want.scopes).await;
        let Found { maker, mut manager, .. } = found;
        let client =
            self.client(&maker, &mut manager, &redirect_uri).await.map_err(|error| failed(error.to_string()))?;
        let way = authorization(&mut manager, &client, &redirect_uri, &scopes).await;
        let way = way.ok_or_else(|| failed(format!("the address of {} cannot be used", maker.issuer)))?;
        let pending = Pending {
            id: Secret::random().expose().to_owned(),
            whose: self.entry.whose.clone(),
            server: self.spec.name.to_string(),
            reach: self.spec.bounds.into(),
            is_named: maker.is_named,
            says_iss: maker.says_iss,
            issuer: maker.issuer,
            client,
            token_endpoint: maker.token_endpoint,
            revocation_endpoint: maker.revocation_endpoint,
            resource: way.resource,
            scopes,
            steps: want.steps,
            redirect_uri,
            verifier: way.verifier,
            state: way.state,
            address: way.address,
            needs_person: self.behind.people.is_some(),
            until: seconds(now) + LIFE.as_secs(),
        };
        let link = self.link(&pending);
        let open = pending::keep(&*self.behind.store, &pending, link, replaced).await.map_err(away)?;
        // Where somebody else has begun one, nobody comes back to ours.
        if let Some(place) = place.filter(|_| open.id == pending.id) {
            place.disarm();
        }
        Ok(open)
    }

    /// Whether somebody can sit in front of a browser as this principal. Where callers have keys, nobody can tell who opens
    /// a link: it could be sent to somebody else, whose login would then be the caller's.
    fn is_person(&self) -> Result<(), String> {
        let is_person = self.behind.people.is_some() && self.entry.whose.principal.starts_with("u_");
        match self.behind.has_login && !is_person {
            true => {
                Err("it wants a person, and this caller is a program with a key; use auth \"service\" there".into())
            }
            false => Ok(()),
        }
    }

    /// Where a link leads: to us first, where we can tell who opens it.
    fn link(&self, pending: &Pending) -> String {
        match (&self.behind.people, &self.behind.settings.public_url) {
            (Some(_), Some(url)) => format!("{url}{}?id={}", Behind::START, pending.id),
            (None, _) | (_, None) => pending.address.clone(),
        }
    }

    fn oauth(&self) -> Option<&OauthClient> {
        match &self.spec.auth {
            ServerAuth::User(client) | ServerAuth::Service(client) => Some(client),
            ServerAuth::None => None,
        }
    }

    /// What is asked for: what the operator says, or else the server, and what was granted before.
    async fn scopes(&self, found: &Found, before: &[String]) -> Vec<String> {
        let set = self.oauth().map(|client| client.scopes.clone()).unwrap_or_default();
        let mut scopes = if set.is_empty() { silent(found.manager.select_initial_scopes(&[])).await } else { set };
        for scope in before {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let offline = "offline_access";
        if found.maker.offline && !scopes.is_empty() && !scopes.iter().any(|scope| scope == offline) {
            scopes.push(offline.to_owned());
        }
        scopes
    }

    /// As whom we ask: as whom the operator says, or as our own document, or as whom we register.
    async fn client(
        &self,
        maker: &Maker,
        manager: &mut AuthorizationManager,
        redirect_uri: &str,
    ) -> Result<Client, DiscoverError> {
        let set = self.oauth();
        if let Some(id) = set.and_then(|set| set.client_id.clone()) {
            let secret = set.and_then(|set| set.client_secret.as_ref()).map(|secret| secret.expose().to_owned());
            if let Some(secret) = &secret {
                self.behind.may_show(&self.entry.whose, &id, secret, maker).await?;
            }
            return Ok(Client { id, secret, shows: maker.shows, registered: false });
        }
        let document = set.and_then(|set| set.client_id_metadata_url.clone()).or_else(|| self.document(redirect_uri));
        if let Some(id) = document.filter(|_| maker.takes_documents) {
            return Ok(Client { id, secret: None, shows: Shows::Post, registered: false });
        }
        if !maker.registers {
            let why = format!("{} does not let clients register: set client_id of this server's auth", maker.issuer);
            return Err(DiscoverError::Unfit(why));
        }
        let place = place(&self.entry.whose.server, &maker.issuer, redirect_uri);
        match pending::registration(&*self.behind.store, &place).await {
            Ok(Some(client)) => return Ok(client),
            Ok(None) => {}
            Err(error) => return Err(DiscoverError::Away(error.to_string())),
        }
        register(maker, manager, &self.behind.settings.name, redirect_uri).await
    }

    /// The address of our own document, if it says that people come back to where they will.
    fn document(&self, redirect_uri: &str) -> Option<String> {
        let url = self.behind.settings.public_url.as_deref().filter(|url| url.starts_with("https:"))?;
        (redirect_uri == format!("{url}{}", Behind::CALLBACK)).then(|| format!("{url}{}", Behind::DOCUMENT))
    }
}

impl Inner {
    /// Whether the operator's secret may be shown to who makes tokens.
    pub(super) async fn may_show(
        &self,
        whose: &Whose,
        client: &str,
        secret: &str,
        maker: &Maker,
    ) -> Result<(), NotShown> {
        let place = shown_at(whose, client, secret);
        match pending::may_see(&*self.store, &place, &maker.issuer, &maker.origin()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(NotShown::Another),
            Err(error) => Err(NotShown::Store(error)),
        }
    }

    /// Looks whether a secret of the operator was shown to who made this, and shows it to nobody.
    pub(super) async fn sees(&self, made: &Credential, secret: &str) -> Result<Sees, lb_store::Error> {
        let place = shown_at(&made.whose, &made.client.id, secret);
        pending::sees(&*self.store, &place, &made.issuer, &origin(&made.token_endpoint)).await
    }
}

/// Why a secret of the operator is not shown.
pub(super) enum NotShown {
    /// It was shown to somebody else before.
    Another,
    /// Nobody knows to whom it was.
    Store(lb_store::Error),
}

impl From<NotShown> for DiscoverError {
    fn from(why: NotShown) -> Self {
        match why {
            NotShown::Another => {
                let why = "the server names another authorization server than the one that client_secret was first shown \
                           to; if that is right, set a new client_secret of this server's auth";
                Self::Unfit(why.to_owned())
            }
            NotShown::Store(error) => Self::Away(error.to_string()),
        }
    }
}

/// What it is remembered by to whom a secret was shown.
pub(super) fn shown_at(whose: &Whose, client: &str, secret: &str) -> String {
    [&whose.server, &whose.url, client, &Hash::of(secret.as_bytes()).hex()].join("\0")
}

/// What a registration belongs to.
pub(super) fn place(server: &str, issuer: &str, redirect_uri: &str) -> String {
    format!("{server}\0{issuer}\0{redirect_uri}")
}

async fn register(
    maker: &Maker,
    manager: &mut AuthorizationManager,
    name: &str,
    redirect_uri: &str,
) -> Result<Client, DiscoverError> {
    let kind = if redirect_uri.starts_with("https:") { "web" } else { "native" };
    // What kind of application we are can be said of a client only, so that one stands there until we know ours.
    let nobody = OAuthClientConfig::new("nobody", redirect_uri).with_application_type(kind);
    let registered = silent(async {
        manager.configure_client(nobody)?;
        // Without scopes: they are those of the server, which an authorization server need not know.
        manager.register_client(name, redirect_uri, &[]).await
    });
    let config = registered.await.map_err(|_| {
        // What it answered may be anything.
        let why = format!("{} did not register us: try again, or set client_id of this server's auth", maker.issuer);
        DiscoverError::Unfit(why)
    })?;
    Ok(Client { id: config.client_id, secret: config.client_secret, shows: maker.shows, registered: true })
}

/// Where a person is sent, and what must be known when they come back.
struct Way {
    address: String,
    state: String,
    verifier: String,
    resource: String,
}

/// Takes what the SDK would keep, so that it lies with everything else of the login.
#[derive(Clone, Default)]
struct Handed(Arc<Mutex<Option<StoredAuthorizationState>>>);

#[async_trait]
impl StateStore for Handed {
    async fn save(&self, _: &str, state: StoredAuthorizationState) -> Result<(), AuthError> {
        *self.0.lock() = Some(state);
        Ok(())
    }

    async fn load(&self, _: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        Ok(self.0.lock().clone())
    }

    async fn delete(&self, _: &str) -> Result<(), AuthError> {
        *self.0.lock() = None;
        Ok(())
    }
}

async fn authorization(
    manager: &mut AuthorizationManager,
    client: &Client,
    redirect_uri: &str,
    scopes: &[String],
) -> Option<Way> {
    let handed = Handed::default();
    manager.set_state_store(handed.clone());
    let texts: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let address = silent(async {
        manager.configure_client(OAuthClientConfig::new(client.id.as_str(), redirect_uri))?;
        manager.get_authorization_url(&texts).await
    });
    let mut address = Url::parse(&address.await.ok()?).ok()?;
    let handed = handed.0.lock().take()?;
    let resource = address.query_pairs().find(|(name, _)| name == "resource").map(|(_, value)| value.into_owned())?;
    if texts.contains(&"offline_access") {
        // Without it, providers of OpenID Connect leave out the refresh token without a word.
        address.query_pairs_mut().append_pair("prompt", "consent");
    }
    Some(Way { address: address.into(), state: handed.csrf_token, verifier: handed.pkce_verifier, resource })
}

/// The store does not answer.
pub(super) fn away(error: lb_store::Error) -> LoginError {
    LoginError::Failed(match error {
        // Whoever opens it says what to do.
        lb_store::Error::Refused(why) => why,
        error => format!("the gateway cannot reach its store: {error}"),
    })
}
