//! Five seconds after a login or a key is over, nothing goes on that was begun with it: as a client of another node sees it.
//!
//! What is promised is asserted as it is promised. The step is how often a client looks, and nothing else is added.

use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::raw::RawHttp;
use serde_json::json;
use tokio::process::Command;

use crate::LANDBRIDGE;
use crate::cluster::Cluster;
use crate::ends::listens;
use crate::world::{Client, form_to, serve};

/// What is promised.
const PROMISED: Duration = Duration::from_secs(5);
/// How often a client looks.
const STEP: Duration = Duration::from_millis(50);
/// How long something is waited for that does not end, so that what it took can be told.
const PATIENCE: Duration = Duration::from_secs(20);

/// The stream of a legacy session.
async fn stream(client: &Client) -> RawHttp {
    let mut http = RawHttp::connect(client.at).await.expect("it listens");
    http.send("GET", "/mcp", &client.headers(), b"").await.expect("sent");
    assert_eq!(http.head().await.expect("a head").status(), 200);
    http
}

/// What has happened of a stream within a time: `None` while it is open.
async fn ended(http: &mut RawHttp, within: Duration) -> Option<Duration> {
    let began = Instant::now();
    let end = async {
        loop {
            match http.event().await {
                Ok(Some(_)) => {}
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {}
                Ok(None) | Err(_) => return,
            }
        }
    };
    tokio::time::timeout(within, end).await.ok().map(|()| began.elapsed())
}

/// How long a session goes on.
async fn refused(client: &Client) -> Option<Duration> {
    let began = Instant::now();
    while client.call("list_servers", json!({})).await.head.status() != 401 {
        if PATIENCE < began.elapsed() {
            return None;
        }
        tokio::time::sleep(STEP).await;
    }
    Some(began.elapsed())
}

/// Everything that ends in time, told with what it took.
fn in_time(what: &[(&str, Option<Duration>)], said: &str) {
    eprintln!("{what:?}");
    for (name, took) in what {
        assert!(took.is_some_and(|took| took <= PROMISED + STEP), "{name}: {took:?} of {PROMISED:?}; {said}");
    }
}

#[tokio::test]
async fn what_was_revoked_at_one_node_is_over_at_the_other_five_seconds_later() {
    let cluster = Cluster::start(&[]).await;
    let (alice, bob) = (cluster.tokens("alice", "mcp:call").await, cluster.tokens("bob", "mcp:call").await);
    let [one, two] = cluster.at();
    let session = Client::begin(two, &alice.access).await;
    let (mut of_session, mut of_none) = (stream(&session).await, listens(two, "/mcp", &alice.access).await);
    let other = Client::begin(two, &bob.access).await;
    let mut of_other = stream(&other).await;
    assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200);
    let quiet = Duration::from_millis(300);
    assert_eq!(
        tokio::join!(ended(&mut of_session, quiet), ended(&mut of_none, quiet)),
        (None, None),
        "both are open: {}",
        cluster.said()
    );
    let revoke = [("token", alice.refresh.as_str()), ("client_id", &alice.client)];
    assert_eq!(form_to(one, "/revoke", &revoke).await.0, 200);
    let (of_session, of_none, session) =
        tokio::join!(ended(&mut of_session, PATIENCE), ended(&mut of_none, PATIENCE), refused(&session));
    let all = [("the stream of a session", of_session), ("a listen", of_none), ("a session", session)];
    in_time(&all, &cluster.said());
    assert_eq!(ended(&mut of_other, quiet).await, None, "that of others goes on");
    assert_eq!(other.call("list_servers", json!({})).await.head.status(), 200);
}

#[tokio::test]
async fn what_was_opened_with_a_key_is_over_five_seconds_after_the_key_was_taken_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.txt");
    let mut keys = Vec::new();
    for name in ["ci", "other"] {
        let made = Command::new(LANDBRIDGE).args(["auth", "key", "new", name, "--file"]).arg(&file).output().await;
        keys.push(String::from_utf8(made.expect("it runs").stdout).expect("text").trim().to_owned());
    }
    let (mut command, config) = serve("");
    command.args(["--listen", "127.0.0.1:0", "--auth", "keys"]).arg(&file);
    let gateway = Gateway::launch(command, config).await;
    let (session, other) =
        (Client::begin(gateway.address, &keys[0]).await, Client::begin(gateway.address, &keys[1]).await);
    let (mut of_session, mut of_none) = (stream(&session).await, listens(gateway.address, "/mcp", &keys[0]).await);
    let mut of_other = stream(&other).await;
    let quiet = Duration::from_millis(300);
    assert_eq!(tokio::join!(ended(&mut of_session, quiet), ended(&mut of_none, quiet)), (None, None));
    // As an operator does it who edits the file.
    let text = std::fs::read_to_string(&file).expect("keys");
    let left: Vec<&str> = text.lines().filter(|line| !line.contains("ci")).collect();
    assert_eq!((text.lines().count(), left.len()), (2, 1), "{text}");
    std::fs::write(&file, left.join("\n") + "\n").expect("written");
    let (of_session, of_none, session) =
        tokio::join!(ended(&mut of_session, PATIENCE), ended(&mut of_none, PATIENCE), refused(&session));
    in_time(&[("its stream", of_session), ("its listen", of_none), ("its session", session)], &gateway.said());
    assert_eq!(ended(&mut of_other, quiet).await, None, "that of another key goes on");
    assert_eq!(other.call("list_servers", json!({})).await.head.status(), 200);
}
