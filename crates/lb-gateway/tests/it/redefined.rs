//! A server is changed or removed while a client introduces itself to it.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use lb_exchange::{Isolation, Mount, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Reply, Settings};
use lb_gateway::{Gateway, Setup};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::servers;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that says when somebody introduces itself, and answers when it may.
async fn slow(tasks: &mut JoinSet<()>) -> (String, tokio::sync::mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (asked, is_asked) = tokio::sync::mpsc::channel(8);
    let (go, may_go) = mpsc::channel();
    let may_go = Mutex::new(may_go);
    let answer: servers::Answer = Arc::new(move |message, _| {
        if message["method"] != "initialize" {
            return (202, None);
        }
        asked.try_send(()).expect("room");
        may_go.lock().expect("no panic holds it").recv_timeout(PATIENCE).expect("told to go on");
        let result = json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {},
            "serverInfo": { "name": "slow", "version": "1" },
        });
        (200, Some(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })))
    });
    (servers::http_with(tasks, answer).await, is_asked, go)
}

async fn introduced(client: &Client) -> Value {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    match client.post("initialize", &hello).await {
        Reply::Json { body, .. } => serde_json::from_slice(&body).expect("JSON"),
        other => panic!("no answer: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_begins_meanwhile_is_refused_and_not_left_with_what_was() {
    let _alone = crate::ALONE.lock().await;
    for (isolation, change) in [
        (Isolation::Session, "server_changed"),
        (Isolation::Session, "server_removed"),
        (Isolation::Shared, "server_changed"),
        (Isolation::Shared, "server_removed"),
    ] {
        let (tasks, mut serving) = (Tasks::default(), JoinSet::new());
        let (url, mut is_asked, go) = slow(&mut serving).await;
        let name = ServerName::parse("it").expect("a name");
        let target = Target::Http { url, headers: Vec::new() };
        let spec = ServerSpec { isolation, ..ServerSpec::new(name.clone(), target) };
        let gateway = Gateway::new(vec![spec.clone()], &servers::environment(&tasks), Setup::default());
        let gateway = gateway.expect("a gateway");
        let front = Front::new(Arc::new(gateway.clone()), Settings::default());
        let client = Client { front, mount: Mount::Server(name), session: None };
        let reloading = async {
            is_asked.recv().await.expect("somebody introduces itself");
            let changed = ServerSpec { timeout: Some(PATIENCE), ..spec.clone() };
            let after = if change == "server_changed" { vec![changed] } else { Vec::new() };
            assert_eq!(gateway.reload(std::slice::from_ref(&spec), &after).await.len(), 1);
            go.send(()).expect("it waits");
        };
        let (told, ()) = tokio::join!(introduced(&client), reloading);
        assert_eq!(told["error"]["data"]["reason"], change, "{isolation:?}: {told}");
        assert_eq!(gateway.sessions(), 0, "{isolation:?} {change}");
        gateway.close().await;
        assert!(tasks.close(PATIENCE).await, "every task ends");
    }
}
