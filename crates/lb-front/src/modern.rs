//! The contract of 2026-07-28: every request speaks for itself.

use std::sync::Arc;

use lb_exchange::{Busy, Call, Caller, Capabilities, ParamHeaders, Visitor};
use lb_wire::revision::method::{self, MethodFacts, Modern};
use lb_wire::revision::{Era, Revision, code};
use lb_wire::{Id, Kind, Message, Raw, Shape, compose, header};

use crate::calls::Calls;
use crate::era::{META_CAPABILITIES, META_CLIENT, META_VERSION};
use crate::front::{Front, Headers, Request};
use crate::legacy::overloaded;
use crate::open::{Open, Posted};
use crate::reply::{Reply, error_message, revisions};
use crate::running::{Client, Running};
use crate::shown::Hiding;

impl Front {
    pub(crate) fn modern_post(&self, request: Request<'_>, params: ParamHeaders, message: Message) -> Posted {
        let id = match (message.shape(), message.id()) {
            (Shape::Request, Some(id)) => id.clone(),
            // No notification means anything here: closing the stream is what cancels.
            (Shape::Notification | Shape::Request, _) => return Reply::accepted().into(),
            (Shape::Result | Shape::Error, id) => {
                let message = "Invalid Request: clients of this revision send no responses";
                return Reply::refuse(Era::Modern, id, 400, code::INVALID_REQUEST, message).into();
            }
        };
        let facts = method::facts(message.method().as_bytes());
        let accept = request.headers.accept;
        let checked = check(Some(&request.headers), facts, &message, &request.visitor);
        let caller = match checked {
            Ok(caller) => caller,
            Err(fault) => return Reply::json(fault.status, &fault.answer(&id)).into(),
        };
        if let Err(forbidden) = self.allows(&request.mount, &request.visitor, &message) {
            return forbidden.reply(Era::Modern, Some(&id)).into();
        }
        let listens = message.method() == method::SUBSCRIPTIONS_LISTEN;
        let client = Client::Modern(None);
        let (mount, trace, rights) = (request.mount, request.headers.trace(), request.visitor.rights);
        let call = Call { caller: Arc::new(caller), mount, message, headers: Some(params), trace, rights };
        let running = match self.modern_call(&id, call, client.clone()) {
            Ok(running) => running,
            Err(answer) => return Reply::json(400, &answer).into(),
        };
        let open = Open::new(&self.shared, client, Calls::one(running), accept);
        if listens { open.eagerly() } else { open }.into()
    }

    /// Opens a checked request.
    pub(crate) fn modern_call(&self, id: &Id, call: Call, client: Client) -> Result<Running, Raw> {
        let method = call.message.method_text();
        // First: what is opened may be with its server already.
        let free = client.desk().map_or(Ok(()), |desk| desk.reserve(id.clone()));
        let started = free.map(|()| {
            let hides = self.hides(&call);
            let exchange = Hiding::of(hides, self.shared.middle.open(call));
            Running::start(id.clone(), &method, exchange, client, &self.shared)
        });
        started.map_err(|busy| {
            let code = if busy == Busy::Calls { code::INTERNAL_ERROR } else { code::INVALID_REQUEST };
            error_message(Era::Modern, Some(id), code, &busy.to_string(), overloaded(busy).as_ref())
        })
    }
}

/// What is wrong with a request.
pub(crate) struct Fault {
    pub(crate) status: u16,
    code: i64,
    message: &'static str,
    data: Option<Raw>,
}

impl Fault {
    fn new(code: i64, message: &'static str) -> Self {
        Self { status: code::modern_status(code), code, message, data: None }
    }

    /// The response that says so.
    pub(crate) fn answer(&self, id: &Id) -> Raw {
        error_message(Era::Modern, Some(id), self.code, self.message, self.data.as_ref())
    }
}

/// Checks a request in the order that clients rely on, and tells who calls. Without headers for transports that have
/// none.
pub(crate) fn check(
    headers: Option<&Headers<'_>>,
    facts: Option<&MethodFacts>,
    message: &Message,
    who: &Visitor,
) -> Result<Caller, Fault> {
    if message.method() == method::INITIALIZE {
        return Err(removed());
    }
    let named = headers.and_then(|headers| headers.version).filter(|named| Revision::parse(named).is_none());
    let (version, capabilities) = required_meta(message).map_err(|fault| match named {
        // What is missing in the body matters less than that no revision of this name is known.
        Some(named) if message.meta(META_VERSION).is_none() => unknown(named, fault),
        _ => fault,
    })?;
    let version = version.to_text().unwrap_or_default();
    if let Some(headers) = headers
        && headers.version != Some(version.as_bytes())
    {
        return Err(Fault::new(code::HEADER_MISMATCH, "MCP-Protocol-Version must repeat the version in _meta"));
    }
    let revision = match Revision::parse(version.as_bytes()) {
        Some(revision) if revision.era() == Era::Modern => revision,
        _ => return Err(unsupported(&version)),
    };
    if let Some(headers) = headers {
        check_mirrors(headers, facts, message)?;
    }
    if facts.is_some_and(|facts| matches!(facts.modern, Modern::Removed | Modern::Input | Modern::Notification)) {
        return Err(removed());
    }
    let client_info = message.meta(META_CLIENT).filter(|raw| raw.kind() == Kind::Object);
    let (principal, client, family) = (who.principal.clone(), who.client.clone(), who.family.clone());
    Ok(Caller { principal, client, family, revision, capabilities, client_info })
}

fn required_meta(message: &Message) -> Result<(Raw, Capabilities), Fault> {
    let missing = |what| Fault { status: code::META_INVALID_STATUS, ..Fault::new(code::INVALID_PARAMS, what) };
    let version = message.meta(META_VERSION).filter(|raw| raw.kind() == Kind::String).ok_or_else(|| {
        missing("Invalid params: _meta must name its version in io.modelcontextprotocol/protocolVersion")
    })?;
    let capabilities = message.meta(META_CAPABILITIES).filter(|raw| raw.kind() == Kind::Object).ok_or_else(|| {
        missing("Invalid params: _meta must hold an object io.modelcontextprotocol/clientCapabilities")
    })?;
    Ok((version, Capabilities(capabilities)))
}

/// `Mcp-Method` and `Mcp-Name` must say what the body says.
fn check_mirrors(headers: &Headers<'_>, facts: Option<&MethodFacts>, message: &Message) -> Result<(), Fault> {
    let method = headers.method.map(<[u8]>::trim_ascii);
    if method != Some(message.method().as_bytes()) {
        return Err(Fault::new(code::HEADER_MISMATCH, "Mcp-Method must repeat the method of the body"));
    }
    let Some(mirror) = facts.and_then(|facts| facts.mirror) else { return Ok(()) };
    let same = match (headers.name, message.member_bytes(mirror.key())) {
        (Some(name), Some(value)) => header::matches(name, value),
        (None, None) => true,
        _ => false,
    };
    if same {
        return Ok(());
    }
    Err(Fault::new(code::HEADER_MISMATCH, "Mcp-Name must repeat the name, uri or taskId of the body"))
}

fn removed() -> Fault {
    let data = compose::object(&[("supported", &revisions(Era::Modern))]);
    Fault {
        data: Some(data),
        ..Fault::new(code::METHOD_NOT_FOUND, "Method not found in this revision of the protocol")
    }
}

/// A version that is none, in a request that does not even name it in its body: the code is that of the body.
fn unknown(named: &[u8], fault: Fault) -> Fault {
    let supported: Vec<_> = Revision::ALL.iter().map(|revision| revision.as_str()).collect();
    let (supported, requested) = (Raw::value(&supported), Raw::string(&String::from_utf8_lossy(named)));
    let data = compose::object(&[("supported", &supported), ("requested", &requested)]);
    let message = "Invalid params: MCP-Protocol-Version names an unsupported protocol version; see `supported`, or call \
                   initialize first";
    Fault { message, data: Some(data), ..fault }
}

fn unsupported(version: &str) -> Fault {
    let requested = Raw::string(version);
    let data = compose::object(&[("supported", &revisions(Era::Modern)), ("requested", &requested)]);
    Fault { data: Some(data), ..Fault::new(code::UNSUPPORTED_VERSION, "Unsupported protocol version") }
}
