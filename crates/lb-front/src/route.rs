//! The first step of a request: whether it is served here.
//!
//! Only what a request names decides, and only where that lives on one node. Everything else is served where it lands.

use std::borrow::Cow;

use lb_exchange::{BoxFuture, Mount, Place, Unseated, Visitor};
use lb_wire::header;
use lb_wire::revision::Era;

use crate::era::era_without_body;
use crate::front::{Front, Headers};

/// The method whose requests may need a session in either era.
const TOOLS_CALL: &[u8] = b"tools/call";

/// What a request names that lives on one node.
#[derive(Clone, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Nothing: any node will do.
    Nothing,
    /// A session, by its id.
    Session(&'a str),
    /// What a modern call of this tool needs, which depends on where it came in and who is calling.
    Tool(Cow<'a, str>),
}

/// Where a POST came in, and who is calling.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Where.
    pub mount: &'a Mount,
    /// Who.
    pub visitor: &'a Visitor,
}

impl<'a> Wanted<'a> {
    /// What these headers name. A body may still say that the request is a modern one, which needs no session: the
    /// node that has the session serves it just as well.
    pub fn by(headers: &Headers<'a>) -> Self {
        if era_without_body(headers) == Era::Modern {
            return Self::by_tool(headers);
        }
        let Some(session) = headers.session else { return Self::Nothing };
        // What is no text is no id of ours.
        std::str::from_utf8(session).map_or(Self::Nothing, Self::Session)
    }

    /// What a modern request names. Its headers must say what its body says, or it is refused wherever it is.
    fn by_tool(headers: &Headers<'a>) -> Self {
        if headers.method.map(<[u8]>::trim_ascii) != Some(TOOLS_CALL) {
            return Self::Nothing;
        }
        headers.name.and_then(|name| header::decode(name).ok()).map_or(Self::Nothing, Self::Tool)
    }
}

/// Session ids are secrets.
impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Session(_) => "Session(***)",
            Self::Tool(name) => return write!(f, "Tool({name:?})"),
        })
    }
}

/// Where a request goes.
pub enum Route<'a> {
    /// It is served here.
    Here,
    /// Somebody must be asked; what is asked for may come to be here by that.
    Ask(BoxFuture<'a, Place>),
}

impl Front {
    /// Whether what these headers name is known to be here. Without an arrival for requests that have no body.
    pub fn is_here(&self, headers: &Headers<'_>, arrival: Option<Arrival<'_>>) -> bool {
        match (Wanted::by(headers), arrival) {
            (Wanted::Nothing, _) | (Wanted::Tool(_), None) => true,
            (Wanted::Session(id), _) => self.shared.middle.is_here(id),
            (Wanted::Tool(tool), Some(arrival)) => self.shared.middle.is_unseated_here(&arrival.calls(&tool)),
        }
    }

    /// Where a request with these headers goes. At once, and without an allocation, where what it names is known to be
    /// here.
    pub fn route<'a>(&'a self, headers: &Headers<'a>, arrival: Option<Arrival<'a>>) -> Route<'a> {
        match (Wanted::by(headers), arrival) {
            (Wanted::Nothing, _) | (Wanted::Tool(_), None) => Route::Here,
            (Wanted::Session(id), _) if self.shared.middle.is_here(id) => Route::Here,
            (Wanted::Session(id), _) => Route::Ask(self.shared.middle.locate(id)),
            (Wanted::Tool(tool), Some(arrival)) if self.shared.middle.is_unseated_here(&arrival.calls(&tool)) => {
                Route::Here
            }
            (Wanted::Tool(tool), Some(arrival)) => {
                Route::Ask(Box::pin(async move { self.shared.middle.locate_unseated(arrival.calls(&tool)).await }))
            }
        }
    }
}

impl<'a> Arrival<'a> {
    fn calls(self, tool: &'a str) -> Unseated<'a> {
        Unseated { mount: self.mount, who: self.visitor, tool }
    }
}

impl std::fmt::Debug for Route<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Here => "Here",
            Self::Ask(_) => "Ask",
        })
    }
}
