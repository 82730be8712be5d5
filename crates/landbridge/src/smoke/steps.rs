//! The steps, in the order in which a client would take them.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::report::{Outcome, Report};
use crate::logs::Words;

const HEALTH_MAX: Duration = Duration::from_secs(10);
const HEALTH_EVERY: Duration = Duration::from_millis(250);
/// How long nothing is said while the server does not answer.
const SILENT_FOR: Duration = Duration::from_secs(1);
/// How long the first event of a stream may take; a server need not send any.
const PRIMING_MAX: Duration = Duration::from_secs(3);
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
        let primed = match session.primed().await {
            // Ours has all of it.
            Outcome::NotApplicable(why) if report.is_own() => Outcome::Failed(why),
            outcome => outcome,
        };
        report.add("GET opens a primed stream", primed);
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

/// Whether the server answers at all; says so when that takes long.
async fn health(client: &Client) -> Outcome {
    let mut asking = std::pin::pin!(ask_health(client));
    if let Ok(outcome) = tokio::time::timeout(SILENT_FOR, &mut asking).await {
        return outcome;
    }
    Words::info("waiting", format!("waiting for {} to answer", client.target())).say();
    asking.await
}

async fn ask_health(client: &Client) -> Outcome {
    // One that cannot be connected to will not come by being waited for: who gives a URL has started the server.
    if let Err(why) = client.reach().await {
        // One that shows a certificate runs.
        let is_away = why.starts_with("cannot connect");
        return Outcome::Failed(if is_away { format!("{why}; is the server running?") } else { why });
    }
    let until = Instant::now() + HEALTH_MAX;
    loop {
        let why = match client.get("/health").await {
            Ok(answer) if answer.status().is_success() => return Outcome::Passed(format!("HTTP {}", answer.status())),
            Ok(answer) if answer.status().is_server_error() || answer.status() == 429 => {
                format!("/health: HTTP {}", answer.status())
            }
            Ok(_) => return no_health(),
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
        Ok(answer) if answer.status().is_client_error() => no_health(),
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

/// What a server says that will not have us, and what to do about it.
fn refusal(status: StatusCode, said: Option<&Value>) -> String {
    let error = said.map(|said| &said["error"]);
    let words = error.and_then(|error| error.as_str().or_else(|| error["message"].as_str()));
    let more = said.and_then(|said| said["error_description"].as_str());
    let known = said.and_then(|said| said["available"].as_array()).map(|names| {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        format!("available: {}", names.join(", "))
    });
    let parts: Vec<String> = [words.map(str::to_owned), more.map(str::to_owned), known].into_iter().flatten().collect();
    let way = match status.as_u16() {
        401 => "; give --header 'Authorization: Bearer KEY'",
        404 if words.is_none() => "; see whether the path of the URL is right, as in /mcp",
        _ => "",
    };
    let said = if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) };
    format!("HTTP {status}{said}{way}")
}

struct Session<'a> {
    client: &'a Client,
    /// A server need not keep sessions.
    id: Option<String>,
    version: String,
}

async fn open<'a>(client: &'a Client, report: &mut Report, step: &'static str, version: &str) -> Option<Session<'a>> {
    match Session::open(client, version).await {
        Ok(session) => {
            let seen = format!("revision {}", session.version);
            let outcome = match (&session.id, report.is_own()) {
                (Some(_), _) => Outcome::Passed(seen),
                (None, true) => Outcome::Failed(format!("{seen}, without Mcp-Session-Id")),
                (None, false) => Outcome::NotApplicable(format!("{seen}; it keeps no sessions")),
            };
            report.add(step, outcome);
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
        let id = answer.header("Mcp-Session-Id").map(str::to_owned);
        let status = answer.status();
        let message = answer.message().await;
        if !status.is_success() {
            return Err(refusal(status, message.ok().as_ref()));
        }
        let message = message?;
        let result = result(&message)?;
        let version = result["protocolVersion"].as_str().ok_or("no protocolVersion in the answer")?.to_owned();
        let session = Self { client, id, version };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let accepted = session.send(Method::POST, &[("Accept", BOTH)], Some(&initialized)).await?.status();
        if accepted == 202 { Ok(session) } else { Err(format!("notifications/initialized: HTTP {accepted}")) }
    }

    async fn send(&self, method: Method, more: &[(&str, &str)], body: Option<&Value>) -> Result<Answer, String> {
        let mut headers = vec![("MCP-Protocol-Version", self.version.as_str())];
        headers.extend(self.id.as_deref().map(|id| ("Mcp-Session-Id", id)));
        headers.extend(more);
        self.client.mcp(method, &headers, body).await
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

    /// The stream of a GET begins with an event that has an id and no data, where the server has such a stream and lets
    /// clients resume it: it need not.
    async fn primed(&self) -> Outcome {
        let mut answer = match self.send(Method::GET, &[("Accept", "text/event-stream")], None).await {
            Ok(answer) => answer,
            Err(why) => return Outcome::Failed(why),
        };
        if matches!(answer.status().as_u16(), 404 | 405 | 501) {
            return Outcome::NotApplicable(format!("it has no stream to GET (HTTP {})", answer.status()));
        }
        if answer.status() != 200 || !answer.is_stream() {
            return Outcome::Failed(format!("HTTP {} instead of an event stream", answer.status()));
        }
        match tokio::time::timeout(PRIMING_MAX, answer.event()).await {
            Ok(Ok(Some(event))) if event.is_priming() => Outcome::Passed("an id before anything else".to_owned()),
            Ok(Ok(Some(_))) => Outcome::NotApplicable("its stream does not begin with a priming event".to_owned()),
            Ok(Ok(None)) => Outcome::Failed("the stream ended without an event".to_owned()),
            Ok(Err(why)) => Outcome::Failed(why),
            Err(_) => Outcome::NotApplicable(format!("its stream has no event within {} s", PRIMING_MAX.as_secs())),
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
        let none = |why: &str| Outcome::NotApplicable(why.to_owned());
        let deleted = match self.id {
            None => none("it keeps no sessions"),
            Some(_) => match self.send(Method::DELETE, &[], None).await {
                Ok(answer) if answer.status().is_success() => Outcome::Passed(format!("HTTP {}", answer.status())),
                Ok(answer) if answer.status() == 405 => none("it lets no client end a session"),
                Ok(answer) => Outcome::Failed(format!("HTTP {} instead of 200", answer.status())),
                Err(why) => Outcome::Failed(why),
            },
        };
        let is_over = matches!(deleted, Outcome::Passed(_));
        report.add(ends, deleted);
        if !is_over {
            return report.add(gone, none("the session was not ended"));
        }
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
        // Not from where a protocol is spoken: a door in front of it, or a path that is not there.
        _ => match message["error"].as_str() {
            Some(why) => Err(format!("the server says {why:?}")),
            None => Err("the answer is no response".to_owned()),
        },
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
