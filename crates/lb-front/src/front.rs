//! The front itself: takes requests of any era and hands them on.

use std::sync::Arc;

use bytes::Bytes;
use lb_exchange::{Middle, Mount, ParamHeaders, Seat, Trace, Visitor};
use lb_wire::revision::{Era, code};
use lb_wire::{Message, MessageError};

use crate::accept::Accept;
use crate::alarm::Alarms;
use crate::era::{era_of, era_of_header, era_without_body};
use crate::open::Posted;
use crate::registry::Shared;
use crate::reply::Reply;
use crate::settings::Settings;

/// The protocol towards clients.
#[derive(Clone)]
pub struct Front {
    pub(crate) shared: Arc<Shared>,
}

/// What a transport knows of a request before its body.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Where it came in.
    pub mount: Mount,
    /// Who is calling.
    pub visitor: Visitor,
    /// The headers that matter to the protocol.
    pub headers: Headers<'a>,
}

/// The headers of a request that matter to the protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    /// `MCP-Protocol-Version`
    pub version: Option<&'a [u8]>,
    /// `Mcp-Session-Id`
    pub session: Option<&'a [u8]>,
    /// `Mcp-Method`
    pub method: Option<&'a [u8]>,
    /// `Mcp-Name`
    pub name: Option<&'a [u8]>,
    /// `Last-Event-ID`
    pub last_event_id: Option<&'a [u8]>,
    /// `Accept`
    pub accept: Accept,
    /// `traceparent`
    pub traceparent: Option<&'a [u8]>,
    /// `tracestate`
    pub tracestate: Option<&'a [u8]>,
}

impl Headers<'_> {
    /// The trace that they name.
    pub(crate) fn trace(&self) -> Option<Box<Trace>> {
        Trace::read(self.traceparent?, self.tracestate)
    }
}

impl Front {
    /// A front for this middle.
    pub fn new(middle: Arc<dyn Middle>, settings: Settings) -> Self {
        let (listeners, returns, traffic) = Default::default();
        Self { shared: Arc::new(Shared { middle, settings, listeners, returns, alarms: Alarms::default(), traffic }) }
    }

    /// How many calls run.
    pub fn running(&self) -> usize {
        self.shared.traffic.running()
    }

    /// Ends all calls: whoever polls a reply from now on finds an error where it would wait.
    pub fn end_calls(&self) {
        self.shared.traffic.end();
    }

    /// Whether a path leads anywhere.
    pub fn has(&self, mount: &Mount) -> bool {
        self.shared.middle.has(mount)
    }

    /// Whether it leads somewhere for this one.
    pub fn serves(&self, mount: &Mount, who: &Visitor) -> bool {
        self.shared.middle.serves(mount, who)
    }

    /// The servers that somebody can name in a path.
    pub fn servers(&self, who: &Visitor) -> Vec<String> {
        self.shared.middle.servers(who)
    }

    /// Takes a POST. Nothing of the request is needed any more when it is taken.
    pub fn post(&self, request: Request<'_>, params: ParamHeaders, body: Bytes) -> Posted {
        let headers = &request.headers;
        if headers.accept == Accept::Neither {
            let era = era_of_header(headers.version);
            let code = if era == Era::Legacy { code::SERVER_ERROR } else { code::INVALID_REQUEST };
            let message = "Not Acceptable: the client must accept application/json or text/event-stream";
            return Reply::refuse(era, None, 406, code, message).into();
        }
        let message = match Message::scan(body.clone()) {
            Ok(message) => message,
            Err(error) => return self.no_message(&request, &body, &error),
        };
        match era_of(headers.version, headers.session, &message) {
            Era::Legacy => self.legacy_post(&request, message),
            Era::Modern => self.modern_post(request, params, message),
        }
    }

    /// Answers a GET.
    pub fn get(&self, request: &Request<'_>) -> Reply {
        match era_without_body(&request.headers) {
            Era::Legacy => self.legacy_get(request),
            Era::Modern => not_allowed(),
        }
    }

    /// Answers a DELETE: ends a legacy session.
    pub fn delete(&self, request: &Request<'_>) -> Reply {
        self.ended(request).map_or_else(|reply| reply, |_| Reply::Empty { status: 200 })
    }

    /// The same, and waits, within reason, until the session is gone from wherever it is kept.
    ///
    /// Cancel safe: yes, the session has ended all the same.
    pub async fn delete_kept(&self, request: &Request<'_>) -> Reply {
        match self.ended(request) {
            Ok(seat) => {
                seat.ended().await;
                Reply::Empty { status: 200 }
            }
            Err(reply) => reply,
        }
    }

    fn ended(&self, request: &Request<'_>) -> Result<Arc<dyn Seat>, Reply> {
        match era_without_body(&request.headers) {
            Era::Legacy => self.legacy_delete(request),
            Era::Modern => Err(not_allowed()),
        }
    }

    /// A body that is no single message: a batch, or an error.
    fn no_message(&self, request: &Request<'_>, body: &Bytes, error: &MessageError) -> Posted {
        let era = era_of_header(request.headers.version);
        match error {
            MessageError::Scan(error) => {
                Reply::refuse(era, None, 400, code::PARSE_ERROR, &format!("Parse error: {error}")).into()
            }
            MessageError::Shape { why, id } => {
                if era == Era::Legacy
                    && let Ok(Some(members)) = Message::batch(body)
                {
                    return self.legacy_batch(request, members);
                }
                Reply::refuse(era, id.as_ref(), 400, code::INVALID_REQUEST, &format!("Invalid Request: {why}")).into()
            }
        }
    }
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Front")
    }
}

/// Modern clients only POST.
fn not_allowed() -> Reply {
    let message = "Method not allowed: this revision of the protocol uses POST only";
    Reply::NotAllowed { allow: "POST", body: crate::reply::error_body(Era::Modern, code::INVALID_REQUEST, message) }
}
