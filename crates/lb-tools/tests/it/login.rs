//! A server that wants a login, as the tools show it: who is asked, what is said where nobody can be, and that it works
//! afterwards. On the real clock, as the server is on a real socket.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{
    BoxFuture, Login, LoginError, LoginNeeded, Logins, OauthClient, Principal, Proof, Refused, Secret, ServerAuth,
    ServerName, ServerSpec,
};
use lb_gateway::{AskMode, Policy, Setup};
use lb_tools::Tools;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Answer, Client};
use crate::world::{Plan, World};

/// The one person there is, who logs in when the test says so.
#[derive(Clone, Debug)]
struct Person(Arc<watch::Sender<u64>>);

impl Logins for Person {
    fn of(&self, _: &Principal, _: &Arc<ServerSpec>) -> Option<Arc<dyn Login>> {
        Some(Arc::new(self.clone()))
    }
}

impl Person {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    fn log_in(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    fn newest(&self) -> Option<Proof> {
        let number = *self.0.borrow();
        (0 < number).then(|| Proof { value: Secret::new(format!("Bearer t {number}")), number })
    }
}

impl Login for Person {
    fn proof(&self) -> BoxFuture<'_, Result<Option<Proof>, LoginError>> {
        Box::pin(std::future::ready(Ok(self.newest())))
    }

    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<Proof, LoginError>> {
        let newer = self.newest().filter(|newest| refusal.proof.is_none_or(|proof| proof.number < newest.number));
        let (server, id) = (ServerName::parse("far").expect("a name"), format!("l{}", *self.0.borrow()));
        let url = format!("https://login.example/{id}");
        Box::pin(std::future::ready(newer.ok_or(LoginError::Needed(LoginNeeded { server, id, url }))))
    }

    fn ended<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        let before: u64 = id.trim_start_matches('l').parse().expect("one of ours");
        let mut logins = self.0.subscribe();
        Box::pin(async move { drop(logins.wait_for(|count| before < *count).await) })
    }
}

/// A server that takes tokens above a number.
struct Far {
    url: String,
    revoked: Arc<watch::Sender<u64>>,
    _serving: JoinSet<()>,
}

impl Far {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let (revoked, mut serving) = (Arc::new(watch::Sender::new(0)), JoinSet::new());
        let limit = revoked.clone();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, limit.clone()));
            }
        });
        Self { url, revoked, _serving: serving }
    }
}

async fn serve(stream: TcpStream, revoked: Arc<watch::Sender<u64>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut token, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            if !matches!(stream.read_line(&mut line).await, Ok(read) if read != 0) {
                return;
            }
            let lower = line.trim().to_ascii_lowercase();
            if lower.is_empty() {
                break;
            }
            if let Some(value) = lower.strip_prefix("authorization: bearer t ") {
                token = value.parse().expect("a number");
            }
            if let Some(value) = lower.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (status, body) = match message.get("id") {
            _ if token <= *revoked.borrow() => ("401 Unauthorized", "log in first".to_owned()),
            None => ("202 Accepted", String::new()),
            Some(id) => ("200 OK", answer(&message, id).to_string()),
        };
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        if stream.get_mut().write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

fn answer(message: &Value, id: &Value) -> Value {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "prompts": {} },
            "serverInfo": { "name": "far", "version": "1" },
        }),
        "server/discover" => {
            let error = json!({ "code": -32601, "message": "no" });
            return json!({ "jsonrpc": "2.0", "id": id, "error": error });
        }
        "tools/list" => json!({ "tools": [{ "name": "t", "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "from far" }] }),
        _ => json!({ "prompts": [], "messages": [] }),
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

async fn world(far: &Far, person: &Person, ask: AskMode) -> World {
    let policy = Policy { ask, ..Policy::default() };
    let setup = Setup { tools: Some(Arc::new(Tools::default())), policy, ..Setup::default() };
    let auth = ServerAuth::User(OauthClient::default());
    let logins: Option<Arc<dyn Logins>> = Some(Arc::new(person.clone()));
    World::planned(Plan { setup, http: vec![("far", far.url.clone())], auth, logins, alone: true, ..Plan::default() })
}

const URL: &str = "https://login.example/l0";

fn call() -> Value {
    json!({ "server": "far", "tool": "t", "args": {} })
}

/// The row of the server, once it says this of itself.
async fn row(client: &Client, status: &str) -> Value {
    for _ in 0..1000 {
        let rows = client.call("list_servers", json!({})).await.json(0);
        let far = rows.as_array().expect("rows").iter().find(|row| row["name"] == "far").expect("a row").clone();
        if far["status"] == status {
            return far;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server is never {status}");
}

fn is_told(answer: &Answer, url: &str) {
    assert_eq!(answer.code(), "LOGIN_NEEDED", "{answer:?}");
    assert!(answer.text(0).contains(url), "{answer:?}");
    let details = &answer.response["result"]["structuredContent"]["error"]["details"];
    assert!(details["url"] == url || details["data"]["url"] == url, "{answer:?}");
}

#[tokio::test]
async fn a_login_is_shown_wherever_the_server_is_and_the_server_connects_by_itself_after_it() {
    let (far, person) = (Far::start().await, Person::new());
    let world = world(&far, &person, AskMode::Never).await;
    let client = Client::new(&world.front).await;
    let shown = row(&client, "login_needed").await;
    assert_eq!((&shown["loginUrl"], &shown["connected"], shown.get("lastError")), (&json!(URL), &json!(false), None));
    let status = client.call("get_server_status", json!({ "server": "far" })).await.json(0);
    assert_eq!(status["server"]["loginUrl"], URL, "{status}");
    let listed = client.call("list_tools", json!({})).await;
    let errors = &listed.response["result"]["structuredContent"]["errors"];
    assert_eq!(errors[0]["server"], "far", "{listed:?}");
    assert!(errors[0]["message"].as_str().unwrap_or_default().contains(URL), "{listed:?}");
    // Nobody can be asked: the link is the answer.
    is_told(&client.call("execute_tool", call()).await, URL);
    is_told(&client.call("list_prompts", json!({ "server": "far" })).await, URL);
    is_told(&client.call("get_prompt", json!({ "server": "far", "prompt": "p", "name": "p" })).await, URL);
    person.log_in();
    row(&client, "connected").await;
    let answer = client.call("execute_tool", call()).await;
    assert_eq!(answer.text(0), "from far", "{answer:?}");
    // A login that ends in the middle is asked for again, and what was refused was not run.
    far.revoked.send_replace(1);
    is_told(&client.call("execute_tool", call()).await, "https://login.example/l1");
    person.log_in();
    assert_eq!(client.call("execute_tool", call()).await.text(0), "from far", "the next call works");
    world.gateway.close().await;
}

#[tokio::test]
async fn the_model_is_given_the_link_and_its_answer_brings_the_result() {
    let (far, person) = (Far::start().await, Person::new());
    let world = world(&far, &person, AskMode::ClientFirst).await;
    let client = Client::new(&world.front).await;
    let asked = client.call("execute_tool", call()).await;
    assert_eq!(asked.json(1)["waiting_for_input"], true, "{asked:?}");
    assert!(asked.text(0).contains(URL), "{asked:?}");
    let pending = client.call("get_elicitations", json!({})).await.json(0);
    assert_eq!((&pending[0]["mode"], &pending[0]["url"]), (&json!("url"), &json!(URL)), "{pending}");
    let request = pending[0]["requestId"].clone();
    let (responded, ()) = tokio::join!(
        client.call("respond_to_elicitation", json!({ "request_id": request, "action": "accept" })),
        async {
            // The person takes a moment after saying yes.
            tokio::time::sleep(Duration::from_millis(300)).await;
            person.log_in();
        }
    );
    assert!(responded.response.to_string().contains("from far"), "{responded:?}");
    world.gateway.close().await;
}

#[tokio::test]
async fn a_question_that_nobody_has_answered_is_withdrawn_when_somebody_has_logged_in() {
    let (far, person) = (Far::start().await, Person::new());
    let world = world(&far, &person, AskMode::ClientFirst).await;
    let client = Client::new(&world.front).await;
    let task = client.call("execute_tool", call()).await.task();
    person.log_in();
    for _ in 0..1000 {
        if client.call("get_elicitations", json!({})).await.json(0) == json!([]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(client.call("get_elicitations", json!({})).await.json(0), json!([]));
    let result = client.call("get_task_result", json!({ "task_id": task })).await;
    assert!(result.response.to_string().contains("from far"), "{result:?}");
    world.gateway.close().await;
}

#[tokio::test]
async fn who_says_no_is_told_the_link_once_more() {
    let (far, person) = (Far::start().await, Person::new());
    let world = world(&far, &person, AskMode::ClientFirst).await;
    let client = Client::new(&world.front).await;
    client.call("execute_tool", call()).await.task();
    let pending = client.call("get_elicitations", json!({})).await.json(0);
    let arguments = json!({ "request_id": pending[0]["requestId"], "action": "decline" });
    let responded = client.call("respond_to_elicitation", arguments).await;
    assert!(responded.response.to_string().contains(URL), "{responded:?}");
    world.gateway.close().await;
}

#[tokio::test]
async fn a_client_that_opens_links_is_asked_itself() {
    let (far, person) = (Far::start().await, Person::new());
    let world = world(&far, &person, AskMode::ClientFirst).await;
    let client = Client::with(&world.front, json!({ "elicitation": { "url": {} } })).await;
    let running = client.begin("execute_tool", call()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(client.call("get_elicitations", json!({})).await.json(0), json!([]), "not the model");
    person.log_in();
    let answer = running.answer().await;
    assert_eq!(answer.text(0), "from far", "{answer:?}");
    let asked = answer.notes.iter().find(|(_, note)| note["method"] == "elicitation/create").expect("a question");
    let params = &asked.1["params"];
    assert_eq!((&params["mode"], &params["url"], &params["elicitationId"]), (&json!("url"), &json!(URL), &json!("l0")));
    world.gateway.close().await;
}

#[tokio::test]
async fn a_server_is_added_with_its_login_and_one_that_wants_a_login_says_how() {
    let (far, person) = (Far::start().await, Person::new());
    let logins: Option<Arc<dyn Logins>> = Some(Arc::new(person.clone()));
    let world = World::planned(Plan { logins, alone: true, ..Plan::default() });
    let client = Client::new(&world.front).await;
    let refused = client.call("add_server", json!({ "name": "far", "url": far.url })).await;
    assert!(refused.text(0).contains(r#""auth": "user""#), "{refused:?}");
    let added = client.call("add_server", json!({ "name": "far", "url": far.url, "auth": "user" })).await;
    assert!(!added.is_error() && added.text(0).contains(URL), "{added:?}");
    let structured = &added.response["result"]["structuredContent"];
    assert_eq!((&structured["status"], &structured["loginUrl"]), (&json!("login_needed"), &json!(URL)));
    row(&client, "login_needed").await;
    person.log_in();
    row(&client, "connected").await;
    assert_eq!(client.call("execute_tool", call()).await.text(0), "from far");
    world.gateway.close().await;
}
