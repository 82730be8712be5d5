//! What somebody has been given at a server: the record, and where it lies.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use lb_exchange::{Principal, Proof, Secret, ServerSpec, Target};
use lb_store::{Applied, Batch, Claim, Error, Key, Store};
use serde::{Deserialize, Serialize};

use super::tokens::{Client, Tokens};
use crate::secret::Hash;
use crate::token::seconds;

/// The form of a record. Another one is not read.
const FORM: u8 = 1;
/// How long a login is kept after it was last renewed.
const LIFE: Duration = Duration::from_secs(90 * 86_400);
/// A token is renewed this long before it ends, or after nine tenths of its life, whichever is later.
const EARLY_MAX: Duration = Duration::from_secs(30);
/// How long one is new, at most: a server that takes none is not asked for more of them than that.
const NEW_MAX: Duration = Duration::from_secs(60);
/// How often in a row a server may ask for more, and how long it takes until that counts as another row: with the first
/// login a person is sent there three times at most.
const STEPS_MAX: u32 = 2;
const STEPS_FOR: Duration = Duration::from_secs(3_600);

/// Whose login it is, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Whose {
    pub principal: String,
    pub server: String,
    pub url: String,
}

impl Whose {
    /// That of a principal; `None` for a server without a URL.
    pub fn of(principal: &Principal, spec: &ServerSpec) -> Option<Self> {
        let Target::Http { url, .. } = &spec.target else { return None };
        Some(Self { principal: principal.as_str().into(), server: spec.name.folded(), url: url.clone() })
    }

    /// The gateway's own.
    pub fn ours(spec: &ServerSpec) -> Option<Self> {
        // No principal has an empty name.
        Self::of(&Principal::named(""), spec)
    }

    /// One key for each purpose; all of them can be changed at once.
    pub fn key(&self, purpose: &str) -> Result<Key, Error> {
        Key::parse(&format!("behind:{purpose}:{{{}}}", self.tag()))
    }

    /// Where what an issuer has given lies.
    pub fn record(&self, issuer: &str) -> Result<Key, Error> {
        Key::parse(&format!("behind:login:{{{}}}:{}", self.tag(), Hash::of(issuer.as_bytes()).hex()))
    }

    fn tag(&self) -> String {
        let parts = [&self.principal, &self.server, &self.url];
        // With their lengths, so that no two can be read in the same way.
        let text: String = parts.iter().map(|part| format!("{}:{part}\0", part.len())).collect();
        Hash::of(text.as_bytes()).hex()
    }
}

/// What an issuer has given.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Credential {
    form: u8,
    /// The login that it came of. Those that were kept before logins were told apart have none.
    #[serde(default)]
    login: String,
    pub whose: Whose,
    pub issuer: String,
    pub client: Client,
    pub token_endpoint: String,
    pub revocation_endpoint: Option<String>,
    pub resource: String,
    pub scopes: Vec<String>,
    access: String,
    pub refresh: Option<String>,
    /// From when on it is good, and until when, in milliseconds since 1970.
    from: u64,
    until: Option<u64>,
    /// Grows with each token, on all nodes and over logins.
    pub number: u64,
    /// Whether it was renewed because the one before was refused.
    pub after_refusal: bool,
    /// How often in a row the server has asked for more scopes, and since when.
    pub steps: Steps,
}

/// How often in a row a server has asked for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Steps {
    count: u32,
    since: u64,
}

impl Steps {
    /// One more; `None` when that is too often.
    pub fn next(self, now: SystemTime) -> Option<Self> {
        let now = seconds(now);
        if self.count == 0 || self.since + STEPS_FOR.as_secs() < now {
            return Some(Self { count: 1, since: now });
        }
        (self.count < STEPS_MAX).then_some(Self { count: self.count + 1, ..self })
    }
}

/// Which token it is, and of which login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub login: String,
    pub number: u64,
}

/// What a login is about, beside its tokens.
pub(super) struct Terms {
    pub whose: Whose,
    pub issuer: String,
    pub client: Client,
    pub token_endpoint: String,
    pub revocation_endpoint: Option<String>,
    pub resource: String,
    pub scopes: Vec<String>,
    pub steps: Steps,
}

impl Credential {
    /// What came of a login.
    pub fn new(terms: Terms, tokens: Tokens, before: u64, now: SystemTime) -> Self {
        let Terms { whose, issuer, client, token_endpoint, revocation_endpoint, resource, scopes, steps } = terms;
        let (from, until) = lifetime(&tokens, now);
        Self {
            form: FORM,
            login: crate::secret::Secret::random().hash().hex(),
            whose,
            issuer,
            client,
            token_endpoint,
            revocation_endpoint,
            resource,
            // What is not said is what was asked for.
            scopes: tokens.scopes.unwrap_or(scopes),
            access: tokens.access,
            refresh: tokens.refresh,
            from,
            until,
            number: from.max(before + 1),
            after_refusal: false,
            steps,
        }
    }

    /// The same with the next token. A refresh token that is not replaced stays good.
    pub fn renewed(&self, tokens: Tokens, after_refusal: bool, now: SystemTime) -> Self {
        let (from, until) = lifetime(&tokens, now);
        Self {
            scopes: tokens.scopes.unwrap_or_else(|| self.scopes.clone()),
            access: tokens.access,
            refresh: tokens.refresh.or_else(|| self.refresh.clone()),
            from,
            until,
            number: from.max(self.number + 1),
            after_refusal,
            ..self.clone()
        }
    }

    pub fn mark(&self) -> Mark {
        Mark { login: self.login.clone(), number: self.number }
    }

    /// Whether it came of the same login. Numbers say nothing of tokens that did not: a renewal that was under way when
    /// somebody logged in anew ends after that, and is older all the same.
    pub fn is_of(&self, mark: &Mark) -> bool {
        self.login == mark.login
    }

    /// Whether this is to be used instead of that, where it lies in the store.
    pub fn replaces(&self, mark: &Mark) -> bool {
        !self.is_of(mark) || mark.number < self.number
    }

    pub fn proof(&self) -> Proof {
        Proof { value: Secret::new(format!("Bearer {}", self.access)), number: self.number }
    }

    /// For how long it is still good; `None` when it does not say.
    pub fn remaining(&self, now: SystemTime) -> Option<Duration> {
        self.until.map(|until| Duration::from_millis(until.saturating_sub(milliseconds(now))))
    }

    pub fn is_alive(&self, now: SystemTime) -> bool {
        self.remaining(now).is_none_or(|remaining| !remaining.is_zero())
    }

    /// Whether it is time for the next one.
    pub fn is_due(&self, now: SystemTime) -> bool {
        let Some(until) = self.until else { return false };
        let early = EARLY_MAX.min(Duration::from_millis(until.saturating_sub(self.from)) / 10);
        self.remaining(now).is_some_and(|remaining| remaining <= early)
    }

    /// Whether the next one would be refused, too, after a refusal of this one: it was made because of a refusal, and has
    /// not been good for long. One that has been may have been forgotten by the server, or be over by its clock.
    pub fn is_no_use(&self, now: SystemTime) -> bool {
        let age = Duration::from_millis(milliseconds(now).saturating_sub(self.from));
        let half_life = self.until.map(|until| Duration::from_millis(until.saturating_sub(self.from)) / 2);
        self.after_refusal && self.is_alive(now) && age < half_life.map_or(NEW_MAX, |half| half.min(NEW_MAX))
    }

    /// When it ends, in seconds since 1970.
    pub fn ends(&self) -> Option<u64> {
        self.until.map(|until| until / 1_000)
    }

    /// What is revoked with a login: everything that came of it, where the refresh token stands for the rest.
    pub fn revocable(&self) -> (&str, &'static str) {
        match &self.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&self.access, "access_token"),
        }
    }

    fn bytes(&self) -> Result<Bytes, Error> {
        let written = serde_json::to_vec(self).map_err(|_| Error::WrongShape("a login could not be written"))?;
        Ok(written.into())
    }

    fn read(bytes: &[u8], whose: &Whose, issuer: &str) -> Option<Self> {
        let read: Option<Self> = serde_json::from_slice(bytes).ok();
        let read = read.filter(|it| it.form == FORM && it.whose == *whose && it.issuer == issuer);
        if read.is_none() {
            tracing::error!(server = %whose.server, "a login that was kept is not one of this principal here: it is not used");
        }
        read
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("server", &self.whose.server)
            .field("issuer", &self.issuer)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// A record as it was read: what replaces it must know what it replaces.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub credential: Credential,
    bytes: Bytes,
}

impl Kept {
    /// Whether it is the very same record.
    pub fn is(&self, other: &Self) -> bool {
        self.credential.issuer == other.credential.issuer && self.bytes == other.bytes
    }
}

/// What somebody has been given where they logged in last.
pub(super) async fn load(store: &dyn Store, whose: &Whose) -> Result<Option<Kept>, Error> {
    let Some(issuer) = store.get(&whose.key("at")?).await? else { return Ok(None) };
    let Ok(issuer) = std::str::from_utf8(&issuer) else { return Ok(None) };
    let Some(bytes) = store.get(&whose.record(issuer)?).await? else { return Ok(None) };
    Ok(Credential::read(&bytes, whose, issuer).map(|credential| Kept { credential, bytes }))
}

/// Keeps what came of a login, whatever was there, and forgets that it was open.
pub(super) async fn keep(store: &dyn Store, credential: &Credential) -> Result<(), Error> {
    let whose = &credential.whose;
    let batch = Batch::new()
        .set(&whose.record(&credential.issuer)?, credential.bytes()?, LIFE)
        .set(&whose.key("at")?, credential.issuer.clone(), LIFE)
        .delete(&whose.key("open")?);
    store.apply(batch).await.map(drop)
}

/// Keeps what came of a renewal in the place of what was renewed, while we are the one who renews; whether it did.
pub(super) async fn replace(store: &dyn Store, old: &Kept, new: &Credential, claim: &Claim) -> Result<bool, Error> {
    let batch = replacement(old, new)?.when_held(&new.whose.key("lock")?, claim);
    Ok(matches!(store.apply(batch).await?, Applied::Done(_)))
}

/// The same without being the one who renews any more.
pub(super) async fn replace_later(store: &dyn Store, old: &Kept, new: &Credential) -> Result<bool, Error> {
    Ok(matches!(store.apply(replacement(old, new)?).await?, Applied::Done(_)))
}

/// Unless somebody logged in meanwhile, be it elsewhere.
fn replacement(old: &Kept, new: &Credential) -> Result<Batch, Error> {
    let (record, at) = (new.whose.record(&new.issuer)?, new.whose.key("at")?);
    let batch = Batch::new().when(&record, Some(old.bytes.clone())).when(&at, Some(new.issuer.clone().into()));
    Ok(batch.set(&record, new.bytes()?, LIFE).expire(&at, LIFE))
}

/// Forgets what was read, unless it was replaced since. That somebody has logged in elsewhere is not forgotten with it.
pub(super) async fn forget(store: &dyn Store, old: &Kept) -> Result<(), Error> {
    let (whose, issuer) = (&old.credential.whose, &old.credential.issuer);
    let (record, at) = (whose.record(issuer)?, whose.key("at")?);
    let batch = Batch::new().when(&record, Some(old.bytes.clone())).delete(&record);
    let both = batch.clone().when(&at, Some(issuer.clone().into())).delete(&at);
    match store.apply(both).await? {
        Applied::Done(_) => Ok(()),
        _ => store.apply(batch).await.map(drop),
    }
}

fn lifetime(tokens: &Tokens, now: SystemTime) -> (u64, Option<u64>) {
    let from = milliseconds(now);
    let life = tokens.life.map(|life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX / 2));
    (from, life.map(|life| from.saturating_add(life)))
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests;
