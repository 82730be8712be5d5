//! Requests that another node has sent on, and those of whoever says so.

use std::sync::Arc;

use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use lb_exchange::{Principal, Visitor};
use lb_front::era_of_header;
use lb_wire::header::PROTOCOL_VERSION;

use super::{Pages, Route, Visit};
use crate::body::Body;
use crate::hop::Unproven;
use crate::pulse::Work;
use crate::reply::bare;

impl Visit<'_> {
    /// Answers another node, if it is one. Nobody else is told anything, not even why.
    pub(super) async fn answer_node(&self, request: &mut Request<Incoming>, work: &mut Work) -> Response<Body> {
        match self.server.hops.admit(request, self.settings.node.as_ref()) {
            // What one of the two knows of a caller the other could not judge.
            Ok(claims) if claims.grant.is_some() != self.settings.auth.is_some() => self.unproven(Unproven::Login),
            Ok(claims) => {
                let (host, scheme) = (claims.host.as_deref(), claims.scheme.as_str());
                tracing::debug!(id = claims.id, host, scheme, "sent on by another node");
                // Whoever comes by way of several nodes has one share of this one all the same.
                if let Some(grant) = &claims.grant {
                    work.set_principal(grant.who.principal.clone());
                }
                Visit { claims: Some(&claims), ..*self }.answer(request, work).await
            }
            Err(why) => self.unproven(why),
        }
    }

    pub(super) fn unproven(&self, why: Unproven) -> Response<Body> {
        self.server.hops.tell(why, self.peer.address);
        let mut response = bare(StatusCode::UNAUTHORIZED);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }

    /// Whose request it is.
    pub(crate) fn visitor(&self) -> Visitor {
        let granted = match (self.claims, self.caller) {
            (Some(claims), _) => claims.grant.clone().map(Arc::new),
            (None, Some(caller)) => Some(caller.grant.clone()),
            (None, None) => None,
        };
        match (granted, &self.settings.auth, self.claims) {
            (Some(grant), Some(auth), _) => auth.visitor(&grant),
            (_, _, Some(claims)) => Visitor::of(Principal::named(&claims.principal)),
            (_, _, None) => Visitor::of(self.server.principal.clone()),
        }
    }

    /// The node that a request came to has checked everything else about it.
    pub(super) fn route_sent_on(&self, request: &Request<Incoming>) -> Route {
        let era = era_of_header(request.headers().get(PROTOCOL_VERSION).map(HeaderValue::as_bytes));
        if self.peer.late { Route::Done(self.stopping(era), Pages::Refused) } else { self.admit(request, era) }
    }
}
