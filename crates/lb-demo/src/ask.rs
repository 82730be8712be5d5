//! The tools that ask the client something before they answer: `elicit_demo`, `sample_demo` and `roots_demo`.
//!
//! A client of the handshake era is asked by a request of our own while the call waits. A later one gets the question
//! as the call's result (`input_required`) and calls again with the answer; nothing is kept in between.

#![expect(deprecated, reason = "sampling and roots are on their way out of the protocol, and clients still have it")]

use std::time::Duration;

use rmcp::handler::server::tool::InputResponses;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResponse, CallToolResult, ClientResult, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest,
    ElicitRequestParams, ElicitationSchema, InputRequest, InputRequests, InputRequiredResult, ListRootsRequest,
    ProtocolVersion, SamplingMessage, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RequestHandle, ServiceError};
use rmcp::{ErrorData, RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tracing::debug;

use crate::registry::{failed, said};
use crate::server::Demo;

/// How long a person or a model may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);
const SAMPLE_TOKENS_MAX: u32 = 200;
const QUESTION_DEFAULT: &str = "In one sentence: what is the Model Context Protocol?";
/// The key under which a question and its answer travel in the later era.
const KEY: &str = "answer";

/// Arguments of `sample_demo`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SampleDemo {
    /// What to ask the model
    question: Option<String>,
}

#[tool_router(router = ask_tools, vis = "pub(crate)")]
impl Demo {
    #[tool(
        title = "Ask the user",
        description = "Ask the user for a name in a form, then greet",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn elicit_demo(
        &self,
        context: RequestContext<RoleServer>,
        InputResponses(responses): InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        if !can_fill_forms(&context) {
            let text = "Hello, whoever you are. I would have asked for your name, but this client did not declare \
                        that it can show forms (capabilities.elicitation).";
            return Ok(said(text).into());
        }
        Ok(match self.ask(&context, name_form()?, responses).await? {
            Asked::Answer(answer) => greeting(&answer).into(),
            Asked::Return(response) => response,
        })
    }

    #[tool(
        title = "Ask the model",
        description = "Ask the client's model a question and pass on what it says",
        annotations(read_only_hint = true, open_world_hint = true)
    )]
    async fn sample_demo(
        &self,
        Parameters(SampleDemo { question }): Parameters<SampleDemo>,
        context: RequestContext<RoleServer>,
        InputResponses(responses): InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        if context.client_capabilities().is_none_or(|client| client.sampling.is_none()) {
            let text = "I would have asked your model a question, but this client did not declare that it lets \
                        servers use it (capabilities.sampling).";
            return Ok(said(text).into());
        }
        let question = question.unwrap_or_else(|| QUESTION_DEFAULT.to_owned());
        let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(question)], SAMPLE_TOKENS_MAX);
        let request = InputRequest::CreateMessage(CreateMessageRequest::new(params));
        Ok(match self.ask(&context, request, responses).await? {
            Asked::Answer(answer) => quoted(&answer).into(),
            Asked::Return(response) => response,
        })
    }

    #[tool(
        title = "Ask for the roots",
        description = "Ask the client which folders it works in and list them",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn roots_demo(
        &self,
        context: RequestContext<RoleServer>,
        InputResponses(responses): InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        if context.client_capabilities().is_none_or(|client| client.roots.is_none()) {
            let text = "I would have asked which folders you work in, but this client did not declare that it tells \
                        (capabilities.roots).";
            return Ok(said(text).into());
        }
        let request = InputRequest::ListRoots(ListRootsRequest::default());
        Ok(match self.ask(&context, request, responses).await? {
            Asked::Answer(answer) => roots(&answer).into(),
            Asked::Return(response) => response,
        })
    }
}

enum Asked {
    /// The client's result for the question.
    Answer(Value),
    /// There is no answer; this is the call's response.
    Return(CallToolResponse),
}

impl Demo {
    async fn ask(
        &self,
        context: &RequestContext<RoleServer>,
        question: InputRequest,
        responses: Option<rmcp::model::InputResponses>,
    ) -> Result<Asked, ErrorData> {
        if context.protocol_version().is_some_and(|version| ProtocolVersion::V_2026_07_28 <= version) {
            return Ok(match responses.and_then(|mut answers| answers.remove(KEY)) {
                Some(answer) => Asked::Answer(answer),
                None => {
                    let questions = InputRequests::from([(KEY.to_owned(), question)]);
                    Asked::Return(InputRequiredResult::from_input_requests(questions).into())
                }
            });
        }
        let request = match question {
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(ErrorData::internal_error("no such question", None)),
        };
        match self.request(context, request).await {
            Ok(result) => serde_json::to_value(result)
                .map(Asked::Answer)
                .map_err(|error| ErrorData::internal_error(error.to_string(), None)),
            Err(ServiceError::McpError(error)) => {
                Ok(Asked::Return(failed(format!("The client refused to be asked: {}", error.message)).into()))
            }
            Err(error) => Ok(Asked::Return(failed(format!("No answer from the client: {error}")).into())),
        }
    }

    /// Sends a request to the client and waits: for the answer, the end of the call, or `ANSWER_WITHIN`.
    async fn request(
        &self,
        context: &RequestContext<RoleServer>,
        request: ServerRequest,
    ) -> Result<ClientResult, ServiceError> {
        let mut handle = context.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await?;
        let error = tokio::select! {
            answer = &mut handle.rx => return answer.map_err(|_| ServiceError::TransportClosed)?,
            () = context.ct.cancelled() => ServiceError::Cancelled { reason: None },
            () = tokio::time::sleep(ANSWER_WITHIN) => ServiceError::Timeout { timeout: ANSWER_WITHIN },
        };
        self.session.closed.run_until_cancelled(take_back(handle)).await;
        Err(error)
    }
}

/// Tells the client that its answer is not needed any more.
async fn take_back(handle: RequestHandle<RoleServer>) {
    if let Err(error) = handle.cancel(Some("the call that asked has ended".to_owned())).await {
        debug!(%error, "question not taken back");
    }
}

/// Form elicitation was the only kind once, and an empty declaration still means it.
fn can_fill_forms(context: &RequestContext<RoleServer>) -> bool {
    context
        .client_capabilities()
        .and_then(|client| client.elicitation)
        .is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

fn name_form() -> Result<InputRequest, ErrorData> {
    let requested_schema = ElicitationSchema::builder()
        .required_string_with("name", |field| field.title("Name").description("What to call you"))
        .build()
        .map_err(|error| ErrorData::internal_error(error, None))?;
    let message = "What is your name?".to_owned();
    Ok(InputRequest::Elicitation(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema,
    })))
}

/// The greeting for an `ElicitResult`.
fn greeting(answer: &Value) -> CallToolResult {
    let name = answer.pointer("/content/name").and_then(Value::as_str).map(str::trim).filter(|name| !name.is_empty());
    match (answer.get("action").and_then(Value::as_str), name) {
        (Some("accept"), Some(name)) => said(format!("Hello, {name}!")),
        (Some("accept"), None) => failed("The form came back without a name."),
        (Some("decline"), _) => said("Hello! You would rather not say your name, and that is fine."),
        (Some("cancel"), _) => said("Hello! The form was closed without an answer."),
        _ => failed("The client's answer is not a form result."),
    }
}

/// What the model said in a `CreateMessageResult`: its text blocks, one per line.
fn quoted(answer: &Value) -> CallToolResult {
    let blocks = match answer.get("content") {
        Some(Value::Array(blocks)) => blocks.as_slice(),
        Some(block) => std::slice::from_ref(block),
        None => &[],
    };
    let texts: Vec<_> = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
    if texts.is_empty() {
        return failed("The client's answer holds no text.");
    }
    let model = answer.get("model").and_then(Value::as_str).unwrap_or("an unnamed model");
    said(format!("{model} says: {}", texts.join("\n")))
}

/// The folders of a `ListRootsResult`, one per line.
fn roots(answer: &Value) -> CallToolResult {
    let Some(roots) = answer.get("roots").and_then(Value::as_array) else {
        return failed("The client's answer holds no list of roots.");
    };
    let line = |root: &Value| {
        let uri = root.get("uri").and_then(Value::as_str)?;
        Some(match root.get("name").and_then(Value::as_str) {
            Some(name) => format!("- {name}: {uri}"),
            None => format!("- {uri}"),
        })
    };
    let lines: Vec<_> = roots.iter().filter_map(line).collect();
    if lines.is_empty() { said("You work in no folder.") } else { said(format!("You work in\n{}", lines.join("\n"))) }
}
