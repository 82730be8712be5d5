//! The middle: which server a request is for, which connection carries it, and who hears what no request asked for.
//!
//! Owns the registries of servers and sessions and the life of connections. Implements the port that fronts call;
//! knows neither HTTP nor stdio, and no revision beyond what joining two of them takes.

mod added;
mod cache;
mod census;
mod clock;
mod convert;
mod dismiss;
mod gateway;
mod keep;
mod link;
mod listen;
mod live;
mod login;
mod manage;
mod nodes;
mod pins;
mod pool;
mod reach;
mod reception;
mod registry;
mod reload;
mod seat;
mod share;
mod surface;
mod telemetry;
mod trace;
mod tracker;

pub use census::SessionView;
pub use gateway::{Clients, Gateway, Limits, Setup};
pub use keep::Keeping;
pub use lb_session::backend::Status as ServerStatus;
pub use live::{
    AddError, Added, AskMode, Backend, CallError, Calling, Commands, Facts, Known, Listing, Live, NoServer, Policy,
    ReconnectError, RemoveError, ServerView, Unavailable, error_code, hash,
};
pub use login::{LoginAnswer, login_question};
pub use manage::{DefineError, Defined, DefinedBy};
pub use nodes::{About, Host, LEASE, Membership, NodeInfo, NodeName, NodeStore};
pub use pins::Pin;
pub use reload::Change;
pub use surface::{Introduction, Need, Surface, Via};
pub use tracker::{Kind, Moment, ROWS_MAX, Row, SESSION_ROWS_MAX, Status, Tracked, Tracker, redacted_text, rfc3339};
