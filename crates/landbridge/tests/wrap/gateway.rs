//! Servers of a config that are kept, rest, or are a pool.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lb_peers::harness::{Gateway, config};
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::Session;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::client::Client;
use crate::world::{World, descendants, is_alive, until};

pub fn entry(world: &World, settings: Value) -> Value {
    let command = world.command(json!({}));
    let mut entry = json!({ "command": command[0], "args": command[1..] });
    for (key, value) in settings.as_object().expect("an object") {
        entry[key.as_str()] = value.clone();
    }
    entry
}

fn stdio(world: &World, settings: Value, args: &[&str]) -> (tempfile::TempDir, Client) {
    let (folder, file) = config(&json!({ "it": entry(world, settings) }));
    let mut all = vec!["stdio".to_owned(), "--config".to_owned(), file.to_string_lossy().into_owned()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    (folder, Client::start(LANDBRIDGE, &all, world.folder(), &[]))
}

#[tokio::test]
async fn a_cached_server_of_a_config_is_listed_without_its_process_as_a_tool_and_by_itself() {
    let world = World::new();
    for (round, args) in [(0, &[][..]), (1, &["--server", "it"]), (2, &[]), (3, &["--server", "it"])] {
        let (_folder, mut client) = stdio(&world, json!({ "cached": true }), args);
        client.hello().await;
        let listed = if args.is_empty() {
            client.tool("list_tools", json!({ "server": "it" })).await
        } else {
            client.result("tools/list", json!({})).await.to_string()
        };
        assert!(listed.contains("echo"), "{listed}");
        let starts = if round == 0 { 1 } else { 2 };
        assert_eq!(world.starts(), starts, "round {round}: each kind of client asks once");
        let want = starts;
        until("it is kept", || {
            world.kept().iter().any(|file| {
                let text = std::fs::read_to_string(file).unwrap_or_default();
                let kept: Value = serde_json::from_str(&text).unwrap_or_default();
                kept["kept"].as_array().is_some_and(|kept| kept.len() == want)
            })
        })
        .await;
        client.close();
        client.end().await;
    }
}

#[tokio::test]
async fn what_is_kept_for_the_tools_in_one_era_leaves_clients_of_the_other_theirs() {
    let world = World::new();
    let command = world.command(json!({ "modern": "both" }));
    let both = json!({ "args": command[1..], "cached": true });
    let (_folder, mut client) = stdio(&world, both.clone(), &[]);
    let call = json!({ "name": "list_tools", "arguments": { "server": "it" } });
    let listed = client.modern("tools/call", call).await;
    assert!(listed.to_string().contains("echo"), "{listed}");
    until("it is kept", || !world.kept().is_empty()).await;
    assert!(!world.noted("request server/discover").is_empty() && world.noted("hello ").is_empty());
    client.close();
    client.end().await;
    let (_folder, mut client) = stdio(&world, both, &["--server", "it"]);
    client.hello().await;
    client.tool("echo", json!({})).await;
    assert_eq!(world.noted("hello tester").len(), 1, "a legacy client is greeted in its own era");
}

#[tokio::test]
async fn an_idle_server_behind_the_tools_rests_without_being_lost() {
    let world = World::new();
    let (_folder, mut client) = stdio(&world, json!({ "idle_timeout": 1 }), &[]);
    client.hello().await;
    let call = json!({ "server": "it", "tool": "echo", "arguments": { "a": 1 } });
    client.tool("execute_tool", call.clone()).await;
    let pid = client.pid();
    until("nothing runs below it", || descendants(pid).is_empty()).await;
    let servers = client.tool("list_servers", json!({})).await;
    assert!(servers.contains("not_connected"), "{servers}");
    let told = client.tool("get_notifications", json!({})).await;
    assert!(!told.contains("disconnected") && !told.contains("server_lost"), "{told}");
    let starts = world.starts();
    tokio::time::timeout(Duration::from_secs(2), until("it starts again by itself", || starts < world.starts()))
        .await
        .expect_err("nobody needs it");
    client.tool("execute_tool", call).await;
    assert_eq!(world.starts(), starts + 1);
}

/// A gateway in front of one server, with caches in the folder of the test.
pub async fn serve(world: &World, entry: Value) -> Gateway {
    serve_file(world, entry).await.0
}

/// The same with the config.
pub async fn serve_file(world: &World, entry: Value) -> (Gateway, PathBuf) {
    let (folder, file) = config(&json!({ "it": entry }));
    let mut command = tokio::process::Command::new(LANDBRIDGE);
    command.args(["serve", "--surface", "server", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    // The same at each start: what a server sees of it tells one server from another.
    command.env("XDG_CACHE_HOME", world.folder()).env("XDG_STATE_HOME", world.folder());
    command.stdin(std::process::Stdio::null());
    (Gateway::launch(command, folder).await, file)
}

pub const PATH: &str = "/mcp/server/it";

/// A session of a gateway, on a connection of its own.
pub struct Guest {
    http: RawHttp,
    path: &'static str,
    session: Session,
    welcome: Value,
}

impl Guest {
    async fn new(gateway: &Gateway) -> Self {
        Self::at(gateway, PATH).await
    }

    /// On this path.
    pub async fn at(gateway: &Gateway, path: &'static str) -> Self {
        let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
        let session = http.initialize(path, "2025-11-25").await.expect("a session");
        let welcome = serde_json::from_slice(&session.response.body).expect("JSON");
        Self { http, path, session, welcome }
    }

    /// The whole answer to a request.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let response = self.http.post(self.path, &self.session.headers(), request.as_bytes()).await.expect("an answer");
        let text = match response.events().last() {
            Some(event) => event.text(),
            None => response.text(),
        };
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    async fn pid(&mut self) -> u32 {
        let answer = self.ask("tools/call", json!({ "name": "pid", "arguments": {} })).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        text.parse().expect("a process id")
    }

    /// Ends the session.
    pub async fn leave(mut self) {
        self.http.request("DELETE", self.path, &self.session.headers(), b"").await.expect("an answer");
    }
}

#[tokio::test]
async fn a_pool_of_two_serves_four_sessions_with_two_processes_which_end_with_their_sessions() {
    let world = World::new();
    let gateway = serve(&world, entry(&world, json!({ "isolation": "shared", "pool": 2 }))).await;
    let mut by_process: BTreeMap<u32, Vec<Guest>> = BTreeMap::new();
    for _ in 0..4 {
        let mut guest = Guest::new(&gateway).await;
        let pid = guest.pid().await;
        by_process.entry(pid).or_default().push(guest);
    }
    assert_eq!(by_process.values().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    for _ in 0..3 {
        for (pid, guests) in &mut by_process {
            for guest in guests {
                assert_eq!(guest.pid().await, *pid, "a session stays where it is");
            }
        }
    }
    assert_eq!(world.starts(), 2);
    let (first, mut guests) = by_process.pop_first().expect("a process");
    let (second, others) = by_process.pop_first().expect("another");
    guests.pop().expect("a session").leave().await;
    let mut last = guests.pop().expect("a session");
    assert_eq!(last.pid().await, first, "one session is left");
    last.leave().await;
    until("a process that nobody shares is ended", || !is_alive(first)).await;
    assert!(is_alive(second), "the other one is shared");
    for guest in others {
        guest.leave().await;
    }
    until("nothing runs below it", || descendants(gateway.pid()).is_empty()).await;
    let pid = Guest::new(&gateway).await.pid().await;
    assert!(pid != first && pid != second && world.starts() == 3, "who comes later has a new one");
}

#[tokio::test]
async fn a_cached_server_on_http_is_introduced_and_listed_while_it_is_down() {
    let world = World::new();
    let mut upstream = Gateway::serve(LANDBRIDGE, json!({ "far": entry(&world, json!({})) })).await;
    let remote = json!({ "url": upstream.url("far"), "cached": true });
    let first = serve(&world, remote.clone()).await;
    let mut guest = Guest::new(&first).await;
    let (welcome, tools) = (guest.welcome.clone(), guest.ask("tools/list", json!({})).await);
    assert!(tools["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{tools}");
    until("it is kept", || !world.kept().is_empty()).await;
    drop((guest, first));
    upstream.child().kill().await.expect("it is ours");
    let second = serve(&world, remote).await;
    let mut guest = Guest::new(&second).await;
    assert_eq!(guest.welcome, welcome);
    assert_eq!(guest.ask("tools/list", json!({})).await, tools);
    let answer = guest.ask("tools/call", json!({ "name": "echo", "arguments": {} })).await;
    assert!(answer["error"]["message"].is_string(), "a call needs the server: {answer}");
}
