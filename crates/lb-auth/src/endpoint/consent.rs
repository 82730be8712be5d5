//! `/consent`: a person sees who asks, and agrees or not. Nothing is remembered, and nobody is sent to the provider before.

use std::time::SystemTime;

use bytes::Bytes;
use http::header::ORIGIN;
use http::{HeaderMap, Request, StatusCode};

use super::transaction::{Agreed, Pending, Step, find, keep, take};
use super::{Bound, cookie, failed, failed_for_now, is_form};
use crate::answer::{self, Answer};
use crate::audit;
use crate::auth::Auth;
use crate::form::Form;
use crate::oidc::{Attempt, Idp, PROBED_FOR};
use crate::pages::Consent;
use crate::redirect::shown_host;
use crate::secret::{Secret, decode};
use crate::token::seconds;

impl Auth {
    pub(super) async fn show_consent(&self, request: &Request<Bytes>, now: SystemTime) -> Answer {
        let Some(idp) = &self.idp else { return over() };
        let query = request.uri().query().and_then(|query| Form::parse(query.as_bytes()));
        let Some(id) = query.as_ref().and_then(|query| query.get("id")) else { return over() };
        let pending = match find::<Pending>(&*self.store, Step::Ask, id, now).await {
            Ok(Some(pending)) => pending,
            Ok(None) => return over(),
            Err(_) => return failed_for_now("The gateway cannot reach its store."),
        };
        // One for all tabs of a browser, so that they do not disturb one another. It must come along when another site
        // sends the browser here, which is how every login begins.
        let known =
            cookie(request.headers(), self.form_cookie()).filter(|text| decode(text).is_some_and(|it| it.len() == 32));
        let browser = known.map_or_else(Secret::random, Secret::new);
        let mark = self.keys.form_mark(id, browser.expose());
        let consent = Consent {
            gateway: &self.settings.name,
            provider: &idp.settings.name,
            client_id: &pending.client_id,
            client_name: &pending.client_name,
            origin: &pending.origin,
            redirect_host: &shown_host(&pending.redirect_uri),
            local_only: pending.local_only,
            scopes: &pending.scopes,
            id,
            mark: &mark,
        };
        let mut page = answer::page(StatusCode::OK, consent.html());
        self.set_cookie(&mut page, self.form_cookie(), browser.expose(), "Lax", self.settings.lives.login.as_secs());
        page
    }

    pub(super) async fn take_consent(&self, request: &Request<Bytes>, now: SystemTime) -> Answer {
        let Some(idp) = &self.idp else { return over() };
        let form = Form::parse(request.body()).filter(|form| is_form(request.headers()) && !form.repeats());
        let Some(form) = form else {
            return failed(StatusCode::BAD_REQUEST, "This login cannot go on", "The form cannot be read.");
        };
        let (id, mark) = (form.get("id").unwrap_or_default(), form.get("csrf").unwrap_or_default());
        let browser = cookie(request.headers(), self.form_cookie()).unwrap_or_default();
        if !self.is_own_page(request) || browser.is_empty() || !self.keys.is_form_marked(id, browser, mark) {
            let what = "The form does not come from this gateway's own page in this browser. Start again in the application, with cookies allowed.";
            return failed(StatusCode::FORBIDDEN, "This login cannot go on", what);
        }
        match form.get("decision") {
            Some("approve") => self.approved(idp, id, request.headers(), now).await,
            Some("deny") => match take::<Pending>(&*self.store, Step::Ask, id, now).await {
                Ok(Some(pending)) => {
                    audit::consent(&pending.client_id, "denied");
                    pending.back(&self.settings.public_url).error("access_denied", "the person did not agree")
                }
                Ok(None) => over(),
                Err(_) => failed_for_now("The gateway cannot reach its store."),
            },
            _ => failed(StatusCode::BAD_REQUEST, "This login cannot go on", "The form says neither yes nor no."),
        }
    }

    /// Only now does the browser get the cookie that it must bring back from the provider.
    async fn approved(&self, idp: &Idp, id: &str, sent: &HeaderMap, now: SystemTime) -> Answer {
        // Looked at now, so that nobody is sent to a provider that does not answer.
        let metadata = match idp.metadata(PROBED_FOR, now).await {
            Ok(metadata) => metadata,
            Err(error) => {
                tracing::warn!(%error, "nobody can log in");
                return failed_for_now("The provider of the login cannot be reached. Go back and try again.");
            }
        };
        let pending = match take::<Pending>(&*self.store, Step::Ask, id, now).await {
            Ok(Some(pending)) => pending,
            Ok(None) => return over(),
            Err(_) => return failed_for_now("The gateway cannot reach its store."),
        };
        audit::consent(&pending.client_id, "given");
        let (state, attempt) = (Secret::random(), Attempt::new());
        let Ok(to) = idp.login_address(&metadata, state.expose(), &attempt) else {
            return pending
                .back(&self.settings.public_url)
                .error("server_error", "the provider's address cannot be used");
        };
        let agreed = Agreed { pending, attempt, until: seconds(now) + self.settings.lives.login.as_secs() };
        if keep(&*self.store, Step::Login, state.expose(), &agreed).await.is_err() {
            let why = "the gateway cannot reach its store: try again";
            return agreed.pending.back(&self.settings.public_url).error("temporarily_unavailable", why);
        }
        let mut answer = answer::redirect(&to);
        self.bind(
            &mut answer,
            sent,
            (Bound::Login, state.expose()),
            state.expose(),
            self.settings.lives.login.as_secs(),
        );
        answer
    }

    /// Whether a form was sent by a page of ours. Browsers that do not say so have shown it by the mark.
    fn is_own_page(&self, request: &Request<Bytes>) -> bool {
        let own = url::Url::parse(&self.settings.public_url).map(|url| url.origin().ascii_serialization());
        let mut origins = request.headers().get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => own.is_ok_and(|own| own.as_bytes() == origin.as_bytes()),
            (Some(_), Some(_)) => false,
        }
    }

    /// The cookie that binds a form to a browser.
    pub(super) fn form_cookie(&self) -> &'static str {
        if self.settings.is_secure() { "__Host-lb_form" } else { "lb_form" }
    }
}

fn over() -> Answer {
    let what = "It was finished, or it took longer than ten minutes. Start again in the application.";
    failed(StatusCode::BAD_REQUEST, "This login is over", what)
}
