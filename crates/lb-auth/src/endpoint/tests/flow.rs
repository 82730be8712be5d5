//! The whole way as it should go, and each answer on it.

use serde_json::json;

use crate::testing::{Document, GATEWAY, ISSUER, REDIRECT, World, authorize, settings};
use crate::{Decision, People, Refusal, Rules, Settings, Target};

#[tokio::test]
async fn from_registration_to_a_call_and_a_refresh() {
    let world = World::new().await;
    let client = world.client().await;
    let state = world.agreed(&client, &[("resource", "https://gw.test/mcp")]).await;
    let back = world.came_back(&state).await;
    assert_eq!(back.status, 303);
    assert!(back.to().unwrap().as_str().starts_with(REDIRECT));
    assert_eq!(back.parameter("state").as_deref(), Some("st&te=ü"), "the client's own state");
    assert_eq!(back.parameter("iss").as_deref(), Some(GATEWAY));
    let seen = world.redeem(&client, &back.parameter("code").unwrap(), &[]).await;
    assert_eq!((seen.status, seen.headers["cache-control"].to_str().unwrap()), (200, "no-store"));
    let tokens = seen.json();
    assert_eq!(
        (&tokens["token_type"], &tokens["expires_in"], &tokens["scope"]),
        (&json!("Bearer"), &json!(900), &json!("mcp:read mcp:call"))
    );
    let grant = world.check(tokens["access_token"].as_str().unwrap(), "/mcp/server/git").await.unwrap();
    assert_eq!(&*grant.who.subject, "alice");
    assert_eq!(grant.who.principal.as_str(), crate::oidc::principal(ISSUER, "alice"));
    assert_eq!(&*grant.who.client, client.as_str());
    let git = Target::Server { server: "git", tool: Some("log") };
    assert_eq!(world.auth.decide(&grant, "tools/call", git), Decision::Allow);
    world.later(2_000);
    assert_eq!(world.check(tokens["access_token"].as_str().unwrap(), "/mcp").await.unwrap_err(), Refusal::Expired);
    let seen = world.refresh(&client, &tokens, &[("scope", "mcp:read")]).await;
    assert_eq!((seen.status, &seen.json()["scope"]), (200, &json!("mcp:read")), "after the access token is over");
    assert!(world.is_good(&seen.json()).await);
}

#[tokio::test]
async fn what_we_say_of_ourselves_has_all_that_clients_look_for() {
    let world = World::new().await;
    let seen = world.get("/.well-known/oauth-authorization-server").await;
    assert_eq!(
        (&seen.headers["access-control-allow-origin"], &seen.headers["cache-control"]),
        (&"*".parse().unwrap(), &"public, max-age=300".parse().unwrap())
    );
    let want = json!({"issuer":"https://gw.test","authorization_endpoint":"https://gw.test/authorize",
        "token_endpoint":"https://gw.test/token","registration_endpoint":"https://gw.test/register",
        "revocation_endpoint":"https://gw.test/revoke",
        "response_types_supported":["code"],"response_modes_supported":["query"],
        "grant_types_supported":["authorization_code","refresh_token"],"code_challenge_methods_supported":["S256"],
        "token_endpoint_auth_methods_supported":["none","client_secret_basic","client_secret_post"],
        "revocation_endpoint_auth_methods_supported":["none","client_secret_basic","client_secret_post"],
        "scopes_supported":["mcp:read","mcp:call","mcp:admin","offline_access"],
        "authorization_response_iss_parameter_supported":true,"client_id_metadata_document_supported":true});
    assert_eq!(seen.json(), want);
    for (path, resource) in [
        ("", "/mcp"),
        ("/mcp", "/mcp"),
        ("/mcp/", "/mcp"),
        ("/mcp/native", "/mcp/native"),
        ("/mcp/server/a", "/mcp/server/a"),
    ] {
        let seen = world.get(&format!("/.well-known/oauth-protected-resource{path}")).await;
        let want = json!({"resource": format!("{GATEWAY}{resource}"), "authorization_servers": [GATEWAY],
            "scopes_supported": ["mcp:read", "mcp:call"], "bearer_methods_supported": ["header"], "resource_name": "landbridge"});
        assert_eq!(seen.json(), want, "{path}");
    }
    for path in [
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration/mcp",
        "/.well-known/oauth-protected-resource/other",
        "/.well-known/oauth-protected-resource/mcp/..%2f",
    ] {
        assert_eq!(world.get(path).await.status, 404, "{path}");
    }
    assert_eq!(
        world.send("OPTIONS", "/.well-known/oauth-protected-resource/mcp", &[], "").await.headers["access-control-allow-origin"],
        "*"
    );
    assert_eq!(world.get("/token").await.status, 405);
    assert_eq!(world.send("POST", "/authorize", &[], "").await.status, 405);
}

#[tokio::test]
async fn below_oauth_everything_is_the_same() {
    let world = World::new().await;
    let said = json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"});
    let client =
        world.send("POST", "/oauth/register", &[("content-type", "application/json")], &said.to_string()).await.json()
            ["client_id"]
            .as_str()
            .unwrap()
            .to_owned();
    let seen = world.get(&format!("/oauth{}", authorize(&client, &[]))).await;
    let page = world.browse("GET", &format!("/oauth/consent?{}", seen.to().unwrap().query().unwrap()), &[], "").await;
    assert_eq!(page.status, 200);
    let seen = world.form("/oauth/token", &[("client_id", client.as_str())]).await;
    assert_eq!((seen.status, seen.error()), (400, "invalid_request".into()));
    assert_eq!(world.form("/oauth/revoke", &[("client_id", client.as_str()), ("token", "x")]).await.status, 200);
}

#[tokio::test]
async fn the_page_cannot_be_framed_kept_or_scripted_and_binds_the_browser_before_the_provider() {
    let world = World::new().await;
    let client = world.client().await;
    let page = world.asked(&client, &[]).await;
    for (name, value) in [
        ("content-security-policy", "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
        ("cross-origin-opener-policy", "unsafe-none"),
    ] {
        assert_eq!(page.headers[name], value);
    }
    assert!(
        !page.headers.get_all("set-cookie").iter().any(|cookie| cookie.to_str().unwrap().contains("lb_tx")),
        "not before consent"
    );
    let seen = world.press(&page, "approve").await;
    let cookie = seen.headers["set-cookie"].to_str().unwrap();
    assert!(
        cookie.starts_with("__Host-lb_tx_")
            && cookie.ends_with("; Secure; HttpOnly; SameSite=Lax; Path=/; Max-Age=600"),
        "{cookie}"
    );
    let to = seen.to().unwrap();
    assert!(to.as_str().starts_with("https://idp.test/authorize?tenant=1&"), "{to}");
    for (name, value) in [
        ("scope", "openid email"),
        ("client_id", "gateway"),
        ("redirect_uri", "https://gw.test/oauth/callback"),
        ("code_challenge_method", "S256"),
        ("audience", "x"),
    ] {
        assert_eq!(seen.parameter(name).as_deref(), Some(value));
    }
    assert_ne!(seen.parameter("state").as_deref(), Some("st&te=ü"));
    let style = world.get("/oauth/style.css").await;
    assert!(
        style.headers["content-type"].to_str().unwrap().starts_with("text/css")
            && style.text.contains("prefers-color-scheme:dark")
    );
}

#[tokio::test]
async fn a_person_who_does_not_agree_or_is_not_let_in_sends_the_client_an_error() {
    let world = World::new().await;
    let client = world.client().await;
    let page = world.asked(&client, &[]).await;
    let seen = world.press(&page, "deny").await;
    assert_eq!(
        (seen.parameter("error").as_deref(), seen.parameter("state").as_deref()),
        (Some("access_denied"), Some("st&te=ü"))
    );
    assert_eq!(seen.parameter("iss").as_deref(), Some(GATEWAY));
    for (claims, scope, error) in [
        (json!({"email_verified": false}), "", "access_denied"),
        (json!({"email_verified": null}), "", "access_denied"),
        (json!({"email_verified": "true"}), "", "access_denied"),
        (json!({"email": "alice@evil.test"}), "", "access_denied"),
        (json!({"email": "alice@example.test@evil.test"}), "", "access_denied"),
        (json!({}), "mcp:admin", "invalid_scope"),
    ] {
        *world.idp.claims.lock() = claims.clone();
        let state = world.agreed(&client, &[("scope", scope)]).await;
        assert_eq!(world.came_back(&state).await.parameter("error").as_deref(), Some(error), "{claims}");
    }
    *world.idp.claims.lock() = json!({"sub": "root"});
    let tokens = world.tokens(&client, &[("scope", "mcp:admin")]).await;
    assert_eq!(tokens["scope"], "mcp:admin");
    let token = tokens["access_token"].as_str().unwrap();
    assert!(world.check(token, "/mcp").await.unwrap().is_admin());
    // The rules count as they are now.
    let allow = Some(People { subjects: vec!["root".into()], ..People::default() });
    world.auth.set_rules(Rules { allow, ..Rules::default() });
    assert!(!world.check(token, "/mcp").await.unwrap().is_admin());
    world.auth.set_rules(Rules { allow: Some(People::default()), ..Rules::default() });
    assert!(world.check(token, "/mcp").await.is_err());
}

#[tokio::test]
async fn faults_of_a_request_are_told_the_client_with_its_state() {
    let world = World::new().await;
    let client = world.client().await;
    let long = "s".repeat(1_025);
    for (change, error) in [
        (("response_type", ""), "invalid_request"),
        (("response_type", "token"), "unsupported_response_type"),
        (("response_mode", "fragment"), "invalid_request"),
        (("scope", "all"), "invalid_scope"),
        (("resource", "https://evil.test/mcp"), "invalid_target"),
        (("resource", "https://gw.test/mcp/..%2fx"), "invalid_target"),
        (("state", long.as_str()), "invalid_request"),
    ] {
        let seen = world.get(&authorize(&client, &[change])).await;
        assert_eq!((seen.status, seen.parameter("error").as_deref()), (303, Some(error)), "{change:?}");
        assert!(seen.to().unwrap().as_str().starts_with(REDIRECT) && seen.parameter("error_description").is_some());
        assert_eq!(seen.parameter("iss").as_deref(), Some(GATEWAY));
        assert_eq!(seen.parameter("state").is_none(), change.0 == "state");
    }
    let twice = format!("{}&scope=mcp:read&scope=mcp:call", authorize(&client, &[]));
    assert_eq!(world.get(&twice).await.parameter("error").as_deref(), Some("invalid_request"));
}

#[tokio::test]
async fn tokens_are_given_back_for_good() {
    let world = World::new().await;
    let client = world.client().await;
    let tokens = world.tokens(&client, &[]).await;
    let revoke = async |token: &str| world.form("/revoke", &[("client_id", client.as_str()), ("token", token)]).await;
    for foreign in ["garbage", "lbr_AAAA", "a.b.c"] {
        let seen = revoke(foreign).await;
        assert_eq!((seen.status, seen.text.as_str()), (200, ""), "{foreign}");
    }
    assert!(world.is_good(&tokens).await);
    assert_eq!(revoke(tokens["access_token"].as_str().unwrap()).await.status, 200);
    assert!(!world.is_good(&tokens).await);
    let tokens = world.refresh(&client, &tokens, &[]).await.json();
    assert_eq!(revoke(tokens["refresh_token"].as_str().unwrap()).await.status, 200);
    assert!(!world.is_good(&tokens).await);
    assert_eq!(world.refresh(&client, &tokens, &[]).await.error(), "invalid_grant");
    assert_eq!(world.form("/revoke", &[("client_id", "mcp_x"), ("token", "x")]).await.status, 401);
    assert_eq!(world.form("/revoke", &[("client_id", client.as_str())]).await.status, 400);
}

#[tokio::test]
async fn only_operators_see_how_much_there_is() {
    let world = World::new().await;
    let client = world.client().await;
    let tokens = world.tokens(&client, &[]).await;
    world.asked(&client, &[]).await;
    assert_eq!(world.get("/oauth/stats").await.status, 401);
    let user = format!("Bearer {}", tokens["access_token"].as_str().unwrap());
    assert_eq!(world.send("GET", "/oauth/stats", &[("authorization", &user)], "").await.status, 403);
    let seen = world.send("GET", "/oauth/stats", &[("authorization", "Bearer operator-token-of-the-test")], "").await;
    assert_eq!(seen.json(), json!({"clients": 1, "authSessions": 1, "upstreamSessions": 0, "tokens": 1}));
}

#[tokio::test]
async fn keys_of_programs_work_without_a_provider() {
    let (key, line) = crate::new_key("ci", &crate::Scopes::parse("mcp:read").unwrap()).unwrap();
    let api_keys = crate::ApiKeys::parse(&line).unwrap();
    let world = World::with(Settings { provider: None, api_keys, ..settings() }).await;
    let grant = world.check(key.expose(), "/mcp").await.unwrap();
    assert_eq!((grant.who.principal.as_str(), grant.is_login()), ("key:ci", false));
    let call = world.auth.decide(&grant, "tools/call", Target::Own { tool: Some("execute_tool") });
    assert!(matches!(call, Decision::StepUp { .. }));
    let refusal = world.check("lbk_wrong", "/mcp").await.unwrap_err();
    let answer = world.auth.refuse(&refusal, "/mcp", None);
    assert_eq!(
        (answer.status().as_u16(), answer.headers()["www-authenticate"].to_str().unwrap()),
        (401, "Bearer realm=\"landbridge\"")
    );
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource/mcp",
        "/authorize",
        "/oauth/style.css",
    ] {
        assert_eq!(world.get(path).await.status, 404, "{path}");
    }
    assert!(world.check("operator-token-of-the-test", "/servers").await.unwrap().is_admin());
}

#[tokio::test]
async fn a_provider_that_is_away_is_told_to_the_person_and_can_be_tried_again() {
    let world = World::new().await;
    let client = world.client().await;
    let page = world.asked(&client, &[]).await;
    world.idp.away.store(true, std::sync::atomic::Ordering::SeqCst);
    let seen = world.press(&page, "approve").await;
    assert_eq!(seen.status, 503);
    assert!(seen.text.contains("cannot be reached") && seen.headers.contains_key("retry-after"));
    world.idp.away.store(false, std::sync::atomic::Ordering::SeqCst);
    world.later(5);
    assert_eq!(world.press(&page, "approve").await.status, 303);
}

#[tokio::test]
async fn who_comes_too_often_is_told_when_to_come_back() {
    let world = World::new().await;
    let client = world.client().await;
    for _ in 0..30 {
        assert_eq!(world.get(&authorize(&client, &[])).await.status, 303);
    }
    let seen = world.get(&authorize(&client, &[])).await;
    assert_eq!(seen.status, 429);
    assert!(seen.headers.contains_key("retry-after"));
    for _ in 0..60 {
        assert_eq!(
            world.form("/token", &[("client_id", client.as_str()), ("grant_type", "x")]).await.error(),
            "unsupported_grant_type"
        );
    }
    assert_eq!(world.form("/token", &[("client_id", client.as_str())]).await.status, 429);
    assert_ne!(world.form("/token", &[("client_id", "mcp_other")]).await.status, 429);
}

#[tokio::test]
async fn what_the_provider_tells_only_on_request_supplements_what_it_signed() {
    let world = World::new().await;
    let client = world.client().await;
    *world.idp.claims.lock() = json!({"email": null, "email_verified": null});
    *world.idp.userinfo.lock() = json!({"sub": "alice", "email": "alice@example.test", "email_verified": true});
    world.tokens(&client, &[]).await;
    for wrong in [
        json!({"sub": "bob", "email": "b@example.test", "email_verified": true}),
        json!({"sub": "alice", "email": "a@evil.test", "email_verified": true}),
    ] {
        *world.idp.userinfo.lock() = wrong.clone();
        let state = world.agreed(&client, &[]).await;
        assert!(world.came_back(&state).await.parameter("error").is_some(), "{wrong}");
    }
    // What was signed is not changed by what was not.
    *world.idp.claims.lock() = json!({"email_verified": false, "groups": null});
    *world.idp.userinfo.lock() = json!({"sub": "alice", "email_verified": true});
    let state = world.agreed(&client, &[]).await;
    assert_eq!(world.came_back(&state).await.parameter("error").as_deref(), Some("access_denied"));
}

#[tokio::test]
async fn pages_of_other_origins_use_the_token_endpoint_only_when_allowed() {
    let world = World::with(Settings { origins: vec!["https://app.test".into()], ..settings() }).await;
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let good = world.send("POST", "/token", &[kind, ("origin", "https://app.test")], "").await;
    assert_eq!(good.headers["access-control-allow-origin"], "https://app.test");
    for origin in ["https://evil.test", "null", "https://app.test.evil.test"] {
        let seen = world.send("POST", "/token", &[kind, ("origin", origin)], "").await;
        assert!(!seen.headers.contains_key("access-control-allow-origin"), "{origin}");
    }
    assert!(
        !world
            .send("OPTIONS", "/consent", &[("origin", "https://app.test")], "")
            .await
            .headers
            .contains_key("access-control-allow-origin")
    );
}

#[tokio::test]
async fn a_client_that_is_a_document_is_shown_by_its_host() {
    let id = "https://app.test/client.json";
    let document = json!({"client_id": id, "client_name": "App", "redirect_uris": [REDIRECT]});
    let world = World::with_documents(settings(), std::sync::Arc::new(Document(document))).await;
    let page = world.asked(id, &[]).await;
    assert!(page.text.contains("<strong>app.test</strong>") && page.text.contains("Any program here can pretend"));
    let tokens = world.tokens(id, &[]).await;
    let grant = world.check(tokens["access_token"].as_str().unwrap(), "/mcp").await.unwrap();
    assert_eq!(&*grant.who.client, id);
    assert_eq!(world.refresh(id, &tokens, &[]).await.status, 200);
    let seen = world.get(&authorize("https://app.test/other.json", &[])).await;
    assert_eq!((seen.status, seen.headers.contains_key("location")), (400, false));
    assert!(seen.text.contains("invalid_client"));
}

#[tokio::test]
async fn a_client_of_the_operator_shows_its_secret_in_either_way() {
    let secret = crate::Secret::new("the-secret-of-the-client");
    let client = crate::KnownClient {
        id: "desk".into(),
        name: "Desk".into(),
        redirect_uris: vec![REDIRECT.into()],
        secret: Some(secret.hash()),
    };
    let world = World::with(Settings { clients: vec![client], registration: false, ..settings() }).await;
    assert!(world.asked("desk", &[]).await.text.contains("set by the operator"));
    let code = world.code("desk", &[]).await;
    assert_eq!(world.redeem("desk", &code, &[]).await.error(), "invalid_client");
    assert_eq!(world.redeem("desk", &code, &[("client_secret", "wrong")]).await.error(), "invalid_client");
    let code = world.code("desk", &[]).await;
    assert_eq!(world.redeem("desk", &code, &[("client_secret", secret.expose())]).await.status, 200);
    assert_eq!(world.send("POST", "/register", &[], "{}").await.status, 404);
    let told = world.get("/.well-known/oauth-authorization-server").await.json();
    assert!(told.get("registration_endpoint").is_none());
}

#[tokio::test]
async fn requests_can_be_answered_on_any_thread() {
    fn moves<T: Send>(future: T) -> T {
        future
    }
    let world = World::new().await;
    let request = http::Request::builder().uri("/authorize").body(bytes::Bytes::new()).unwrap();
    assert_eq!(moves(world.auth.handle(request, crate::testing::HERE, world.now())).await.status(), 400);
    let (headers, uri) = (http::HeaderMap::new(), "/mcp".parse().unwrap());
    assert!(moves(world.auth.check(&headers, &uri, world.now())).await.is_err());
}
