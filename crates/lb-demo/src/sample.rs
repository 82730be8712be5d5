//! The tool whose name the operator chooses: it shows how a tool is registered without macros.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::handler::server::router::tool::ToolRoute;
use rmcp::handler::server::tool::{ToolCallContext, schema_for_type};
use rmcp::model::{CallToolResponse, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::registry::{failed, said};
use crate::server::Demo;

/// Under this name its card is found, whatever it is called.
pub(crate) const CARD: &str = "the sample tool";

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Sample {
    /// What to print
    #[expect(dead_code, reason = "only its schema is used: the value is read as it came")]
    value: String,
}

/// The tool by this name.
pub(crate) fn route(name: &str) -> ToolRoute<Demo> {
    let schema = schema_for_type::<Sample>();
    let tool = Tool::new(name.to_owned(), "Print a test string", Arc::clone(&schema)).with_title("Sample tool");
    ToolRoute::new_dyn(tool, |call: ToolCallContext<'_, Demo>| Box::pin(std::future::ready(print(&call))))
}

fn print(call: &ToolCallContext<'_, Demo>) -> Result<CallToolResponse, ErrorData> {
    let value = call.arguments.as_ref().and_then(|arguments| arguments.get("value")).and_then(Value::as_str);
    Ok(match value {
        Some(value) => said(format!("test string print: {value}")).into(),
        None => failed("give a value, which is a string").into(),
    })
}
