//! Servers that nobody logs in to: the gateway does it by itself, or sends what it was given.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::idp::{Idp, Options, SERVICE_SECRET};
use lb_peers::tools::ToolClient;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::LANDBRIDGE;
use crate::guard::{Guard, Wants};

const STATIC: &str = "a-token-that-an-operator-has-got";
/// How long a token lives, in the tests that wait for the next one.
const LIFE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn provider(options: Options) -> Idp {
    tokio::task::spawn_blocking(move || Idp::start(&options)).await.expect("it starts")
}

/// A gateway without a login of its own in front of these servers, and where its config is.
async fn front(servers: Value, variables: &[(&str, &str)]) -> (Gateway, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).expect("written");
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "trace", "--config"]).arg(&file);
    command.envs(variables.iter().copied()).env("LANDBRIDGE_KEYRING", "off").stdin(Stdio::null());
    (Gateway::launch(command, folder).await, file)
}

async fn echo(client: &ToolClient, server: &str, message: &str) -> (bool, String) {
    let call = json!({ "server": server, "tool": "echo", "args": { "message": message } });
    let said = client.call("execute_tool", call).await;
    (!said.is_error(), said.to_string())
}

#[tokio::test]
async fn the_gateway_logs_in_by_itself_with_what_its_config_refers_to_and_again_when_that_is_over() {
    let idp = provider(Options { access_life: Some(LIFE), ..Options::default() }).await;
    let guard = Guard::start(Wants::TokenOf(idp.issuer.clone())).await;
    let auth = |name: &str| json!({ "type": "service", "client_id": "service", "client_secret": name });
    let servers = json!({
        "files": { "url": guard.url, "auth": auth("${FILES_SECRET}") },
        "wrong": { "url": guard.url, "auth": auth("${WRONG_SECRET}") },
    });
    let variables = [("FILES_SECRET", SERVICE_SECRET), ("WRONG_SECRET", "not-the-secret-of-anybody")];
    let (gateway, config) = front(servers, &variables).await;
    let (one, other) = (ToolClient::http(&gateway).await, ToolClient::http(&gateway).await);
    let began = Instant::now();
    for (client, message) in [(&one, "first"), (&other, "second")] {
        let (works, said) = echo(client, "files", message).await;
        assert!(works && said.contains(message), "{said} {}", gateway.said());
    }
    // It is renewed without anybody noticing.
    while guard.shown().len() < 2 {
        let (works, said) = echo(&one, "files", "again").await;
        assert!(works && began.elapsed() < PATIENCE, "{said} {}", gateway.said());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(LIFE / 2 < began.elapsed(), "one token is enough for a while: {:?}", began.elapsed());
    // Whoever is given a wrong secret is told, and not what it was.
    let (works, said) = echo(&one, "wrong", "x").await;
    assert!(!works && said.contains("invalid_client"), "{said}");
    let mut status = Command::new(LANDBRIDGE);
    status.args(["auth", "status", "--json", "--config"]).arg(&config).envs(variables);
    status.env("LANDBRIDGE_KEYRING", "off").env("XDG_STATE_HOME", config.with_file_name(""));
    let rows: Value = serde_json::from_slice(&status.output().await.expect("it runs").stdout).expect("JSON");
    assert_eq!((&rows[0]["server"], &rows[0]["type"]), (&json!("files"), &json!("service")), "{rows}");
    let said = format!("{}{said}{rows}", gateway.said());
    let tokens = guard.shown().iter().map(|shown| shown.replace("Bearer ", "")).collect::<Vec<_>>();
    for secret in [SERVICE_SECRET, "not-the-secret-of-anybody"].into_iter().chain(tokens.iter().map(String::as_str)) {
        assert!(20 < secret.len() && !said.contains(secret), "{secret} is in {said}");
    }
}

#[tokio::test]
async fn what_an_operator_has_got_for_a_server_is_sent_there_and_written_nowhere() {
    let (bearer, own) =
        (Wants::Header("authorization", format!("Bearer {STATIC}")), Wants::Header("x-api-key", STATIC.to_owned()));
    let (bearer, own) = (Guard::start(bearer).await, Guard::start(own).await);
    let servers = json!({
        "files": { "url": bearer.url, "auth": { "type": "static", "value": "Bearer ${FILES_TOKEN}" } },
        "keyed": { "url": own.url, "auth": { "type": "static", "header": "X-Api-Key", "value": "${FILES_TOKEN}" } },
        "other": { "url": bearer.url, "auth": { "type": "static", "value": "Bearer ${OTHER_TOKEN}" } },
        "none": { "url": bearer.url },
    });
    let (gateway, _) =
        front(servers, &[("FILES_TOKEN", STATIC), ("OTHER_TOKEN", "of-another-server-altogether")]).await;
    let client = ToolClient::http(&gateway).await;
    for server in ["files", "keyed"] {
        let (works, said) = echo(&client, server, "heard").await;
        assert!(works && said.contains("heard"), "{server}: {said} {}", gateway.said());
    }
    assert_eq!((bearer.shown(), own.shown()), (vec![format!("Bearer {STATIC}")], vec![STATIC.to_owned()]));
    for server in ["other", "none"] {
        let (works, said) = echo(&client, server, "heard").await;
        assert!(!works && !said.contains("heard"), "{server}: {said}");
    }
    for text in [gateway.said(), client.call("list_servers", json!({})).await.to_string()] {
        assert!(!text.contains(STATIC) && !text.contains("of-another-server"), "{text}");
    }
}
