//! The login in a real browser, which keeps cookies from sites as a person's does.

use std::process::Stdio;
use std::time::Duration;

use lb_peers::harness::Gateway;
use lb_peers::installed;
use tokio::process::Command;

use crate::world::{ALLOW, free_port, provider, serve, with_provider};

/// How long it may take; a browser starts slowly on a busy machine.
const LOOK_MAX: Duration = Duration::from_secs(90);
/// Where Debian puts the browser.
const BROWSER: &str = "/usr/bin/chromium-headless-shell";

mod peer_chromium {
    mod peer_playwright {
        /// The provider is another site here, as it is for everybody: a cookie that is for our own site alone must still
        /// be sent when the browser comes from there.
        #[tokio::test]
        async fn a_person_opens_the_waterfall_logs_in_and_stays_logged_in() {
            super::super::log_in().await;
        }
    }
}

async fn log_in() {
    let port = free_port();
    let url = format!("http://localhost:{port}");
    let idp = provider(&[&url]).await;
    let (mut command, folder) = serve(ALLOW);
    with_provider(&mut command, &url, &idp);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    let gateway = Gateway::launch(command, folder).await;
    let browser = Command::new(installed::node())
        .arg(format!("{}/tests/operators/browser.mjs", env!("CARGO_MANIFEST_DIR")))
        .arg(installed::file("playwright", "node_modules/playwright-core/index.mjs"))
        .args([BROWSER, &url])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let out = tokio::time::timeout(LOOK_MAX, browser).await.expect("the browser is done in time").expect("node starts");
    let (said, told) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}\n{told}\n{}", gateway.said());
}
