//! Servers of a config that are kept, rest, or are a pool.

use std::time::Duration;

use lb_peers::harness::config;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::client::Client;
use crate::world::{World, descendants, until};

fn entry(world: &World, settings: Value) -> Value {
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
