//! Fifty people with tokens of their own at two nodes: nobody is told anything of another, in whatever answer.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::idp::{Browser, Decision, Idp};
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Headers, Response, headers, modern_headers, modern_meta, post_headers};
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::belongings::{self, Belongings};
use crate::cluster::Cluster;
use crate::guard::{Guard, Wants};
use crate::world::{
    ALLOW, Client, OPERATOR, REDIRECT, Tokens, World, authorize, free_port, get, parameter, provider, redeem, register,
    send, serve, value, with_provider,
};

const PEOPLE: usize = 50;
const AT_ONCE: usize = 6;
/// Those whom the provider calls administrators, and their names.
const ADMINS: [(usize, &str); 3] = [(7, "carol"), (8, "dave"), (31, "erin")];
/// Every so many log in at the server that wants a login.
const LOG_IN_EVERY: usize = 4;

/// Somebody, what is theirs, and every word that they were told.
pub struct Person {
    pub name: String,
    /// What only they ever say.
    pub mark: String,
    pub tokens: Tokens,
    pub session: Client,
    by_itself: Client,
    stream: RawHttp,
    /// A timer and an event of theirs.
    timer: String,
    cursor: String,
    pub told: String,
    things: Option<Belongings>,
}

/// What another one has stolen who has no token of theirs.
#[derive(Clone)]
struct Stolen {
    sessions: [Headers; 2],
    timer: String,
    cursor: String,
    things: belongings::Stolen,
}

fn name(number: usize) -> String {
    match ADMINS.iter().find(|(admin, _)| *admin == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("person{number:02}x{:06x}", rand::random::<u32>() >> 8),
    }
}

fn is_admin(name: &str) -> bool {
    ADMINS.iter().any(|(_, admin)| *admin == name)
}

/// Logs in and leaves something in every place there is.
async fn comes(cluster: &Cluster, client: &str, number: usize) -> Person {
    let (name, mark) = (name(number), format!("mark{number:02}x{:08x}", rand::random::<u32>()));
    let scope = if is_admin(&name) { "mcp:admin" } else { "mcp:call" };
    let mut browser = Browser::at(&format!("198.51.100.{number}"));
    let login = browser.login(&authorize(&cluster.url, client, scope), REDIRECT, &name, Decision::Approve).await;
    let stopped = login.expect("it goes on");
    let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{:?} {}", stopped.trace, cluster.said()));
    let at = cluster.at()[number % 2];
    let tokens = redeem(at, client, &code).await;
    let session = Client::begin(at, &tokens.access).await;
    let by_itself = Client::begin_at(at, &tokens.access, "/mcp/server/it").await;
    let mut stream = RawHttp::connect(at).await.expect("it listens");
    stream.send("GET", "/mcp", &session.headers(), b"").await.expect("sent");
    assert_eq!(stream.head().await.expect("a head").status(), 200);
    let (timer, cursor, told) = (String::new(), String::new(), String::new());
    let mut person = Person { name, mark, tokens, session, by_itself, stream, timer, cursor, told, things: None };
    let mark = person.mark.clone();
    let message = json!({ "message": mark });
    let echo = json!({ "server": "it", "tool": "echo", "args": message });
    assert!(person.call("execute_tool", echo.clone()).await.to_string().contains(&mark));
    let set = json!({ "duration_ms": 3_600_000, "message": format!("wake {mark}") });
    let set = person.call("set_timer", set).await;
    person.timer = set["result"]["structuredContent"]["timerId"].as_str().expect("a timer").to_owned();
    let answer = person.by_itself.call("echo", message).await;
    person.note(&answer);
    person.modern("execute_tool", &echo).await;
    let (is_admin, logs_in) = (is_admin(&person.name), number.is_multiple_of(LOG_IN_EVERY));
    person.things = Some(Belongings::of(&mut person, browser, is_admin, logs_in).await);
    person
}

impl Person {
    fn note(&mut self, answer: &Response) {
        self.told.push_str(&answer.text());
        for (name, value) in &answer.head.headers {
            self.told.extend(["\n", name, ": ", value]);
        }
        self.told.push('\n');
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.session.call(tool, arguments).await;
        assert_eq!(answer.head.status(), 200, "{tool}: {}", answer.text());
        self.note(&answer);
        value(&answer)
    }

    pub async fn modern(&mut self, tool: &str, arguments: &Value) {
        let mut all = modern_headers("tools/call", Some(tool));
        all.push(("Authorization".into(), format!("Bearer {}", self.tokens.access)));
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{}}}}}"#,
            modern_meta("")
        );
        let answer = send(self.session.at, "POST", "/mcp", &all, body.as_bytes()).await;
        assert_eq!(answer.head.status(), 200, "{tool}: {}", answer.text());
        self.note(&answer);
    }

    /// A request as they send it, to wherever it leads.
    pub async fn ask(&mut self, method: &str, path: &str, with: Headers, body: &[u8]) -> u16 {
        let mut all = post_headers();
        all.push(("Authorization".into(), format!("Bearer {}", self.tokens.access)));
        all.extend(with);
        let answer = send(self.session.at, method, path, &all, body).await;
        self.note(&answer);
        answer.head.status()
    }

    fn stolen(&self) -> Stolen {
        let sessions = [&self.session, &self.by_itself].map(|client| {
            client.headers().into_iter().filter(|(name, _)| name.to_ascii_lowercase().starts_with("mcp-")).collect()
        });
        let things = self.things.as_ref().expect("they have something").stolen();
        Stolen { sessions, timer: self.timer.clone(), cursor: self.cursor.clone(), things }
    }

    fn session_ids(&self) -> Vec<String> {
        let id =
            |headers: &Headers| headers.iter().find(|(name, _)| name == "Mcp-Session-Id").map(|(_, id)| id.clone());
        self.stolen().sessions.iter().filter_map(id).collect()
    }
}

/// Looks everywhere, at both nodes, in the right way and in wrong ways.
async fn looks(nodes: [SocketAddr; 2], mut person: Person) -> Person {
    let everywhere = [
        ("list_servers", json!({})),
        ("list_tools", json!({})),
        ("list_tasks", json!({ "include_completed": true })),
        ("list_timers", json!({})),
        ("get_elicitations", json!({})),
        ("get_sampling_requests", json!({})),
        ("get_notifications", json!({})),
        ("get_logs", json!({})),
        ("get_server_status", json!({ "server": "it" })),
        ("read_resource", json!({ "server": "it", "uri": "nothing:here" })),
        ("await_activity", json!({ "timeout_ms": 100 })),
    ];
    for (number, (tool, arguments)) in everywhere.into_iter().enumerate() {
        person.session.at = nodes[number % 2];
        person.call(tool, arguments.clone()).await;
        person.modern(tool, &arguments).await;
    }
    for method in ["tools/list", "resources/list", "prompts/list"] {
        let answer = person.by_itself.ask(1, method, json!({})).await;
        person.note(&answer);
    }
    for path in
        ["/", "/health", "/mcp/server/nothing", "/mcp/nothing", "/nothing", "/.well-known/oauth-protected-resource"]
    {
        person.ask("GET", path, Vec::new(), b"").await;
        person.ask("POST", path, Vec::new(), b"{}").await;
    }
    if !is_admin(&person.name) {
        for path in ["/sessions", "/metrics", "/waterfall", "/waterfall/json", "/oauth/stats"] {
            assert_eq!(person.ask("GET", path, Vec::new(), b"").await, 403, "{path}");
        }
    }
    let own =
        person.session.headers().into_iter().filter(|(name, _)| name.starts_with("Mcp-") || name.starts_with("MCP-"));
    let own: Headers = own.collect();
    for body in [
        "{",
        "[]",
        r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}"#,
    ] {
        person.ask("POST", "/mcp", own.clone(), body.as_bytes()).await;
    }
    // What the stream of their session has had so far.
    person.stream.patience = Duration::from_millis(100);
    while let Ok(Some(event)) = person.stream.event().await {
        person.cursor = event.id.clone().unwrap_or(person.cursor);
        person.told.push_str(&String::from_utf8_lossy(&event.raw));
    }
    let heard = person.things.as_mut().expect("they have something").hears().await;
    person.told.push_str(&heard);
    person
}

/// Tries what belongs to another, at both nodes.
async fn intrudes(nodes: [SocketAddr; 2], stolen: Stolen, mut person: Person) -> Person {
    for node in nodes {
        person.session.at = node;
        for (session, path) in stolen.sessions.iter().zip(["/mcp", "/mcp/server/it"]) {
            let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            assert_eq!(person.ask("POST", path, session.clone(), ping).await, 404);
            let resumed = [session.clone(), headers(&[("Last-Event-ID", &stolen.cursor)])].concat();
            for (method, with) in [("GET", session.clone()), ("GET", resumed), ("DELETE", session.clone())] {
                assert_eq!(person.ask(method, path, with, b"").await, 404, "{method} {path}");
            }
        }
        for tool in ["get_timer", "delete_timer"] {
            let answer = person.call(tool, json!({ "timer_id": stolen.timer })).await;
            assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        }
    }
    let mut things = person.things.take().expect("they have something");
    let is_admin = is_admin(&person.name);
    belongings::intrudes(&mut person, &stolen.things, &mut things, is_admin).await;
    person.things = Some(things);
    person
}

/// What somebody has said themselves of another, and may be told again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Knows {
    Nothing,
    /// The names of what the next one has.
    NamesOfTheNext,
}

/// That nobody was told anything of anybody else.
fn check(people: &[Person], knows: Knows) {
    for (number, person) in people.iter().enumerate() {
        assert!(person.told.contains(&person.mark), "{} sees what is its own", person.name);
        for (other_number, other) in people.iter().enumerate().filter(|(other, _)| *other != number) {
            let mut theirs = vec![other.mark.clone(), other.name.clone()];
            theirs.extend([&other.tokens.access, &other.tokens.refresh].map(Clone::clone));
            theirs.extend(other.session_ids());
            if knows == Knows::Nothing || other_number != (number + 1) % people.len() {
                theirs.push(other.timer.clone());
                theirs.extend(other.things.iter().flat_map(Belongings::names));
            }
            for what in &theirs {
                assert!(
                    !person.told.contains(what.as_str()),
                    "{} was told {what} of {}: {}",
                    person.name,
                    other.name,
                    around(&person.told, what)
                );
            }
        }
    }
}

fn around(told: &str, what: &str) -> String {
    let at = told.find(what).unwrap_or_default();
    let (from, to) =
        (told.floor_char_boundary(at.saturating_sub(300)), told.ceil_char_boundary((at + 100).min(told.len())));
    told.get(from..to).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn of_fifty_people_with_tokens_nobody_sees_anything_of_another() {
    // All of them come by one address, and look at much that needs no token.
    let args = ["--trusted-proxies", "127.0.0.1", "--rate-limit-max", "0"];
    let groups = ADMINS.map(|(_, name)| format!("{name}=admins")).join(";");
    // One process for all of them, which a gateway has not as many of.
    let fixture = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
    let mut guard = None;
    let servers = async |idp: &Idp| {
        let guard = guard.insert(Guard::start(Wants::TokenOf(idp.issuer.clone())).await);
        let team = json!({ "url": guard.url, "auth": "user" });
        json!({ "mcpServers": { "it": { "url": fixture.url() }, "team": team } })
    };
    let cluster = Cluster::start_with(&args, &groups, &belongings::settings(), servers).await;
    let client = register(cluster.at()[0]).await;
    let nodes = cluster.at();
    let people = stream::iter(0..PEOPLE).map(|number| comes(&cluster, &client, number));
    let people: Vec<Person> = people.buffered(AT_ONCE).collect().await;
    let people = stream::iter(people).map(|person| looks(nodes, person)).buffered(AT_ONCE);
    let mut people: Vec<Person> = people.collect().await;
    check(&people, Knows::Nothing);
    people.iter_mut().for_each(|person| person.told.clear());
    let stolen: Vec<Stolen> = people.iter().map(Person::stolen).collect();
    let next = |number: usize| stolen[(number + 1) % PEOPLE].clone();
    let people =
        stream::iter(people.into_iter().enumerate()).map(|(number, person)| intrudes(nodes, next(number), person));
    let mut people: Vec<Person> = people.buffered(AT_ONCE).collect().await;
    for person in &mut people {
        let timers = person.call("list_timers", json!({})).await;
        assert!(timers.to_string().contains(&person.mark), "nobody ended it: {timers}");
    }
    // What was tried is now in what they were told, as far as an answer says it again, and nothing else is.
    check(&people, Knows::NamesOfTheNext);
    let logged_in = guard.expect("it was started").shown().len();
    assert_eq!(logged_in, PEOPLE.div_ceil(LOG_IN_EVERY), "everybody's login is their own");
    // Operators see that there are fifty, and nothing that would let them in.
    for (node, page) in
        nodes.iter().flat_map(|node| ["/sessions", "/metrics", "/waterfall/json"].map(|page| (node, page)))
    {
        let told = get(*node, page, &[("Authorization", &format!("Bearer {OPERATOR}"))]).await;
        assert_eq!(told.head.status(), 200, "{page}");
        for person in &people {
            for secret in [&person.tokens.access, &person.tokens.refresh] {
                assert!(!told.text().contains(secret.as_str()), "{page} has a token of {}", person.name);
            }
        }
    }
}

#[tokio::test]
async fn servers_that_are_not_for_somebody_are_nothing_to_them() {
    let rules =
        "[[auth.rules]]\nservers = [\"it\"]\n[[auth.rules]]\nwho = { groups = [\"admins\"] }\nservers = [\"*\"]\n";
    let address = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{address}");
    let idp = provider(&[&url]).await;
    let (mut command, folder) = serve(&format!("{ALLOW}{rules}"));
    let program = peer(LANDBRIDGE, "fixture");
    let servers = json!({ "mcpServers": { "it": { "command": program }, "hers-alone": { "command": program } } });
    std::fs::write(folder.path().join("mcp.json"), servers.to_string()).expect("written");
    with_provider(&mut command, &url, &idp);
    command.args(["--listen", &address]);
    let world = World::new(Gateway::launch(command, folder).await, url, idp);
    let (carol, alice) = (world.tokens("carol", "mcp:call").await, world.tokens("alice", "mcp:call").await);
    let hers = Client::begin(world.at(), &carol.access).await;
    assert!(hers.call("list_servers", json!({})).await.text().contains("hers-alone"), "she may know of it");
    let other = Client::begin(world.at(), &alice.access).await;
    for (tool, arguments) in [
        ("list_servers", json!({})),
        ("list_tools", json!({})),
        ("list_resources", json!({})),
        ("get_logs", json!({})),
        ("execute_tool", json!({ "server": "nothing", "tool": "echo", "args": {} })),
    ] {
        let told = other.call(tool, arguments).await.text();
        assert!(!told.contains("hers-alone"), "{tool}: {told}");
    }
    let bearer = format!("Bearer {}", alice.access);
    for path in ["/", "/mcp/server/nothing", "/mcp/nothing", "/health"] {
        let told = get(world.at(), path, &[("Authorization", &bearer)]).await.text();
        assert!(!told.contains("hers-alone"), "{path}: {told}");
    }
}
