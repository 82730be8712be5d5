//! `initialize`: a client introduces itself and is seated.

use lb_exchange::{Caller, Capabilities, Hello, Mount, Refusal, Visitor, Welcome};
use lb_wire::revision::{Era, Revision, code};
use lb_wire::{Id, Kind, Message, Raw, compose};

use crate::accept::Accept;
use crate::front::{Front, Request};
use crate::open::Posted;
use crate::reply::{Frames, Reply, Source};

impl Front {
    pub(super) fn initialize(&self, request: &Request<'_>, message: Message) -> Posted {
        let Some(id) = message.id().cloned() else { return Reply::accepted().into() };
        let live = request.headers.session.and_then(|session| {
            let session = std::str::from_utf8(session).ok()?;
            self.shared.middle.seat(session, &request.mount, &request.visitor)
        });
        if live.is_some() {
            let message = "Invalid Request: this session is already initialized";
            return Reply::refuse(Era::Legacy, Some(&id), 400, code::INVALID_REQUEST, message).into();
        }
        if let Err(forbidden) = self.allows(&request.mount, &request.visitor, &message) {
            return forbidden.reply(Era::Legacy, Some(&id)).into();
        }
        let hello = match hello(&request.visitor, request.mount.clone(), message) {
            Ok(hello) => hello,
            Err(why) => return Reply::refuse(Era::Legacy, Some(&id), 400, code::INVALID_PARAMS, why).into(),
        };
        let (front, accept) = (self.clone(), request.headers.accept);
        Posted::later(async move {
            match front.begin(hello).await {
                Ok(welcome) => welcomed(&id, welcome, accept),
                Err(refusal) => {
                    let status = if refusal.busy { 503 } else { 200 };
                    Reply::json(status, &compose::error(&id, &refusal.error.raw))
                }
            }
        })
    }

    /// Seats a client, or gives up after a while.
    pub(crate) async fn begin(&self, hello: Hello) -> Result<Welcome, Refusal> {
        let limit = self.shared.settings.initialize_max;
        match tokio::time::timeout(limit, self.shared.middle.begin(hello)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let data = Raw::from_static(r#"{"reason":"timeout"}"#);
                let message = "the server took too long to initialize";
                let error = lb_exchange::ErrorBody::new(code::INTERNAL_ERROR, message, Some(&data));
                Err(Refusal { error, busy: false })
            }
        }
    }
}

/// What a client says about itself.
pub(crate) fn hello(who: &Visitor, mount: Mount, message: Message) -> Result<Hello, &'static str> {
    let version = message.member("protocolVersion");
    let Some(version) = version.as_ref().and_then(Raw::to_text) else {
        return Err("Invalid params: initialize needs a protocolVersion");
    };
    // The session keeps it.
    let object = |name| message.member(name).filter(|raw| raw.kind() == Kind::Object).map(|raw| raw.detached());
    let caller = Caller {
        principal: who.principal.clone(),
        client: who.client.clone(),
        family: who.family.clone(),
        revision: Revision::negotiate_legacy(&version),
        capabilities: object("capabilities").map_or_else(Capabilities::none, Capabilities),
        client_info: object("clientInfo"),
    };
    Ok(Hello { caller, mount, message })
}

fn welcomed(id: &Id, welcome: Welcome, accept: Accept) -> Reply {
    let session = Some(welcome.seat.id().clone());
    let answer = compose::result(id, &welcome.result);
    if accept == Accept::Stream {
        let frames = Frames::new(Source::Once(Some(answer.into_line())));
        return Reply::Stream { frames, session };
    }
    Reply::Json { status: 200, body: answer.bytes().clone(), session, receipt: None }
}
