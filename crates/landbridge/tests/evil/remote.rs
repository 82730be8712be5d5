//! HTTP servers that are not there, go away and come back.

use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, HttpPeer};
use lb_peers::raw::RawHttp;
use lb_peers::raw::handshake::Era;
use lb_peers::raw::http::{initialize_request, post_headers};
use serde_json::{Value, json};

use crate::desk::{Client, LANDBRIDGE, evil};
use crate::script::Script;

const AT_ONCE: Duration = Duration::from_secs(1);
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A port that nobody listens on.
async fn closed_port() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("its address").port()
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_at_once() {
    let url = format!("http://127.0.0.1:{}/mcp", closed_port().await);
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": format!("{url}?token=secret") } })).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let start = Instant::now();
    let hello = initialize_request("7", "2025-11-25");
    let answer = http.post("/mcp/server/it", &post_headers(), hello.as_bytes()).await.expect("an answer");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert_eq!(answer.head.header("mcp-session-id"), None);
    let legacy: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let mut modern = Client::open(&gateway, "it", Era::Modern).await;
    let answer = modern.call("calm", json!({})).await;
    assert!(answer.took < AT_ONCE, "{answer:?}");
    for body in [legacy, answer.value()] {
        let error = &body["error"];
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("unreachable")), "{body}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with("server \"it\"") && message.contains(&url) && message.contains("refused"),
            "{message}"
        );
        assert!(!message.contains("secret"), "{message}");
    }
    let health = http.request("GET", "/health", &Vec::new(), b"").await.expect("health");
    let health: Value = serde_json::from_slice(&health.body).expect("JSON");
    assert_eq!(health["activeSessions"], 0, "{health}");
}

/// The process itself is killed and started again on the same port, as an update does.
#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    for era in ERAS {
        let mut peer = HttpPeer::start(&evil(), &["--fault", "hang"]).await;
        let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": peer.url() } })).await;
        let mut client = Client::open(&gateway, "it", era).await;
        client.calm("before").await;
        peer.child.kill().await.expect("it can be killed");
        let answer = client.call("calm", json!({})).await;
        answer.error("unreachable");
        assert!(answer.took < AT_ONCE, "{era:?}: {answer:?}");
        let address = peer.address.to_string();
        let _again = HttpPeer::start(&evil(), &["--fault", "hang", "--http", &address]).await;
        client.calm("in the same session as before").await;
    }
}

#[tokio::test]
async fn a_lost_session_is_opened_anew_within_the_call() {
    let script = Script::start().await;
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": script.url() } })).await;
    let mut client = Client::open(&gateway, "it", Era::Legacy).await;
    client.calm("before").await;
    script.forget().await;
    client.calm("after").await;
    assert_eq!((script.arrived("after"), script.ran("after")), (2, 1), "refused once, run once");
    assert_eq!(script.arrived("initialize"), 2);
    assert_eq!(script.arrived("notifications/initialized"), 2, "the new session hears it too");

    // Many at once: one of them opens the session for all.
    script.forget().await;
    let mut many = tokio::task::JoinSet::new();
    for number in 0..8 {
        let mut twin = client.twin(&gateway).await;
        many.spawn(async move {
            // Ids are unique in a session.
            for _ in 0..number {
                twin.skip_id();
            }
            twin.calm(&format!("many {number}")).await;
        });
    }
    while let Some(done) = many.join_next().await {
        done.expect("nobody sees an error");
    }
    assert_eq!(script.arrived("initialize"), 3);
    for number in 0..8 {
        assert_eq!(script.ran(&format!("many {number}")), 1, "call {number}");
    }
}

#[tokio::test]
async fn a_session_that_is_lost_again_and_again_is_an_error() {
    let script = Script::start().await;
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": script.url() } })).await;
    let mut client = Client::open(&gateway, "it", Era::Legacy).await;
    client.calm("before").await;
    script.be_forgetful();
    script.forget().await;
    let answer = client.call("calm", json!({ "message": "again" })).await;
    assert!(answer.value()["error"]["message"].is_string(), "{answer:?}");
    assert!(answer.took < AT_ONCE, "{answer:?}");
    assert_eq!((script.arrived("again"), script.ran("again")), (2, 0), "sent once more, and no more than that");
    assert_eq!(script.arrived("initialize"), 2);
}

/// What may have run is not sent again, whatever becomes of its answer.
#[tokio::test]
async fn a_call_that_may_have_run_is_sent_once() {
    for era in ERAS {
        let script = Script::start().await;
        let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": script.url() } })).await;
        let mut client = Client::open(&gateway, "it", era).await;
        client.calm("before").await;
        for round in 1..=3 {
            let answer = client.call("calm", json!({ "message": "cut" })).await;
            answer.error("backend_closed");
            assert!(answer.took < AT_ONCE, "{era:?}: {answer:?}");
            assert_eq!((script.arrived("cut"), script.ran("cut")), (round, round), "{era:?}");
            client.calm(&format!("after {round}")).await;
        }
    }
}

/// A server may close a connection that nobody uses: the next call takes another one, and nobody notices.
#[tokio::test]
async fn an_idle_connection_that_was_closed_is_no_error() {
    for era in ERAS {
        let script = Script::start().await;
        let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": script.url() } })).await;
        let mut client = Client::open(&gateway, "it", era).await;
        for round in 0..20 {
            let name = format!("round {round}");
            client.calm(&name).await;
            assert_eq!((script.arrived(&name), script.ran(&name)), (1, 1), "{era:?}");
            script.hang_up().await;
        }
    }
}
