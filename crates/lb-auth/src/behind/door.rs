//! What browsers and authorization servers ask of us: where a login starts, where it comes back to, and who we are.

use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::json;

use super::begin::place;
use super::credential::{self, Credential};
use super::pending::{self, Pending};
use super::person::not_you;
use super::tokens::{self, TokenError};
use super::{Behind, Inner};
use crate::answer::{self, Answer};
use crate::endpoint::{failed, failed_for_now, missing, style};
use crate::form::Form;

const QUERY_BYTES_MAX: usize = 8 * 1_024;
const STYLE: &str = "/oauth/style.css";

impl Behind {
    /// Whether a path is one that [`handle`](Self::handle) answers.
    pub fn handles(path: &str) -> bool {
        matches!(path, Self::START | Self::CALLBACK | Self::DOCUMENT | STYLE)
    }

    /// Answers a request for one of our paths. Cancel safe: what was done stays done.
    pub async fn handle(&self, request: &Request<Bytes>, now: SystemTime) -> Response<Bytes> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if !Self::handles(path) {
            return missing();
        }
        if request.method() != Method::GET {
            return answer::not_allowed("GET");
        }
        match path {
            Self::START => self.0.start(query, request.headers(), now).await,
            Self::CALLBACK => self.callback(query, request.headers(), now).await,
            Self::DOCUMENT => self.0.document(),
            _ => style(),
        }
    }

    /// Somebody comes back from a login; for those who listen elsewhere than at [`CALLBACK`](Self::CALLBACK), too.
    pub async fn callback(&self, query: &str, headers: &HeaderMap, now: SystemTime) -> Response<Bytes> {
        let (inner, owned) = (self.0.clone(), (query.to_owned(), headers.clone()));
        // A code is good once: a browser that is closed at this moment must not make it good for nothing.
        let task = self.0.tasks.spawn(async move { inner.came_back(&owned.0, &owned.1, now).await });
        task.await.unwrap_or_else(|_| failed_for_now("The login broke off."))
    }
}

impl Inner {
    /// Shows who we are to authorization servers that take documents as clients.
    fn document(&self) -> Answer {
        let Some(url) = &self.settings.public_url else { return missing() };
        answer::public(&json!({
            "client_id": format!("{url}{}", Behind::DOCUMENT),
            "client_name": self.settings.name,
            "client_uri": url,
            "redirect_uris": [format!("{url}{}", Behind::CALLBACK)],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": if url.starts_with("https:") { "web" } else { "native" },
        }))
    }

    /// Somebody opened a link: they go on when they are who began it.
    async fn start(&self, query: &str, headers: &HeaderMap, now: SystemTime) -> Answer {
        let Some(people) = &self.people else { return missing() };
        let form = Form::parse(query.as_bytes()).filter(|form| query.len() <= QUERY_BYTES_MAX && !form.repeats());
        let Some(id) = form.as_ref().and_then(|form| form.get("id")) else { return over() };
        let pending = match pending::find(&*self.store, id, now).await {
            Ok(Some(pending)) => pending,
            Ok(None) => return over(),
            Err(_) => return store_is_away(),
        };
        match people.is_person(headers, id, &pending.whose.principal, now).await {
            Ok(Some(true)) => answer::redirect(&pending.address),
            Ok(Some(false)) => {
                tracing::warn!(server = %pending.server, "somebody else opened the link to a login");
                let mut answer = not_you();
                people.forget_person(headers, id, &mut answer).await;
                answer
            }
            Ok(None) => people.ask_who(id, headers, now).await,
            Err(_) => store_is_away(),
        }
    }

    /// Somebody comes back from an authorization server.
    async fn came_back(&self, query: &str, headers: &HeaderMap, now: SystemTime) -> Answer {
        let form = Form::parse(query.as_bytes()).filter(|form| query.len() <= QUERY_BYTES_MAX && !form.repeats());
        let (Some(form), false) = (form, query.is_empty()) else { return over() };
        let Some(state) = form.get("state") else { return over() };
        let pending = match pending::came_back(&*self.store, state, now).await {
            Ok(Some(pending)) => pending,
            Ok(None) => return over(),
            Err(_) => return store_is_away(),
        };
        match self.is_theirs(&pending, headers, now).await {
            Ok(true) => {}
            Ok(false) => return not_you(),
            Err(_) => return store_is_away(),
        }
        match pending::use_up(&*self.store, &pending).await {
            Ok(true) => {}
            Ok(false) => return over(),
            Err(_) => return store_is_away(),
        }
        let (id, code) = (pending.id.clone(), brought(&form, &pending).map(str::to_owned));
        let mut answer = self.finished(pending, code, now).await;
        // Only here: a page of somebody else that leads to us ends nobody's login.
        if let Some(people) = &self.people {
            people.forget_person(headers, &id, &mut answer).await;
        }
        answer
    }

    /// Whether whoever comes back is who began it.
    async fn is_theirs(
        &self,
        pending: &Pending,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<bool, lb_store::Error> {
        match (&self.people, pending.needs_person) {
            (Some(people), _) => {
                let shown = people.is_person(headers, &pending.id, &pending.whose.principal, now).await?;
                Ok(shown == Some(true))
            }
            (None, needs_person) => Ok(!needs_person),
        }
    }

    /// Ends a login, in one way or the other.
    async fn finished(&self, pending: Pending, code: Result<String, String>, now: SystemTime) -> Answer {
        let got = match code {
            Ok(code) => self.exchange(&pending, &code, now).await,
            Err(why) => Err(why),
        };
        let why = got.err();
        if let Err(error) = pending::end(&*self.store, &pending, why.clone()).await {
            tracing::warn!(%error, "those who wait for a login are not told how it ended");
        }
        self.ended.send_modify(|count| *count += 1);
        let server = &pending.server;
        match why {
            None => {
                let what = format!("You are logged in at {server}. You can close this window.");
                failed(StatusCode::OK, &format!("Logged in at {server}"), &what)
            }
            Some(why) => {
                tracing::warn!(%server, %why, "a login came to nothing");
                let what = format!("The login at {server} came to nothing: {why}. Start again in the application.");
                failed(StatusCode::BAD_REQUEST, &format!("Not logged in at {server}"), &what)
            }
        }
    }

    /// Exchanges a code for tokens, and keeps them.
    async fn exchange(&self, pending: &Pending, code: &str, now: SystemTime) -> Result<(), String> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &pending.redirect_uri),
            ("code_verifier", &pending.verifier),
            ("resource", &pending.resource),
        ];
        let port = self.fetch(pending.bounds());
        let tokens = tokens::ask(&*port, &pending.token_endpoint, &pending.client, &form).await;
        let tokens = tokens.map_err(|error| match error {
            TokenError::Spent => "the code was not taken".to_owned(),
            error => error.to_string(),
        })?;
        let store_away = |error: lb_store::Error| format!("it could not be kept: {error}");
        let before = credential::load(&*self.store, &pending.whose).await.map_err(store_away)?;
        let number = before.map_or(0, |before| before.credential.number);
        let credential = Credential::new(pending.terms(), tokens, number, now);
        credential::keep(&*self.store, &credential).await.map_err(store_away)?;
        if pending.client.registered {
            let place = place(&pending.whose.server, &pending.issuer, &pending.redirect_uri);
            if let Err(error) = pending::worked(&*self.store, &place, &pending.client).await {
                tracing::debug!(%error, "the next login registers anew");
            }
        }
        if let Some(entry) = self.known_user(&pending.whose) {
            entry.hold(credential, now);
        }
        Ok(())
    }
}

/// What somebody brings back: a code of the very issuer that they were sent to.
fn brought<'a>(form: &'a Form, pending: &Pending) -> Result<&'a str, String> {
    let is_right = match form.get("iss") {
        Some(iss) => pending.is_named && iss == pending.issuer,
        None => !pending.says_iss,
    };
    if !is_right {
        return Err("the answer does not come from where it was asked for".into());
    }
    match (form.get("error"), form.get("code")) {
        (Some("access_denied"), _) => Err("it was denied".into()),
        (Some(_), _) => Err("the authorization server refused it".into()),
        (None, Some(code)) => Ok(code),
        (None, None) => Err("there is no code".into()),
    }
}

fn over() -> Answer {
    let what = "It was finished, or it took longer than ten minutes. Start again in the application.";
    failed(StatusCode::BAD_REQUEST, "This login is over", what)
}

fn store_is_away() -> Answer {
    failed_for_now("The gateway cannot reach its store.")
}
