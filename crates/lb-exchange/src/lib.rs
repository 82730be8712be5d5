//! The shared nouns: exchange, step, holder, feed, association, principal, capabilities, server specs, and the ports
//! between fronts and the middle.
//!
//! No IO happens here, and no protocol of either side is known: fronts and backends both speak in these terms, so
//! that any two of them can be joined.

mod associate;
mod bell;
mod call;
mod desk;
mod exchange;
mod feed;
mod holder;
mod login;
mod measure;
mod middle;
mod principal;
mod reach;
mod server;
mod shelf;
mod step;
mod stray;
mod streams;
mod tasks;
mod visitor;

pub use associate::{Associated, Audience, Hints, InFlight, Unnamed, Whence, associate};
pub use bell::Bell;
pub use call::{Call, Caller, Capabilities, Hello, Mount, ParamHeaders, Trace};
pub use desk::{Busy, Desk};
pub use exchange::{Driver, Exchange, Remote, Yield};
pub use feed::{Feed, FeedItem, List, Output};
pub use holder::{Front, Happened, Holder, Loss};
pub use login::{Login, LoginError, LoginNeeded, Logins, OauthClient, Proof, Refused, ServerAuth};
pub use middle::{BoxFuture, Middle, Place, Refusal, Seat, SessionId, Unseated, Welcome};
pub use principal::Principal;
pub use reach::Bounds;
pub use server::{
    Isolation, NameError, Restart, Secret, ServerName, ServerSpec, Target, Transport, UrlError, check_url,
};
pub use shelf::Shelf;
pub use step::{Answer, Ask, AskKey, AskKind, Cancel, Command, End, ErrorBody, Note, Outcome, Receipt, Resume, Step};
pub use stray::{OpenAsks, Stray};
pub use streams::{EventId, ResumeError, Stored, StreamId, Streams, Tail};
pub use tasks::Tasks;
pub use visitor::{Aim, Families, Rights, Verdict, Visitor, audit, brief};
