//! One call of a tool of ours, and the session it belongs to.

use std::sync::Arc;

use lb_exchange::{Aim, Caller, Rights, Verdict, audit};
use lb_gateway::{Backend, Live, LoginAnswer, Via};
use lb_session::{Moment, OURSELVES};
use lb_wire::Raw;
use lb_wire::revision::{Era, Revision};

use crate::args::{Args, Checked};
use crate::asked::AskedBy;
use crate::catalog::Tool;
use crate::failure::{self, Failure};

/// A call, with everything that its tool may need.
pub(crate) struct Request {
    pub(crate) seen: Seen,
    pub(crate) args: Args,
    /// Under which the client wants to hear of progress.
    pub(crate) token: Option<Raw>,
    /// Which task asked what, in all sessions.
    pub(crate) asked: Arc<AskedBy>,
    /// What the client says that was asked for a login before.
    pub(crate) login: Option<LoginAnswer>,
}

/// Who asked for what: all that it takes to word the answer.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) tool: &'static Tool,
    pub(crate) live: Arc<Live>,
    pub(crate) caller: Arc<Caller>,
    /// Whether the session is this client's alone: that of its seat, or one that it named. Others share an inbox, and
    /// nobody may take what may be meant for another without asking for it.
    pub(crate) own: bool,
    /// What this call may do; `None` where everything is allowed.
    pub(crate) rights: Option<Arc<dyn Rights>>,
}

impl Request {
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.seen.live
    }

    pub(crate) fn now(&self) -> Moment {
        self.seen.live.now()
    }

    /// The server that the argument `name` names, if it may be asked for this.
    pub(crate) fn backend(&self, name: &str, method: &str) -> Checked<Arc<Backend>> {
        let server = self.args.text(name)?;
        self.backend_of(&server, method, None)
    }

    /// The server of this name, if it may be asked for this.
    pub(crate) fn backend_of(&self, server: &str, method: &str, tool: Option<&str>) -> Checked<Arc<Backend>> {
        // First: what may not be known of is not there.
        let backend = self.live().backend(server).map_err(|error| Failure::no_server(&error))?;
        self.allows(method, server, tool)?;
        Ok(backend)
    }

    /// Whether a server may be asked for this.
    pub(crate) fn allows(&self, method: &str, server: &str, tool: Option<&str>) -> Checked<()> {
        let Some(rights) = &self.seen.rights else { return Ok(()) };
        let (caller, aim) = (&self.seen.caller, Aim::Server { server, tool });
        let verdict = rights.decide(method, aim);
        audit(&caller.principal, caller.client.as_deref(), method, aim, &verdict);
        match verdict {
            Verdict::Allow => Ok(()),
            Verdict::Deny => Err(Failure::denied(server, tool)),
            Verdict::StepUp(scopes) => Err(Failure::lacks_scope(server, &scopes)),
        }
    }

    /// Whether a server may be known of, and what is remembered of it.
    pub(crate) fn knows(&self, server: &str) -> bool {
        self.seen.knows(server)
    }

    /// Whether a tool of a server may be known of.
    pub(crate) fn shows(&self, server: &str, tool: &str) -> bool {
        let aim = Aim::Server { server, tool: Some(tool) };
        self.seen.rights.as_ref().is_none_or(|rights| rights.decide("tools/call", aim) != Verdict::Deny)
    }
}

impl Seen {
    pub(crate) fn revision(&self) -> Revision {
        self.caller.revision
    }

    /// Whether a server may be known of, and what is remembered of it: a session may have been used with more rights
    /// than this call has.
    pub(crate) fn knows(&self, server: &str) -> bool {
        let Some(rights) = &self.rights else { return true };
        server == OURSELVES || rights.decide("tools/list", Aim::Server { server, tool: None }) == Verdict::Allow
    }

    /// Whether the client has to pass a session on by itself.
    pub(crate) fn is_modern(&self) -> bool {
        self.caller.era() == Era::Modern
    }
}

/// The session of a call, and whether it is the client's own: that of the seat, the one that is named, or else the
/// default one.
pub(crate) fn session(who: Via, caller: &Arc<Caller>, args: &Args) -> Checked<(Arc<Live>, bool)> {
    let gateway = match who {
        // A session that is named must be this one.
        Via::Seated(live) => match args.maybe_text("session")? {
            Some(handle) if handle != live.handle() => return Err(no_session()),
            _ => return Ok((live, true)),
        },
        Via::Modern(gateway) => gateway,
    };
    let (live, own) = match args.maybe_text("session")? {
        Some(handle) => (gateway.session(&handle, caller).ok_or_else(no_session)?, true),
        None => (gateway.default_session(caller), false),
    };
    // A seat is touched where it is found.
    live.touch();
    Ok((live, own))
}

fn no_session() -> Failure {
    let message = "Session not found: it has ended or never was; leave 'session' out to use the default one";
    Failure::new(failure::SESSION_NOT_FOUND, message)
}
