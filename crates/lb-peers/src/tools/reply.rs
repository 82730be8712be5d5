//! What came back from a call, and the parts of it that tests look at.

use std::fmt;

use serde_json::Value;

/// The members of a context block.
const CONTEXT_KEYS: [&str; 6] =
    ["session", "pending_client", "expired_timers", "notifications", "events", "events_remaining"];

/// The reply to one request.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The HTTP status; 200 on stdio.
    pub status: u16,
    /// The whole JSON-RPC response; null where none came.
    pub message: Value,
}

impl Reply {
    /// A reply as received.
    #[must_use]
    pub fn new(status: u16, message: Value) -> Self {
        Self { status, message }
    }

    /// The raw result, null for an error.
    #[must_use]
    pub fn result(&self) -> &Value {
        &self.message["result"]
    }

    /// The JSON-RPC error, where there is one.
    #[must_use]
    pub fn rpc_error(&self) -> Option<&Value> {
        self.message.get("error")
    }

    /// The content blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Value] {
        self.result()["content"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The text of the first block, empty where it has none.
    #[must_use]
    pub fn text(&self) -> &str {
        self.blocks().first().and_then(|block| block["text"].as_str()).unwrap_or_default()
    }

    /// The first block's text as JSON, null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_default()
    }

    /// The JSON of every text block that holds an object, with the block's place.
    pub fn objects(&self) -> impl DoubleEndedIterator<Item = (usize, Value)> {
        self.blocks().iter().enumerate().filter_map(|(at, block)| {
            let value: Value = serde_json::from_str(block["text"].as_str()?).ok()?;
            value.is_object().then_some((at, value))
        })
    }

    /// `structuredContent`, null where there is none.
    #[must_use]
    pub fn structured(&self) -> &Value {
        &self.result()["structuredContent"]
    }

    /// The context: the last text block that is a JSON object with a member of one, else `_meta["landbridge/context"]`.
    #[must_use]
    pub fn context(&self) -> Option<Value> {
        let is_context = |value: &Value| CONTEXT_KEYS.iter().any(|key| value.get(key).is_some());
        let block = self.objects().rev().map(|(_, value)| value).find(is_context);
        block.or_else(|| self.result()["_meta"].get("landbridge/context").cloned())
    }

    /// The events anywhere in the reply, each id once: in the body of `await_activity` and in the context.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        let meta = self.result()["_meta"].get("landbridge/context").cloned();
        let mut all: Vec<Value> = Vec::new();
        for value in self.objects().map(|(_, value)| value).chain(meta) {
            for event in value["events"].as_array().into_iter().flatten() {
                if !all.iter().any(|known| known["id"] == event["id"]) {
                    all.push(event.clone());
                }
            }
        }
        all
    }

    /// The events of one type.
    #[must_use]
    pub fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Whether the tool failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.result()["isError"] == true
    }

    /// The code of a failed tool, empty where there is none.
    #[must_use]
    pub fn code(&self) -> &str {
        self.structured()["error"]["code"].as_str().unwrap_or_default()
    }

    /// The code of a JSON-RPC error.
    #[must_use]
    pub fn rpc_code(&self) -> Option<i64> {
        self.rpc_error()?["code"].as_i64()
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}: {}", self.status, self.message)
    }
}
