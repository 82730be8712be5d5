use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};

use super::*;
use crate::fetch::{Ask, FetchError};

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(3_600_000 + seconds)
}

/// Answers every question with the same, and counts.
struct Web {
    status: u16,
    kind: &'static str,
    cache: &'static str,
    body: Mutex<Vec<u8>>,
    asked: AtomicUsize,
}

use parking_lot::Mutex;

impl Web {
    fn with(body: &Value) -> Arc<Self> {
        let body = Mutex::new(body.to_string().into_bytes());
        Arc::new(Self { status: 200, kind: "application/json", cache: "", body, asked: AtomicUsize::new(0) })
    }
}

impl Fetch for Web {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<http::Response<Bytes>, FetchError>> {
        assert_eq!(ask.method, http::Method::GET);
        async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let answer = http::Response::builder().status(self.status);
            let answer = answer.header("content-type", self.kind).header("cache-control", self.cache);
            Ok(answer.body(self.body.lock().clone().into()).unwrap())
        }
        .boxed()
    }
}

async fn clients(web: Arc<dyn Fetch>, settings: Settings) -> Clients {
    let store = lb_store::open(&lb_store::Settings::parse("memory").unwrap()).await.unwrap();
    Clients::new(store, web, &settings)
}

async fn plain() -> Clients {
    clients(Web::with(&json!({})), Settings::new("https://gw.test")).await
}

fn body(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[tokio::test]
async fn a_client_registers_and_is_found_with_what_it_said() {
    let clients = plain().await;
    let said = json!({"redirect_uris": ["http://127.0.0.1/cb"], "client_name": "Cla\u{202e}ude\u{0}", "client_id": "mcp_chosen",
        "token_endpoint_auth_method": "none", "unknown": 1, "logo_uri": "https://evil.test/x.png"});
    let told = clients.register(&body(&said), HERE, at(0)).await.unwrap();
    let id = told["client_id"].as_str().unwrap();
    assert!(id.starts_with("mcp_") && id.len() == 36 && id != "mcp_chosen", "{id}");
    assert_eq!(told["client_name"], "Claude");
    assert_eq!(told["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(told["token_endpoint_auth_method"], "none");
    assert!(told.get("client_secret").is_none());
    let client = clients.find(id, HERE, at(0)).await.unwrap();
    assert!(client.is_shown(&Shown::default()) && client.is_local_only() && client.refreshes);
    assert!(matches!(clients.find("mcp_chosen", HERE, at(0)).await, Err(ClientError::Unknown)));
    assert!(matches!(clients.find("../x", HERE, at(0)).await, Err(ClientError::Unknown)));
}

#[tokio::test]
async fn a_secret_is_told_once_kept_as_a_hash_and_asked_for_as_was_registered() {
    let clients = plain().await;
    let said = json!({"redirect_uris": ["https://app.test/cb"]});
    let told = clients.register(&body(&said), HERE, at(0)).await.unwrap();
    assert_eq!(
        (&told["token_endpoint_auth_method"], &told["client_secret_expires_at"]),
        (&json!("client_secret_basic"), &json!(0))
    );
    let secret = Secret::new(told["client_secret"].as_str().unwrap());
    let id = told["client_id"].as_str().unwrap();
    let kept = clients.store.get(&key(id).unwrap()).await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&kept).contains(secret.expose()));
    let client = clients.find(id, HERE, at(0)).await.unwrap();
    let basic = |text: &str| Shown { basic: Some(Secret::new(text)), post: None };
    assert!(client.is_shown(&basic(secret.expose())));
    for wrong in [
        basic("x"),
        basic(""),
        Shown::default(),
        Shown { basic: None, post: Some(secret.clone()) },
        Shown { basic: Some(secret.clone()), post: Some(secret.clone()) },
    ] {
        assert!(!client.is_shown(&wrong));
    }
}

#[tokio::test]
async fn registrations_that_could_do_harm_are_refused() {
    let many: Vec<String> = (0..11).map(|n| format!("https://app.test/{n}")).collect();
    for (said, redirect) in [
        (json!({}), true),
        (json!({"redirect_uris": []}), true),
        (json!({"redirect_uris": many}), true),
        (json!({"redirect_uris": ["http://evil.test/cb"]}), true),
        (json!({"redirect_uris": ["javascript:alert(1)"]}), true),
        (json!({"redirect_uris": ["https://a.test/*"]}), true),
        (json!({"redirect_uris": "https://a.test/"}), false),
        (json!({"redirect_uris": ["https://a.test/"], "grant_types": ["password"]}), false),
        (json!({"redirect_uris": ["https://a.test/"], "grant_types": ["refresh_token"]}), false),
        (json!({"redirect_uris": ["https://a.test/"], "response_types": ["token"]}), false),
        (json!({"redirect_uris": ["https://a.test/"], "scope": "all"}), false),
        (json!({"redirect_uris": ["https://a.test/"], "token_endpoint_auth_method": "private_key_jwt"}), false),
        (json!({"redirect_uris": ["https://a.test/"], "application_type": "x"}), false),
        (json!([1]), false),
    ] {
        match plain().await.register(&body(&said), HERE, at(0)).await {
            Err(RegisterError::RedirectUri(_)) if redirect => {}
            Err(RegisterError::Metadata(_)) if !redirect => {}
            other => panic!("{said}: {other:?}"),
        }
    }
    assert!(plain().await.register(b"not json", HERE, at(0)).await.is_err());
}

#[tokio::test]
async fn an_address_registers_ten_in_an_hour() {
    let clients = plain().await;
    let said = body(&json!({"redirect_uris": ["https://app.test/cb"]}));
    for _ in 0..10 {
        clients.register(&said, HERE, at(0)).await.unwrap();
    }
    let Err(RegisterError::TooMany(wait)) = clients.register(&said, HERE, at(600)).await else { panic!("too many") };
    assert_eq!(wait, Duration::from_secs(3_000));
    clients.register(&said, "10.0.0.1".parse().unwrap(), at(600)).await.unwrap();
    clients.register(&said, HERE, at(3_600)).await.unwrap();
    let kept = futures_util::StreamExt::count(clients.store.scan("client:")).await;
    assert_eq!(kept, 12);
}

const ID: &str = "https://app.test/client.json";

fn document() -> Value {
    json!({"client_id": ID, "client_name": "App", "redirect_uris": ["https://app.test/cb"]})
}

fn with(key: &str, value: Value) -> Value {
    let mut document = document();
    document[key] = value;
    document
}

#[tokio::test]
async fn a_document_is_fetched_once_for_many_and_believed_for_a_while() {
    let web = Web::with(&document());
    let clients = clients(web.clone(), Settings::new("https://gw.test")).await;
    let found = join_all((0..50).map(|_| clients.find(ID, HERE, at(0)))).await;
    assert!(found.iter().all(|client| client.as_ref().is_ok_and(|client| client.name == "App")));
    assert_eq!(web.asked.load(Ordering::SeqCst), 1);
    clients.find(ID, HERE, at(59)).await.unwrap();
    assert_eq!(web.asked.load(Ordering::SeqCst), 1);
    clients.find(ID, HERE, at(60)).await.unwrap();
    assert_eq!(web.asked.load(Ordering::SeqCst), 2);
    let client = clients.find_for_tokens(ID, HERE, at(60)).await.unwrap();
    assert_eq!((client.origin, web.asked.load(Ordering::SeqCst)), (Origin::Document { host: "app.test".into() }, 2));
}

#[tokio::test]
async fn a_document_that_turned_to_keys_gets_no_more_tokens_and_one_that_is_away_does() {
    let web = Web::with(&with("token_endpoint_auth_method", json!("private_key_jwt")));
    let turned = clients(web, Settings::new("https://gw.test")).await;
    assert!(matches!(turned.find_for_tokens(ID, HERE, at(0)).await, Err(ClientError::Document(_))));
    let away = clients(Arc::new(Away), Settings::new("https://gw.test")).await;
    assert!(away.find_for_tokens(ID, HERE, at(0)).await.is_ok());
}

#[tokio::test]
async fn a_fetch_that_nobody_waits_for_any_more_leaves_nothing() {
    let silent = clients(Arc::new(Silent), Settings::new("https://gw.test")).await;
    for n in 0..10 {
        let id = format!("{ID}?{n}");
        let asked = tokio::time::timeout(Duration::from_millis(1), silent.find(&id, HERE, at(0)));
        assert!(asked.await.is_err());
    }
    assert_eq!(silent.documents.under_way(), 0);
}

/// Nobody is there.
struct Away;

impl Fetch for Away {
    fn fetch(&self, _: Ask) -> BoxFuture<'_, Result<http::Response<Bytes>, FetchError>> {
        Box::pin(std::future::ready(Err(FetchError::Timeout)))
    }
}

/// Nobody answers.
struct Silent;

impl Fetch for Silent {
    fn fetch(&self, _: Ask) -> BoxFuture<'_, Result<http::Response<Bytes>, FetchError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn documents_that_are_not_what_they_should_be_are_refused_and_asked_for_again_later() {
    for wrong in [
        json!([]),
        with("client_id", json!("https://app.test/client.json/")),
        with("client_id", json!("https://APP.test/client.json")),
        with("client_name", json!("\u{202e}")),
        with("redirect_uris", json!([])),
        with("redirect_uris", json!(["http://evil.test/"])),
        with("client_secret", json!("x")),
        with("client_secret_expires_at", json!(0)),
        with("token_endpoint_auth_method", json!("client_secret_basic")),
        with("token_endpoint_auth_method", json!("private_key_jwt")),
    ] {
        let web = Web::with(&wrong);
        let clients = clients(web.clone(), Settings::new("https://gw.test")).await;
        assert!(matches!(clients.find(ID, HERE, at(0)).await, Err(ClientError::Document(_))), "{wrong}");
        assert!(clients.find(ID, HERE, at(29)).await.is_err());
        assert_eq!(web.asked.load(Ordering::SeqCst), 1, "{wrong}");
        *web.body.lock() = body(&document());
        assert!(clients.find(ID, HERE, at(30)).await.is_ok(), "{wrong}");
    }
    let twice = format!("{{\"client_id\":\"https://evil.test/x\",{}", document().to_string().trim_start_matches('{'));
    let web = Web::with(&json!({}));
    *web.body.lock() = twice.into_bytes();
    assert!(clients(web, Settings::new("https://gw.test")).await.find(ID, HERE, at(0)).await.is_err(), "two ids");
    let huge = Web::with(&with("pad", json!("x".repeat(70_000))));
    assert!(clients(huge, Settings::new("https://gw.test")).await.find(ID, HERE, at(0)).await.is_err(), "too long");
    for (status, kind) in [(404, "application/json"), (302, "application/json"), (200, "text/html")] {
        let web =
            Arc::new(Web { status, kind, cache: "", body: Mutex::new(body(&document())), asked: AtomicUsize::new(0) });
        assert!(
            clients(web, Settings::new("https://gw.test")).await.find(ID, HERE, at(0)).await.is_err(),
            "{status} {kind}"
        );
    }
}

#[tokio::test]
async fn addresses_that_can_be_read_in_two_ways_are_never_asked() {
    let web = Web::with(&document());
    let clients = clients(web.clone(), Settings::new("https://gw.test")).await;
    for id in [
        "http://app.test/client.json",
        "https://app.test",
        "https://app.test/",
        "https://u@app.test/x",
        "https://app.test/x#y",
        "https://app.test/../x",
        "https://app.test/%2e%2e/x",
        "https://app.test\\x",
        "https://APP.test/x",
        "https://app.test:443/x",
        "https://app.test/a b",
        "file:///etc/passwd",
        "javascript:1",
        "https://app.test/./x",
    ] {
        assert!(matches!(clients.find(id, HERE, at(0)).await, Err(ClientError::Document(_))), "{id}");
    }
    assert_eq!(web.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn nobody_keeps_a_client_out_whose_document_was_good_by_asking_for_others() {
    let web = Web::with(&document());
    let clients = clients(web, Settings::new("https://gw.test")).await;
    assert!(clients.find(ID, HERE, at(0)).await.is_ok());
    for number in 0..100 {
        clients.find(&format!("{ID}?{number}"), HERE, at(1)).await.expect_err("it says that it is another one");
    }
    assert!(matches!(clients.find(&format!("{ID}?x"), HERE, at(1)).await, Err(ClientError::TooMany(_))));
    // It is due to be asked again, and must not be.
    assert!(clients.find(ID, HERE, at(1_800)).await.is_ok());
}

/// What a node has seen is known to the others, and to itself after a restart.
#[tokio::test]
async fn a_document_that_was_good_is_asked_at_a_node_that_has_not_seen_it_whoever_asked_for_others() {
    let store = crate::testing::memory().await;
    let node = || Clients::new(store.clone(), Web::with(&document()), &Settings::new("https://gw.test"));
    let (first, second) = (node(), node());
    assert!(first.find(ID, HERE, at(0)).await.is_ok());
    for number in 0..100 {
        let from = format!("10.0.0.{number}").parse().unwrap();
        second.find(&format!("{ID}?{number}"), from, at(1)).await.expect_err("it says that it is another one");
    }
    let other = "10.0.1.1".parse().unwrap();
    assert!(matches!(second.find(&format!("{ID}?x"), other, at(1)).await, Err(ClientError::TooMany(_))));
    assert!(second.find(ID, other, at(1)).await.is_ok());
}

#[tokio::test]
async fn a_good_document_does_for_a_day_however_often_its_host_is_not_there() {
    let web = Web::with(&document());
    let flaky = Arc::new(Flaky { web, away: AtomicBool::new(false) });
    let clients = clients(flaky.clone(), Settings::new("https://gw.test")).await;
    assert!(clients.find(ID, HERE, at(0)).await.is_ok());
    flaky.away.store(true, Ordering::SeqCst);
    let day = 86_400;
    for hour in 1..=24 {
        assert!(clients.find(ID, HERE, at(hour * 3_600)).await.is_ok(), "{hour}");
    }
    assert!(clients.find(ID, HERE, at(day + 90)).await.is_err(), "it is not prolonged by that");
}

/// A host that goes away.
struct Flaky {
    web: Arc<Web>,
    away: AtomicBool,
}

impl Fetch for Flaky {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<http::Response<Bytes>, FetchError>> {
        if self.away.load(Ordering::SeqCst) {
            Box::pin(std::future::ready(Err(FetchError::Timeout)))
        } else {
            self.web.fetch(ask)
        }
    }
}

#[tokio::test]
async fn documents_are_asked_for_a_hundred_times_an_hour_and_of_allowed_hosts_only() {
    let web = Web::with(&json!({}));
    let open = clients(web.clone(), Settings::new("https://gw.test")).await;
    for n in 0..100 {
        assert!(matches!(open.find(&format!("{ID}?{n}"), HERE, at(0)).await, Err(ClientError::Document(_))));
    }
    assert!(matches!(open.find(&format!("{ID}?x"), HERE, at(0)).await, Err(ClientError::TooMany(_))));
    let other = "10.0.0.1".parse().unwrap();
    assert!(
        matches!(open.find(&format!("{ID}?x"), other, at(0)).await, Err(ClientError::TooMany(_))),
        "the host has a limit, too"
    );
    for hosts in [DocumentHosts::None, DocumentHosts::Only(vec!["other.test".into()])] {
        let closed = clients(web.clone(), Settings { documents: hosts, ..Settings::new("https://gw.test") }).await;
        assert!(matches!(closed.find(ID, HERE, at(0)).await, Err(ClientError::Document(_))));
        assert!(closed.find_for_tokens(ID, HERE, at(0)).await.is_err());
    }
    assert_eq!(web.asked.load(Ordering::SeqCst), 100);
}

#[test]
fn names_are_shown_without_what_hides_or_turns_text() {
    assert_eq!(clean(" a\u{202e}b\u{200b}c\r\n\u{1b}[2J\u{e0041}d\u{2066} ", 128), "abc[2Jd");
    assert_eq!(clean(&"x".repeat(500), 128).len(), 128);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_nobody_uses_is_gone_after_a_day_and_a_used_one_after_ninety() {
    let clients = plain().await;
    let said = body(&json!({"redirect_uris": ["https://app.test/cb"]}));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let told = clients.register(&said, HERE, at(0)).await.unwrap();
        ids.push(told["client_id"].as_str().unwrap().to_owned());
    }
    let used = clients.find(&ids[1], HERE, at(0)).await.unwrap();
    clients.used(&used).await;
    tokio::time::advance(UNUSED_LIFE + Duration::from_secs(1)).await;
    assert!(matches!(clients.find(&ids[0], HERE, at(0)).await, Err(ClientError::Unknown)));
    assert!(clients.find(&ids[1], HERE, at(0)).await.is_ok());
    tokio::time::advance(USED_LIFE).await;
    assert!(clients.find(&ids[1], HERE, at(0)).await.is_err());
}
