//! Who a session belongs to and where it leads: all that never changes of it.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Caller, Capabilities, Hello, Mount, Principal, ServerName, SessionId};
use lb_wire::compose::Object;
use lb_wire::revision::{Revision, method};
use lb_wire::{Id, Message, Raw, compose};

/// The shape of what is written. Another number is not read.
const VERSION: &str = "1";

/// What a session began with.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// How its client introduced itself.
    pub(crate) hello: Hello,
    /// When it began, since the Unix epoch.
    pub(crate) began: Duration,
    /// How modern clients name it, if it is the session of those that name none.
    pub(crate) handle: Option<SessionId>,
}

impl Head {
    /// As it is written.
    pub(crate) fn kept(&self) -> Raw {
        let caller = &self.hello.caller;
        let (mount, server) = match &self.hello.mount {
            Mount::Default => ("default", None),
            Mount::Tools => ("tools", None),
            Mount::Server(name) => ("server", Some(name.as_str())),
        };
        Object::new()
            .text("version", VERSION)
            .text("mount", mount)
            .maybe_text("server", server)
            .text("principal", caller.principal.as_str())
            .maybe_text("client", caller.client.as_deref())
            .maybe_text("family", caller.family.as_deref())
            .text("revision", caller.revision.as_str())
            .raw("capabilities", &caller.capabilities.0)
            .maybe("clientInfo", caller.client_info.as_ref())
            .maybe_text("handle", self.handle.as_ref().map(SessionId::as_str))
            .number("began", u64::try_from(self.began.as_millis()).unwrap_or(u64::MAX))
            .raw("hello", &self.hello.message.body().unwrap_or_else(Raw::empty_object))
            .finish()
    }

    /// The same session, used by another login.
    pub(crate) fn renewed(kept: &Raw, family: Arc<str>) -> Option<Raw> {
        let mut head = Self::read(kept)?;
        head.hello.caller.family = Some(family);
        Some(head.kept())
    }

    /// Reads what was written; `None` when that is none of ours.
    pub(crate) fn read(kept: &Raw) -> Option<Self> {
        let text = |name: &str| kept.member(name).and_then(|value| value.to_text().map(std::borrow::Cow::into_owned));
        if text("version")? != VERSION {
            return None;
        }
        let mount = match text("mount")?.as_str() {
            "default" => Mount::Default,
            "tools" => Mount::Tools,
            "server" => Mount::Server(ServerName::parse(&text("server")?).ok()?),
            _ => return None,
        };
        let caller = Caller {
            principal: Principal::named(&text("principal")?),
            client: text("client").map(Arc::from),
            family: text("family").map(Arc::from),
            revision: Revision::parse(text("revision")?.as_bytes())?,
            capabilities: Capabilities(kept.member("capabilities")?.detached()),
            client_info: kept.member("clientInfo").map(|info| info.detached()),
        };
        // Its id was answered long ago.
        let message = compose::request(&Id::number(0), method::INITIALIZE, Some(&kept.member("hello")?));
        let message = Message::scan(message.bytes().clone()).ok()?;
        let began = Duration::from_millis(kept.member("began")?.read().ok()?);
        let handle = text("handle").map(|handle| SessionId::from_client(&handle));
        Some(Self { hello: Hello { caller, mount, message }, began, handle })
    }
}
