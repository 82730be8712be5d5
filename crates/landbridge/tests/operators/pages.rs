//! Pages in a browser: a login at the provider, a cookie, and what that cookie cannot do.

use std::time::{Duration, Instant};

use lb_peers::idp::{Browser, Decision, Stopped};
use lb_peers::raw::http::{Response, headers};
use serde_json::json;

use crate::world::{ALLOW, Client, OPERATOR, World, get, register, send, value};

/// How long a login may take on a machine that is busy.
const LOGIN_MAX: Duration = Duration::from_secs(40);

/// Logs in for a page, and returns where that led and what the browser was told to keep.
pub async fn log_in(world: &World, user: &str, page: &str) -> (Browser, Stopped) {
    let mut browser = Browser::default();
    let start = format!("{}{page}", world.url);
    let login = browser.login(&start, "http://nowhere.example/", user, Decision::Approve);
    let stopped = tokio::time::timeout(LOGIN_MAX, login).await.expect("a login ends").expect("it goes on");
    (browser, stopped)
}

/// The page that a browser ends on.
fn shown(stopped: &Stopped) -> (u16, &str) {
    let (status, text) = stopped.page.as_ref().expect("a page");
    (*status, text)
}

/// The cookie of an operator who has logged in.
pub async fn cookie(world: &World, user: &str) -> String {
    let (browser, stopped) = log_in(world, user, "/waterfall").await;
    assert_eq!(shown(&stopped).0, 200, "{stopped:?}");
    let sent = browser.cookie(&world.url, "lb_ui").expect("a cookie");
    format!("lb_ui={sent}")
}

async fn with_cookie(world: &World, method: &str, path: &str, cookie: &str) -> Response {
    let with = headers(&[("Cookie", cookie), ("Content-Type", "application/json")]);
    send(world.at(), method, path, &with, b"{}").await
}

#[tokio::test]
async fn an_administrator_logs_in_at_the_provider_and_sees_the_pages() {
    let world = World::start(ALLOW, &["--log-level", "info"]).await;
    let (mut browser, stopped) = log_in(&world, "carol", "/waterfall").await;
    let (status, page) = shown(&stopped);
    assert!(status == 200 && page.contains("url=/waterfall\""), "{stopped:?}");
    assert!(stopped.trace.iter().any(|(url, _)| url.path() == "/login"), "{stopped:?}");
    for (path, part) in
        [("/waterfall", "<html"), ("/waterfall/json", "{"), ("/sessions", "activeSessions"), ("/oauth/stats", "tokens")]
    {
        let page = browser.open(&format!("{}{path}", world.url).parse().expect("a URL"), None).await.expect("a page");
        assert!(page.head.status() == 200 && page.text().contains(part), "{path}: {}", page.text());
        assert!(page.head.header("access-control-allow-origin").is_none(), "{path}");
    }
    let metrics = browser.open(&format!("{}/metrics", world.url).parse().expect("a URL"), None).await.expect("a page");
    assert_eq!(metrics.head.status(), 200);
    let said = world.gateway.said();
    assert!(said.contains("logged_in"), "{said}");
    // And out again.
    let cookie = format!("lb_ui={}", browser.cookie(&world.url, "lb_ui").expect("a cookie"));
    let out = browser.open(&format!("{}/logout", world.url).parse().expect("a URL"), None).await.expect("a page");
    assert!(out.head.status() == 200 && browser.cookie(&world.url, "lb_ui").is_none(), "{}", out.text());
    assert_eq!(
        with_cookie(&world, "GET", "/waterfall", &cookie).await.head.status(),
        401,
        "it is over at the gateway too"
    );
}

#[tokio::test]
async fn the_cookie_is_kept_from_other_sites_and_from_scripts() {
    let world = World::start(ALLOW, &[]).await;
    let mut browser = Browser::default();
    let start = format!("{}/login?next=/sessions", world.url);
    let first = browser.open(&start.parse().expect("a URL"), None).await.expect("an answer");
    let set = first.head.header("set-cookie").expect("a cookie").to_owned();
    assert!(set.starts_with("lb_tx_") && set.contains("HttpOnly") && set.contains("SameSite=Lax"), "{set}");
    let page = set_by_callback(&world).await;
    for part in ["lb_ui=", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("Domain"), "{page}");
}

/// What a browser is told to keep when it comes back from the provider.
async fn set_by_callback(world: &World) -> String {
    let mut browser = Browser::default();
    let stop = format!("{}/oauth/callback", world.url);
    let start = format!("{}/login", world.url);
    let login = browser.login(&start, &stop, "carol", Decision::Approve);
    let stopped = tokio::time::timeout(LOGIN_MAX, login).await.expect("a login ends").expect("it goes on");
    let answer = browser.open(&stopped.url, None).await.expect("a page");
    let all = answer.head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let found = all.map(|(_, value)| value.clone()).find(|value| value.starts_with("lb_ui="));
    found.unwrap_or_else(|| panic!("{}", answer.text()))
}

#[tokio::test]
async fn somebody_who_is_no_administrator_sees_nothing() {
    let world = World::start(ALLOW, &[]).await;
    let (mut browser, stopped) = log_in(&world, "alice", "/waterfall").await;
    assert_eq!(shown(&stopped).0, 403, "{stopped:?}");
    assert!(browser.cookie(&world.url, "lb_ui").is_none());
    for cookie in ["lb_ui=", "lb_ui=x", "lb_ui=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "__Host-lb_ui=x"] {
        assert_eq!(with_cookie(&world, "GET", "/waterfall", cookie).await.head.status(), 401, "{cookie}");
    }
    // A login that was begun elsewhere leads nowhere here.
    let elsewhere = get(world.at(), "/oauth/callback?code=x&state=y", &[("Cookie", "lb_tx_0123456789abcdef=y")]).await;
    assert_eq!(elsewhere.head.status(), 400);
    // Nor does any other address.
    let odd = format!("{}/login?next=https://evil.example/", world.url).parse().expect("a URL");
    let to = browser.open(&odd, None).await.expect("an answer").head.header("location").expect("a redirect").to_owned();
    assert!(!to.contains("evil.example"), "{to}");
}

/// T41: the cookie of an operator's browser opens pages, and changes nothing.
#[tokio::test]
async fn a_stolen_cookie_cannot_add_a_server() {
    let world = World::start(ALLOW, &[]).await;
    let stolen = cookie(&world, "carol").await;
    assert_eq!(with_cookie(&world, "GET", "/sessions", &stolen).await.head.status(), 200, "the cookie is good");
    let program = json!({ "name": "evil", "command": "/bin/sh", "args": ["-c", "touch /tmp/evil"] });
    let remote = json!({ "name": "evil", "url": "https://8.8.8.8/mcp" });
    for body in [program, remote] {
        let with = headers(&[("Cookie", &stolen), ("Content-Type", "application/json"), ("Origin", &world.url)]);
        let answer = send(world.at(), "POST", "/servers", &with, body.to_string().as_bytes()).await;
        assert_eq!(answer.head.status(), 401, "{}", answer.text());
    }
    for (method, path) in [("GET", "/servers"), ("DELETE", "/servers/it"), ("POST", "/mcp"), ("GET", "/mcp")] {
        let answer = with_cookie(&world, method, path, &stolen).await;
        assert_eq!(answer.head.status(), 401, "{method} {path}: {}", answer.text());
    }
    // A page cannot be posted to either, with or without it.
    assert_ne!(with_cookie(&world, "POST", "/sessions", &stolen).await.head.status(), 200);
    let all = get(world.at(), "/servers", &[("Authorization", &format!("Bearer {OPERATOR}"))]).await;
    assert!(all.head.status() == 200 && !all.text().contains("evil"), "{}", all.text());
}

#[tokio::test]
async fn whoever_is_no_administrator_any_more_sees_nothing_any_more() {
    let world = World::start(ALLOW, &[]).await;
    let (cookie, token) = (cookie(&world, "carol").await, world.tokens("carol", "mcp:admin").await.access);
    let bearer = format!("Bearer {token}");
    let status = async |path: &str| {
        let by_cookie = with_cookie(&world, "GET", path, &cookie).await.head.status();
        (by_cookie, get(world.at(), path, &[("Authorization", &bearer)]).await.head.status())
    };
    assert_eq!(status("/waterfall").await, (200, 200));
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", world.gateway.pid())).expect("it runs");
    let settings = arguments.split('\0').find(|word| word.ends_with("landbridge.toml")).expect("a file").to_owned();
    std::fs::write(settings, ALLOW.replace("admins\"]", "others\"]")).expect("written");
    let began = Instant::now();
    while status("/waterfall").await != (403, 403) {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", world.gateway.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(get(world.at(), "/servers", &[("Authorization", &bearer)]).await.head.status(), 403);
    assert_eq!(status("/oauth/stats").await, (403, 403));
}

#[tokio::test]
async fn the_counts_are_those_of_what_happened() {
    let world = World::start(ALLOW, &[]).await;
    let counts = async || {
        let answer = get(world.at(), "/oauth/stats", &[("Authorization", &format!("Bearer {OPERATOR}"))]).await;
        assert_eq!(answer.head.status(), 200, "{}", answer.text());
        value(&answer)
    };
    let none = json!({ "clients": 0, "authSessions": 0, "upstreamSessions": 0, "tokens": 0 });
    assert_eq!(counts().await, none);
    let got = world.tokens("alice", "mcp:call").await;
    assert_eq!(Client::begin(world.at(), &got.access).await.call("list_servers", json!({})).await.head.status(), 200);
    let client = register(world.at()).await;
    let mut browser = Browser::default();
    let asked = crate::world::authorize(&world.url, &client, "mcp:read");
    let answer = browser.open(&asked.parse().expect("a URL"), None).await.expect("an answer");
    assert_eq!(answer.head.status(), 303);
    let told = counts().await;
    assert_eq!(told, json!({ "clients": 2, "authSessions": 1, "upstreamSessions": 0, "tokens": 1 }));
}
