//! Sessions on one server that outlive the process: what their servers were told is told again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lb_exchange::{Isolation, Middle as _, Mount, Place, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Settings};
use lb_gateway::{About, Gateway, Keeping, Membership, Setup};
use lb_store::Store;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::servers;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a server heard, by method and what it is about.
type Heard = Arc<Mutex<Vec<String>>>;

/// A server that tells of changes, and notes what it hears.
async fn server(serving: &mut JoinSet<()>, heard: &Heard) -> String {
    let heard = heard.clone();
    let answer: servers::Answer = Arc::new(move |message, _| {
        let about = message["params"]["uri"].as_str().or(message["params"]["level"].as_str()).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        heard.lock().expect("no panic holds it").push(format!("{method} {about}").trim().to_owned());
        let Some(id) = message.get("id") else { return (202, None) };
        let result = match method {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "resources": { "subscribe": true }, "logging": {}, "tools": {} },
                "serverInfo": { "name": "it", "version": "1" },
            }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "plain" }] }),
            _ => json!({}),
        };
        (200, Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })))
    });
    servers::http_with(serving, answer).await
}

/// A process with this store, in its `boot`th life.
async fn process(store: &Arc<dyn Store>, spec: &ServerSpec, boot: usize) -> (Gateway, Front, Tasks) {
    let tasks = Tasks::default();
    let about = About { id: "n".into(), boot: boot.to_string().into(), url: None, version: "0".to_owned() };
    let keeping = Keeping {
        store: store.clone(),
        nodes: Membership::join(store.clone(), about, &tasks).await.expect("a store that answers"),
        gather: Duration::from_millis(1),
        ttl: Duration::from_secs(3_600),
        shared: false,
        wait_for_streams: false,
    };
    let setup = Setup { keeping: Some(keeping), ..Setup::default() };
    let gateway = Gateway::new(vec![spec.clone()], &servers::environment(&tasks), setup).expect("a gateway");
    let front = Front::new(Arc::new(gateway.clone()), Settings::default());
    (gateway, front, tasks)
}

async fn heard_soon(heard: &Heard, wanted: &[&str]) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let all = heard.lock().expect("no panic holds it").clone();
        if wanted.iter().all(|wanted| all.iter().any(|one| one == wanted)) {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "{wanted:?} is not in {all:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn ask(client: &Client, id: u64, method: &str, params: Value) {
    let answer = client.request(id, false, method, params).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn a_session_on_one_server_comes_back_with_what_its_server_was_told() {
    let _alone = crate::ALONE.lock().await;
    for isolation in [Isolation::Session, Isolation::Shared] {
        let (heard, mut serving) = (Heard::default(), JoinSet::new());
        let url = server(&mut serving, &heard).await;
        let name = ServerName::parse("it").expect("a name");
        let spec = ServerSpec { isolation, ..ServerSpec::new(name.clone(), Target::Http { url, headers: Vec::new() }) };
        let store = lb_store::open(&lb_store::Settings::parse("memory").expect("a store")).await.expect("a store");

        let (gateway, front, tasks) = process(&store, &spec, 1).await;
        let mut client = Client { front, mount: Mount::Server(name), session: None };
        client.seat().await;
        ask(&client, 1, "resources/subscribe", json!({ "uri": "file:///a" })).await;
        ask(&client, 2, "resources/subscribe", json!({ "uri": "file:///gone" })).await;
        ask(&client, 3, "resources/unsubscribe", json!({ "uri": "file:///gone" })).await;
        ask(&client, 4, "logging/setLevel", json!({ "level": "debug" })).await;
        gateway.close().await;
        assert!(tasks.close(PATIENCE).await, "every task ends");
        heard.lock().expect("no panic holds it").clear();

        let (gateway, front, tasks) = process(&store, &spec, 2).await;
        client.front = front;
        let id = client.session.clone().expect("an id");
        assert!(!gateway.is_here(&id), "nothing is read before it is asked for");
        assert_eq!(gateway.locate(&id).await, Place::Here);
        client.call(5, false).await;
        heard_soon(&heard, &["initialize", "notifications/initialized", "resources/subscribe file:///a"]).await;
        if isolation == Isolation::Session {
            heard_soon(&heard, &["logging/setLevel debug"]).await;
        }
        let all = heard.lock().expect("no panic holds it").clone();
        assert!(!all.iter().any(|one| one.contains("gone")), "{isolation:?}: {all:?}");
        gateway.close().await;
        assert!(tasks.close(PATIENCE).await, "every task ends");
    }
}
