//! Who sits in front of a browser: asked at the operator's provider, for a login at a server behind us.
//!
//! A link to such a login may be opened by anybody whom it was shown to. Were it not looked at who that is, they would
//! log in with their own account and whoever began it would use that.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use lb_store::{Error, Key, Store};
use serde::{Deserialize, Serialize};

use super::Behind;
use crate::answer::{self, Answer};
use crate::auth::{Auth, same};
use crate::endpoint::{Bound, failed, failed_for_now};
use crate::form::Form;
use crate::oidc::{Attempt, KEPT_FOR, LoginError, PROBED_FOR};
use crate::secret::{Hash, Secret};
use crate::token::seconds;

const LIFE: Duration = Duration::from_secs(600);
/// What the state of such a login begins with, and of no other.
const MARK: &str = "behind.";

/// Somebody is asked who they are.
#[derive(Serialize, Deserialize)]
struct Asked {
    attempt: Attempt,
    /// The login at a server that it is for.
    id: String,
    until: u64,
}

/// Somebody said who they are.
#[derive(Serialize, Deserialize)]
struct Known {
    principal: String,
    id: String,
    until: u64,
}

impl Auth {
    /// Sends a browser to the provider; it comes back to the login at a server that it is for.
    pub(super) async fn ask_who(&self, id: &str, sent: &HeaderMap, now: SystemTime) -> Answer {
        let Some(idp) = &self.idp else { return not_ours() };
        let (state, attempt) = (format!("{MARK}{}", Secret::random().expose()), Attempt::new());
        let metadata = idp.metadata(PROBED_FOR, now).await;
        let to = match metadata.and_then(|metadata| idp.login_address(&metadata, &state, &attempt)) {
            Ok(to) => to,
            Err(error) => {
                tracing::warn!(%error, "nobody can log in");
                return failed_for_now("The provider of the login cannot be reached. Go back and try again.");
            }
        };
        let asked = Asked { attempt, id: id.to_owned(), until: seconds(now) + LIFE.as_secs() };
        if keep(&*self.store, "asked", &state, &asked).await.is_err() {
            return failed_for_now("The gateway cannot reach its store.");
        }
        let mut answer = answer::redirect(&to);
        self.bind(&mut answer, sent, (Bound::Login, &state), &state, LIFE.as_secs());
        answer
    }

    /// Whether somebody comes back from the provider for a login at a server.
    pub(crate) fn is_for_behind(query: &str) -> bool {
        Form::parse(query.as_bytes()).is_some_and(|form| form.get("state").is_some_and(|state| state.starts_with(MARK)))
    }

    /// Takes note of who came back, and sends them to the login at a server.
    pub(crate) async fn said_who(&self, query: &str, headers: &HeaderMap, now: SystemTime) -> Answer {
        let form = Form::parse(query.as_bytes()).filter(|form| !form.repeats());
        let (Some(idp), Some(form)) = (&self.idp, form) else { return not_ours() };
        let state = form.get("state").filter(|state| self.is_begun_in(headers, state));
        let Some(state) = state else { return not_ours() };
        let asked = match take::<Asked>(&*self.store, "asked", state).await {
            Ok(Some(asked)) if seconds(now) < asked.until => asked,
            Ok(_) => return not_ours(),
            Err(_) => return failed_for_now("The gateway cannot reach its store."),
        };
        let principal = match self.who_is(idp, &form, &asked, now).await {
            Ok(principal) => principal,
            Err(answer) => return answer,
        };
        let (secret, until) = (Secret::random(), seconds(now) + LIFE.as_secs());
        let known = Known { principal, id: asked.id.clone(), until };
        if keep(&*self.store, "known", secret.expose(), &known).await.is_err() {
            return failed_for_now("The gateway cannot reach its store.");
        }
        let to = format!("{}{}?id={}", self.settings.public_url, Behind::START, asked.id);
        let mut answer = answer::redirect(&to);
        self.bind(&mut answer, headers, (Bound::Person, &asked.id), secret.expose(), LIFE.as_secs());
        answer
    }

    async fn who_is(
        &self,
        idp: &crate::oidc::Idp,
        form: &Form,
        asked: &Asked,
        now: SystemTime,
    ) -> Result<String, Answer> {
        let told = |error: LoginError| {
            tracing::warn!(%error, "a login came to nothing");
            match error {
                LoginError::Away(_) => failed_for_now("The provider of the login cannot be reached. Start again."),
                LoginError::Wrong(_) => {
                    let what = "The provider of the login did not confirm it. Start again in the application.";
                    failed(StatusCode::BAD_REQUEST, "This login cannot go on", what)
                }
            }
        };
        let metadata = idp.metadata(KEPT_FOR, now).await.map_err(told)?;
        if !idp.came_from_us(&metadata, form.get("iss")) {
            return Err(told(LoginError::Wrong("the browser came back from another issuer")));
        }
        let code = form.get("code").filter(|_| form.get("error").is_none());
        let code = code.ok_or_else(|| told(LoginError::Wrong("there is no code")))?;
        let login = idp.login(code, &asked.attempt, self.rules().need(), now).await.map_err(told)?;
        // Somebody who is not let in any more has no server here.
        if !self.rules().lets_in(&login.who("")) {
            return Err(not_you());
        }
        Ok(login.principal)
    }

    /// Whether whoever sits in front of a browser has shown for this login that they are this principal; `None` when
    /// they were not asked yet.
    pub(super) async fn is_person(
        &self,
        headers: &HeaderMap,
        id: &str,
        principal: &str,
        now: SystemTime,
    ) -> Result<Option<bool>, Error> {
        let Some(secret) = self.bound(headers, Bound::Person, id) else { return Ok(None) };
        let known = self.store.get(&key("known", secret)?).await?;
        let known: Option<Known> = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let known = known.filter(|known| seconds(now) < known.until && same(&known.id, id));
        Ok(known.map(|known| same(&known.principal, principal)))
    }

    /// Forgets who sits in front of a browser, for one login at a server.
    pub(super) async fn forget_person(&self, headers: &HeaderMap, id: &str, answer: &mut Answer) {
        let Some(secret) = self.bound(headers, Bound::Person, id) else { return };
        if let Ok(key) = key("known", secret)
            && let Err(error) = self.store.delete(&key).await
        {
            tracing::debug!(%error, "who logged in is forgotten a little later");
        }
        self.unbind(answer, Bound::Person, id);
    }
}

fn key(purpose: &str, secret: &str) -> Result<Key, Error> {
    Key::parse(&format!("behind:{purpose}:{{{}}}", Hash::of(secret.as_bytes()).hex()))
}

async fn keep<T: Serialize>(store: &dyn Store, purpose: &str, secret: &str, value: &T) -> Result<(), Error> {
    let kept = serde_json::to_vec(value).map_err(|_| Error::WrongShape("a login could not be written"))?;
    store.set(&key(purpose, secret)?, kept, LIFE + Duration::from_secs(30)).await
}

async fn take<T: serde::de::DeserializeOwned>(
    store: &dyn Store,
    purpose: &str,
    secret: &str,
) -> Result<Option<T>, Error> {
    let taken = store.take(&key(purpose, secret)?).await?;
    Ok(taken.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn not_ours() -> Answer {
    let what = "It was finished, took too long, or was begun in another browser. Start again in the application.";
    failed(StatusCode::BAD_REQUEST, "This login is not one of this browser", what)
}

/// Somebody else opened a link.
pub(super) fn not_you() -> Answer {
    let what = "Somebody else began this login, or your account may not use this gateway. Only who began it can finish it. \
                Do not go on if somebody sent you here.";
    failed(StatusCode::FORBIDDEN, "This login is not yours", what)
}
