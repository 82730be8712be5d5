//! `GET /oauth/callback`: a person comes back from the provider, and the client gets its code.

use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, StatusCode};

use super::transaction::{Agreed, Pending, Step, take};
use super::{Bound, failed, failed_for_now};
use crate::answer::Answer;
use crate::audit;
use crate::auth::Auth;
use crate::family::{GrantError, Granted, Login};
use crate::form::Form;
use crate::oidc::{Attempt, Idp, KEPT_FOR, LoginError};
use crate::scope::Scope;

impl Auth {
    pub(super) async fn callback(&self, request: &Request<Bytes>, now: SystemTime) -> Answer {
        let query = request.uri().query().unwrap_or_default();
        let form = Form::parse(query.as_bytes()).filter(|form| !form.repeats());
        // What another page sends the browser here with ends no login of its.
        let own = form.as_ref().and_then(|form| form.get("state"));
        let own = own.filter(|state| self.is_begun_in(request.headers(), state));
        let (Some(form), Some(state)) = (&form, own) else { return not_ours() };
        let mut answer = match Self::is_for_behind(query) {
            true => self.said_who(query, request.headers(), now).await,
            false => self.came_back(form, state, now).await,
        };
        self.unbind(&mut answer, Bound::Login, state);
        answer
    }

    async fn came_back(&self, form: &Form, state: &str, now: SystemTime) -> Answer {
        let Some(idp) = &self.idp else { return not_ours() };
        let agreed = match take::<Agreed>(&*self.store, Step::Login, state, now).await {
            Ok(Some(agreed)) => agreed,
            Ok(None) => return self.came_to_page(idp, form, state, now).await,
            Err(_) => return failed_for_now("The gateway cannot reach its store."),
        };
        let back = agreed.pending.back(&self.settings.public_url);
        let login = match self.logged_in(idp, form, &agreed.attempt, now).await {
            Ok(login) => login,
            Err((code, why)) => {
                audit::login_failed(&agreed.pending.client_id, code);
                return back.error(code, why);
            }
        };
        if let Err((code, why)) = self.may_have(&login, &agreed.pending) {
            audit::login(&login, &agreed.pending.client_id, code);
            return back.error(code, why);
        }
        audit::login(&login, &agreed.pending.client_id, "ok");
        match self.families.begin(granted(login, &agreed.pending), now).await {
            Ok(code) => back.with(&[("code", code.expose())]),
            Err(GrantError::Store(_)) => {
                back.error("temporarily_unavailable", "the gateway cannot reach its store: try again")
            }
            Err(_) => back.error("server_error", "the code could not be made"),
        }
    }

    /// Who has logged in, as the provider says and signs.
    pub(super) async fn logged_in(
        &self,
        idp: &Idp,
        form: &Form,
        attempt: &Attempt,
        now: SystemTime,
    ) -> Result<Login, (&'static str, &'static str)> {
        let told = |error: LoginError| {
            tracing::warn!(%error, "a login came to nothing");
            match error {
                LoginError::Away(_) => {
                    ("temporarily_unavailable", "the provider of the login cannot be reached: try again")
                }
                LoginError::Wrong(_) => ("server_error", "the login was not confirmed by its provider"),
            }
        };
        let metadata = idp.metadata(KEPT_FOR, now).await.map_err(told)?;
        if !idp.came_from_us(&metadata, form.get("iss")) {
            return Err(told(LoginError::Wrong("the browser came back from another issuer")));
        }
        match (form.get("error"), form.get("code")) {
            (Some("access_denied"), _) => Err(("access_denied", "the person did not log in")),
            (Some("temporarily_unavailable"), _) => {
                Err(("temporarily_unavailable", "the provider of the login is busy: try again"))
            }
            (Some(_), _) | (None, None) => Err(("server_error", "the provider of the login refused")),
            (None, Some(code)) => idp.login(code, attempt, self.rules().need(), now).await.map_err(told),
        }
    }

    /// Whether a person is let in, and may have what the client asks for.
    fn may_have(&self, login: &Login, pending: &Pending) -> Result<(), (&'static str, &'static str)> {
        let (who, rules) = (login.who(&pending.client_id), self.rules());
        if !rules.lets_in(&who) {
            return Err(("access_denied", "this account may not use this gateway: ask its operator"));
        }
        if pending.scopes.has(&Scope::Admin) && !rules.is_admin(&who) {
            return Err(("invalid_scope", "mcp:admin is for those whom the operator has named"));
        }
        Ok(())
    }
}

fn granted(login: Login, pending: &Pending) -> Granted {
    Granted {
        login,
        client: pending.client_id.clone(),
        scopes: pending.scopes.clone(),
        resources: pending.resources.clone(),
        refreshes: pending.refreshes,
        challenge: pending.challenge.clone(),
        redirect_uri: pending.redirect_uri.clone(),
    }
}

pub(super) fn not_ours() -> Answer {
    let what = "It was finished, took too long, or was begun in another browser. Start again in the application.";
    failed(StatusCode::BAD_REQUEST, "This login is not one of this browser", what)
}
