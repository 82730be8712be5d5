//! The balancer in front of nodes that say who they are.

use std::time::Instant;

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::headers;

use super::*;

/// A node that answers every request with its name; how many requests it got.
struct Node {
    address: SocketAddr,
    count: Arc<Mutex<u64>>,
    serving: JoinSet<()>,
}

async fn node(name: &'static str) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mut serving, count) = (JoinSet::new(), Arc::new(Mutex::new(0)));
    let counted = count.clone();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(answer(Conn::new(stream), name, counted.clone()));
        }
    });
    Node { address, count, serving }
}

async fn answer(mut conn: Conn, name: &'static str, count: Arc<Mutex<u64>>) {
    while let Ok(Some(head)) = conn.request_head().await {
        let (body, _) = conn.rest().await.unwrap();
        *count.lock().unwrap() += 1;
        let done = match head.path() {
            "/stream" => {
                conn.write(&lb_peers::raw::http1::sse_head()).await.unwrap();
                conn.write(&lb_peers::raw::http1::sse_chunk(name)).await.unwrap();
                while !conn.peer_closed().await {}
                return;
            }
            "/die" => return,
            _ => {
                let body = [name.as_bytes(), b" ", &body].concat();
                conn.write(&response(200, &[("Mcp-Session-Id", name)], &body)).await
            }
        };
        if done.is_err() {
            return;
        }
    }
}

async fn ask(http: &mut RawHttp, path: &str) -> String {
    http.request("POST", path, &[], b"body").await.unwrap().text()
}

#[tokio::test]
async fn requests_of_one_connection_go_to_the_nodes_in_turn() {
    let nodes = [node("a").await, node("b").await, node("c").await];
    let balancer = Balancer::start(nodes.iter().map(|node| node.address).collect()).await;
    let mut http = RawHttp::connect(balancer.address).await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(ask(&mut http, "/").await);
    }
    answers.sort();
    assert_eq!(answers, ["a body", "a body", "b body", "b body", "c body", "c body"]);
    assert_eq!(balancer.dealt().requests, [2, 2, 2]);
}

#[tokio::test]
async fn who_opened_a_session_is_known_and_requests_of_sessions_are_counted() {
    let nodes = [node("a").await, node("b").await];
    let balancer = Balancer::start(nodes.iter().map(|node| node.address).collect()).await;
    let mut http = RawHttp::connect(balancer.address).await.unwrap();
    for _ in 0..2 {
        ask(&mut http, "/").await;
    }
    assert_eq!((balancer.opener("a"), balancer.opener("b"), balancer.opener("c")), (Some(0), Some(1), None));
    for _ in 0..4 {
        http.request("POST", "/", &headers(&[("Mcp-Session-Id", "a")]), b"x").await.unwrap();
    }
    for (path, method) in [("/mcp", "tools/call"), ("/mcp", "tools/list"), ("/mcp/server/x", "tools/call")] {
        for _ in 0..2 {
            http.request("POST", path, &headers(&[("Mcp-Method", method)]), b"x").await.unwrap();
        }
    }
    assert_eq!(balancer.dealt().of_sessions, [3, 3], "two of a session and one of a modern client's tools each");
}

#[tokio::test]
async fn a_node_that_is_not_there_is_skipped_and_one_that_moved_is_found() {
    let mut nodes = [node("a").await, node("b").await];
    let balancer = Balancer::start(nodes.iter().map(|node| node.address).collect()).await;
    nodes[0].serving.shutdown().await;
    let mut http = RawHttp::connect(balancer.address).await.unwrap();
    for _ in 0..4 {
        assert_eq!(ask(&mut http, "/").await, "b body");
    }
    assert_eq!((balancer.dealt().requests, balancer.dealt().skipped[0]), (vec![0, 4], 2));
    let again = node("again").await;
    balancer.moved(0, again.address);
    let both = [ask(&mut http, "/").await, ask(&mut http, "/").await];
    assert!(both.contains(&"again body".to_owned()), "{both:?}");
    nodes[1].serving.shutdown().await;
    balancer.moved(0, nodes[1].address);
    let refused = http.request("POST", "/", &[], b"x").await.unwrap();
    assert_eq!((refused.head.status(), refused.head.header("retry-after")), (503, Some("1")));
    assert_eq!(balancer.dealt().nowhere, 1);
}

#[tokio::test]
async fn a_request_whose_node_dies_is_not_sent_again() {
    let nodes = [node("a").await, node("b").await];
    let balancer = Balancer::start(nodes.iter().map(|node| node.address).collect()).await;
    let mut http = RawHttp::connect(balancer.address).await.unwrap();
    http.request("POST", "/die", &[], b"once").await.unwrap_err();
    let counts: Vec<u64> = nodes.iter().map(|node| *node.count.lock().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 1, "{counts:?}");
}

#[tokio::test]
async fn streams_are_not_held_back_and_end_with_their_client() {
    let only = node("a").await;
    let balancer = Balancer::start(vec![only.address]).await;
    let mut http = RawHttp::connect(balancer.address).await.unwrap();
    http.send("GET", "/stream", &[], b"").await.unwrap();
    assert!(http.head().await.unwrap().is_sse());
    // The stream stays open: an event that was held back would never come.
    assert_eq!(http.event().await.unwrap().unwrap().text(), "a");
    drop(http);
    let (start, mut open) = (Instant::now(), usize::MAX);
    while 0 < open && start.elapsed() < Duration::from_secs(10) {
        open = crate::watch::connections(only.address.port());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(open, 0, "the connection to the node is closed with the client's");
}
