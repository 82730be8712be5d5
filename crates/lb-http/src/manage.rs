//! What operators change while it runs, such as `/servers`: for bearers of a token alone.
//!
//! A cookie, or being on this machine, never counts here: so no web page can make a browser do it, and nobody who has
//! got hold of a cookie. Web pages may not read the answers either.

use std::sync::Arc;

use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use lb_exchange::{BoxFuture, Principal};
use lb_wire::revision::Era;

use crate::body::Body;
use crate::inbound::{self, BodyError};
use crate::pages::{Page, sends_operator_token, turn_away};
use crate::rate::Allowance;
use crate::service::{Visit, no_body, wrong_method};
use crate::shed::Why;
use crate::throttle;

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// What an operator asks for.
#[derive(Clone, Debug)]
pub struct Order {
    /// Who it is.
    pub who: Principal,
    /// The program that it was sent with, where that is known.
    pub client: Option<String>,
    /// What to do.
    pub action: Action,
}

/// What can be done to a list of things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Say what there is.
    List,
    /// Add what this document says.
    Add(Bytes),
    /// Remove what has this name.
    Remove(String),
}

/// From what is asked for to what is said about it.
pub type OrderSource = Arc<dyn Fn(Order) -> BoxFuture<'static, Page> + Send + Sync>;

/// A list that operators change: `GET` and `POST` at its path, and `DELETE` of a name below it.
#[derive(Clone)]
pub struct Managed {
    /// Where it is, such as `/servers`.
    pub path: &'static str,
    /// Who does it.
    pub source: OrderSource,
}

impl Managed {
    /// The name that a path has below this one's, empty for its own; `None` for all others.
    fn name<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(self.path)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }
}

impl Visit<'_> {
    /// Whether a request is for those who change something.
    pub(crate) fn is_order<B>(&self, request: &Request<B>) -> bool {
        self.managed(request).is_some()
    }

    fn managed<B>(&self, request: &Request<B>) -> Option<&Managed> {
        self.settings.managed.iter().find(|managed| managed.name(request.uri().path()).is_some())
    }

    /// Does what an operator asks for, or says why not.
    pub(crate) async fn order(
        &self,
        request: &mut Request<Incoming>,
        era: Era,
        allowance: &mut Option<Allowance>,
    ) -> Response<Body> {
        let Some(managed) = self.managed(request).cloned() else { return wrong_method("GET") };
        let name = managed.name(request.uri().path()).unwrap_or_default().to_owned();
        let method = request.method().clone();
        match (&method, name.is_empty()) {
            (&Method::GET | &Method::HEAD | &Method::POST, true) | (&Method::DELETE, false) => {}
            (_, true) => return wrong_method("GET, HEAD, POST"),
            (_, false) => return wrong_method("DELETE"),
        }
        if method == Method::POST && !inbound::is_json(request.headers()) {
            return crate::reply::refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, era, "the body must be application/json");
        }
        let (who, client) = match self.operator(request, era, allowance).await {
            Ok(operator) => operator,
            Err(response) => return *response,
        };
        let action = match method {
            Method::POST => match inbound::body(request, self.settings, BODY_BYTES_MAX, &self.server.bodies).await {
                Ok(body) => Action::Add(body),
                Err(error) => {
                    if matches!(error, BodyError::Crowded) {
                        self.server.shed.add(Why::Bodies);
                    }
                    return no_body(error, era);
                }
            },
            Method::DELETE => Action::Remove(name),
            _ => Action::List,
        };
        let page = (managed.source)(Order { who, client, action }).await;
        page.response()
    }

    /// Which operator it is; what is said to everybody else.
    async fn operator(
        &self,
        request: &Request<Incoming>,
        era: Era,
        allowance: &mut Option<Allowance>,
    ) -> Result<(Principal, Option<String>), Box<Response<Body>>> {
        let Some(auth) = &self.settings.auth else {
            *allowance = throttle::allowance(self.server, request.headers(), self.settings, self.peer);
            self.in_time(era, allowance.as_ref())?;
            return match sends_operator_token(request, self.settings) {
                Ok(()) => Ok((Principal::named("operator"), None)),
                Err(why) => {
                    self.audit("nobody", None, request, "denied");
                    Err(Box::new(turn_away(&why)))
                }
            };
        };
        let checked = auth.check(request.headers(), request.uri(), auth.now().await).await;
        *allowance = match &checked {
            Ok(grant) => throttle::of_principal(self.server, grant.who.principal.as_str(), self.settings),
            Err(_) => throttle::allowance(self.server, request.headers(), self.settings, self.peer),
        };
        self.in_time(era, allowance.as_ref())?;
        let grant = checked.map_err(|refusal| {
            self.audit("nobody", None, request, "refused");
            Box::new(self.turn_back(auth, &refusal, request))
        })?;
        if grant.is_admin() {
            return Ok((grant.who.principal.clone(), Some((*grant.who.client).into())));
        }
        self.audit(grant.who.principal.as_str(), Some(&grant.who.client), request, "denied");
        Err(Box::new(self.no_admin(&grant, request.uri().path())))
    }

    /// What somebody is told who is no administrator, and whether a scope would help.
    pub(crate) fn no_admin(&self, grant: &lb_auth::Grant, path: &str) -> Response<Body> {
        let why = "Forbidden - this is for the operator only: send the operator token, or one with the scope mcp:admin";
        let mut response = turn_away(why);
        let told = self.settings.auth.as_ref().map(|auth| auth.refuse(&auth.lacks_admin(grant), path, None));
        if let Some(challenge) = told.as_ref().and_then(|told| told.headers().get(WWW_AUTHENTICATE)) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
        }
        response
    }

    fn in_time(&self, era: Era, allowance: Option<&Allowance>) -> Result<(), Box<Response<Body>>> {
        if allowance.is_none_or(|allowance| allowance.granted) {
            return Ok(());
        }
        self.server.shed.add(Why::Rate);
        Err(Box::new(throttle::refused(era)))
    }

    fn audit<B>(&self, who: &str, client: Option<&str>, request: &Request<B>, outcome: &str) {
        let (method, path) = (request.method().as_str(), request.uri().path());
        tracing::warn!(target: "audit", who, client, method, path, outcome);
    }
}

impl Page {
    /// As it is sent.
    fn response(self) -> Response<Body> {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        crate::reply::page(status, HeaderValue::from_static(self.content_type), Body::bytes(self.body, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_owns_its_path_and_the_names_below() {
        let managed = Managed { path: "/servers", source: Arc::new(|_| Box::pin(async { unreachable!() })) };
        for (path, want) in [
            ("/servers", Some("")),
            ("/servers/", Some("")),
            ("/servers/git", Some("git")),
            ("/servers/a/b", Some("a/b")),
            ("/serversx", None),
            ("/", None),
        ] {
            assert_eq!(managed.name(path), want, "{path:?}");
        }
    }
}
