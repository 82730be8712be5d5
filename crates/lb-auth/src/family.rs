//! Families of tokens: everything that came of one login.
//!
//! A family is one record in the store, and nothing of it is valid without that record: first the code, then one
//! refresh token at a time, and the access tokens made with it. Each change replaces the very record that was read, so
//! that of many that happen at once one wins and the others see what it did. Codes and refresh tokens begin with the
//! name of their family, and only their hashes are kept.

mod cache;
mod gone;
mod parts;
mod record;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lb_store::{Applied, Batch, Key, Store};

use self::cache::Cache;
use self::gone::Gone;
pub use self::record::Login;
pub(crate) use self::record::{Granted, Record, State};
use self::record::{Leeway, Live};
use crate::audit;
use crate::keys::Keys;
use crate::scope::Scopes;
use crate::secret::{Hash, Secret, random};
use crate::settings::Lives;
use crate::token::{Claims, SKEW, mint, seconds};

/// How long a code may be redeemed.
pub const CODE_LIFE: Duration = Duration::from_secs(60);
/// How long a refresh token is good while it is not used.
pub const REFRESH_LIFE: Duration = Duration::from_secs(7 * 86_400);
/// How long a family lives, however often it is refreshed.
pub const FAMILY_LIFE: Duration = Duration::from_secs(30 * 86_400);
/// How long the same answer is given to a client that repeats a refresh, because it may not have got it.
pub const LEEWAY: Duration = Duration::from_secs(10);
/// How long a record is believed without asking the store.
pub const CACHED_FOR: Duration = Duration::from_secs(5);

/// The same for what must end with it: that is asked for every two seconds, and ends within five.
const WATCHED_FOR: Duration = Duration::from_secs(2);

/// Families that are ended again at once.
const AT_ONCE: usize = 16;

/// How often a change is tried when others change the same family.
const TRIES_MAX: usize = 64;

/// Why nothing was issued.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum GrantError {
    #[error("the code or refresh token is not valid")]
    Invalid,
    #[error("more scopes were asked for than were granted")]
    Scope,
    #[error("the resource is not one that was granted")]
    Resource,
    #[error(transparent)]
    Store(#[from] lb_store::Error),
}

/// What a client asks for when it redeems or refreshes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub client: &'a str,
    /// Where the next token shall be good; the first is taken, and all must have been granted.
    pub resources: &'a [&'a str],
    pub scopes: Option<&'a Scopes>,
}

/// What a client must show to redeem a code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'a> {
    pub verifier: Option<&'a str>,
    pub redirect_uri: Option<&'a str>,
}

/// What a client gets.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Issued {
    pub access_token: String,
    pub refresh_token: Option<String>,
    pub scope: Scopes,
    pub expires: u64,
}

/// All families.
#[derive(Debug)]
pub(crate) struct Families {
    store: Arc<dyn Store>,
    keys: Arc<Keys>,
    issuer: String,
    lives: Lives,
    cache: Cache,
    gone: Gone,
}

impl Families {
    pub fn new(store: Arc<dyn Store>, keys: Arc<Keys>, issuer: &str) -> Self {
        let (lives, cache, gone) = Default::default();
        Self { store, keys, issuer: issuer.into(), lives, cache, gone }
    }

    /// Tokens are good for as long as this says.
    pub fn with_lives(self, lives: Lives) -> Self {
        Self { lives, ..self }
    }

    /// Begins a family with a code that can be redeemed once.
    pub async fn begin(&self, granted: Granted, now: SystemTime) -> Result<Secret, GrantError> {
        let id: [u8; 16] = random();
        let code = parts::code(&id, &random());
        let until = seconds(now) + CODE_LIFE.as_secs();
        let record = Record { granted, made: seconds(now), state: State::Code { hash: code.hash(), until } };
        // The store's clock must not be what ends it first.
        self.store.set(&key(&id)?, record.bytes()?, CODE_LIFE + SKEW).await?;
        Ok(code)
    }

    /// Redeems a code. Every attempt with the right code uses it up; a second one ends what came of the first.
    pub async fn redeem(
        &self,
        code: &str,
        proof: Proof<'_>,
        asked: Asked<'_>,
        now: SystemTime,
    ) -> Result<Issued, GrantError> {
        let id = parts::family_of_code(code).ok_or(GrantError::Invalid)?;
        for _ in 0..TRIES_MAX {
            let (kept, record) = self.read(&id, now).await?.ok_or(GrantError::Invalid)?;
            match &record.state {
                State::Code { hash, until } if *hash == Hash::of(code.as_bytes()) => {
                    let in_time = seconds(now) < *until;
                    let checked = if in_time { record.check_code(proof, asked) } else { Err(GrantError::Invalid) };
                    let (scopes, resource) = match checked {
                        Ok(narrowed) => narrowed,
                        Err(why) => {
                            if self.end_if(&id, kept, now).await? {
                                audit::tokens("token_issued", &record.granted, "refused");
                                return Err(why);
                            }
                            continue;
                        }
                    };
                    let live = Live::first(*hash, now);
                    if let Some(issued) = self.issue(&id, kept, &record, live, (&scopes, &resource), now).await? {
                        audit::tokens("token_issued", &record.granted, "ok");
                        return Ok(issued);
                    }
                }
                State::Live(live) if live.code == Hash::of(code.as_bytes()) => {
                    tracing::warn!(event = "code_reused", client = %record.granted.client, "a code was used twice");
                    audit::tokens("code_reused", &record.granted, "login_ended");
                    self.end(&id, now).await?;
                    return Err(GrantError::Invalid);
                }
                State::Code { .. } | State::Live(_) => return Err(GrantError::Invalid),
            }
        }
        Err(busy())
    }

    /// Uses up a code that came without the client having shown that it is itself.
    pub async fn spoil(&self, code: &str, now: SystemTime) -> Result<(), GrantError> {
        let Some(id) = parts::family_of_code(code) else { return Ok(()) };
        let hash = Hash::of(code.as_bytes());
        let Some((_, record)) = self.read(&id, now).await? else { return Ok(()) };
        let of_it = match &record.state {
            State::Code { hash: kept, .. } => *kept == hash,
            State::Live(live) => live.code == hash,
        };
        if of_it {
            self.end(&id, now).await?;
        }
        Ok(())
    }

    /// Exchanges a refresh token for new tokens. One that was spent ends the family, unless its answer may be lost.
    pub async fn refresh(&self, token: &str, asked: Asked<'_>, now: SystemTime) -> Result<Issued, GrantError> {
        let id = parts::family_of_refresh(token).ok_or(GrantError::Invalid)?;
        let hash = Hash::of(token.as_bytes());
        for _ in 0..TRIES_MAX {
            let (kept, record) = self.read(&id, now).await?.ok_or(GrantError::Invalid)?;
            let State::Live(live) = &record.state else { return Err(GrantError::Invalid) };
            if record.granted.client != asked.client || record.ends() <= seconds(now) {
                return Err(GrantError::Invalid);
            }
            if live.refresh != Some(hash) {
                return self.repeat(&id, &record, live, token, now).await;
            }
            let (scopes, resource) = record.narrow(asked)?;
            let next = live.next(now);
            if let Some(issued) = self.rotate(&id, kept, &record, next, token, (&scopes, &resource), now).await? {
                audit::tokens("token_refreshed", &record.granted, "ok");
                return Ok(issued);
            }
        }
        Err(busy())
    }

    /// What the family of a code or refresh token was granted, if it is there.
    pub async fn granted(&self, token: &str, now: SystemTime) -> Result<Option<Granted>, GrantError> {
        let Some(id) = parts::family_of_refresh(token).or_else(|| parts::family_of_code(token)) else {
            return Ok(None);
        };
        Ok(self.read(&id, now).await?.map(|(_, record)| record.granted))
    }

    /// A refresh token that is not the current one: the one before, repeated, or one that was stolen.
    async fn repeat(
        &self,
        id: &[u8; 16],
        record: &Record,
        live: &Live,
        token: &str,
        now: SystemTime,
    ) -> Result<Issued, GrantError> {
        if let Some(issued) = live.leeway.as_ref().and_then(|leeway| leeway.open(token, now)) {
            return Ok(issued);
        }
        if parts::is_ours(&self.keys, token) {
            tracing::warn!(event = "refresh_reused", client = %record.granted.client, "a spent refresh token was used");
            audit::tokens("refresh_reused", &record.granted, "login_ended");
            self.end(id, now).await?;
        }
        Err(GrantError::Invalid)
    }

    /// Makes the tokens of a new family and keeps their record, if nobody was faster.
    async fn issue(
        &self,
        id: &[u8; 16],
        kept: Bytes,
        record: &Record,
        mut live: Live,
        (scopes, resource): (&Scopes, &str),
        now: SystemTime,
    ) -> Result<Option<Issued>, GrantError> {
        let issued = self.make(id, record, &mut live, (scopes, resource), now)?;
        Ok(self.replace(id, kept, record.with(live), now).await?.then_some(issued))
    }

    /// The same for a family that goes on. The answer is kept for those who may ask for it again.
    #[expect(clippy::too_many_arguments, reason = "all of it is read from one record, and used once")]
    async fn rotate(
        &self,
        id: &[u8; 16],
        kept: Bytes,
        record: &Record,
        mut live: Live,
        spent: &str,
        (scopes, resource): (&Scopes, &str),
        now: SystemTime,
    ) -> Result<Option<Issued>, GrantError> {
        let issued = self.make(id, record, &mut live, (scopes, resource), now)?;
        live.leeway = Leeway::seal(spent, &issued, now);
        Ok(self.replace(id, kept, record.with(live), now).await?.then_some(issued))
    }

    fn make(
        &self,
        id: &[u8; 16],
        record: &Record,
        live: &mut Live,
        (scopes, resource): (&Scopes, &str),
        now: SystemTime,
    ) -> Result<Issued, GrantError> {
        let expires = (seconds(now) + self.lives.access.as_secs()).min(record.made + FAMILY_LIFE.as_secs());
        let claims = Claims {
            iss: self.issuer.clone(),
            sub: record.granted.login.principal.clone(),
            aud: resource.to_owned(),
            client_id: record.granted.client.clone(),
            scope: scopes.to_string(),
            iat: seconds(now),
            exp: expires,
            jti: crate::secret::encode(&random::<16>()),
            fam: crate::secret::hex(id),
            epo: live.epoch,
        };
        live.token.clone_from(&claims.jti);
        let access_token = mint(&self.keys, &claims).map_err(|_| GrantError::Invalid)?;
        let refresh = record.granted.refreshes.then(|| parts::refresh(&self.keys, id, &random()));
        live.refresh = refresh.as_ref().map(Secret::hash);
        let rests = if refresh.is_some() { self.lives.refresh } else { self.lives.access + SKEW };
        live.rests = Some(seconds(now) + rests.as_secs());
        let refresh_token = refresh.map(|token| token.expose().to_owned());
        Ok(Issued { access_token, refresh_token, scope: scopes.clone(), expires })
    }

    /// The record that a token of ours belongs to, if the token is still good.
    pub async fn check(&self, claims: &Claims, now: SystemTime) -> Result<Option<Arc<Record>>, lb_store::Error> {
        let Some(id) = parts::family(&claims.fam).filter(|id| !self.gone.has_family(id)) else { return Ok(None) };
        let is_up_to_date = |record: &Option<Arc<Record>>| record.as_ref().is_none_or(|it| claims.epo <= it.epoch());
        let found = match self.cache.find(&id, CACHED_FOR, now).filter(is_up_to_date) {
            Some(known) => known,
            None => self.look(&id, now).await?,
        };
        let Some(record) = found else { return Ok(None) };
        if !record.takes(claims, now) || self.gone.has_token(&claims.jti) {
            return Ok(None);
        }
        if record.awaits(claims, now) {
            self.arrived(&id, now).await;
        }
        Ok(Some(record))
    }

    /// A family that lives, for what ends with it.
    pub async fn living(&self, family: &str, now: SystemTime) -> Result<Option<Arc<Record>>, lb_store::Error> {
        let Some(id) = parts::family(family).filter(|id| !self.gone.has_family(id)) else { return Ok(None) };
        let found = match self.cache.find(&id, WATCHED_FOR, now) {
            Some(known) => known,
            None => self.look(&id, now).await?,
        };
        Ok(found.filter(|record| seconds(now) < record.ends()))
    }

    /// Ends once more what was ended here, after the store may have lost that. Cancel safe: the next one goes on.
    pub async fn tend(&self, now: SystemTime) -> Result<(), GrantError> {
        self.tend_in(self.store.facts().lives, now).await
    }

    /// The same in a life of the store.
    async fn tend_in(&self, life: u64, now: SystemTime) -> Result<(), GrantError> {
        let again = self.gone.before(life);
        // Each is done when it is, so that whoever is cut off here goes on with the others.
        let ends = stream::iter(again.families).map(Ok);
        ends.try_for_each_concurrent(AT_ONCE, |id| async move { self.end_in(life, &id, now).await }).await?;
        for claims in again.tokens {
            self.revoke_access(&claims, &claims.client_id, now).await?;
            self.gone.token(&claims, life, now);
        }
        Ok(())
    }

    /// Reads a record for everybody who asks for it within the next seconds.
    async fn look(&self, id: &[u8; 16], now: SystemTime) -> Result<Option<Arc<Record>>, lb_store::Error> {
        let life = self.store.facts().lives;
        match self.read(id, now).await.map_err(store_only)? {
            Some((_, record)) => Ok(Some(self.cache.keep(id, record, now))),
            None => {
                self.cache.keep_missing(id, now);
                self.gone.missing(id, life, now);
                Ok(None)
            }
        }
    }

    /// The client has its new tokens: the old refresh token is not answered again. When that cannot be written, the
    /// leeway ends by its time.
    async fn arrived(&self, id: &[u8; 16], now: SystemTime) {
        let Ok(Some((kept, record))) = self.read(id, now).await else { return };
        let State::Live(live) = &record.state else { return };
        if live.leeway.is_some() {
            let record = record.with(Live { leeway: None, ..live.clone() });
            if let Err(error) = self.replace(id, kept, record, now).await {
                tracing::debug!(%error, "the leeway of a refresh ends by its time");
            }
        }
    }

    /// Ends the family of a refresh token, if the client may.
    pub async fn revoke_refresh(&self, token: &str, client: &str, now: SystemTime) -> Result<bool, lb_store::Error> {
        let Some(id) = parts::family_of_refresh(token) else { return Ok(false) };
        let Some((_, record)) = self.read(&id, now).await.map_err(store_only)? else { return Ok(true) };
        let hash = Hash::of(token.as_bytes());
        let current = matches!(&record.state, State::Live(live) if live.refresh == Some(hash));
        if record.granted.client == client && (current || parts::is_ours(&self.keys, token)) {
            self.end(&id, now).await?;
            audit::tokens("token_revoked", &record.granted, "login_ended");
        }
        Ok(true)
    }

    /// Ends one access token, if the client may.
    pub async fn revoke_access(&self, claims: &Claims, client: &str, now: SystemTime) -> Result<(), GrantError> {
        let Some(id) = parts::family(&claims.fam) else { return Ok(()) };
        let life = self.store.facts().lives;
        for _ in 0..TRIES_MAX {
            let Some((kept, record)) = self.read(&id, now).await? else { return Ok(()) };
            let State::Live(live) = &record.state else { return Ok(()) };
            if record.granted.client != client || live.revoked.contains(&claims.jti) {
                return Ok(());
            }
            let granted = record.granted.clone();
            if self.replace(&id, kept, record.with(live.without(&claims.jti)), now).await? {
                self.gone.token(claims, life, now);
                audit::tokens("token_revoked", &granted, "ok");
                return Ok(());
            }
        }
        Err(busy())
    }

    async fn read(&self, id: &[u8; 16], now: SystemTime) -> Result<Option<(Bytes, Record)>, GrantError> {
        if self.gone.has_family(id) {
            return Ok(None);
        }
        // Known before it is asked for: whatever is written meanwhile is later than that.
        let known = self.cache.epoch(id);
        let Some(kept) = self.store.get(&key(id)?).await? else {
            // What was read a moment ago counts no more.
            self.cache.forget(id);
            return Ok(None);
        };
        // What cannot be read is not there.
        let Ok(record) = serde_json::from_slice::<Record>(&kept) else { return Ok(None) };
        if record.epoch() < known {
            tracing::warn!(event = "login_lost", client = %record.granted.client, "the store has lost a refresh");
            audit::tokens("login_lost", &record.granted, "login_ended");
            self.end(id, now).await?;
            return Ok(None);
        }
        Ok(Some((kept, record)))
    }

    /// Keeps a record in the place of the one that was read; whether it was still that one.
    async fn replace(&self, id: &[u8; 16], kept: Bytes, record: Record, now: SystemTime) -> Result<bool, GrantError> {
        let key = key(id)?;
        let ttl = Duration::from_secs(record.ends().saturating_sub(seconds(now)).max(1)) + SKEW;
        let batch = Batch::new().when(&key, Some(kept)).set(&key, record.bytes()?, ttl);
        let done = matches!(self.store.apply(batch).await?, Applied::Done(_));
        if done {
            self.cache.keep(id, record, now);
        }
        Ok(done)
    }

    async fn end(&self, id: &[u8; 16], now: SystemTime) -> Result<(), lb_store::Error> {
        // Whatever becomes of the store meanwhile, it was no later life than this one.
        self.end_in(self.store.facts().lives, id, now).await
    }

    async fn end_in(&self, life: u64, id: &[u8; 16], now: SystemTime) -> Result<(), lb_store::Error> {
        self.cache.forget(id);
        self.store.delete(&key(id)?).await?;
        self.gone.family(id, life, now);
        Ok(())
    }

    async fn end_if(&self, id: &[u8; 16], kept: Bytes, now: SystemTime) -> Result<bool, lb_store::Error> {
        let (key, life) = (key(id)?, self.store.facts().lives);
        let batch = Batch::new().when(&key, Some(kept)).delete(&key);
        let done = matches!(self.store.apply(batch).await?, Applied::Done(_));
        if done {
            self.gone.family(id, life, now);
        }
        Ok(done)
    }
}

fn key(id: &[u8; 16]) -> Result<Key, lb_store::Error> {
    Key::parse(&format!("fam:{{{}}}", crate::secret::hex(id)))
}

/// Others change the family faster than we do, which one client does not.
fn busy() -> GrantError {
    GrantError::Store(lb_store::Error::Timeout(Duration::ZERO))
}

fn store_only(error: GrantError) -> lb_store::Error {
    match error {
        GrantError::Store(error) => error,
        GrantError::Invalid | GrantError::Scope | GrantError::Resource => {
            lb_store::Error::WrongShape("a record of a family could not be read")
        }
    }
}

#[cfg(test)]
mod tests;
