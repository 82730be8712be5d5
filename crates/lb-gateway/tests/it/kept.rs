//! Sessions on one server that outlive the process: what their servers were told is told again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use lb_exchange::{
    Call, End, Exchange, Isolation, Middle as _, Mount, Outcome, Place, ServerName, ServerSpec, Target, Tasks,
};
use lb_front::{Frame, Frames, Front, Reply, Settings};
use lb_gateway::{About, Gateway, Introduction, Keeping, Live, Membership, Setup, Surface, Via};
use lb_session::Filter;
use lb_store::Store;
use lb_wire::Raw;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::servers;

/// Longer than anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

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
    process_with(store, spec, boot, None).await
}

/// The same with a surface.
async fn process_with(
    store: &Arc<dyn Store>,
    spec: &ServerSpec,
    boot: usize,
    tools: Option<Arc<dyn Surface>>,
) -> (Gateway, Front, Tasks) {
    let tasks = Tasks::default();
    let about = About { id: "n".into(), boot: boot.to_string().into(), url: None, version: "0".to_owned(), host: None };
    let keeping = Keeping {
        store: store.clone(),
        nodes: Membership::join(store.clone(), about, &tasks).await.expect("a store that answers"),
        gather: Duration::from_millis(1),
        ttl: Duration::from_secs(3_600),
        shared: false,
        wait_for_streams: false,
    };
    let setup = Setup { keeping: Some(keeping), tools, ..Setup::default() };
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
        heard_soon(&heard, &["logging/setLevel debug"]).await;
        let all = heard.lock().expect("no panic holds it").clone();
        assert!(!all.iter().any(|one| one.contains("gone")), "{isolation:?}: {all:?}");
        gateway.close().await;
        assert!(tasks.close(PATIENCE).await, "every task ends");
    }
}

fn stream(reply: Reply) -> Frames {
    match reply {
        Reply::Stream { frames, .. } => frames,
        other => panic!("no stream: {other:?}"),
    }
}

/// The next message of a stream, and its id; `None` at the end.
async fn message(frames: &mut Frames) -> Option<(String, Value)> {
    loop {
        match tokio::time::timeout(PATIENCE, frames.next()).await.expect("in time")? {
            Frame::Message { line, event_id, .. } => {
                let message = serde_json::from_slice(&line.into_bytes()).expect("JSON");
                return Some((event_id.expect("an id").0.to_string(), message));
            }
            Frame::Priming { .. } | Frame::Retry(_) | Frame::Comment => {}
        }
    }
}

#[tokio::test]
async fn whoever_loses_a_session_ends_what_is_open_in_it_at_once() {
    let _alone = crate::ALONE.lock().await;
    let name = ServerName::parse("it").expect("a name");
    let spec = ServerSpec::new(name.clone(), Target::Embedded("asks".into()));
    let store = lb_store::open(&lb_store::Settings::parse("memory").expect("a store")).await.expect("a store");
    let (gateway, front, tasks) = process(&store, &spec, 1).await;
    let mut client = Client { front, mount: Mount::Server(name), session: None };
    client.seat_with(json!({ "elicitation": {} })).await;
    let call = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "x" } });

    let mut asked = stream(client.post("tools/call", &call(1)).await);
    assert_eq!(message(&mut asked).await.expect("a question").1["method"], "elicitation/create");
    let mut lost = stream(client.post("tools/call", &call(2)).await);
    let cursor = match lost.next().await {
        Some(Frame::Priming { id, .. }) => id.0.to_string(),
        other => panic!("no cursor: {other:?}"),
    };
    drop(lost);
    let mut resumed = stream(client.get(Some(&cursor)));
    let mut listening = stream(client.get(None));

    let keys: Vec<lb_store::Key> = store.scan("session:").try_collect().await.expect("keys");
    let owner = keys.iter().find(|key| key.as_str().ends_with(":owner")).expect("an owner");
    store.set(owner, Bytes::from_static(b"9 other 1"), PATIENCE).await.expect("it is taken");
    // Whatever is written next is refused.
    let last = tokio::time::timeout(PATIENCE, client.post("tools/call", &call(3))).await.expect("in time");
    assert!(matches!(last, Reply::Empty { .. } | Reply::Stream { .. }), "{last:?}");
    for (what, frames) in [("call", &mut asked), ("resumed call", &mut resumed), ("listen", &mut listening)] {
        while let Some((_, message)) = message(frames).await {
            assert!(message["method"].is_string(), "{what}: no answer comes from here: {message}");
        }
    }
    let id = client.session.clone().expect("an id");
    assert!(!gateway.is_here(&id));
    gateway.close().await;
    assert!(tasks.close(PATIENCE).await, "every task ends");
}

#[tokio::test]
async fn a_call_that_was_cut_off_by_the_end_of_the_process_says_so_to_whoever_comes_back() {
    let _alone = crate::ALONE.lock().await;
    let name = ServerName::parse("it").expect("a name");
    let spec = ServerSpec::new(name.clone(), Target::Embedded("asks".into()));
    let store = lb_store::open(&lb_store::Settings::parse("memory").expect("a store")).await.expect("a store");
    let (gateway, front, tasks) = process(&store, &spec, 1).await;
    let mut client = Client { front, mount: Mount::Server(name), session: None };
    client.seat_with(json!({ "elicitation": {} })).await;
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "x" } });
    let mut lost = stream(client.post("tools/call", &call).await);
    let (cursor, _) = message(&mut lost).await.expect("a question");
    drop(lost);
    gateway.close().await;
    assert!(tasks.close(PATIENCE).await, "every task ends");

    let (gateway, front, tasks) = process(&store, &spec, 2).await;
    client.front = front;
    assert_eq!(gateway.locate(client.session.as_deref().expect("an id")).await, Place::Here);
    let mut resumed = stream(client.get(Some(&cursor)));
    let mut last = Value::Null;
    while let Some((_, next)) = message(&mut resumed).await {
        last = next;
    }
    assert_eq!((&last["id"], &last["error"]["data"]["reason"]), (&json!(7), &json!("shutdown")), "{last}");
    gateway.close().await;
    assert!(tasks.close(PATIENCE).await, "every task ends");
}

/// A surface that lets the test use the session of whoever calls.
#[derive(Default)]
pub struct Held(Mutex<Option<Arc<Live>>>);

impl Held {
    pub fn live(&self) -> Arc<Live> {
        self.0.lock().expect("no panic holds it").take().expect("somebody called")
    }
}

impl Surface for Held {
    fn introduction(&self) -> Introduction {
        Introduction { capabilities: Raw::empty_object(), instructions: String::new() }
    }

    fn open(&self, visitor: Via, _: Call) -> Exchange {
        if let Via::Seated(live) = visitor {
            *self.0.lock().expect("no panic holds it") = Some(live);
        }
        Exchange::ready(End::ours(Outcome::Result(Raw::empty_object())))
    }
}

#[tokio::test]
async fn a_session_with_several_servers_tells_them_again_what_it_wants_and_that_they_were_started_anew() {
    let _alone = crate::ALONE.lock().await;
    for isolation in [Isolation::Session, Isolation::Shared] {
        let (heard, mut serving) = (Heard::default(), JoinSet::new());
        let url = server(&mut serving, &heard).await;
        let name = ServerName::parse("it").expect("a name");
        let spec = ServerSpec { isolation, ..ServerSpec::new(name, Target::Http { url, headers: Vec::new() }) };
        let store = lb_store::open(&lb_store::Settings::parse("memory").expect("a store")).await.expect("a store");
        let held = Arc::new(Held::default());
        let (gateway, front, tasks) = process_with(&store, &spec, 1, Some(held.clone())).await;
        let mut client = Client { front, mount: Mount::Tools, session: None };
        client.seat().await;
        ask(&client, 1, "tools/call", json!({ "name": "x" })).await;
        let live = held.live();
        let backend = live.backend("it").expect("it is defined");
        backend.subscribe("file:///a").await.expect("subscribed");
        backend.set_log_level("debug").await.expect("set");
        live.cell().with(|session| {
            session.wish("it", |wishes| wishes.subscribe("file:///a", true));
            session.wish("it", |wishes| wishes.log_level = Some("debug".to_owned()));
        });
        assert_eq!(kinds(&live), ["server_connected"], "{isolation:?}");
        drop((live, backend));
        gateway.close().await;
        assert!(tasks.close(PATIENCE).await, "every task ends");
        heard.lock().expect("no panic holds it").clear();

        let (gateway, front, tasks) = process_with(&store, &spec, 2, Some(held.clone())).await;
        client.front = front;
        if isolation == Isolation::Shared {
            // Another one has it connected before.
            let mut other = Client { front: client.front.clone(), mount: Mount::Tools, session: None };
            other.seat().await;
            ask(&other, 1, "tools/call", json!({ "name": "x" })).await;
            held.live().backend("it").expect("it is defined").ready(PATIENCE).await.expect("connected");
        }
        assert_eq!(gateway.locate(client.session.as_deref().expect("an id")).await, Place::Here);
        heard_soon(&heard, &["initialize", "resources/subscribe file:///a", "logging/setLevel debug"]).await;
        ask(&client, 2, "tools/call", json!({ "name": "x" })).await;
        let live = held.live();
        live.backend("it").expect("it is defined").ready(PATIENCE).await.expect("connected");
        assert_eq!(kinds(&live), ["server_reconnected"], "{isolation:?}");
        gateway.close().await;
        assert!(tasks.close(PATIENCE).await, "every task ends");
    }
}

/// The events that wait.
pub fn kinds(live: &Live) -> Vec<&'static str> {
    let taken = live.cell().with(|session| session.events.take(&Filter::All, 99, usize::MAX));
    if let Some(lease) = taken.lease {
        live.cell().with(|session| session.events.commit(lease));
    }
    taken.events.iter().map(|event| event.kind).collect()
}
