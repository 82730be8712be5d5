//! The prompts `study-notes` and `echo`, and completion of their arguments and of the templates'.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CompleteRequestParams, CompletionInfo, GetPromptResult, PromptMessage, Reference, Role};
use rmcp::{ErrorData, prompt, prompt_router};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::echo::processed;
use crate::resources::{NOTE_PREFIX, RESULT_PREFIX};
use crate::server::Demo;

const OBJECTIVE_DEFAULT: &str = "Summarise the notes and extract the next actions.";
/// What is offered for an objective.
const OBJECTIVES: [&str; 4] = [
    OBJECTIVE_DEFAULT,
    "Find what contradicts itself in the notes.",
    "Make a quiz from the notes.",
    "Sort the notes by topic.",
];

/// Arguments of the prompt `study-notes`.
#[derive(Deserialize, JsonSchema)]
struct StudyNotes {
    /// What to do with the notes; a summary with next actions unless given
    objective: Option<String>,
}

/// Arguments of the prompt `echo`; those of prompts are always strings.
#[derive(Deserialize, JsonSchema)]
struct EchoPrompt {
    /// The text to repeat
    message: String,
    /// How often, 1 to 10
    repeat: Option<String>,
    /// true for capitals
    uppercase: Option<String>,
}

#[prompt_router(router = "prompts", vis = "pub(crate)")]
impl Demo {
    #[prompt(
        name = "study-notes",
        title = "Study the notes",
        description = "Work through the notes of this connection"
    )]
    async fn study_notes(&self, Parameters(StudyNotes { objective }): Parameters<StudyNotes>) -> GetPromptResult {
        let objective =
            objective.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or(OBJECTIVE_DEFAULT);
        let notes = self.session.numbered_notes().unwrap_or_else(|| "(none yet)".to_owned());
        let text = format!("Objective: {objective}\n\nNotes:\n{notes}");
        GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
            .with_description("The objective and the notes of this connection")
    }

    #[prompt(name = "echo", title = "Echo", description = "Have the model repeat a message")]
    async fn echo_prompt(
        &self,
        Parameters(EchoPrompt { message, repeat, uppercase }): Parameters<EchoPrompt>,
    ) -> Result<GetPromptResult, ErrorData> {
        let wrong = |text: &str| ErrorData::invalid_params(text.to_owned(), None);
        let repeat = repeat.map_or(Ok(1), |text| text.parse().map_err(|_| wrong("repeat is a number from 1 to 10")))?;
        if !(1..=10).contains(&repeat) {
            return Err(wrong("repeat is a number from 1 to 10"));
        }
        let uppercase =
            uppercase.map_or(Ok(false), |text| text.parse().map_err(|_| wrong("uppercase is true or false")))?;
        if message.is_empty() || 1000 < message.chars().count() {
            return Err(wrong("message has 1 to 1000 characters"));
        }
        let text = format!("Please repeat exactly: {}", processed(&message, repeat, uppercase));
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
            .with_description("A message to repeat"))
    }
}

impl Demo {
    /// Values that an argument may have, as far as they begin like what is there.
    pub(crate) fn completions(&self, request: &CompleteRequestParams) -> Result<CompletionInfo, ErrorData> {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let argument = request.argument.name.as_str();
        let known = match &request.r#ref {
            Reference::Prompt(prompt) => match (prompt.name.as_str(), argument) {
                ("study-notes", "objective") => texts(&OBJECTIVES),
                ("echo", "uppercase") => texts(&["true", "false"]),
                ("echo", "repeat") => (1..=10).map(|number| number.to_string()).collect(),
                ("study-notes" | "echo", _) => Vec::new(),
                (other, _) => return Err(ErrorData::invalid_params(format!("unknown prompt {other:?}"), None)),
            },
            Reference::Resource(resource) => match (resource.uri.strip_suffix("{index}"), argument) {
                (Some(NOTE_PREFIX), "index") => {
                    (0..self.session.notes().len()).map(|index| index.to_string()).collect()
                }
                _ if resource.uri.strip_suffix("{resultId}") == Some(RESULT_PREFIX) && argument == "resultId" => {
                    self.session.result_ids().iter().map(u64::to_string).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let begun = request.argument.value.to_lowercase();
        let fitting = known.into_iter().filter(|value| value.to_lowercase().starts_with(&begun)).collect();
        CompletionInfo::with_all_values(fitting).map_err(|why| ErrorData::internal_error(why, None))
    }
}
