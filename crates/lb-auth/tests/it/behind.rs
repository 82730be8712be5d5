//! Servers that want a login, and what it takes to use them.

pub mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response};
use lb_auth::behind::{Behind, Landing, Ports, Settings};
use lb_auth::{Ask, Fetch, FetchError};
use lb_exchange::{
    Login, LoginError, LoginNeeded, Logins as _, OauthClient, Principal, Proof, Refused, ServerAuth, ServerName,
    ServerSpec, Target,
};
use lb_peers::idp::{Browser, Decision};
use lb_store::Store;
use parking_lot::Mutex;

use crate::gateway::Sockets;

/// Where people come back to; it has no port, as applications on a desktop are registered.
pub const LANDING: &str = "http://127.0.0.1/cb";

/// The way to authorization servers: counted, and as bad as a test wants it.
#[derive(Default)]
pub struct Link {
    pub refreshes: AtomicUsize,
    pub exchanges: AtomicUsize,
    pub registrations: AtomicUsize,
    pub slow: AtomicU64,
    pub is_cut: AtomicBool,
    /// Everything that was sent where tokens are made.
    pub forms: Mutex<Vec<Vec<(String, String)>>>,
}

impl Link {
    fn count(&self, ask: &Ask) {
        let form: Vec<(String, String)> = url::form_urlencoded::parse(&ask.body).into_owned().collect();
        let has = |name: &str, value: &str| form.iter().any(|(n, v)| n == name && v == value);
        let counter = match ask.url.path() {
            "/token" if has("grant_type", "refresh_token") => &self.refreshes,
            "/token" => &self.exchanges,
            "/reg" | "/register" => &self.registrations,
            _ => return,
        };
        counter.fetch_add(1, Ordering::SeqCst);
        if ask.url.path() == "/token" {
            self.forms.lock().push(form);
        }
    }
}

/// The same for everybody who has it.
#[derive(Clone, Default)]
pub struct Linked(pub Arc<Link>);

impl Fetch for Linked {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        async move {
            if self.0.is_cut.load(Ordering::SeqCst) {
                return Err(FetchError::Failed("the line is cut".into()));
            }
            self.0.count(&ask);
            let slow = Duration::from_millis(self.0.slow.load(Ordering::SeqCst));
            if !slow.is_zero() {
                tokio::time::sleep(slow).await;
            }
            Sockets.fetch(ask).await
        }
        .boxed()
    }
}

/// A node of ours that has no browser in front of it.
pub fn node(store: Arc<dyn Store>, link: &Linked) -> Behind {
    let link = link.clone();
    let ports = Ports { store, reach: Arc::new(move |_| Arc::new(link.clone())), people: None };
    let landing = Landing::At(LANDING.into());
    Behind::new(Settings { name: "landbridge".into(), public_url: None, landing }, ports)
}

/// How a server is configured.
pub fn spec(url: &str, auth: ServerAuth) -> Arc<ServerSpec> {
    let target = Target::http(url, Vec::new()).unwrap();
    Arc::new(ServerSpec { auth, ..ServerSpec::new(ServerName::parse("Files").unwrap(), target) })
}

/// A client that the provider knows.
pub fn native() -> ServerAuth {
    ServerAuth::User(OauthClient { client_id: Some("native".into()), ..OauthClient::default() })
}

pub fn alice() -> Principal {
    Principal::named("u_alice")
}

/// Goes from a link to the end of a login; the status of the page that is shown then, and its text.
pub async fn log_in(behind: &Behind, needed: &LoginNeeded, user: &str) -> (u16, String) {
    let query = come_back(needed, user, Decision::Approve).await;
    let page = behind.callback(&query, &HeaderMap::new(), SystemTime::now()).await;
    (page.status().as_u16(), String::from_utf8(page.body().to_vec()).unwrap())
}

/// What somebody brings back from the provider.
pub async fn come_back(needed: &LoginNeeded, user: &str, decision: Decision) -> String {
    let mut browser = Browser::default();
    let login = browser.login(&needed.url, LANDING, user, decision);
    let stopped = tokio::time::timeout(Duration::from_secs(40), login).await.expect("a login ends").unwrap();
    assert!(stopped.page.is_none(), "{:?} {:?}", stopped.page, stopped.trace);
    stopped.url.query().unwrap().to_owned()
}

/// Calls a server as a connection of ours does: with what there is, and once more with what comes of a refusal.
pub async fn call(login: &dyn Login, url: &str) -> Result<u16, LoginError> {
    let proof = login.proof().await?;
    let (status, challenges) = server::send(url, proof.as_ref()).await;
    if !matches!(status, 401 | 403) {
        return Ok(status);
    }
    let proof = login.refused(Refused { status, challenges, proof }).await?;
    Ok(server::send(url, Some(&proof)).await.0)
}

/// The link that a server's refusal leads to.
pub async fn needed(login: &dyn Login, url: &str) -> LoginNeeded {
    match call(login, url).await {
        Err(LoginError::Needed(needed)) => needed,
        other => panic!("{other:?}"),
    }
}

pub fn login(behind: &Behind, principal: &Principal, spec: &Arc<ServerSpec>) -> Arc<dyn Login> {
    behind.of(principal, spec).expect("somebody logs in there")
}

/// The token itself, and its number.
pub fn token(proof: &Proof) -> (String, u64) {
    (proof.value.expose().to_owned(), proof.number)
}
