//! What the binary says to a command line that it cannot follow, and with which code it ends.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use lb_peers::harness::config;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::LANDBRIDGE;

/// Longer than a start or a failure should take.
const PATIENCE: Duration = Duration::from_secs(20);

fn landbridge(args: &[&str]) -> Command {
    let mut command = Command::new(LANDBRIDGE);
    command.args(args).env_remove("LANDBRIDGE_LOG_LEVEL").env_remove("LANDBRIDGE_CONFIG_FILE");
    command.env("LANDBRIDGE_DATA", "none");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// The command ends by itself with this code and says this.
async fn ends(command: &mut Command, code: i32, says: &str) {
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("its output");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
    assert!(said.contains(says), "{command:?} says {said}");
}

/// What it says at its start, up to the last line of the banner.
async fn banner(command: &mut Command) -> String {
    let mut child = command.spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let mut said = String::new();
    while !said.contains("Stop with Ctrl-C.") {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("text");
        said += &(line.unwrap_or_else(|| panic!("ended after {said}")) + "\n");
    }
    said
}

#[tokio::test]
async fn the_demo_listens_where_it_is_told() {
    let said = banner(&mut landbridge(&["--listen", "127.0.0.1:0"])).await;
    assert!(said.contains("listening on http://127.0.0.1:") && !said.contains(":8080"), "{said}");
}

/// The variables once counted for `serve` alone, and a mistake was told of a flag that nobody had given.
#[tokio::test]
async fn the_teaching_server_listens_where_variables_and_flags_say() {
    let free = || TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its address").port();
    let port = free().to_string();
    let said = banner(landbridge(&["demo", "--http"]).env("PORT", &port)).await;
    assert!(said.contains(&format!("listening on http://127.0.0.1:{port}\n")), "{said}");
    let said = banner(landbridge(&["demo", "--http", "127.0.0.1:0"]).env("PORT", &port)).await;
    assert!(!said.contains(&format!(":{port}\n")), "a flag is stronger: {said}");
    let said = banner(&mut landbridge(&["serve", "--port", "0"])).await;
    assert!(said.contains("listening on http://127.0.0.1:") && !said.contains(":0\n"), "{said}");
    for flag in ["--http", "--listen"] {
        ends(&mut landbridge(&["demo", flag, "8302"]), 2, &format!("error: {flag}: \"8302\" cannot be used")).await;
    }
    ends(landbridge(&["serve"]).env("PORT", "0"), 2, "error: PORT: \"0\" cannot be used").await;
}

#[tokio::test]
async fn a_server_that_wants_a_key_is_tried_with_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys").display().to_string();
    let made = landbridge(&["auth", "key", "new", "me", "--file", &keys]).stdout(Stdio::piped()).output().await;
    let key = String::from_utf8(made.expect("its output").stdout).expect("text");
    let mut command = landbridge(&["serve", "--listen", "127.0.0.1:0", "--auth", "keys", &keys]);
    let mut child = command.spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let url = loop {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("text");
        let line = line.expect("it runs");
        if let Some(root) = line.strip_prefix("listening on ") {
            break format!("{root}/mcp");
        }
    };
    let said =
        |output: std::process::Output| (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned());
    let tried = landbridge(&["smoke", &url]).stdout(Stdio::piped()).output().await.expect("its output");
    let (code, text) = said(tried);
    assert!(code == Some(1) && text.contains("HTTP 401 Unauthorized") && text.contains("--header"), "{text}");
    let header = format!("Authorization: Bearer {}", key.trim());
    let tried = landbridge(&["smoke", &url, "--header", &header]).stdout(Stdio::piped()).output().await;
    let (code, text) = said(tried.expect("its output"));
    assert!(code == Some(0) && text.contains(" 0 failed"), "{text}");
}

#[tokio::test]
async fn listening_everywhere_shows_an_address_that_works() {
    let said = banner(&mut landbridge(&["--listen", "0.0.0.0:0", "--insecure-no-auth"])).await;
    assert!(said.contains("listening on http://0.0.0.0:"), "{said}");
    assert!(said.contains("\n  http://127.0.0.1:") && said.contains("need --allow-host NAME"), "{said}");
}

#[tokio::test]
async fn a_port_in_use_leaves_a_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let says = format!("cannot listen on {address}: Address already in use; choose another with --listen 127.0.0.1:0");
    ends(&mut landbridge(&["--listen", &address]), 1, &says).await;
}

#[tokio::test]
async fn an_address_without_host_or_port_is_wrong_usage() {
    for listen in ["9999", ":9999", "127.0.0.1:99999"] {
        ends(&mut landbridge(&["--listen", listen]), 2, "give HOST:PORT, as in 127.0.0.1:9999").await;
        ends(
            &mut landbridge(&["serve", "--config", "mcp.json", "--listen", listen]),
            2,
            "give HOST:PORT, as in 127.0.0.1:9999",
        )
        .await;
    }
}

#[tokio::test]
async fn where_the_demo_listens_is_not_where_a_command_does() {
    let args = ["--listen", "127.0.0.1:0", "serve", "--config", "mcp.json"];
    ends(&mut landbridge(&args), 2, "stand behind the command: landbridge serve --listen").await;
}

#[tokio::test]
async fn a_config_in_the_wrong_place_is_met_with_the_right_command() {
    let right = "Did you mean: landbridge serve --config mcp.json\n";
    for args in [&["serve", "mcp.json"][..], &["--config", "mcp.json"], &["mcp.json"]] {
        ends(&mut landbridge(args), 2, right).await;
    }
    ends(&mut landbridge(&["sh", "-c", "a b"]), 2, "Did you mean: landbridge wrap sh -c 'a b'\n").await;
}

#[tokio::test]
async fn hosts_origins_and_levels_that_are_none_are_wrong_usage() {
    for (option, value, says) in [
        ("--allow-host", "http://mcp.example.com", "without scheme, port or path"),
        ("--allow-host", "a.example,mcp.example.com/mcp", "without scheme, port or path"),
        ("--allow-origin", "app.example.com", "give scheme and host"),
        ("--log-level", "verbose", "give off, error, warn, info, debug or trace"),
    ] {
        ends(&mut landbridge(&["--listen", "127.0.0.1:0", option, value]), 2, says).await;
    }
    let mut by_variable = landbridge(&["--listen", "127.0.0.1:0"]);
    by_variable.env("LANDBRIDGE_LOG_LEVEL", "loud");
    ends(&mut by_variable, 2, "give off, error, warn, info, debug or trace").await;
}

#[tokio::test]
async fn a_disabled_server_is_called_so() {
    let off = json!({ "command": "true", "disabled": true });
    let (_folder, file) = config(&json!({ "on": { "command": "true" }, "off": off }));
    let file = file.to_str().expect("text");
    let says = "server \"off\" is disabled in the config; enabled are: on";
    ends(&mut landbridge(&["stdio", "--config", file, "--server", "off"]), 2, says).await;
    let says = "no server \"gone\" in the config; it has: on";
    ends(&mut landbridge(&["stdio", "--config", file, "--server", "gone"]), 2, says).await;
    let (_folder, file) = config(&json!({ "off": off, "out": off }));
    let file = file.to_str().expect("text");
    let says = "mcp.json is disabled: off, out";
    let args = ["serve", "--surface", "server", "--config", file, "--listen", "127.0.0.1:0"];
    ends(&mut landbridge(&args), 2, says).await;
}

#[tokio::test]
async fn the_banner_shows_what_is_started_and_no_secret() {
    let servers = json!({
        "script": { "command": "python3", "args": ["server.py", "--token", "hush"] },
        "docs": { "url": "https://docs.example.com/mcp?key=hush" },
    });
    let (_folder, file) = config(&servers);
    let file = file.to_str().expect("text");
    let said = banner(&mut landbridge(&["serve", "--config", file, "--listen", "127.0.0.1:0"])).await;
    assert!(said.contains("python3 server.py …") && said.contains("https://docs.example.com/mcp?***"), "{said}");
    assert!(!said.contains("hush"), "{said}");
}
