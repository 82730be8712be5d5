//! The door, where callers must log in: whose request it is, what is refused, and the paths where tokens are given.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use lb_auth::behind::Behind;
use lb_auth::{Auth, Grant, Refusal, Scopes};
use lb_front::Reply;
use lb_wire::revision::Era;

use crate::body::Body;
use crate::inbound::{self, BodyError};
use crate::peer::THIS_MACHINE;
use crate::pulse::Work;
use crate::rate::Allowance;
use crate::record::Record;
use crate::reply::refuse;
use crate::service::{Pages, Route, Visit, no_body, not_allowed};
use crate::shed::Why;
use crate::throttle;

/// The longest body of a request about tokens, in bytes.
const TOKENS_BODY_BYTES_MAX: usize = 16 * 1_024;

/// Who has sent a request.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) grant: Arc<Grant>,
}

impl Visit<'_> {
    /// Whether a request is for those who give tokens.
    pub(crate) fn is_about_tokens<B>(&self, request: &Request<B>) -> bool {
        let path = request.uri().path();
        (self.settings.auth.is_some() && Auth::handles(path)) || self.is_about_behind(path)
    }

    /// Whether a path is for those who log in at servers behind us.
    fn is_about_behind(&self, path: &str) -> bool {
        self.settings.behind.is_some() && Behind::handles(path)
    }

    /// Whether it must say whose it is. What browsers ask before they send something does not.
    pub(crate) fn is_guarded<B>(&self, request: &Request<B>) -> bool {
        let path = request.uri().path();
        let is_mcp = || {
            let below = path.strip_prefix(self.settings.mcp_path.as_str());
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.settings.auth.is_some() && *request.method() != Method::OPTIONS && (is_mcp() || self.is_page(request))
    }

    /// Whether it is for a page of operators, which a browser may show with its cookie.
    fn is_page<B>(&self, request: &Request<B>) -> bool {
        self.settings.pages.iter().any(|pages| pages.own(request.uri().path()))
    }

    /// Answers a request for a token, or for what must be known to get one.
    pub(crate) async fn tokens(&self, request: &mut Request<Incoming>) -> Response<Body> {
        let body = match inbound::body(request, self.settings, TOKENS_BODY_BYTES_MAX, &self.server.bodies).await {
            Ok(body) => body,
            Err(error) => {
                if matches!(error, BodyError::Crowded) {
                    self.server.shed.add(Why::Bodies);
                }
                return no_body(error, Era::Legacy);
            }
        };
        let from = self.peer.client(request.headers(), self.settings).unwrap_or(THIS_MACHINE);
        let mut asked = Request::new(body);
        *asked.method_mut() = request.method().clone();
        *asked.uri_mut() = request.uri().clone();
        *asked.headers_mut() = std::mem::take(request.headers_mut());
        let answer = match (&self.settings.behind, &self.settings.auth) {
            (Some(behind), _) if Behind::handles(asked.uri().path()) => {
                let now = match &self.settings.auth {
                    Some(auth) => auth.now().await,
                    None => SystemTime::now(),
                };
                behind.handle(&asked, now).await
            }
            (_, Some(auth)) => auth.handle(asked, from, auth.now().await).await,
            (_, None) => return refused(StatusCode::NOT_FOUND),
        };
        answer.map(|body| Body::bytes(body, None))
    }

    /// Lets a request in, or says what is missing.
    pub(crate) async fn guarded(
        &self,
        request: &mut Request<Incoming>,
        work: &mut Work,
        record: &Record,
        era: Era,
        allowance: &mut Option<Allowance>,
    ) -> (Response<Body>, Pages) {
        if let Some(response) = self.unfit(request, era) {
            return (response, Pages::Allowed);
        }
        let Some(auth) = self.settings.auth.as_ref() else { return (refused(StatusCode::NOT_FOUND), Pages::Refused) };
        let shows = self.is_page(request) && matches!(*request.method(), Method::GET | Method::HEAD);
        let now = auth.now().await;
        let checked = match shows {
            true => auth.check_page(request.headers(), request.uri(), now).await,
            false => auth.check(request.headers(), request.uri(), now).await,
        };
        *allowance = match &checked {
            // Whose it is cannot be known now: nobody is taken for a stranger because of that.
            Err(Refusal::StoreAway) => None,
            Ok(grant) => throttle::of_principal(self.server, grant.who.principal.as_str(), self.settings),
            // Whoever has no token, or tries some, is known by an address only.
            Err(_) => throttle::allowance(self.server, request.headers(), self.settings, self.peer),
        };
        if allowance.is_some_and(|allowance| !allowance.granted) {
            self.server.shed.add(Why::Rate);
            return (throttle::refused(era), Pages::Allowed);
        }
        let grant = match checked {
            Ok(grant) => grant,
            Err(Refusal::NoCredentials) if shows => {
                let to_login = auth.to_login(request.headers(), request.uri().path());
                let to_login = to_login.map(|answer| answer.map(|body| Body::bytes(body, None)));
                let refused = || self.turn_back(auth, &Refusal::NoCredentials, request);
                return (to_login.unwrap_or_else(refused), Pages::Refused);
            }
            Err(refusal) => return (self.turn_back(auth, &refusal, request), Pages::Allowed),
        };
        work.set_principal(grant.who.principal.clone());
        let caller = Caller { grant };
        let visit = Visit { caller: Some(&caller), ..*self };
        let route = match visit.operator_page(request) {
            Some(response) => Route::Done(response, Pages::Refused),
            None => visit.admit(request, era),
        };
        visit.follow(route, request, work, record).await
    }

    /// What can be refused before anybody is asked whose request it is.
    fn unfit(&self, request: &Request<Incoming>, era: Era) -> Option<Response<Body>> {
        match *request.method() {
            Method::POST if !inbound::is_json(request.headers()) => {
                let message = "Unsupported Media Type: the body must be application/json";
                Some(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, era, message))
            }
            Method::POST if inbound::declares_more(request.headers(), self.settings.body_bytes_max) => {
                Some(no_body(BodyError::Large, era))
            }
            Method::POST | Method::GET | Method::HEAD | Method::DELETE => None,
            _ => Some(not_allowed("GET, POST, DELETE, OPTIONS")),
        }
    }

    /// What a client is told whose token may not do what it asked for: the scopes that would do.
    pub(crate) fn challenge(&self, path: &str, reply: &Reply) -> Option<HeaderValue> {
        let Reply::Forbidden { scopes: Some(scopes), .. } = reply else { return None };
        let refusal = Refusal::Scope { scopes: Scopes::parse(scopes)? };
        let told = self.settings.auth.as_ref()?.refuse(&refusal, path, None);
        told.headers().get(WWW_AUTHENTICATE).cloned()
    }

    /// The answer to a request whose token does not let it in.
    pub(crate) fn turn_back<B>(&self, auth: &Auth, refusal: &Refusal, request: &Request<B>) -> Response<Body> {
        tracing::debug!(status = refusal.status().as_u16(), "refused");
        auth.turned_back(refusal, self.peer.client(request.headers(), self.settings), SystemTime::now());
        auth.refuse(refusal, request.uri().path(), None).map(|body| Body::bytes(body, None))
    }
}

fn refused(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::bytes(Bytes::new(), None));
    *response.status_mut() = status;
    response
}
