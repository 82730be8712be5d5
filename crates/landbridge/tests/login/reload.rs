//! What is taken up of who gets in while it runs, and what is said of the rest.

use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use serde_json::json;

use crate::world::{Client, get, serve};

const PATIENCE: Duration = Duration::from_secs(30);

fn written(token: &str, scheme: &str, tools: &str, registration: bool) -> String {
    format!(
        "operator_token = \"{token}\"\n[auth]\nredirect_schemes = [\"{scheme}\"]\nregistration = {registration}\n\
         [[auth.rules]]\nservers = [\"it\"]\ntools = [{tools}]\n"
    )
}

#[tokio::test]
async fn a_new_operators_token_counts_the_old_one_does_not_and_what_waits_for_a_restart_is_named() {
    let [old, new] = ["operator-token-of-yesterday", "operator-token-of-today"];
    let (mut command, folder) = serve(&written(old, "one", "\"echo\"", true));
    let settings = folder.path().join("landbridge.toml");
    let (key, line) = lb_key(folder.path()).await;
    command.env_remove("LANDBRIDGE_OPERATOR_TOKEN").args(["--listen", "127.0.0.1:0", "--auth", "keys", &line]);
    let gateway = Gateway::launch(command, folder).await;
    let page = async |token: &str| {
        get(gateway.address, "/metrics", &[("Authorization", &format!("Bearer {token}"))]).await.head.status()
    };
    assert_eq!((page(old).await, page(new).await), (200, 401));
    // A token that has leaked is worth nothing once another one is written down.
    std::fs::write(&settings, written(new, "two", "\"echo\"", false)).expect("written");
    let began = Instant::now();
    while page(new).await != 200 {
        assert!(began.elapsed() < PATIENCE, "{}", gateway.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(page(old).await, 401);
    let line_of = |said: &str, words: [&str; 2]| said.lines().any(|line| words.iter().all(|word| line.contains(word)));
    let said = gateway.said();
    assert!(line_of(&said, ["setting_reloaded", "operator_token"]), "{said}");
    for key in ["auth.redirect_schemes", "auth.registration"] {
        assert!(line_of(&said, ["setting_not_reloaded", key]), "{key}: {said}");
    }
    assert!(!said.contains("access_reloaded"), "nothing of the access has changed: {said}");
    assert!(!said.contains(old) && !said.contains(new), "{said}");

    let client = Client::begin_at(gateway.address, &key, "/mcp/server/it").await;
    assert_eq!(client.call("test_simple_text", json!({})).await.head.status(), 403);
    std::fs::write(&settings, written(new, "two", "\"test_*\"", false)).expect("written");
    let began = Instant::now();
    while client.call("test_simple_text", json!({})).await.head.status() != 200 {
        assert!(began.elapsed() < PATIENCE, "{}", gateway.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(gateway.said().contains("access_reloaded"), "{}", gateway.said());
}

/// A key that may call, and the file that it is in.
async fn lb_key(folder: &std::path::Path) -> (String, String) {
    let file = folder.join("keys.txt").to_string_lossy().into_owned();
    let mut new = tokio::process::Command::new(crate::LANDBRIDGE);
    new.args(["auth", "key", "new", "ci", "--file", &file]).stdin(std::process::Stdio::null());
    let out = new.output().await.expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    (String::from_utf8_lossy(&out.stdout).trim().to_owned(), file)
}
