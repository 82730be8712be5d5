//! Fifty people and their sessions, events, tasks, streams, lists, added servers and what is kept of all that.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lb_backend::{Children, Environment};
use lb_exchange::{BoxFuture, Families, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Reply, Settings};
use lb_gateway::{About, Gateway, Keeping, Membership, Setup};
use lb_peers::harness::{HttpPeer, peer};
use lb_store::Store;
use lb_tools::Tools;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::server::embedded;
use crate::visitor::{At, Person};

const PEOPLE: usize = 50;
/// Those of them who add a server of their own.
const ADDING: usize = 8;
const AT_ONCE: usize = 10;

/// Nobody logs out.
struct Eternal;

impl Families for Eternal {
    fn lives<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Option<bool>> {
        Box::pin(std::future::ready(Some(true)))
    }
}

/// A process on this store, in one of its lives.
async fn process(store: &Arc<dyn Store>, boot: u32) -> (Gateway, Front, Tasks) {
    let tasks = Tasks::default();
    let about = About { id: "n".into(), boot: boot.to_string().into(), url: None, version: "0".into(), host: None };
    let keeping = Keeping {
        store: store.clone(),
        nodes: Membership::join(store.clone(), about, &tasks).await.expect("a store that answers"),
        gather: Duration::from_millis(1),
        ttl: Duration::from_secs(3_600),
        shared: false,
        wait_for_streams: false,
    };
    let environment = Environment {
        supervisor: "no-children-here".into(),
        embedded: embedded(),
        tasks: tasks.clone(),
        children: Children::new(0),
        logins: None,
        names: lb_backend::Names::default(),
    };
    let parrot = ServerSpec::new(ServerName::parse("parrot").expect("a name"), Target::Embedded("parrot".into()));
    let setup = Setup { tools: Some(Arc::new(Tools::default())), keeping: Some(keeping), ..Setup::default() };
    let gateway = Gateway::start(vec![parrot], environment, setup).await.expect("a gateway");
    gateway.watch_logins(Arc::new(Eternal));
    let front = Front::new(Arc::new(gateway.clone()), Settings::default());
    (gateway, front, tasks)
}

/// Fifty principals, all with the same client, and one more client of the first of them.
fn people() -> Vec<Person> {
    let mark = |number: usize| format!("mark{number:02}x{:08x}", rand::random::<u32>());
    let own = (0..PEOPLE).map(|number| Person::new(&format!("https://id.test|{number}"), "editor", mark(number)));
    own.chain([Person::new("https://id.test|0", "shell", mark(PEOPLE))]).collect()
}

/// Does the same with everybody, some at a time.
async fn everybody<F>(people: Vec<Person>, work: impl Fn(usize, Person) -> F) -> Vec<Person>
where
    F: Future<Output = Person>,
{
    stream::iter(people.into_iter().enumerate())
        .map(|(number, person)| work(number, person))
        .buffered(AT_ONCE)
        .collect()
        .await
}

fn said(answer: &Value, at: &str) -> String {
    answer.pointer(at).and_then(Value::as_str).unwrap_or_else(|| panic!("no {at} in {answer}")).to_owned()
}

/// Leaves something of theirs in every place there is.
async fn spread(front: Front, url: Option<String>, mut person: Person) -> Person {
    let (front, mark) = (&front, person.mark.clone());
    let execute = |tool: &str| json!({ "server": "parrot", "tool": tool, "args": { "mark": mark }, "timeout_ms": 200 });
    person.begin(front, At::Tools).await;
    person.call(front, "execute_tool", execute("say")).await;
    person.call(front, "subscribe_resource", json!({ "server": "parrot", "uri": format!("mark:{mark}") })).await;
    let held = person.call(front, "execute_tool", execute("hold")).await;
    let promoted: Value = serde_json::from_str(&said(&held, "/result/content/1/text")).expect("JSON");
    person.task = said(&promoted, "/task/taskId");
    person.call(front, "execute_tool", execute("ask")).await;
    let asked = person.call(front, "get_elicitations", json!({})).await;
    person.question = said(&asked, "/result/structuredContent/elicitations/0/requestId");
    let timer = json!({ "duration_ms": 3_600_000, "message": format!("wake {mark}") });
    let set = person.call(front, "set_timer", timer.clone()).await;
    person.timer = said(&set, "/result/structuredContent/timerId");
    if let Some(url) = url {
        let name = format!("own-{mark}");
        let added = person.call(front, "add_server", json!({ "name": name, "url": url })).await;
        assert!(added["result"]["isError"].is_null(), "{added}");
    }

    person.begin(front, At::Server).await;
    let session = person.server.clone();
    let Reply::Stream { mut frames, .. } = person.listen(front, At::Server, &session, None) else {
        panic!("no stream")
    };
    person.drain(&mut frames).await;
    let call = json!({ "name": "say", "arguments": { "mark": mark } });
    person.ask(front, At::Server, "tools/call", call.clone()).await;
    person.drain(&mut frames).await;

    person.modern(front, At::Server, "tools/call", call).await;
    person.modern_call(front, "execute_tool", execute("say")).await;
    person.modern_call(front, "execute_tool", execute("hold")).await;
    let set = person.modern_call(front, "set_timer", timer).await;
    person.handle = said(&set, "/result/structuredContent/session");
    person
}

/// Looks everywhere.
async fn look(front: Front, mut person: Person) -> Person {
    let front = &front;
    let everywhere = [
        ("list_servers", json!({})),
        ("list_tools", json!({})),
        ("list_resources", json!({})),
        ("list_prompts", json!({})),
        ("list_tasks", json!({ "include_completed": true })),
        ("list_timers", json!({})),
        ("get_elicitations", json!({})),
        ("get_sampling_requests", json!({})),
        ("get_notifications", json!({})),
        ("get_logs", json!({})),
        ("get_server_status", json!({ "server": "parrot" })),
        ("read_resource", json!({ "server": "parrot", "uri": "mark:all" })),
        ("await_activity", json!({ "timeout_ms": 100 })),
    ];
    for (tool, arguments) in everywhere {
        person.call(front, tool, arguments.clone()).await;
        person.modern_call(front, tool, arguments).await;
    }
    for method in ["tools/list", "resources/list"] {
        person.ask(front, At::Server, method, json!({})).await;
        person.modern(front, At::Server, method, json!({})).await;
    }
    let (session, cursor) = (person.server.clone(), person.cursor.clone());
    if let Reply::Stream { mut frames, .. } = person.listen(front, At::Server, &session, Some(&cursor)) {
        person.drain(&mut frames).await;
    }
    person
}

/// What somebody knows who has stolen every secret of another but the token.
struct Stolen {
    tools: String,
    server: String,
    handle: String,
    task: String,
    timer: String,
    question: String,
    cursor: String,
}

impl Stolen {
    fn of(person: &Person) -> Self {
        let Person { tools, server, handle, task, timer, question, cursor, .. } = person;
        let [tools, server, handle, task] = [tools, server, handle, task].map(Clone::clone);
        let [timer, question, cursor] = [timer, question, cursor].map(Clone::clone);
        Self { tools, server, handle, task, timer, question, cursor }
    }
}

/// Tries everything with what belongs to another.
async fn intrude(front: Front, stolen: Arc<Stolen>, mut person: Person) -> Person {
    let front = &front;
    for (at, session) in [(At::Tools, &stolen.tools), (At::Server, &stolen.server)] {
        for method in ["tools/list", "ping"] {
            assert_eq!(person.ask_in(front, at, session, method, json!({})).await.0, 404);
        }
        for last in [None, Some(stolen.cursor.as_str())] {
            let reply = person.listen(front, at, session, last);
            assert_eq!(person.read(reply).await.0, 404);
        }
        assert_eq!(person.end(front, at, session).await, 404);
    }
    let own = person.server.clone();
    // The id of an event may be good for one's own stream, and never for another's.
    match person.listen(front, At::Server, &own, Some(&stolen.cursor)) {
        Reply::Stream { mut frames, .. } => person.drain(&mut frames).await,
        refused => assert_eq!(person.read(refused).await.0, 400),
    }
    let attempts = [
        ("list_timers", json!({ "session": stolen.handle })),
        ("list_tasks", json!({ "session": stolen.handle, "include_completed": true })),
        ("get_task", json!({ "task_id": stolen.task })),
        ("get_task_result", json!({ "task_id": stolen.task })),
        ("cancel_task", json!({ "task_id": stolen.task })),
        ("get_timer", json!({ "timer_id": stolen.timer })),
        ("delete_timer", json!({ "timer_id": stolen.timer })),
        ("respond_to_elicitation", json!({ "request_id": stolen.question, "action": "decline" })),
        ("cancel_elicitation_request", json!({ "request_id": stolen.question })),
    ];
    for (tool, arguments) in attempts {
        let legacy = person.call(front, tool, arguments.clone()).await;
        let modern = person.modern_call(front, tool, arguments).await;
        for answer in [legacy, modern] {
            assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        }
    }
    person
}

/// That nobody was told anything of anybody else, and everybody something of themselves.
fn check(people: &[Person], secrets: bool) {
    let mut owners: HashMap<String, &str> = HashMap::new();
    for person in people {
        assert!(person.told.contains(&person.mark), "{} sees what is its own", person.mark);
        for other in people.iter().filter(|other| other.mark != person.mark) {
            // A server sees one principal, whatever client it has in hand; what is in a session is of one client.
            let same = person.visitor.principal == other.visitor.principal;
            let mark = if same { format!("wake {}", other.mark) } else { other.mark.clone() };
            assert!(!person.told.contains(&mark), "{} was told of {}", person.mark, other.mark);
            let stolen = Stolen::of(other);
            for secret in [stolen.tools, stolen.server, stolen.handle, stolen.task, stolen.timer, stolen.question] {
                assert!(!secrets || !person.told.contains(&secret), "{} knows a secret of {}", person.mark, other.mark);
            }
        }
        // A connection to a server serves one principal, and so do the lists that were read by it.
        let connections: BTreeSet<&str> =
            person.told.split("conn-").skip(1).filter_map(|rest| rest.split('-').next()).collect();
        assert!(!connections.is_empty());
        for connection in connections {
            let owner = owners.entry(connection.to_owned()).or_insert(person.visitor.principal.as_str());
            assert_eq!(*owner, person.visitor.principal.as_str(), "connection {connection} serves two");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_people_nobody_ever_sees_anything_of_another() {
    let store = lb_store::open(&lb_store::Settings::parse("memory").expect("a store")).await.expect("a store");
    let added = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
    let (gateway, front, tasks) = process(&store, 1).await;
    let url = |number: usize| (number % (PEOPLE / ADDING) == 1).then(|| added.url());
    let people = everybody(people(), |number, person| spread(front.clone(), url(number), person)).await;
    let people = everybody(people, |_, person| look(front.clone(), person)).await;
    check(&people, true);
    assert!(people.iter().any(|person| person.told.contains(&format!("own-{}", person.mark))));

    // Each knows every secret of the next one; the last one is another client of the first principal.
    let stolen: Vec<_> = people.iter().map(|person| Arc::new(Stolen::of(person))).collect();
    let next = |number: usize| stolen[(number + 1) % stolen.len()].clone();
    let people = everybody(people, |number, person| intrude(front.clone(), next(number), person)).await;
    check(&people, false);

    gateway.close().await;
    assert!(tasks.close(Duration::from_secs(20)).await);
    let (gateway, front, tasks) = process(&store, 2).await;
    let afresh = people.into_iter().map(|person| Person { told: String::new(), ..person }).collect();
    let people = everybody(afresh, |_, person| look(front.clone(), person)).await;
    check(&people, false);
    for person in &people {
        assert_eq!(person.told.matches(&format!("wake {}", person.mark)).count() % 2, 0, "in both sessions");
        assert!(person.told.contains(&person.task) && person.told.contains(&person.timer), "nobody took it away");
    }
    let people = everybody(people, |number, person| intrude(front.clone(), next(number), person)).await;
    check(&people, false);
    gateway.close().await;
    assert!(tasks.close(Duration::from_secs(20)).await);
}
