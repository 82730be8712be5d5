//! `execute_tool`: calls a tool of a server.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Command, End, Outcome, Yield};
use lb_gateway::{Backend, Kind, LoginAnswer, Tracked, Unavailable};
use lb_wire::compose::Object;
use lb_wire::{Raw, Text};
use tokio::time::Instant;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;
use crate::running::{Limit, Running, Work};
use crate::surface::finish;

pub(crate) static TOOL: Tool = Tool {
    name: "execute_tool",
    title: "Call a tool of a server",
    description: "Call a tool of a server and return its result unchanged; list_tools shows names and schemas. A \
                  call that takes too long or needs an answer continues in the background: you get a taskId for \
                  get_task_result, or a question for respond_to_elicitation.",
    operation: "execute tool",
    input: r#"{
        "server": { "type": "string", "description": "Server name" },
        "tool": { "type": "string", "description": "Name of the tool, as in list_tools" },
        "args": { "type": "object", "default": {}, "description": "Arguments that fit the tool's inputSchema" },
        "timeout_ms": {
            "type": "integer", "minimum": 100, "maximum": 900000, "default": 120000,
            "description": "When it becomes a task; 45 s if left out without a progress token"
        },
        "task_ttl_ms": {
            "type": "integer", "minimum": 1000, "default": 600000,
            "description": "How long the task may take, at most 30 min"
        }
    }"#,
    required: &["server", "tool"],
    output: None,
    hints: Hints::Acts,
    run: Run::Drives(|request, out, tracked| Box::pin(run(request, out, tracked))),
};

/// How long a caller waits who says nothing and hears of progress.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long a call waits for a connection that is being made.
const CONNECT: Duration = Duration::from_secs(10);

async fn run(request: Request, out: Yield, tracked: Tracked) -> End {
    let started = Instant::now();
    let (wish, backend) = match read(&request) {
        Ok(read) => read,
        Err(failure) => return finish(Reply::failed(failure), &request.seen, tracked),
    };
    let mut limit = Limit { timeout: wish.timeout, left: wish.timeout, ttl: wish.ttl };
    let login = request.login.as_ref().and_then(LoginAnswer::waits_for);
    if backend.facts().is_none() || login.is_some() {
        match connect(&backend, &out, login, wish.timeout.min(CONNECT)).await {
            Connected::Yes => {}
            // Nobody waits for the answer any more, so that it becomes a task as soon as it runs.
            Connected::Alone => limit.left = Duration::ZERO,
            Connected::Cancelled => return End::ours(Outcome::Cancelled),
            // The call asks for the login itself, and waits for it.
            Connected::No(why) if why.login.is_some() => {}
            // Nothing has failed: the call goes on when the server is there, and becomes a task if that takes long.
            Connected::No(_) if backend.is_connecting() => {}
            Connected::No(why) => {
                let failure = Failure::unavailable(backend.name(), &why);
                return finish(Reply::failed(failure), &request.seen, tracked);
            }
        }
    }
    limit.left = limit.left.saturating_sub(started.elapsed());
    let work = wish.begin(&request, &backend);
    Running::new(request, out, tracked, work, limit).run().await
}

/// What was asked for, checked.
struct Wish {
    tool: String,
    arguments: Raw,
    timeout: Duration,
    ttl: Option<Duration>,
}

fn read(request: &Request) -> Checked<(Wish, Arc<Backend>)> {
    let args = &request.args;
    let (server, tool) = (args.text("server")?, args.text("tool")?);
    // The protocol's own word for them is what a model may write that has not looked.
    let arguments = match args.object("args")? {
        Some(given) => given,
        None => args.object("arguments")?.unwrap_or_else(Raw::empty_object),
    };
    let timeout = args.millis("timeout_ms", 100..=900_000)?;
    // The session knows the longest there is.
    let ttl = args.millis("task_ttl_ms", 1_000..=u64::MAX)?;
    let patience = request.live().policy().patience.filter(|_| request.token.is_none());
    let timeout = timeout.or(patience).unwrap_or(TIMEOUT);
    let backend = request.backend_of(&server, "tools/call", Some(&tool))?;
    if let Some(why) = backend.refuses(&tool) {
        return Err(Failure::new(failure::FORBIDDEN, why));
    }
    Ok((Wish { tool, arguments, timeout, ttl }, backend))
}

impl Wish {
    fn begin(&self, request: &Request, backend: &Arc<Backend>) -> Work {
        let (live, name) = (request.live(), backend.name().clone());
        let args = Some(&self.arguments);
        let tracked = live.tracker().begin(live.hash(), Kind::BackendTool, &self.tool, Some(&name), args, live.now());
        let params = Object::new().text("name", &self.tool).raw("arguments", &self.arguments).finish();
        let exchange = backend.call(live, "tools/call", params, request.token.clone());
        let called = (name, Text::from(&*self.tool), self.arguments.clone());
        Work::new(live, &request.asked, called, exchange, tracked)
    }
}

/// What came of waiting for a server.
enum Connected {
    Yes,
    Alone,
    Cancelled,
    No(Unavailable),
}

/// Joins the attempt that is being made, or makes one, while the client still wants that. A login that somebody is at
/// comes first.
async fn connect(backend: &Arc<Backend>, out: &Yield, login: Option<&str>, within: Duration) -> Connected {
    let ready = async {
        if let Some(id) = login {
            backend.wait_for_login(id).await;
        }
        backend.ready(within).await
    };
    let mut ready = std::pin::pin!(ready);
    let mut connected = Connected::Yes;
    loop {
        tokio::select! {
            biased;
            command = out.command() => match command {
                Command::Cancel(_) => return Connected::Cancelled,
                Command::Alone => connected = Connected::Alone,
                Command::Answer(..) | Command::Away | Command::Back => {}
            },
            ready = &mut ready => return match ready {
                Ok(_) => connected,
                Err(why) => Connected::No(why),
            },
        }
    }
}
