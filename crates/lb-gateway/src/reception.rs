//! What a client of a surface of ours is told when it arrives, in both eras.

use std::sync::Arc;

use lb_exchange::{Call, Command, End, Exchange, Note, Outcome, Step};
use lb_wire::compose::Object;
use lb_wire::revision::Revision;
use lb_wire::{Id, Raw, Text, compose};

use crate::surface::{Introduction, Surface, Via};

const INFO: &str =
    concat!(r#"{"name":"landbridge","title":"landbridge","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
const INFO_WITHOUT_TITLE: &str = concat!(r#"{"name":"landbridge","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// The result of `initialize`.
pub fn greeting(introduction: &Introduction, revision: Revision) -> Raw {
    let info = if revision.titles() { INFO } else { INFO_WITHOUT_TITLE };
    Object::new()
        .text("protocolVersion", revision.as_str())
        .raw("capabilities", &introduction.capabilities)
        .raw("serverInfo", &Raw::from_static(info))
        .text("instructions", &introduction.instructions)
        .finish()
}

/// Opens a request, or answers it where it only introduces the client.
pub fn open(surface: &Arc<dyn Surface>, call: Call, who: Via) -> Exchange {
    match (call.message.method(), &who) {
        ("server/discover", Via::Modern(_)) => {
            Exchange::ready(End::ours(Outcome::Result(discovered(&surface.introduction()))))
        }
        ("subscriptions/listen", Via::Modern(_)) => listen(&call),
        _ => surface.open(who, call),
    }
}

/// The result of `server/discover`.
fn discovered(introduction: &Introduction) -> Raw {
    let meta = compose::object(&[(SERVER_INFO_KEY, &Raw::from_static(INFO))]);
    Object::new()
        .raw("supportedVersions", &Raw::value(&[Revision::LATEST_MODERN.as_str()]))
        .raw("capabilities", &introduction.capabilities)
        .text("instructions", &introduction.instructions)
        .raw("_meta", &meta)
        .finish()
}

/// Nothing of these surfaces ever changes: the listen is acknowledged and stays open.
fn listen(call: &Call) -> Exchange {
    let id = call.message.id().map_or_else(|| Raw::from_static("null"), Id::to_raw);
    Exchange::routine(move |out| async move {
        let meta = compose::object(&[(SUBSCRIPTION_KEY, &id)]);
        let params = compose::object(&[("notifications", &Raw::empty_object()), ("_meta", &meta)]);
        let method = Text::from_static("notifications/subscriptions/acknowledged");
        out.step(Step::Note(Note::new(method, Some(params)))).await;
        while !matches!(out.command().await, Command::Cancel(_)) {}
        End::ours(Outcome::Cancelled)
    })
}
