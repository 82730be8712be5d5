//! A gateway that browsers find at an https address: the document that says who it is, at a provider that takes it, and the
//! cookies of its logins.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;

use lb_peers::harness::Gateway;
use lb_peers::idp::{Browser, Decision, Idp, Options};
use lb_peers::raw::http::Response;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::guard::{Guard, Wants};
use crate::service::provider;
use crate::world::{self, ALLOW, Client, get, value};
use crate::{LANDBRIDGE, open, row};

/// A gateway behind a proxy that speaks TLS, a server behind the gateway, and the provider of both.
struct Site {
    gateway: Gateway,
    authority: String,
    url: String,
    _idp: Idp,
    notes: std::path::PathBuf,
    _guard: Guard,
}

impl Site {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [ca, notes, config, settings] =
            ["ca.pem", "notes", "mcp.json", "landbridge.toml"].map(|name| folder.path().join(name));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(&ca, made.cert.pem()).expect("written");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let authority = format!("localhost:{}", listener.local_addr().expect("its address").port());
        let url = format!("https://{authority}");
        let (redirects, groups) = (vec![format!("{url}/oauth/callback")], "carol=admins".to_owned());
        let (noted, documents_ca) = (Some(notes.clone()), Some(ca));
        let idp = provider(Options { redirects, groups, notes: noted, documents_ca, ..Options::default() }).await;
        let guard = Guard::start(Wants::TokenOf(idp.issuer.clone())).await;
        let servers = json!({ "mcpServers": { "team": { "url": guard.url, "auth": "user" } } });
        std::fs::write(&config, servers.to_string()).expect("written");
        std::fs::write(&settings, ALLOW).expect("written");
        let mut command = Command::new(LANDBRIDGE);
        command.args(["serve", "--listen", "127.0.0.1:0", "--settings"]).arg(&settings).arg("--config").arg(&config);
        world::with_provider(&mut command, &url, &idp);
        command.stdin(Stdio::null());
        let gateway = Gateway::launch(command, folder).await;
        proxy(listener, gateway.address, &made);
        Self { gateway, authority, url, _idp: idp, notes, _guard: guard }
    }

    fn at(&self) -> SocketAddr {
        self.gateway.address
    }

    fn browser(&self) -> Browser {
        Browser::default().by_way_of(&self.authority, self.at())
    }

    /// A session of somebody who has logged in.
    async fn session(&self, user: &str) -> Client {
        let client = world::register(self.at()).await;
        let start = world::authorize(&self.url, &client, "mcp:call");
        let login = self.browser().login(&start, world::REDIRECT, user, Decision::Approve).await.expect("it goes on");
        let code = world::parameter(&login.url, "code").unwrap_or_else(|| panic!("{login:?} {}", self.gateway.said()));
        Client::begin(self.at(), &world::redeem(self.at(), &client, &code).await.access).await
    }

    /// The link to the login at the server.
    async fn link(&self, session: &Client) -> String {
        session.call("execute_tool", call()).await;
        let servers = value(&session.call("list_servers", json!({})).await);
        row(&servers["result"]["structuredContent"])["loginUrl"].as_str().expect("a link").to_owned()
    }

    /// What a browser is told when it comes back from the provider.
    async fn came_back(&self, browser: &mut Browser, start: &str, user: &str) -> Response {
        let stop = format!("{}/oauth/callback", self.url);
        let stopped = browser.login(start, &stop, user, Decision::Approve).await.expect("it goes on");
        browser.open(&stopped.url, None).await.expect("an answer")
    }
}

/// Speaks TLS in front of a gateway, as a proxy does.
#[expect(clippy::disallowed_methods, reason = "a test's proxy ends with its runtime")]
fn proxy(listener: TcpListener, gateway: SocketAddr, made: &rcgen::CertifiedKey<rcgen::KeyPair>) {
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config.expect("a certificate")));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut to = TcpStream::connect(gateway).await.expect("it listens");
                // Whoever closes first ends both.
                tokio::io::copy_bidirectional(&mut stream, &mut to).await.ok();
            });
        }
    });
}

fn call() -> Value {
    json!({ "server": "team", "tool": "echo", "args": { "message": "heard" } })
}

/// The provider of a server knows us by our document, which it asks our gateway for.
#[tokio::test]
async fn a_provider_that_takes_documents_knows_the_gateway_by_its_own() {
    let site = Site::start().await;
    let document = get(site.at(), "/oauth/client.json", &[]).await;
    let (told, id) = (value(&document), format!("{}/oauth/client.json", site.url));
    assert_eq!((document.head.status(), told["client_id"].as_str()), (200, Some(id.as_str())), "{told}");
    assert_eq!(told["redirect_uris"], json!([format!("{}/oauth/backend/callback", site.url)]));
    assert_eq!((&told["token_endpoint_auth_method"], told.get("client_secret")), (&json!("none"), None));
    let session = site.session("alice").await;
    let link = site.link(&session).await;
    let done = open(&mut site.browser(), &link, "alice", Decision::Approve).await;
    assert_eq!(done.page.as_ref().map(|(status, _)| *status), Some(200), "{done:?} {}", site.gateway.said());
    let as_document = |url: &url::Url| world::parameter(url, "client_id").as_deref() == Some(id.as_str());
    assert!(done.trace.iter().any(|(at, _)| at.path() == "/auth" && as_document(at)), "{:?}", done.trace);
    let works = session.call("execute_tool", call()).await.text();
    assert!(works.contains("heard"), "{works} {}", site.gateway.said());
    // The provider gave the token to this very client.
    let notes = std::fs::read_to_string(&site.notes).expect("notes");
    let redeemed = notes.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ours = redeemed.filter(|note| note["asked"]["client_id"] == id.as_str());
    assert!(ours.any(|note| note["answered"]["access_token"].is_string()), "{notes}");
}

/// The one cookie that an answer sets and whose name begins like this, and what it is set with.
fn set<'a>(answer: &'a Response, name: &str) -> (String, Vec<&'a str>) {
    let all = answer.head.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case("set-cookie"));
    let mut found = all.filter_map(|(_, value)| value.strip_prefix(name)?.split_once('=')).map(|(_, text)| text);
    let (Some(text), None) = (found.next(), found.next()) else { panic!("{name}: {:?}", answer.head.headers) };
    let mut parts = text.split("; ");
    (parts.next().unwrap_or_default().to_owned(), parts.collect())
}

/// A browser takes them from this very host with encryption alone, and gives them to nobody else.
#[tokio::test]
async fn the_cookies_of_operators_and_people_are_of_this_host_alone() {
    let site = Site::start().await;
    let mut browser = site.browser();
    let page = site.came_back(&mut browser, &format!("{}/login", site.url), "carol").await;
    let (cookie, with) = set(&page, "__Host-lb_ui");
    assert_eq!(with[..4], ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"], "{with:?}");
    for (name, status) in [("__Host-lb_ui", 200), ("lb_ui", 401)] {
        let answer = get(site.at(), "/sessions", &[("Cookie", &format!("{name}={cookie}"))]).await;
        assert_eq!(answer.head.status(), status, "{name}");
    }
    let session = site.session("alice").await;
    let link = site.link(&session).await;
    let mut browser = site.browser();
    let page = site.came_back(&mut browser, &link, "alice").await;
    let (_, with) = set(&page, "__Host-lb_person_");
    assert_eq!(with[..4], ["Secure", "HttpOnly", "SameSite=Lax", "Path=/"], "{with:?}");
    let every: Vec<&str> = page.head.headers.iter().map(|(_, value)| value.as_str()).collect();
    assert!(!every.iter().any(|value| value.contains("Domain")), "{every:?}");
    let on = page.head.header("location").expect("it goes on").to_owned();
    let done = open(&mut browser, &on, "alice", Decision::Approve).await;
    assert_eq!(done.page.as_ref().map(|(status, _)| *status), Some(200), "{done:?} {}", site.gateway.said());
}
