//! The MCP Inspector's command line, a client that people really use. One process per request.

use std::process::Stdio;
use std::time::Duration;

use lb_peers::installed;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::client::Era;
use crate::compare::difference;
use crate::server::{Behind, Link, Reach};

/// How long one request may take.
const RUN_MAX: Duration = Duration::from_secs(50);

/// What was negotiated.
pub async fn greets(era: Era, behind: Behind, link: Link) {
    let hello = same(era, behind, link, &["initialize"]).await;
    assert_eq!(hello["protocolVersion"], era.revision());
}

/// The tools.
pub async fn lists(era: Era, behind: Behind, link: Link) {
    let tools = same(era, behind, link, &["tools/list"]).await;
    assert!(tools["tools"].as_array().is_some_and(|tools| 10 < tools.len()), "{tools}");
}

/// A call.
pub async fn calls(era: Era, behind: Behind, link: Link) {
    let tool: &[_] = match behind {
        Behind::Everything => &["get-sum", "--tool-args-json", r#"{"a":2,"b":3}"#],
        Behind::Fixture(_) => &["structured"],
    };
    let result = same(era, behind, link, &[&["tools/call", "--tool-name"], tool].concat()).await;
    assert!(result["content"][0].is_object(), "{result}");
}

/// A resource.
pub async fn reads(era: Era, behind: Behind, link: Link) {
    let uri = match behind {
        Behind::Everything => "demo://resource/static/document/architecture.md",
        Behind::Fixture(_) => "test://static-binary",
    };
    let read = same(era, behind, link, &["resources/read", "--uri", uri]).await;
    assert_eq!(read["contents"][0]["uri"], uri);
}

/// A prompt.
pub async fn prompts(era: Era, behind: Behind, link: Link) {
    let prompt: &[_] = match behind {
        Behind::Everything => &["args-prompt", "--prompt-args", "city=Paris"],
        Behind::Fixture(_) => &["test_prompt_with_arguments", "--prompt-args", "arg1=one", "arg2=two"],
    };
    let prompt = same(era, behind, link, &[&["prompts/get", "--prompt-name"], prompt].concat()).await;
    assert!(prompt["messages"][0].is_object(), "{prompt}");
}

/// What the Inspector prints, which must be the same through the gateway as without it.
async fn same(era: Era, behind: Behind, link: Link, request: &[&str]) -> Value {
    let reach = Reach::start(era, behind, link).await;
    let home = tempfile::tempdir().expect("a temporary folder");
    let ask = |server| print(server, era, request, home.path());
    let (direct, served, piped) = tokio::join!(ask(&reach.direct), ask(&reach.served), ask(&reach.piped));
    for (way, through) in [("through serve", served), ("through stdio", piped)] {
        if let Some(difference) = difference("", &direct, &through) {
            panic!("{request:?} {way}, and directly against that: {difference}; it said: {}", reach.gateway.said());
        }
    }
    direct
}

async fn print(server: &Value, era: Era, request: &[&str], home: &std::path::Path) -> Value {
    let node = installed::node();
    let mut command = Command::new(&node);
    command.arg(installed::file("inspector", "node_modules/.bin/mcp-inspector")).arg("--cli");
    match server["url"].as_str() {
        Some(url) => command.args([url, "--transport", "http"]),
        None => command.arg("--config").arg(config(server, home)).args(["--server", "it"]),
    };
    command.args(["--protocol-era", era.name(), "--quiet", "--method"]).args(request);
    command.env("HOME", home).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(RUN_MAX, command.output()).await;
    let output = output.unwrap_or_else(|_| panic!("{command:?} does not end")).expect("node starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{command:?}: {error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

/// A file that names one server to start; on the command line its options would be taken for the Inspector's own.
fn config(server: &Value, home: &std::path::Path) -> std::path::PathBuf {
    let text = json!({ "mcpServers": { "it": server } }).to_string();
    let mut hash = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(&text, &mut hash);
    let file = home.join(format!("{:x}.json", std::hash::Hasher::finish(&hash)));
    std::fs::write(&file, text).expect("the config is written");
    file
}
