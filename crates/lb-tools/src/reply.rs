//! How a tool answers: blocks for the model, structured content for programs, and the context block last.
//!
//! What a server wrote is passed on as it came; blocks are spliced into it.

use lb_exchange::{End, Outcome, Receipt};
use lb_session::{ContextWish, Sight};
use lb_wire::compose::{self, Object};
use lb_wire::revision::{Era, Revision};
use lb_wire::{Kind, Raw, splice as wire};

use crate::args::Checked;
use crate::failure::Failure;
use crate::request::Seen;
use crate::splice;

/// What a tool answers.
#[derive(Debug)]
pub(crate) struct Reply {
    body: Body,
    /// For the events that are in the body.
    receipt: Option<Receipt>,
    /// Whether the context block follows.
    context: bool,
    /// Whether the client must learn which session this is.
    session: bool,
}

#[derive(Debug)]
enum Body {
    Ours { blocks: Vec<Raw>, structured: Option<Raw> },
    Passed { result: Raw, era: Option<Era>, feed_mark: u64, failed: bool },
    Failed(Failure),
}

impl Reply {
    /// A sentence, and the same for programs.
    pub(crate) fn said(sentence: &str, structured: Raw) -> Self {
        Self::blocks(vec![splice::text_block(sentence)], Some(structured))
    }

    /// One object, for both. What a server gave in its place is shown, but no structure.
    pub(crate) fn object(object: Raw) -> Self {
        Self::blocks(vec![splice::text_block(object.as_str())], Some(object).filter(|raw| raw.kind() == Kind::Object))
    }

    /// Blocks of content.
    pub(crate) fn blocks(blocks: Vec<Raw>, structured: Option<Raw>) -> Self {
        Self::new(Body::Ours { blocks, structured })
    }

    /// Rows, a bare array for the model and under their name for programs, and servers that could not be asked.
    pub(crate) fn list(name: &'static str, rows: &[Raw], errors: &[Raw]) -> Self {
        let array = compose::array(rows.iter());
        let structured = Object::new().raw(name, &array);
        let structured =
            if errors.is_empty() { structured } else { structured.raw("errors", &compose::array(errors.iter())) };
        Self::blocks(vec![splice::text_block(array.as_str())], Some(structured.finish()))
    }

    /// A sentence in place of an empty list, for clients that were made for that.
    pub(crate) fn or_sentence(mut self, rows: usize, wanted: bool, sentence: &str) -> Self {
        if let (Body::Ours { blocks, .. }, true, 0) = (&mut self.body, wanted, rows) {
            *blocks = vec![splice::text_block(sentence)];
        }
        self
    }

    /// What a server wrote; `failed` where it says of itself that it is an error.
    pub(crate) fn passed(result: Raw, era: Option<Era>, feed_mark: u64, failed: bool) -> Self {
        Self::new(Body::Passed { result, era, feed_mark, failed })
    }

    /// What a server wrote some time ago.
    pub(crate) fn kept(result: Raw) -> Self {
        let era = if result.member("resultType").is_some() { Era::Modern } else { Era::Legacy };
        let failed = result.member("isError").is_some_and(|flag| flag.as_bytes() == b"true");
        Self::passed(result, Some(era), 0, failed)
    }

    /// A failure.
    pub(crate) fn failed(failure: Failure) -> Self {
        Self::new(Body::Failed(failure))
    }

    /// With the receipt for the events that are in it.
    pub(crate) fn with_receipt(mut self, receipt: Option<Receipt>) -> Self {
        self.receipt = receipt;
        self
    }

    /// Without events and pending requests after it, because they are in it.
    pub(crate) fn without_context(mut self) -> Self {
        self.context = false;
        self
    }

    /// With the handle of the session, for clients that have to pass it on.
    pub(crate) fn with_session(mut self) -> Self {
        self.session = true;
        self
    }

    /// With a sentence before what a server wrote.
    pub(crate) fn after(mut self, sentence: &str) -> Self {
        if let Body::Passed { result, .. } = &mut self.body
            && let Some(done) = splice::unshift_block(result, &splice::text_block(sentence))
        {
            *result = done;
        }
        self
    }

    /// With a further sentence, if there is one.
    pub(crate) fn with_sentence(mut self, sentence: &str) -> Self {
        if let (Body::Ours { blocks, .. }, false) = (&mut self.body, sentence.is_empty()) {
            blocks.push(splice::text_block(sentence));
        }
        self
    }

    /// With a further block of JSON.
    pub(crate) fn with_block(mut self, block: Option<&Raw>) -> Self {
        if let Body::Ours { blocks, .. } = &mut self.body {
            blocks.extend(block.map(|raw| splice::text_block(raw.as_str())));
        }
        self
    }

    /// Why it failed, if it did.
    pub(crate) fn problem(&self) -> Option<&str> {
        match &self.body {
            Body::Failed(failure) => Some(&failure.message),
            Body::Ours { .. } | Body::Passed { .. } => None,
        }
    }

    fn new(body: Body) -> Self {
        Self { body, receipt: None, context: true, session: false }
    }

    /// The end of the call. Events for the context block are leased here, when the answer is about to leave.
    pub(crate) fn end(self, seen: &Seen) -> End {
        let handle = (seen.is_modern() && seen.live.is_remembered()).then(|| seen.live.handle());
        let told = handle.filter(|_| self.session);
        let failed = self.body.is_failed();
        let (result, era, feed_mark) = self.body.result(seen, told);
        let knows = |server: &str| seen.knows(server);
        let (events, sight) = (self.context && seen.own, Sight::of(&knows));
        let wish = ContextWish { session: None, events, pending: self.context, sight };
        let context = if self.context || told.is_some() { context(seen, &wish, handle, told.is_some()) } else { None };
        let mut receipts: Vec<Receipt> = self.receipt.into_iter().collect();
        let result = match context {
            None => result,
            // Where there is no room for the context, its events wait for the next answer.
            Some((block, receipt)) => match splice::add_context(&result, &block) {
                Some(result) => {
                    receipts.extend(receipt);
                    result
                }
                None => result,
            },
        };
        End { outcome: Outcome::Result(result), era, receipt: Receipt::all(receipts), feed_mark, failed }
    }
}

impl From<Checked<Self>> for Reply {
    fn from(checked: Checked<Self>) -> Self {
        checked.unwrap_or_else(Self::failed)
    }
}

impl Body {
    fn is_failed(&self) -> bool {
        match self {
            Self::Ours { .. } => false,
            Self::Passed { failed, .. } => *failed,
            Self::Failed(_) => true,
        }
    }

    fn result(self, seen: &Seen, session: Option<&str>) -> (Raw, Option<Era>, u64) {
        match self {
            Self::Passed { result, era, feed_mark, .. } => (result, era, feed_mark),
            Self::Ours { blocks, structured } => {
                let structured = structured.map(|object| match session {
                    Some(handle) => wire::with(&object, &[("session", Raw::string(handle))]),
                    None => object,
                });
                (ours(&blocks, structured.as_ref(), false, seen.revision()), None, 0)
            }
            Self::Failed(failure) => (failed(&failure, seen.tool.operation, seen.revision()), None, 0),
        }
    }
}

/// A result of our own.
fn ours(blocks: &[Raw], structured: Option<&Raw>, failed: bool, revision: Revision) -> Raw {
    let result = Object::new().raw("content", &compose::array(blocks.iter()));
    let result = result.maybe("structuredContent", structured.filter(|_| revision.structured_content()));
    if failed { result.flag("isError", true) } else { result }.finish()
}

/// The result of a failure.
pub(crate) fn failed(failure: &Failure, operation: &str, revision: Revision) -> Raw {
    let message = format!("Failed to {operation}: {}", failure.message);
    let details = failure.details.clone().unwrap_or_else(Raw::empty_object);
    let error = Object::new().text("code", failure.code).text("message", &message).raw("details", &details).finish();
    let structured = Object::new().raw("error", &error).finish();
    ours(&[splice::text_block(&message)], Some(&structured), true, revision)
}

/// The context block and the receipt of its events. The session comes first in it, and alone only if it must be told.
fn context(seen: &Seen, wish: &ContextWish<'_>, handle: Option<&str>, must: bool) -> Option<(Raw, Option<Receipt>)> {
    let cell = seen.live.cell();
    let context = cell.with(|session| session.context(wish));
    let receipt = context.lease.map(|lease| cell.receipt(lease));
    let block = match (context.block, handle) {
        (None, Some(_)) if must => Raw::empty_object(),
        (None, _) => return None,
        (Some(block), _) => block,
    };
    let session = handle.map(|handle| ("session", Raw::string(handle)));
    Some((wire::with(&block, session.as_slice()), receipt))
}

#[cfg(test)]
mod tests;
