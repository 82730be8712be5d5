//! The pages of a login in a real browser: read on small and large screens, in light and dark, and used by clicking.
//!
//! What is done in the browser is in `pages.mjs`, one function per test.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lb_peers::installed;
use lb_peers::raw::http::headers;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{ALLOW, REDIRECT, World, register, send, value};

/// How long one look may take; a browser starts slowly on a busy machine.
const LOOK_MAX: Duration = Duration::from_secs(110);
/// Where Debian puts the browser.
const BROWSER: &str = "/usr/bin/chromium-headless-shell";

/// Does one of the functions of `pages.mjs` at a gateway with two clients.
async fn look(step: &str) {
    let world = World::start(ALLOW, &[]).await;
    let clients = json!({ "plain": register(world.at()).await, "hostile": hostile(&world).await });
    browse(step, &world.url, &clients, &json!({}))
        .await
        .unwrap_or_else(|why| panic!("{why}; {}", world.gateway.said()));
}

/// Does one of the functions of `pages.mjs`, which is told of clients and of links.
pub async fn browse(step: &str, url: &str, clients: &Value, links: &Value) -> Result<(), String> {
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("login");
    std::fs::create_dir_all(&pictures).expect("a folder for pictures");
    assert!(Path::new(BROWSER).exists(), "{BROWSER} is not there: run `cargo xtask peers`");
    let mut browser = Command::new(installed::node())
        .arg(format!("{}/tests/login/pages.mjs", env!("CARGO_MANIFEST_DIR")))
        .arg(installed::file("playwright", "node_modules/playwright-core/index.mjs"))
        .args([BROWSER, step, url])
        .arg(&pictures)
        .env("CLIENTS", clients.to_string())
        .env("LINKS", links.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("node starts");
    let ended = tokio::time::timeout(LOOK_MAX, browser.wait()).await.expect("in time").expect("the browser's end");
    if ended.success() { Ok(()) } else { Err(format!("{step}: {ended}; what went wrong is on stderr")) }
}

/// A client with a name that is long, looks like another, turns the text around and would like to run.
async fn hostile(world: &World) -> String {
    let name = format!("<img src=x onerror=alert(1)> Cl\u{430}ude \u{202e}{}", "long".repeat(12));
    let said = json!({ "redirect_uris": [REDIRECT], "client_name": name, "token_endpoint_auth_method": "none" });
    let kind = headers(&[("Content-Type", "application/json")]);
    let answer = send(world.at(), "POST", "/register", &kind, said.to_string().as_bytes()).await;
    assert_eq!(answer.head.status(), 201, "{}", answer.text());
    value(&answer)["client_id"].as_str().expect("an id").to_owned()
}

mod peer_chromium {
    mod peer_playwright {
        use super::super::look;

        #[tokio::test]
        async fn consent_is_readable_and_leads_to_the_client_by_clicking() {
            look("flow").await;
        }

        #[tokio::test]
        async fn names_of_clients_are_shown_and_not_run_and_no_is_an_answer() {
            look("deny").await;
        }

        #[tokio::test]
        async fn a_login_needs_no_scripts() {
            look("scriptless").await;
        }

        #[tokio::test]
        async fn forms_of_other_pages_are_refused() {
            look("foreign").await;
        }

        #[tokio::test]
        async fn pages_that_lead_nowhere_say_what_to_do() {
            look("errors").await;
        }
    }
}
