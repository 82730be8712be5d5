//! Servers as people use them: what they list is the same wrapped and not, and they start only when they are needed.
//!
//! A module named `peer_KEY` marks its tests as uses of that peer; `cargo xtask test` counts them.

use std::time::Duration;

use lb_peers::installed::file as installed;
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::{World, descendants, throughout, until};

const LISTS: [(&str, &str); 4] = [
    ("tools", "tools/list"),
    ("prompts", "prompts/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
];

/// The introduction and all declared lists.
async fn all(client: &mut Client) -> Vec<Value> {
    let hello = client.hello().await;
    let mut all = vec![hello.clone()];
    for (capability, method) in LISTS {
        if hello["capabilities"].get(capability).is_some() {
            all.push(client.result(method, json!({})).await);
        }
    }
    all
}

/// Compares a server with itself, wrapped; the second time nothing runs until `call` is made.
async fn check(command: Vec<String>, call: (&str, Value)) {
    let world = World::new();
    let mut direct = Client::start(&command[0], &command[1..], world.folder(), &[]);
    let want = all(&mut direct).await;
    let mut first = world.wrap_command(&[], &command);
    assert_eq!(all(&mut first).await, want, "asked");
    until("it is kept", || !world.kept().is_empty()).await;
    first.close();
    first.end().await;
    let mut second = world.wrap_command(&[], &command);
    assert_eq!(all(&mut second).await, want, "kept");
    let pid = second.pid();
    throughout(Duration::from_secs(5), "nothing runs below it", || descendants(pid).is_empty()).await;
    let params = json!({ "name": call.0, "arguments": call.1 });
    let result = second.result("tools/call", params.clone()).await;
    assert!(!descendants(pid).is_empty());
    assert!(result["content"].is_array() && result["isError"] != true, "{result}");
    second.close();
    let (status, stderr) = second.end().await;
    assert!(status.success(), "{stderr}");
}

/// A package of npm, run by the installed Node.
pub fn node(key: &str, path: &str, args: &[&str]) -> Vec<String> {
    let mut command = vec![installed("node", "node_modules/node/bin/node"), installed(key, path)];
    command.extend(args.iter().map(|arg| (*arg).to_owned()));
    command
}

mod peer_everything {
    #[tokio::test]
    async fn the_reference_server_is_the_same_wrapped() {
        let program = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        super::check(super::node("everything", program, &["stdio"]), ("echo", serde_json::json!({ "message": "x" })))
            .await;
    }
}

mod peer_servers_npm {
    use serde_json::json;

    #[tokio::test]
    async fn the_filesystem_server_is_the_same_wrapped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("text");
        let program = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
        let command = super::node("servers-npm", program, &[path]);
        super::check(command, ("list_directory", json!({ "path": path }))).await;
    }

    #[tokio::test]
    async fn the_memory_server_is_the_same_wrapped() {
        let program = "node_modules/@modelcontextprotocol/server-memory/dist/index.js";
        super::check(super::node("servers-npm", program, &[]), ("search_nodes", json!({ "query": "nothing" }))).await;
    }
}

mod peer_servers_python {
    use serde_json::json;

    use lb_peers::installed::file as installed;

    #[tokio::test]
    async fn the_time_server_is_the_same_wrapped() {
        let command = vec![installed("python", "bin/mcp-server-time"), "--local-timezone".into(), "UTC".into()];
        super::check(command, ("get_current_time", json!({ "timezone": "UTC" }))).await;
    }

    #[tokio::test]
    async fn the_git_server_is_the_same_wrapped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("text");
        let made = std::process::Command::new("git").args(["init", "-q", path]).status().expect("git is there");
        assert!(made.success());
        let command = vec![installed("servers-python", "bin/mcp-server-git")];
        super::check(command, ("git_status", json!({ "repo_path": path }))).await;
    }
}
