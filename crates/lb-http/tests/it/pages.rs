use std::sync::Arc;

use lb_http::{Page, Pages, Settings};

use crate::peer::*;

/// A gateway with a page that says which query it was asked with.
async fn server(change: impl FnOnce(&mut Settings)) -> Server {
    let source = |path: &str, query: Option<&str>| {
        let page = || Page {
            status: 200,
            content_type: "text/html; charset=utf-8",
            body: format!("query {}", query.unwrap_or("none")).into(),
            content_security_policy: "default-src 'none'; connect-src 'self'".into(),
        };
        (path == "/waterfall").then(page)
    };
    let pages = Pages { path: "/waterfall", source: Arc::new(source) };
    let mut settings = Settings { pages: vec![pages], ..Settings::default() };
    change(&mut settings);
    Server::with(settings, lb_front::Settings::default()).await
}

#[tokio::test]
async fn an_operator_sees_the_page_with_its_own_policy_and_all_other_guards() {
    let server = server(|_| ()).await;
    let mut peer = server.connect().await;
    let page = peer.ask("GET /waterfall?session=1", &[]).await;
    assert_eq!((page.status, page.text()), (200, "query session=1".into()));
    for (name, want) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", "default-src 'none'; connect-src 'self'"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(page.header(name), Some(want), "{name}");
    }
    assert_eq!(page.head.matches("content-security-policy").count(), 1);
    let plain = peer.ask("GET /ping", &[]).await;
    assert_eq!(plain.header("content-security-policy"), Some("default-src 'none'; frame-ancestors 'none'"));
}

#[tokio::test]
async fn pages_are_read_and_nothing_else() {
    let server = server(|_| ()).await;
    let mut peer = server.connect().await;
    let head = peer.head("HEAD /waterfall", &[]);
    peer.send(&format!("{head}\r\n")).await;
    let head = peer.response_head().await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("10")));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let refused = peer.ask(&format!("{method} /waterfall"), &[("Content-Length", "0")]).await;
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(peer.ask("GET /waterfall/nothing", &[]).await.status, 404);
    assert_eq!(peer.ask("GET /waterfalls", &[]).await.status, 404);
}

#[tokio::test]
async fn no_web_page_can_read_it_not_even_one_that_may_call_us() {
    let server = server(|_| ()).await;
    let mut peer = server.connect().await;
    let page = peer.ask("GET /waterfall", &[("Origin", "http://localhost:3000")]).await;
    assert_eq!((page.status, page.header("access-control-allow-origin")), (200, None));
    let foreign = peer.ask("GET /waterfall", &[("Origin", "http://evil.example.com")]).await;
    assert_eq!(foreign.status, 403);
}

#[tokio::test]
async fn others_are_told_why_they_may_not() {
    let server = server(|settings| settings.allowed_hosts.push("gateway.example".into())).await;
    let mut peer = server.connect().await;
    for (header, part) in [
        (("Host", "gateway.example"), "a name that is not loopback"),
        (("Forwarded", "for=127.0.0.1"), "through a proxy (forwarded)"),
        (("X-Forwarded-For", "127.0.0.1"), "through a proxy (x-forwarded-for)"),
        (("X-Forwarded-Host", "localhost"), "through a proxy (x-forwarded-host)"),
    ] {
        for path in ["/waterfall", "/waterfall/nothing"] {
            let refused = peer.ask(&format!("GET {path}"), &[header]).await;
            assert_eq!((refused.status, refused.header("content-type")), (403, Some("application/json")), "{header:?}");
            let says = refused.json()["error"].as_str().unwrap_or_default().to_owned();
            assert!(says.contains(part), "{header:?}: {says}");
        }
    }
    assert_eq!(peer.ask("GET /health", &[("X-Forwarded-For", "192.0.2.1")]).await.status, 200);
}

#[tokio::test]
async fn a_listener_that_others_can_reach_shows_no_page() {
    let server = server_on("0.0.0.0:0").await;
    let mut peer = server.connect().await;
    let host = format!("127.0.0.1:{}", server.addr.port());
    let refused = peer.ask("GET /waterfall", &[("Host", &host)]).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("others can reach"), "{}", refused.text());
}

async fn server_on(address: &str) -> Server {
    let source = |_: &str, _: Option<&str>| -> Option<Page> { panic!("asked for a page that nobody may see") };
    let pages = Pages { path: "/waterfall", source: Arc::new(source) };
    let settings = Settings { pages: vec![pages], ..Settings::default() };
    Server::on(address, settings, lb_front::Settings::default()).await
}

#[tokio::test]
async fn the_operator_token_opens_pages_from_wherever_and_nothing_else_does_behind_a_public_url() {
    let server = server(|settings| {
        settings.operator_token = Some(lb_exchange::Secret::new("correct horse"));
        settings.public_url = Some("https://mcp.example".into());
    })
    .await;
    let mut peer = server.connect().await;
    for (authorization, proxied, want) in [
        ("", false, 403),
        ("Bearer correct horse", false, 200),
        ("bearer correct horse", false, 200),
        ("Bearer correct horse", true, 200),
        ("Bearer correct hors", false, 403),
        ("Bearer correct horse2", false, 403),
        ("Bearer ", false, 403),
        ("Basic correct horse", false, 403),
    ] {
        let mut headers = vec![("Authorization", authorization)];
        if proxied {
            headers.push(("X-Forwarded-For", "203.0.113.9"));
        }
        let page = peer.ask("GET /waterfall", &headers).await;
        assert_eq!(page.status, want, "{authorization:?} {proxied}");
        if want == 403 {
            let told = page.json()["error"].as_str().unwrap_or_default().to_owned();
            assert!(told.contains("Authorization: Bearer TOKEN"), "{told}");
            assert!(!told.contains("correct"), "{told}");
        }
    }
    server.handle.update(Settings {
        login: true,
        pages: server.handle.settings().pages.clone(),
        ..Settings::default()
    });
    let page = peer.ask("GET /waterfall", &[]).await;
    let told = page.text();
    assert!(page.status == 403 && told.contains("LANDBRIDGE_OPERATOR_TOKEN"), "{told}");
}
