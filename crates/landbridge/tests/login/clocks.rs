//! A node whose clock is wrong: tokens of either node are good at both, and nobody is sent away.

use std::path::PathBuf;

use lb_peers::harness::Gateway;
use lb_peers::idp::{Decision, Idp};
use lb_peers::valkey::Valkey;
use serde_json::json;

use crate::nodes::{balance, node};
use crate::world::{
    ALLOW, Client, form_to, login, parameter, provider, redeem, register, serve, tokens, with_provider,
};

/// The library that makes a clock wrong.
pub fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("a system").filter_map(|entry| Some(entry.ok()?.path()));
    let library = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    library.expect("libfaketime is not installed: run `cargo xtask peers`")
}

/// A node whose clock is off by this, or by what a file says at each moment.
async fn off(clock: (&str, &str), store: &str, url: &str, idp: &Idp) -> Gateway {
    let (mut command, folder) = serve(ALLOW);
    with_provider(&mut command, url, idp);
    command.args(["--listen", "127.0.0.1:0", "--store", store, "--node-listen", "127.0.0.1:0"]);
    command.env("LANDBRIDGE_KEY", "0123456789abcdef0123456789abcdef-login");
    command.env("LD_PRELOAD", faketime()).env(clock.0, clock.1).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    Gateway::launch(command, folder).await
}

async fn nobody_is_sent_away(by: &str) {
    let store = Valkey::start();
    let store = format!("valkey://127.0.0.1:{}", store.port);
    let balancer = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", balancer.local_addr().expect("its address"));
    let idp = provider(&[&url]).await;
    let (right, wrong) = (node(&store, &url, &idp).await, off(("FAKETIME", by), &store, &url, &idp).await);
    balance(balancer, [right.address, wrong.address]);
    for (issues, other) in [(&right, &wrong), (&wrong, &right)] {
        let client = register(issues.address).await;
        let stopped = login(&url, &client, "mcp:call", "alice", Decision::Approve).await;
        let code = parameter(&stopped.url, "code")
            .unwrap_or_else(|| panic!("{by}: {:?} {:?} {}", stopped.page, stopped.trace, wrong.said()));
        let mut got = redeem(issues.address, &client, &code).await;
        for _ in 0..3 {
            for at in [issues.address, other.address] {
                let session = Client::begin(at, &got.access).await;
                let answer = session.call("list_servers", json!({})).await;
                assert_eq!(answer.head.status(), 200, "{by}: {} {}", answer.text(), wrong.said());
                // The same session at the other node, which sends it on.
                let elsewhere = if at == issues.address { other.address } else { issues.address };
                let answer = session.as_sent(elsewhere, &got.access).call("list_servers", json!({})).await;
                assert_eq!(answer.head.status(), 200, "{by}: {} {}", answer.text(), wrong.said());
            }
            let form = [("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", &got.refresh)];
            let (status, told) = form_to(other.address, "/token", &form).await;
            assert_eq!(status, 200, "{by}: {told}");
            let left = told["expires_in"].as_u64().expect("a number");
            assert!((890..=900).contains(&left), "{by}: {told}");
            got = tokens(&client, &told);
        }
        let spent = [("grant_type", "refresh_token"), ("client_id", &client), ("refresh_token", "lbr_x")];
        assert_eq!(form_to(other.address, "/token", &spent).await.1["error"], "invalid_grant");
    }
}

/// People work on while the clock of one of two nodes is set: nobody is sent away, so that nobody comes for new tokens.
async fn nobody_notices_that_a_clock_is_set() {
    let store = Valkey::start();
    let store = format!("valkey://127.0.0.1:{}", store.port);
    let balancer = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", balancer.local_addr().expect("its address"));
    let idp = provider(&[&url]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let clock = folder.path().join("clock");
    std::fs::write(&clock, "+0").expect("written");
    let by_file = ("FAKETIME_TIMESTAMP_FILE", clock.to_str().expect("a path"));
    let (right, wrong) = (node(&store, &url, &idp).await, off(by_file, &store, &url, &idp).await);
    balance(balancer, [right.address, wrong.address]);
    let mut sessions = Vec::new();
    for who in ["alice", "bob"] {
        let client = register(right.address).await;
        let stopped = login(&url, &client, "mcp:call", who, Decision::Approve).await;
        let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{:?} {:?}", stopped.page, stopped.trace));
        let got = redeem(right.address, &client, &code).await;
        for at in [right.address, wrong.address] {
            sessions.push((Client::begin(at, &got.access).await, got.access.clone()));
        }
    }
    for set in ["+2h", "-2h"] {
        std::fs::write(&clock, set).expect("written");
        let began = std::time::Instant::now();
        // Longer than a record is believed without a look at the store.
        while began.elapsed() < std::time::Duration::from_secs(6) {
            for (session, access) in &sessions {
                for at in [right.address, wrong.address] {
                    let answer = session.as_sent(at, access).call("list_servers", json!({})).await;
                    assert_eq!(answer.head.status(), 200, "{set}: {} {}", answer.text(), wrong.said());
                }
            }
            // Nobody may call more than a hundred times in a second.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }
}

/// With the clock of `libfaketime`.
mod peer_faketime {
    #[tokio::test]
    async fn a_clock_that_is_set_while_people_work_sends_nobody_away() {
        super::nobody_notices_that_a_clock_is_set().await;
    }

    #[tokio::test]
    async fn tokens_are_good_at_both_nodes_when_one_is_two_hours_ahead() {
        super::nobody_is_sent_away("+2h").await;
    }

    #[tokio::test]
    async fn tokens_are_good_at_both_nodes_when_one_is_two_hours_behind() {
        super::nobody_is_sent_away("-2h").await;
    }
}
