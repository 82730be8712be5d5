//! Who comes too often, and who comes too late.

use lb_peers::raw::http::{Response, headers, post_headers};
use serde_json::{Value, json};

use crate::clocks::faketime;
use crate::world::{
    ALLOW, Client, REDIRECT, World, authorize, form_to, free_port, get, provider, register, send, serve, tokens, value,
    with_provider,
};

/// What a stranger is told who comes too often: when to come back.
fn waits(answer: &Response, at_most: u64) {
    assert_eq!(answer.head.status(), 429, "{}", answer.text());
    let wait: u64 = answer.head.header("retry-after").expect("it says when").parse().expect("seconds");
    assert!((1..=at_most).contains(&wait), "{wait}");
}

/// Listening on loopback, as behind a proxy: whoever has no token is known by an address, and has a hundred a minute.
#[tokio::test]
async fn strangers_are_let_wait_and_whoever_has_a_token_is_not() {
    let world = World::start(ALLOW, &["--trusted-proxies", "127.0.0.1"]).await;
    let alice = world.tokens("alice", "mcp:call").await;
    let session = Client::begin(world.at(), &alice.access).await;
    let stranger = async |from: &str, token: Option<&str>| {
        let mut all = [post_headers(), headers(&[("X-Forwarded-For", from)])].concat();
        all.extend(token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))));
        send(world.at(), "POST", "/mcp", &all, b"{}").await
    };
    // With a wrong token and with none, it is the same stranger.
    for number in 0..100 {
        let answer = stranger("203.0.113.7", (number % 2 == 1).then_some("wrong")).await;
        assert_eq!(answer.head.status(), 401, "{number}: {}", answer.text());
        assert_eq!(answer.head.header("ratelimit-remaining"), Some(&*(99 - number).to_string()));
    }
    waits(&stranger("203.0.113.7", None).await, 60);
    waits(&stranger("203.0.113.7", Some("wrong")).await, 60);
    // The doors where tokens are given are those of strangers, too.
    for (method, path) in [("POST", "/register"), ("POST", "/token"), ("GET", "/authorize")] {
        let from = headers(&[("X-Forwarded-For", "203.0.113.7"), ("Content-Type", "application/json")]);
        waits(&send(world.at(), method, path, &from, b"").await, 60);
    }
    assert_eq!(stranger("203.0.113.8", None).await.head.status(), 401, "another one has a hundred as well");
    // Whoever has a token is not known by an address.
    let with = [session.headers(), headers(&[("X-Forwarded-For", "203.0.113.7")])].concat();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "list_servers", "arguments": {} } });
    for _ in 0..5 {
        let answer = send(world.at(), "POST", "/mcp", &with, call.to_string().as_bytes()).await;
        assert_eq!(answer.head.status(), 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn registrations_tokens_and_logins_have_limits_of_their_own() {
    let world = World::start(ALLOW, &["--trusted-proxies", "127.0.0.1"]).await;
    let client = register(world.at()).await;
    let kinds = ["application/json", "application/x-www-form-urlencoded"];
    let post = async |from: &str, path: &str, kind: &str, body: &str| {
        let with = headers(&[("X-Forwarded-For", from), ("Content-Type", kind)]);
        send(world.at(), "POST", path, &with, body.as_bytes()).await
    };
    let said = json!({ "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none" }).to_string();
    for number in 0..10 {
        let answer = post("203.0.113.1", "/register", kinds[0], &said).await;
        assert_eq!(answer.head.status(), 201, "{number}: {}", answer.text());
    }
    waits(&post("203.0.113.1", "/oauth/register", kinds[0], &said).await, 3_600);
    assert_eq!(post("203.0.113.2", "/register", kinds[0], &said).await.head.status(), 201);

    let form = |client: &str| format!("grant_type=refresh_token&refresh_token=lbr_x&client_id={client}");
    for number in 0..60 {
        let answer = post("203.0.113.3", "/token", kinds[1], &form(&client)).await;
        assert_eq!(value(&answer)["error"], "invalid_grant", "{number}: {}", answer.text());
    }
    waits(&post("203.0.113.3", "/oauth/token", kinds[1], &form(&client)).await, 60);
    let other = register(world.at()).await;
    for (from, client) in [("203.0.113.4", &client), ("203.0.113.3", &other)] {
        assert_eq!(post(from, "/token", kinds[1], &form(client)).await.head.status(), 400, "{from} {client}");
    }

    let start = authorize(&world.url, &client, "mcp:read");
    let path = start.strip_prefix(&world.url).expect("ours");
    let asked = async |from: &str| get(world.at(), path, &[("X-Forwarded-For", from)]).await;
    for number in 0..30 {
        assert_eq!(asked("203.0.113.5").await.head.status(), 303, "{number}");
    }
    waits(&asked("203.0.113.5").await, 60);
    assert_eq!(asked("203.0.113.6").await.head.status(), 303);
}

/// With the clock of `libfaketime`: nobody waits for a quarter of an hour.
mod peer_faketime {
    use super::*;

    #[tokio::test]
    async fn a_token_that_is_over_says_so_and_is_refreshed() {
        let clock = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
        std::fs::write(&clock, "+0\n").expect("written");
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("http://{address}");
        let idp = provider(&[&url]).await;
        let (mut command, folder) = serve(ALLOW);
        with_provider(&mut command, &url, &idp);
        command.env("LD_PRELOAD", faketime()).env("FAKETIME_TIMESTAMP_FILE", &*clock).env("FAKETIME_NO_CACHE", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        command.args(["--listen", &address]);
        let world = World::new(lb_peers::harness::Gateway::launch(command, folder).await, url, idp);
        let got = world.tokens("alice", "mcp:call").await;
        let session = Client::begin(world.at(), &got.access).await;
        // Clocks may differ by half a minute.
        std::fs::write(&clock, "+915\n").expect("written");
        assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200);
        std::fs::write(&clock, "+960\n").expect("written");
        let over = session.call("list_servers", json!({})).await;
        assert_eq!(over.head.status(), 401, "{}", over.text());
        let challenge = over.head.header("www-authenticate").expect("a challenge");
        for part in ["error=\"invalid_token\"", "error_description=\"The access token expired\"", "resource_metadata="]
        {
            assert!(challenge.contains(part), "{part} is not in {challenge}");
        }
        let told: Value = value(&over);
        assert_eq!(told, json!({ "error": "invalid_token", "error_description": "The access token expired" }));
        // A forged one is told nothing of the kind.
        let forged = session.as_sent(world.at(), &format!("{}x", got.access)).call("list_servers", json!({})).await;
        assert_eq!(value(&forged)["error_description"], "The access token is invalid");
        let form = [("grant_type", "refresh_token"), ("client_id", &got.client), ("refresh_token", &got.refresh)];
        let (status, told) = form_to(world.at(), "/token", &form).await;
        assert_eq!(status, 200, "{told}");
        let next = tokens(&got.client, &told);
        let again = session.as_sent(world.at(), &next.access).call("list_servers", json!({})).await;
        assert_eq!(again.head.status(), 200, "the session goes on: {}", again.text());
    }
}
