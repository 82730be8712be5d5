//! What we say of ourselves to servers of a session, and what a server that wants more input is answered with.

use std::sync::Arc;

use lb_exchange::{Answer, Ask, AskKey, AskKind, Caller, Capabilities, Outcome, Principal, Resume};
use lb_wire::compose::Object;
use lb_wire::revision::{Era, Revision};
use lb_wire::{Raw, Text, compose, splice};

use super::lists::objects;
use crate::login::is_accepted;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// A server that needs a URL to be opened first says so with this error.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// What we can do for servers: the client or its model answers.
const CAPABILITIES: &str = r#"{"sampling":{},"elicitation":{"form":{},"url":{}}}"#;
const INFO: &str = concat!(r#"{"name":"landbridge","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Ourselves as a client, in both eras.
#[derive(Debug)]
pub struct Ourselves {
    legacy: Arc<Caller>,
    modern: Arc<Caller>,
    /// The era in which servers that speak both are spoken to.
    pub era: Era,
    /// Whether servers may ask for anything.
    pub asks: bool,
}

impl Ourselves {
    /// For a session of this era. Without `asks`, servers are told not to ask for anything.
    pub fn new(principal: &Principal, era: Era, asks: bool) -> Self {
        let caller = |revision| {
            let capabilities = Capabilities(capabilities(asks));
            let client_info = Some(Raw::from_static(INFO));
            let (principal, client, family) = (principal.clone(), None, None);
            Arc::new(Caller { principal, client, family, revision, capabilities, client_info })
        };
        Self { legacy: caller(Revision::LATEST_LEGACY), modern: caller(Revision::LATEST_MODERN), era, asks }
    }

    /// Whose sessions it is for.
    pub fn principal(&self) -> &Principal {
        &self.legacy.principal
    }

    /// As a client of this era.
    pub fn speaking(&self, era: Era) -> Arc<Caller> {
        match era {
            Era::Legacy => self.legacy.clone(),
            Era::Modern => self.modern.clone(),
        }
    }

    /// The params of `initialize`.
    pub fn hello(&self) -> Raw {
        let version = Raw::string(Revision::LATEST_LEGACY.as_str());
        let info = Raw::from_static(INFO);
        let capabilities = capabilities(self.asks);
        compose::object(&[("protocolVersion", &version), ("capabilities", &capabilities), ("clientInfo", &info)])
    }

    /// The `_meta` of a request.
    pub fn meta(&self, era: Era, token: Option<&Raw>, log_level: Option<&str>) -> Option<Raw> {
        let token = |meta: Object| meta.maybe("progressToken", token);
        match era {
            Era::Legacy => Some(token(Object::new())).filter(|meta| !meta.is_empty()).map(Object::finish),
            Era::Modern => {
                let meta = Object::new()
                    .text(VERSION_KEY, Revision::LATEST_MODERN.as_str())
                    .raw(CAPABILITIES_KEY, &capabilities(self.asks))
                    .raw(CLIENT_INFO_KEY, &Raw::from_static(INFO))
                    .maybe_text(LOG_LEVEL_KEY, log_level);
                Some(token(meta).finish())
            }
        }
    }
}

fn capabilities(asks: bool) -> Raw {
    if asks { Raw::from_static(CAPABILITIES) } else { Raw::empty_object() }
}

/// What a server needs before it goes on: nothing is held, the request is sent again.
#[derive(Debug)]
pub struct Need {
    /// What it asks.
    pub asks: Vec<Ask>,
    /// Its own state, to be sent along.
    state: Option<Raw>,
    /// Whether the answers go along; a URL that was opened is enough by itself.
    responses: bool,
    /// Whether we ask, and not the server.
    pub(super) is_ours: bool,
}

impl Need {
    /// What this end asks for; `None` for a real one.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Result(result) => {
                let kind = result.member("resultType");
                if kind.as_ref().and_then(Raw::plain_str) != Some("input_required") {
                    return None;
                }
                let mut asks: Vec<Ask> = Vec::new();
                for ask in lb_backend::input_requests(result) {
                    // Two of one name could never both be answered.
                    if !asks.iter().any(|known| known.key == ask.key) {
                        asks.push(ask);
                    }
                }
                Some(Self { asks, state: result.member("requestState"), responses: true, is_ours: false })
            }
            Outcome::Error(error) if error.code == URL_ELICITATION_REQUIRED => {
                let listed = error.raw.member("data").and_then(|data| data.member("elicitations"))?;
                let ask = |(n, params): (usize, Raw)| Ask {
                    key: AskKey(Text::from(&*format!("url-{n}"))),
                    kind: AskKind::Elicitation,
                    method: Text::from_static("elicitation/create"),
                    params: Some(params),
                    resume: Resume::Live,
                };
                let asks: Vec<_> = objects(&listed).into_iter().take(ASKS_MAX).enumerate().map(ask).collect();
                (!asks.is_empty()).then_some(Self { asks, state: None, responses: false, is_ours: false })
            }
            Outcome::Error(_) | Outcome::Cancelled => None,
        }
    }

    /// A link that must be opened first.
    pub(super) fn of_link(ask: Ask) -> Self {
        Self { asks: vec![ask], state: None, responses: false, is_ours: true }
    }

    /// The params of the request, with the answers. `None` when the server cannot be told: it has no word for a failure.
    pub fn answered(&self, params: &Raw, answers: &[(AskKey, Answer)]) -> Option<Raw> {
        let mut responses = Object::new();
        for (key, answer) in answers {
            match answer {
                Answer::Result(result) if self.responses || is_accepted(result) => {
                    // Keys are the server's own words, which may need escapes.
                    let name = Raw::string(&key.0);
                    let name = name.as_str().strip_prefix('"').and_then(|name| name.strip_suffix('"'))?;
                    responses = responses.raw(name, result);
                }
                Answer::Result(_) | Answer::Error(_) => return None,
            }
        }
        if !self.responses {
            return Some(params.clone());
        }
        let plain = splice::without(params, &["inputResponses", "requestState"]);
        let mut more = vec![("inputResponses", responses.finish())];
        more.extend(self.state.clone().map(|state| ("requestState", state)));
        Some(splice::with(&plain, &more))
    }
}

/// Asks that one error may hold.
const ASKS_MAX: usize = 16;
