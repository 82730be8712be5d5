//! What was ever tried, or was once possible.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use http::HeaderMap;
use serde_json::{Value, json};

use crate::testing::{GATEWAY, ISSUER, REDIRECT, VERIFIER, World, authorize, challenge, encoded};
use crate::{Refusal, Scopes};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

#[tokio::test]
async fn without_the_verifier_of_the_challenge_a_code_is_worth_nothing() {
    let world = World::new().await;
    let client = world.client().await;
    let other = VERIFIER.to_uppercase();
    let challenge = challenge();
    for verifier in ["", other.as_str(), challenge.as_str(), "short", &format!("{VERIFIER} ")] {
        let code = world.code(&client, &[]).await;
        let seen = world.redeem(&client, &code, &[("code_verifier", verifier)]).await;
        assert_eq!((seen.status, seen.error()), (400, "invalid_grant".into()), "{verifier:?}");
        assert_eq!(world.redeem(&client, &code, &[]).await.error(), "invalid_grant", "it is used up");
    }
}

#[tokio::test]
async fn a_login_without_s256_does_not_begin() {
    let world = World::new().await;
    let client = world.client().await;
    for change in [
        ("code_challenge", ""),
        ("code_challenge_method", ""),
        ("code_challenge_method", "plain"),
        ("code_challenge", "short"),
        ("code_challenge", "not/base64+url/aaaaaaaaaaaaaaaaaaaaaaaaaaaa="),
    ] {
        let seen = world.get(&authorize(&client, &[change])).await;
        assert_eq!(seen.parameter("error").as_deref(), Some("invalid_request"), "{change:?}");
    }
}

#[tokio::test]
async fn a_verifier_does_not_stand_for_a_secret() {
    let world = World::new().await;
    let told = world.register(&json!({"token_endpoint_auth_method": "client_secret_basic"})).await;
    let (id, secret) = (told["client_id"].as_str().unwrap(), told["client_secret"].as_str().unwrap());
    let code = world.code(id, &[]).await;
    let seen = world.redeem(id, &code, &[]).await;
    assert_eq!((seen.status, seen.error()), (401, "invalid_client".into()));
    let seen = world.redeem(id, &code, &[("client_secret", secret)]).await;
    assert_eq!(seen.error(), "invalid_client", "it registered another way");
    let form_of = |code: &str| {
        encoded(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT),
        ])
    };
    let form = form_of(&code);
    let with = |secret: &str| format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
    let seen = world.send("POST", "/token", &[FORM, ("authorization", &with("wrong"))], &form).await;
    assert_eq!((seen.status, seen.headers["www-authenticate"].to_str().unwrap()), (401, "Basic realm=\"landbridge\""));
    let seen = world
        .send("POST", "/token", &[FORM, ("authorization", &with(secret))], &format!("{form}&client_id=mcp_other"))
        .await;
    assert_eq!(seen.error(), "invalid_client");
    let seen = world.send("POST", "/token", &[FORM, ("authorization", &with(secret))], &form).await;
    assert_eq!(seen.error(), "invalid_grant", "every attempt has used it up: {}", seen.text);
    let form = form_of(&world.code(id, &[]).await);
    let assertion = format!("{form}&client_assertion_type=urn%3Ax&client_assertion=a.b.c&client_id={id}");
    assert_eq!(world.send("POST", "/token", &[FORM], &assertion).await.error(), "invalid_client");
    let form = form_of(&world.code(id, &[]).await);
    let seen = world.send("POST", "/token", &[FORM, ("authorization", &with(secret))], &form).await;
    assert_eq!(seen.status, 200, "{}", seen.text);
}

#[tokio::test]
async fn nobody_is_sent_to_where_an_unknown_client_or_address_leads() {
    let world = World::new().await;
    let client = world.client().await;
    let evil = "https://evil.test/cb";
    let requests = [
        authorize("mcp_00000000000000000000000000000000", &[("redirect_uri", evil)]),
        authorize("https://evil.test/client.json", &[("redirect_uri", evil)]),
        authorize("", &[("redirect_uri", evil)]),
        authorize(&client, &[("redirect_uri", evil)]),
        authorize(&client, &[("redirect_uri", "")]),
        authorize(&client, &[("redirect_uri", "http://127.0.0.1:4711/cb/..")]),
        authorize(&client, &[("redirect_uri", "http://127.0.0.1:4711@evil.test/cb")]),
        format!("{}&redirect_uri=https%3A%2F%2Fevil.test%2F", authorize(&client, &[])),
        format!("{}&client_id=x", authorize(&client, &[])),
        format!("/authorize?client_id={client}&redirect_uri=%ff"),
    ];
    for request in requests {
        let seen = world.get(&request).await;
        assert_eq!(seen.status, 400, "{request}");
        assert!(!seen.headers.contains_key("location"), "{request}");
        assert!(seen.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    }
    let unknown =
        world.auth.clients.find("mcp_00000000000000000000000000000000", crate::testing::HERE, world.now()).await;
    assert!(unknown.is_err(), "nobody is registered by asking");
}

#[tokio::test]
async fn the_port_of_a_loopback_address_is_free() {
    let world = World::new().await;
    let client = world.client().await;
    let other = "http://127.0.0.1:9/cb";
    let code = world.code(&client, &[("redirect_uri", other)]).await;
    assert_eq!(world.redeem(&client, &code, &[]).await.error(), "invalid_grant", "the address is that of the request");
    let code = world.code(&client, &[("redirect_uri", other)]).await;
    assert_eq!(world.redeem(&client, &code, &[("redirect_uri", other)]).await.status, 200);
}

#[tokio::test]
async fn a_code_of_another_client_or_resource_is_worth_nothing() {
    let world = World::new().await;
    let (mine, theirs) = (world.client().await, world.client().await);
    let code = world.code(&mine, &[]).await;
    assert_eq!(world.redeem(&theirs, &code, &[]).await.error(), "invalid_grant");
    let code = world.code(&mine, &[]).await;
    assert_eq!(world.redeem(&mine, &code, &[("resource", "https://evil.test/mcp")]).await.error(), "invalid_target");
    let code = world.code(&mine, &[("resource", "https://gw.test/mcp/native")]).await;
    assert_eq!(world.redeem(&mine, &code, &[("resource", "https://gw.test/mcp")]).await.error(), "invalid_target");
    let tokens = world.tokens(&mine, &[("resource", "https://gw.test/mcp/native/")]).await;
    let token = tokens["access_token"].as_str().unwrap();
    assert!(world.check(token, "/mcp/native").await.is_ok());
    for path in ["/mcp", "/mcp/server/a", "/mcp/nativex", "/servers"] {
        assert_eq!(world.check(token, path).await.unwrap_err(), Refusal::Invalid, "{path}");
    }
    assert_eq!(world.refresh(&theirs, &tokens, &[]).await.error(), "invalid_grant");
    assert_eq!(world.refresh(&mine, &tokens, &[("resource", "https://gw.test/mcp")]).await.error(), "invalid_target");
    assert_eq!(world.refresh(&mine, &tokens, &[("scope", "mcp:admin")]).await.error(), "invalid_scope");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixty_redemptions_one_is_answered_and_its_tokens_are_dead() {
    let world = Arc::new(World::new().await);
    let client = world.client().await;
    let code = world.code(&client, &[]).await;
    // As many as a client at one address may try in a minute.
    let tries = (0..60).map(|_| {
        let (world, client, code) = (world.clone(), client.clone(), code.clone());
        tokio::task::spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(async move {
                let seen = world.redeem(&client, &code, &[]).await;
                (seen.status, seen.json())
            })
        })
    });
    let answers: Vec<(u16, Value)> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let won: Vec<&Value> = answers.iter().filter(|(status, _)| *status == 200).map(|(_, body)| body).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|(status, body)| *status == 200 || body["error"] == "invalid_grant"), "{answers:?}");
    assert!(!world.is_good(won[0]).await);
}

#[tokio::test]
async fn consent_cannot_be_given_by_another_page_or_browser() {
    let world = World::new().await;
    let client = world.client().await;
    let page = world.asked(&client, &[]).await;
    let body = encoded(&[("id", &page.field("id")), ("csrf", &page.field("csrf")), ("decision", "approve")]);
    for origin in ["https://evil.test", "null", "http://gw.test", "https://gw.test.evil.test", "https://gw.test:444"] {
        let seen = world.browse("POST", "/consent", &[FORM, ("origin", origin)], &body).await;
        assert_eq!(seen.status, 403, "{origin}");
    }
    // Somebody else's page, opened in the attacker's own browser, and sent by the victim's.
    let victim = world.send("POST", "/consent", &[FORM, ("origin", GATEWAY)], &body).await;
    assert_eq!(victim.status, 403, "no cookie");
    let other = format!("__Host-lb_form={}", crate::Secret::random().expose());
    assert_eq!(world.send("POST", "/consent", &[FORM, ("cookie", &other)], &body).await.status, 403, "another cookie");
    for (id, csrf) in
        [(page.field("id"), String::new()), (page.field("id"), "0".repeat(64)), ("x".into(), page.field("csrf"))]
    {
        let body = encoded(&[("id", &id), ("csrf", &csrf), ("decision", "approve")]);
        assert_eq!(world.browse("POST", "/consent", &[FORM], &body).await.status, 403);
    }
    // A mark belongs to one login.
    let second = world.asked(&client, &[]).await;
    let mixed = encoded(&[("id", &second.field("id")), ("csrf", &page.field("csrf")), ("decision", "approve")]);
    assert_eq!(world.browse("POST", "/consent", &[FORM], &mixed).await.status, 403);
    // Browsers that say no origin are known by the mark; and it is good once.
    assert_eq!(world.browse("POST", "/consent", &[FORM], &body).await.status, 303);
    assert_eq!(world.browse("POST", "/consent", &[FORM], &body).await.status, 400);
}

#[tokio::test]
async fn whoever_did_not_agree_in_this_browser_gets_no_code() {
    let world = World::new().await;
    let client = world.client().await;
    let state = world.agreed(&client, &[]).await;
    let back = |state: &str| {
        format!("/oauth/callback?{}", encoded(&[("code", "idp-code"), ("state", state), ("iss", ISSUER)]))
    };
    assert_eq!(world.get(&back(&state)).await.status, 400, "no cookie");
    let name = world.cookies.lock().iter().find(|(name, _)| name.starts_with("__Host-lb_tx_")).unwrap().0.clone();
    let other = format!("{name}={}", crate::Secret::random().expose());
    assert_eq!(world.send("GET", &back(&state), &[("cookie", &other)], "").await.status, 400, "another cookie");
    let right = format!("{name}={state}");
    assert_eq!(world.send("GET", &back("x"), &[("cookie", &right)], "").await.status, 400, "another state");
    let twice = format!("{right}; {other}");
    assert_eq!(world.send("GET", &back(&state), &[("cookie", &twice)], "").await.status, 400, "two cookies");
    assert_eq!(world.idp.exchanges.load(Ordering::SeqCst), 0);
    let seen = world.came_back(&state).await;
    assert!(seen.parameter("code").is_some());
    assert!(
        seen.headers.get_all("set-cookie").iter().any(|cookie| cookie.to_str().unwrap().contains(&format!("{name}=;")))
    );
    assert_eq!(world.send("GET", &back(&state), &[("cookie", &right)], "").await.status, 400, "it is good once");
}

#[tokio::test]
async fn another_issuer_is_refused_before_anything_is_asked_of_it() {
    let world = World::new().await;
    let client = world.client().await;
    for iss in [Some("https://evil.test/"), Some("https://idp.test"), None] {
        let state = world.agreed(&client, &[]).await;
        let mut pairs = vec![("code", "idp-code"), ("state", state.as_str())];
        pairs.extend(iss.map(|iss| ("iss", iss)));
        let seen = world.browse("GET", &format!("/oauth/callback?{}", encoded(&pairs)), &[], "").await;
        assert_eq!(seen.parameter("error").as_deref(), Some("server_error"), "{iss:?}");
    }
    assert_eq!(world.idp.exchanges.load(Ordering::SeqCst), 0);
    for (sent, told) in [
        ("access_denied", "access_denied"),
        ("temporarily_unavailable", "temporarily_unavailable"),
        ("weird", "server_error"),
    ] {
        let state = world.agreed(&client, &[]).await;
        let query = encoded(&[("error", sent), ("state", &state), ("iss", ISSUER)]);
        let seen = world.browse("GET", &format!("/oauth/callback?{query}"), &[], "").await;
        assert_eq!(
            (seen.parameter("error").as_deref(), seen.parameter("state").as_deref()),
            (Some(told), Some("st&te=ü"))
        );
    }
}

#[tokio::test]
async fn a_login_takes_ten_minutes_at_most() {
    let world = World::new().await;
    let client = world.client().await;
    let page = world.asked(&client, &[]).await;
    world.later(600);
    assert_eq!(world.press(&page, "approve").await.status, 400);
    let state = world.agreed(&client, &[]).await;
    world.later(600);
    assert_eq!(world.came_back(&state).await.status, 400);
}

#[tokio::test]
async fn a_login_takes_no_longer_than_the_operator_says() {
    let lives = crate::Lives { login: std::time::Duration::from_secs(120), ..crate::Lives::default() };
    let world = World::with(crate::Settings { lives, ..crate::testing::settings() }).await;
    let client = world.client().await;
    let page = world.asked(&client, &[]).await;
    world.later(119);
    assert_eq!(world.press(&page, "approve").await.status, 303);
    let page = world.asked(&client, &[]).await;
    world.later(120);
    assert_eq!(world.press(&page, "approve").await.status, 400);
    let state = world.agreed(&client, &[]).await;
    world.later(120);
    assert_eq!(world.came_back(&state).await.status, 400);
}

#[tokio::test]
async fn tokens_that_are_sent_in_other_ways_are_not_looked_at() {
    let world = World::new().await;
    let check = async |headers: &[(&str, &str)], uri: &str| {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        world.auth.check(&map, &uri.parse().unwrap(), world.now()).await.unwrap_err()
    };
    let bearer = ("authorization", "Bearer x");
    assert_eq!(check(&[], "/mcp").await, Refusal::NoCredentials);
    assert_eq!(check(&[("authorization", "Basic eDp5")], "/mcp").await, Refusal::NoCredentials);
    assert_eq!(check(&[bearer, bearer], "/mcp").await, Refusal::Malformed);
    assert_eq!(check(&[bearer], "/mcp?access_token=x").await, Refusal::Malformed);
    assert_eq!(check(&[], "/mcp?access_token=x").await, Refusal::Malformed);
    for odd in ["Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer \"a\""] {
        assert_eq!(check(&[("authorization", odd)], "/mcp").await, Refusal::Malformed, "{odd}");
    }
    for foreign in ["x", "at-idp", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "operator-token"] {
        assert_eq!(
            check(&[("authorization", &format!("Bearer {foreign}"))], "/mcp").await,
            Refusal::Invalid,
            "{foreign}"
        );
    }
    let answer = world.auth.refuse(&Refusal::Scope { scopes: Scopes::usual() }, "/mcp/native", Some(&json!("a")));
    assert!(
        answer.headers()["www-authenticate"]
            .to_str()
            .unwrap()
            .contains("/.well-known/oauth-protected-resource/mcp/native\"")
    );
}

#[tokio::test]
async fn what_is_no_form_is_an_error_of_oauth_and_not_of_the_server() {
    let world = World::new().await;
    let client = world.client().await;
    for (kind, body) in
        [("application/json", "{\"grant_type\":\"authorization_code\"}"), ("text/plain", "grant_type=x"), ("", "")]
    {
        let seen = world.send("POST", "/token", &[("content-type", kind)], body).await;
        assert_eq!((seen.status, seen.error()), (400, "invalid_request".into()), "{kind}");
    }
    for (body, error) in [
        (format!("client_id={client}"), "invalid_request"),
        (format!("client_id={client}&grant_type=password"), "unsupported_grant_type"),
        (format!("client_id={client}&grant_type=authorization_code"), "invalid_request"),
        (format!("client_id={client}&grant_type=authorization_code&code=x"), "invalid_grant"),
        (format!("client_id={client}&grant_type=refresh_token"), "invalid_request"),
        (format!("client_id={client}&grant_type=refresh_token&refresh_token=x"), "invalid_grant"),
        (format!("client_id={client}&client_id={client}&grant_type=x"), "invalid_request"),
        ("client_id=unknown&grant_type=refresh_token".into(), "invalid_client"),
        (format!("client_id={client}&client_secret=x&grant_type=refresh_token"), "invalid_client"),
    ] {
        assert_eq!(world.send("POST", "/token", &[FORM], &body).await.error(), error, "{body}");
    }
    let huge = format!("client_id={client}&x={}", "a".repeat(17_000));
    assert_eq!(world.send("POST", "/token", &[FORM], &huge).await.status, 413);
    assert_eq!(world.send("POST", "/register", &[], &"a".repeat(17_000)).await.status, 413);
    for body in ["", "[]", "null", "{\"redirect_uris\":[1]}"] {
        let seen = world.send("POST", "/register", &[], body).await;
        assert_eq!(seen.status, 400, "{body}");
    }
}

#[tokio::test]
async fn a_client_that_did_not_register_for_it_cannot_refresh() {
    let world = World::new().await;
    let told = world.register(&json!({"grant_types": ["authorization_code"]})).await;
    let id = told["client_id"].as_str().unwrap();
    let tokens = world.tokens(id, &[]).await;
    assert!(tokens.get("refresh_token").is_none());
    assert!(world.is_good(&tokens).await);
    let seen =
        world.form("/token", &[("client_id", id), ("grant_type", "refresh_token"), ("refresh_token", "x")]).await;
    assert_eq!(seen.error(), "unauthorized_client");
}

#[tokio::test]
async fn nothing_that_is_secret_is_kept_or_shown() {
    let world = World::new().await;
    let told = world.register(&json!({"token_endpoint_auth_method": "client_secret_post"})).await;
    let (id, secret) = (told["client_id"].as_str().unwrap(), told["client_secret"].as_str().unwrap());
    let page = world.asked(id, &[]).await;
    let state = world.agreed(id, &[]).await;
    let secrets =
        [page.field("id"), state.clone(), secret.to_owned(), "s3cret".into(), "operator-token-of-the-test".into()];
    use futures_util::StreamExt as _;
    let mut keys = world.store.scan("");
    while let Some(key) = keys.next().await {
        let key = key.unwrap();
        // Counts cannot be read as values everywhere, and say nothing.
        let kept = if key.as_str().starts_with("rate:") { None } else { world.store.get(&key).await.unwrap() };
        let kept = format!("{key} {}", String::from_utf8_lossy(&kept.unwrap_or_default()));
        for secret in &secrets {
            assert!(!kept.contains(secret.as_str()), "{kept}");
        }
    }
    let shown = format!("{:?} {:?}", world.auth, world.auth.settings);
    for secret in ["s3cret", "operator-token-of-the-test", "0123456789abcdef"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
