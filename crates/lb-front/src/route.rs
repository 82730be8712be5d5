//! The first step of a request: whether it is served here.
//!
//! Only what a request names decides, and only where that lives on one node. Everything else is served where it lands.

use lb_exchange::{BoxFuture, Place};
use lb_wire::revision::Era;

use crate::era::era_without_body;
use crate::front::{Front, Headers};

/// What a request names that lives on one node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Nothing: any node will do.
    Nothing,
    /// A session, by its id.
    Session(&'a str),
}

impl<'a> Wanted<'a> {
    /// What these headers name. A body may still say that the request is a modern one, which needs no session: the
    /// node that has the session serves it just as well.
    pub fn by(headers: &Headers<'a>) -> Self {
        let Some(session) = headers.session else { return Self::Nothing };
        if era_without_body(headers) == Era::Modern {
            return Self::Nothing;
        }
        // What is no text is no id of ours.
        std::str::from_utf8(session).map_or(Self::Nothing, Self::Session)
    }
}

/// Session ids are secrets.
impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Session(_) => "Session(***)",
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
    /// Whether what these headers name is known to be here.
    pub fn is_here(&self, headers: &Headers<'_>) -> bool {
        match Wanted::by(headers) {
            Wanted::Nothing => true,
            Wanted::Session(id) => self.shared.middle.is_here(id),
        }
    }

    /// Where a request with these headers goes. At once, and without an allocation, where what it names is known to be
    /// here.
    pub fn route<'a>(&'a self, headers: &Headers<'a>) -> Route<'a> {
        match Wanted::by(headers) {
            Wanted::Nothing => Route::Here,
            Wanted::Session(id) if self.shared.middle.is_here(id) => Route::Here,
            Wanted::Session(id) => Route::Ask(self.shared.middle.locate(id)),
        }
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
