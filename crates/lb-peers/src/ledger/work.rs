//! One call of `work`.

use std::time::Duration;

use crate::raw::handshake::{COMPLETE, Era};
use crate::raw::message::{self, Message, quote};

/// Waits, without even a millisecond where there is nothing to wait for.
pub async fn rest(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The id of the request, as JSON text.
    pub id: String,
    /// The era it came in.
    pub era: Era,
    /// What the caller calls it.
    pub marker: String,
    /// How long it takes.
    pub ms: u64,
    /// How often it reports, if the caller gave a token.
    pub notes: u64,
    /// How much filling the answer has.
    pub bytes: usize,
    /// Whether it asks the client before it answers; over pipes, in the era that has such questions.
    pub asks: bool,
    /// What the client has said already, where a call is made again with its answers.
    said: Option<String>,
    /// Whether there is a question that goes out as the result of a call.
    rounds: bool,
    token: Option<String>,
}

impl Work {
    /// Reads a call; `None` when it has no marker.
    #[must_use]
    pub fn read(message: &Message, era: Era) -> Option<Self> {
        let arguments = message.arguments();
        let number = |name: &str| arguments.get(name).and_then(|value| value.get().parse::<u64>().ok()).unwrap_or(0);
        let marker = arguments.get("marker").and_then(|value| message::text(value))?;
        let token = message.meta.get("progressToken").map(|token| token.get().to_owned());
        let (ms, notes) = (number("ms"), if token.is_some() { number("notes") } else { 0 });
        let bytes = usize::try_from(number("bytes")).ok()?;
        let (asks, rounds) = (number("ask") != 0 && era == Era::Legacy, number("ask") != 0 && era == Era::Modern);
        let said = message.params.get("inputResponses").map(|said| said.get().to_owned());
        Some(Self { id: message.id.clone()?, era, marker, ms, notes, bytes, asks, said, rounds, token })
    }

    /// The time between two reports, or before the answer where there are none.
    #[must_use]
    pub fn pause(&self) -> Duration {
        Duration::from_micros(self.ms.saturating_mul(1000) / self.notes.max(1))
    }

    /// The report of this number, from 1 on.
    #[must_use]
    pub fn note(&self, number: u64) -> String {
        let (token, total, marker) = (self.token.as_deref().unwrap_or("null"), self.notes, quote(&self.marker));
        let params = format!(r#"{{"progressToken":{token},"progress":{number},"total":{total},"message":{marker}}}"#);
        message::notification("notifications/progress", &params)
    }

    /// The question to the client, and its id as JSON text.
    #[must_use]
    pub fn question(&self) -> (String, String) {
        let (id, marker) = (quote(&format!("ask-{}", self.marker)), quote(&self.marker));
        let schema = r#"{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}"#;
        let params = format!(r#"{{"message":{marker},"requestedSchema":{schema}}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{params}}}"#);
        (id, line)
    }

    /// The question as the result of a call that has to be made again with the answer; `None` where nothing is asked, or
    /// all was said.
    #[must_use]
    pub fn asked_back(&self) -> Option<String> {
        let marker = quote(&self.marker);
        let schema = r#"{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}"#;
        let params = format!(r#"{{"mode":"form","message":{marker},"requestedSchema":{schema}}}"#);
        let ask = format!(r#"{{"word":{{"method":"elicitation/create","params":{params}}}}}"#);
        let result = format!(r#"{{"resultType":"input_required","inputRequests":{ask},"requestState":{marker}}}"#);
        (self.rounds && self.said.is_none()).then(|| message::result(&self.id, &result))
    }

    /// The answer.
    #[must_use]
    pub fn answer(&self) -> String {
        self.answer_with(self.said.as_deref().unwrap_or_default())
    }

    /// The answer, with what the client said before it.
    #[must_use]
    pub fn answer_with(&self, said: &str) -> String {
        let complete = if self.era == Era::Modern { COMPLETE } else { "" };
        let filling = if 0 < self.bytes { format!(" {}", "x".repeat(self.bytes)) } else { String::new() };
        let said = if said.is_empty() { String::new() } else { format!(" {said}") };
        let text = quote(&(self.marker.clone() + &said + &filling));
        message::result(&self.id, &format!(r#"{{{complete}"content":[{{"type":"text","text":{text}}}]}}"#))
    }
}
