use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use lb_exchange::OauthClient;
use serde_json::json;

use super::credential::Credential;
use super::discover::tests::{METADATA, RESOURCE, SERVER, metadata, resource, web};
use super::single::Single;
use super::*;
use crate::testing::{at, memory};
use crate::{Ask, FetchError};

mod issuers;
mod overtaken;

struct Nobody;

impl Fetch for Nobody {
    fn fetch(&self, _: Ask) -> futures_util::future::BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        std::future::ready(Err(FetchError::Forbidden)).boxed()
    }
}

async fn behind(public_url: Option<&str>) -> Behind {
    let landing = Landing::At("http://127.0.0.1/cb".into());
    let settings = Settings { name: "landbridge".into(), public_url: public_url.map(str::to_owned), landing };
    Behind::new(settings, Ports { store: memory().await, reach: Arc::new(|_| Arc::new(Nobody)), people: None })
}

#[tokio::test]
async fn paths_are_answered_as_far_as_there_is_something_to_say() {
    let (nowhere, somewhere) = (behind(None).await, behind(Some("https://gw.test")).await);
    let get = |path: &str| Request::get(path).body(Bytes::new()).unwrap();
    for (path, without, with) in [
        ("/oauth/client.json", 404, 200),
        ("/oauth/style.css", 200, 200),
        ("/oauth/backend/start?id=x", 404, 404),
        ("/oauth/backend/callback", 400, 400),
        ("/oauth/backend/callback?state=a&state=b", 400, 400),
        ("/oauth/backend/callback?state=%ff", 400, 400),
        ("/elsewhere", 404, 404),
    ] {
        assert_eq!(nowhere.handle(&get(path), at(0)).await.status(), without, "{path}");
        assert_eq!(somewhere.handle(&get(path), at(0)).await.status(), with, "{path}");
    }
    let post = Request::post("/oauth/backend/callback").body(Bytes::new()).unwrap();
    assert_eq!(somewhere.handle(&post, at(0)).await.status(), 405);
    let document = somewhere.handle(&get("/oauth/client.json"), at(0)).await;
    let document: serde_json::Value = serde_json::from_slice(document.body()).unwrap();
    assert_eq!(document["client_id"], "https://gw.test/oauth/client.json");
    assert_eq!(document["application_type"], "web");
}

#[tokio::test]
async fn servers_without_a_login_have_none() {
    let behind = behind(None).await;
    let target = Target::http("https://files.test/mcp", Vec::new()).unwrap();
    let spec = ServerSpec::new(lb_exchange::ServerName::parse("files").unwrap(), target);
    let none = Arc::new(spec.clone());
    let alice = Principal::named("alice");
    assert!(behind.of(&alice, &none).is_none());
    assert!(matches!(behind.login(&alice, &none).await, Err(LoginError::Failed(_))));
    assert_eq!(behind.status(&alice, &[none]).await[0].state, State::None);
    let user = Arc::new(ServerSpec { auth: ServerAuth::User(lb_exchange::OauthClient::default()), ..spec });
    let login = behind.of(&alice, &user).unwrap();
    assert!(login.proof().await.unwrap().is_none());
    let Err(LoginError::Failed(why)) = behind.login(&alice, &user).await else { panic!("nobody can be asked") };
    assert!(why.contains("files.test: the address is not one that may be asked"), "{why}");
}

#[tokio::test]
async fn work_that_is_wanted_by_many_is_done_once_and_goes_on_when_nobody_waits() {
    let (single, tasks, count) = (Single::<usize>::default(), TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
    let (open, opened) = tokio::sync::watch::channel(false);
    let work = || {
        let (count, mut opened) = (count.clone(), opened.clone());
        move || async move {
            let number = count.fetch_add(1, Ordering::SeqCst);
            opened.wait_for(|open| *open).await.unwrap();
            number
        }
    };
    let given_up = tokio::time::timeout(std::time::Duration::ZERO, single.run(&tasks, work())).await;
    assert!(given_up.is_err());
    let waiting = futures_util::future::join_all((0..50).map(|_| single.run(&tasks, work())));
    let (all, ()) = tokio::join!(waiting, async {
        open.send_replace(true);
    });
    assert!(all.iter().all(|number| *number == Some(0)), "{all:?}");
    assert_eq!(single.run(&tasks, work()).await, Some(1), "the next one begins anew");
    let broken = single.run(&tasks, || async { panic!("a test") }).await;
    assert_eq!((broken, single.run(&tasks, work()).await), (None, Some(2)));
}

#[tokio::test]
async fn we_are_who_the_operator_says_or_our_own_document_or_who_we_register_as() {
    let named = OauthClient { client_id: Some("named".into()), ..OauthClient::default() };
    let address = Some("https://docs.test/client.json".to_owned());
    let elsewhere = OauthClient { client_id_metadata_url: address, ..OauthClient::default() };
    let nobody = OauthClient::default();
    let registered = json!({"client_id": "registered", "redirect_uris": []});
    let https = Some("https://gw.test");
    for (client, takes_documents, public_url, want) in [
        (&named, true, https, "named"),
        (&elsewhere, true, https, "https://docs.test/client.json"),
        (&nobody, true, https, "https://gw.test/oauth/client.json"),
        (&nobody, false, https, "registered"),
        (&elsewhere, false, https, "registered"),
        // Nobody could read it.
        (&nobody, true, Some("http://127.0.0.1:1"), "registered"),
        // It does not say that people come back to where they do.
        (&nobody, true, None, "registered"),
    ] {
        let said = metadata(&json!({"client_id_metadata_document_supported": takes_documents}));
        let pages = web(&[
            (RESOURCE, 200, resource("https://as.test")),
            (METADATA, 200, said),
            ("https://as.test/register", 201, registered.clone()),
        ]);
        let (pages, bounds) = (Arc::new(pages), Arc::new(Mutex::new(Vec::new())));
        let landing = public_url.map_or("http://127.0.0.1/cb".into(), |url| format!("{url}{}", Behind::CALLBACK));
        let public_url = public_url.map(str::to_owned);
        let settings = Settings { name: "us".into(), public_url, landing: Landing::At(landing) };
        let asked = bounds.clone();
        let reach: Reach = Arc::new(move |bounds| {
            asked.lock().push(bounds);
            pages.clone()
        });
        let behind = Behind::new(settings, Ports { store: memory().await, reach, people: None });
        let auth = ServerAuth::User(client.clone());
        let name = lb_exchange::ServerName::parse("files").unwrap();
        let spec =
            ServerSpec { auth, bounds: Bounds::Public, ..ServerSpec::new(name, Target::http(SERVER, vec![]).unwrap()) };
        let link = behind.login(&Principal::named("alice"), &Arc::new(spec)).await.unwrap();
        let url = url::Url::parse(&link.url).unwrap();
        let of = |name: &str| url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
        assert_eq!(of("client_id").as_deref(), Some(want), "{client:?} {takes_documents}");
        assert_eq!(of("scope").as_deref(), Some("files offline_access"));
        assert_eq!((of("prompt").as_deref(), of("resource").as_deref()), (Some("consent"), Some(SERVER)));
        assert!(bounds.lock().iter().all(|asked| *asked == Bounds::Public), "nobody is asked who may not be");
    }
}

/// A link would be good for whoever opens it, and its login the caller's.
#[tokio::test]
async fn where_callers_have_keys_and_nobody_is_a_person_no_link_is_given_out() {
    let keyed = crate::Settings { provider: None, ..crate::testing::settings() };
    let world = crate::testing::World::with(keyed).await;
    let pages = web(&[(RESOURCE, 200, resource("https://as.test")), (METADATA, 200, metadata(&json!({})))]);
    let (pages, landing) = (Arc::new(pages), Landing::At(format!("https://gw.test{}", Behind::CALLBACK)));
    let settings = Settings { name: "us".into(), public_url: Some("https://gw.test".into()), landing };
    let reach: Reach = Arc::new(move |_| pages.clone());
    let ports = Ports { store: memory().await, reach, people: Some(world.auth.clone()) };
    let client = OauthClient { client_id: Some("named".into()), ..OauthClient::default() };
    let refused = Behind::new(settings, ports).login(&Principal::named("k_ci"), &files(client)).await;
    let why = refused.expect_err("nobody can tell who opens a link").to_string();
    assert!(why.contains("it wants a person"), "{why}");
}

/// A server that people log in to, and somebody who is logged in there.
fn files(auth: OauthClient) -> Arc<ServerSpec> {
    let name = lb_exchange::ServerName::parse("files").unwrap();
    let target = Target::http(SERVER, Vec::new()).unwrap();
    Arc::new(ServerSpec { auth: ServerAuth::User(auth), ..ServerSpec::new(name, target) })
}

fn terms(whose: Whose) -> credential::Terms {
    credential::Terms {
        whose,
        issuer: "https://as.test".into(),
        client: tokens::Client { id: "us".into(), secret: None, shows: tokens::Shows::Post, registered: false },
        token_endpoint: "https://as.test/token".into(),
        revocation_endpoint: Some("https://as.test/revoke".into()),
        resource: SERVER.into(),
        scopes: Vec::new(),
        steps: credential::Steps::default(),
    }
}

fn given(life: u64) -> tokens::Tokens {
    let life = Some(std::time::Duration::from_secs(life));
    tokens::Tokens { access: "a1".into(), refresh: Some("r1".into()), life, scopes: None }
}

/// A node with a clock that a test sets.
fn node(store: &Arc<dyn Store>, web: Arc<dyn Fetch>, clock: fn() -> SystemTime) -> Behind {
    let landing = Landing::At("http://127.0.0.1/cb".into());
    let settings = Settings { name: "us".into(), public_url: None, landing };
    let reach: Reach = Arc::new(move |_| web.clone());
    Behind::with_clock(settings, Ports { store: store.clone(), reach, people: None }, clock)
}

#[tokio::test]
async fn a_logout_elsewhere_ends_a_login_here_within_five_seconds() {
    static NOW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1_000);
    fn clock() -> SystemTime {
        at(0) + std::time::Duration::from_secs(NOW.load(Ordering::SeqCst))
    }
    let (store, web) = (memory().await, Arc::new(web(&[])));
    let (here, elsewhere) = (node(&store, web.clone(), clock), node(&store, web.clone(), clock));
    let (alice, spec) = (Principal::named("alice"), files(OauthClient::default()));
    let whose = Whose::of(&alice, &spec).unwrap();
    credential::keep(&*store, &Credential::new(terms(whose), given(3_600), 0, clock())).await.unwrap();
    let login = here.of(&alice, &spec).unwrap();
    assert!(login.proof().await.unwrap().is_some() && !login.is_over().await);
    assert_eq!(elsewhere.logout(&alice, &spec).await, Ok(true));
    assert!(web.asked.lock().iter().any(|url| url == "https://as.test/revoke"), "{:?}", web.asked.lock());
    NOW.fetch_add(4, Ordering::SeqCst);
    assert!(login.proof().await.unwrap().is_some(), "nobody looks at every call");
    NOW.fetch_add(1, Ordering::SeqCst);
    assert_eq!(login.proof().await.unwrap(), None);
    assert!(login.is_over().await);
    // A login that is not theirs any more, and then is again.
    credential::keep(&*store, &Credential::new(terms(Whose::of(&alice, &spec).unwrap()), given(60), 0, clock()))
        .await
        .unwrap();
    assert!(login.proof().await.unwrap().is_some() && !login.is_over().await);
    // One that ends and cannot be renewed is over without anybody's doing.
    let mut last = Credential::new(terms(Whose::of(&alice, &spec).unwrap()), given(60), u64::MAX / 4, clock());
    last.refresh = None;
    credential::keep(&*store, &last).await.unwrap();
    NOW.fetch_add(5, Ordering::SeqCst);
    assert!(!login.is_over().await);
    NOW.fetch_add(60, Ordering::SeqCst);
    assert!(login.is_over().await);
}

/// Gives the next token once it is told to, and notes what is revoked.
struct Slow {
    asked: tokio::sync::Notify,
    go_on: tokio::sync::Notify,
    revoked: Mutex<Vec<String>>,
}

impl Fetch for Slow {
    fn fetch(&self, ask: Ask) -> futures_util::future::BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        async move {
            let body = match ask.url.path() {
                "/token" => {
                    self.asked.notify_one();
                    self.go_on.notified().await;
                    json!({"access_token": "a2", "refresh_token": "r2", "token_type": "Bearer", "expires_in": 60})
                }
                _ => {
                    self.revoked.lock().push(String::from_utf8_lossy(&ask.body).into_owned());
                    json!({})
                }
            };
            Ok(Response::new(body.to_string().into()))
        }
        .boxed()
    }
}

#[tokio::test]
async fn what_is_renewed_while_somebody_logs_out_is_revoked_and_not_used() {
    let slow = Arc::new(Slow { asked: Default::default(), go_on: Default::default(), revoked: Mutex::default() });
    let (store, alice, spec) = (memory().await, Principal::named("alice"), files(OauthClient::default()));
    let behind = node(&store, slow.clone(), SystemTime::now);
    let whose = Whose::of(&alice, &spec).unwrap();
    // It has ended, so that the next one is asked for.
    let ended = SystemTime::now() - std::time::Duration::from_secs(120);
    credential::keep(&*store, &Credential::new(terms(whose), given(60), 0, ended)).await.unwrap();
    let login = behind.of(&alice, &spec).unwrap();
    let (renewed, ()) = tokio::join!(login.proof(), async {
        slow.asked.notified().await;
        assert_eq!(behind.logout(&alice, &spec).await, Ok(true));
        slow.go_on.notify_one();
    });
    // Nobody can be asked where to log in, in this test.
    assert!(matches!(renewed, Err(LoginError::Failed(_))), "{renewed:?}");
    let revoked = slow.revoked.lock().clone();
    assert!(revoked.iter().any(|form| form.contains("token=r2")), "{revoked:?}");
    assert_eq!(login.proof().await.unwrap(), None);
}

#[tokio::test]
async fn a_secret_of_the_operator_is_shown_to_the_issuer_that_it_was_first_shown_to() {
    let store = memory().await;
    let client = |secret: &str| OauthClient {
        client_id: Some("us".into()),
        client_secret: Some(lb_exchange::Secret::new(secret)),
        ..OauthClient::default()
    };
    let evil = "https://evil.test/.well-known/oauth-authorization-server";
    let said = |issuer: &str| {
        let place = |path: &str| json!(format!("{issuer}/{path}"));
        metadata(&json!({"issuer": issuer, "token_endpoint": place("token"), "authorization_endpoint": place("a")}))
    };
    let honest = || web(&[(RESOURCE, 200, resource("https://as.test")), (METADATA, 200, metadata(&json!({})))]);
    let moved = || web(&[(RESOURCE, 200, resource("https://evil.test")), (evil, 200, said("https://evil.test"))]);
    let begin = async |web: discover::tests::Web, auth: OauthClient, who: &str| {
        let behind = node(&store, Arc::new(web), SystemTime::now);
        behind.login(&Principal::named(who), &files(auth)).await
    };
    begin(honest(), client("s1"), "alice").await.unwrap();
    begin(honest(), client("s1"), "bob").await.unwrap();
    // The server names somebody else from now on.
    let Err(LoginError::Failed(why)) = begin(moved(), client("s1"), "carol").await else { panic!("it was shown") };
    assert!(why.contains("first shown to"), "{why}");
    begin(moved(), client("s2"), "carol").await.unwrap();
    let public = OauthClient { client_id: Some("us".into()), ..OauthClient::default() };
    begin(moved(), public, "dave").await.unwrap();
}

#[tokio::test]
async fn a_login_that_does_not_begin_leaves_no_place_open() {
    use tokio_util::sync::CancellationToken;
    let opened: Arc<Mutex<Vec<CancellationToken>>> = Arc::default();
    let noted = opened.clone();
    let opener: Opener = Arc::new(move || {
        let token = CancellationToken::new();
        noted.lock().push(token.clone());
        let place = Place { address: "http://127.0.0.1:1/callback".into(), close: token.drop_guard() };
        std::future::ready(Ok(place)).boxed()
    });
    let store = memory().await;
    let behind = |registers: u16| {
        let web: Arc<dyn Fetch> = Arc::new(web(&[
            (RESOURCE, 200, resource("https://as.test")),
            (METADATA, 200, metadata(&json!({}))),
            ("https://as.test/register", registers, json!({"client_id": "us", "redirect_uris": []})),
        ]));
        let settings = Settings { name: "us".into(), public_url: None, landing: Landing::Opened(opener.clone()) };
        Behind::new(settings, Ports { store: store.clone(), reach: Arc::new(move |_| web.clone()), people: None })
    };
    let (alice, spec) = (Principal::named("alice"), files(OauthClient::default()));
    for _ in 0..3 {
        assert!(behind(400).login(&alice, &spec).await.is_err());
    }
    assert!(opened.lock().len() == 3 && opened.lock().iter().all(CancellationToken::is_cancelled));
    behind(201).login(&alice, &spec).await.unwrap();
    assert!(opened.lock().last().is_some_and(|place| !place.is_cancelled()), "somebody comes back to it");
}
