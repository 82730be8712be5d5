//! Servers and settings change while it runs.

use std::sync::atomic::{AtomicBool, Ordering};

use lb_peers::procs;
use lb_peers::raw::http::{headers, post_headers};
use lb_peers::tools::ToolClient;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{PATIENCE, Run, World, arg, execute, server, servers, until};

/// What a client is told with the next reply, as type and server.
async fn told(client: &ToolClient) -> Vec<(String, String)> {
    let reply = client.call("list_servers", json!({})).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    reply.events().iter().map(|event| (text(&event["type"]), text(&event["server"]))).collect()
}

#[tokio::test]
async fn saving_the_file_adds_changes_and_removes_servers_and_leaves_the_others_alone() {
    let world = World::new();
    let config = world.servers(&json!({ "stays": server("1"), "changes": server("old"), "goes": server("1") }));
    let run = Run::start(&mut world.landbridge(&["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)]));
    let client = run.client().await;
    for name in ["stays", "changes", "goes"] {
        assert_ne!(execute(&client, name, "who", json!({})).await, "");
    }
    let before = run.said().matches("server_connected").count();
    world.servers(&json!({ "stays": server("1"), "changes": server("new"), "comes": server("1") }));
    run.says("config_reloaded", 1).await;
    assert!(run.said().contains("added=1 updated=1 removed=1 refused=0"), "{}", run.said());
    let events = told(&client).await;
    for (kind, server) in [("server_removed", "goes"), ("server_added", "comes")] {
        assert!(events.contains(&(kind.to_owned(), server.to_owned())), "{kind} of {server}: {events:?}");
    }
    assert_eq!(servers(&client).await, ["stays", "changes", "comes"]);
    assert_eq!(execute(&client, "changes", "who", json!({})).await, "new");
    assert_eq!(execute(&client, "comes", "who", json!({})).await, "1");
    assert_eq!(execute(&client, "stays", "who", json!({})).await, "1");
    let said = run.said();
    assert!(before + 2 <= said.matches("server_connected").count(), "{said}");
    let stays = |line: &&str| line.contains("server=stays") && line.contains("server_disconnected");
    assert_eq!(said.lines().find(stays), None, "what did not change was not touched");
    for event in [
        "server_config_added server=comes",
        "server_config_updated server=changes",
        "server_config_removed server=goes",
    ] {
        assert!(said.contains(event), "{event}: {said}");
    }
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_says_why() {
    let world = World::new();
    let config = world.servers(&json!({ "it": server("1") }));
    let run = Run::start(&mut world.landbridge(&["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)]));
    let client = run.client().await;
    assert_eq!(execute(&client, "it", "who", json!({})).await, "1");
    world.write("mcp.json", "{ \"mcpServers\": { \"it\": { \"command\": 7 } } }");
    run.says("config_reload_failed", 1).await;
    assert!(run.said().contains("mcpServers.it.command: must be a string"), "{}", run.said());
    assert_eq!(execute(&client, "it", "who", json!({})).await, "1");
    world.servers(&json!({ "it": server("2") }));
    run.says("config_reloaded", 1).await;
    assert_eq!(execute(&client, "it", "who", json!({})).await, "2");
}

/// Signals and saves that come faster than they are worked on, while calls run: what did not change is never disturbed,
/// what did ends as the last file says, and of what was started in between nothing is left.
#[tokio::test]
async fn a_file_that_is_gone_is_told_once_and_taken_up_when_it_is_back() {
    let world = World::new();
    let config = world.servers(&json!({ "stays": server("1") }));
    let run = Run::start(&mut world.landbridge(&["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)]));
    let client = run.client().await;
    std::fs::remove_file(&config).expect("removed");
    run.says("config_missing", 1).await;
    assert_eq!(servers(&client).await, ["stays"]);
    world.servers(&json!({ "stays": server("1"), "comes": server("1") }));
    run.says("config_reloaded", 1).await;
    assert_eq!(servers(&client).await, ["stays", "comes"]);
    assert_eq!(run.said().matches("config_missing").count(), 1, "{}", run.said());
}

#[tokio::test]
async fn a_hangup_tries_a_server_whose_program_was_not_there() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let program = world.path("late");
    let config = world.servers(&json!({ "late": { "command": program } }));
    let run = Run::start(&mut world.landbridge(&["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)]));
    let client = run.client().await;
    run.says("server_connect_failed server=late", 1).await;
    assert!(run.said().contains("next=\"tried again when it is used\""), "{}", run.said());
    let [command, args] = ["command", "args"].map(|key| server("here")[key].clone());
    let words: Vec<_> = args.as_array().expect("words").iter().filter_map(Value::as_str).collect();
    let text = format!("#!/bin/sh\nexec {} '{}'\n", command.as_str().expect("a program"), words.join("' '"));
    std::fs::write(&program, text).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    run.signal(Signal::HUP);
    run.says("server_connected server=late", 1).await;
    assert_eq!(execute(&client, "late", "who", json!({})).await, "here");
}

#[tokio::test]
async fn reloads_at_the_same_moment_end_as_the_last_file_says() {
    const LAST: usize = 12;
    let mark = format!("settings-reload-{}", std::process::id());
    let marked = |who: &str| {
        let mut entry = server(who);
        entry["env"] = json!({ "LANDBRIDGE_TEST_MARK": mark });
        entry
    };
    let world = World::new();
    let config = world.servers(&json!({ "stays": marked("s"), "changes": marked("v0") }));
    let run = Run::start(&mut world.landbridge(&["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)]));
    let (client, other) = (run.client().await, run.client().await);
    for name in ["stays", "changes"] {
        assert_ne!(execute(&client, name, "who", json!({})).await, "");
    }
    let over = AtomicBool::new(false);
    let stays = async {
        let mut calls = 0;
        while !over.load(Ordering::Relaxed) {
            assert_eq!(execute(&client, "stays", "who", json!({})).await, "s", "after {calls} calls");
            calls += 1;
        }
        calls
    };
    let changes = async {
        while !over.load(Ordering::Relaxed) {
            let reply = other.call("execute_tool", json!({ "server": "changes", "tool": "who" })).await;
            assert!(reply.is_error() || reply.text().starts_with('v'), "{reply}");
        }
    };
    let reloading = async {
        for version in 1..=LAST {
            let mut servers = json!({ "stays": marked("s"), "changes": marked(&format!("v{version}")) });
            if version % 2 == 1 {
                servers["guest"] = marked("g");
            }
            world.servers(&servers);
            run.signal(Signal::HUP);
            run.signal(Signal::HUP);
            // Let the calls on, sometimes: else all of them would be one reload.
            if version % 3 == 0 {
                run.says("config_reloaded", version / 3).await;
            }
        }
        let start = std::time::Instant::now();
        while execute(&client, "changes", "who", json!({})).await != format!("v{LAST}") {
            assert!(start.elapsed() < PATIENCE, "{}", run.said());
        }
        over.store(true, Ordering::Relaxed);
    };
    let (calls, (), ()) = tokio::join!(stays, changes, reloading);
    assert!(0 < calls);
    assert_eq!(servers(&client).await, ["stays", "changes"]);
    assert_eq!(execute(&other, "changes", "who", json!({})).await, format!("v{LAST}"));
    let said = run.said();
    let stays = |line: &&str| line.contains("server=stays") && line.contains("server_disconnected");
    assert_eq!(said.lines().find(stays), None, "what did not change was not touched");
    // Two sessions, each with the two servers that there are now, each of them with its supervisor.
    until("the old processes to be gone", || procs::marked(&mark).len(), |left| *left <= 8).await;
}

#[tokio::test]
async fn a_hangup_reloads_settings_and_names_those_that_it_cannot() {
    let world = World::new();
    let settings = world.write("landbridge.toml", "listen = \"127.0.0.1:0\"\nlog_file = \"log\"\n");
    let run = Run::start(&mut world.landbridge(&["serve", "--settings", arg(&settings)]));
    let mut asked = post_headers();
    asked.extend(headers(&[("Origin", "https://app.example")]));
    let refused = run.http().await.post("/mcp", &asked, b"{}").await.expect("an answer");
    assert_eq!(refused.head.status(), 403);
    world.write(
        "landbridge.toml",
        "listen = \"127.0.0.1:1\"\nallow_origin = [\"https://app.example\"]\nlog_level = \"debug\"\nlog_file = \"log\"\n",
    );
    run.signal(Signal::HUP);
    run.says("setting_not_reloaded", 1).await;
    assert!(run.said().contains("key=listen"), "{}", run.said());
    let allowed = run.http().await.post("/mcp", &asked, b"{}").await.expect("an answer");
    assert_eq!(allowed.head.status(), 400, "{}", allowed.text());
    run.says("DEBUG", 1).await;
    let log = || std::fs::read_to_string(world.path("log")).unwrap_or_default();
    until("the same in the file", log, |log| log.contains("DEBUG")).await;
    world.write("landbridge.toml", "port = \"none\"\n");
    run.signal(Signal::HUP);
    run.says("config_reload_failed", 1).await;
    assert!(run.said().contains("landbridge.toml:1: port: \"none\" cannot be used"), "{}", run.said());
}

#[tokio::test]
async fn a_hangup_reloads_servers_on_stdio_too() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let world = World::new();
    let config = world.servers(&json!({ "old": server("1") }));
    let mut command = world.landbridge(&["stdio", "--config", arg(&config), "--log-level", "info"]);
    let mut run = Run::start(command.stdin(std::process::Stdio::piped()));
    let mut write = run.child.stdin.take().expect("a pipe");
    let mut read = BufReader::new(run.child.stdout.take().expect("a pipe")).lines();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    write.write_all(format!("{hello}\n").as_bytes()).await.expect("written");
    assert!(read.next_line().await.expect("a line").expect("an answer").contains("protocolVersion"));
    world.servers(&json!({ "new": server("2") }));
    run.signal(Signal::HUP);
    run.says("config_reloaded", 1).await;
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "execute_tool",
        "arguments": { "server": "new", "tool": "who" } } });
    write.write_all(format!("{call}\n").as_bytes()).await.expect("written");
    let answer = loop {
        let line = read.next_line().await.expect("a line").expect("an answer");
        if line.contains("\"id\":2") {
            break line;
        }
    };
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["result"]["content"][0]["text"], "2", "{answer}");
}

#[tokio::test]
async fn the_usual_file_of_settings_may_go_and_come_while_it_runs() {
    let world = World::new();
    let config = world.servers(&json!({ "it": server("1") }));
    std::fs::create_dir_all(world.path(".config/landbridge")).expect("a folder");
    let settings = world.write(".config/landbridge/landbridge.toml", "log_level = \"debug\"\n");
    let run = Run::start(&mut world.landbridge(&["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)]));
    let client = run.client().await;
    std::fs::remove_file(&settings).expect("removed");
    run.says("config_reloaded", 1).await;
    run.signal(Signal::HUP);
    run.says("config_reloaded", 2).await;
    world.servers(&json!({ "it": server("2") }));
    run.says("config_reloaded", 3).await;
    assert_eq!(execute(&client, "it", "who", json!({})).await, "2");
    world.write(".config/landbridge/landbridge.toml", "max_sessions = 7\n");
    run.says("setting_not_reloaded", 1).await;
    assert!(run.said().contains("key=max_sessions") && !run.said().contains("config_reload_failed"), "{}", run.said());
}
