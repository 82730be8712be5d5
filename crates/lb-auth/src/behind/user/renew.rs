//! One renewal of a login: once in this process, once among all nodes, and to its end.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::Bounds;
use lb_store::{Claim, Claimed, Error, Key};
use url::Url;

use super::super::Inner;
use super::super::credential::{self, Credential, Kept, Mark};
use super::super::discover::{Challenge, DiscoverError, discover};
use super::super::pending::Sees;
use super::super::tokens::{self, Client, TokenError};
use super::{UserEntry, Why};

/// How long one node may take to renew. A question to an authorization server takes less.
const LOCK_LIFE: Duration = Duration::from_secs(30);
/// How long another node is waited for, and how often is looked.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(35);
const LOCK_LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long it may take to find out whether somebody else makes a server's tokens by now. Both this and a question for
/// tokens fit into the life of the lock.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// How often and how far apart it is tried to keep what was renewed while the store is away.
const KEEP_TRIES: u32 = 60;
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// One renewal, on one node.
pub(super) struct Renewal {
    pub behind: Arc<Inner>,
    pub entry: Arc<UserEntry>,
    pub bounds: Bounds,
    pub secret: Option<(String, Option<String>)>,
    /// The token that does not do any more.
    pub mark: Mark,
    pub server: Option<Url>,
    /// What the server said when it refused it; `None` when it only ends.
    pub refusal: Option<Challenge>,
}

impl Renewal {
    pub async fn run(self) -> Result<Credential, Why> {
        let renewed = self.guarded().await;
        let now = self.behind.now().await;
        match &renewed {
            Ok(credential) => self.entry.renewed(credential.clone(), now),
            Err(Why::Over) => self.entry.end(),
            Err(Why::Moved) => {}
            Err(Why::Away(why)) => {
                tracing::warn!(server = %self.entry.whose.server, %why, "a login was not renewed");
                self.entry.memory.lock().failed = Some((now, why.clone()));
            }
        }
        renewed
    }

    /// Renews while no other node does.
    async fn guarded(&self) -> Result<Credential, Why> {
        let store_away = |error: Error| Why::Away(error.to_string());
        let lock = self.entry.whose.key("lock").map_err(store_away)?;
        let claim = match self.lock(&lock).await.map_err(store_away)? {
            Turn::Ours(claim) => claim,
            Turn::Done(credential) => return Ok(*credential),
            Turn::Late => return Err(Why::Away("another node is renewing it and does not get on".into())),
        };
        let renewed = self.renew(&claim).await;
        if let Err(error) = self.behind.store.release(&lock, &claim).await {
            tracing::debug!(%error, "a lock was not let go of, and ends by itself");
        }
        renewed
    }

    /// Waits for our turn, or for what somebody else gets in theirs.
    async fn lock(&self, lock: &Key) -> Result<Turn, Error> {
        let until = tokio::time::Instant::now() + LOCK_WAIT_MAX;
        while tokio::time::Instant::now() < until {
            if let Claimed::Ours(claim) = self.behind.store.claim(lock, &self.behind.node, LOCK_LIFE).await? {
                return Ok(Turn::Ours(claim));
            }
            tokio::time::sleep(LOCK_LOOK_EVERY).await;
            if let Some(newer) = self.newer().await? {
                return Ok(Turn::Done(Box::new(newer)));
            }
        }
        Ok(Turn::Late)
    }

    /// What another node has got meanwhile.
    async fn newer(&self) -> Result<Option<Credential>, Error> {
        let kept = credential::load(&*self.behind.store, &self.entry.whose).await?;
        Ok(kept.map(|kept| kept.credential).filter(|it| it.replaces(&self.mark)))
    }

    async fn renew(&self, claim: &Claim) -> Result<Credential, Why> {
        let store = &*self.behind.store;
        let kept = credential::load(store, &self.entry.whose).await.map_err(|error| Why::Away(error.to_string()))?;
        let Some(kept) = kept else { return Err(Why::Over) };
        if kept.credential.replaces(&self.mark) {
            return Ok(kept.credential);
        }
        let current = self.current(&kept);
        if self.has_moved(&current).await {
            return Err(Why::Moved);
        }
        let Some(refresh) = current.refresh.clone() else { return Err(Why::Over) };
        let client = self.client(&current).await?;
        match self.refresh(&current, &client, &refresh).await {
            Ok(tokens) => {
                let now = self.behind.now().await;
                let mut renewed = current.renewed(tokens, self.refusal.is_some(), now);
                renewed.client = client;
                self.keep(kept, renewed, claim).await
            }
            Err(TokenError::Spent) => self.over(&kept).await,
            // We can register again; somebody whom the operator has set cannot.
            Err(TokenError::Unknown) if current.client.registered => self.over(&kept).await,
            Err(error @ (TokenError::Away(_) | TokenError::Unknown | TokenError::Refused(_))) => {
                Err(Why::Away(format!("{}: {error}", current.issuer)))
            }
        }
    }

    /// Whether a server refuses a token that is still good because others make its tokens by now. Not to know is no.
    async fn has_moved(&self, current: &Credential) -> bool {
        let (Some(challenge), Some(server)) = (&self.refusal, &self.server) else { return false };
        if !current.is_alive(self.behind.now().await) {
            return false;
        }
        let found = discover(self.behind.fetch(self.bounds), server, challenge);
        let found = tokio::time::timeout(LOOK_MAX, found).await;
        matches!(found, Ok(Ok(found)) if found.maker.issuer != current.issuer)
    }

    /// What was kept, or what came of it and could not be kept, because the store was away.
    fn current(&self, kept: &Kept) -> Credential {
        let held = self.entry.memory.lock().held.clone();
        let kept_mark = kept.credential.mark();
        let newer = held.filter(|held| held.is_of(&kept_mark) && kept_mark.number < held.number);
        newer.unwrap_or_else(|| kept.credential.clone())
    }

    /// As whom we ask: the operator may have set another secret since.
    async fn client(&self, current: &Credential) -> Result<Client, Why> {
        let client = current.client.clone();
        let Some((_, secret)) = self.secret.as_ref().filter(|(id, _)| *id == client.id) else { return Ok(client) };
        if let Some(secret) = secret.as_ref().filter(|secret| client.secret.as_ref() != Some(secret)) {
            self.may_show(current, secret).await?;
        }
        Ok(Client { secret: secret.clone(), ..client })
    }

    /// A secret that is new goes where the server has its tokens made now, and not where it once had them made: that may be
    /// who has seen the one before and should not have.
    async fn may_show(&self, current: &Credential, secret: &str) -> Result<(), Why> {
        let moved = |error: DiscoverError| match error {
            DiscoverError::Away(why) => Why::Away(why),
            DiscoverError::Unfit(_) => Why::Moved,
        };
        match self.behind.sees(current, secret).await {
            Ok(Sees::This) => return Ok(()),
            Ok(Sees::Another) => return Err(Why::Moved),
            Ok(Sees::Nobody | Sees::Issuer) => {}
            Err(error) => return Err(Why::Away(error.to_string())),
        }
        let Some(server) = &self.server else { return Err(Why::Moved) };
        let challenge = self.refusal.clone().unwrap_or_default();
        let found = discover(self.behind.fetch(self.bounds), server, &challenge);
        let late = |_| Why::Away("where to log in was not found out in time".into());
        let found = tokio::time::timeout(LOOK_MAX, found).await.map_err(late)?.map_err(moved)?;
        if !found.maker.made(current) {
            return Err(Why::Moved);
        }
        let shown = self.behind.may_show(&current.whose, &current.client.id, secret, &found.maker).await;
        shown.map_err(|why| moved(why.into()))
    }

    async fn refresh(
        &self,
        credential: &Credential,
        client: &Client,
        refresh: &str,
    ) -> Result<tokens::Tokens, TokenError> {
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("resource", &credential.resource)];
        let port = self.behind.fetch(self.bounds);
        tokens::ask(&*port, &credential.token_endpoint, client, &form).await
    }

    /// The refresh token is spent. Whoever replaced it meanwhile has a better one.
    async fn over(&self, kept: &Kept) -> Result<Credential, Why> {
        let store = &*self.behind.store;
        credential::forget(store, kept).await.map_err(|error| Why::Away(error.to_string()))?;
        match self.newer().await {
            Ok(Some(newer)) => Ok(newer),
            Ok(None) | Err(_) => Err(Why::Over),
        }
    }

    /// Keeps what was renewed. It is used although it cannot be kept: what it replaces is spent.
    async fn keep(&self, kept: Kept, renewed: Credential, claim: &Claim) -> Result<Credential, Why> {
        let store = self.behind.store.clone();
        match credential::replace(&*store, &kept, &renewed, claim).await {
            Ok(true) => Ok(renewed),
            Ok(false) => self.overtaken(kept, renewed).await,
            Err(error) => {
                tracing::warn!(%error, server = %self.entry.whose.server, "a login was renewed and could not be kept yet");
                self.keep_on(kept, &renewed);
                Ok(renewed)
            }
        }
    }

    /// Something has changed while we renewed: what lies in the store counts, unless it is what was renewed.
    ///
    /// What is not used then is not revoked: authorization servers end all logins of an account with one of them, and the
    /// one that counts may be of the same account.
    async fn overtaken(&self, kept: Kept, renewed: Credential) -> Result<Credential, Why> {
        match credential::load(&*self.behind.store, &self.entry.whose).await {
            // Somebody logged in meanwhile, or another node took our turn and has got further.
            Ok(Some(found)) if !found.is(&kept) => Ok(found.credential),
            // Only our turn is over.
            Ok(Some(_)) | Err(_) => {
                self.keep_on(kept, &renewed);
                Ok(renewed)
            }
            // Somebody logged out: what they did not know of must end, too.
            Ok(None) => {
                self.behind.revoke(self.bounds, &renewed).await;
                Err(Why::Over)
            }
        }
    }

    fn keep_on(&self, kept: Kept, renewed: &Credential) {
        let (behind, bounds, renewed) = (self.behind.clone(), self.bounds, renewed.clone());
        self.behind.tasks.spawn(async move { keep_later(&behind, bounds, &kept, &renewed).await });
    }
}

/// Whose turn it is to renew.
enum Turn {
    Ours(Claim),
    Done(Box<Credential>),
    Late,
}

/// Keeps what was renewed once the store is back, unless something else was kept meanwhile.
async fn keep_later(behind: &Inner, bounds: Bounds, kept: &Kept, renewed: &Credential) {
    for _ in 0..KEEP_TRIES {
        match credential::replace_later(&*behind.store, kept, renewed).await {
            Ok(true) => return,
            Ok(false) => {
                if matches!(credential::load(&*behind.store, &renewed.whose).await, Ok(None)) {
                    behind.revoke(bounds, renewed).await;
                }
                return;
            }
            Err(error) => tracing::debug!(%error, "a login could not be kept yet"),
        }
        tokio::time::sleep(KEEP_EVERY).await;
    }
    tracing::error!(server = %renewed.whose.server, "a login was renewed and is not kept: somebody must log in again after a restart");
}
