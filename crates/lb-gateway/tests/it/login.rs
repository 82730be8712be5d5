//! A server that wants a login: how clients are asked for it on the server's own path, and that it works afterwards.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lb_backend::Environment;
use lb_exchange::{
    BoxFuture, Isolation, Login, LoginError, LoginNeeded, Logins, Mount, OauthClient, Principal, Proof, Refused,
    Secret, ServerAuth, ServerName, ServerSpec, Shelf, Target, Tasks, Visitor,
};
use lb_front::{Accept, Front, Headers, Reply, Request, Settings};
use lb_gateway::{Gateway, Setup};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::servers;

/// Everybody's logins at the one server there is.
#[derive(Debug, Default)]
struct People(Mutex<HashMap<Principal, Arc<Person>>>);

/// Somebody who logs in when the test says so.
#[derive(Debug)]
struct Person {
    name: Principal,
    /// How often that was.
    logins: watch::Sender<u64>,
}

impl People {
    fn person(&self, who: &Principal) -> Arc<Person> {
        let make = || Arc::new(Person { name: who.clone(), logins: watch::Sender::new(0) });
        self.0.lock().entry(who.clone()).or_insert_with(make).clone()
    }

    /// Somebody follows the link.
    fn log_in(&self, who: &Principal) {
        self.person(who).logins.send_modify(|count| *count += 1);
    }
}

impl Logins for People {
    fn of(&self, principal: &Principal, _: &Arc<ServerSpec>) -> Option<Arc<dyn Login>> {
        Some(self.person(principal))
    }
}

impl Person {
    fn newest(&self) -> Option<Proof> {
        let number = *self.logins.borrow();
        let value = Secret::new(format!("Bearer {} {number}", self.name.as_str()));
        (0 < number).then_some(Proof { value, number })
    }
}

impl Login for Person {
    fn proof(&self) -> BoxFuture<'_, Result<Option<Proof>, LoginError>> {
        Box::pin(std::future::ready(Ok(self.newest())))
    }

    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<Proof, LoginError>> {
        let newer = self.newest().filter(|newest| refusal.proof.is_none_or(|proof| proof.number < newest.number));
        let id = format!("l{}", *self.logins.borrow());
        let url = format!("https://login.example/{id}");
        let server = ServerName::parse("it").expect("a name");
        let needed = LoginError::Needed(LoginNeeded { server, id, url });
        Box::pin(std::future::ready(newer.ok_or(needed)))
    }

    fn ended<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        let before: u64 = id.trim_start_matches('l').parse().expect("one of ours");
        let mut logins = self.logins.subscribe();
        Box::pin(async move { drop(logins.wait_for(|count| before < *count).await) })
    }
}

/// A server of both eras that takes tokens above a number, and lists a tool that has the name of who asks.
struct Guard {
    revoked: watch::Sender<u64>,
    /// Calls that it has run.
    calls: watch::Sender<u64>,
}

fn guarded(guard: &Arc<Guard>) -> servers::Answer {
    let guard = guard.clone();
    Arc::new(move |message, headers| {
        let Some(id) = message.get("id") else { return (202, None) };
        let token = headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| value.as_str());
        let parts: Vec<&str> = token.unwrap_or_default().split(' ').collect();
        let number = parts.get(2).and_then(|number| number.parse().ok()).unwrap_or(0);
        if number <= *guard.revoked.borrow() {
            return (401, Some(json!({ "error": "log in first" })));
        }
        let modern = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
        let mut result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "guarded", "version": "1" },
            }),
            "server/discover" => json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }),
            "tools/list" => json!({ "tools": [{ "name": parts[1], "inputSchema": { "type": "object" } }] }),
            "tools/call" => {
                guard.calls.send_modify(|count| *count += 1);
                assert!(message["params"].get("inputResponses").is_none(), "it never asked: {message}");
                json!({ "content": [{ "type": "text", "text": format!("for {}", parts[1]) }] })
            }
            _ => json!({}),
        };
        if modern {
            result["resultType"] = "complete".into();
        }
        (200, Some(json!({ "jsonrpc": "2.0", "id": id, "result": result })))
    })
}

struct World {
    gateway: Gateway,
    front: Front,
    people: Arc<People>,
    guard: Arc<Guard>,
    url: String,
    tasks: Tasks,
    serving: JoinSet<()>,
}

/// What is kept, in memory.
#[derive(Default)]
struct Drawer(Mutex<HashMap<String, Vec<u8>>>);

impl Shelf for Drawer {
    fn load(&self, key: &str) -> Option<Vec<u8>> {
        self.0.lock().get(key).cloned()
    }

    fn save(&self, key: &str, bytes: &[u8]) {
        self.0.lock().insert(key.to_owned(), bytes.to_vec());
    }
}

impl World {
    async fn start(change: impl FnOnce(&mut ServerSpec), setup: Setup) -> Self {
        let (revoked, calls) = (watch::Sender::new(0), watch::Sender::new(0));
        let (guard, mut serving) = (Arc::new(Guard { revoked, calls }), JoinSet::new());
        let url = servers::http_with(&mut serving, guarded(&guard)).await;
        let people = Arc::<People>::default();
        let (gateway, front, tasks) = gateway(&url, &people, change, setup).await;
        Self { gateway, front, people, guard, url, tasks, serving }
    }

    /// A client of this era and of somebody, who has this id in its session if it has one.
    fn client(&self, who: &Principal, modern: bool, capabilities: Value) -> Client {
        Client { front: self.front.clone(), who: who.clone(), modern, capabilities, session: None }
    }

    async fn end(self) {
        self.gateway.close().await;
        assert!(self.tasks.close(std::time::Duration::from_secs(5)).await, "every task ends");
        drop(self.serving);
    }
}

async fn gateway(
    url: &str,
    people: &Arc<People>,
    change: impl FnOnce(&mut ServerSpec),
    setup: Setup,
) -> (Gateway, Front, Tasks) {
    let target = Target::Http { url: url.to_owned(), headers: Vec::new() };
    let mut spec = ServerSpec::new(ServerName::parse("it").expect("a name"), target);
    spec.auth = ServerAuth::User(OauthClient::default());
    change(&mut spec);
    let tasks = Tasks::default();
    let environment = Environment { logins: Some(people.clone()), ..servers::environment(&tasks) };
    let gateway = Gateway::start(vec![spec], environment, setup).await.expect("a gateway");
    let front = Front::new(Arc::new(gateway.clone()), Settings::default());
    (gateway, front, tasks)
}

struct Client {
    front: Front,
    who: Principal,
    modern: bool,
    capabilities: Value,
    session: Option<String>,
}

impl Client {
    async fn post(&mut self, message: &Value) -> (u16, Value) {
        let method = message["method"].as_str().unwrap_or_default();
        let headers = Headers {
            version: Some(if self.modern { b"2026-07-28" } else { b"2025-11-25" }),
            session: self.session.as_deref().map(str::as_bytes),
            method: Some(method.as_bytes()).filter(|_| self.modern),
            name: message["params"]["name"].as_str().map(str::as_bytes).filter(|_| self.modern),
            accept: Accept::Both,
            ..Headers::default()
        };
        let request = Request { mount: Mount::Default, visitor: Visitor::of(self.who.clone()), headers };
        match self.front.post(request, Vec::new(), Bytes::from(message.to_string())).reply().await {
            Reply::Json { status, body, session, .. } => {
                if let Some(session) = session {
                    self.session = Some(session.as_str().to_owned());
                }
                (status, serde_json::from_slice(&body).expect("JSON"))
            }
            Reply::Empty { status } => (status, Value::Null),
            other => panic!("{other:?}"),
        }
    }

    /// Introduces a legacy client.
    async fn seat(&mut self) -> Value {
        let info = json!({ "name": "c", "version": "1" });
        let capabilities = self.capabilities.clone();
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let (_, welcome) = self.post(&hello).await;
        if self.session.is_some() {
            self.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        }
        welcome
    }

    async fn request(&mut self, method: &str, mut params: Value) -> Value {
        if self.modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        let (status, answer) =
            self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await;
        assert_ne!(status, 401, "the login is not the client's: {answer}");
        answer
    }

    async fn call(&mut self) -> Value {
        self.request("tools/call", json!({ "name": "t", "arguments": {} })).await
    }
}

const DONE: &str = "for local";

fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_client_of_the_server_alone_is_told_the_link_and_is_seated_after_the_login() {
    let _alone = crate::ALONE.lock().await;
    let world = World::start(|_| {}, Setup::default()).await;
    let me = Principal::local();
    let mut client = world.client(&me, false, json!({ "elicitation": { "url": {} } }));
    for _ in 0..10 {
        let refused = client.seat().await;
        assert_eq!(refused["error"]["code"], -32603, "{refused}");
        let data = json!({ "reason": "login_needed", "server": "it", "url": "https://login.example/l0" });
        assert_eq!(refused["error"]["data"], data);
        assert!(refused["error"]["message"].as_str().unwrap_or_default().contains("https://login.example/l0"));
        assert_eq!(client.session, None);
    }
    world.people.log_in(&me);
    let welcome = client.seat().await;
    assert_eq!(welcome["result"]["serverInfo"]["name"], "guarded", "{welcome}");
    assert_eq!(said(&client.call().await), DONE);
    world.end().await;
}

#[tokio::test]
async fn a_login_that_has_ended_is_asked_for_in_the_words_of_the_client() {
    let _alone = crate::ALONE.lock().await;
    for isolation in [Isolation::Session, Isolation::Shared] {
        let world = World::start(|spec| spec.isolation = isolation, Setup::default()).await;
        let me = Principal::local();
        world.people.log_in(&me);
        let mut links = world.client(&me, false, json!({ "elicitation": { "url": {} } }));
        let mut plain = world.client(&me, false, json!({}));
        for client in [&mut links, &mut plain] {
            client.seat().await;
            assert_eq!(said(&client.call().await), DONE);
        }
        world.guard.revoked.send_replace(1);
        let asked = links.call().await;
        assert_eq!(asked["error"]["code"], -32042, "{asked}");
        let elicitation = &asked["error"]["data"]["elicitations"][0];
        assert_eq!(
            (&elicitation["mode"], &elicitation["elicitationId"], &elicitation["url"]),
            (&json!("url"), &json!("l1"), &json!("https://login.example/l1"))
        );
        let told = plain.call().await;
        assert_eq!(told["result"]["isError"], true, "{told}");
        assert!(said(&told).contains("https://login.example/l1"), "{told}");
        let listed = plain.request("tools/list", json!({})).await;
        assert_eq!(listed["error"]["data"]["url"], "https://login.example/l1", "{listed}");
        world.people.log_in(&me);
        for client in [&mut links, &mut plain] {
            assert_eq!(said(&client.call().await), DONE, "the next call works");
        }
        assert_eq!(*world.guard.calls.borrow(), 4, "what was refused was not run");
        world.end().await;
    }
}

#[tokio::test]
async fn a_modern_client_is_asked_by_a_result_and_asks_again() {
    let _alone = crate::ALONE.lock().await;
    let world = World::start(|_| {}, Setup::default()).await;
    let me = Principal::local();
    let mut client = world.client(&me, true, json!({ "elicitation": { "url": {} } }));
    let asked = client.call().await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let question = &asked["result"]["inputRequests"]["landbridge/login"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["url"], "https://login.example/l0");
    assert_eq!(question["params"].get("elicitationId"), None);
    let retry = |action: &str| {
        let responses = json!({ "landbridge/login": { "action": action } });
        let state = asked["result"]["requestState"].clone();
        json!({ "name": "t", "arguments": {}, "inputResponses": responses, "requestState": state })
    };
    let declined = client.request("tools/call", retry("decline")).await;
    assert_eq!(declined["result"]["isError"], true, "{declined}");
    assert_eq!(declined["result"]["resultType"], "complete", "{declined}");
    // The person is still busy with the link when the client asks again.
    let people = world.people.clone();
    let (answer, ()) = tokio::join!(client.request("tools/call", retry("accept")), async {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        people.log_in(&me);
    });
    assert_eq!(said(&answer), DONE, "{answer}");
    let mut plain = world.client(&me, true, json!({}));
    world.guard.revoked.send_replace(1);
    let told = plain.call().await;
    assert!(told["result"]["isError"] == true && said(&told).contains("https://login.example/l1"), "{told}");
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["error"]["data"]["url"], "https://login.example/l1", "{listed}");
    world.end().await;
}

/// The tool that somebody sees.
async fn tool_of(client: &mut Client) -> Value {
    let listed = client.request("tools/list", json!({})).await;
    listed["result"]["tools"][0]["name"].clone()
}

#[tokio::test]
async fn nobody_is_told_what_the_server_tells_another_whatever_is_shared_or_kept() {
    let _alone = crate::ALONE.lock().await;
    let [ada, bob] = ["ada", "bob"].map(Principal::named);
    for isolation in [Isolation::Session, Isolation::Shared] {
        let drawer = Arc::<Drawer>::default();
        let setup = || Setup { shelf: Some(drawer.clone()), ..Setup::default() };
        let change = |spec: &mut ServerSpec| (spec.isolation, spec.cached) = (isolation, true);
        let world = World::start(change, setup()).await;
        world.people.log_in(&ada);
        for modern in [false, true] {
            let mut of_ada = world.client(&ada, modern, json!({}));
            let mut of_bob = world.client(&bob, modern, json!({}));
            if !modern {
                of_ada.seat().await;
            }
            assert_eq!(tool_of(&mut of_ada).await, "ada", "{isolation} {modern}");
            // Not even what is kept: who has not logged in is told nothing.
            let refused = if modern { of_bob.request("tools/list", json!({})).await } else { of_bob.seat().await };
            assert_eq!(refused["error"]["data"]["reason"], "login_needed", "{isolation} {modern}: {refused}");
        }
        world.people.log_in(&bob);
        for modern in [false, true] {
            let mut of_bob = world.client(&bob, modern, json!({}));
            if !modern {
                of_bob.seat().await;
            }
            assert_eq!(tool_of(&mut of_bob).await, "bob", "{isolation} {modern}");
        }
        let kept = |drawer: &Drawer| {
            let kept = drawer.0.lock();
            let text: String = kept.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
            ["ada", "bob"].iter().all(|who| text.contains(&format!("\"principal\":\"{who}\"")))
        };
        for _ in 0..1000 {
            if kept(&drawer) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(kept(&drawer), "both are on the shelf");
        // A process later, and the server tells nobody anything.
        world.guard.revoked.send_replace(9);
        let (again, front, tasks) = gateway(&world.url, &world.people, change, setup()).await;
        for who in [&ada, &bob] {
            let mut client = Client { front: front.clone(), ..world.client(who, false, json!({})) };
            client.seat().await;
            assert_eq!(tool_of(&mut client).await, who.as_str(), "{isolation}: from what is kept");
        }
        let mut stranger = Client { front, ..world.client(&Principal::named("eve"), false, json!({})) };
        assert_eq!(stranger.seat().await["error"]["data"]["reason"], "login_needed", "{isolation}");
        again.close().await;
        assert!(tasks.close(std::time::Duration::from_secs(5)).await);
        world.end().await;
    }
}
