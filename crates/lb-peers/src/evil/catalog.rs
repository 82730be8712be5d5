//! What the server knows whatever its transport: its tools, its plain answers and the state that strikes share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;

use super::fault::Fault;
use super::swap::Swap;
use crate::raw::handshake::{COMPLETE, Era, Eras, Hello, UNCACHED};
use crate::raw::message::{self, Members, Message, quote};

/// Finished requests that are remembered, over all sessions.
const FINISHED_MAX: usize = 64;

/// One call of `strike`.
#[derive(Clone, Debug)]
pub struct Strike {
    /// The id, as JSON text.
    pub id: String,
    /// The era it came in.
    pub era: Era,
    /// The legacy HTTP session it came in, empty elsewhere.
    pub session: String,
    /// What to do.
    pub fault: Fault,
    /// The text of the answer, as a JSON string.
    pub text: String,
    /// The progress token, as JSON text.
    pub token: Option<String>,
    /// The `via` argument.
    pub via: Option<String>,
}

impl Strike {
    /// The response with this strike's text under `id`.
    #[must_use]
    pub fn answer_as(&self, id: &str) -> String {
        message::result(id, &text_result(self.era, &self.text))
    }

    /// The true answer.
    #[must_use]
    pub fn answer(&self) -> String {
        self.answer_as(&self.id)
    }
}

/// What a request leads to.
#[derive(Debug)]
pub enum Outcome {
    /// A response, and the HTTP status that goes with it.
    Reply(u16, String),
    /// `strike` was called.
    Strike(Strike),
    /// `subscriptions/listen`: the id, and whether tool list changes were asked for.
    Listen(String, bool),
}

/// The server behind either transport.
#[derive(Debug)]
pub struct Catalog {
    /// What it says of itself.
    pub hello: Hello,
    /// Where swapped-ids meet.
    pub swap: Swap,
    faults: Vec<Fault>,
    list_changes: AtomicU64,
    /// Session and id, oldest first.
    finished: Mutex<VecDeque<(String, String)>>,
}

impl Catalog {
    /// A server that commits one of `faults` when struck.
    #[must_use]
    pub fn new(faults: Vec<Fault>, eras: Eras) -> Self {
        let hello = Hello { name: "evil", eras };
        Self { hello, swap: Swap::default(), faults, list_changes: AtomicU64::new(0), finished: Mutex::default() }
    }

    /// Answers a request that was found good.
    #[must_use]
    pub fn answer(&self, message: &Message, era: Era, session: &str) -> Outcome {
        let id = message.id.as_deref().unwrap_or("null");
        let modern = era == Era::Modern;
        let result = match message.method() {
            "initialize" if !modern => self.hello.initialize(message),
            "server/discover" if modern => self.hello.discover(),
            "subscriptions/listen" if modern => return Outcome::Listen(id.to_owned(), wants_tools(message)),
            "ping" | "logging/setLevel" if !modern => "{}".to_owned(),
            "tools/list" => self.tools(era),
            "tools/call" => match self.call(message, era) {
                Ok(Called::Text(text)) => text_result(era, &text),
                Ok(Called::Strike(strike)) => {
                    return Outcome::Strike(Strike { session: session.to_owned(), ..*strike });
                }
                Err(problem) => return Outcome::Reply(200, message::error(id, -32602, problem, None)),
            },
            _ => {
                let status = if modern { 404 } else { 200 };
                return Outcome::Reply(status, message::error(id, -32601, "method not found", None));
            }
        };
        Outcome::Reply(200, message::result(id, &result))
    }

    fn call(&self, message: &Message, era: Era) -> Result<Called, &'static str> {
        let arguments = message.arguments();
        let name = message.text_param("name").unwrap_or_default();
        if name == "strike" {
            return self.strike(message, &arguments, era).map(|strike| Called::Strike(Box::new(strike)));
        }
        let known = name == "calm" || Some(&name) == self.extra_tool().as_ref();
        if known { Ok(Called::Text(text_argument(&arguments, ""))) } else { Err("unknown tool") }
    }

    fn strike(&self, message: &Message, arguments: &Members, era: Era) -> Result<Strike, &'static str> {
        let argument = |name: &str| arguments.get(name).and_then(|value| message::text(value));
        let fault = match argument("fault") {
            None => self.faults.first().copied(),
            Some(name) => self.faults.iter().copied().find(|fault| fault.name() == name),
        };
        let fault = fault.ok_or("this fault was not chosen with --fault")?;
        let id = message.id.clone().unwrap_or_default();
        let text = text_argument(arguments, fault.name());
        let token = message.meta.get("progressToken").map(|token| token.get().to_owned());
        Ok(Strike { id, era, session: String::new(), fault, text, token, via: argument("via") })
    }

    fn tools(&self, era: Era) -> String {
        let names = self.faults.iter().map(|fault| quote(fault.name())).collect::<Vec<_>>().join(",");
        let text = r#""message":{"type":"string"}"#;
        let strike = format!(r#""fault":{{"enum":[{names}]}},"via":{{"enum":["get","post"]}},{text}"#);
        let mut tools = vec![tool("calm", text), tool("strike", &strike)];
        tools.extend(self.extra_tool().map(|name| tool(&name, text)));
        let hints = if era == Era::Modern { [COMPLETE, UNCACHED].concat() } else { String::new() };
        format!(r#"{{{hints}"tools":[{}]}}"#, tools.join(","))
    }

    /// The tool whose name tells how often the list has changed.
    fn extra_tool(&self) -> Option<String> {
        let changes = self.list_changes.load(Ordering::Relaxed);
        (0 < changes).then(|| format!("extra_{changes}"))
    }

    /// Changes the list of tools.
    pub fn change_list(&self) {
        self.list_changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Remembers that the request `id` of a session was answered.
    pub fn finish(&self, session: &str, id: &str) {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        if FINISHED_MAX <= finished.len() {
            finished.pop_front();
        }
        finished.push_back((session.to_owned(), id.to_owned()));
    }

    /// Ids of a session answered lately, oldest first.
    #[must_use]
    pub fn finished(&self, session: &str) -> Vec<String> {
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.iter().filter(|(owner, _)| owner == session).map(|(_, id)| id.clone()).collect()
    }
}

enum Called {
    Text(String),
    Strike(Box<Strike>),
}

/// `notifications/tools/list_changed`, tagged with the listen it belongs to.
#[must_use]
pub fn list_changed(subscription: Option<&str>) -> String {
    let params = match subscription {
        Some(id) => format!(r#"{{"_meta":{}}}"#, subscription_meta(id)),
        None => "{}".to_owned(),
    };
    message::notification("notifications/tools/list_changed", &params)
}

/// The first message of a listen.
#[must_use]
pub fn acknowledged(subscription: &str, tools: bool) -> String {
    let meta = subscription_meta(subscription);
    let honoured = if tools { r#"{"toolsListChanged":true}"# } else { "{}" };
    let params = format!(r#"{{"notifications":{honoured},"_meta":{meta}}}"#);
    message::notification("notifications/subscriptions/acknowledged", &params)
}

fn subscription_meta(id: &str) -> String {
    format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#)
}

fn wants_tools(message: &Message) -> bool {
    let filter = message.params.get("notifications").map(|value| message::members(value)).unwrap_or_default();
    filter.get("toolsListChanged").map(|value| value.get()) == Some("true")
}

fn tool(name: &str, properties: &str) -> String {
    format!(
        r#"{{"name":"{name}","description":"{name}","inputSchema":{{"type":"object","properties":{{{properties}}}}}}}"#
    )
}

/// The `message` argument as a JSON string with the bytes it came with, or `default`.
fn text_argument(arguments: &Members, default: &str) -> String {
    match arguments.get("message").map(|value| RawValue::get(value)) {
        Some(text) if text.starts_with('"') => text.to_owned(),
        Some(other) => quote(other),
        None => quote(default),
    }
}

/// A result with one text block; `text` is a JSON string.
fn text_result(era: Era, text: &str) -> String {
    let complete = if era == Era::Modern { COMPLETE } else { "" };
    format!(r#"{{{complete}"content":[{{"type":"text","text":{text}}}]}}"#)
}
