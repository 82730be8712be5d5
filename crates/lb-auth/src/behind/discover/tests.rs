use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Response;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::FetchError;

pub(in crate::behind) const SERVER: &str = "https://files.test/mcp";
pub(in crate::behind) const RESOURCE: &str = "https://files.test/.well-known/oauth-protected-resource/mcp";
pub(in crate::behind) const METADATA: &str = "https://as.test/.well-known/oauth-authorization-server";

/// Says what a test wants under each address, and that there is nothing under all others.
#[derive(Default)]
pub(in crate::behind) struct Web {
    pages: BTreeMap<&'static str, (u16, Value)>,
    pub asked: Mutex<Vec<String>>,
    is_cut: bool,
}

impl Fetch for Web {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        self.asked.lock().push(ask.url.to_string());
        let (status, body) = self.pages.get(ask.url.as_str()).cloned().unwrap_or((404, Value::Null));
        let mut answer = Response::builder().status(status);
        // Where it leads on to stands where its body would be.
        if let (300..400, Some(to)) = (status, body.as_str()) {
            answer = answer.header("location", to);
        }
        let answer = answer.body(body.to_string().into()).unwrap();
        std::future::ready(if self.is_cut { Err(FetchError::Timeout) } else { Ok(answer) }).boxed()
    }
}

pub(in crate::behind) fn metadata(changes: &Value) -> Value {
    let mut said = json!({
        "issuer": "https://as.test",
        "authorization_endpoint": "https://as.test/authorize",
        "token_endpoint": "https://as.test/token",
        "registration_endpoint": "https://as.test/register",
        "code_challenge_methods_supported": ["plain", "S256"],
        "scopes_supported": ["files", "offline_access"],
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(said.as_object_mut().unwrap().remove(name)),
            value => said[name] = value.clone(),
        }
    }
    said
}

pub(in crate::behind) fn resource(issuer: &str) -> Value {
    json!({"resource": SERVER, "authorization_servers": [issuer], "scopes_supported": ["files"]})
}

async fn found(web: Web, challenges: &[&str]) -> Result<Found, DiscoverError> {
    let server = Url::parse(SERVER).unwrap();
    let challenges: Vec<String> = challenges.iter().map(|text| (*text).to_owned()).collect();
    discover(Arc::new(web), &server, &Challenge::of(&challenges, &server)).await
}

pub(in crate::behind) fn web(pages: &[(&'static str, u16, Value)]) -> Web {
    Web { pages: pages.iter().map(|(url, status, body)| (*url, (*status, body.clone()))).collect(), ..Web::default() }
}

#[tokio::test]
async fn who_makes_tokens_is_found_and_the_careless_are_refused() {
    for (changes, named, want) in [
        (json!({}), "https://as.test", Ok("https://as.test")),
        // Byte for byte: both the name that the server gives and the one that it gives itself.
        (json!({}), "https://as.test/", Err("equal byte for byte")),
        (json!({"issuer": "https://as.test/"}), "https://as.test", Err("equal byte for byte")),
        (json!({"issuer": "https://as.test/"}), "https://as.test/", Ok("https://as.test/")),
        (json!({"issuer": "https://evil.test"}), "https://as.test", Err("issuer mismatch")),
        (json!({"issuer": null}), "https://as.test", Err("missing required issuer")),
        (json!({"code_challenge_methods_supported": null}), "https://as.test", Err("PKCE")),
        (json!({"code_challenge_methods_supported": ["plain"]}), "https://as.test", Err("PKCE")),
        (json!({"token_endpoint": "http://as.test/token"}), "https://as.test", Err("not https: http://as.test")),
        (json!({"authorization_endpoint": "http://as.test/a"}), "https://as.test", Err("not https")),
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "https://as.test", Err("not https")),
        (json!({"registration_endpoint": "http://10.0.0.1/r"}), "https://as.test", Err("not https")),
        // The server is not on this machine: what is there is none of its business.
        (
            json!({"token_endpoint": "http://127.0.0.1:1/token"}),
            "https://as.test",
            Err("not https: http://127.0.0.1:1"),
        ),
        (json!({"registration_endpoint": "http://localhost:1/r"}), "https://as.test", Err("not https")),
        (json!({"authorization_endpoint": "https://[::1]/a"}), "https://as.test", Err("not https")),
    ] {
        let web = web(&[(RESOURCE, 200, resource(named)), (METADATA, 200, metadata(&changes))]);
        let got = found(web, &[]).await.map(|found| (found.maker.issuer, found.resource));
        match (got, want) {
            (Ok(got), Ok(want)) => assert_eq!(got, (want.to_owned(), SERVER.to_owned()), "{changes}"),
            (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{changes}: {error}"),
            (got, want) => panic!("{changes}: {got:?}, not {want:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_has_its_tokens_made_where_all_did_in_2025_03_26() {
    let found_there = found(web(&[]), &["Bearer"]).await.unwrap();
    let maker = found_there.maker;
    assert_eq!((maker.issuer.as_str(), maker.is_named, maker.registers), ("https://files.test", false, true));
    assert_eq!(maker.token_endpoint, "https://files.test/token");
    // S256 is sent all the same.
    let mut manager = found_there.manager;
    let config = rmcp::transport::auth::OAuthClientConfig::new("us", "http://127.0.0.1/cb");
    manager.configure_client(config).unwrap();
    let address = manager.get_authorization_url(&[]).await.unwrap();
    assert!(address.starts_with("https://files.test/authorize?"), "{address}");
    assert!(address.contains("code_challenge_method=S256") && address.contains("resource="), "{address}");
    // One that says something, and be it that it does not tell, is not guessed at.
    for status in [200, 401, 403] {
        let error = found(web(&[(RESOURCE, status, json!({}))]), &[]).await.err().unwrap();
        assert!(matches!(error, DiscoverError::Unfit(_)), "{status}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_asked_is_not_one_that_says_nothing() {
    let error = found(Web { is_cut: true, ..Web::default() }, &[]).await.err().unwrap();
    assert_eq!(error, DiscoverError::Away("files.test: it did not answer in time".into()));
    let error = found(web(&[(RESOURCE, 503, Value::Null)]), &[]).await.err().unwrap();
    assert_eq!(error, DiscoverError::Away("files.test answered 503".into()));
}

#[tokio::test]
async fn what_a_challenge_says_goes_first_and_the_server_itself_is_not_asked_again() {
    let elsewhere = "https://files.test/elsewhere";
    let pages = web(&[(elsewhere, 200, resource("https://as.test")), (METADATA, 200, metadata(&json!({})))]);
    let pages = Arc::new(pages);
    let server = Url::parse(SERVER).unwrap();
    let said = format!("Bearer scope=\"files:write\", resource_metadata=\"{elsewhere}\"");
    let challenge = Challenge::of(&["Basic realm=\"x\"".into(), "Bearer".into(), said], &server);
    assert_eq!(challenge.scopes, ["files:write"]);
    let found = discover(pages.clone(), &server, &challenge).await.unwrap();
    assert_eq!(found.manager.select_initial_scopes(&[]).await, ["files:write", "offline_access"]);
    assert!(found.maker.offline);
    assert_eq!(*pages.asked.lock(), [elsewhere, METADATA]);
}

/// A server could name a document of its own making that says of itself that it is somebody else's.
#[tokio::test]
async fn what_is_said_of_an_issuer_lies_where_only_that_issuer_can_put_it() {
    let root = "https://as.test/.well-known/oauth-authorization-server";
    let tenant = |place: &'static str| (place, "https://as.test/t", vec!["https://as.test/t"], true);
    let strange = |place: &'static str| (place, "https://as.test", vec![place, "https://as.test"], false);
    for (place, issuer, named, is_good) in [
        (root, "https://as.test", vec!["https://as.test"], true),
        ("https://as.test/.well-known/openid-configuration", "https://as.test", vec!["https://as.test"], true),
        (root, "https://as.test", vec![root, "https://as.test"], true),
        tenant("https://as.test/.well-known/oauth-authorization-server/t"),
        tenant("https://as.test/.well-known/openid-configuration/t"),
        tenant("https://as.test/t/.well-known/openid-configuration"),
        tenant(root),
        strange("https://evil.test/a/.well-known/b"),
        strange("https://evil.test/x/.well-known/oauth-authorization-server"),
        strange("https://as.test/users/evil/.well-known/b"),
        strange("https://as.test/.well-known/oauth-authorization-server/../../users/.well-known/b"),
        strange("https://as.test:8443/a/.well-known/b"),
    ] {
        let mut said = resource(issuer);
        said["authorization_servers"] = json!(named);
        let page = metadata(&json!({"issuer": issuer, "token_endpoint": "https://evil.test/t"}));
        let place = Url::parse(place).unwrap().to_string().leak();
        let got = found(web(&[(RESOURCE, 200, said), (place, 200, page)]), &[]).await;
        match got {
            Ok(found) => assert!(is_good && found.maker.issuer == issuer, "{place}"),
            Err(error) => assert!(!is_good && error.to_string().contains("does not lie where"), "{place}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_document_may_lead_on_and_one_that_nobody_names_is_the_servers_own() {
    let page = "https://as.test/about/metadata.json";
    let to = |address: &str| json!(address);
    let named = (RESOURCE, 200, resource("https://as.test"));
    let led = web(&[named.clone(), (METADATA, 302, to("/about/metadata.json")), (page, 200, metadata(&json!({})))]);
    assert_eq!(found(led, &[]).await.unwrap().maker.issuer, "https://as.test");
    let evil = "https://evil.test/metadata.json";
    let astray = web(&[named, (METADATA, 302, to(evil)), (evil, 200, metadata(&json!({})))]);
    assert!(found(astray, &[]).await.is_err());
    // As in 2025-03-26: at the origin of the server, which is the issuer.
    let own = metadata(&json!({"issuer": "https://files.test"}));
    let own = web(&[("https://files.test/.well-known/oauth-authorization-server", 200, own)]);
    assert_eq!(found(own, &[]).await.unwrap().maker.issuer, "https://files.test");
}

/// Who is told of a logout is shown the secret.
#[tokio::test]
async fn a_logout_is_told_where_tokens_are_made_or_nowhere() {
    for (address, is_told) in [
        ("https://tokens.test/revoke", true),
        ("https://as.test/revoke", true),
        ("https://evil.test/revoke", false),
        ("http://as.test/revoke", false),
    ] {
        let said = metadata(&json!({"token_endpoint": "https://tokens.test/t", "revocation_endpoint": address}));
        let web = web(&[(RESOURCE, 200, resource("https://as.test")), (METADATA, 200, said)]);
        let told = found(web, &[]).await.unwrap().maker.revocation_endpoint;
        assert_eq!(told.as_deref(), is_told.then_some(address));
    }
}

/// Others on the way could change what is said there, and a name may lead to what only we reach.
#[tokio::test]
async fn what_a_server_names_is_asked_over_tls_alone() {
    let plain = "http://as.test/.well-known/oauth-authorization-server";
    let pages =
        [(RESOURCE, 200, resource("http://as.test")), (plain, 200, metadata(&json!({"issuer": "http://as.test"})))];
    let pages = Arc::new(web(&pages));
    let server = Url::parse(SERVER).unwrap();
    let error = discover(pages.clone(), &server, &Challenge::default()).await.err().unwrap();
    assert_eq!(error, DiscoverError::Unfit("the server names an address that is not https: as.test".into()));
    assert!(pages.asked.lock().iter().all(|url| url.starts_with("https:")), "{:?}", pages.asked.lock());
}
