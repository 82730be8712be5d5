//! Pages that people see when something is in their way, and at the end of a login at a server: in a real browser, on small
//! and large screens. What is done there is in `pages.mjs`.

use std::net::SocketAddr;

use lb_peers::harness::Gateway;
use lb_peers::idp::{Decision, Idp};
use serde_json::{Value, json};

use crate::guard::{Guard, Wants};
use crate::pages::browse;
use crate::world::{
    ALLOW, Client, free_port, login, parameter, provider, redeem, register, serve, value, with_provider,
};

/// A gateway with one server that wants a login of the same provider.
async fn gateway() -> (Gateway, String, Idp, Guard) {
    let address = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{address}");
    let idp = provider(&[&url]).await;
    let guard = Guard::start(Wants::TokenOf(idp.issuer.clone())).await;
    let (mut command, folder) = serve(ALLOW);
    let servers = json!({ "mcpServers": { "team": { "url": guard.url, "auth": "user" } } });
    std::fs::write(folder.path().join("mcp.json"), servers.to_string()).expect("written");
    with_provider(&mut command, &url, &idp);
    command.args(["--listen", &address]);
    (Gateway::launch(command, folder).await, url, idp, guard)
}

/// A link to the login at the server, with the person whom it is for.
async fn link(at: SocketAddr, url: &str, user: &str) -> Value {
    let client = register(at).await;
    let stopped = login(url, &client, "mcp:call", user, Decision::Approve).await;
    let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{stopped:?}"));
    let session = Client::begin(at, &redeem(at, &client, &code).await.access).await;
    let call = json!({ "server": "team", "tool": "echo", "args": { "message": "x" } });
    session.call("execute_tool", call).await;
    let servers = value(&session.call("list_servers", json!({})).await);
    let link = servers.pointer("/result/structuredContent/servers/0/loginUrl").and_then(Value::as_str);
    json!([user, link.unwrap_or_else(|| panic!("{servers}"))])
}

async fn provider_away() {
    let (gateway, url, idp, _guard) = gateway().await;
    let clients = json!({ "plain": register(gateway.address).await });
    drop(idp);
    browse("away", &url, &clients, &json!({})).await.unwrap_or_else(|why| panic!("{why}; {}", gateway.said()));
}

async fn behind() {
    let (gateway, url, _idp, _guard) = gateway().await;
    let link = async |user: &str| link(gateway.address, &url, user).await;
    let links = json!({
        "done": [link("anna").await, link("berta").await],
        "refused": [link("carla").await, link("doris").await],
        "foreign": link("erna").await,
    });
    browse("behind", &url, &json!({}), &links).await.unwrap_or_else(|why| panic!("{why}; {}", gateway.said()));
}

async fn operators() {
    let (gateway, url, _idp, _guard) = gateway().await;
    browse("operators", &url, &json!({}), &json!({})).await.unwrap_or_else(|why| panic!("{why}; {}", gateway.said()));
}

mod peer_chromium {
    mod peer_playwright {
        #[tokio::test]
        async fn a_provider_that_is_away_is_a_page_that_can_be_read() {
            super::super::provider_away().await;
        }

        #[tokio::test]
        async fn the_end_of_a_login_at_a_server_can_be_read_whatever_it_is() {
            super::super::behind().await;
        }

        #[tokio::test]
        async fn operators_are_told_that_they_are_none_or_out() {
            super::super::operators().await;
        }
    }
}
