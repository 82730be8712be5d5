//! A client of the tools that remembers every event it was told, whatever reply the event came in.

use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::tools::{Reply, Running, Settings, ToolClient};
use serde_json::{Value, json};

use crate::LANDBRIDGE;

/// How long anything that a test waits for may take.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// How a client reaches the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    Stdio,
    Http,
    ModernStdio,
    ModernHttp,
}

pub const FRONTS: [Front; 4] = [Front::Stdio, Front::Http, Front::ModernStdio, Front::ModernHttp];

/// The two ways a legacy client comes in.
pub const LEGACY: [Front; 2] = [Front::Stdio, Front::Http];

impl Front {
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::ModernHttp)
    }

    fn settings(self) -> Settings {
        match self {
            Self::Stdio | Self::Http => Settings::default(),
            Self::ModernStdio | Self::ModernHttp => Settings::modern(),
        }
    }
}

/// One client. It keeps the gateway that was started for it.
pub struct Desk {
    pub client: ToolClient,
    pub gateway: Option<Gateway>,
    /// The handle of a modern client's session.
    session: Option<Value>,
    /// Every event, oldest first, with whether [`Desk::event`] has returned it.
    log: Vec<(Value, bool)>,
}

impl Desk {
    /// A gateway of its own with these servers; over HTTP programs may be added.
    pub async fn open(front: Front, servers: Value) -> Self {
        let args: &[&str] = if front.is_http() { &["--allow-stdio-spawn"] } else { &[] };
        Self::open_with(front, servers, args).await
    }

    /// The same with these arguments and no others.
    pub async fn open_with(front: Front, servers: Value, args: &[&str]) -> Self {
        if !front.is_http() {
            return Self::over(ToolClient::stdio_as(LANDBRIDGE, Some(servers), args, front.settings()).await);
        }
        let gateway = Gateway::serve_tools(LANDBRIDGE, servers, args).await;
        let mut desk = Self::over(ToolClient::http_as(&gateway, front.settings()).await);
        desk.gateway = Some(gateway);
        desk
    }

    /// A further legacy client of a gateway, with a session of its own.
    pub async fn at(gateway: &Gateway) -> Self {
        Self::over(ToolClient::http(gateway).await)
    }

    pub fn over(client: ToolClient) -> Self {
        Self { client, gateway: None, session: None, log: Vec::new() }
    }

    /// The gateway behind HTTP.
    pub fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().expect("this desk has started a gateway over HTTP")
    }

    /// The process of the gateway.
    pub fn gateway_pid(&self) -> u32 {
        self.gateway.as_ref().map_or_else(|| self.client.pid().expect("a child"), Gateway::pid)
    }

    /// What the gateway has written to stderr.
    pub fn said(&self) -> String {
        self.gateway.as_ref().map_or_else(|| self.client.said(), Gateway::said)
    }

    /// Calls a tool.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        let reply = self.client.call(tool, self.with_session(arguments)).await;
        self.note(&reply);
        reply
    }

    /// Calls a tool that must succeed.
    pub async fn ok(&mut self, tool: &str, arguments: Value) -> Reply {
        let reply = self.call(tool, arguments).await;
        assert!(!reply.is_error() && reply.rpc_error().is_none(), "{tool}: {reply}");
        reply
    }

    /// Calls a tool of a server.
    pub async fn run(&mut self, server: &str, tool: &str, args: Value) -> Reply {
        self.call("execute_tool", json!({ "server": server, "tool": tool, "args": args })).await
    }

    /// The text a server's tool answers with.
    pub async fn text(&mut self, server: &str, tool: &str, args: Value) -> String {
        let reply = self.run(server, tool, args).await;
        assert!(!reply.is_error() && reply.rpc_error().is_none(), "{server} {tool}: {reply}");
        reply.text().to_owned()
    }

    /// Checks that a server answers.
    pub async fn works(&mut self, server: &str) {
        let message = format!("still here {}", self.log.len());
        assert_eq!(self.text(server, "echo", json!({ "message": message })).await, message);
    }

    /// Starts a call of a server's tool; its reply is read later.
    pub async fn start(&self, server: &str, tool: &str, args: Value, timeout_ms: u64) -> Running {
        let arguments = json!({ "server": server, "tool": tool, "args": args, "timeout_ms": timeout_ms });
        self.client.start("execute_tool", self.with_session(arguments)).await
    }

    /// Starts a call that becomes a task, whose id is returned.
    pub async fn task(&mut self, server: &str, tool: &str, args: Value) -> String {
        let arguments = json!({ "server": server, "tool": tool, "args": args, "timeout_ms": 100 });
        let reply = self.ok("execute_tool", arguments).await;
        task_id(&reply)
    }

    /// Takes in the events of a reply that was read elsewhere.
    pub fn note(&mut self, reply: &Reply) {
        let context = reply.context().unwrap_or_default();
        let session = [&reply.structured()["session"], &context["session"]].into_iter().find(|value| value.is_string());
        if let Some(session) = session {
            self.session = Some(session.clone());
        }
        for event in reply.events() {
            let twice = self.log.iter().any(|(known, _)| known["id"] == event["id"]);
            assert!(!twice, "told twice: {event}");
            self.log.push((event, false));
        }
        for note in context["notifications"].as_array().into_iter().flatten() {
            let data = json!({ "method": note["method"], "params": note["params"] });
            let (server, at) = (&note["server"], &note["timestamp"]);
            let event = json!({ "id": null, "type": "notification", "server": server, "createdAt": at, "data": data });
            self.log.push((event, false));
        }
    }

    /// The data of the next event of this type, waiting for it where needed.
    pub async fn event(&mut self, kind: &str) -> Value {
        self.event_where(kind, |_| true).await
    }

    /// The same in a test of several cases.
    pub async fn event_in(&mut self, case: &str, kind: &str) -> Value {
        self.find(kind, |_| true).await.unwrap_or_else(|told| panic!("{case}: no {kind}; told were {told:#?}"))
    }

    /// The same for an event whose data fit.
    pub async fn event_where(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.find(kind, fits).await.unwrap_or_else(|told| panic!("no {kind}; told were {told:#?}"))
    }

    async fn find(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Result<Value, Vec<Value>> {
        let start = Instant::now();
        loop {
            let mut fresh = self.log.iter_mut().filter(|(_, taken)| !taken);
            if let Some((event, taken)) = fresh.find(|(event, _)| event["type"] == kind && fits(&event["data"])) {
                *taken = true;
                return Ok(event["data"].clone());
            }
            if PATIENCE < start.elapsed() {
                return Err(self.log.iter().map(|(event, _)| event.clone()).collect());
            }
            // What happens again and again at a server that is away ends no wait, and comes with the end of one.
            self.ok("await_activity", json!({ "timeout_ms": 100 })).await;
        }
    }

    /// Whatever is there already is taken in.
    pub async fn settle(&mut self) {
        loop {
            let reply = self.ok("await_activity", json!({ "timeout_ms": 100 })).await;
            if reply.json()["triggered_by"] == "timeout" {
                return;
            }
        }
    }

    /// The types of all events about a server in the order they happened, whatever replies they came in.
    pub fn kinds(&self, server: &str) -> Vec<String> {
        let mut about: Vec<_> =
            self.log.iter().map(|(event, _)| event).filter(|event| event["server"] == server).collect();
        about.sort_by_key(|event| (event["createdAt"].to_string(), event["id"].to_string()));
        about.into_iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// How often an event of this type was told.
    pub fn count(&self, kind: &str) -> usize {
        self.log.iter().filter(|(event, _)| event["type"] == kind).count()
    }

    /// Everything that was told, as text.
    pub fn told(&self) -> String {
        self.log.iter().map(|(event, _)| event.to_string()).collect()
    }

    /// The row of a server in `list_servers`; null where there is none.
    pub async fn row(&mut self, server: &str) -> Value {
        let rows = self.ok("list_servers", json!({})).await.json();
        let found = rows.as_array().into_iter().flatten().find(|row| row["name"] == server).cloned();
        found.unwrap_or_default()
    }

    /// The process of a server.
    pub async fn pid(&mut self, server: &str) -> u32 {
        let row = self.row(server).await;
        u32::try_from(row["pid"].as_u64().unwrap_or_else(|| panic!("no pid: {row}"))).expect("a process id")
    }

    /// The row of a server once it has this status.
    pub async fn until(&mut self, server: &str, status: &str) -> Value {
        let start = Instant::now();
        loop {
            let row = self.row(server).await;
            if row["status"] == status {
                return row;
            }
            assert!(start.elapsed() < PATIENCE, "{server} is not {status}: {row}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn with_session(&self, mut arguments: Value) -> Value {
        if let Some(session) = &self.session {
            arguments["session"] = session.clone();
        }
        arguments
    }
}

/// The task in a reply that promotes.
pub fn task_id(reply: &Reply) -> String {
    let found = reply.objects().find_map(|(_, value)| value["task"]["taskId"].as_str().map(str::to_owned));
    found.unwrap_or_else(|| panic!("no task: {reply}"))
}
