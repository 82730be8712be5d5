use std::future::ready;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::Tasks;
use lb_front::Front;
use lb_http::{Http, Listener, Place, Settings};
use lb_session::streams::SharedStreams;
use lb_testkit::{ScriptedMiddle, wait_for_cancel};
use tokio::net::{TcpStream, UnixStream};

use crate::peer::*;

fn serve(listener: Listener) -> Server {
    Server::behind(listener, Settings::default(), lb_front::Settings::default())
}

async fn stopped(server: &Server) {
    server.stop.cancel();
    tokio::time::timeout(PATIENCE, server.stopped.cancelled()).await.expect("it stops");
}

#[tokio::test]
async fn what_waits_to_be_accepted_on_a_shared_address_is_served_before_it_is_left() {
    let listener = Listener::bind_shared(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
    let addr = listener.address().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let mut peer = Peer::over(TcpStream::connect(addr).await.unwrap(), &addr.to_string());
        let head = peer.head("GET /", &[]);
        peer.send(&format!("{head}\r\n")).await;
        waiting.push(peer);
    }
    let middle = ScriptedMiddle::new(|| Arc::new(SharedStreams::default()));
    let front = Arc::new(Front::new(middle, lb_front::Settings::default()));
    let tasks = Tasks::default();
    // The shutdown has begun before anybody was accepted.
    let serving = Http::new(front, Settings::default()).serve(vec![listener], tasks.clone(), ready(()));
    tokio::time::timeout(PATIENCE, serving).await.unwrap();
    for mut peer in waiting {
        let response = peer.response().await;
        assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    }
    assert!(tasks.close(PATIENCE).await);
}

#[tokio::test]
async fn two_processes_hand_an_address_over_and_nobody_is_refused() {
    let old = serve(Listener::bind_shared(&"127.0.0.1:0".parse().unwrap()).await.unwrap());
    let place = Place::Tcp(old.addr.to_string());
    let new = serve(Listener::bind_shared(&place).await.unwrap());
    old.middle.on("waits", |_, out| async move { wait_for_cancel(&out).await.1 });
    old.stop.cancel();
    // From now on every new connection is the new one's, while the old one still drains.
    let mut retried = 0;
    for _ in 0..50 {
        let mut peer = new.connect().await;
        let head = peer.head("GET /", &[]);
        peer.send(&format!("{head}\r\n")).await;
        // A connection that was being set up when the old listener closed may be reset once.
        match tokio::time::timeout(PATIENCE, peer.try_response()).await.expect("in time") {
            Some(response) => assert_eq!(response.status, 200),
            None => {
                retried += 1;
                assert_eq!(new.connect().await.ask("GET /", &[]).await.status, 200, "once is enough");
            }
        }
    }
    assert!(retried <= 5, "{retried} of 50 were reset");
    tokio::time::timeout(PATIENCE, old.stopped.cancelled()).await.expect("the old one is gone");
    assert_eq!(new.connect().await.ask("GET /health", &[]).await.status, 200);
}

#[tokio::test]
async fn a_socket_that_was_handed_over_keeps_its_queue_for_the_next() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let copy = || std::os::fd::OwnedFd::from(socket.try_clone().unwrap());
    let first = serve(Listener::adopt(copy()).unwrap());
    assert_eq!(first.connect().await.ask("GET /", &[]).await.status, 200);
    stopped(&first).await;
    let mut between = first.connect().await;
    let head = between.head("GET /", &[]);
    between.send(&format!("{head}\r\n")).await;
    let second = serve(Listener::adopt(copy()).unwrap());
    assert_eq!(between.response().await.status, 200, "nobody was lost");
    assert_eq!(second.connect().await.ask("GET /", &[]).await.status, 200);
}

#[tokio::test]
async fn a_unix_socket_serves_its_user_who_is_an_operator_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = folder.path().join("http.sock");
    let listener = Listener::bind(&Place::Unix(path.clone())).await.unwrap();
    assert_eq!(listener.to_string(), format!("unix:{}", path.display()));
    let server = serve(listener);
    let source: lb_http::PageSource = Arc::new(|_, _| Some(lb_http::Page::data("text/plain", "figures")));
    let pages = vec![lb_http::Pages { path: "/metrics", source }];
    server.handle.update(Settings { pages, ..Settings::default() });
    let mut peer = Peer::over(UnixStream::connect(&path).await.unwrap(), "localhost");
    let page = peer.ask("GET /metrics", &[]).await;
    assert_eq!((page.status, page.header("content-type"), page.text()), (200, Some("text/plain"), "figures".into()));
    assert_eq!(page.header("content-security-policy"), Some("default-src 'none'; frame-ancestors 'none'"));
    assert_eq!(peer.ask("GET /", &[("Host", "evil.example")]).await.status, 403, "names count here too");
    drop(peer);
    stopped(&server).await;
    assert!(!path.exists(), "and the socket is gone");
}

#[tokio::test]
async fn whoever_connects_while_we_stop_is_told_so_and_open_connections_are_served_once_more() {
    let settings = Settings { drain_linger: Duration::from_secs(8), ..Settings::default() };
    let server = Server::with(settings, lb_front::Settings::default()).await;
    let go_on = Arc::new(tokio::sync::Notify::new());
    let wait = go_on.clone();
    server.middle.on("slow", move |_, _| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            lb_testkit::result(&serde_json::json!("slow"))
        }
    });
    let (mut calling, session) = server.seated("2025-11-25").await;
    let headers = [("Mcp-Session-Id", session.as_str())];
    let mut open = server.connect().await;
    assert_eq!(open.ask("GET /ping", &[]).await.status, 200);
    calling.send_post(&headers, &tool_call(1, "slow").to_string()).await;
    server.middle.happened("open slow").await;

    server.stop.cancel();
    let start = std::time::Instant::now();
    let refused = loop {
        let refused = server.connect().await.post(&headers, &request(2, "ping", serde_json::json!({}))).await;
        if refused.status != 200 {
            break refused;
        }
        assert!(start.elapsed() < PATIENCE, "it does not stop");
    };
    assert_eq!((refused.code(), refused.header("retry-after")), ((503, -32000), Some("1")));
    assert_eq!(refused.header("connection"), Some("close"));
    let health = server.connect().await.ask("GET /health", &[]).await;
    assert_eq!((health.status, &health.json()["status"]), (503, &serde_json::json!("draining")));
    let once_more = open.post(&headers, &request(3, "ping", serde_json::json!({}))).await;
    assert_eq!((once_more.status, once_more.header("connection")), (200, Some("close")));
    go_on.notify_one();
    assert_eq!(calling.response().await.json()["result"], "slow");
    tokio::time::timeout(PATIENCE, server.stopped.cancelled()).await.expect("it ends");
}
