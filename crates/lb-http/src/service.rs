//! One request after the other: guards, routes, and the boundary that no panic crosses.

mod sent_on;

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{ALLOW, CONNECTION, HeaderValue, ORIGIN, STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use lb_exchange::{Mount, ServerName};
use lb_front::{Arrival, Posted, Reply, era_of_header};
use lb_wire::header::PROTOCOL_VERSION;
use lb_wire::revision::Era;
use tracing::Instrument as _;

use crate::body::Body;
use crate::current::Seen;
use crate::door::Caller;
use crate::guard::{Refused, check_host, check_length, check_origin, explain};
use crate::hop::{self, Claims, HOP, Unproven};
use crate::inbound::{self, BodyError};
use crate::listen::Side;
use crate::pages::stranger;
use crate::peer::Peer;
use crate::phase::Level;
use crate::pulse::{Pulse, Work};
use crate::rate::Allowance;
use crate::record::{REQUEST_ID, Record};
use crate::reply::{TEXT, bare, document, page, refuse, response};
use crate::server::Server;
use crate::settings::Settings;
use crate::shed::Why;
use crate::{cors, health, pages, throttle};

/// The service of one connection.
pub(crate) struct Service {
    server: Arc<Server>,
    pulse: Arc<Pulse>,
    peer: Peer,
    settings: Seen,
}

impl Service {
    pub(crate) fn new(server: Arc<Server>, pulse: Arc<Pulse>, peer: Peer) -> Self {
        let settings = Seen::new(&server.settings);
        Self { server, pulse, peer, settings }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (server, mut work, peer) = (self.server.clone(), self.pulse.work(), self.peer);
        let settings = self.settings.refresh(&server.settings);
        let answering = async move {
            let mut request = request;
            let visit = Visit { server: &server, settings: &settings, peer, claims: None, caller: None };
            let mut response = match peer.side {
                Side::Clients => visit.answer(&mut request, &mut work).await,
                // Boxed: it would have its room in the future of every client's request.
                Side::Nodes => Box::pin(visit.answer_node(&mut request, &mut work)).await,
            };
            response.body_mut().hold(work);
            Ok(response)
        };
        Box::pin(answering)
    }
}

/// One request: what it comes with beside itself.
#[derive(Clone, Copy)]
pub(crate) struct Visit<'s> {
    pub(crate) server: &'s Server,
    pub(crate) settings: &'s Settings,
    pub(crate) peer: Peer,
    /// What the node says of it that has sent it on.
    pub(crate) claims: Option<&'s Claims>,
    /// Who has sent it, where callers must log in.
    pub(crate) caller: Option<&'s Caller>,
}

impl Visit<'_> {
    /// The request stays where it is: handed on, it would have its room in every future on the way.
    async fn answer(&self, request: &mut Request<Incoming>, work: &mut Work) -> Response<Body> {
        let record = Record::new(self.server, request, self.peer, self.settings, self.claims);
        // What browsers are told is the business of the node that they came to.
        let browsed = self.peer.side == Side::Clients;
        let origin = request.headers().get(ORIGIN).filter(|_| browsed).cloned();
        let hsts = (self.peer.secure && browsed).then(|| cors::strict_transport(request));
        let mut allowance = None;
        let handled = AssertUnwindSafe(self.handle(request, work, &record, &mut allowance));
        let handled = handled.catch_unwind().instrument(record.span()).await;
        let (mut response, allowed) = handled.unwrap_or_else(|_| {
            tracing::error!(request = ?record.id(), "a request panicked");
            (refuse(StatusCode::INTERNAL_SERVER_ERROR, Era::Modern, "Internal server error"), Pages::Refused)
        });
        let headers = response.headers_mut();
        cors::secure(headers);
        if let Some(hsts) = hsts {
            headers.insert(STRICT_TRANSPORT_SECURITY, hsts);
        }
        if let (Pages::Allowed, Some(origin)) = (allowed, origin) {
            cors::allow(origin, headers);
        }
        if let Some(allowance) = allowance {
            throttle::tell(&allowance, headers);
        }
        if self.server.phase.level() != Level::Serving {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let id = record.close(&response);
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }

    async fn handle(
        &self,
        request: &mut Request<Incoming>,
        work: &mut Work,
        record: &Record,
        allowance: &mut Option<Allowance>,
    ) -> (Response<Body>, Pages) {
        let route = match self.claims {
            None => self.route(request, allowance),
            Some(_) => self.route_sent_on(request),
        };
        match route {
            // Boxed: without a login their room is in no request's future.
            Route::Tokens => (Box::pin(self.tokens(request)).await, Pages::Refused),
            Route::Guarded(era) => Box::pin(self.guarded(request, work, record, era, allowance)).await,
            Route::Order(era) => (Box::pin(self.order(request, era, allowance)).await, Pages::Refused),
            route => self.follow(route, request, work, record).await,
        }
    }

    pub(crate) async fn follow(
        &self,
        route: Route,
        request: &mut Request<Incoming>,
        work: &mut Work,
        record: &Record,
    ) -> (Response<Body>, Pages) {
        match route {
            Route::Done(response, pages) => (response, pages),
            // They are followed before.
            Route::Tokens | Route::Guarded(_) | Route::Order(_) => {
                (bare(StatusCode::INTERNAL_SERVER_ERROR), Pages::Refused)
            }
            Route::Post(_, era) if !work.has_room(self.settings.in_flight_max) => (self.crowded(era), Pages::Allowed),
            Route::Post(mount, era) => (self.post(request, work, record, mount, era).await, Pages::Allowed),
            Route::Bodiless(mount, era) => (self.bodiless(request, record, mount, era).await, Pages::Allowed),
        }
    }

    fn route(&self, request: &Request<Incoming>, allowance: &mut Option<Allowance>) -> Route {
        if request.headers().contains_key(HOP) {
            self.server.hops.tell_misplaced(self.peer.address);
            return Route::Done(refuse(StatusCode::BAD_REQUEST, Era::Modern, "Bad Request"), Pages::Refused);
        }
        if let Some(response) = self.page(request) {
            return Route::Done(response, Pages::Refused);
        }
        let era = era_of_header(request.headers().get(PROTOCOL_VERSION).map(HeaderValue::as_bytes));
        if let Some(response) = self.closed(request, era) {
            return Route::Done(response, Pages::Allowed);
        }
        let about_tokens = self.is_about_tokens(request);
        let guarded = check_length(request)
            .and_then(|()| check_host(request, self.settings))
            // What is read there by a plain GET is for everybody, or for a browser that was sent there from elsewhere.
            .and_then(|()| match about_tokens && matches!(*request.method(), Method::GET | Method::OPTIONS) {
                true => Ok(()),
                false => check_origin(request.headers(), self.settings),
            });
        if let Err(refused) = guarded {
            return Route::Done(self.turn_away(refused, request, era), Pages::Refused);
        }
        if self.peer.late {
            return Route::Done(self.stopping(era), Pages::Allowed);
        }
        if self.is_order(request) {
            return Route::Order(era);
        }
        if !about_tokens && self.is_guarded(request) {
            return Route::Guarded(era);
        }
        *allowance = throttle::allowance(self.server, request.headers(), self.settings, self.peer);
        if allowance.is_some_and(|allowance| !allowance.granted) {
            self.server.shed.add(Why::Rate);
            return Route::Done(throttle::refused(era), Pages::Allowed);
        }
        if about_tokens {
            return Route::Tokens;
        }
        match self.operator_page(request) {
            Some(response) => Route::Done(response, Pages::Refused),
            None => self.admit(request, era),
        }
    }

    /// What everybody is told while nothing is done. Operators see what is wrong on their pages.
    fn closed(&self, request: &Request<Incoming>, era: Era) -> Option<Response<Body>> {
        let why = self.settings.closed.as_ref().and_then(|closed| closed())?;
        let path = request.uri().path();
        (!self.settings.pages.iter().any(|pages| pages.own(path))).then(|| throttle::busy(era, why))
    }

    fn stopping(&self, era: Era) -> Response<Body> {
        self.server.shed.add(Why::Stopping);
        throttle::busy(era, "landbridge is stopping")
    }

    fn turn_away(&self, refused: Refused, request: &Request<Incoming>, era: Era) -> Response<Body> {
        let (status, message) = match refused {
            Refused::Host | Refused::Origin => {
                let message = explain(refused, request, self.settings);
                tracing::warn!("{message}");
                return refuse(StatusCode::FORBIDDEN, era, &message);
            }
            Refused::Malformed => (StatusCode::BAD_REQUEST, "Bad Request: more than one Host"),
            Refused::Target => (StatusCode::URI_TOO_LONG, "URI Too Long"),
            Refused::Headers => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "Request Header Fields Too Large"),
        };
        refuse(status, era, message)
    }

    /// Pages that everybody may see under any name.
    fn page(&self, request: &Request<Incoming>) -> Option<Response<Body>> {
        let path = request.uri().path();
        if !matches!(path, "/health" | "/ping") {
            return None;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Some(wrong_method("GET, HEAD"));
        }
        if path == "/ping" {
            return Some(page(StatusCode::OK, TEXT, Body::bytes("pong".into(), None)));
        }
        let (status, body) = health::health(self.server.phase.level(), self.server.started, self.settings);
        Some(document(status, body))
    }

    /// Pages that only an operator may see; no other web page may read them.
    pub(crate) fn operator_page(&self, request: &Request<Incoming>) -> Option<Response<Body>> {
        let path = request.uri().path();
        let pages = self.settings.pages.iter().find(|pages| pages.own(path))?;
        match self.caller {
            Some(caller) if !caller.grant.is_admin() => return Some(self.no_admin(&caller.grant, path)),
            Some(_) => {}
            None => {
                if let Some(why) = stranger(request, self.peer.reach, self.settings) {
                    tracing::debug!("{why}");
                    return Some(pages::turn_away(&why));
                }
            }
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Some(wrong_method("GET, HEAD"));
        }
        let found = pages.at(path, request.uri().query());
        Some(found.unwrap_or_else(|| document(StatusCode::NOT_FOUND, health::lost(self.settings))))
    }

    pub(crate) fn admit(&self, request: &Request<Incoming>, era: Era) -> Route {
        let done = |response| Route::Done(response, Pages::Allowed);
        let path = request.uri().path();
        if *request.method() == Method::OPTIONS {
            let mut response = bare(StatusCode::NO_CONTENT);
            cors::preflight(request.headers(), response.headers_mut());
            return done(response);
        }
        if path == "/" {
            return done(self.root(request.method(), era));
        }
        let mount = match self.mount(path) {
            Ok(mount) => mount,
            Err(response) => return done(*response),
        };
        match *request.method() {
            Method::POST => Route::Post(mount, era),
            Method::GET | Method::DELETE => Route::Bodiless(mount, era),
            _ => done(not_allowed("GET, POST, DELETE, OPTIONS")),
        }
    }

    /// The page for people who look what is here, and the way for clients that were given no path.
    fn root(&self, method: &Method, era: Era) -> Response<Body> {
        let alone = self.server.front.has(&Mount::Default);
        if matches!(*method, Method::GET | Method::HEAD) {
            // Whoever has not logged in is not told what is here.
            let several =
                if alone || self.settings.login { Vec::new() } else { self.server.front.servers(&self.visitor()) };
            return page(StatusCode::OK, TEXT, Body::bytes(health::banner(self.settings, &several), None));
        }
        let below = if alone { "" } else { "/server/{name}" };
        let message = format!("Method not allowed: MCP is at {}{below}", self.settings.mcp_path);
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, era, &message);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
        response
    }

    /// Where a path leads.
    fn mount(&self, path: &str) -> Result<Mount, Box<Response<Body>>> {
        let lost = || Err(Box::new(document(StatusCode::NOT_FOUND, health::lost(self.settings))));
        let Some(rest) = path.strip_prefix(self.settings.mcp_path.as_str()) else { return lost() };
        if matches!(rest, "/tools" | "/tools/") && self.server.front.has(&Mount::Tools) {
            return Ok(Mount::Tools);
        }
        let (mount, what) = match rest.strip_prefix("/server/") {
            _ if matches!(rest, "" | "/") => {
                (Some(Mount::Default), "several servers are behind this gateway: name one")
            }
            Some(name) => (ServerName::parse(name).ok().map(Mount::Server), "no such server"),
            None => return lost(),
        };
        let front = &self.server.front;
        match mount.filter(|mount| front.has(mount) || front.serves(mount, &self.visitor())) {
            Some(mount) => Ok(mount),
            None => {
                let body = health::no_server(what, &self.server.front.servers(&self.visitor()));
                Err(Box::new(document(StatusCode::NOT_FOUND, body)))
            }
        }
    }

    async fn post(
        &self,
        request: &mut Request<Incoming>,
        work: &mut Work,
        record: &Record,
        mount: Mount,
        era: Era,
    ) -> Response<Body> {
        if !inbound::is_json(request.headers()) {
            let message = "Unsupported Media Type: the body must be application/json";
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, era, message);
        }
        let body = match inbound::body(request, self.settings, self.settings.body_bytes_max, &self.server.bodies).await
        {
            Ok(body) => body,
            Err(error) => {
                if matches!(error, BodyError::Crowded) {
                    self.server.shed.add(Why::Bodies);
                }
                return no_body(error, era);
            }
        };
        // Not before it has come as a whole: who is slow to ask shall take no place from those who have asked.
        if !work.count(self.settings.in_flight_max) {
            return self.crowded(era);
        }
        if self.claims.is_some_and(|claims| claims.body != hop::digest(&body)) {
            return self.unproven(Unproven::Body);
        }
        let mut posted = match self.posted(request.headers(), &mount, era, &body, Asked::Nobody) {
            Ok(posted) => posted,
            Err(repeated) => return repeated_header(repeated, era),
        };
        if posted.is_none() {
            if let Some(response) = Box::pin(self.elsewhere(request, &body, record, era, Some(&mount))).await {
                return response;
            }
            posted = self.posted(request.headers(), &mount, era, &body, Asked::Everybody).unwrap_or_default();
        }
        drop((mount, body));
        let Some(posted) = posted.as_mut() else {
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, era, "Internal server error");
        };
        let path = self.settings.auth.as_ref().map(|_| request.uri().path().to_owned());
        // A long call shall not keep the buffer that its request was read into.
        request.headers_mut().clear();
        *request.uri_mut() = http::Uri::default();
        let reply = std::future::poll_fn(|cx| posted.poll_reply(cx)).await;
        match reply {
            Reply::Json { status: 429, .. } => self.server.shed.add(Why::Busy),
            Reply::Json { status: 503, .. } => self.server.shed.add(Why::Sessions),
            _ => {}
        }
        let map = std::mem::take(request.headers_mut());
        self.respond(reply, path.as_deref(), map)
    }

    /// The response when too many calls are being answered.
    fn crowded(&self, era: Era) -> Response<Body> {
        self.server.shed.add(Why::InFlight);
        throttle::busy(era, "too many calls are being answered")
    }

    /// Hands a message to the front; `None` when what it names may be elsewhere and nobody was asked.
    fn posted(
        &self,
        map: &HeaderMap,
        mount: &Mount,
        era: Era,
        body: &Bytes,
        asked: Asked,
    ) -> Result<Option<Posted>, inbound::Repeated> {
        let headers = inbound::headers(map)?;
        let visitor = self.visitor();
        let arrival = Arrival { mount, visitor: &visitor };
        if asked == Asked::Nobody && !self.server.front.is_here(&headers, Some(arrival)) {
            return Ok(None);
        }
        let params = if era == Era::Modern { inbound::params(map) } else { Vec::new() };
        let request = lb_front::Request { mount: mount.clone(), visitor, headers };
        Ok(Some(self.server.front.post(request, params, body.clone())))
    }

    async fn bodiless(&self, request: &Request<Incoming>, record: &Record, mount: Mount, era: Era) -> Response<Body> {
        let here = match inbound::headers(request.headers()) {
            Ok(headers) => self.server.front.is_here(&headers, None),
            Err(repeated) => return repeated_header(repeated, era),
        };
        if !here && let Some(response) = Box::pin(self.elsewhere(request, &Bytes::new(), record, era, None)).await {
            return response;
        }
        self.bodiless_here(request, mount, era).await
    }

    async fn bodiless_here(&self, request: &Request<Incoming>, mount: Mount, era: Era) -> Response<Body> {
        let headers = match inbound::headers(request.headers()) {
            Ok(headers) => headers,
            Err(repeated) => return repeated_header(repeated, era),
        };
        let asked = lb_front::Request { mount, visitor: self.visitor(), headers };
        let reply = if *request.method() == Method::GET {
            self.server.front.get(&asked)
        } else {
            Box::pin(self.server.front.delete_kept(&asked)).await
        };
        self.respond(reply, Some(request.uri().path()), HeaderMap::new())
    }

    fn respond(&self, reply: Reply, path: Option<&str>, map: HeaderMap) -> Response<Body> {
        let challenge = path.and_then(|path| self.challenge(path, &reply));
        let mut response = response(reply, map, &self.server.phase, self.settings.retry_after);
        if let Some(challenge) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Where a request leads.
pub(crate) enum Route {
    Done(Response<Body>, Pages),
    /// To whoever gives tokens.
    Tokens,
    /// Past whoever asks for one.
    Guarded(Era),
    /// To what operators change.
    Order(Era),
    Post(Mount, Era),
    Bodiless(Mount, Era),
}

/// Who was asked where what a request names is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nobody,
    Everybody,
}

/// Whether web pages may read the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Allowed,
    Refused,
}

fn repeated_header(repeated: inbound::Repeated, era: Era) -> Response<Body> {
    refuse(StatusCode::BAD_REQUEST, era, &format!("Bad Request: {} must not be repeated", repeated.0))
}

/// The rest of the body is not read, so the connection cannot go on.
pub(crate) fn no_body(error: BodyError, era: Era) -> Response<Body> {
    let mut response = match error {
        BodyError::Large => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            era,
            "Payload Too Large: a body may have as many bytes as --max-body says, 4194304 if it says nothing",
        ),
        BodyError::Slow => refuse(StatusCode::REQUEST_TIMEOUT, era, "Request Timeout: the body took too long"),
        BodyError::Broken => refuse(StatusCode::BAD_REQUEST, era, "Bad Request: the body broke off"),
        BodyError::Crowded => throttle::busy(era, "too much of other requests has not come as a whole"),
    };
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(crate) fn not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, Era::Legacy, &format!("Method not allowed. Use {allow}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// Of a page, which speaks no JSON-RPC.
pub(crate) fn wrong_method(allow: &'static str) -> Response<Body> {
    let mut response = document(StatusCode::METHOD_NOT_ALLOWED, health::wrong_method(allow));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}
