//! `GET /login` and `GET /logout`: an operator in a browser.
//!
//! The cookie opens pages that only show something. Whatever changes something wants a bearer token, which no other web
//! page can make a browser send.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri};
use lb_store::Key;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use super::callback::not_ours;
use super::transaction::{Ends, Step, keep, take};
use super::{Bound, cookie, failed, failed_for_now, full, room};
use crate::answer::{self, Answer};
use crate::auth::{Auth, Grant};
use crate::family::Login;
use crate::form::Form;
use crate::oidc::{Attempt, Idp, PROBED_FOR};
use crate::pages;
use crate::rate::{AUTHORIZE, counted};
use crate::refusal::Refusal;
use crate::scope::{Scope, Scopes};
use crate::secret::{Hash, Secret};
use crate::token::seconds;

/// How long an operator need not log in again.
const OPEN_FOR: Duration = Duration::from_secs(8 * 60 * 60);
/// What the rules and the audit know a browser by.
const CLIENT: &str = "browser";
/// Where an operator is led who has not said where to.
const FIRST_PAGE: &str = "/waterfall";
const NEXT_BYTES_MAX: usize = 1_024;

/// A login that is to lead to a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Visit {
    next: String,
    attempt: Attempt,
    until: u64,
}

impl Ends for Visit {
    fn until(&self) -> u64 {
        self.until
    }
}

/// An operator who has logged in.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Seen {
    login: Login,
    until: u64,
}

impl Auth {
    /// Says who asks for a page that shows something: by a token, or by the cookie of a browser. Cancel safe: yes.
    ///
    /// # Errors
    /// Why it is not shown.
    pub async fn check_page(&self, headers: &HeaderMap, uri: &Uri, now: SystemTime) -> Result<Arc<Grant>, Refusal> {
        match (self.check(headers, uri, now).await, cookie(headers, self.page_cookie())) {
            (Err(Refusal::NoCredentials), Some(sent)) => self.check_cookie(sent, now).await,
            (checked, _) => checked,
        }
    }

    /// Sends a browser to log in that asks for a page of ours; `None` where nobody can, or it is no browser.
    pub fn to_login(&self, headers: &HeaderMap, path: &str) -> Option<Answer> {
        let accepts = headers.get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let shows = accepts.split(',').any(|kind| kind.trim().starts_with("text/html"));
        self.idp.as_ref().filter(|_| shows)?;
        let next: String = form_urlencoded::byte_serialize(path.as_bytes()).collect();
        Some(answer::redirect(&format!("{}/login?next={next}", self.settings.public_url)))
    }

    async fn check_cookie(&self, sent: &str, now: SystemTime) -> Result<Arc<Grant>, Refusal> {
        let away = |error: lb_store::Error| {
            tracing::warn!(%error, "cookies cannot be checked");
            Refusal::StoreAway
        };
        let kept = self.store.get(&key(sent).map_err(away)?).await.map_err(away)?;
        let seen = kept.and_then(|kept| serde_json::from_slice::<Seen>(&kept).ok());
        let seen = seen.filter(|seen| seconds(now) < seen.until).ok_or(Refusal::NoCredentials)?;
        let (who, rules) = (seen.login.who(CLIENT), self.rules());
        // The rules may have changed since the login.
        if !rules.lets_in(&who) || !rules.is_admin(&who) {
            return Err(Refusal::Denied);
        }
        let scopes = Scopes::default().with(Scope::Admin);
        Ok(Arc::new(Grant { who, scopes, family: None, operator: false }))
    }

    pub(super) async fn open_login(&self, request: &Request<Bytes>, from: IpAddr, now: SystemTime) -> Answer {
        match AUTHORIZE.take(&*self.store, &counted(from), now).await {
            Ok(None) => {}
            Ok(Some(wait)) => {
                let page = failed(StatusCode::TOO_MANY_REQUESTS, "Too many logins", "Wait a minute and try again.");
                return answer::later(page, wait);
            }
            Err(_) => return failed_for_now("The gateway cannot reach its store."),
        }
        match room::is_left(&*self.store, now).await {
            Ok(true) => {}
            Ok(false) => return full(),
            Err(_) => return failed_for_now("The gateway cannot reach its store."),
        }
        let Some(idp) = &self.idp else { return not_ours() };
        let metadata = match idp.metadata(PROBED_FOR, now).await {
            Ok(metadata) => metadata,
            Err(error) => {
                tracing::warn!(%error, "nobody can log in");
                return failed_for_now("The provider of the login cannot be reached. Go back and try again.");
            }
        };
        let query = request.uri().query().unwrap_or_default();
        let form = Form::parse(query.as_bytes()).filter(|form| !form.repeats());
        let next = form.as_ref().and_then(|form| form.get("next")).filter(|next| is_ours(next)).unwrap_or(FIRST_PAGE);
        let (state, attempt) = (Secret::random(), Attempt::new());
        let Ok(to) = idp.login_address(&metadata, state.expose(), &attempt) else {
            return failed(
                StatusCode::BAD_GATEWAY,
                "This login cannot go on",
                "The provider's address cannot be used.",
            );
        };
        let visit = Visit { next: next.to_owned(), attempt, until: seconds(now) + self.settings.lives.login.as_secs() };
        if keep(&*self.store, Step::Page, state.expose(), &visit).await.is_err() {
            return failed_for_now("The gateway cannot reach its store.");
        }
        let mut answer = answer::redirect(&to);
        self.bind(
            &mut answer,
            request.headers(),
            (Bound::Login, state.expose()),
            state.expose(),
            self.settings.lives.login.as_secs(),
        );
        answer
    }

    /// Somebody comes back from the provider who wants to see a page.
    pub(super) async fn came_to_page(&self, idp: &Idp, form: &Form, state: &str, now: SystemTime) -> Answer {
        let visit = match take::<Visit>(&*self.store, Step::Page, state, now).await {
            Ok(Some(visit)) => visit,
            Ok(None) => return not_ours(),
            Err(_) => return failed_for_now("The gateway cannot reach its store."),
        };
        let login = match self.logged_in(idp, form, &visit.attempt, now).await {
            Ok(login) => login,
            Err((code, why)) => {
                let status =
                    if code == "access_denied" { StatusCode::FORBIDDEN } else { StatusCode::SERVICE_UNAVAILABLE };
                return failed(status, "You are not logged in", &format!("It came to nothing: {why}."));
            }
        };
        let (who, rules) = (login.who(CLIENT), self.rules());
        let is_admin = rules.lets_in(&who) && rules.is_admin(&who);
        let outcome = if is_admin { "logged_in" } else { "denied" };
        tracing::info!(target: "audit", who = who.principal.as_str(), client = CLIENT, method = "login", outcome);
        if !is_admin {
            let what = "These pages are for administrators, and this account is none. Ask the operator of the gateway.";
            return failed(StatusCode::FORBIDDEN, "You may not see this", what);
        }
        match self.remember(login, now).await {
            // Led on by a page and not by a redirect: the browser would take that for a visit from the provider, and
            // send no cookie.
            Ok(cookie) => {
                let mut page = answer::page(StatusCode::OK, pages::onward("You are logged in", &visit.next));
                self.set_cookie(&mut page, self.page_cookie(), cookie.expose(), "Strict", OPEN_FOR.as_secs());
                page
            }
            Err(_) => failed_for_now("The gateway cannot reach its store."),
        }
    }

    async fn remember(&self, login: Login, now: SystemTime) -> Result<Secret, lb_store::Error> {
        let (cookie, seen) = (Secret::random(), Seen { login, until: seconds(now) + OPEN_FOR.as_secs() });
        let kept =
            serde_json::to_vec(&seen).map_err(|_| lb_store::Error::WrongShape("a login could not be written"))?;
        self.store.set(&key(cookie.expose())?, kept, OPEN_FOR).await?;
        Ok(cookie)
    }

    /// A link from elsewhere brings no cookie, and so ends nothing.
    pub(super) async fn logout(&self, headers: &HeaderMap) -> Answer {
        let mut page = answer::page(StatusCode::OK, pages::failure("You are logged out", "You can close this page."));
        let Some(sent) = cookie(headers, self.page_cookie()) else { return page };
        let ended = match key(sent) {
            Ok(key) => self.store.delete(&key).await.map(drop),
            Err(error) => Err(error),
        };
        if ended.is_err() {
            return failed_for_now("The gateway cannot reach its store, so that you are still logged in.");
        }
        self.set_cookie(&mut page, self.page_cookie(), "", "Strict", 0);
        page
    }

    /// The cookie of an operator's browser. Without encryption, which is for loopback, its name has no prefix.
    fn page_cookie(&self) -> &'static str {
        if self.settings.is_secure() { "__Host-lb_ui" } else { "lb_ui" }
    }
}

/// The key of a browser: a hash of the secret that it has.
fn key(cookie: &str) -> Result<Key, lb_store::Error> {
    Key::parse(&format!("uisession:{{{}}}", Hash::of(cookie.as_bytes()).hex()))
}

/// Whether a path can be nothing but one of our pages, however a browser reads it.
fn is_ours(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let below = |page: &str| path.strip_prefix(page).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    path.len() <= NEXT_BYTES_MAX
        && path.bytes().all(plain)
        && !path.contains("..")
        && ["/waterfall", "/sessions", "/metrics", "/oauth/stats"].into_iter().any(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_pages_of_ours_alone() {
        for (path, want) in [
            ("/waterfall", true),
            ("/waterfall/json", true),
            ("/sessions", true),
            ("/oauth/stats", true),
            ("", false),
            ("/", false),
            ("//evil.example/waterfall", false),
            ("https://evil.example/waterfall", false),
            ("/waterfall@evil.example", false),
            ("/waterfall/../authorize", false),
            ("/waterfall?x", false),
            ("/waterfallx", false),
            ("/waterfall/\\evil", false),
            ("/authorize", false),
            ("javascript:alert(1)", false),
        ] {
            assert_eq!(is_ours(path), want, "{path:?}");
        }
        assert!(!is_ours(&format!("/waterfall/{}", "x".repeat(NEXT_BYTES_MAX))));
    }
}
