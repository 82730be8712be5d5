//! The table of tools: who may be in it, what each declares beyond its schema, and how a call ends.
//!
//! A duplicate or nameless tool fails the start of the server, a declared time limit is kept, and every failure reaches
//! the model in one shape.

use std::collections::HashMap;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::handler::server::router::tool::{ToolRoute, ToolRouter};
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, JsonObject, MetaObject, Tool};
use serde_json::{Value, json};

use crate::server::Demo;
use crate::system_time::now_iso;

/// Why the table of tools cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub enum RegistryError {
    /// A tool has no name.
    Nameless,
    /// A tool has a name that clients would not take.
    BadName(String),
    /// Two tools have this name.
    Duplicate(String),
}

impl std::fmt::Display for RegistryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nameless => f.write_str("a tool of the demo server has no name"),
            Self::BadName(name) => {
                write!(f, "{name:?} is no name for a tool: use 1 to 64 letters, digits, '_', '-' and '.'")
            }
            Self::Duplicate(name) => write!(f, "the demo server has two tools named {name:?}"),
        }
    }
}

impl std::error::Error for RegistryError {}

/// What a tool declares beyond what the protocol knows; it is listed in the tool's `_meta`.
#[derive(Clone, Copy)]
pub(crate) struct Card {
    pub(crate) tags: &'static [&'static str],
    /// Arguments that work, as JSON.
    pub(crate) example: &'static str,
    pub(crate) limit: Limit,
}

/// How long a call may take.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// As long as its own arguments and its client let it.
    None,
    /// This long.
    Fixed(Duration),
    /// As long as its arguments need.
    Fits(fn(&JsonObject) -> Duration),
}

const META_KEY: &str = "landbridge/tool";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const NAME_BYTES_MAX: usize = 64;

/// All tools.
pub(crate) struct Registry<S: Send + Sync + 'static> {
    router: ToolRouter<S>,
    limits: HashMap<String, Limit>,
}

impl<S: Send + Sync + 'static> Registry<S> {
    pub(crate) fn new() -> Self {
        Self { router: ToolRouter::new(), limits: HashMap::new() }
    }

    /// Adds what a `#[tool_router]` made, with the card of each tool.
    pub(crate) fn with_all(self, tools: ToolRouter<S>, cards: fn(&str) -> Option<Card>) -> Result<Self, RegistryError> {
        tools.map.into_values().try_fold(self, |registry, route| {
            let card = cards(route.name());
            registry.with(route, card)
        })
    }

    /// Adds one tool.
    pub(crate) fn with(mut self, mut route: ToolRoute<S>, card: Option<Card>) -> Result<Self, RegistryError> {
        let name = route.name().to_owned();
        if name.trim().is_empty() {
            return Err(RegistryError::Nameless);
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if NAME_BYTES_MAX < name.len() || !name.bytes().all(allowed) {
            return Err(RegistryError::BadName(name));
        }
        if self.router.has_route(&name) {
            return Err(RegistryError::Duplicate(name));
        }
        if let Some(card) = card {
            route.attr.meta = Some(meta(card));
            self.limits.insert(name, card.limit);
        }
        self.router.add_route(route);
        Ok(self)
    }

    /// All tools by name.
    pub(crate) fn list(&self) -> Vec<Tool> {
        self.router.list_all()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<Tool> {
        self.router.get(name).cloned()
    }

    /// Runs a tool, for as long as it may take.
    pub(crate) async fn call(&self, call: ToolCallContext<'_, S>) -> Result<CallToolResponse, ErrorData> {
        let name = call.name().to_owned();
        // The SDK's own refusal does not say which tool.
        if !self.router.has_route(&name) {
            return Err(ErrorData::invalid_params(format!("unknown tool {name:?}"), None));
        }
        let limit = match self.limits.get(&name) {
            None | Some(Limit::None) => None,
            Some(Limit::Fixed(limit)) => Some(*limit),
            Some(Limit::Fits(fits)) => Some(fits(call.arguments.as_ref().unwrap_or(&JsonObject::new()))),
        };
        let running = self.router.call(call);
        let response = match limit {
            None => running.await?,
            Some(limit) => match tokio::time::timeout(limit, running).await {
                Ok(response) => response?,
                Err(_) => failed(format!("{name} took longer than {limit:?}")).into(),
            },
        };
        Ok(match response {
            CallToolResponse::Complete(result) if result.is_error == Some(true) => in_one_shape(result).into(),
            other => other,
        })
    }
}

/// Every failure as `{success, error, timestamp}`.
fn in_one_shape(mut result: CallToolResult) -> CallToolResult {
    let texts: Vec<_> =
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    let error = json!({ "success": false, "error": texts.join("\n"), "timestamp": now_iso() });
    result.content = vec![ContentBlock::text(error.to_string())];
    result.structured_content = None;
    result
}

fn meta(card: Card) -> MetaObject {
    let mut about = json!({ "version": VERSION, "tags": card.tags });
    if let Ok(example) = serde_json::from_str::<Value>(card.example) {
        about["examples"] = json!([example]);
    }
    if let Limit::Fixed(limit) = card.limit {
        about["timeoutMs"] = json!(limit.as_millis());
    }
    let mut meta = MetaObject::new();
    meta.0.insert(META_KEY.to_owned(), about);
    meta
}

/// The demo's own tools, and one by this name if there is one.
pub(crate) fn registry(sample: Option<&str>) -> Result<Registry<Demo>, RegistryError> {
    let registry = Registry::new()
        .with_all(Demo::note_tools(), card)?
        .with_all(Demo::work_tools(), card)?
        .with_all(Demo::echo_tools(), card)?
        .with_all(Demo::streaming_tools(), card)?
        .with_all(Demo::time_tools(), card)?
        .with_all(Demo::ask_tools(), card)?
        .with_all(Demo::trouble_tools(), card)?;
    match sample {
        Some(name) => registry.with(crate::sample::route(name), card(crate::sample::CARD)),
        None => Ok(registry),
    }
}

/// What each tool declares.
fn card(name: &str) -> Option<Card> {
    let plain = |tags, example| Card { tags, example, limit: Limit::None };
    let fixed = |tags, example, limit| Card { tags, example, limit: Limit::Fixed(limit) };
    let quick = Duration::from_secs(2);
    Some(match name {
        "add_note" => fixed(&["notes"], r#"{"note":"buy milk"}"#, quick),
        "list_notes" => fixed(&["notes"], "{}", quick),
        "echo" => fixed(&["echo"], r#"{"message":"hello","repeat":2,"uppercase":true}"#, quick),
        "system_time" => fixed(&["time"], r#"{"format":"iso","timezone":"Europe/Berlin"}"#, quick),
        "notify" => fixed(&["testing"], r#"{"what":"tools"}"#, quick),
        crate::sample::CARD => fixed(&["sample"], r#"{"value":"hello"}"#, quick),
        "streaming" => Card {
            tags: &["streaming", "progress"],
            example: r#"{"dataType":"metrics","count":3,"intervalMs":100}"#,
            limit: Limit::Fits(crate::streaming::limit),
        },
        "simulate_work" => plain(&["progress", "resume"], r#"{"steps":3,"delayMs":100,"closeSseAfterStep":1}"#),
        "slow" => plain(&["progress", "testing"], r#"{"ms":500}"#),
        "elicit_demo" | "sample_demo" | "roots_demo" => plain(&["asks"], "{}"),
        "crash" => plain(&["testing"], r#"{"code":3}"#),
        "log_spam" => plain(&["testing", "logging"], r#"{"count":20}"#),
        _ => return None,
    })
}

/// A result of one text block.
pub(crate) fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// A result that tells the model what went wrong.
pub(crate) fn failed(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// The number if it lies within the bounds, else what to tell the model.
pub(crate) fn within(name: &str, given: Option<u32>, default: u32, min: u32, max: u32) -> Result<u32, String> {
    match given {
        None => Ok(default),
        Some(number) if (min..=max).contains(&number) => Ok(number),
        Some(number) => Err(format!("{name} is {number}; give {min} to {max}")),
    }
}

#[cfg(test)]
mod tests;
