//! A provider that says what a test wants, and a browser and a client that go the whole way.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use lb_store::Store;
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

use crate::secret::{Hash, encode as base64};
use crate::{Ask, Auth, Fetch, FetchError, Keys, People, Ports, Provider, Rules, Secret, Settings};

pub(crate) const GATEWAY: &str = "https://gw.test";
pub(crate) const ISSUER: &str = "https://idp.test/";
pub(crate) const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters";
pub(crate) const REDIRECT: &str = "http://127.0.0.1:4711/cb";
pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

/// A provider with one key at a time.
pub(crate) struct FakeIdp {
    key: Mutex<(String, Vec<u8>)>,
    /// Overrides of the claims of the next id_token; null removes one.
    pub claims: Mutex<Value>,
    pub userinfo: Mutex<Value>,
    pub alg: Mutex<Option<String>>,
    pub nonce: Mutex<String>,
    pub away: AtomicBool,
    /// Whether it takes everything and answers nothing.
    pub silent: AtomicBool,
    /// How often anything was asked.
    pub asked: AtomicUsize,
    pub key_fetches: AtomicUsize,
    pub exchanges: AtomicUsize,
}

impl FakeIdp {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            key: Mutex::new(("k1".into(), new_key())),
            claims: Mutex::new(json!({})),
            userinfo: Mutex::new(json!({})),
            alg: Mutex::default(),
            nonce: Mutex::default(),
            away: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
            key_fetches: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
        })
    }

    pub fn rotate(&self, id: &str) {
        *self.key.lock() = (id.into(), new_key());
    }

    fn keys(&self) -> Value {
        let (id, key) = self.key.lock().clone();
        let pair = Ed25519KeyPair::from_pkcs8(&key).unwrap();
        json!({"keys": [
            {"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": id, "x": base64(pair.public_key().as_ref())},
            {"kty": "strange", "kid": "other"},
        ]})
    }

    fn id_token(&self) -> String {
        let now = crate::token::seconds(at(0));
        let mut claims = json!({"iss": ISSUER, "sub": "alice", "aud": "gateway", "exp": now + 300, "iat": now,
            "nonce": *self.nonce.lock(), "email": "alice@example.test", "email_verified": true, "groups": ["staff"]});
        for (name, value) in self.claims.lock().as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        let (id, key) = self.key.lock().clone();
        let header = Header { kid: Some(id), ..Header::new(Algorithm::EdDSA) };
        let token = encode(&header, &claims, &EncodingKey::from_ed_der(&key)).unwrap();
        match &*self.alg.lock() {
            None => token,
            Some(alg) => {
                let header = base64(json!({"alg": alg, "kid": "k1"}).to_string().as_bytes());
                format!("{header}.{}", token.split_once('.').unwrap().1)
            }
        }
    }
}

fn new_key() -> Vec<u8> {
    Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new()).unwrap().as_ref().to_vec()
}

impl Fetch for FakeIdp {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.silent.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.away.load(Ordering::SeqCst) {
                return Err(FetchError::Failed("refused".into()));
            }
            let at = |path: &str| format!("{ISSUER}{path}");
            let body = match ask.url.path() {
                "/.well-known/openid-configuration" => {
                    json!({"issuer": ISSUER, "authorization_endpoint": at("authorize?tenant=1"),
                    "token_endpoint": at("token"), "jwks_uri": at("keys"), "userinfo_endpoint": at("userinfo"),
                    "authorization_response_iss_parameter_supported": true})
                }
                "/keys" => {
                    self.key_fetches.fetch_add(1, Ordering::SeqCst);
                    self.keys()
                }
                "/token" => {
                    self.exchanges.fetch_add(1, Ordering::SeqCst);
                    assert!(ask.headers["authorization"].to_str().unwrap().starts_with("Basic "));
                    json!({"id_token": self.id_token(), "access_token": "at-idp"})
                }
                "/userinfo" if self.userinfo.lock().is_null() => return Err(FetchError::Failed("no userinfo".into())),
                "/userinfo" => self.userinfo.lock().clone(),
                other => panic!("{other}"),
            };
            Ok(Response::new(body.to_string().into()))
        }
        .boxed()
    }
}

/// Everybody is told the same.
pub(crate) struct Document(pub Value);

impl Fetch for Document {
    fn fetch(&self, _: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let answer = Response::builder().header("content-type", "application/json");
        std::future::ready(Ok(answer.body(self.0.to_string().into()).unwrap())).boxed()
    }
}

/// Nobody can be asked.
struct Nobody;

impl Fetch for Nobody {
    fn fetch(&self, _: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        std::future::ready(Err(FetchError::Forbidden)).boxed()
    }
}

pub(crate) fn settings() -> Settings {
    let people = |subject: &str| People { subjects: vec![subject.into()], ..People::default() };
    let allow = People { domains: vec!["example.test".into()], ..people("root") };
    Settings {
        provider: Some(Provider {
            issuer: ISSUER.into(),
            name: "Example ID".into(),
            client_id: "gateway".into(),
            client_secret: Some(Secret::new("s3cret")),
            scopes: vec!["email".into()],
            parameters: vec![("audience".into(), "x".into())],
            groups_claim: "groups".into(),
        }),
        rules: Rules { allow: Some(allow), admins: people("root"), permit: vec![] },
        operator_token: Some(Secret::new("operator-token-of-the-test")),
        ..Settings::new(GATEWAY)
    }
}

pub(crate) async fn memory() -> Arc<dyn Store> {
    lb_store::open(&lb_store::Settings::parse("memory").unwrap()).await.unwrap()
}

pub(crate) fn keys() -> Keys {
    Keys::new(b"0123456789abcdef-the-first-key-of-ours", None).unwrap()
}

/// A gateway, its provider, and what a browser remembers.
pub(crate) struct World {
    pub auth: Arc<Auth>,
    pub idp: Arc<FakeIdp>,
    pub store: Arc<dyn Store>,
    pub cookies: Mutex<Vec<(String, String)>>,
    pub now: Mutex<SystemTime>,
}

/// An answer in the shape that tests look at.
pub(crate) struct Seen {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub text: String,
}

impl Seen {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }

    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    /// Where it leads, with the parameters.
    pub fn to(&self) -> Option<Url> {
        self.headers.get("location").map(|to| Url::parse(to.to_str().unwrap()).unwrap())
    }

    /// One parameter of where it leads.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let url = self.to().unwrap_or_else(|| panic!("{} {}", self.status, self.text));
        url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }

    /// A hidden field of its form.
    pub fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let (_, rest) = self.text.split_once(&start).unwrap_or_else(|| panic!("{}", self.text));
        rest.split_once('"').unwrap().0.to_owned()
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(settings()).await
    }

    pub async fn with(settings: Settings) -> Self {
        Self::with_documents(settings, Arc::new(Nobody)).await
    }

    pub async fn with_documents(settings: Settings, documents: Arc<dyn Fetch>) -> Self {
        let (idp, store) = (FakeIdp::new(), memory().await);
        let ports = Ports { store: store.clone(), documents, provider: idp.clone() };
        let auth = Arc::new(Auth::new(settings, keys(), ports).unwrap());
        Self { auth, idp, store, cookies: Mutex::default(), now: Mutex::new(at(0)) }
    }

    pub fn now(&self) -> SystemTime {
        *self.now.lock()
    }

    pub fn later(&self, seconds: u64) {
        *self.now.lock() += Duration::from_secs(seconds);
    }

    /// Sends a request without cookies.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Seen {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::from(body.to_owned())).unwrap();
        let answer = self.auth.handle(request, HERE, self.now()).await;
        let (parts, body) = answer.into_parts();
        Seen { status: parts.status.as_u16(), headers: parts.headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    pub async fn get(&self, path: &str) -> Seen {
        self.send("GET", path, &[], "").await
    }

    pub async fn form(&self, path: &str, pairs: &[(&str, &str)]) -> Seen {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        self.send("POST", path, &headers, &encoded(pairs)).await
    }

    /// Sends a request as the browser, which keeps cookies.
    pub async fn browse(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Seen {
        let cookies =
            self.cookies.lock().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        let mut all = headers.to_vec();
        if !cookies.is_empty() {
            all.push(("cookie", &cookies));
        }
        let seen = self.send(method, path, &all, body).await;
        for cookie in seen.headers.get_all("set-cookie") {
            let (name, rest) = cookie.to_str().unwrap().split_once('=').unwrap();
            let value = rest.split(';').next().unwrap();
            let mut cookies = self.cookies.lock();
            cookies.retain(|(known, _)| known != name);
            if !value.is_empty() {
                cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        seen
    }

    pub async fn register(&self, extra: &Value) -> Value {
        let mut said =
            json!({"redirect_uris": [REDIRECT], "client_name": "Test", "token_endpoint_auth_method": "none"});
        said.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let seen = self.send("POST", "/register", &[("content-type", "application/json")], &said.to_string()).await;
        assert_eq!(seen.status, 201, "{}", seen.text);
        seen.json()
    }

    pub async fn client(&self) -> String {
        self.register(&json!({})).await["client_id"].as_str().unwrap().to_owned()
    }

    /// Asks for consent and shows the page.
    pub async fn asked(&self, client: &str, extra: &[(&str, &str)]) -> Seen {
        let seen = self.get(&authorize(client, extra)).await;
        assert_eq!(seen.status, 303, "{}", seen.text);
        let to = seen.to().unwrap();
        assert!(to.as_str().starts_with("https://gw.test/consent?id="), "{to}");
        self.browse("GET", &format!("/consent?{}", to.query().unwrap()), &[], "").await
    }

    /// Presses a button of the page.
    pub async fn press(&self, page: &Seen, decision: &str) -> Seen {
        let body = encoded(&[("id", &page.field("id")), ("csrf", &page.field("csrf")), ("decision", decision)]);
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("origin", GATEWAY)];
        self.browse("POST", "/consent", &headers, &body).await
    }

    /// Agrees; returns the state with which the provider sends the browser back.
    pub async fn agreed(&self, client: &str, extra: &[(&str, &str)]) -> String {
        let page = self.asked(client, extra).await;
        let seen = self.press(&page, "approve").await;
        assert_eq!(seen.status, 303, "{}", seen.text);
        *self.idp.nonce.lock() = seen.parameter("nonce").unwrap();
        seen.parameter("state").unwrap()
    }

    /// Comes back from the provider.
    pub async fn came_back(&self, state: &str) -> Seen {
        let query = encoded(&[("code", "idp-code"), ("state", state), ("iss", ISSUER)]);
        self.browse("GET", &format!("/oauth/callback?{query}"), &[], "").await
    }

    /// The whole login, to the code.
    pub async fn code(&self, client: &str, extra: &[(&str, &str)]) -> String {
        let state = self.agreed(client, extra).await;
        let seen = self.came_back(&state).await;
        seen.parameter("code").unwrap_or_else(|| panic!("{:?}", seen.to()))
    }

    pub async fn redeem(&self, client: &str, code: &str, extra: &[(&str, &str)]) -> Seen {
        let mut form = vec![("grant_type", "authorization_code"), ("client_id", client), ("code", code)];
        form.push(("code_verifier", VERIFIER));
        form.push(("redirect_uri", REDIRECT));
        form.retain(|(name, _)| !extra.iter().any(|(other, _)| other == name));
        form.extend(extra);
        self.form("/token", &form).await
    }

    /// The whole login, to the tokens.
    pub async fn tokens(&self, client: &str, extra: &[(&str, &str)]) -> Value {
        let code = self.code(client, extra).await;
        let seen = self.redeem(client, &code, &[]).await;
        assert_eq!(seen.status, 200, "{}", seen.text);
        seen.json()
    }

    pub async fn refresh(&self, client: &str, token: &Value, extra: &[(&str, &str)]) -> Seen {
        let token = token["refresh_token"].as_str().unwrap();
        let mut form = vec![("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
        form.extend(extra);
        self.form("/token", &form).await
    }

    /// What a request to MCP with this token gets.
    pub async fn check(&self, token: &str, path: &str) -> Result<Arc<crate::Grant>, crate::Refusal> {
        let mut headers = http::HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        self.auth.check(&headers, &path.parse().unwrap(), self.now()).await
    }

    pub async fn is_good(&self, tokens: &Value) -> bool {
        self.check(tokens["access_token"].as_str().unwrap(), "/mcp").await.is_ok()
    }
}

pub(crate) fn challenge() -> String {
    Hash::of(VERIFIER.as_bytes()).base64()
}

/// A request of a client, with some parameters replaced; an empty one is left out.
pub(crate) fn authorize(client: &str, extra: &[(&str, &str)]) -> String {
    let challenge = challenge();
    let mut pairs = vec![("response_type", "code"), ("client_id", client), ("redirect_uri", REDIRECT)];
    pairs.extend([("code_challenge", challenge.as_str()), ("code_challenge_method", "S256"), ("state", "st&te=ü")]);
    pairs.retain(|(name, _)| !extra.iter().any(|(other, _)| other == name));
    pairs.extend(extra.iter().filter(|(_, value)| !value.is_empty()));
    format!("/authorize?{}", encoded(&pairs))
}

pub(crate) fn encoded(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}
