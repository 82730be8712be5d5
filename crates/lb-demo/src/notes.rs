//! The note tools: `add_note` and `list_notes`.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::registry::{failed, said};
use crate::resources::{NOTE_PREFIX, OVERVIEW_URI};
use crate::server::Demo;
use crate::tell::List;

const NOTE_CHARS_MAX: usize = 500;

/// Arguments of `add_note`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AddNote {
    /// The text to keep, 1 to 500 characters
    #[schemars(length(min = 1, max = 500))]
    note: String,
}

/// Structured result of `list_notes`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NoteList {
    /// The notes of this connection, newest first
    notes: Vec<String>,
}

#[tool_router(router = note_tools, vis = "pub(crate)")]
impl Demo {
    #[tool(
        title = "Add a note",
        description = "Keep a note in front of the others; the newest 50 are kept for this connection",
        annotations(destructive_hint = false, open_world_hint = false)
    )]
    async fn add_note(
        &self,
        Parameters(AddNote { note }): Parameters<AddNote>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let note = note.trim();
        if note.is_empty() {
            return failed("the note is empty");
        }
        if NOTE_CHARS_MAX < note.chars().count() {
            return failed(format!("the note is longer than {NOTE_CHARS_MAX} characters"));
        }
        let count = self.session.add_note(note.to_owned());
        self.info(&context, format!("note #{count} saved")).await;
        // Told before the result that made the change goes out, so that a list asked for next is never stale.
        self.changed(&context, List::Resources).await;
        self.updated(&context, OVERVIEW_URI).await;
        for index in 0..count {
            self.updated(&context, &format!("{NOTE_PREFIX}{index}")).await;
        }
        said(format!("Saved note #{count}: {note}"))
    }

    #[tool(
        title = "List the notes",
        description = "The notes of this connection, newest first",
        output_schema = schema_for_output::<NoteList>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_notes(&self) -> CallToolResult {
        let text = self.session.numbered_notes().unwrap_or_else(|| "No notes in this session yet.".to_owned());
        let mut result = said(text);
        result.structured_content = Some(json!(NoteList { notes: self.session.notes() }));
        result
    }
}
