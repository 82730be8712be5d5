//! Sessions that nobody uses, in front of servers that have no session with us: they rest, and come back as they were.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lb_exchange::{Isolation, Middle as _, Mount, Place, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Settings};
use lb_gateway::{About, Gateway, Keeping, Limits, Membership, Setup, Surface};
use lb_session::Happening;
use lb_store::Store;
use lb_wire::Text;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::kept::{Held, PATIENCE, kinds};
use crate::servers;

/// How long nobody uses a session before it rests here.
const REST_AFTER: Duration = Duration::from_secs(1);

/// A server that notes what it hears.
#[derive(Clone, Default)]
struct Noting {
    heard: Arc<Mutex<Vec<String>>>,
    /// Whether it has a tool more than before.
    grown: Arc<AtomicBool>,
}

impl Noting {
    fn answer(self) -> servers::Answer {
        Arc::new(move |message, _| {
            let about = message["params"]["uri"].as_str().or(message["params"]["level"].as_str()).unwrap_or_default();
            let method = message["method"].as_str().unwrap_or_default();
            self.heard.lock().expect("no panic holds it").push(format!("{method} {about}").trim().to_owned());
            let Some(id) = message.get("id") else { return (202, None) };
            let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
            let tools: Vec<Value> = match self.grown.load(Ordering::SeqCst) {
                true => vec![tool("echo"), tool("more")],
                false => vec![tool("echo")],
            };
            let result = match method {
                "initialize" => json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": { "resources": { "subscribe": true }, "logging": {}, "tools": {} },
                    "serverInfo": { "name": "it", "version": "1" },
                }),
                "tools/list" => json!({ "tools": tools }),
                "tools/call" => json!({ "content": [{ "type": "text", "text": "plain" }] }),
                _ => json!({}),
            };
            (200, Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })))
        })
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().expect("no panic holds it"))
    }
}

struct Process {
    gateway: Gateway,
    front: Front,
    tasks: Tasks,
}

impl Process {
    async fn start(specs: Vec<ServerSpec>, tools: Option<Arc<dyn Surface>>) -> Self {
        let store: Arc<dyn Store> =
            lb_store::open(&lb_store::Settings::parse("memory").expect("a store")).await.expect("a store");
        let tasks = Tasks::default();
        let about = About { id: "n".into(), boot: "1".into(), url: None, version: "0".to_owned(), host: None };
        let keeping = Keeping {
            store: store.clone(),
            nodes: Membership::join(store, about, &tasks).await.expect("a store that answers"),
            gather: Duration::from_millis(1),
            ttl: Duration::from_secs(3_600),
            shared: false,
            wait_for_streams: false,
        };
        let limits = Limits { rest_after: REST_AFTER, ..Limits::default() };
        let setup = Setup { keeping: Some(keeping), tools, limits, ..Setup::default() };
        let gateway = Gateway::new(specs, &servers::environment(&tasks), setup).expect("a gateway");
        let front = Front::new(Arc::new(gateway.clone()), Settings::default());
        Self { gateway, front, tasks }
    }

    fn client(&self, mount: Mount) -> Client {
        Client { front: self.front.clone(), mount, session: None }
    }

    /// Waits until this many sessions are awake, and this many rest.
    async fn are(&self, awake: usize, resting: usize) {
        let until = tokio::time::Instant::now() + PATIENCE;
        while (self.gateway.sessions(), self.gateway.sessions_resting()) != (awake, resting) {
            let now = (self.gateway.sessions(), self.gateway.sessions_resting());
            assert!(tokio::time::Instant::now() < until, "{now:?} instead of {awake} awake and {resting} resting");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What a front does first.
    async fn wakes(&self, client: &Client) {
        assert_eq!(self.gateway.locate(client.session.as_deref().expect("an id")).await, Place::Here);
    }

    async fn stop(self) {
        self.gateway.close().await;
        assert!(self.tasks.close(PATIENCE).await, "every task ends");
    }
}

fn name(text: &str) -> ServerName {
    ServerName::parse(text).expect("a name")
}

fn spec(named: &str, url: String, isolation: Isolation) -> ServerSpec {
    ServerSpec { isolation, ..ServerSpec::new(name(named), Target::Http { url, headers: Vec::new() }) }
}

async fn ask(client: &Client, id: u64, method: &str, params: Value) {
    let answer = client.request(id, false, method, params).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test]
async fn a_session_rests_while_its_server_has_none_with_us_and_the_server_is_told_again_what_it_was_told() {
    let _alone = crate::ALONE.lock().await;
    for isolation in [Isolation::Session, Isolation::Shared] {
        let (noting, mut serving) = (Noting::default(), JoinSet::new());
        let url = servers::stateless(&mut serving, noting.clone().answer()).await;
        let process = Process::start(vec![spec("it", url, isolation)], None).await;
        let mut client = process.client(Mount::Server(name("it")));
        client.seat().await;
        ask(&client, 1, "resources/subscribe", json!({ "uri": "file:///a" })).await;
        ask(&client, 2, "logging/setLevel", json!({ "level": "debug" })).await;
        process.are(0, 1).await;

        noting.heard();
        process.wakes(&client).await;
        client.call(3, false).await;
        process.are(1, 0).await;
        let heard = noting.heard();
        let place = |what: &str| heard.iter().position(|one| one == what);
        let call = place("tools/call").expect("a call");
        for told in
            ["initialize", "notifications/initialized", "logging/setLevel debug", "resources/subscribe file:///a"]
        {
            assert!(place(told).is_some_and(|told| told < call), "{isolation:?}: {told} comes first: {heard:?}");
        }
        process.are(0, 1).await;
        process.stop().await;
    }
}

#[tokio::test]
async fn a_session_does_not_rest_whose_server_has_one_of_its_own() {
    let _alone = crate::ALONE.lock().await;
    let mut serving = JoinSet::new();
    let stateful = servers::http_with(&mut serving, Noting::default().answer()).await;
    let stateless = servers::stateless(&mut serving, Noting::default().answer()).await;
    let (own, shared) = (Isolation::Session, Isolation::Shared);
    let mut embedded = ServerSpec::new(name("within"), Target::Embedded("asks".into()));
    embedded.isolation = own;
    let specs = vec![
        spec("stateful", stateful.clone(), own),
        spec("together", stateful, shared),
        embedded,
        spec("stateless", stateless, own),
    ];
    let process = Process::start(specs, None).await;
    let mut clients = Vec::new();
    for server in ["stateful", "together", "within", "stateless"] {
        let mut client = process.client(Mount::Server(name(server)));
        client.seat().await;
        clients.push(client);
    }
    process.are(3, 1).await;
    // It is looked for them once a second.
    tokio::time::sleep(REST_AFTER * 3).await;
    process.are(3, 1).await;
    process.stop().await;
}

#[tokio::test]
async fn a_session_with_several_servers_rests_and_is_told_only_what_is_another_since() {
    let _alone = crate::ALONE.lock().await;
    for (isolation, others) in [(Isolation::Session, false), (Isolation::Shared, false), (Isolation::Shared, true)] {
        let (noting, mut serving) = (Noting::default(), JoinSet::new());
        let url = servers::stateless(&mut serving, noting.clone().answer()).await;
        let held = Arc::new(Held::default());
        let process = Process::start(vec![spec("it", url, isolation)], Some(held.clone())).await;
        let mut client = process.client(Mount::Tools);
        client.seat().await;
        let use_it = async |client: &Client, id: u64| {
            process.wakes(client).await;
            ask(client, id, "tools/call", json!({ "name": "x" })).await;
            let live = held.live();
            live.backend("it").expect("it is defined").ready(PATIENCE).await.expect("connected");
            live
        };
        let live = use_it(&client, 1).await;
        assert_eq!(kinds(&live), ["server_connected"]);
        live.cell().tell(&Text::from_static("it"), &Happening::ServerHealthRestored, live.now());
        drop(live);
        process.are(0, 1).await;

        let kept = use_it(&client, 2).await;
        assert_eq!(kinds(&kept), ["server_health_restored"], "{isolation:?}: what waited, and nothing more");
        drop(kept);
        process.are(0, 1).await;

        noting.grown.store(true, Ordering::SeqCst);
        let mut other = process.client(Mount::Tools);
        if others {
            // It is connected when the session comes back.
            other.seat().await;
            drop(use_it(&other, 1).await);
        }
        let changed = use_it(&client, 3).await;
        assert_eq!(kinds(&changed), ["notification"], "{isolation:?}, {others}: a list has changed");
        drop(changed);
        process.stop().await;
    }
}
