//! Two nodes on one store, and a balancer that gives each connection to the next of them.

use std::net::{Ipv4Addr, SocketAddr};

use lb_peers::harness::Gateway;
use lb_peers::idp::{Decision, Idp, Options, Stopped};
use lb_peers::valkey::Valkey;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::nodes::balance;
use crate::world::{ALLOW, login, parameter, provider, redeem, register, serve, with_provider};

/// What both nodes have the key of.
pub const KEY: &str = "0123456789abcdef0123456789abcdef-login";

/// Two nodes, what they share, and the address that clients know.
pub struct Cluster {
    pub url: String,
    pub nodes: [Gateway; 2],
    pub store: Valkey,
    _idp: Idp,
}

impl Cluster {
    /// Starts everything; each node gets these arguments.
    pub async fn start(args: &[&str]) -> Self {
        let (store, balancer, url) = Self::places().await;
        let idp = provider(&[&url]).await;
        let (one, two) = (node(&store.url(), &url, &idp, args).await, node(&store.url(), &url, &idp, args).await);
        Self::balanced(store, balancer, url, idp, [one, two])
    }

    /// The same with other groups of people, more settings, and servers that may know the provider.
    pub async fn start_with(args: &[&str], groups: &str, toml: &str, servers: impl AsyncFnOnce(&Idp) -> Value) -> Self {
        let (store, balancer, url) = Self::places().await;
        let redirects = vec![format!("{url}/oauth/callback")];
        let options = Options { redirects, groups: groups.to_owned(), ..Options::default() };
        let idp = tokio::task::spawn_blocking(move || Idp::start(&options)).await.expect("it starts");
        let servers = servers(&idp).await.to_string();
        let node = async || {
            let (command, folder) = serve(&format!("{toml}{ALLOW}"));
            std::fs::write(folder.path().join("mcp.json"), &servers).expect("written");
            launch(command, folder, &store.url(), &url, &idp, args).await
        };
        let nodes = [node().await, node().await];
        Self::balanced(store, balancer, url, idp, nodes)
    }

    async fn places() -> (Valkey, TcpListener, String) {
        let balancer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", balancer.local_addr().expect("its address"));
        (Valkey::start(), balancer, url)
    }

    fn balanced(store: Valkey, balancer: TcpListener, url: String, idp: Idp, nodes: [Gateway; 2]) -> Self {
        // The pages of a login come from both in turn.
        balance(balancer, [nodes[0].address, nodes[1].address]);
        Self { url, nodes, store, _idp: idp }
    }

    /// Where each node listens.
    pub fn at(&self) -> [SocketAddr; 2] {
        [self.nodes[0].address, self.nodes[1].address]
    }

    /// What both have written to stderr.
    pub fn said(&self) -> String {
        self.nodes.iter().map(Gateway::said).collect()
    }

    /// A client that has registered, and a code that somebody has got for it.
    pub async fn code(&self, user: &str, scope: &str) -> (String, String) {
        let client = register(self.nodes[1].address).await;
        let Stopped { url, trace, page } = login(&self.url, &client, scope, user, Decision::Approve).await;
        let code = parameter(&url, "code").unwrap_or_else(|| panic!("{page:?} {trace:?} {}", self.said()));
        (client, code)
    }

    /// The tokens of somebody.
    pub async fn tokens(&self, user: &str, scope: &str) -> crate::world::Tokens {
        let (client, code) = self.code(user, scope).await;
        redeem(self.nodes[1].address, &client, &code).await
    }
}

/// One node on this store.
pub async fn node(store: &str, url: &str, idp: &Idp, args: &[&str]) -> Gateway {
    let (command, folder) = serve(ALLOW);
    launch(command, folder, store, url, idp, args).await
}

async fn launch(mut command: Command, folder: TempDir, store: &str, url: &str, idp: &Idp, args: &[&str]) -> Gateway {
    with_provider(&mut command, url, idp);
    command.args(["--listen", "127.0.0.1:0", "--store", store, "--node-listen", "127.0.0.1:0"]).args(args);
    command.env("LANDBRIDGE_KEY", KEY);
    Gateway::launch(command, folder).await
}
