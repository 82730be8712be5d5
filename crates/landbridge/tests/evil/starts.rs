//! Servers that cannot be started or reached, and what a started one is given.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use lb_peers::harness::{Gateway, config};
use lb_peers::raw::handshake::Era;
use lb_peers::raw::http::{initialize_request, modern_headers, modern_meta, post_headers};
use lb_peers::raw::{RawHttp, RawStdio};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::desk::{Client, LANDBRIDGE, evil, mark};
use crate::procs;

/// A file of this mode that no system can run, or that asks for an interpreter nobody has.
fn script(folder: &Path, name: &str, text: &str, mode: u32) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the script is written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode is set");
    path.to_string_lossy().into_owned()
}

/// Servers that cannot be started, the reason, and words that the message must have.
fn broken(folder: &Path, mark: &str) -> Vec<(&'static str, Value, &'static str, Vec<String>)> {
    let env = json!({ "EVIL_MARK": mark });
    let plain = script(folder, "plain", "#!/bin/sh\n", 0o644);
    let odd = script(folder, "odd", "#!/no/such/interpreter\n", 0o755);
    let missing = folder.join("missing").to_string_lossy().into_owned();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        (
            "no-command",
            json!({ "command": "no-such-command-anywhere", "env": env }),
            "spawn_failed",
            words(&["no-such-command-anywhere", "not found", "PATH"]),
        ),
        ("no-file", json!({ "command": missing, "env": env }), "spawn_failed", words(&[&missing, "does not exist"])),
        (
            "no-right",
            json!({ "command": plain, "env": env }),
            "spawn_failed",
            words(&[&plain, "not executable", "chmod"]),
        ),
        ("no-interpreter", json!({ "command": odd, "env": env }), "spawn_failed", words(&[&odd, "interpreter"])),
        (
            "no-folder",
            json!({ "command": evil(), "args": ["--fault", "hang"], "cwd": missing, "env": env }),
            "spawn_failed",
            words(&[&missing, "working directory"]),
        ),
        (
            "dies",
            json!({ "command": "sh", "args": ["-c", "echo 'no license found' >&2; exit 7"], "env": env }),
            "backend_closed",
            words(&["code 7", "no license found"]),
        ),
        (
            "dies-late",
            json!({ "command": "sh", "args": ["-c", "read line; echo 'cannot parse it' >&2; exit 8"], "env": env }),
            "backend_closed",
            words(&["code 8", "cannot parse it"]),
        ),
    ]
}

fn check(name: &str, error: &Value, reason: &str, words: &[String]) {
    let message = error["message"].as_str().unwrap_or_default();
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!(reason)), "{name}: {error}");
    assert!(message.starts_with(&format!("server {name:?}: ")), "it names the server: {message}");
    for word in words {
        assert!(message.contains(word.as_str()), "{name}: {word:?} is missing in {message:?}");
    }
    if reason == "backend_closed" {
        let stderr = error["data"]["stderr"].as_str().unwrap_or_default();
        assert!(stderr.contains(words.last().expect("words")), "{name}: its stderr: {error}");
        assert!(error["data"]["exit"].as_str().is_some_and(|exit| exit.contains("code")), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_explained_and_leaves_no_session() {
    let (folder, mark) = (tempfile::tempdir().expect("a folder"), mark("starts"));
    let broken = broken(folder.path(), &mark);
    let servers: serde_json::Map<_, _> = broken.iter().map(|(name, it, ..)| ((*name).to_owned(), it.clone())).collect();
    let gateway = Gateway::serve(LANDBRIDGE, Value::Object(servers)).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    for (name, _, reason, words) in &broken {
        // Again and again the same, whoever comes first to notice the death, until it is left alone.
        for _ in 0..4 {
            let hello = initialize_request("7", "2025-11-25");
            let answer = http.post(&format!("/mcp/server/{name}"), &post_headers(), hello.as_bytes()).await;
            let answer = answer.expect("an answer");
            assert_eq!(answer.head.header("mcp-session-id"), None, "{name}: no session");
            let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(body["id"], 7, "{body}");
            check(name, &body["error"], reason, words);
        }
        let mut modern = Client::open(&gateway, name, Era::Modern).await;
        let answer = modern.call("calm", json!({})).await;
        check(name, &answer.value()["error"], reason, words);
    }
    let health = http.request("GET", "/health", &Vec::new(), b"").await.expect("health");
    let health: Value = serde_json::from_slice(&health.body).expect("JSON");
    assert_eq!(health["activeSessions"], 0, "{health}");
    procs::gone(Duration::from_secs(6), || procs::marked(&mark)).await;
    procs::gone(Duration::from_secs(1), || procs::descendants(gateway.pid())).await;
}

/// The same on stdio, where the client may try again on the same connection.
#[tokio::test]
async fn on_stdio_it_is_explained_too() {
    let (folder, mark) = (tempfile::tempdir().expect("a folder"), mark("stdio-starts"));
    for (name, it, reason, words) in broken(folder.path(), &mark) {
        let (_config, mut client) = stdio(&json!({ name: it }), &[]);
        for _ in 0..2 {
            let answer = client.ask(&initialize_request("7", "2025-11-25")).await.expect("an answer");
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            check(name, &answer["error"], reason, &words);
        }
        client.close_stdin();
        assert_eq!(client.wait().await.expect("it ends").code(), Some(0), "{name}");
    }
    procs::gone(Duration::from_secs(1), || procs::marked(&mark)).await;
}

fn stdio(servers: &Value, env: &[(&str, &str)]) -> (tempfile::TempDir, RawStdio) {
    let (folder, file) = config(servers);
    let mut command = Command::new(LANDBRIDGE);
    command.args(["stdio", "--surface", "server", "--config"]).arg(file).envs(env.iter().copied());
    (folder, RawStdio::spawn(command).expect("the gateway starts"))
}

/// The names and values that a child sees.
async fn environment(more: &Value) -> std::collections::BTreeMap<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("environment");
    let script = format!("tr '\\0' '\\n' < /proc/self/environ > '{}'; exec '{}' --fault hang", file.display(), evil());
    let entry = json!({ "command": "sh", "args": ["-c", script], "env": { "OWN": "its own", "LANG": "tlh" } });
    let given = [
        ("LANDBRIDGE_OPERATOR_TOKEN", "secret"),
        ("LANDBRIDGE_LOG_LEVEL", "error"),
        ("MCP_CONFIG_AUTH_JWT_SECRET", "secret"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("LD_LIBRARY_PATHS", "random"),
        ("HOME", "/home/somebody"),
        ("LC_TIME", "C"),
        ("XDG_STATE_HOME", "/state"),
        ("HTTPS_PROXY", "http://proxy"),
        ("LANG", "C.UTF-8"),
    ];
    let (_config, mut client) = stdio(&json!({ "it": crate::desk::with(entry, more) }), &given);
    let welcome = client.ask(&initialize_request("0", "2025-11-25")).await.expect("an answer");
    assert!(welcome.contains("protocolVersion"), "{welcome}");
    let text = std::fs::read_to_string(file).expect("the child wrote it down");
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test]
async fn a_child_sees_what_is_listed_and_nothing_else() {
    let seen = environment(&json!({})).await;
    let want = [
        ("PATH", std::env::var("PATH").expect("a PATH")),
        ("HOME", "/home/somebody".to_owned()),
        ("LC_TIME", "C".to_owned()),
        ("XDG_STATE_HOME", "/state".to_owned()),
        ("HTTPS_PROXY", "http://proxy".to_owned()),
        ("OWN", "its own".to_owned()),
        ("LANG", "tlh".to_owned()),
    ];
    for (name, value) in want {
        assert_eq!(seen.get(name), Some(&value), "{name}");
    }
    let is_own = |name: &str| name.starts_with("LANDBRIDGE_") || name.starts_with("MCP_CONFIG_");
    for name in seen.keys() {
        assert!(!is_own(name) && !name.contains("SECRET") && name != "LD_LIBRARY_PATHS", "the child sees {name}");
        assert!(!name.starts_with("CARGO_MANIFEST") && !name.starts_with("NEXTEST"), "the child sees {name}");
    }
    assert!(!seen.values().any(|value| value == "secret"));

    let seen = environment(&json!({ "inherit_env": true })).await;
    assert_eq!(seen.get("AWS_SECRET_ACCESS_KEY").map(String::as_str), Some("secret"), "all, if the operator says so");
    assert!(!seen.keys().any(|name| is_own(name)), "but never what is ours: {:?}", seen.keys());
    assert_eq!(
        (seen.get("OWN").map(String::as_str), seen.get("LANG").map(String::as_str)),
        (Some("its own"), Some("tlh"))
    );
}

/// A server that says nothing keeps nobody's process: whoever waited for it and left takes it along.
#[tokio::test]
async fn a_client_that_leaves_during_the_handshake_leaves_no_process() {
    let mark = mark("silent");
    let silent = json!({ "command": "sleep", "args": ["1000"], "env": { "EVIL_MARK": mark } });
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": silent })).await;
    for era in [Era::Legacy, Era::Modern] {
        let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
        let (headers, body) = match era {
            Era::Legacy => (post_headers(), initialize_request("7", "2025-11-25")),
            Era::Modern => {
                let meta = modern_meta("");
                let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
                (modern_headers("tools/list", None), body)
            }
        };
        http.send("POST", "/mcp/server/it", &headers, body.as_bytes()).await.expect("it reads");
        procs::until(Duration::from_secs(5), "the server is started", || !procs::marked(&mark).is_empty()).await;
        drop(http);
        procs::gone(Duration::from_secs(8), || procs::marked(&mark)).await;
    }
}

/// A server that answers the handshake and then never reads again: its callers are told, and memory has a bound.
#[tokio::test]
async fn a_server_that_does_not_read_is_an_error_and_fills_no_memory() {
    let script = r#"
        read line; id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
        echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}'
        exec sleep 1000"#;
    let entry = json!({ "command": "sh", "args": ["-c", script], "timeout_ms": 3000 });
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": entry })).await;
    let client = Client::open(&gateway, "it", Era::Legacy).await;
    let before_kib = procs::memory_kib(gateway.pid(), "VmRSS");
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..24 {
        let mut twin = client.twin(&gateway).await;
        (0..number).for_each(|_| twin.skip_id());
        calls.spawn(async move { twin.call("big", json!({ "text": "x".repeat(2 << 20) })).await });
    }
    let mut stuck = 0;
    while let Some(answer) = calls.join_next().await {
        let answer = answer.expect("an answer");
        let reason = answer.value()["error"]["data"]["reason"].clone();
        match reason.as_str() {
            Some("backend_stuck") => stuck += 1,
            _ => drop(answer.error("timeout")),
        }
    }
    assert!(0 < stuck, "48 MiB are more than may wait");
    let growth = procs::memory_kib(gateway.pid(), "VmHWM").saturating_sub(before_kib);
    assert!(growth < 128 << 10, "it grew by {growth} KiB");
    client.end().await;
    procs::gone(Duration::from_secs(8), || procs::descendants(gateway.pid())).await;
}
