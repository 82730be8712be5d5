//! Logins at servers that several processes share: who logs out in one is logged out in all.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::idp::{Browser, Decision};
use lb_peers::tools::ToolClient;
use lb_peers::valkey::Valkey;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::world::{self, ALLOW};
use crate::{LANDBRIDGE, config, open, row};

/// Five seconds are promised; a machine that runs many tests at once gets some more.
const WITHIN: Duration = Duration::from_secs(20);

/// Stands before a gateway and keeps from it that a login ended, so that its tokens stay good.
#[expect(clippy::disallowed_methods, reason = "a test's proxy ends with its runtime")]
fn keeps_back(listener: TcpListener, to: std::net::SocketAddr) -> Arc<AtomicUsize> {
    let kept = Arc::new(AtomicUsize::new(0));
    let counted = kept.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut head = vec![0; 16_384];
                let Ok(length) = client.read(&mut head).await else { return };
                if head[..length].starts_with(b"POST /revoke ") {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let done = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    client.write_all(done).await.ok();
                    return;
                }
                let mut team = TcpStream::connect(to).await.expect("it listens");
                team.write_all(&head[..length]).await.ok();
                // Whoever closes first ends both.
                tokio::io::copy_bidirectional(&mut client, &mut team).await.ok();
            });
        }
    });
    kept
}

#[tokio::test]
async fn whoever_logs_out_in_another_process_is_logged_out_in_the_one_that_runs() {
    let store = Valkey::start();
    let before = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", before.local_addr().expect("its address"));
    let idp = world::provider(&[&url]).await;
    let (mut team, folder) = world::serve(ALLOW);
    world::with_provider(&mut team, &url, &idp);
    team.args(["--listen", "127.0.0.1:0"]);
    let team = Gateway::launch(team, folder).await;
    let kept_back = keeps_back(before, team.address);

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, config(&url)).expect("written");
    let with_store = |command: &mut Command| {
        command.arg("--config").arg(&file).env("LANDBRIDGE_STORE", store.url()).stdin(Stdio::null());
        command.env("LANDBRIDGE_KEY", "0123456789abcdef0123456789abcdef-behind").env("LANDBRIDGE_KEYRING", "off");
    };
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"]);
    with_store(&mut command);
    let mut logout = Command::new(LANDBRIDGE);
    logout.args(["auth", "logout", "team"]).env("XDG_STATE_HOME", folder.path());
    with_store(&mut logout);
    let gateway = Gateway::launch(command, folder).await;

    let client = ToolClient::http(&gateway).await;
    let call = json!({ "server": "team", "tool": "test_simple_text", "args": {} });
    client.call("execute_tool", call.clone()).await;
    let waiting = client.call("list_servers", json!({})).await;
    let link = row(waiting.structured())["loginUrl"].as_str().unwrap_or_else(|| panic!("{waiting}")).to_owned();
    open(&mut Browser::default(), &link, "alice", Decision::Approve).await;
    let works = client.call("execute_tool", call.clone()).await;
    assert!(works.to_string().contains("plain text"), "{works} {}", gateway.said());

    let out = logout.output().await.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "logged out\n", "{}", String::from_utf8_lossy(&out.stderr));
    assert!(0 < kept_back.load(Ordering::SeqCst), "its server does not know, and would take the token");
    // Not by what its server says, and so by the store alone.
    let began = Instant::now();
    while client.call("execute_tool", call.clone()).await.to_string().contains("plain text") {
        assert!(began.elapsed() < WITHIN, "{}", gateway.said());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let servers = client.call("list_servers", json!({})).await;
    assert_eq!(row(servers.structured())["status"], "login_needed", "{servers} {}", gateway.said());
}
