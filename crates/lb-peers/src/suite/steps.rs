//! Calls that must succeed, and what every reply has in common.

use serde_json::{Value, json};

use super::Tally;
use super::shape::misfit;
use crate::tools::{Reply, ToolClient};

/// What the first block of a reply is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Block {
    /// A JSON list, which is also this member of `structuredContent`.
    List(&'static str),
    /// A JSON object, which is also `structuredContent`.
    Object,
    /// A sentence.
    Sentence,
}

/// A client whose replies are judged.
pub(super) struct Probe<'a> {
    pub(super) client: &'a ToolClient,
    pub(super) tally: &'a mut Tally,
    /// What `tools/list` says of each tool.
    listed: Vec<Value>,
}

impl<'a> Probe<'a> {
    pub(super) async fn new(client: &'a ToolClient, tally: &'a mut Tally) -> Self {
        let reply = client.request("tools/list", json!({})).await;
        let listed = reply.result()["tools"].as_array().cloned().unwrap_or_default();
        Self { client, tally, listed }
    }

    /// A call that must succeed.
    pub(super) async fn good(&mut self, name: &str, arguments: Value) -> Reply {
        let reply = self.client.call(name, arguments.clone()).await;
        let good = !reply.is_error() && reply.rpc_error().is_none() && !reply.result().is_null();
        self.tally.check(good, || format!("{name} {arguments} fails: {reply}"));
        self.context(name, &reply);
        self.output(name, &reply);
        reply
    }

    /// A call that must succeed with a first block and a structure of this shape.
    pub(super) async fn fits(&mut self, name: &str, arguments: Value, block: Block, shape: &Value) -> Reply {
        let reply = self.good(name, arguments.clone()).await;
        let told = |what: String| format!("{name} {arguments}: {what}: {reply}");
        let structured = without_session(reply.structured());
        let (first, value) = match block {
            Block::List(member) => {
                let value = structured[member].clone();
                let only =
                    structured.as_object().is_some_and(|all| all.keys().all(|key| key == member || key == "errors"));
                self.tally.check(only, || told(format!("structuredContent has more than {member} and errors")));
                (reply.json() == value, value)
            }
            Block::Object => (without_session(&reply.json()) == structured, structured),
            Block::Sentence => (!reply.text().is_empty() && reply.json().is_null(), structured),
        };
        self.tally.check(first, || told("block 1 is something else".to_owned()));
        let fault = misfit(shape, &value);
        self.tally.check(fault.is_none(), || told(fault.unwrap_or_default()));
        reply
    }

    /// A call that must be refused with this code.
    pub(super) async fn refused(&mut self, name: &str, arguments: Value, code: &str) -> Reply {
        let reply = self.client.call(name, arguments.clone()).await;
        let told = |what: &str| format!("{name} {arguments}: {what}: {reply}");
        self.tally.check(reply.is_error() && reply.code() == code, || told(&format!("not refused as {code}")));
        let fault =
            misfit(&json!({ "code": "word", "message": "word", "details?": "object" }), &reply.structured()["error"]);
        self.tally.check(fault.is_none(), || told(&fault.unwrap_or_default()));
        self.tally.check(reply.text().starts_with("Failed to "), || told("names no operation"));
        self.context(name, &reply);
        self.output(name, &reply);
        reply
    }

    /// What a tool declares of its output holds for every reply, refusals included.
    fn output(&mut self, name: &str, reply: &Reply) {
        let Some(schema) =
            self.listed.iter().find(|tool| tool["name"] == name).and_then(|tool| tool.get("outputSchema"))
        else {
            return;
        };
        let fault = super::shape::breach(schema, reply.structured());
        self.tally.check(fault.is_none(), || format!("{name}: outputSchema: {}", fault.unwrap_or_default()));
    }

    /// At most one context block, at the end, of the documented shape, and only there.
    fn context(&mut self, name: &str, reply: &Reply) {
        let Some(context) = reply.context().filter(|_| name != "await_activity") else { return };
        let fault = misfit(&context_shape(), &context);
        self.tally.check(fault.is_none(), || format!("{name}: context: {}", fault.unwrap_or_default()));
        let places: Vec<usize> =
            reply.objects().filter(|(_, value)| misfit(&context_shape(), value).is_none()).map(|(at, _)| at).collect();
        let last = places == [reply.blocks().len() - 1];
        self.tally.check(last, || format!("{name}: the context is not one last block: {reply}"));
        let inside = reply.structured().get("pending_client").is_some() || reply.structured().get("events").is_some();
        self.tally.check(!inside, || format!("{name}: the context is in structuredContent: {reply}"));
    }
}

/// The handle is shown to modern clients only.
fn without_session(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(members) = value.as_object_mut() {
        members.remove("session");
    }
    value
}

/// One event.
pub(super) fn event_shape() -> Value {
    json!({ "id": "id", "type": "word", "server": "word", "createdAt": "time", "data": "object" })
}

/// What waits for the client.
pub(super) fn pending_shape() -> Value {
    json!({
        "sampling": "number",
        "elicitation": "number",
        "elicitations": [{ "requestId": "id", "server": "word", "message": "text", "mode?": "form|url" }],
        "sampling_requests": [{ "requestId": "id", "server": "word" }],
    })
}

fn context_shape() -> Value {
    json!({
        "session?": "word",
        "pending_client?": pending_shape(),
        "expired_timers?": ["+", { "id": "id", "message": "word", "expiredAt": "time" }],
        "notifications?": ["+", notification_shape()],
        "events?": ["+", event_shape()],
        "events_remaining?": "number",
    })
}

/// One notification of a server. Equal ones that follow each other may be merged and counted.
pub(super) fn notification_shape() -> Value {
    json!({ "server": "word", "method": "word", "timestamp": "time", "params?": "any", "count?": "number" })
}
