//! Programs that send a key.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::raw::http::post_headers;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::LANDBRIDGE;
use crate::world::{Client, get, send, serve};

async fn landbridge(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(LANDBRIDGE).args(args).stdin(Stdio::null()).output().await.expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[tokio::test]
async fn a_program_gets_in_with_a_key_until_its_line_is_taken_out() {
    let (mut command, folder) = serve("");
    let file = folder.path().join("keys.txt");
    let path = file.to_string_lossy().into_owned();
    let (code, key, said) = landbridge(&["auth", "key", "new", "ci", "--file", &path]).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "{key}");
    let key = key.trim().to_owned();
    assert!(key.starts_with("lbk_") && key.len() == 47, "{key}");
    let written = std::fs::read_to_string(&file).expect("a file");
    assert!(written.starts_with("ci ") && !written.contains(&key), "{written}");
    let (code, _, said) = landbridge(&["auth", "key", "new", "ci", "--file", &path]).await;
    assert_eq!(code, Some(2), "a name is given once: {said}");

    // Beyond this machine, because nobody gets in without a key.
    command.args(["--listen", "0.0.0.0:0", "--auth", "keys", &path]);
    let gateway = Gateway::launch(command, folder).await;
    let at = (std::net::Ipv4Addr::LOCALHOST, gateway.port()).into();
    let refused = send(at, "POST", "/mcp", &post_headers(), b"{}").await;
    assert_eq!(refused.head.status(), 401);
    assert_eq!(refused.head.header("www-authenticate"), Some("Bearer realm=\"landbridge\""));
    assert_eq!(get(at, "/.well-known/oauth-protected-resource", &[]).await.head.status(), 404);
    let client = Client::begin(at, &key).await;
    assert_eq!(client.call("list_servers", json!({})).await.head.status(), 200);
    let wrong = client.as_sent(at, &key.to_lowercase()).call("list_servers", json!({})).await;
    assert_eq!(wrong.head.status(), 401);

    std::fs::write(&file, "# nobody\n").expect("written");
    let began = Instant::now();
    while client.call("list_servers", json!({})).await.head.status() != 401 {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", gateway.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!gateway.said().contains(&key));
}

#[tokio::test]
async fn a_key_is_printed_once_as_text_or_json() {
    let (code, out, said) = landbridge(&["auth", "key", "new", "a.b-c", "--scope", "mcp:read", "--json"]).await;
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert!(told["line"].as_str().is_some_and(|line| line.starts_with("a.b-c ") && line.ends_with(" mcp:read")));
    let (_, out, _) = landbridge(&["auth", "key", "new", "x"]).await;
    assert!(
        out.starts_with("key:  lbk_") && out.contains("\nline: x ") && out.ends_with(" mcp:read mcp:call\n"),
        "{out}"
    );
    for wrong in [&["auth", "key", "new", "a b"][..], &["auth", "key", "new", "x", "--scope", "all"]] {
        let (code, out, _) = landbridge(wrong).await;
        assert_eq!((code, out.as_str()), (Some(2), ""));
    }
}

#[tokio::test]
async fn a_login_that_would_let_strangers_in_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "ci 1234 mcp:read\n").expect("written");
    let keys = keys.to_string_lossy().into_owned();
    let oidc = ["serve", "--listen", "127.0.0.1:0", "--auth", "oidc", "--oidc-client-id", "x"];
    let at = ["--oidc-issuer", "https://idp.example"];
    let any = ["--allow-any-user"];
    for (args, part) in [
        ([&oidc[..], &at].concat(), "--allow-any-user"),
        ([&oidc[..], &any].concat(), "--oidc-issuer"),
        ([&oidc[..], &any, &["--oidc-issuer", "http://idp.example"]].concat(), "https"),
        ([&oidc[..], &any, &at, &["--public-url", "http://gw.example"]].concat(), "without TLS"),
        ([&oidc[..], &any, &at, &["--insecure-no-auth"]].concat(), "opposite"),
        (vec!["serve", "--auth", "keys"], "keys stand in a file"),
        (vec!["serve", "--auth", "keys", &keys], "line 1"),
        (vec!["serve", "--auth", "password"], "give oidc, or keys and a file"),
    ] {
        let (code, _, said) = landbridge(&args).await;
        assert!(code == Some(2) && said.contains(part), "{args:?}: {code:?} {said}");
        let check = [&["config", "check"], &args[1..]].concat();
        let (code, _, said) = landbridge(&check).await;
        assert!(code == Some(2) && said.contains(part), "{check:?}: {code:?} {said}");
    }
}

#[tokio::test]
async fn a_file_holds_secrets_themselves_and_a_client_is_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_string_lossy().into_owned()
    };
    let key = file("key", "0123456789abcdef0123456789abcdef-new\n${LANDBRIDGE_KEY_OF_LAST_YEAR_OR_SO}\n");
    let example = file("example", "your-secret-your-secret-your-secret\n");
    let secret = file("secret", "${OIDC_SECRET}\n");
    let allow = file("allow.toml", "[auth]\nallow = { clients = [\"cli\"] }\n");
    let admins = file("admins.toml", "[auth]\nadmins = { clients = [\"cli\"] }\nallow = { domains = [\"a.test\"] }\n");
    let store = ["serve", "--listen", "127.0.0.1:0", "--store", "valkey://127.0.0.1:1", "--key-file"];
    let oidc = ["serve", "--listen", "127.0.0.1:0", "--auth", "oidc", "--oidc-client-id", "x"];
    let at = ["--oidc-issuer", "https://idp.example"];
    let (any, file) = (["--allow-any-user"], ["--oidc-client-secret-file", &secret]);
    for (args, part) in [
        ([&store[..], &[&key]].concat(), "stands for a secret"),
        ([&store[..], &[&example]].concat(), "an example of a secret"),
        ([&oidc[..], &at, &any, &file].concat(), "stands for a secret"),
        ([&oidc[..], &at, &["--settings", &allow]].concat(), "auth.allow: clients stand in auth.rules only"),
        ([&oidc[..], &at, &["--settings", &admins]].concat(), "auth.admins: clients stand in auth.rules only"),
    ] {
        let check = [&["config", "check"], &args[1..]].concat();
        for args in [args, check] {
            let (code, _, said) = landbridge(&args).await;
            assert!(code == Some(2) && said.contains(part), "{args:?}: {code:?} {said}");
            assert!(!said.contains("LAST_YEAR") && !said.contains("${OIDC"), "what stands there is not shown: {said}");
        }
    }
}
