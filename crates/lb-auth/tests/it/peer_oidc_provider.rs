//! The whole way, with a certified provider and a browser between client and gateway.

mod behind;
mod people;
mod rotations;

use lb_auth::Refusal;
use lb_peers::idp::{Browser, Decision, Idp, Options};

use crate::gateway::{REDIRECT, World, parameter};

pub(super) async fn memory() -> std::sync::Arc<dyn lb_store::Store> {
    lb_store::open(&lb_store::Settings::parse("memory").unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_client_registers_a_person_logs_in_and_the_tokens_work() {
    let world = World::start(memory().await, Options { issuer_end: "/".into(), ..Options::default() }).await;
    let issuer = world.idp.as_ref().unwrap().issuer.clone();
    assert!(issuer.ends_with('/'));
    let client = world.register().await;
    let mut browser = Browser::default();
    let stopped = world.login(&mut browser, &client, "mcp:read mcp:call", "alice", Decision::Approve).await;
    assert!(stopped.page.is_none(), "{:?} {:?}", stopped.page, stopped.trace);
    assert_eq!(parameter(&stopped.url, "state").as_deref(), Some("the client's"));
    assert_eq!(parameter(&stopped.url, "iss").as_deref(), Some(world.url.as_str()));
    let hosts: Vec<bool> = stopped.trace.iter().map(|(url, _)| url.as_str().starts_with(&world.url)).collect();
    assert_eq!(hosts.first(), Some(&true), "consent comes first");
    assert!(hosts.contains(&false), "and then the provider");
    let code = parameter(&stopped.url, "code").unwrap();
    let (status, tokens) = world.redeem(&client, &code).await;
    assert_eq!(status, 200, "{tokens}");
    let grant = world.check(tokens["access_token"].as_str().unwrap()).await.unwrap();
    assert_eq!((&*grant.who.subject, grant.who.domain.as_deref()), ("alice", Some("example.test")));
    assert_eq!(grant.who.principal, lb_exchange::Principal::named(grant.who.principal.as_str()));
    let refresh = [("grant_type", "refresh_token"), ("client_id", client.as_str())];
    let spent = tokens["refresh_token"].as_str().unwrap();
    let (status, next) = world.form("/token", &[&refresh[..], &[("refresh_token", spent)]].concat()).await;
    assert_eq!(status, 200, "{next}");
    world.check(next["access_token"].as_str().unwrap()).await.unwrap();
    let (status, error) = world.form("/token", &[&refresh[..], &[("refresh_token", spent)]].concat()).await;
    assert_eq!(
        (status, &error["error"]),
        (400, &"invalid_grant".into()),
        "a spent token, after its answer has arrived"
    );
    assert_eq!(world.check(next["access_token"].as_str().unwrap()).await.unwrap_err(), Refusal::Invalid);
    // A second client of somebody who is logged in at the provider still asks for consent.
    let other = world.register().await;
    let stopped = world.login(&mut browser, &other, "mcp:read", "alice", Decision::Deny).await;
    assert_eq!(parameter(&stopped.url, "error").as_deref(), Some("access_denied"));
    assert!(stopped.trace.iter().all(|(url, _)| url.as_str().starts_with(&world.url)), "the provider was not asked");
}

#[tokio::test]
async fn people_get_what_the_rules_give_them() {
    let world = World::start(memory().await, Options::default()).await;
    let client = world.register().await;
    for (user, scope, want) in [
        ("unverified", "mcp:read", Err("access_denied")),
        ("bob", "mcp:admin", Err("invalid_scope")),
        ("carol", "mcp:admin", Ok(())),
    ] {
        let stopped = world.login(&mut Browser::default(), &client, scope, user, Decision::Approve).await;
        let error = parameter(&stopped.url, "error");
        assert_eq!(error.as_deref(), want.err(), "{user}: {:?} {:?}", stopped.page, stopped.trace);
        if want.is_ok() {
            let (_, tokens) = world.redeem(&client, &parameter(&stopped.url, "code").unwrap()).await;
            assert!(world.check(tokens["access_token"].as_str().unwrap()).await.unwrap().is_admin());
        }
    }
}

#[tokio::test]
async fn a_provider_that_is_away_leaves_those_who_are_logged_in_alone() {
    let mut world = World::start(memory().await, Options::default()).await;
    let client = world.register().await;
    let mut browser = Browser::default();
    let stopped = world.login(&mut browser, &client, "mcp:call", "alice", Decision::Approve).await;
    let (_, tokens) = world.redeem(&client, &parameter(&stopped.url, "code").unwrap()).await;
    drop(world.idp.take());
    world.check(tokens["access_token"].as_str().unwrap()).await.unwrap();
    let refresh = [("grant_type", "refresh_token"), ("client_id", &client)];
    let token = [("refresh_token", tokens["refresh_token"].as_str().unwrap())];
    let (status, _) = world.form("/token", &[&refresh[..], &token].concat()).await;
    assert_eq!(status, 200);
    // It comes back on its port, as another process without sessions.
    let options = world.options.clone();
    let idp = tokio::task::spawn_blocking(move || Idp::start(&options)).await.unwrap();
    world.idp = Some(idp);
    let stopped = world.login(&mut Browser::default(), &client, "mcp:call", "bob", Decision::Approve).await;
    assert!(parameter(&stopped.url, "code").is_some(), "{:?} {:?}", stopped.page, stopped.trace);
    assert!(stopped.url.as_str().starts_with(REDIRECT));
}

#[tokio::test]
async fn tokens_of_the_provider_open_nothing_here() {
    let world = World::start(memory().await, Options::default()).await;
    let issuer = world.idp.as_ref().unwrap().issuer.clone();
    // The provider gives its public client a token for our very resource.
    let mut start = url::Url::parse(&format!("{issuer}/auth")).unwrap();
    start
        .query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", "native")
        .append_pair("redirect_uri", "http://127.0.0.1/cb")
        .append_pair("scope", "openid mcp:read")
        .append_pair("resource", &format!("{}/mcp", world.url))
        .append_pair("code_challenge", &lb_auth::Hash::of(crate::gateway::VERIFIER.as_bytes()).base64())
        .append_pair("code_challenge_method", "S256");
    let mut browser = Browser::default();
    let stopped = browser.login(start.as_str(), "http://127.0.0.1/cb", "alice", Decision::Approve).await.unwrap();
    let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{:?} {:?}", stopped.page, stopped.trace));
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "authorization_code")
        .append_pair("client_id", "native")
        .append_pair("redirect_uri", "http://127.0.0.1/cb")
        .append_pair("code", &code)
        .append_pair("code_verifier", crate::gateway::VERIFIER)
        .finish();
    let url = url::Url::parse(&format!("{issuer}/token")).unwrap();
    let kind = http::HeaderValue::from_static("application/x-www-form-urlencoded");
    let headers = http::HeaderMap::from_iter([(http::header::CONTENT_TYPE, kind)]);
    let (method, timeout) = (http::Method::POST, std::time::Duration::from_secs(10));
    let ask = lb_auth::Ask { method, url, headers, body: form.into(), bytes_max: 65_536, timeout };
    let answer = lb_auth::Fetch::fetch(&crate::gateway::Sockets, ask).await.unwrap();
    let tokens: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
    for name in ["access_token", "id_token"] {
        let token = tokens[name].as_str().unwrap_or_else(|| panic!("{tokens}"));
        assert_eq!(world.check(token).await.unwrap_err(), Refusal::Invalid, "{name}");
    }
}
