use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::testing::{REDIRECT, World, authorize, settings};
use crate::{
    ApiKeys, Ask, CLIENTS_MAX, Fetch, FetchError, People, Refusal, Rules, Scopes, Secret, Settings, UNUSED_LIFE,
    new_key,
};

const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_answer_is_told_to_everybody_within_five_seconds() {
    let world = World::new().await;
    let client = world.client().await;
    world.tokens(&client, &[]).await;
    // What it says of itself is known; that it is there is not.
    world.later(31);
    world.idp.silent.store(true, Ordering::SeqCst);
    let pages = [world.asked(&client, &[]).await, world.asked(&client, &[]).await, world.asked(&client, &[]).await];
    let asked = world.idp.asked.load(Ordering::SeqCst);
    let began = tokio::time::Instant::now();
    let pressed = pages.iter().map(|page| world.press(page, "approve"));
    for seen in futures_util::future::join_all(pressed).await {
        assert_eq!(seen.status, 503, "{}", seen.text);
        assert!(seen.text.contains("provider of the login cannot be reached"), "{}", seen.text);
    }
    assert!(began.elapsed() < WITHIN, "{:?}", began.elapsed());
    assert_eq!(world.idp.asked.load(Ordering::SeqCst), asked + 1, "all wait for one answer");
    let seen = world.press(&pages[0], "approve").await;
    assert!(seen.status == 503 && began.elapsed() < WITHIN, "that it failed is known for a moment");
    world.idp.silent.store(false, Ordering::SeqCst);
    world.later(5);
    assert_eq!(world.press(&pages[0], "approve").await.status, 303, "nobody has to begin again");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_from_a_provider_that_stopped_is_told_within_five_seconds() {
    let world = World::new().await;
    let client = world.client().await;
    let before = world.tokens(&client, &[]).await;
    let state = world.agreed(&client, &[]).await;
    world.idp.silent.store(true, Ordering::SeqCst);
    let began = tokio::time::Instant::now();
    let seen = world.came_back(&state).await;
    assert_eq!(seen.parameter("error").as_deref(), Some("temporarily_unavailable"));
    assert!(began.elapsed() < WITHIN, "{:?}", began.elapsed());
    assert!(world.is_good(&before).await, "whoever is logged in does not notice");
    assert_eq!(world.refresh(&client, &before, &[]).await.status, 200);
}

#[tokio::test]
async fn whoever_is_not_let_in_any_more_logs_in_anew_and_what_is_open_ends() {
    let world = World::new().await;
    let client = world.client().await;
    let tokens = world.tokens(&client, &[]).await;
    let token = tokens["access_token"].as_str().unwrap();
    let family = world.check(token, "/mcp").await.unwrap().family.clone().unwrap();
    assert!(world.auth.is_alive(&family, None, world.now()).await.unwrap());
    let nobody = People { subjects: vec!["somebody else".into()], ..People::default() };
    world.auth.set_rules(Rules { allow: Some(nobody), ..Rules::default() });
    assert_eq!(world.check(token, "/mcp").await.unwrap_err(), Refusal::Invalid);
    assert!(!world.auth.is_alive(&family, None, world.now()).await.unwrap());
    let seen = world.refresh(&client, &tokens, &[]).await;
    assert_eq!((seen.status, seen.error()), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn a_code_of_somebody_who_is_let_in_no_more_is_used_up() {
    let world = World::new().await;
    let client = world.client().await;
    let code = world.code(&client, &[]).await;
    let nobody = People { subjects: vec!["somebody else".into()], ..People::default() };
    world.auth.set_rules(Rules { allow: Some(nobody), ..Rules::default() });
    assert_eq!(world.redeem(&client, &code, &[]).await.error(), "invalid_grant");
    world.auth.set_rules(settings().rules);
    let seen = world.redeem(&client, &code, &[]).await;
    assert_eq!((seen.status, seen.error()), (400, "invalid_grant".into()), "every attempt uses it up");
}

#[tokio::test]
async fn a_page_in_the_place_of_a_clients_document_ends_nobodys_work() {
    const ID: &str = "https://app.test/client.json";
    let good = json!({"client_id": ID, "client_name": "App", "redirect_uris": [REDIRECT]});
    for page in
        [json!(null), json!("a page"), json!({"error": "busy"}), json!({"client_id": ID}), json!({"client_id": 1})]
    {
        let site = Arc::new(Site(Mutex::new(good.clone())));
        let world = World::with_documents(settings(), site.clone()).await;
        let before = world.tokens(ID, &[]).await;
        let state = world.agreed(ID, &[]).await;
        // The person takes a while; when the client comes with the code, what was known of it is over.
        world.later(50);
        let code = world.came_back(&state).await.parameter("code").unwrap();
        *site.0.lock() = page.clone();
        world.later(30);
        assert_eq!(world.get(&authorize(ID, &[])).await.status, 400, "{page}: nobody new is sent anywhere");
        for seen in [world.redeem(ID, &code, &[]).await, world.refresh(ID, &before, &[]).await] {
            assert_eq!(seen.status, 200, "{page}: {}", seen.text);
        }
    }
    // What it says of itself counts.
    for (key, value) in [
        ("token_endpoint_auth_method", "private_key_jwt"),
        ("client_secret", "x"),
        ("client_id", "https://app.test/another.json"),
    ] {
        let site = Arc::new(Site(Mutex::new(good.clone())));
        let world = World::with_documents(settings(), site.clone()).await;
        let before = world.tokens(ID, &[]).await;
        site.0.lock()[key] = json!(value);
        world.later(61);
        assert_eq!(world.refresh(ID, &before, &[]).await.status, 401, "{key}");
    }
}

/// A site whose one document changes; null is a page.
struct Site(Mutex<Value>);

impl Fetch for Site {
    fn fetch(&self, _: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let body = self.0.lock().clone();
        let kind = if body.is_null() { "text/html" } else { "application/json" };
        let answer = Response::builder().header("content-type", kind).body(body.to_string().into());
        std::future::ready(Ok(answer.unwrap())).boxed()
    }
}

#[tokio::test]
async fn what_is_used_with_a_key_or_the_operators_token_ends_with_it() {
    let (key, line) = new_key("ci", &Scopes::usual()).unwrap();
    let api_keys = ApiKeys::parse(&line).unwrap();
    let world = World::with(Settings { api_keys, ..settings() }).await;
    let by_key = world.check(key.expose(), "/mcp").await.unwrap();
    let by_operator = world.check("operator-token-of-the-test", "/mcp").await.unwrap();
    for grant in [&by_key, &by_operator] {
        let visitor = world.auth.visitor(grant);
        assert!(visitor.family.is_some() && visitor.client.is_none(), "{visitor:?}");
        assert!(world.auth.is_alive(grant.family.as_deref().unwrap(), None, world.now()).await.unwrap());
    }
    world.auth.set_api_keys(ApiKeys::default());
    world.auth.set_operator_token(Some(&Secret::new("another-token-of-the-test")));
    for grant in [&by_key, &by_operator] {
        assert!(!world.auth.is_alive(grant.family.as_deref().unwrap(), None, world.now()).await.unwrap());
    }
    assert_eq!(world.check("operator-token-of-the-test", "/mcp").await.unwrap_err(), Refusal::Invalid);
    assert!(world.check("another-token-of-the-test", "/mcp").await.unwrap().is_admin());
}

#[tokio::test]
async fn what_is_open_at_a_server_ends_when_no_request_to_it_would_be_let_through() {
    let (key, line) = new_key("ci", &Scopes::usual()).unwrap();
    let world = World::with(Settings { api_keys: ApiKeys::parse(&line).unwrap(), ..settings() }).await;
    let client = world.client().await;
    let tokens = world.tokens(&client, &[]).await;
    let by_login = world.check(tokens["access_token"].as_str().unwrap(), "/mcp").await.unwrap().family.clone().unwrap();
    let by_key = world.check(key.expose(), "/mcp").await.unwrap().family.clone().unwrap();
    let at = async |family: &str, server| world.auth.is_alive(family, Some(server), world.now()).await.unwrap();
    assert!(at(&by_login, "prod").await && at(&by_key, "prod").await);
    // Whoever may be an administrator has no more than the token says.
    let alice = People { subjects: vec!["alice".into()], ..People::default() };
    let docs = crate::Rule { who: None, servers: vec!["docs".into()], tools: vec!["*".into()] };
    world.auth.set_rules(Rules { admins: alice, permit: vec![docs], ..Rules::default() });
    assert!(!at(&by_login, "prod").await && at(&by_login, "docs").await);
    world.auth.set_rules(Rules::default());
    // The same key, for less.
    let narrower = line.replace(&Scopes::usual().to_string(), "server:docs");
    world.auth.set_api_keys(ApiKeys::parse(&narrower).unwrap());
    assert!(!at(&by_key, "prod").await && at(&by_key, "docs").await);
}

#[tokio::test]
async fn using_a_client_makes_nobody_an_administrator_or_a_guest() {
    let world = World::new().await;
    let client = world.client().await;
    let by_client = People { clients: vec![client.clone()], ..People::default() };
    let rules = settings().rules;
    world.auth.set_rules(Rules { admins: by_client.clone(), ..rules.clone() });
    let state = world.agreed(&client, &[("scope", "mcp:admin")]).await;
    assert_eq!(world.came_back(&state).await.parameter("error").as_deref(), Some("invalid_scope"));
    world.auth.set_rules(Rules { allow: Some(by_client.clone()), ..rules });
    let state = world.agreed(&client, &[]).await;
    assert_eq!(world.came_back(&state).await.parameter("error").as_deref(), Some("access_denied"));
    let alone = Settings { rules: Rules { allow: Some(by_client), ..Rules::default() }, ..settings() };
    assert_eq!(alone.problems().len(), 1, "clients alone let nobody in");
}

/// Logs an operator in who wants to see a page.
async fn shown(world: &World) -> u16 {
    let to = world.browse("GET", "/login", &[], "").await;
    *world.idp.nonce.lock() = to.parameter("nonce").unwrap();
    world.came_back(&to.parameter("state").unwrap()).await.status
}

#[tokio::test]
async fn using_a_client_opens_no_page_of_the_operators() {
    let world = World::new().await;
    let client = world.client().await;
    let grant = world.check(world.tokens(&client, &[]).await["access_token"].as_str().unwrap(), "/mcp").await.unwrap();
    let by_client = People { clients: vec![client, "browser".into()], ..People::default() };
    let rules = Rules { admins: by_client, ..settings().rules };
    world.auth.set_rules(rules.clone());
    assert_eq!(world.auth.lacks_admin(&grant), Refusal::Denied, "no scope would help");
    assert_eq!(shown(&world).await, 403);
    // Somebody who was one when they logged in.
    let alice = People { subjects: vec!["alice".into()], ..People::default() };
    world.auth.set_rules(Rules { admins: alice, ..rules.clone() });
    assert_eq!(shown(&world).await, 200);
    let cookie = world.cookies.lock().iter().find(|(name, _)| name == "__Host-lb_ui").unwrap().1.clone();
    let mut headers = http::HeaderMap::new();
    headers.insert("cookie", format!("__Host-lb_ui={cookie}").parse().unwrap());
    let page = "/sessions".parse().unwrap();
    assert!(world.auth.check_page(&headers, &page, world.now()).await.is_ok());
    world.auth.set_rules(rules);
    assert_eq!(world.auth.check_page(&headers, &page, world.now()).await.unwrap_err(), Refusal::Denied);
}

#[tokio::test]
async fn an_address_of_ours_is_written_as_clients_write_it() {
    let world = World::with(Settings { public_url: "https://GW.test:443".into(), ..settings() }).await;
    let told = world.get("/.well-known/oauth-protected-resource").await.json();
    assert_eq!(told["resource"], "https://gw.test/mcp");
    let client = world.client().await;
    world.tokens(&client, &[("resource", "https://gw.test/mcp")]).await;
}

#[tokio::test]
async fn without_a_scope_a_client_gets_what_is_usual_whatever_it_registered() {
    let world = World::new().await;
    let told = world.register(&json!({"scope": "mcp:read"})).await;
    let tokens = world.tokens(told["client_id"].as_str().unwrap(), &[]).await;
    assert_eq!(tokens["scope"], "mcp:read mcp:call");
}

#[tokio::test]
async fn another_page_ends_no_login_of_a_browser() {
    let world = World::new().await;
    let client = world.client().await;
    let page = world.asked(&client, &[]).await;
    let cookie = page.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("SameSite=Lax"), "it comes along from the client's page: {cookie}");
    let state = world.agreed(&client, &[]).await;
    for query in ["x=1", "state=of-another", "code=c&state="] {
        let seen = world.browse("GET", &format!("/oauth/callback?{query}"), &[], "").await;
        assert_eq!(seen.status, 400);
        assert!(!seen.headers.contains_key("set-cookie"), "{query}");
    }
    assert!(world.came_back(&state).await.parameter("code").is_some());
}

#[tokio::test]
async fn pages_of_this_machine_may_ask_for_tokens_and_others_only_when_named() {
    let world = World::with(Settings { origins: vec!["https://app.test".into()], ..settings() }).await;
    for (origin, may) in [
        ("http://localhost:6274", true),
        ("http://127.0.0.1:6274", true),
        ("https://app.test", true),
        ("https://evil.test", false),
        ("http://localhost.evil.test", false),
        ("null", false),
    ] {
        let seen = world.send("OPTIONS", "/token", &[("origin", origin)], "").await;
        assert_eq!(seen.headers.contains_key("access-control-allow-origin"), may, "{origin}");
    }
    world.auth.set_origins(vec!["https://evil.test".into()]);
    let seen = world.send("OPTIONS", "/token", &[("origin", "https://evil.test")], "").await;
    assert!(seen.headers.contains_key("access-control-allow-origin"));
    let open = Settings { origins: vec!["*".into()], ..settings() };
    assert_eq!(open.problems().len(), 1);
}

#[tokio::test]
async fn a_userinfo_that_fails_fails_only_logins_that_need_it() {
    let world = World::new().await;
    let client = world.client().await;
    *world.idp.claims.lock() = json!({"groups": null});
    *world.idp.userinfo.lock() = json!(null);
    world.tokens(&client, &[]).await;
    let staff = People { groups: vec!["staff".into()], ..People::default() };
    world.auth.set_rules(Rules { allow: Some(staff), ..Rules::default() });
    let state = world.agreed(&client, &[]).await;
    assert_eq!(world.came_back(&state).await.parameter("error").as_deref(), Some("temporarily_unavailable"));
}

#[tokio::test]
async fn documents_can_be_asked_for_without_their_body_and_registrations_are_json() {
    let world = World::new().await;
    assert_eq!(world.send("HEAD", "/.well-known/oauth-authorization-server", &[], "").await.status, 200);
    let body = json!({"redirect_uris": ["https://app.test/cb"]}).to_string();
    let seen = world.send("POST", "/register", &[("content-type", "text/plain")], &body).await;
    assert_eq!((seen.status, seen.error()), (400, "invalid_client_metadata".into()));
}

#[tokio::test]
async fn an_address_registers_ten_in_an_hour_and_a_hundred_in_a_day() {
    let world = World::new().await;
    let said = json!({"redirect_uris": ["https://client.test/cb"], "token_endpoint_auth_method": "none"}).to_string();
    let register = async || world.send("POST", "/register", &[("content-type", "application/json")], &said).await;
    // From the beginning of a day on.
    let into_the_day = crate::token::seconds(world.now()) % 86_400;
    world.later(86_400 - into_the_day);
    for _ in 0..10 {
        for _ in 0..10 {
            assert_eq!(register().await.status, 201);
        }
        let seen = register().await;
        assert_eq!(seen.status, 429, "{}", seen.text);
        assert_eq!(seen.headers["retry-after"], "3600");
        world.later(3_600);
    }
    // What was refused does not count.
    let seen = register().await;
    assert_eq!(seen.status, 429, "the hundred and first: {}", seen.text);
    assert_eq!(seen.headers["retry-after"], (14 * 3_600).to_string());
    world.later(14 * 3_600);
    assert_eq!(register().await.status, 201, "another day");
}

#[tokio::test]
async fn there_are_ten_thousand_registrations_at_most() {
    let world = World::new().await;
    for number in 0..CLIENTS_MAX - 1 {
        let key = lb_store::Key::parse(&format!("client:{{{number:032x}}}")).unwrap();
        world.store.set(&key, "{}", UNUSED_LIFE).await.unwrap();
    }
    let said = json!({"redirect_uris": ["https://client.test/cb"], "token_endpoint_auth_method": "none"}).to_string();
    let register = async || world.send("POST", "/register", &[("content-type", "application/json")], &said).await;
    assert_eq!(register().await.status, 201, "the last one");
    let seen = register().await;
    assert_eq!((seen.status, seen.error().as_str()), (429, "temporarily_unavailable"), "{}", seen.text);
    assert!(seen.headers.contains_key("retry-after"));
    // Those that nobody used are over by themselves, and there is room again.
    for number in 0..10 {
        let key = lb_store::Key::parse(&format!("client:{{{number:032x}}}")).unwrap();
        world.store.delete(&key).await.unwrap();
    }
    world.later(60);
    assert_eq!(register().await.status, 201);
}
