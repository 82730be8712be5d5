//! Trace context of requests: where it is found, what spans are made of it, and how it is passed on.
//!
//! Only where spans are exported is anything here done to a request; otherwise what it says of traces passes untouched.

use lb_exchange::{Call, Trace};
use lb_telemetry::{Attribute, Context, Role, Span, Tracer};
use lb_wire::revision::method;
use lb_wire::{Message, Raw, compose, splice};
use std::sync::Arc;

/// How `_meta` names the span that a request came from.
pub const TRACEPARENT: &str = "traceparent";
/// How `_meta` names what tracing systems keep with it.
pub const TRACESTATE: &str = "tracestate";
/// How much of a name that others chose is kept.
const NAME_MAX: usize = 128;

/// The span of a request that was received.
pub fn received(tracer: &Arc<Tracer>, message: &Message, trace: Option<&Trace>) -> Span {
    let within = message.meta(TRACEPARENT).and_then(|raw| Context::parse(raw.plain_str()?.as_bytes()));
    let state = match (within, trace) {
        (Some(_), _) => said_state(message),
        (None, Some(trace)) => trace.state.as_deref().map(str::to_owned),
        (None, None) => None,
    };
    let parent = within.or_else(|| trace.map(|trace| trace.parent));
    let name = message.member("name");
    let span = tracer.start(Role::Server, span_name(message.method(), name.as_ref()), parent);
    span.with_state(state.as_deref()).with(attributes(message.method(), name.as_ref()))
}

/// The span of a request that is sent on.
pub fn sent(
    tracer: &Arc<Tracer>,
    method: &str,
    name: Option<&Raw>,
    parent: Option<Context>,
    to: [Attribute; 2],
) -> Span {
    tracer.start(Role::Client, span_name(method, name), parent).with(attributes(method, name)).with(to)
}

/// The request as it is sent on: from this span.
pub fn pass_on(mut call: Call, from: Context) -> Call {
    let state = call.trace.as_ref().and_then(|trace| trace.state.clone());
    // What the message says of itself goes before what its envelope says.
    let said = said_state(&call.message).map(Box::from);
    let state = if call.message.meta(TRACEPARENT).is_some() { said } else { said.or(state) };
    if let Some(message) = renamed(&call.message, from, state.as_deref()) {
        call.message = message;
    }
    call.trace = Some(Box::new(Trace { parent: from, state }));
    call
}

/// What a message says itself of what tracing systems keep with it, as bounded as what its envelope says.
fn said_state(message: &Message) -> Option<String> {
    let said = message.meta(TRACESTATE)?;
    said.plain_str().filter(|state| !state.is_empty() && state.len() <= Trace::STATE_BYTES_MAX).map(str::to_owned)
}

/// The message with this span in `_meta`; `None` where there is no place for it.
fn renamed(message: &Message, from: Context, state: Option<&str>) -> Option<Message> {
    let parent = Raw::string(&from.to_string());
    let mut additions = vec![(TRACEPARENT, parent.clone())];
    additions.extend(state.map(|state| (TRACESTATE, Raw::string(state))));
    let body = message.body().unwrap_or_else(Raw::empty_object);
    let params = match (message.meta_object(), message.meta_object_span_in_body()) {
        (Some(meta), Some(at)) => {
            let too_long = |state: &Raw| Trace::STATE_BYTES_MAX + 2 < state.as_bytes().len();
            let meta = match meta.member(TRACESTATE).filter(too_long) {
                Some(_) => splice::without(&meta, &[TRACESTATE]),
                None => meta,
            };
            let meta = splice::with(&splice::replace(&meta, TRACEPARENT, &parent), &additions);
            splice::Splice::new(body).replace(at, &meta).apply()
        }
        (None, Some(_)) => return None,
        (_, None) => splice::with(&body, &[("_meta", splice::with(&Raw::empty_object(), &additions))]),
    };
    let request = compose::request(message.id()?, message.method(), Some(&params));
    Message::scan(request.bytes().clone()).ok()
}

/// The method, and what it is about where that is one of few.
fn span_name(method: &str, name: Option<&Raw>) -> String {
    match about(method, name) {
        Some((_, name)) => format!("{method} {name}"),
        None => bounded(method),
    }
}

fn attributes(method: &str, name: Option<&Raw>) -> Vec<Attribute> {
    let mut all = vec![("mcp.method.name", bounded(method).into())];
    if let Some((key, name)) = about(method, name) {
        if method == method::TOOLS_CALL {
            all.push(("gen_ai.operation.name", "execute_tool".into()));
        }
        all.push((key, name.into()));
    }
    all
}

fn about(method: &str, name: Option<&Raw>) -> Option<(&'static str, String)> {
    let key = match method {
        method::TOOLS_CALL => "gen_ai.tool.name",
        method::PROMPTS_GET => "gen_ai.prompt.name",
        _ => return None,
    };
    let name = name?.to_text()?;
    Some((key, bounded(&name)))
}

fn bounded(text: &str) -> String {
    text.chars().take(NAME_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn check(params: &str, state: Option<&str>, want: &str) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call"{params}}}"#);
        let message = Message::scan(text.into()).unwrap();
        let got = renamed(&message, Context::parse(FROM.as_bytes()).unwrap(), state).and_then(|message| message.body());
        let want = want.replace("FROM", FROM);
        assert_eq!(got.as_ref().map(Raw::as_str).unwrap_or("nothing"), want, "{params}");
    }

    #[test]
    fn the_span_is_put_into_meta_and_the_rest_stays_as_written() {
        check("", None, r#"{"_meta":{"traceparent":"FROM"}}"#);
        check(r#","params":{}"#, None, r#"{"_meta":{"traceparent":"FROM"}}"#);
        check(r#","params":{ "name" : "x"}"#, None, r#"{"_meta":{"traceparent":"FROM"}, "name" : "x"}"#);
        check(r#","params":{"_meta":{},"a":1.0}"#, None, r#"{"_meta":{"traceparent":"FROM"},"a":1.0}"#);
        check(
            r#","params":{"_meta":{"k": 1,"traceparent" : "00-x","baggage":"b"}}"#,
            None,
            r#"{"_meta":{"k": 1,"traceparent" : "FROM","baggage":"b"}}"#,
        );
        check(
            r#","params":{"_meta":{"k":1}}"#,
            Some("a=b"),
            r#"{"_meta":{"traceparent":"FROM","tracestate":"a=b","k":1}}"#,
        );
        check(r#","params":{"_meta":3}"#, None, "nothing");
    }

    #[test]
    fn a_state_beyond_the_bound_is_dropped_as_that_of_a_header_is() {
        for (bytes, kept) in [(Trace::STATE_BYTES_MAX, true), (Trace::STATE_BYTES_MAX + 1, false)] {
            let state = "x".repeat(bytes);
            let meta = format!(r#"{{"traceparent":"{FROM}","tracestate":"{state}"}}"#);
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{meta}}}}}"#);
            let message = Message::scan(text.into()).unwrap();
            assert_eq!(said_state(&message), Some(state).filter(|_| kept), "{bytes}");
            let passed = renamed(&message, Context::parse(FROM.as_bytes()).unwrap(), None).unwrap();
            assert_eq!(passed.meta(TRACESTATE).is_some(), kept, "{bytes}");
        }
    }
}
