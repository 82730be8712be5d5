//! Logins that are open: kept where every node finds them, used once, and gone after ten minutes.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use lb_exchange::Bounds;
use lb_store::{Batch, Error, Key, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::credential::{Steps, Terms, Whose};
use super::tokens::Client;
use crate::secret::Hash;
use crate::token::seconds;

/// How long a person has.
pub(super) const LIFE: Duration = Duration::from_secs(600);
/// The store's clock must not be what ends something first.
const KEPT_FOR: Duration = Duration::from_secs(LIFE.as_secs() + 30);

/// A login that waits for a person.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Pending {
    pub id: String,
    pub whose: Whose,
    /// The server as people call it.
    pub server: String,
    /// How far the authorization server may be.
    pub reach: Distance,
    pub issuer: String,
    /// Whether the issuer has a name, and whether it must say it when the person comes back.
    pub is_named: bool,
    pub says_iss: bool,
    pub client: Client,
    pub token_endpoint: String,
    pub revocation_endpoint: Option<String>,
    pub resource: String,
    pub scopes: Vec<String>,
    pub steps: Steps,
    pub redirect_uri: String,
    pub verifier: String,
    pub state: String,
    /// Where the person logs in.
    pub address: String,
    /// Whether whoever opens it must be shown to be the principal.
    pub needs_person: bool,
    pub until: u64,
}

/// The same as [`Bounds`], as it is written.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Distance {
    Anywhere,
    Near,
    Public,
}

impl Pending {
    pub fn bounds(&self) -> Bounds {
        match self.reach {
            Distance::Anywhere => Bounds::Anywhere,
            Distance::Near => Bounds::Near,
            Distance::Public => Bounds::Public,
        }
    }

    pub fn terms(&self) -> Terms {
        Terms {
            whose: self.whose.clone(),
            issuer: self.issuer.clone(),
            client: self.client.clone(),
            token_endpoint: self.token_endpoint.clone(),
            revocation_endpoint: self.revocation_endpoint.clone(),
            resource: self.resource.clone(),
            scopes: self.scopes.clone(),
            steps: self.steps,
        }
    }
}

impl From<Bounds> for Distance {
    fn from(bounds: Bounds) -> Self {
        match bounds {
            Bounds::Anywhere => Self::Anywhere,
            Bounds::Near => Self::Near,
            Bounds::Public => Self::Public,
        }
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("server", &self.server).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// The one login that is open for a principal at a server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Open {
    pub id: String,
    /// What the person opens.
    pub link: String,
    scopes: Vec<String>,
    until: u64,
}

impl Open {
    /// Whether it asks for all of these.
    pub fn covers(&self, scopes: &[String]) -> bool {
        scopes.iter().all(|scope| self.scopes.contains(scope))
    }
}

/// How a login ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub whose: Whose,
    /// Why there is nothing, in words for people.
    pub why: Option<String>,
}

fn by_id(purpose: &str, id: &str) -> Result<Key, Error> {
    Key::parse(&format!("behind:{purpose}:{{{}}}", Hash::of(id.as_bytes()).hex()))
}

fn written<T: Serialize>(value: &T) -> Result<Bytes, Error> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|_| Error::WrongShape("a login could not be written"))
}

async fn read<T: DeserializeOwned>(store: &dyn Store, key: &Key) -> Result<Option<T>, Error> {
    Ok(store.get(key).await?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// The login that is open, and what to replace if it does not do.
pub(super) async fn open(
    store: &dyn Store,
    whose: &Whose,
    now: SystemTime,
) -> Result<(Option<Open>, Option<Bytes>), Error> {
    let bytes = store.get(&whose.key("open")?).await?;
    let open: Option<Open> = bytes.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    Ok((open.filter(|open| seconds(now) < open.until), bytes))
}

/// Opens a login, unless somebody else just did: then theirs counts.
pub(super) async fn keep(
    store: &dyn Store,
    pending: &Pending,
    link: String,
    replaced: Option<Bytes>,
) -> Result<Open, Error> {
    store.set(&by_id("pending", &pending.id)?, written(pending)?, KEPT_FOR).await?;
    store.set(&by_id("state", &pending.state)?, pending.id.clone(), KEPT_FOR).await?;
    let open = Open { id: pending.id.clone(), link, scopes: pending.scopes.clone(), until: pending.until };
    let key = pending.whose.key("open")?;
    if store.compare_and_set(&key, replaced, written(&open)?, KEPT_FOR).await? {
        return Ok(open);
    }
    Ok(read(store, &key).await?.unwrap_or(open))
}

/// The login of this name.
pub(super) async fn find(store: &dyn Store, id: &str, now: SystemTime) -> Result<Option<Pending>, Error> {
    let found: Option<Pending> = read(store, &by_id("pending", id)?).await?;
    Ok(found.filter(|pending| pending.id == id && seconds(now) < pending.until))
}

/// The login that somebody comes back from.
pub(super) async fn came_back(store: &dyn Store, state: &str, now: SystemTime) -> Result<Option<Pending>, Error> {
    let Some(id) = store.get(&by_id("state", state)?).await? else { return Ok(None) };
    let Ok(id) = std::str::from_utf8(&id) else { return Ok(None) };
    Ok(find(store, id, now).await?.filter(|pending| pending.state == state))
}

/// Uses a login up; whether it was still there.
pub(super) async fn use_up(store: &dyn Store, pending: &Pending) -> Result<bool, Error> {
    Ok(store.take(&by_id("state", &pending.state)?).await?.is_some())
}

/// Tells those who wait how it ended.
pub(super) async fn end(store: &dyn Store, pending: &Pending, why: Option<String>) -> Result<(), Error> {
    let is_over = why.is_some();
    let end = End { whose: pending.whose.clone(), why };
    store.set(&by_id("end", &pending.id)?, written(&end)?, KEPT_FOR).await?;
    store.delete(&by_id("pending", &pending.id)?).await?;
    let key = pending.whose.key("open")?;
    match read::<Open>(store, &key).await? {
        // Another one may be open by now.
        Some(open) if is_over && open.id == pending.id => {
            store.apply(Batch::new().when(&key, Some(written(&open)?)).delete(&key)).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// How a login ended, if it did.
pub(super) async fn ended(store: &dyn Store, id: &str) -> Result<Option<End>, Error> {
    read(store, &by_id("end", id)?).await
}

/// What we registered ourselves as, where it worked the last time. It is taken away and put back by the login that
/// works with it: an authorization server that has forgotten us tells the person, and not us.
pub(super) async fn registration(store: &dyn Store, place: &str) -> Result<Option<Client>, Error> {
    let taken = store.take(&by_id("client", place)?).await?;
    Ok(taken.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Puts it back.
pub(super) async fn worked(store: &dyn Store, place: &str, client: &Client) -> Result<(), Error> {
    store.set(&by_id("client", place)?, written(client)?, REGISTERED_FOR).await
}

/// Whether a secret of the operator may be shown to an issuer: to the one that it was first shown to, at the origin where
/// it makes tokens, and to no other. A server says by itself who makes its tokens, and could name anybody.
pub(super) async fn may_see(store: &dyn Store, place: &str, issuer: &str, origin: &str) -> Result<bool, Error> {
    let (key, shown) = (by_id("issuer", place)?, to_whom(issuer, origin));
    if store.set_if_absent(&key, shown.clone(), SHOWN_FOR).await? {
        return Ok(true);
    }
    match sees(store, place, issuer, origin).await? {
        Sees::This => store.expire(&key, SHOWN_FOR).await,
        // Written down when the origin was not: it is from now on.
        Sees::Issuer => {
            let is_written = store.compare_and_set(&key, Some(issuer.to_owned().into()), shown, SHOWN_FOR).await?;
            Ok(is_written || sees(store, place, issuer, origin).await? == Sees::This)
        }
        Sees::Nobody | Sees::Another => Ok(false),
    }
}

/// Who sees a secret of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sees {
    /// Nobody yet.
    Nobody,
    /// The one who was asked for.
    This,
    /// The same issuer, of which nothing else was written down.
    Issuer,
    /// Somebody else.
    Another,
}

/// Looks who sees a secret of the operator, and lets nobody see it.
pub(super) async fn sees(store: &dyn Store, place: &str, issuer: &str, origin: &str) -> Result<Sees, Error> {
    let known = store.get(&by_id("issuer", place)?).await?;
    Ok(match known {
        None => Sees::Nobody,
        Some(known) if known == to_whom(issuer, origin) => Sees::This,
        Some(known) if known == issuer => Sees::Issuer,
        Some(_) => Sees::Another,
    })
}

/// No address has a zero in it.
fn to_whom(issuer: &str, origin: &str) -> Bytes {
    format!("{issuer}\0{origin}").into()
}

/// How long it is remembered to whom a secret was shown.
const SHOWN_FOR: Duration = Duration::from_secs(400 * 86_400);
/// How long a registration that nobody uses is kept.
const REGISTERED_FOR: Duration = Duration::from_secs(30 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::memory;

    #[tokio::test]
    async fn who_saw_a_secret_before_origins_were_written_down_still_does() {
        let store = memory().await;
        store.set(&by_id("issuer", "place").unwrap(), "https://as.test", SHOWN_FOR).await.unwrap();
        let sees = async |issuer: &str, origin: &str| may_see(&*store, "place", issuer, origin).await.unwrap();
        assert!(!sees("https://evil.test", "https://evil.test").await);
        assert!(sees("https://as.test", "https://tokens.test").await);
        assert!(!sees("https://as.test", "https://evil.test").await, "it is written down by now");
        assert!(sees("https://as.test", "https://tokens.test").await);
    }
}
