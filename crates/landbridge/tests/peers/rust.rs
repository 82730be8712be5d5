//! The Rust SDK as a client: the same steps and the same document as the scripts.

#![expect(deprecated, reason = "sampling and roots are deprecated by the protocol, and still to be carried")]

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, ErrorData, Implementation, ListRootsResult,
    ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Notify;

/// How long one step may take.
const PATIENCE: Duration = Duration::from_secs(40);

type Running = RunningService<RoleClient, Watcher>;

/// Does all runs side by side.
pub async fn run(runs: &Value) -> Vec<Value> {
    let [one, two, three] = runs.as_array().map(Vec::as_slice).expect("runs") else { panic!("three runs") };
    let (one, two, three) = tokio::join!(observe(one), observe(two), observe(three));
    vec![one, two, three]
}

async fn observe(run: &Value) -> Value {
    let watcher =
        Watcher { seen: Arc::new(Mutex::new(Seen::default())), news: Arc::default(), run: Arc::new(run.clone()) };
    let mut document = json!({ "steps": [] });
    if let Err(problem) = follow(run, &watcher, &mut document).await {
        document["failure"] = problem.into();
    }
    document
}

async fn follow(run: &Value, watcher: &Watcher, document: &mut Value) -> Result<(), String> {
    let connected = tokio::time::timeout(PATIENCE, connect(run, watcher.clone())).await;
    let client = connected.map_err(|_| "no end of connecting")??;
    let info = client.peer().peer_info().ok_or("no peer info")?;
    document["server"] = json!({
        "revision": info.protocol_version,
        "info": info.server_info,
        "capabilities": info.capabilities,
        "instructions": info.instructions,
    });
    for step in run["steps"].as_array().into_iter().flatten() {
        watcher.seen().record = json!({ "step": step, "asks": [], "progress": [] });
        let taken = tokio::time::timeout(PATIENCE, take(&client, step, watcher)).await;
        let outcome = taken.map_err(|_| format!("no end of {step}"))?;
        let mut record = watcher.seen().record.take();
        match outcome {
            Ok(result) => record["result"] = result,
            Err(ServiceError::McpError(error)) => record["error"] = value(&error),
            Err(error) => return Err(format!("{step}: {error}")),
        }
        document["steps"].as_array_mut().ok_or("steps")?.push(record);
    }
    client.cancel().await.map(drop).map_err(|error| error.to_string())
}

async fn connect(run: &Value, watcher: Watcher) -> Result<Running, String> {
    let lifecycle = match run["era"].as_str() {
        Some("modern") => {
            ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }
        }
        _ => ClientLifecycleMode::Initialize,
    };
    let server = &run["server"];
    let client = match server["url"].as_str() {
        Some(url) => watcher.serve_with_lifecycle(StreamableHttpClientTransport::from_uri(url), lifecycle).await,
        None => {
            let mut command = Command::new(server["command"].as_str().unwrap_or_default());
            command.args(server["args"].as_array().into_iter().flatten().filter_map(Value::as_str));
            let child = TokioChildProcess::new(command).map_err(|error| error.to_string())?;
            watcher.serve_with_lifecycle(child, lifecycle).await
        }
    };
    client.map_err(|error| error.to_string())
}

async fn take(client: &Running, step: &Value, watcher: &Watcher) -> Result<Value, ServiceError> {
    Ok(match step["do"].as_str().unwrap_or_default() {
        "list" => match step["what"].as_str().unwrap_or_default() {
            "tools" => value(&client.list_tools(None).await?),
            "prompts" => value(&client.list_prompts(None).await?),
            "resources" => value(&client.list_resources(None).await?),
            _ => value(&client.list_resource_templates(None).await?),
        },
        "read" => value(&client.read_resource(params(step, &["uri"])).await?),
        "prompt" => value(&client.get_prompt(params(step, &["name", "arguments"])).await?),
        "complete" => value(&client.complete(params(step, &["ref", "argument"])).await?),
        "call" => value(&client.call_tool(params(step, &["name", "arguments"])).await?),
        "await" => watcher.asked(step["method"].as_str().unwrap_or_default()).await,
        "cancel" => cancel(client, step, watcher).await?,
        "counters" => counters(client, step["tool"].as_str().unwrap_or_default()).await?,
        other => panic!("unknown step {other}"),
    })
}

/// Calls a tool, cancels the call at its first progress, and says what that progress was.
async fn cancel(client: &Running, step: &Value, watcher: &Watcher) -> Result<Value, ServiceError> {
    let call: CallToolRequestParams = params(step, &["name", "arguments"]);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(call));
    let mut handle = client.peer().send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let first = tokio::select! {
        result = &mut handle.rx => return Ok(json!({ "uncancelled": format!("{result:?}") })),
        first = watcher.progressed() => first,
    };
    handle.cancel(Some("enough".into())).await?;
    Ok(json!({ "first": first }))
}

/// How often the server started, finished and stopped a tool, once it has stopped one.
async fn counters(client: &Running, tool: &str) -> Result<Value, ServiceError> {
    loop {
        let result = client.call_tool(CallToolRequestParams::new("counters")).await?;
        let tally = &result.structured_content.unwrap_or_default()[tool];
        if tally["cancelled"].as_u64().is_some_and(|count| 0 < count) {
            return Ok(tally.clone());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("models are JSON")
}

/// Parameters of the SDK's own type, from members of a step.
fn params<T: DeserializeOwned>(step: &Value, members: &[&str]) -> T {
    let members = members.iter().map(|name| ((*name).to_owned(), step[*name].clone())).collect();
    serde_json::from_value(Value::Object(members)).expect("the plan fits the SDK")
}

/// What a run saw.
#[derive(Debug, Default)]
struct Seen {
    /// Of the step that is running; null between steps.
    record: Value,
    /// Asked outside of any call.
    unsolicited: Vec<Value>,
}

/// The client's side of the conversation.
#[derive(Clone, Debug)]
struct Watcher {
    seen: Arc<Mutex<Seen>>,
    news: Arc<Notify>,
    run: Arc<Value>,
}

impl Watcher {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no panic holds it")
    }

    /// Notes a question of the server and answers it as the scenario says.
    fn ask<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, ErrorData> {
        let mut seen = self.seen();
        let ask = json!({ "method": method, "params": params });
        let own = seen.record["step"]["answers"].get(method).cloned();
        let during_call = !seen.record.is_null() && seen.record["step"]["do"] != "await";
        match seen.record["asks"].as_array_mut().filter(|_| during_call) {
            Some(asks) => asks.push(ask),
            None => seen.unsolicited.push(ask),
        }
        drop(seen);
        self.news.notify_waiters();
        let answer = own.unwrap_or_else(|| self.run["answers"][method].clone());
        serde_json::from_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    /// The first question of this kind outside of any call.
    async fn asked(&self, method: &str) -> Value {
        self.when(|seen| seen.unsolicited.iter().find(|ask| ask["method"] == method).cloned()).await
    }

    /// The first progress of the step that is running.
    async fn progressed(&self) -> Value {
        self.when(|seen| seen.record["progress"].as_array_mut()?.drain(..).next()).await
    }

    async fn when(&self, mut found: impl FnMut(&mut Seen) -> Option<Value>) -> Value {
        loop {
            let news = self.news.notified();
            if let Some(found) = found(&mut self.seen()) {
                return found;
            }
            news.await;
        }
    }
}

impl ClientHandler for Watcher {
    fn get_info(&self) -> ClientConfig {
        let capabilities = serde_json::from_value(self.run["capabilities"].clone()).expect("capabilities fit the SDK");
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.ask("elicitation/create", value(&request))
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.ask("sampling/createMessage", value(&request))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.ask("roots/list", Value::Null)
    }

    /// This SDK wants progress of every request; only what the step asked for is noted.
    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let mut seen = self.seen();
        let wanted = seen.record["step"]["progress"] == true || seen.record["step"]["do"] == "cancel";
        if let Some(reports) = seen.record["progress"].as_array_mut().filter(|_| wanted) {
            reports.push(json!({ "progress": report.progress, "total": report.total, "message": report.message }));
        }
        drop(seen);
        self.news.notify_waiters();
    }
}
