//! The resources: the overview, the notes, what echo is and what it said; and the pages that lists come in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    Annotations, PaginatedRequestParams, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role,
};
use serde_json::json;

use crate::server::Demo;

pub(crate) const OVERVIEW_URI: &str = "session://overview";
pub(crate) const NOTE_PREFIX: &str = "session://notes/";
pub(crate) const ECHO_DOCS_URI: &str = "echo://documentation";
pub(crate) const RESULT_PREFIX: &str = "echo://result/";

const PAGE: usize = 50;
const JSON: &str = "application/json";
const ECHO_DOCS: &str = "# echo\n\nSends a message of 1 to 1000 characters back.\n\n- `repeat`: 1 to 10 times, \
                         with a space between\n- `uppercase`: in capitals\n\nThe newest 50 results of a connection \
                         can be read again as `echo://result/{resultId}`.\n";

impl Demo {
    /// What can be read now, but for the results of echo: their answers link to them, and a list that changed with every
    /// echo would be asked for again and again.
    pub(crate) fn resources(&self) -> Vec<Resource> {
        let everyone = Annotations::default().with_audience(vec![Role::User, Role::Assistant]);
        let overview = Resource::new(OVERVIEW_URI, "session-overview")
            .with_title("Session overview")
            .with_description("Counters of this connection, as JSON; times are milliseconds since 1970")
            .with_mime_type(JSON)
            .with_annotations(everyone.clone().with_priority(1.0));
        let docs = Resource::new(ECHO_DOCS_URI, "echo-documentation")
            .with_title("About echo")
            .with_mime_type("text/markdown")
            .with_annotations(Annotations::default().with_audience(vec![Role::User]).with_priority(0.1));
        let notes = (0..self.session.notes().len()).map(|index| {
            Resource::new(format!("{NOTE_PREFIX}{index}"), format!("session-note-{index}"))
                .with_title(format!("Note {index}"))
                .with_mime_type("text/plain")
                .with_annotations(everyone.clone().with_priority(0.8))
        });
        [overview, docs].into_iter().chain(notes).collect()
    }

    /// What can be read by filling in a blank.
    pub(crate) fn templates() -> Vec<ResourceTemplate> {
        let note = ResourceTemplate::new(format!("{NOTE_PREFIX}{{index}}"), "session-note")
            .with_title("Note by index")
            .with_description("One note of this connection; 0 is the newest")
            .with_mime_type("text/plain");
        let result = ResourceTemplate::new(format!("{RESULT_PREFIX}{{resultId}}"), "echo-result")
            .with_title("Result of echo")
            .with_description("What echo answered, one of the newest 50 results of this connection")
            .with_mime_type(JSON);
        vec![note, result]
    }

    /// One resource.
    pub(crate) fn resource(&self, uri: String) -> Result<ReadResourceResult, ErrorData> {
        let text = match uri.as_str() {
            OVERVIEW_URI => Some((pretty(&self.session.overview())?, JSON)),
            ECHO_DOCS_URI => Some((ECHO_DOCS.to_owned(), "text/markdown")),
            other => match (number_after(NOTE_PREFIX, other), number_after(RESULT_PREFIX, other)) {
                (Some(index), _) => {
                    let note = usize::try_from(index).ok().and_then(|index| self.session.note(index));
                    note.map(|note| (note, "text/plain"))
                }
                (None, Some(id)) => match self.session.result(id) {
                    Some(result) => Some((pretty(&result)?, JSON)),
                    None => None,
                },
                (None, None) => None,
            },
        };
        match text {
            Some((text, mime)) => {
                Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(mime)]))
            }
            None => Err(not_found(&uri)),
        }
    }

    /// Whether it can be subscribed to: it exists, or is a note that may come.
    pub(crate) fn can_change(&self, uri: &str) -> bool {
        uri == OVERVIEW_URI || number_after(NOTE_PREFIX, uri).is_some()
    }
}

pub(crate) fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("resource not found", Some(json!({ "uri": uri })))
}

fn pretty(value: &impl serde::Serialize) -> Result<String, ErrorData> {
    serde_json::to_string_pretty(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// The number at the end of a URI; only in the spelling that the list shows (`0`, not `00` or `+0`).
fn number_after(prefix: &str, uri: &str) -> Option<u64> {
    let text = uri.strip_prefix(prefix)?;
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// One page of a list, and the cursor of the next.
pub(crate) fn page<T>(
    items: Vec<T>,
    request: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match request.and_then(|request| request.cursor) {
        None => 0,
        Some(cursor) => offset(&cursor)
            .filter(|offset| *offset <= items.len())
            .ok_or_else(|| ErrorData::invalid_params("no such cursor: list again without one", None))?,
    };
    let next = start + PAGE;
    let cursor = (next < items.len()).then(|| STANDARD.encode(next.to_string()));
    Ok((items.into_iter().skip(start).take(PAGE).collect(), cursor))
}

fn offset(cursor: &str) -> Option<usize> {
    let text = String::from_utf8(STANDARD.decode(cursor).ok()?).ok()?;
    let offset: usize = text.parse().ok()?;
    (offset.to_string() == text).then_some(offset)
}
