//! A gateway with a login, its provider, and a client that knows no more than a URL.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lb_peers::harness::{Gateway, peer};
use lb_peers::idp::{Browser, CLIENT_SECRET, Decision, Idp, Options, Stopped};
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Headers, Response, headers, post_headers};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use url::Url;

use crate::LANDBRIDGE;

pub const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters";
pub const REDIRECT: &str = "http://127.0.0.1:4711/cb";
/// Who gets in, and who is an administrator.
pub const ALLOW: &str = "[auth]\nallow = { domains = [\"example.test\"] }\nadmins = { groups = [\"admins\"] }\n";
/// What operators send.
pub const OPERATOR: &str = "operator-token-of-the-tests";
/// How long a login may take on a machine that is busy.
const LOGIN_MAX: Duration = Duration::from_secs(40);

/// A provider and a gateway that sends people there.
pub struct World {
    pub gateway: Gateway,
    pub url: String,
    _idp: Idp,
}

/// What a client gets.
#[derive(Clone, Debug)]
pub struct Tokens {
    pub client: String,
    pub access: String,
    pub refresh: String,
}

/// A port that is free now.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// A provider that sends people back to these gateways.
pub async fn provider(urls: &[&str]) -> Idp {
    let redirects = urls.iter().map(|url| format!("{url}/oauth/callback")).collect();
    let options = Options { redirects, groups: "carol=admins".into(), ..Options::default() };
    tokio::task::spawn_blocking(move || Idp::start(&options)).await.expect("it starts")
}

/// A command that serves the fixture as `it`, with this file of settings.
pub fn serve(toml: &str) -> (Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, settings) = (folder.path().join("mcp.json"), folder.path().join("landbridge.toml"));
    let servers = json!({ "mcpServers": { "it": { "command": peer(LANDBRIDGE, "fixture") } } });
    std::fs::write(&config, servers.to_string()).expect("written");
    std::fs::write(&settings, toml).expect("written");
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--settings"]).arg(settings).arg("--config").arg(config);
    command.env("LANDBRIDGE_OPERATOR_TOKEN", OPERATOR).stdin(Stdio::null());
    (command, folder)
}

/// How it is told of a provider.
pub fn with_provider(command: &mut Command, url: &str, idp: &Idp) {
    command.args(["--auth", "oidc", "--oidc-client-id", "gateway", "--public-url", url, "--oidc-issuer", &idp.issuer]);
    command.env("LANDBRIDGE_OIDC_CLIENT_SECRET", CLIENT_SECRET);
}

impl World {
    /// Starts both.
    pub async fn start(toml: &str, args: &[&str]) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("http://{address}");
        let idp = provider(&[&url]).await;
        let (mut command, folder) = serve(toml);
        with_provider(&mut command, &url, &idp);
        command.args(["--listen", &address]).args(args);
        Self::new(Gateway::launch(command, folder).await, url, idp)
    }

    /// Of a gateway that was started otherwise.
    pub fn new(gateway: Gateway, url: String, idp: Idp) -> Self {
        Self { gateway, url, _idp: idp }
    }

    pub fn at(&self) -> SocketAddr {
        self.gateway.address
    }

    /// From a name to tokens: a client registers and somebody logs in.
    pub async fn tokens(&self, user: &str, scope: &str) -> Tokens {
        let client = register(self.at()).await;
        let stopped = self.login(&client, scope, user, Decision::Approve).await;
        let code = parameter(&stopped.url, "code")
            .unwrap_or_else(|| panic!("{:?} {:?} {}", stopped.page, stopped.trace, self.gateway.said()));
        redeem(self.at(), &client, &code).await
    }

    pub async fn login(&self, client: &str, scope: &str, user: &str, decision: Decision) -> Stopped {
        login(&self.url, client, scope, user, decision).await
    }
}

/// What somebody with a browser does who is sent to a gateway.
pub async fn login(url: &str, client: &str, scope: &str, user: &str, decision: Decision) -> Stopped {
    let start = authorize(url, client, scope);
    let mut browser = Browser::default();
    let login = browser.login(&start, REDIRECT, user, decision);
    tokio::time::timeout(LOGIN_MAX, login).await.expect("a login ends").expect("it goes on")
}

/// What a client opens in a browser.
pub fn authorize(url: &str, client: &str, scope: &str) -> String {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    let mut to = Url::parse(&format!("{url}/authorize")).expect("a URL");
    to.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", "the client's"),
        ("scope", scope),
        ("resource", &format!("{url}/mcp")),
    ]);
    to.into()
}

pub async fn register(at: SocketAddr) -> String {
    let said = json!({ "redirect_uris": [REDIRECT], "client_name": "Test", "token_endpoint_auth_method": "none" });
    let kind = headers(&[("Content-Type", "application/json")]);
    let answer = send(at, "POST", "/oauth/register", &kind, said.to_string().as_bytes()).await;
    assert_eq!(answer.head.status(), 201, "{}", answer.text());
    value(&answer)["client_id"].as_str().expect("an id").to_owned()
}

pub async fn redeem(at: SocketAddr, client: &str, code: &str) -> Tokens {
    let form =
        [("grant_type", "authorization_code"), ("client_id", client), ("code", code), ("code_verifier", VERIFIER)];
    let (status, told) = form_to(at, "/token", &[&form[..], &[("redirect_uri", REDIRECT)]].concat()).await;
    assert_eq!(status, 200, "{told}");
    tokens(client, &told)
}

/// What `/token` said.
pub fn tokens(client: &str, told: &Value) -> Tokens {
    let text = |name: &str| told[name].as_str().unwrap_or_else(|| panic!("no {name} in {told}")).to_owned();
    Tokens { client: client.to_owned(), access: text("access_token"), refresh: text("refresh_token") }
}

pub async fn form_to(at: SocketAddr, path: &str, form: &[(&str, &str)]) -> (u16, Value) {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let kind = headers(&[("Content-Type", "application/x-www-form-urlencoded")]);
    let answer = send(at, "POST", path, &kind, body.as_bytes()).await;
    (answer.head.status(), value(&answer))
}

pub async fn send(at: SocketAddr, method: &str, path: &str, with: &Headers, body: &[u8]) -> Response {
    let mut http = RawHttp::connect(at).await.expect("it listens");
    http.patience = Duration::from_secs(30);
    http.request(method, path, with, body).await.expect("an answer")
}

pub async fn get(at: SocketAddr, path: &str, with: &[(&str, &str)]) -> Response {
    send(at, "GET", path, &headers(with), b"").await
}

/// The JSON of a body, or null.
pub fn value(answer: &Response) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_default()
}

/// One parameter of an address.
pub fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// A legacy session of whoever has this token.
pub struct Client {
    pub at: SocketAddr,
    pub token: String,
    pub path: String,
    session: Headers,
}

impl Client {
    /// Before anything was said.
    pub fn new(at: SocketAddr, token: &str) -> Self {
        Self { at, token: token.to_owned(), path: "/mcp".into(), session: Vec::new() }
    }

    pub async fn begin(at: SocketAddr, token: &str) -> Self {
        Self::begin_at(at, token, "/mcp").await
    }

    /// Begins a session at a path.
    pub async fn begin_at(at: SocketAddr, token: &str, path: &str) -> Self {
        let mut client = Self { path: path.into(), ..Self::new(at, token) };
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = client.ask(0, "initialize", params).await;
        assert_eq!(answer.head.status(), 200, "{}", answer.text());
        let id = answer.head.header("mcp-session-id");
        let id = id.unwrap_or_else(|| panic!("no session at {path}: {}", answer.text())).to_owned();
        client.session = headers(&[("MCP-Protocol-Version", "2025-06-18"), ("Mcp-Session-Id", &id)]);
        let said = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(client.post(said.to_string().as_bytes()).await.head.status(), 202);
        client
    }

    /// The same session for somebody else, or elsewhere.
    pub fn as_sent(&self, at: SocketAddr, token: &str) -> Self {
        Self { at, token: token.to_owned(), path: self.path.clone(), session: self.session.clone() }
    }

    pub fn headers(&self) -> Headers {
        let mut all = post_headers();
        if !self.token.is_empty() {
            all.push(("Authorization".into(), format!("Bearer {}", self.token)));
        }
        all.extend(self.session.clone());
        all
    }

    pub async fn post(&self, body: &[u8]) -> Response {
        send(self.at, "POST", &self.path, &self.headers(), body).await
    }

    pub async fn ask(&self, id: u32, method: &str, params: Value) -> Response {
        let asked = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.post(asked.to_string().as_bytes()).await
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Response {
        self.ask(7, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }
}
