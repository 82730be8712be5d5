//! Whoever sits at this machine logs in once, through a client or on the command line.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::idp::{Browser, Decision};
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::world::{ALLOW, World};
use crate::{LANDBRIDGE, LOGIN_MAX, config, open, row};

const ECHO: &str = "test_simple_text";

/// A gateway without a login of its own in front of that server, and where it keeps things.
async fn front(team: &World) -> (Gateway, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, config(&team.url)).expect("written");
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file).stdin(Stdio::null());
    // Not that of whoever runs this.
    command.env("LANDBRIDGE_KEYRING", "off");
    let kept = folder.path().to_owned();
    (Gateway::launch(command, folder).await, kept)
}

/// The command line, with what that gateway has.
fn auth(kept: &std::path::Path, args: &[&str]) -> Command {
    let mut command = Command::new(LANDBRIDGE);
    command.arg("auth").args(args).arg("--config").arg(kept.join("mcp.json")).env("XDG_STATE_HOME", kept);
    command.env("LANDBRIDGE_KEYRING", "off");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn status(kept: &std::path::Path) -> Value {
    let out = auth(kept, &["status", "--json"]).output().await.expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

#[tokio::test]
async fn a_model_is_given_the_link_and_the_server_works_afterwards() {
    let team = World::start(ALLOW, &[]).await;
    let (gateway, _) = front(&team).await;
    let client = ToolClient::http(&gateway).await;
    let asked = client.call("execute_tool", json!({ "server": "team", "tool": ECHO, "args": {} })).await;
    let servers = client.call("list_servers", json!({})).await;
    let servers = servers.structured();
    assert_eq!(row(servers)["status"], "login_needed", "{asked} {servers}");
    let link = row(servers)["loginUrl"].as_str().expect("a link").to_owned();
    assert!(asked.to_string().contains(&link), "{asked}");
    let page = open(&mut Browser::default(), &link, "alice", Decision::Approve).await;
    assert_eq!(page.page.as_ref().map(|(status, _)| *status), Some(200), "{page:?} {}", gateway.said());
    let works = client.call("execute_tool", json!({ "server": "team", "tool": ECHO, "args": {} })).await;
    assert!(!works.is_error() && works.to_string().contains("plain text"), "{works} {}", gateway.said());
    assert!(!gateway.said().contains(&link), "a link is for the person alone");
}

#[tokio::test]
async fn a_client_that_can_open_links_is_asked_to() {
    let team = World::start(ALLOW, &[]).await;
    let (gateway, _) = front(&team).await;
    let settings = Settings::default().with(json!({ "elicitation": { "url": {} } }));
    let client = ToolClient::http_as(&gateway, settings).await;
    let running = client.start("execute_tool", json!({ "server": "team", "tool": ECHO, "args": {} })).await;
    let ask = tokio::time::timeout(LOGIN_MAX, client.next_ask()).await.expect("it is asked");
    assert_eq!((ask.method.as_str(), &ask.params["mode"]), ("elicitation/create", &json!("url")), "{:?}", ask.params);
    let link = ask.params["url"].as_str().expect("a link").to_owned();
    client.answer(&ask, json!({ "action": "accept" })).await;
    open(&mut Browser::default(), &link, "alice", Decision::Approve).await;
    let works = tokio::time::timeout(LOGIN_MAX, running.wait()).await.expect("it goes on");
    assert!(!works.is_error(), "{works} {}", gateway.said());
}

#[tokio::test]
async fn a_login_on_the_command_line_counts_for_a_gateway_that_runs() {
    let team = World::start(ALLOW, &[]).await;
    let (gateway, kept) = front(&team).await;
    assert_eq!(status(&kept).await[0]["state"], "logged_out");
    let mut login = auth(&kept, &["login", "team", "--print-url"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(login.stdout.take().expect("piped")).lines();
    let link = lines.next_line().await.expect("a line").expect("a URL");
    open(&mut Browser::default(), &link, "alice", Decision::Approve).await;
    let ended = tokio::time::timeout(LOGIN_MAX, login.wait()).await.expect("it ends").expect("it ran");
    assert_eq!(ended.code(), Some(0));
    let row = &status(&kept).await[0];
    assert_eq!((&row["server"], &row["type"], &row["state"]), (&json!("team"), &json!("user"), &json!("logged_in")));
    assert_eq!(row["issuer"], team.url);
    let client = ToolClient::http(&gateway).await;
    let works = client.call("execute_tool", json!({ "server": "team", "tool": ECHO, "args": {} })).await;
    assert!(!works.is_error(), "{works} {}", gateway.said());
    let out = auth(&kept, &["logout", "team"]).output().await.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "logged out\n");
    assert_eq!(status(&kept).await[0]["state"], "logged_out");
    // The gateway has the token in its memory, and learns of it without a call.
    let began = Instant::now();
    loop {
        let servers = client.call("list_servers", json!({})).await;
        if crate::row(servers.structured())["status"] == "login_needed" {
            assert!(crate::row(servers.structured())["loginUrl"].is_string(), "{servers}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{servers}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_modern_client_that_can_open_links_is_asked_to_among_the_tools_too() {
    let team = World::start(ALLOW, &[]).await;
    let (gateway, _) = front(&team).await;
    let settings = Settings::modern().with(json!({ "elicitation": { "url": {} } }));
    let client = ToolClient::http_as(&gateway, settings).await;
    let call = json!({ "server": "team", "tool": ECHO, "args": {} });
    let asked = client.call("execute_tool", call.clone()).await;
    let result = asked.result();
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (key, question) = result["inputRequests"].as_object().and_then(|all| all.iter().next()).expect("a question");
    let params = &question["params"];
    assert_eq!((&params["mode"], params.get("elicitationId")), (&json!("url"), None), "{asked}");
    let link = params["url"].as_str().expect("a link").to_owned();
    // Who says no is not asked again: the model is told.
    let declined = client.retry("execute_tool", call.clone(), &asked, json!({ key: { "action": "decline" } })).await;
    assert!(declined.result()["resultType"] != "input_required" && declined.to_string().contains(&link), "{declined}");
    let accept = json!({ key: { "action": "accept" } });
    let mut browser = Browser::default();
    let (works, _) = tokio::join!(
        client.retry("execute_tool", call, &asked, accept),
        open(&mut browser, &link, "alice", Decision::Approve)
    );
    assert!(works.to_string().contains("plain text"), "{works} {}", gateway.said());
}

#[tokio::test]
async fn a_server_that_comes_while_it_runs_on_stdio_can_be_logged_in_to() {
    let team = World::start(ALLOW, &[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, "{\"mcpServers\":{}}").expect("written");
    let args = ["--config", file.to_str().expect("a path"), "--keyring", "off"];
    let client = ToolClient::stdio(LANDBRIDGE, None, &args).await;
    std::fs::write(&file, config(&team.url)).expect("written");
    let began = Instant::now();
    let asked = loop {
        let asked = client.call("execute_tool", json!({ "server": "team", "tool": ECHO, "args": {} })).await;
        if asked.to_string().contains("http") {
            break asked;
        }
        assert!(began.elapsed() < LOGIN_MAX, "{asked} {}", client.said());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let servers = client.call("list_servers", json!({})).await;
    assert_eq!(row(servers.structured())["status"], "login_needed", "{asked} {servers}");
    let link = row(servers.structured())["loginUrl"].as_str().expect("a link").to_owned();
    open(&mut Browser::default(), &link, "alice", Decision::Approve).await;
    let works = client.call("execute_tool", json!({ "server": "team", "tool": ECHO, "args": {} })).await;
    assert!(works.to_string().contains("plain text"), "{works} {}", client.said());
}

#[tokio::test]
async fn a_person_who_says_no_is_an_end_with_exit_code_one() {
    let team = World::start(ALLOW, &[]).await;
    let (_gateway, kept) = front(&team).await;
    let mut command = auth(&kept, &["login", "team", "--print-url"]);
    let mut login = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(login.stdout.take().expect("piped")).lines();
    let link = lines.next_line().await.expect("a line").expect("a URL");
    open(&mut Browser::default(), &link, "alice", Decision::Deny).await;
    let out = tokio::time::timeout(LOGIN_MAX, login.wait_with_output()).await.expect("it ends").expect("it ran");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("nobody is logged in at team"), "{said}");
}

#[tokio::test]
async fn on_a_servers_own_path_the_error_names_the_link() {
    let team = World::start(ALLOW, &[]).await;
    let (gateway, _) = front(&team).await;
    let modern = Settings::modern().with(json!({ "elicitation": { "url": {} } }));
    let settings = Settings { path: "/mcp/server/team".into(), ..modern };
    let client = ToolClient::http_as(&gateway, settings).await;
    let asked = client.call(ECHO, json!({})).await;
    let result = asked.result();
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (key, question) = result["inputRequests"].as_object().and_then(|all| all.iter().next()).expect("a question");
    let link = question["params"]["url"].as_str().expect("a link");
    open(&mut Browser::default(), link, "alice", Decision::Approve).await;
    let works = client.retry(ECHO, json!({}), &asked, json!({ key: { "action": "accept" } })).await;
    assert!(works.to_string().contains("plain text"), "{works} {}", gateway.said());
}
