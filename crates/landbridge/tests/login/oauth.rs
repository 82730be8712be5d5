//! The paths of OAuth as a client and an attacker meet them.

use lb_peers::idp::Decision;
use lb_peers::raw::http::headers;
use serde_json::json;

use crate::world::{ALLOW, REDIRECT, VERIFIER, World, authorize, form_to, get, parameter, register, send, value};

#[tokio::test]
async fn registrations_are_answered_and_bad_ones_refused() {
    let world = World::start(ALLOW, &[]).await;
    let kind = headers(&[("Content-Type", "application/json")]);
    let chosen = json!({ "client_id": "mine", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none" });
    let answer = send(world.at(), "POST", "/oauth/register", &kind, chosen.to_string().as_bytes()).await;
    assert_eq!(answer.head.status(), 201, "{}", answer.text());
    let id = value(&answer)["client_id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("mcp_") && id.len() == 36, "{id}");
    for redirect in ["http://evil.example/cb", "javascript:alert(1)", "https://a@b/", "https://x/#f", "myapp://cb"] {
        let bad = json!({ "redirect_uris": [redirect] }).to_string();
        let answer = send(world.at(), "POST", "/register", &kind, bad.as_bytes()).await;
        let told = value(&answer);
        assert_eq!((answer.head.status(), &told["error"]), (400, &json!("invalid_redirect_uri")), "{redirect}");
    }
    let large = format!("{{\"redirect_uris\":[\"{REDIRECT}\"],\"x\":\"{}\"}}", "y".repeat(17 * 1_024));
    assert_eq!(send(world.at(), "POST", "/register", &kind, large.as_bytes()).await.head.status(), 413);
}

#[tokio::test]
async fn nobody_is_sent_where_a_client_has_not_said() {
    let world = World::start(ALLOW, &[]).await;
    let client = register(world.at()).await;
    let start = authorize(&world.url, &client, "mcp:read");
    let path = start.strip_prefix(&world.url).expect("ours");
    let unknown = path.replace(&client, "mcp_00000000000000000000000000000000");
    let elsewhere = path.replace("4711%2Fcb", "4711%2Fother");
    for bad in [unknown, elsewhere] {
        let answer = get(world.at(), &bad, &[]).await;
        assert_eq!((answer.head.status(), answer.head.header("location")), (400, None), "{bad}");
        assert!(answer.head.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    }
    let port = get(world.at(), &path.replace("%3A4711", "%3A5822"), &[]).await;
    assert!((200..400).contains(&port.head.status()), "a port of loopback is free: {}", port.text());
    let foreign = get(world.at(), &path.replace("%2Fmcp", "%2Fother"), &[]).await;
    let to = foreign.head.header("location").expect("back to the client").to_owned();
    assert!(to.starts_with(REDIRECT) && to.contains("error=invalid_target") && to.contains("iss="), "{to}");
}

#[tokio::test]
async fn a_code_is_good_once_and_only_with_its_verifier() {
    let world = World::start(ALLOW, &[]).await;
    let client = register(world.at()).await;
    let denied = world.login(&client, "mcp:read", "alice", Decision::Deny).await;
    assert_eq!(parameter(&denied.url, "error").as_deref(), Some("access_denied"));
    let mut spent = None;
    for verifier in ["another-verifier-of-forty-three-characters-or-more", VERIFIER] {
        let stopped = world.login(&client, "mcp:read", "alice", Decision::Approve).await;
        assert_eq!(parameter(&stopped.url, "state").as_deref(), Some("the client's"));
        assert_eq!(parameter(&stopped.url, "iss").as_deref(), Some(world.url.as_str()));
        let code = parameter(&stopped.url, "code").expect("a code");
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", &client),
            ("code", &code),
            ("code_verifier", verifier),
            ("redirect_uri", REDIRECT),
        ];
        let (status, told) = form_to(world.at(), "/oauth/token", &form).await;
        if verifier == VERIFIER {
            assert_eq!(status, 200, "{told}");
            spent = Some((code, told["access_token"].as_str().expect("a token").to_owned()));
        } else {
            assert_eq!((status, &told["error"]), (400, &json!("invalid_grant")));
        }
    }
    let (code, access) = spent.expect("tokens");
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", &client),
        ("code", &code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    let (status, told) = form_to(world.at(), "/oauth/token", &form).await;
    assert_eq!((status, &told["error"]), (400, &json!("invalid_grant")), "a code is good once");
    let bearer = format!("Bearer {access}");
    let began = std::time::Instant::now();
    while get(world.at(), "/mcp", &[("Authorization", &bearer)]).await.head.status() != 401 {
        assert!(began.elapsed() < std::time::Duration::from_secs(50), "what came of it is dead");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
