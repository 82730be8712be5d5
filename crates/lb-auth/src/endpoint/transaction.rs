//! Logins under way: what was asked for, from the client's request to its code.

use std::time::{Duration, SystemTime};

use lb_store::{Key, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;

use super::room;
use crate::answer::{self, Answer};
use crate::client::Origin;
use crate::oidc::Attempt;
use crate::scope::Scopes;
use crate::secret::Hash;
use crate::token::seconds;

/// How long a person has for each of two steps: to agree, and to log in.
pub(crate) const LIFE: Duration = Duration::from_secs(600);

/// What a client asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub client_id: String,
    pub client_name: String,
    pub origin: Origin,
    pub local_only: bool,
    pub refreshes: bool,
    pub redirect_uri: String,
    pub state: Option<String>,
    pub scopes: Scopes,
    pub resources: Vec<String>,
    pub challenge: String,
    pub until: u64,
}

/// The same after a person has agreed to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Agreed {
    pub pending: Pending,
    pub attempt: Attempt,
    pub until: u64,
}

/// Which step of a login.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Ask,
    Login,
    /// Somebody logs in for pages, without a client.
    Page,
}

/// Something that ends.
pub(super) trait Ends {
    fn until(&self) -> u64;
}

impl Ends for Pending {
    fn until(&self) -> u64 {
        self.until
    }
}

impl Ends for Agreed {
    fn until(&self) -> u64 {
        self.until
    }
}

/// The key of a step: a hash of the secret that leads to it.
fn key(step: Step, secret: &str) -> Result<Key, lb_store::Error> {
    let name = match step {
        Step::Ask => "ask",
        Step::Login => "login",
        Step::Page => "page",
    };
    Key::parse(&format!("authtxn:{name}:{{{}}}", Hash::of(secret.as_bytes()).hex()))
}

pub(super) async fn keep<T: Serialize + Ends>(
    store: &dyn Store,
    step: Step,
    secret: &str,
    value: &T,
) -> Result<(), lb_store::Error> {
    let kept = serde_json::to_vec(value).map_err(|_| lb_store::Error::WrongShape("a login could not be written"))?;
    store.set(&key(step, secret)?, kept, LIFE + Duration::from_secs(30)).await?;
    room::count(store, value.until(), 1).await;
    Ok(())
}

pub(super) async fn find<T: DeserializeOwned + Ends>(
    store: &dyn Store,
    step: Step,
    secret: &str,
    now: SystemTime,
) -> Result<Option<T>, lb_store::Error> {
    let kept = store.get(&key(step, secret)?).await?;
    Ok(kept.and_then(|kept| serde_json::from_slice::<T>(&kept).ok()).filter(|value| seconds(now) < value.until()))
}

/// Takes it away, so that it leads on once.
pub(super) async fn take<T: DeserializeOwned + Ends>(
    store: &dyn Store,
    step: Step,
    secret: &str,
    now: SystemTime,
) -> Result<Option<T>, lb_store::Error> {
    let kept = store.take(&key(step, secret)?).await?;
    let Some(value) = kept.and_then(|kept| serde_json::from_slice::<T>(&kept).ok()) else { return Ok(None) };
    room::count(store, value.until(), -1).await;
    Ok(Some(value).filter(|value| seconds(now) < value.until()))
}

/// Where an answer to a client goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back<'a> {
    pub redirect_uri: &'a str,
    pub state: Option<&'a str>,
    pub issuer: &'a str,
}

impl Back<'_> {
    /// Sends a person back with an error.
    pub fn error(&self, code: &str, why: &str) -> Answer {
        self.with(&[("error", code), ("error_description", why)])
    }

    /// Sends a person back with these, the client's own state, and who we are.
    pub fn with(&self, pairs: &[(&str, &str)]) -> Answer {
        let Ok(mut url) = Url::parse(self.redirect_uri) else {
            return answer::empty(http::StatusCode::INTERNAL_SERVER_ERROR);
        };
        url.query_pairs_mut().extend_pairs(pairs).extend_pairs(self.state.map(|state| ("state", state)));
        url.query_pairs_mut().append_pair("iss", self.issuer);
        answer::redirect(url.as_str())
    }
}

impl Pending {
    pub fn back<'a>(&'a self, issuer: &'a str) -> Back<'a> {
        Back { redirect_uri: &self.redirect_uri, state: self.state.as_deref(), issuer }
    }
}
