//! Logs: what they say, how they look, and that they stop nobody.

use lb_peers::raw::http::{headers, post_headers};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{PATIENCE, Run, World, arg, execute, json_lines, server, until};

#[tokio::test]
async fn json_logs_are_one_object_per_line_with_the_id_of_the_request() {
    let world = World::new();
    let log = world.path("log.json");
    let args =
        ["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug", "--log-file", arg(&log)];
    let mut run = Run::start(&mut world.landbridge(&args));
    let mut http = run.http().await;
    let mut all = post_headers();
    all.extend(headers(&[("X-Request-Id", "my-own-id"), ("User-Agent", "tester/1")]));
    let reply = http.post("/mcp", &all, b"{}").await.expect("an answer");
    assert_eq!(reply.head.header("x-request-id"), Some("my-own-id"));
    let made = http.post("/mcp", &post_headers(), b"{}").await.expect("an answer");
    let made = made.head.header("x-request-id").expect("an id").to_owned();
    run.stop().await;
    let lines = json_lines(&std::fs::read_to_string(&log).expect("the log"));
    let of = |id: &str| lines.iter().find(|line| line["request"]["id"] == id && line["event"] == "answered").cloned();
    let line = of("my-own-id").unwrap_or_else(|| panic!("not logged: {lines:?}"));
    assert_eq!((&line["level"], &line["status"]), (&json!("debug"), &json!(400)));
    let request = &line["request"];
    assert_eq!((&request["agent"], &request["client"]), (&json!("tester/1"), &json!("127.0.0.1")), "{line}");
    assert!(line["elapsed"].is_string() && line["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')), "{line}");
    assert!(of(&made).is_some(), "an id that we made is logged too");
}

#[tokio::test]
async fn with_json_logs_every_line_on_stderr_is_json() {
    let world = World::new();
    let config = world.servers(&json!({ "it": server("1") }));
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", arg(&config), "--log-format", "json"];
    let mut run = Run::start(world.landbridge(&args).env("LANDBRIDGE_MAX_SESION", "1"));
    let address = run.address().await;
    world.write("mcp.json", "{ \"mcpServers\": { \"it\": { \"command\": 7 } } }");
    run.says("config_reload_failed", 1).await;
    world.servers(&json!({ "other": server("1") }));
    run.says("config_reloaded", 1).await;
    let lines = json_lines(&run.stop().await);
    let said = |event: &str, message: &str| {
        let found = |line: &&Value| line["event"] == event && line["message"].as_str().unwrap_or_default() == message;
        lines.iter().find(found).cloned().unwrap_or_else(|| panic!("{event} {message:?} is not in {lines:?}"))
    };
    let listening = said("listening", &format!("listening on http://{address}"));
    assert_eq!((&listening["servers"], &listening["level"]), (&json!(["it"]), &json!("info")));
    let typo = said("problem", "a variable of this name has no effect");
    assert_eq!((&typo["level"], &typo["key"]), (&json!("warn"), &json!("LANDBRIDGE_MAX_SESION")));
    let refused = said("problem", "must be a string, not a number");
    assert_eq!((&refused["key"], &refused["line"]), (&json!("mcpServers.it.command"), &json!(1)));
    said("stopping", "stopping; once more to stop at once");
    // Nor when it cannot start.
    let mut command = world.landbridge(&["serve", "--log-format", "json", "--max-sessions", "0"]);
    let (code, _, said) = crate::world::output(&mut command).await;
    let lines = json_lines(&said);
    assert_eq!((code, lines.len()), (Some(2), 2), "{said}");
    assert_eq!((&lines[0]["key"], &lines[1]["event"]), (&json!("--max-sessions"), &json!("failed")), "{said}");
}

#[tokio::test]
async fn the_log_file_has_the_start_the_reloads_and_the_stop() {
    let world = World::new();
    let config = world.servers(&json!({ "stays": server("1"), "goes": server("1") }));
    let log = world.path("log");
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", arg(&config), "--log-file", arg(&log)];
    let mut run = Run::start(&mut world.landbridge(&args));
    let address = run.address().await;
    world.servers(&json!({ "stays": server("2"), "comes": server("1") }));
    run.says("config_reloaded", 1).await;
    world.write("mcp.json", "{ \"mcpServers\": { \"stays\": { \"command\": 7 } } }");
    run.says("config_reload_failed", 1).await;
    run.stop().await;
    let text = std::fs::read_to_string(&log).expect("the log");
    for part in [
        &format!(" INFO listening on http://{address} version="),
        " INFO server_config_added server=comes",
        " INFO server_config_updated server=stays",
        " INFO server_config_removed server=goes",
        "ERROR must be a string, not a number file=",
        "key=mcpServers.stays.command",
        " WARN config_reload_failed",
        " INFO stopping; once more to stop at once",
        " INFO shutdown_complete",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("mcpServers\": {"), "what is for people alone is not logged: {text}");
}

#[tokio::test]
async fn a_folder_for_logs_gets_a_file_of_its_own_with_everything() {
    let world = World::new();
    let mut command = world.landbridge(&["serve", "--listen", "127.0.0.1:0"]);
    let mut run = Run::start(command.env("LANDBRIDGE_LOG_DIR", "~/logs/deep"));
    let pid = run.child.id().expect("it runs");
    run.http().await.request("GET", "/", &[], b"").await.expect("an answer");
    run.stop().await;
    let files: Vec<_> = std::fs::read_dir(world.path("logs/deep")).expect("the folder").flatten().collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let name = file.file_name().into_string().expect("text");
    assert!(name.starts_with("landbridge-2") && name.ends_with(&format!("-{pid}.log")), "{name}");
    let text = std::fs::read_to_string(file.path()).expect("the log");
    assert!(text.contains("DEBUG answered") && text.contains("shutdown_complete"), "{text}");
    assert!(!run.said().contains("DEBUG"), "stderr keeps its own level: {}", run.said());
}

#[tokio::test]
async fn a_full_disk_stops_nobody_and_is_told_once() {
    let world = World::new();
    let args = ["serve", "--listen", "127.0.0.1:0", "--log-file", "/dev/full", "--log-level", "debug"];
    let run = Run::start(&mut world.landbridge(&args));
    let mut http = run.http().await;
    for _ in 0..100 {
        let reply = http.request("GET", "/ping", &[], b"").await.expect("an answer");
        assert_eq!(reply.head.status(), 200);
    }
    run.says("the log file cannot be written (No space left on device", 1).await;
    assert_eq!(run.said().matches("the log file cannot be written").count(), 1);
}

#[tokio::test]
async fn nothing_that_a_server_or_client_says_breaks_a_line_or_moves_a_cursor() {
    let world = World::new();
    let config = world.servers(&json!({ "it": server("1") }));
    let log = world.path("log");
    let args =
        ["serve", "--listen", "127.0.0.1:0", "--config", arg(&config), "--log-level", "trace", "--log-file", arg(&log)];
    for format in ["text", "json"] {
        let mut run = Run::start(world.landbridge(&args).env("LANDBRIDGE_LOG_FORMAT", format));
        let client = run.client().await;
        let evil = "\u{1b}[2Jforged\nERROR forged\r\u{9b}31m\u{202e}";
        execute(&client, "it", "print", json!({ "to": "stderr", "line": evil })).await;
        execute(&client, "it", "print", json!({ "to": "stdout", "line": evil })).await;
        execute(&client, "it", evil, json!({ "x": evil })).await;
        execute(&client, evil, evil, json!({})).await;
        let mut all = post_headers();
        all.extend(headers(&[("User-Agent", "a\u{9b}b"), ("Mcp-Protocol-Version", "\u{202e}")]));
        run.http().await.post("/mcp?\u{9b}", &all, b"{}").await.expect("an answer");
        run.stop().await;
        let text = std::fs::read_to_string(&log).expect("the log");
        let unruly = |c: &char| (c.is_control() && *c != '\n') || "\u{202e}\u{2028}\u{9b}".contains(*c);
        assert_eq!(text.chars().find(unruly), None, "{format}");
        match format {
            "json" => assert!(json_lines(&text).iter().all(Value::is_object)),
            _ => {
                let starts = |line: &str| line.starts_with("20") && line.as_bytes().get(23) == Some(&b'Z');
                assert_eq!(text.lines().find(|line| !starts(line)), None);
            }
        }
        std::fs::remove_file(&log).expect("removed");
    }
}

/// The events that operators may build upon.
const CATALOGUE: [&str; 23] = [
    "server_connected",
    "server_disconnected",
    "server_reconnecting",
    "server_reconnect_failed",
    "tool_execution_start",
    "tool_execution_complete",
    "tool_execution_timeout",
    "task_completed",
    "task_failed",
    "elicitation_received",
    "elicitation_responded",
    "event_store_eviction",
    "session_created",
    "session_destroyed",
    "session_timeout_cleanup",
    "server_config_added",
    "server_config_updated",
    "server_config_removed",
    "shutdown_start",
    "shutdown_complete",
    "config_reloaded",
    "config_reload_failed",
    "setting_not_reloaded",
];

#[tokio::test]
async fn every_event_of_the_catalogue_is_logged_under_its_name() {
    let world = World::new();
    let config = world.servers(&json!({ "it": server("1"), "never": { "command": "false" }, "goes": server("1") }));
    let (log, settings) = (world.path("log"), world.write("landbridge.toml", "session_ttl = \"3s\"\n"));
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--settings",
        arg(&settings),
        "--config",
        arg(&config),
        "--log-file",
        arg(&log),
        "--log-format",
        "json",
        "--cleanup-interval",
        "100ms",
        "--log-level",
        "debug",
    ];
    let mut run = Run::start(&mut world.landbridge(&args));
    let mut unused = run.http().await;
    unused.initialize("/mcp", "2025-11-25").await.expect("a session");
    let client = run.client().await;
    let execute = |tool: &'static str, args: Value| {
        client.call("execute_tool", json!({ "server": "it", "tool": tool, "args": args, "timeout_ms": 200 }))
    };
    // Patient enough for the server to be connected.
    client.call("execute_tool", json!({ "server": "it", "tool": "echo", "args": {} })).await;
    let slow = execute("slow", json!({ "ms": 600 })).await;
    assert!(!slow.is_error(), "{slow}");
    execute("elicit", json!({})).await;
    let asked = client.call("get_elicitations", json!({})).await;
    let id = asked.structured()["elicitations"][0]["requestId"].as_str().expect("a question").to_owned();
    client.call("respond_to_elicitation", json!({ "request_id": id, "action": "decline" })).await;
    execute("burst", json!({ "from": 0, "count": 2_000 })).await;
    execute("hold", json!({})).await;
    execute("crash", json!({ "code": 3 })).await;
    world.servers(
        &json!({ "it": server("1"), "never": { "command": "false" }, "goes": server("2"), "comes": server("1") }),
    );
    run.says("config_reloaded", 1).await;
    world.servers(&json!({ "it": server("1"), "never": { "command": "false" } }));
    run.says("config_reloaded", 2).await;
    world.write("landbridge.toml", "session_ttl = \"4s\"\n");
    run.says("setting_not_reloaded", 1).await;
    world.write("landbridge.toml", "session_ttl = 0\n");
    run.says("config_reload_failed", 1).await;
    run.says("session_timeout_cleanup", 1).await;
    run.signal(Signal::TERM);
    tokio::time::timeout(PATIENCE, run.child.wait()).await.expect("it ends").expect("its end");
    let lines = json_lines(&std::fs::read_to_string(&log).expect("the log"));
    let seen = |name: &str| lines.iter().any(|line| line["event"] == name);
    let missing: Vec<_> = CATALOGUE.iter().filter(|name| !seen(name)).collect();
    assert!(missing.is_empty(), "never logged: {missing:?}");
}

#[tokio::test]
async fn on_stdio_logs_never_touch_stdout() {
    let world = World::new();
    let log = world.path("log");
    let mut command = world.landbridge(&["stdio", "--log-level", "trace", "--log-file", arg(&log)]);
    let (code, out, said) = crate::world::output(&mut command).await;
    assert_eq!((code, out.as_str()), (Some(0), ""), "{said}");
    let text = until("the log", || std::fs::read_to_string(&log).unwrap_or_default(), |text| !text.is_empty()).await;
    assert!(text.contains("shutdown_complete"), "{text}");
}
