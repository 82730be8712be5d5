//! A gateway that answers only what this crate answers, on a socket, and a client of it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use lb_auth::behind::Behind;
use lb_auth::{Ask, Auth, Fetch, FetchError, Hash, Keys, People, Ports, Provider, Rules, Secret, Settings};
use lb_peers::idp::{Browser, CLIENT_SECRET, Decision, Idp, Options, Stopped};
use lb_peers::raw::endpoint;
use lb_peers::raw::http::{RawHttp, headers};
use lb_peers::raw::http1::{Conn, response};
use lb_store::Store;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters";
pub const REDIRECT: &str = "http://127.0.0.1:4711/cb";

/// Asks over plain sockets.
pub struct Sockets;

impl Fetch for Sockets {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        async move {
            let failed = |error: std::io::Error| FetchError::Failed(error.to_string());
            let url = ask.url;
            let address = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap()).parse().unwrap();
            let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
            let mut sent = vec![("Connection".to_owned(), "close".to_owned())];
            sent.extend(ask.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())));
            let mut connection = RawHttp::connect(address).await.map_err(failed)?;
            let answer = connection.request(ask.method.as_str(), &path, &sent, &ask.body).await.map_err(failed)?;
            let mut built = Response::builder().status(answer.head.status());
            for (name, value) in &answer.head.headers {
                built = built.header(name, value);
            }
            Ok(built.body(answer.body.into()).unwrap())
        }
        .boxed()
    }
}

/// A gateway on loopback, and its provider.
pub struct World {
    pub auth: Arc<Auth>,
    pub url: String,
    pub idp: Option<Idp>,
    pub options: Options,
}

pub fn keys() -> Keys {
    Keys::new(b"0123456789abcdef-the-first-key-of-ours", None).unwrap()
}

impl World {
    /// Starts both. What the rules say of people is said of groups and domains, which the provider tells in different ways.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Self {
        Self::start_with(store, options, |_, _| None).await
    }

    /// The same with what logs in at servers behind it.
    pub async fn start_with(
        store: Arc<dyn Store>,
        mut options: Options,
        behind: impl FnOnce(&str, &Arc<Auth>) -> Option<Behind>,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        options.redirects = vec![format!("{url}/oauth/callback")];
        options.groups = "carol=admins".into();
        let idp = tokio::task::spawn_blocking({
            let options = options.clone();
            move || Idp::start(&options)
        });
        let idp = idp.await.unwrap();
        let ports = Ports { store, documents: Arc::new(Sockets), provider: Arc::new(Sockets) };
        let auth = Arc::new(Auth::new(settings(&url, &idp.issuer), keys(), ports).unwrap());
        serve(listener, auth.clone(), behind(&url, &auth));
        options.port = idp.port;
        Self { auth, url, idp: Some(idp), options }
    }

    /// Another node with a store of its own.
    pub fn node(&self, store: Arc<dyn Store>) -> Auth {
        let ports = Ports { store, documents: Arc::new(Sockets), provider: Arc::new(Sockets) };
        Auth::new(settings(&self.url, &self.idp.as_ref().unwrap().issuer), keys(), ports).unwrap()
    }

    /// Posts to the gateway.
    pub async fn post(&self, path: &str, kind: &str, body: &str) -> (u16, Value) {
        let address = self.url.strip_prefix("http://").unwrap().parse().unwrap();
        let mut connection = RawHttp::connect(address).await.unwrap();
        let answer = connection.post(path, &headers(&[("Content-Type", kind)]), body.as_bytes()).await.unwrap();
        (answer.head.status(), serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    }

    pub async fn form(&self, path: &str, pairs: &[(&str, &str)]) -> (u16, Value) {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.post(path, "application/x-www-form-urlencoded", &body).await
    }

    pub async fn register(&self) -> String {
        let said = json!({"redirect_uris": [REDIRECT], "client_name": "Test", "token_endpoint_auth_method": "none"});
        let (status, told) = self.post("/oauth/register", "application/json", &said.to_string()).await;
        assert_eq!(status, 201, "{told}");
        told["client_id"].as_str().unwrap().to_owned()
    }

    /// What a client opens in a browser.
    pub fn authorize(&self, client: &str, scope: &str) -> String {
        let mut url = Url::parse(&format!("{}/authorize", self.url)).unwrap();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", client)
            .append_pair("redirect_uri", REDIRECT)
            .append_pair("code_challenge", &Hash::of(VERIFIER.as_bytes()).base64())
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", "the client's")
            .append_pair("scope", scope)
            .append_pair("resource", &format!("{}/mcp", self.url));
        url.into()
    }

    pub async fn login(
        &self,
        browser: &mut Browser,
        client: &str,
        scope: &str,
        user: &str,
        decision: Decision,
    ) -> Stopped {
        let start = self.authorize(client, scope);
        let login = browser.login(&start, REDIRECT, user, decision);
        tokio::time::timeout(Duration::from_secs(40), login).await.expect("a login ends").unwrap()
    }

    pub async fn redeem(&self, client: &str, code: &str) -> (u16, Value) {
        self.form("/token", &redemption(client, code)).await
    }

    pub async fn check(&self, token: &str) -> Result<std::sync::Arc<lb_auth::Grant>, lb_auth::Refusal> {
        let mut headers = http::HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        self.auth.check(&headers, &"/mcp".parse().unwrap(), SystemTime::now()).await
    }
}

fn settings(url: &str, issuer: &str) -> Settings {
    let allow = People { domains: vec!["example.test".into()], ..People::default() };
    let admins = People { groups: vec!["admins".into()], ..People::default() };
    Settings {
        provider: Some(Provider {
            issuer: issuer.into(),
            name: "the test's provider".into(),
            client_id: "gateway".into(),
            client_secret: Some(Secret::new(CLIENT_SECRET)),
            scopes: vec!["email".into()],
            parameters: vec![],
            groups_claim: "groups".into(),
        }),
        rules: Rules { allow: Some(allow), admins, permit: vec![] },
        ..Settings::new(url)
    }
}

/// The form that redeems a code.
fn redemption<'a>(client: &'a str, code: &'a str) -> Vec<(&'a str, &'a str)> {
    let form = vec![("grant_type", "authorization_code"), ("client_id", client), ("code", code)];
    [form, vec![("code_verifier", VERIFIER), ("redirect_uri", REDIRECT)]].concat()
}

/// Redeems a code at a node that does not listen.
pub async fn redeem_at(node: &Auth, client: &str, code: &str) -> (u16, Value) {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(redemption(client, code)).finish();
    let request = Request::post("/token").header("content-type", "application/x-www-form-urlencoded");
    let answer = node.handle(request.body(body.into()).unwrap(), HERE, SystemTime::now()).await;
    (answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap())
}

/// One parameter of an address.
pub fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

#[expect(clippy::disallowed_methods, reason = "a test's server ends with its runtime")]
fn serve(listener: TcpListener, auth: Arc<Auth>, behind: Option<Behind>) {
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (auth, behind) = (auth.clone(), behind.clone());
            tokio::spawn(async move {
                let mut conn = Conn::new(stream);
                while let Ok(Some((head, body))) = endpoint::read(&mut conn).await {
                    let target = head.start.split(' ').nth(1).unwrap().to_owned();
                    let mut request = Request::builder().method(head.method()).uri(target);
                    for (name, value) in &head.headers {
                        request = request.header(name, value);
                    }
                    let request = request.body(Bytes::from(body)).unwrap();
                    let answer = match &behind {
                        Some(behind) if Behind::handles(request.uri().path()) => {
                            behind.handle(&request, SystemTime::now()).await
                        }
                        _ => auth.handle(request, HERE, SystemTime::now()).await,
                    };
                    let headers: Vec<(&str, &str)> =
                        answer.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
                    if conn.write(&response(answer.status().as_u16(), &headers, answer.body())).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}
