//! The listener for nodes: who gets an answer there, and what is believed of a request.

use std::io::Write;
use std::sync::{Arc, Mutex};

use lb_exchange::Place;
use lb_http::Settings;
use serde_json::{Value, json};

use crate::node::*;
use crate::peer::*;

fn hello() -> Value {
    request(0, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} }))
}

#[tokio::test]
async fn nobody_without_the_key_gets_an_answer_or_a_hint() {
    let node = Node::start().await;
    let body = hello().to_string();
    let good = Hop::new(&node, &body);
    let changed = |change: fn(&mut Hop)| {
        let mut hop = Hop::new(&node, &body);
        change(&mut hop);
        hop.header()
    };
    let mut tampered = good.header();
    tampered.replace_range(3..4, if tampered.as_bytes()[3] == b'1' { "2" } else { "1" });
    let truncated: String = good.header().chars().take(60).collect();
    let cut_mac = good.header().trim_end_matches(|c| c != ' ').to_owned() + "AAAA";
    let cases = [
        ("none", String::new()),
        ("no sense", "1".to_owned()),
        ("forged", format!("v1 {} AAAAAAAAAAAAAAAAAAAAAA e30 {}", good.time, "A".repeat(43))),
        ("tampered with", tampered),
        ("truncated", truncated),
        ("a short MAC", cut_mac),
        ("of a foreign key", changed(|hop| hop.key = b"a key of 32 bytes of another one.")),
        ("of another method", changed(|hop| hop.method = "GET")),
        ("of another path", changed(|hop| hop.target = "/mcp/tools")),
        ("expired", changed(|hop| hop.time -= 40)),
        ("from the future", changed(|hop| hop.time += 40)),
        ("for another node", changed(|hop| hop.claims["to"] = json!("http://127.0.0.1:1"))),
        ("of another body", changed(|hop| hop.claims["body"] = json!("AAAA"))),
        ("without claims", changed(|hop| hop.claims = json!({}))),
    ];
    for (what, header) in cases {
        let mut peer = node.enter().await;
        let response = peer.post(&[("Landbridge-Hop", &header)], &hello()).await;
        assert_eq!((response.status, response.text().as_str()), (401, ""), "{what}");
        assert_eq!(response.header("www-authenticate"), None, "{what}");
        assert_eq!(peer.closed().await, b"", "{what}");
    }
    for line in ["GET /health", "GET /ping", "GET /", "OPTIONS /mcp", "GET /mcp", "DELETE /mcp"] {
        assert_eq!(node.enter().await.ask(line, &[]).await.status, 401, "{line}");
    }
    assert_eq!(node.server.middle.seats(), 0);
    assert_eq!(node.enter().await.post(&[("Landbridge-Hop", &good.header())], &hello()).await.status, 200);
    assert_eq!(node.server.middle.seats(), 1);
}

#[tokio::test]
async fn a_header_is_good_for_one_request() {
    let node = Node::start().await;
    let header = Hop::new(&node, &hello().to_string()).header();
    let mut peer = node.enter().await;
    assert_eq!(peer.post(&[("Landbridge-Hop", &header)], &hello()).await.status, 200);
    assert_eq!(peer.post(&[("Landbridge-Hop", &header)], &hello()).await.status, 401);
    assert_eq!(node.enter().await.post(&[("Landbridge-Hop", &header)], &hello()).await.status, 401);
    assert_eq!(node.server.middle.seats(), 1);
}

#[tokio::test]
async fn clients_cannot_say_that_they_are_nodes() {
    let (first, second) = two().await;
    let header = Hop::new(&first, &hello().to_string()).header();
    let mut peer = first.server.connect().await;
    for header in [header.as_str(), "x"] {
        assert_eq!(peer.post(&[("Landbridge-Hop", header)], &hello()).await.status, 400);
        assert_eq!(peer.ask("GET /health", &[("Landbridge-Hop", header)]).await.status, 400);
    }
    assert_eq!((first.server.middle.seats(), second.server.handle.connections()), (0, 0));
    assert_eq!(peer.ask("GET /ping", &[]).await.status, 200);
}

#[tokio::test]
async fn a_request_belongs_to_whom_the_node_says() {
    let node = Node::start().await;
    let mut peer = node.enter().await;
    let by = |principal: &str, body: &Value| {
        let mut hop = Hop::new(&node, &body.to_string());
        hop.claims["principal"] = json!(principal);
        hop.header()
    };
    let seated = peer.post(&[("Landbridge-Hop", &by("alice", &hello()))], &hello()).await;
    let session = seated.header("mcp-session-id").expect("a session").to_owned();
    let list = request(1, "tools/list", json!({}));
    for (principal, status) in [("alice", 200), ("bob", 404), ("local", 404), ("alice", 200)] {
        let headers = [("Mcp-Session-Id", session.as_str()), ("Landbridge-Hop", &by(principal, &list))];
        assert_eq!(peer.post(&headers, &list).await.status, status, "{principal}");
    }
    let mut client = node.server.connect().await;
    assert_eq!(client.post(&[("Mcp-Session-Id", &session)], &list).await.status, 404, "here everybody is local");
}

/// What is logged, to be looked at.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn lines_with(&self, what: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().expect("a lock").clone()).expect("text");
        text.lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn the_log_of_the_node_that_answers_shows_the_client_and_the_id_of_the_request() {
    let log = Log::default();
    let _logging = log.start();
    let trusting =
        || Settings { trusted_proxies: vec!["127.0.0.1".parse().expect("a network")], ..Settings::default() };
    let (first, second) = (Node::with(trusting(), KEY, None).await, Node::start().await);
    first.knows(&second);
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let mut peer = first.server.connect().await;
    let headers = [
        ("Mcp-Session-Id", session.as_str()),
        ("X-Request-Id", "trace-77"),
        ("X-Forwarded-For", "198.51.100.4"),
        ("Host", "localhost:8080"),
        ("Origin", "http://localhost:3000"),
    ];
    let response = peer.post(&headers, &request(1, "tools/list", json!({}))).await;
    assert_eq!((response.status, response.header("x-request-id")), (200, Some("trace-77")));
    assert_eq!(response.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let answered = log.lines_with("answered");
    let of_it: Vec<_> = answered.iter().filter(|line| line.contains(r#"id="trace-77""#)).collect();
    assert_eq!(of_it.len(), 2, "one line of each node: {answered:?}");
    assert!(of_it.iter().all(|line| line.contains("client=198.51.100.4")), "{of_it:?}");
    let told = log.lines_with("sent on by another node");
    assert!(told[0].contains(r#"host="localhost:8080""#) && told[0].contains(r#"scheme="http""#), "{told:?}");
    assert!(log.lines_with(&session).is_empty(), "ids of sessions are secrets");

    let made_up = peer.post(&[("Mcp-Session-Id", &session)], &request(2, "tools/list", json!({}))).await;
    let id = made_up.header("x-request-id").expect("an id").to_owned();
    assert_eq!(log.lines_with("answered").iter().filter(|line| line.contains(&id)).count(), 2);

    second.enter().await.post(&[], &hello()).await;
    assert!(log.lines_with("hop_refused")[0].contains("no Landbridge-Hop header"), "the operator is told");
}

#[tokio::test]
async fn what_a_node_has_checked_is_not_checked_again() {
    let strict = Settings {
        allowed_hosts: vec!["only.example.com".into()],
        rate: Some(lb_http::Rate { max: 1, window: std::time::Duration::from_secs(600) }),
        ..Settings::default()
    };
    let (first, second) = (Node::start().await, Node::with(strict, KEY, None).await);
    first.knows(&second);
    let seated = second
        .enter()
        .await
        .post(&[("Landbridge-Hop", &Hop::new(&second, &hello().to_string()).header())], &hello())
        .await;
    let session = seated.header("mcp-session-id").expect("a session").to_owned();
    let mut peer = first.server.connect().await;
    let headers = [("Mcp-Session-Id", session.as_str()), ("Origin", "http://localhost:1")];
    for id in 0..5 {
        assert_eq!(peer.post(&headers, &request(id, "tools/list", json!({}))).await.status, 200);
    }
    let mut client = second.server.connect().await;
    assert_eq!(client.post(&[], &hello()).await.status, 403, "of a client it is");
}

#[tokio::test]
async fn nodes_of_another_cluster_are_not_taken_for_the_client() {
    let (first, second) = (Node::start().await, Node::with(Settings::default(), b"some other key", None).await);
    first.knows(&second);
    let (_direct, session) = second.server.seated("2025-06-18").await;
    let mut peer = first.server.connect().await;
    let response = peer.post(&[("Mcp-Session-Id", &session)], &request(1, "tools/list", json!({}))).await;
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    assert!(response.text().contains("keys or clocks differ"), "{}", response.text());
}

#[tokio::test]
async fn a_request_is_sent_on_once_and_never_twice() {
    let (first, second, third) = (Node::start().await, Node::start().await, Node::start().await);
    let (_direct, session) = third.server.seated("2025-06-18").await;
    let list = request(1, "tools/list", json!({}));
    first.knows(&second);
    second.knows(&third);
    let mut peer = first.server.connect().await;
    let response = peer.post(&[("Mcp-Session-Id", &session)], &list).await;
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")), "{}", response.text());
    assert_eq!(third.server.handle.connections(), 1, "that of the client, and none of a node");
    assert_eq!((first.located(), second.located()), (2, 2));
    // The first was mistaken for a moment: it asks again.
    let places = Mutex::new(vec![Place::Node(third.url.clone()), Place::Node(second.url.clone())]);
    first.server.middle.elsewhere(move |_| places.lock().unwrap().pop().unwrap());
    assert_eq!(peer.post(&[("Mcp-Session-Id", &session)], &list).await.status, 200);
}
