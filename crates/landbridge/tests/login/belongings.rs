//! What somebody has at a gateway beside a session: a task, questions, a subscription, what they listen with, a server of
//! their own, and a login at a server behind it.

use std::time::{Duration, Instant};

use lb_peers::harness::peer;
use lb_peers::idp::{Browser, Decision};
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{modern_headers, modern_meta};
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::people::Person;

/// How long a call is waited for before it goes on as a task.
const SOON_MS: u64 = 150;
/// How long it may take until the link to a login is there.
const LINK_MAX: Duration = Duration::from_secs(30);

/// All of it.
pub struct Belongings {
    /// A task that goes on for long.
    task: String,
    /// What a server asks the person, and what it asks their model.
    question: String,
    sampling: String,
    /// A modern client listens with it.
    listens: RawHttp,
    /// The link to the login at a server, and the browser that is for it.
    link: String,
    browser: Browser,
    /// A server that they added.
    server: Option<String>,
}

/// What another one has stolen of it.
#[derive(Clone)]
pub struct Stolen {
    task: String,
    question: String,
    sampling: String,
    link: String,
    server: Option<String>,
}

fn said(answer: &Value, at: &str) -> String {
    answer.pointer(at).and_then(Value::as_str).unwrap_or_else(|| panic!("no {at} in {answer}")).to_owned()
}

/// A tool of a server, which says what only this person says.
fn execute(server: &str, tool: &str, name: &str, mark: &str) -> Value {
    json!({ "server": server, "tool": tool, "args": { name: mark }, "timeout_ms": SOON_MS })
}

/// What the gateway is told that `team` is, and that administrators may add.
pub fn settings() -> String {
    format!("allow_commands = [\"{}\"]\n", peer(LANDBRIDGE, "fixture"))
}

impl Belongings {
    /// Leaves something of theirs in every place there is; administrators may add servers.
    pub async fn of(person: &mut Person, browser: Browser, is_admin: bool, logs_in: bool) -> Self {
        let mark = person.mark.clone();
        let mut long = execute("it", "slow_compute", "label", &mark);
        long["args"]["seconds"] = json!(3_600);
        let held = person.call("execute_tool", long).await;
        let promoted: Value = serde_json::from_str(&said(&held, "/result/content/1/text")).expect("JSON");
        let task = said(&promoted, "/task/taskId");
        person.call("execute_tool", execute("it", "test_elicitation", "message", &mark)).await;
        let asked = person.call("get_elicitations", json!({})).await;
        assert!(asked.to_string().contains(&mark), "{asked}");
        let question = said(&asked, "/result/structuredContent/elicitations/0/requestId");
        person.call("execute_tool", execute("it", "test_sampling", "prompt", &mark)).await;
        let asked = person.call("get_sampling_requests", json!({})).await;
        assert!(asked.to_string().contains(&mark), "{asked}");
        let sampling = said(&asked, "/result/structuredContent/samplingRequests/0/requestId");
        let watched = json!({ "server": "it", "uri": "test://watched-resource" });
        let subscribed = person.call("subscribe_resource", watched).await;
        assert!(subscribed["result"]["isError"].is_null(), "{subscribed}");
        let listens = listens(person).await;
        let server = match is_admin {
            true => Some(adds(person).await),
            false => None,
        };
        let link = asked_to_log_in(person).await;
        let mut all = Self { task, question, sampling, listens, link, browser, server };
        if logs_in {
            all.logs_in(person).await;
        }
        all
    }

    /// Logs in at the server behind the gateway, and uses it.
    async fn logs_in(&mut self, person: &mut Person) {
        let login = self.browser.login(&self.link, "nowhere:", &person.name, Decision::Approve).await;
        let page = login.expect("it goes on");
        assert_eq!(page.page.as_ref().map(|(status, _)| *status), Some(200), "{page:?}");
        let mark = person.mark.clone();
        let works = person.call("execute_tool", execute("team", "echo", "message", &mark)).await;
        assert!(works["result"]["isError"].is_null() && works.to_string().contains(&mark), "{works}");
    }

    /// What has come to a client that listens.
    pub async fn hears(&mut self) -> String {
        let mut heard = String::new();
        self.listens.patience = Duration::from_millis(100);
        while let Ok(Some(event)) = self.listens.event().await {
            heard.push_str(&String::from_utf8_lossy(&event.raw));
        }
        heard
    }

    pub fn stolen(&self) -> Stolen {
        let [task, question, sampling, link] =
            [&self.task, &self.question, &self.sampling, &self.link].map(Clone::clone);
        Stolen { task, question, sampling, link, server: self.server.clone() }
    }

    /// What is theirs, by the names that it has.
    pub fn names(&self) -> Vec<String> {
        let id = self.link.split("id=").nth(1).unwrap_or_default();
        let all = [&self.task, &self.question, &self.sampling, id].into_iter().map(|one: &str| one.to_owned());
        all.chain(self.server.clone()).collect()
    }
}

/// Tries what belongs to another, in one's own session at the node that it is at.
pub async fn intrudes(person: &mut Person, stolen: &Stolen, own: &mut Belongings, is_admin: bool) {
    let no = json!({ "role": "assistant", "content": { "type": "text", "text": "x" }, "model": "m" });
    for (tool, arguments) in [
        ("get_task", json!({ "task_id": stolen.task })),
        ("get_task_result", json!({ "task_id": stolen.task, "timeout_ms": 10 })),
        ("cancel_task", json!({ "task_id": stolen.task })),
        ("respond_to_elicitation", json!({ "request_id": stolen.question, "action": "decline" })),
        ("respond_to_sampling", json!({ "request_id": stolen.sampling, "result": no })),
    ] {
        let answer = person.call(tool, arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        person.modern(tool, &arguments).await;
    }
    if let Some(server) = &stolen.server {
        let used = json!({ "server": server, "tool": "echo", "args": { "message": "x" } });
        for (tool, arguments) in [("execute_tool", used), ("get_server_status", json!({ "server": server }))] {
            let answer = person.call(tool, arguments).await;
            assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        }
        if is_admin {
            let answer = person.call("remove_server", json!({ "name": server })).await;
            assert_eq!(answer["result"]["isError"], true, "{answer}");
        }
        assert_eq!(person.ask("GET", &format!("/mcp/server/{server}"), Vec::new(), b"").await, 404);
    }
    let opened = own.browser.login(&stolen.link, "nowhere:", &person.name, Decision::Approve).await;
    let (status, page) = opened.expect("it goes on").page.expect("a page");
    assert!(matches!(status, 400 | 403), "the link is another's, or was used: {status} {page}");
    person.told.push_str(&page);
}

/// A modern client that listens.
async fn listens(person: &Person) -> RawHttp {
    let mut http = RawHttp::connect(person.session.at).await.expect("it listens");
    let mut sent = modern_headers("subscriptions/listen", None);
    sent.push(("Authorization".into(), format!("Bearer {}", person.tokens.access)));
    let wanted = json!({ "toolsListChanged": true, "resourcesListChanged": true, "promptsListChanged": true });
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{"notifications":{wanted},"_meta":{}}}}}"#,
        modern_meta("")
    );
    http.send("POST", "/mcp", &sent, body.as_bytes()).await.expect("sent");
    assert_eq!(http.head().await.expect("a head").status(), 200);
    http
}

/// An administrator adds a server, and uses it.
async fn adds(person: &mut Person) -> String {
    let name = format!("own-{:08x}", rand::random::<u32>());
    let program = json!({ "name": name, "command": peer(LANDBRIDGE, "fixture") });
    let added = person.call("add_server", program).await;
    assert!(added["result"]["isError"].is_null(), "{added}");
    let mark = person.mark.clone();
    let works = person.call("execute_tool", execute(&name, "echo", "message", &mark)).await;
    assert!(works["result"]["isError"].is_null(), "{works}");
    name
}

/// The link that somebody is given who uses a server without a login.
async fn asked_to_log_in(person: &mut Person) -> String {
    let mark = person.mark.clone();
    person.call("execute_tool", execute("team", "echo", "message", &mark)).await;
    let began = Instant::now();
    loop {
        let servers = person.call("list_servers", json!({})).await;
        let rows = servers["result"]["structuredContent"]["servers"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["name"] == "team").unwrap_or_else(|| panic!("{servers}"));
        if let Some(link) = row["loginUrl"].as_str() {
            return link.to_owned();
        }
        assert!(began.elapsed() < LINK_MAX, "{servers}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
