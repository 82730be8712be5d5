//! The steps, in the order in which a client would take them.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::report::{Outcome, Report};

const HEALTH_MAX: Duration = Duration::from_secs(10);
const HEALTH_EVERY: Duration = Duration::from_millis(250);
const BOTH: &str = "application/json, text/event-stream";
/// Knows neither priming events nor closed streams.
const PLAIN: &str = "2025-03-26";
/// Knows both.
const RESUMING: &str = "2025-11-25";
const STEPS: u64 = 4;

/// Takes all steps.
pub async fn all(client: &Client, report: &mut Report) {
    let up = health(client).await;
    let is_up = !matches!(up, Outcome::Failed(_));
    report.add("the server is up", up);
    if !is_up {
        return;
    }
    if let Some(session) = open(client, report, "initialize gives a session", PLAIN).await {
        let tools = session.tools().await;
        report.add("add_note", session.add_note(&tools).await);
        report.add("the server is healthy", healthy(client).await);
        session.end(report, "DELETE ends the session", "its id is gone").await;
    }
    if let Some(session) = open(client, report, "initialize with resumption", RESUMING).await {
        let tools = session.tools().await;
        report.add("GET opens a primed stream", settle(session.primed().await));
        let resumed = match has(&tools, "simulate_work") {
            Ok(()) => settle(session.resume().await),
            Err(outcome) => outcome,
        };
        report.add("a closed stream is resumed", resumed);
        session.end(report, "DELETE ends that session too", "that id is gone too").await;
    }
}

fn settle(result: Result<String, String>) -> Outcome {
    match result {
        Ok(seen) => Outcome::Passed(seen),
        Err(why) => Outcome::Failed(why),
    }
}

/// Waits until the server answers at all.
async fn health(client: &Client) -> Outcome {
    let until = Instant::now() + HEALTH_MAX;
    loop {
        let why = match client.get("/health").await {
            Ok(answer) if answer.status().is_success() => return Outcome::Passed(format!("HTTP {}", answer.status())),
            Ok(answer) if answer.status() == 404 => return no_health(),
            Ok(answer) => format!("/health: HTTP {}", answer.status()),
            Err(why) => why,
        };
        if until <= Instant::now() {
            return Outcome::Failed(format!("{why}; is the server running?"));
        }
        tokio::time::sleep(HEALTH_EVERY).await;
    }
}

async fn healthy(client: &Client) -> Outcome {
    match client.get("/health").await {
        Ok(answer) if answer.status() == 404 => no_health(),
        Ok(answer) if answer.status().is_success() => match answer.message().await {
            Ok(health) => Outcome::Passed(health["status"].as_str().unwrap_or("yes").to_owned()),
            Err(_) => Outcome::Passed("yes".to_owned()),
        },
        Ok(answer) => Outcome::Failed(format!("HTTP {}", answer.status())),
        Err(why) => Outcome::Failed(why),
    }
}

fn no_health() -> Outcome {
    Outcome::NotApplicable("it has no /health".to_owned())
}

fn has(tools: &Result<Vec<String>, String>, name: &str) -> Result<(), Outcome> {
    match tools {
        Err(why) => Err(Outcome::Failed(format!("tools/list: {why}"))),
        Ok(tools) if tools.iter().any(|tool| tool == name) => Ok(()),
        Ok(_) => Err(Outcome::NotApplicable(format!("it has no tool {name}"))),
    }
}

struct Session<'a> {
    client: &'a Client,
    id: String,
    version: String,
}

async fn open<'a>(client: &'a Client, report: &mut Report, step: &'static str, version: &str) -> Option<Session<'a>> {
    match Session::open(client, version).await {
        Ok(session) => {
            report.add(step, Outcome::Passed(format!("revision {}", session.version)));
            Some(session)
        }
        Err(why) => {
            report.add(step, Outcome::Failed(why));
            None
        }
    }
}

impl<'a> Session<'a> {
    async fn open(client: &'a Client, version: &str) -> Result<Self, String> {
        let info = json!({ "name": "landbridge-smoke", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": info });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = client.mcp(Method::POST, &[("Accept", BOTH)], Some(&body)).await?;
        let status = answer.status();
        let id = answer.header("Mcp-Session-Id").map(str::to_owned);
        let message = answer.message().await?;
        let result = result(&message)?;
        let id = id.ok_or_else(|| format!("HTTP {status} without Mcp-Session-Id"))?;
        let version = result["protocolVersion"].as_str().ok_or("no protocolVersion in the answer")?.to_owned();
        let session = Self { client, id, version };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let accepted = session.send(Method::POST, &[("Accept", BOTH)], Some(&initialized)).await?.status();
        if accepted == 202 { Ok(session) } else { Err(format!("notifications/initialized: HTTP {accepted}")) }
    }

    async fn send(&self, method: Method, more: &[(&str, &str)], body: Option<&Value>) -> Result<Answer, String> {
        let own = [("Mcp-Session-Id", self.id.as_str()), ("MCP-Protocol-Version", self.version.as_str())];
        self.client.mcp(method, &[&own, more].concat(), body).await
    }

    async fn request(&self, method: &str, params: Value) -> Result<Answer, String> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.send(Method::POST, &[("Accept", BOTH)], Some(&body)).await
    }

    async fn tools(&self) -> Result<Vec<String>, String> {
        let message = self.request("tools/list", json!({})).await?.message().await?;
        let tools = result(&message)?["tools"].as_array().ok_or("no tools in the answer")?;
        Ok(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect())
    }

    async fn add_note(&self, tools: &Result<Vec<String>, String>) -> Outcome {
        if let Err(outcome) = has(tools, "add_note") {
            return outcome;
        }
        let add = async {
            let params = json!({ "name": "add_note", "arguments": { "note": "smoke test" } });
            let message = self.request("tools/call", params).await?.message().await?;
            let result = result(&message)?;
            let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
            if result["isError"] == true { Err(text) } else { Ok(text) }
        };
        settle(add.await)
    }

    /// The stream of a GET begins with an event that has an id and no data.
    async fn primed(&self) -> Result<String, String> {
        let mut answer = self.send(Method::GET, &[("Accept", "text/event-stream")], None).await?;
        if answer.status() != 200 || !answer.is_stream() {
            return Err(format!("HTTP {} instead of an event stream", answer.status()));
        }
        match answer.event().await? {
            Some(event) if event.is_priming() => Ok("an id before anything else".to_owned()),
            Some(_) => Err("the first event is no priming event".to_owned()),
            None => Err("the stream ended without an event".to_owned()),
        }
    }

    /// Work whose stream the server closes half-way, resumed to its end.
    async fn resume(&self) -> Result<String, String> {
        let arguments = json!({ "steps": STEPS, "delayMs": 50, "closeSseAfterStep": 2 });
        let params = json!({ "name": "simulate_work", "arguments": arguments, "_meta": { "progressToken": "smoke" } });
        let mut heard = Heard::default();
        heard.listen(self.request("tools/call", params).await?).await?;
        let before = heard.steps.len();
        if heard.ended.is_some() || before != 2 {
            return Err(format!("the stream was to close after step 2 of {STEPS}, and told of {before} steps"));
        }
        let resume = [("Accept", "text/event-stream"), ("Last-Event-ID", heard.last_id.as_str())];
        let again = self.send(Method::GET, &resume, None).await?;
        if again.status() != 200 {
            return Err(format!("resuming: HTTP {}", again.status()));
        }
        heard.listen(again).await?;
        let expect: Vec<_> = (1..=STEPS).collect();
        match &heard.ended {
            None => Err("the result did not come after resuming".to_owned()),
            Some(_) if heard.steps != expect => Err(format!("heard of steps {:?} instead of {expect:?}", heard.steps)),
            Some(message) => {
                result(message)?;
                Ok(format!("{before} steps before, {} after, each once", expect.len() - before))
            }
        }
    }

    async fn end(self, report: &mut Report, ends: &'static str, gone: &'static str) {
        let deleted = self.send(Method::DELETE, &[], None).await;
        report.add(ends, status(deleted, 200));
        let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} });
        let after = self.send(Method::POST, &[("Accept", BOTH)], Some(&body)).await;
        report.add(gone, status(after, 404));
    }
}

fn status(answer: Result<Answer, String>, want: u16) -> Outcome {
    match answer {
        Ok(answer) if answer.status() == want => Outcome::Passed(format!("HTTP {}", answer.status())),
        Ok(answer) => Outcome::Failed(format!("HTTP {} instead of {want}", answer.status())),
        Err(why) => Outcome::Failed(why),
    }
}

/// The result of a response, or its error in words.
fn result(message: &Value) -> Result<&Value, String> {
    match (&message["result"], &message["error"]["message"]) {
        (Value::Object(_), _) => Ok(&message["result"]),
        (_, Value::String(why)) => Err(why.clone()),
        _ => Err("the answer is no response".to_owned()),
    }
}

/// What the streams of one call told.
#[derive(Default)]
struct Heard {
    last_id: String,
    /// Steps by their progress.
    steps: Vec<u64>,
    ended: Option<Value>,
}

impl Heard {
    async fn listen(&mut self, mut answer: Answer) -> Result<(), String> {
        if !answer.is_stream() {
            return Err(format!("HTTP {} instead of an event stream", answer.status()));
        }
        while let Some(event) = answer.event().await? {
            if let Some(id) = &event.id {
                self.last_id = String::from_utf8_lossy(id).into_owned();
            }
            if event.data.is_empty() {
                continue;
            }
            let message: Value = serde_json::from_slice(&event.data).map_err(|_| "an event holds no JSON")?;
            if message["method"] == "notifications/progress" {
                self.steps.extend(message["params"]["progress"].as_f64().map(|step| step as u64));
            } else if message["id"] == 1 {
                self.ended = Some(message);
            }
        }
        Ok(())
    }
}
