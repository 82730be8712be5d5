//! What servers as people use them offer: all of it through `wrap`, with the same answers as without.
//!
//! A tour is a walk through what a server has. It is made on the server itself and then on the wrapped one, which was
//! started before and so begins from what was kept; what was seen must be the same, as whole objects.

use std::time::Duration;

use lb_peers::installed::file as installed;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::client::Client;
use crate::real::node;
use crate::world::{World, until};

/// A client on its way, and what it saw.
pub struct Tour {
    pub client: Client,
    seen: Vec<(String, Value)>,
}

impl Tour {
    /// Introduces a client that can do everything.
    async fn start(mut client: Client) -> Self {
        let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": { "listChanged": true } });
        let hello = client.hello_with(capabilities, "2025-11-25").await;
        Self { client, seen: vec![("initialize".to_owned(), hello)] }
    }

    /// Keeps what was seen for the comparison.
    pub fn note(&mut self, what: &str, value: Value) {
        self.seen.push((what.to_owned(), value));
    }

    /// Sends a request and keeps its answer, error or not.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.client.request(method, params.clone()).await;
        // Two clients need not count alike.
        answer["id"] = Value::Null;
        self.note(&format!("{method} {params}"), answer.clone());
        answer
    }

    /// Calls a tool and keeps its answer, error or not.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool whose answer is never the same twice; gives its text.
    pub async fn text(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.client.request("tools/call", params).await;
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{tool}: {answer}")).to_owned()
    }

    /// Answers the next question of the server, and keeps what it asked.
    pub async fn answer(&mut self, method: &str, result: Value) {
        let mut asked = self.client.find(|message| message["method"] == method && message.get("id").is_some()).await;
        self.client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
        asked["id"] = Value::Null;
        self.note(method, asked);
    }

    /// Waits for what the server tells, and keeps it.
    pub async fn told(&mut self, method: &str) -> Value {
        let told = self.client.find(|message| message["method"] == method).await;
        self.note(method, told.clone());
        told
    }

    /// Tells the server something.
    pub async fn tell(&mut self, method: &str) {
        self.client.send(json!({ "jsonrpc": "2.0", "method": method })).await;
    }

    /// Ends the client and gives what it saw.
    async fn end(mut self) -> Vec<(String, Value)> {
        self.client.close();
        let (status, stderr) = self.client.end().await;
        assert!(status.success(), "{stderr}");
        self.seen
    }
}

/// Makes a tour of a command, direct and wrapped, each time in what `prepare` makes.
pub async fn same(command: &[String], env: &[(&str, &str)], prepare: impl Fn(), tour: impl AsyncFn(&mut Tour)) {
    let world = World::new();
    let walk = async |client: Client| {
        prepare();
        let mut walk = Tour::start(client).await;
        let walked = tokio::time::timeout(Duration::from_secs(50), tour(&mut walk)).await;
        assert!(walked.is_ok(), "it ends; seen: {:#?}", walk.seen);
        walk
    };
    // Some go on for as long as one of their timers does; it is killed.
    let direct = walk(Client::start(&command[0], &command[1..], world.folder(), env)).await.seen;
    let wrapped = || {
        let args: Vec<String> = ["wrap"].into_iter().map(str::to_owned).chain(command.iter().cloned()).collect();
        Client::start(LANDBRIDGE, &args, world.folder(), env)
    };
    let mut first = wrapped();
    first.hello().await;
    first.result("tools/list", json!({})).await;
    until("it is kept", || !world.kept().is_empty()).await;
    first.close();
    first.end().await;
    let seen = walk(wrapped()).await.end().await;
    for ((what, want), (also, got)) in direct.iter().zip(&seen) {
        assert_eq!(what, also, "the same way");
        assert_eq!(want, got, "{what}");
    }
    assert_eq!(direct.len(), seen.len());
}

mod peer_servers_npm {
    use super::*;

    #[tokio::test]
    async fn all_of_the_filesystem_server_is_there_wrapped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
        let (own, other) = (path("own"), path("other"));
        let program = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
        let command = node("servers-npm", program, &[&own]);
        let prepare = || {
            for path in [&own, &other] {
                if std::path::Path::new(path).exists() {
                    std::fs::remove_dir_all(path).expect("it can be emptied");
                }
                std::fs::create_dir(path).expect("a folder");
            }
        };
        // It asks first, whoever wraps it.
        let tour = async |tour: &mut Tour| files(tour, &own, &other).await;
        same(&command, &[], prepare, tour).await;
    }

    /// Writes, reads, finds and moves files, and is moved to another folder by the client's roots.
    async fn files(tour: &mut Tour, own: &str, other: &str) {
        tour.ask("tools/list", json!({})).await;
        // Wrapped it is started by this call, and asks then.
        let first = tour.client.ask("tools/call", json!({ "name": "list_allowed_directories", "arguments": {} })).await;
        tour.answer("roots/list", json!({ "roots": [{ "uri": format!("file://{own}") }] })).await;
        tour.client.answer(&first).await;
        let file = |name: &str| format!("{own}/{name}");
        tour.call("write_file", json!({ "path": file("a.txt"), "content": "one\ntwo\nthree\n" })).await;
        tour.call("read_text_file", json!({ "path": file("a.txt"), "head": 2 })).await;
        let edits = json!([{ "oldText": "two", "newText": "2" }]);
        tour.call("edit_file", json!({ "path": file("a.txt"), "edits": edits, "dryRun": true })).await;
        tour.call("edit_file", json!({ "path": file("a.txt"), "edits": edits })).await;
        tour.call("create_directory", json!({ "path": file("below") })).await;
        tour.call("move_file", json!({ "source": file("a.txt"), "destination": file("below/b.txt") })).await;
        tour.call("list_directory_with_sizes", json!({ "path": file("below") })).await;
        tour.call("directory_tree", json!({ "path": own })).await;
        tour.call("search_files", json!({ "path": own, "pattern": "**/*.txt" })).await;
        tour.call("read_multiple_files", json!({ "paths": [file("below/b.txt"), file("none")] })).await;
        tour.call("read_media_file", json!({ "path": file("below/b.txt") })).await;
        assert!(tour.text("get_file_info", json!({ "path": file("below/b.txt") })).await.contains("size: 12"));
        let denied = tour.call("read_text_file", json!({ "path": format!("{other}/x") })).await;
        assert_eq!(denied["result"]["isError"], true, "{denied}");
        tour.tell("notifications/roots/list_changed").await;
        tour.answer("roots/list", json!({ "roots": [{ "uri": format!("file://{other}"), "name": "other" }] })).await;
        // It looks at them before it takes them up.
        while !tour.text("list_allowed_directories", json!({})).await.contains(other) {}
        let moved = json!({ "path": format!("{other}/c.txt"), "content": "there" });
        let written = tour.call("write_file", moved).await;
        assert_ne!(written["result"]["isError"], true, "{written}");
        tour.call("list_allowed_directories", json!({})).await;
        let denied = tour.call("read_text_file", json!({ "path": file("below/b.txt") })).await;
        assert_eq!(denied["result"]["isError"], true, "{denied}");
    }

    #[tokio::test]
    async fn all_of_the_memory_server_is_there_wrapped() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("graph.jsonl");
        let program = "node_modules/@modelcontextprotocol/server-memory/dist/index.js";
        let command = node("servers-npm", program, &[]);
        let prepare = || {
            if file.exists() {
                std::fs::remove_file(&file).expect("it can be removed");
            }
        };
        let env = [("MEMORY_FILE_PATH", file.to_str().expect("text"))];
        same(&command, &env, prepare, graph).await;
        assert!(file.exists(), "the variable reaches it wrapped, too");
    }

    /// Builds a graph, hears that the resource has changed, reads it, and takes it down.
    async fn graph(tour: &mut Tour) {
        let uri = json!({ "uri": "memory://knowledge-graph" });
        tour.ask("tools/list", json!({})).await;
        tour.ask("resources/list", json!({})).await;
        tour.ask("resources/subscribe", uri.clone()).await;
        let ada = json!({ "name": "Ada", "entityType": "person", "observations": ["counts"] });
        let engine = json!({ "name": "Engine", "entityType": "machine", "observations": [] });
        tour.call("create_entities", json!({ "entities": [ada, engine] })).await;
        tour.told("notifications/resources/updated").await;
        let relation = json!([{ "from": "Ada", "to": "Engine", "relationType": "writes for" }]);
        tour.call("create_relations", json!({ "relations": relation })).await;
        tour.told("notifications/resources/updated").await;
        let more = json!([{ "entityName": "Ada", "contents": ["writes"] }]);
        tour.call("add_observations", json!({ "observations": more })).await;
        tour.told("notifications/resources/updated").await;
        let read = tour.ask("resources/read", uri.clone()).await;
        assert!(read["result"]["contents"][0]["text"].as_str().is_some_and(|text| text.contains("writes for")));
        tour.call("search_nodes", json!({ "query": "machine" })).await;
        tour.call("open_nodes", json!({ "names": ["Ada"] })).await;
        tour.ask("resources/unsubscribe", uri).await;
        tour.call("delete_relations", json!({ "relations": relation })).await;
        tour.call("delete_observations", json!({ "deletions": [{ "entityName": "Ada", "observations": ["counts"] }] }))
            .await;
        tour.call("delete_entities", json!({ "entityNames": ["Engine"] })).await;
        tour.call("read_graph", json!({})).await;
        tour.call("add_observations", json!({ "observations": [{ "entityName": "Nobody", "contents": [] }] })).await;
        assert_eq!(tour.client.heard("notifications/resources/updated"), 0, "nothing after it has unsubscribed");
    }
}

mod peer_servers_python {
    use super::*;

    #[tokio::test]
    async fn all_of_the_time_server_is_there_wrapped() {
        let command = vec![installed("python", "bin/mcp-server-time"), "--local-timezone".into(), "UTC".into()];
        same(&command, &[], || (), times).await;
    }

    async fn times(tour: &mut Tour) {
        for list in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            tour.ask(list, json!({})).await;
        }
        assert!(tour.text("get_current_time", json!({ "timezone": "Asia/Tokyo" })).await.contains("+09:00"));
        let times = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
        assert!(tour.text("convert_time", times).await.contains("+9.0h"));
        let refused = tour.call("get_current_time", json!({ "timezone": "No/Where" })).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        tour.call("convert_time", json!({ "time": "noon" })).await;
        tour.ask("prompts/get", json!({ "name": "none" })).await;
    }

    #[tokio::test]
    async fn all_of_the_git_server_is_there_wrapped() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("repository");
        let path = place.to_str().expect("text");
        let prepare = || {
            if place.exists() {
                std::fs::remove_dir_all(&place).expect("it can be removed");
            }
            for args in [
                vec!["init", "-q", "-b", "main", path],
                vec!["-C", path, "config", "user.name", "Ada"],
                vec!["-C", path, "config", "user.email", "ada@example.com"],
            ] {
                let made = std::process::Command::new("git").args(args).status().expect("git is there");
                assert!(made.success());
            }
            std::fs::write(place.join("a.txt"), "one\n").expect("a file");
        };
        let command = vec![installed("servers-python", "bin/mcp-server-git")];
        same(&command, &[], prepare, async |tour: &mut Tour| commits(tour, path).await).await;
    }

    /// What a commit is named by depends on the time: it is looked at, not compared.
    async fn commits(tour: &mut Tour, path: &str) {
        let with = |more: Value| {
            let mut arguments = more;
            arguments["repo_path"] = json!(path);
            arguments
        };
        tour.ask("tools/list", json!({})).await;
        tour.call("git_status", with(json!({}))).await;
        tour.call("git_add", with(json!({ "files": ["a.txt"] }))).await;
        tour.call("git_diff_staged", with(json!({}))).await;
        assert!(tour.text("git_commit", with(json!({ "message": "begin" }))).await.contains("committed"));
        assert!(tour.text("git_log", with(json!({ "max_count": 1 }))).await.contains("begin"));
        assert!(tour.text("git_show", with(json!({ "revision": "HEAD" }))).await.contains("+one"));
        std::fs::write(format!("{path}/a.txt"), "two\n").expect("a file");
        tour.call("git_diff_unstaged", with(json!({ "context_lines": 1 }))).await;
        tour.call("git_diff", with(json!({ "target": "HEAD" }))).await;
        tour.call("git_add", with(json!({ "files": ["a.txt"] }))).await;
        tour.call("git_reset", with(json!({}))).await;
        tour.call("git_status", with(json!({}))).await;
        tour.call("git_create_branch", with(json!({ "branch_name": "side" }))).await;
        tour.call("git_checkout", with(json!({ "branch_name": "side" }))).await;
        tour.call("git_branch", with(json!({ "branch_type": "local" }))).await;
        let refused = tour.call("git_show", with(json!({ "revision": "none" }))).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
    }
}
