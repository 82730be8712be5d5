//! The gateway's own login at a server, with credentials that the operator has set. Everybody shares it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use lb_exchange::{BoxFuture, Login, LoginError, OauthClient, Proof, Refused, ServerAuth, ServerSpec};
use parking_lot::Mutex;

use super::begin::{NotShown, shown_at};
use super::credential::{Credential, Steps, Terms, Whose};
use super::discover::{Challenge, DiscoverError, Maker, discover};
use super::single::Single;
use super::tokens::{self, Client, TokenError};
use super::{Inner, resource_of};

/// What all connections to a server share.
#[derive(Default)]
pub(super) struct ServiceEntry {
    memory: Mutex<Memory>,
    /// To whom the secret was shown, where that cannot be kept.
    shown: Mutex<HashMap<String, String>>,
    renewal: Single<Result<Credential, String>>,
}

/// It is not kept anywhere else: whoever has the credentials gets the next token at any time.
#[derive(Default)]
struct Memory {
    held: Option<Credential>,
    /// What the server said that it wants.
    challenge: Challenge,
}

impl ServiceEntry {
    /// What is known, for whoever asks how it stands.
    pub fn held(&self) -> Option<Credential> {
        self.memory.lock().held.clone()
    }

    /// Forgets it; what was there.
    pub fn forget(&self) -> Option<Credential> {
        std::mem::take(&mut *self.memory.lock()).held
    }
}

/// How one connection reaches it.
pub(super) struct ServiceLogin {
    pub behind: Arc<Inner>,
    pub entry: Arc<ServiceEntry>,
    pub spec: Arc<ServerSpec>,
}

impl Login for ServiceLogin {
    fn proof(&self) -> BoxFuture<'_, Result<Option<Proof>, LoginError>> {
        Box::pin(async move {
            let Some(held) = self.entry.held() else { return Ok(None) };
            let now = self.behind.now().await;
            if !held.is_due(now) {
                return Ok(Some(held.proof()));
            }
            match self.renew(held.scopes.clone(), held.steps, false).await {
                Ok(credential) => Ok(Some(credential.proof())),
                Err(_) if held.is_alive(now) => Ok(Some(held.proof())),
                Err(why) => Err(self.failed(&why)),
            }
        })
    }

    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<Proof, LoginError>> {
        Box::pin(async move { self.after(refusal).await.map(|credential| credential.proof()) })
    }
}

impl ServiceLogin {
    async fn after(&self, refusal: Refused) -> Result<Credential, LoginError> {
        let server = resource_of(&self.spec).ok_or_else(|| self.failed("it has no address"))?;
        let challenge = Challenge::of(&refusal.challenges, &server);
        let sent = refusal.proof.as_ref().map_or(0, |proof| proof.number);
        let now = self.behind.now().await;
        let (mut scopes, mut steps) = (Vec::new(), Steps::default());
        if let Some(held) = self.entry.held() {
            if sent < held.number {
                return Ok(held);
            }
            if refusal.status == 403 || challenge.wants_more {
                steps = held.steps.next(now).ok_or_else(|| self.failed("it wants more rights after each login"))?;
                scopes = held.scopes;
                scopes.extend(challenge.scopes.clone());
                scopes.dedup();
            } else if held.is_no_use(now) {
                let why = "it does not take what its authorization server gives us: look at client_id and scopes";
                return Err(self.failed(why));
            }
        }
        self.entry.memory.lock().challenge = challenge;
        self.renew(scopes, steps, true).await.map_err(|why| self.failed(&why))
    }

    fn failed(&self, why: &str) -> LoginError {
        LoginError::Failed(format!("the gateway cannot log in at {}: {why}", self.spec.name))
    }

    async fn renew(&self, scopes: Vec<String>, steps: Steps, after_refusal: bool) -> Result<Credential, String> {
        let (behind, entry, spec) = (self.behind.clone(), self.entry.clone(), self.spec.clone());
        let renewal = Renewal { behind, entry, spec, scopes, steps, after_refusal };
        let renewed = self.entry.renewal.run(&self.behind.tasks, || renewal.run()).await;
        renewed.unwrap_or_else(|| Err("it broke off".into()))
    }
}

impl std::fmt::Debug for ServiceLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceLogin").field("server", &self.spec.name).finish_non_exhaustive()
    }
}

struct Renewal {
    behind: Arc<Inner>,
    entry: Arc<ServiceEntry>,
    spec: Arc<ServerSpec>,
    /// What was granted, or is wanted on top of it; none leaves it to the server.
    scopes: Vec<String>,
    steps: Steps,
    after_refusal: bool,
}

impl Renewal {
    async fn run(self) -> Result<Credential, String> {
        let before = self.entry.held();
        let (terms, tokens) = self.ask(before.as_ref()).await?;
        let (number, now): (u64, SystemTime) = (before.map_or(0, |before| before.number), self.behind.now().await);
        let mut credential = Credential::new(terms, tokens, number, now);
        credential.after_refusal = self.after_refusal;
        self.entry.memory.lock().held = Some(credential.clone());
        Ok(credential)
    }

    async fn ask(&self, before: Option<&Credential>) -> Result<(Terms, tokens::Tokens), String> {
        let ServerAuth::Service(set) = &self.spec.auth else { return Err("its auth is not \"service\"".into()) };
        let whose = Whose::ours(&self.spec).ok_or("it has no address")?;
        let terms = match before {
            // Where it is was found out when it refused us; that counts until it refuses us again.
            Some(before) if !self.after_refusal => Terms { scopes: self.scopes.clone(), ..of(before, whose) },
            _ => self.discover(set, whose).await?,
        };
        let scope = terms.scopes.join(" ");
        let mut form = vec![("grant_type", "client_credentials"), ("resource", terms.resource.as_str())];
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        let port = self.behind.fetch(self.spec.bounds);
        let asked = tokens::ask(&*port, &terms.token_endpoint, &terms.client, &form).await;
        let tokens = asked.map_err(|error: TokenError| format!("{}: {error}", terms.issuer))?;
        Ok((terms, tokens))
    }

    /// Whether the secret may be shown. Where the logins of people cannot be opened, it is remembered in memory to whom it
    /// was: nobody is needed for this one, and nothing else of it is kept.
    async fn may_show(&self, whose: &Whose, id: &str, secret: &str, maker: &Maker) -> Result<(), DiscoverError> {
        match self.behind.may_show(whose, id, secret, maker).await {
            Err(NotShown::Store(lb_store::Error::Refused(_))) => {
                let to_whom = format!("{}\0{}", maker.issuer, maker.origin());
                let mut shown = self.entry.shown.lock();
                let known = shown.entry(shown_at(whose, id, secret)).or_insert_with(|| to_whom.clone());
                if *known == to_whom { Ok(()) } else { Err(NotShown::Another.into()) }
            }
            shown => shown.map_err(DiscoverError::from),
        }
    }

    async fn discover(&self, set: &OauthClient, whose: Whose) -> Result<Terms, String> {
        let (Some(id), Some(secret)) = (&set.client_id, &set.client_secret) else {
            return Err("auth \"service\" needs client_id and client_secret".into());
        };
        let server = resource_of(&self.spec).ok_or("it has no address")?;
        let challenge = self.entry.memory.lock().challenge.clone();
        let port = self.behind.fetch(self.spec.bounds);
        let found = discover(port, &server, &challenge).await.map_err(|error| error.to_string())?;
        self.may_show(&whose, id, secret.expose(), &found.maker).await.map_err(|error| error.to_string())?;
        let mut scopes = set.scopes.clone();
        if scopes.is_empty() {
            scopes = super::discover::silent(found.manager.select_initial_scopes(&[])).await;
            // Nobody is away who could be.
            scopes.retain(|scope| scope != "offline_access");
        }
        scopes.extend(self.scopes.iter().filter(|scope| !set.scopes.contains(scope)).cloned());
        scopes.sort();
        scopes.dedup();
        let maker = found.maker;
        let secret = Some(secret.expose().to_owned());
        Ok(Terms {
            whose,
            issuer: maker.issuer,
            client: Client { id: id.clone(), secret, shows: maker.shows, registered: false },
            token_endpoint: maker.token_endpoint,
            revocation_endpoint: maker.revocation_endpoint,
            resource: found.resource,
            scopes,
            steps: self.steps,
        })
    }
}

fn of(before: &Credential, whose: Whose) -> Terms {
    Terms {
        whose,
        issuer: before.issuer.clone(),
        client: before.client.clone(),
        token_endpoint: before.token_endpoint.clone(),
        revocation_endpoint: before.revocation_endpoint.clone(),
        resource: before.resource.clone(),
        scopes: before.scopes.clone(),
        steps: before.steps,
    }
}
