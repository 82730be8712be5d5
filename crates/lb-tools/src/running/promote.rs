//! A call becomes a task: what its caller is told, and who looks after it from then on.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Cancel, End, ErrorBody, Note, Outcome, Step};
use lb_gateway::Live;
use lb_session::{NewTask, Pending, PendingKind, Session, Task, Ulid};
use lb_wire::Raw;
use lb_wire::compose::Object;

use super::{Running, Work};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::splice::text_block;
use crate::surface::finish;
use crate::tools::get_server_status::{asked, working};

/// Why a call becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It took too long.
    Timeout,
    /// It waits for an answer that only another call can bring.
    Input,
    /// Its caller is gone and cannot come back for the result.
    Alone,
}

const NOTE: &str = "The call goes on. Do not call the tool again; fetch its result with get_task_result.";

impl Running {
    pub(super) async fn promote(mut self, why: Why) -> End {
        // What the client was asked is the model's to answer now.
        for ask in std::mem::take(&mut self.with_client) {
            if why != Why::Alone {
                self.out.step(Step::Withdraw { key: ask.key.clone() }).await;
            }
            self.work.give(ask, None);
        }
        let Self { request, tracked, mut work, ttl, timeout, started, .. } = self;
        if why == Why::Timeout {
            tracing::debug!(server = &**work.server(), tool = &**work.tool(), ?timeout, "tool_execution_timeout");
        }
        let Some((task, facts)) = register(&work, ttl, why) else {
            work.cancel(Cancel::Deadline).await;
            let message = format!(
                "the call did not end within {} ms and was cancelled, because too many tasks are already working; \
                 wait for them or cancel some with cancel_task",
                timeout.as_millis()
            );
            return finish(Reply::failed(Failure::new(failure::TIMEOUT, message)), &request.seen, tracked);
        };
        request.live().remember();
        let sentence = sentence(&work, (task, started.up), why, timeout.as_millis());
        work.promoted();
        tracked.completed(Some(format!("task {task}")), request.now());
        let live = request.live().clone();
        live.tasks().spawn(look_after(work, task));
        let reply = Reply::blocks(vec![text_block(&sentence), text_block(facts.as_str())], Some(facts));
        reply.with_session().end(&request.seen)
    }
}

/// Makes the task, and says what is known of it and its server. `None` when there is no room for one.
fn register(work: &Work, ttl: Option<std::time::Duration>, why: Why) -> Option<(Ulid, Raw)> {
    let now = work.live().now();
    let new = NewTask {
        server: work.server().clone(),
        tool: work.tool().clone(),
        args: work.args().clone(),
        ttl,
        remote: work.exchange.remote().clone(),
    };
    work.live().cell().with(|session| {
        let task = session.promote(new, now).ok()?;
        for request in work.given() {
            work.asked().note(request, Some(task));
        }
        Some((task, facts(session, work, task, why)))
    })
}

fn facts(session: &Session, work: &Work, task: Ulid, why: Why) -> Raw {
    let server = work.server();
    let facts = Object::new().flag("timeout", why != Why::Input);
    let facts = if why == Why::Input { facts.flag("waiting_for_input", true) } else { facts };
    let pending = Object::new()
        .text("server", server)
        .raw("working_tasks", &working(session, server))
        .raw("elicitations", &asked(session, server, PendingKind::Elicitation))
        .raw("sampling_requests", &asked(session, server, PendingKind::Sampling))
        .finish();
    let row = session.task(task).map(Task::row).unwrap_or_else(Raw::empty_object);
    facts.raw("task", &row).raw("server_pending", &pending).text("note", NOTE).finish()
}

fn sentence(work: &Work, (task, since): (Ulid, Duration), why: Why, timeout_ms: u128) -> String {
    let (server, tool) = (&**work.server(), &**work.tool());
    let fetch = format!("get_task_result with task_id '{task}'");
    match why {
        Why::Timeout | Why::Alone => format!(
            "Tool '{tool}' on server '{server}' did not finish within {timeout_ms} ms and continues as task '{task}'. \
             Call {fetch} for its result."
        ),
        Why::Input => {
            let asks = work.live().cell().with(|session| questions(session, work, task, since));
            format!(
                "Tool '{tool}' on server '{server}' waits for input and continues as task '{task}'. {asks} The answer \
                 returns the tool's result, or call {fetch}."
            )
        }
    }
}

/// What a task asks, and which tools answer it. Where nobody knows which of several it was, all that its server asks since
/// it was called, and that no other call is known to ask.
fn questions(session: &Session, work: &Work, task: Ulid, since: Duration) -> String {
    let own = session.task(task).into_iter().flat_map(|task| work.asked().open_of(session, task, since));
    let own: Vec<String> = own.map(question).collect();
    if !own.is_empty() {
        return own.join(" ");
    }
    let strange = |pending: &&Pending| since <= pending.created().up && work.asked().task(pending.id()).is_none();
    session.pending_of(work.server()).filter(strange).map(question).collect::<Vec<_>>().join(" ")
}

/// What is asked, and which tool answers it.
pub(crate) fn question(pending: &Pending) -> String {
    const CHARS_MAX: usize = 500;
    let id = pending.id();
    let message: String = pending.message().chars().take(CHARS_MAX).collect();
    match (pending.kind(), pending.mode()) {
        (PendingKind::Elicitation, "url") => {
            let url = pending.params().member("url");
            let url = url.as_ref().and_then(Raw::to_text).unwrap_or_default();
            format!(
                "Server '{}' asks the user to open {url}: \"{message}\". Show the user the server and the link, then \
                 call respond_to_elicitation with request_id '{id}'.",
                &**pending.server()
            )
        }
        (PendingKind::Elicitation, _) => format!(
            "It asks the user: \"{message}\". Ask the user, then call respond_to_elicitation with request_id '{id}'."
        ),
        (PendingKind::Sampling, _) => format!(
            "It asks for text from a model. See get_sampling_requests, then call respond_to_sampling with request_id \
             '{id}'."
        ),
    }
}

/// Drives a task to its end, or to that of its session.
async fn look_after(mut work: Work, task: Ulid) {
    let live = work.live().clone();
    loop {
        let step = tokio::select! {
            biased;
            () = live.tasks().stopping() => break work.cancel(Cancel::SessionEnd).await,
            step = work.exchange.step() => step,
        };
        match step {
            Step::Note(note) => {
                let now = live.now();
                live.cell().with(|session| session.task_progressed(task, told(&note).as_deref(), now));
            }
            Step::Ask(ask) => drop(work.give(ask, Some(task))),
            Step::Withdraw { key } => work.withdraw(&key),
            Step::Pause { .. } => drop(work.exchange.remote().back()),
            Step::End(end) => {
                if matches!(&end.outcome, Outcome::Error(error) if is_lost(error)) {
                    told_by_the_loss(&live, task).await;
                }
                work.settle(&end.outcome);
                let now = live.now();
                live.cell().with(|session| ended(session, task, end.outcome, now));
                break;
            }
        }
    }
}

/// Whether a call ended because its server is gone.
fn is_lost(error: &ErrorBody) -> bool {
    Failure::refused(error).code == failure::SERVER_DISCONNECTED
}

/// A server that is gone fails its tasks itself, all at once and in order; a call that knows of it first waits a moment.
async fn told_by_the_loss(live: &Arc<Live>, task: Ulid) {
    let mut watch = live.cell().watch();
    let told =
        poll_fn(|cx| watch.poll(cx, |session| (!session.task(task).is_some_and(Task::is_working)).then_some(())));
    if tokio::time::timeout(LOSS_TOLD_WITHIN, told).await.is_err() {
        tracing::debug!(%task, "call is lost and its server is not");
    }
}

/// How long the loss of a server may take to be told.
const LOSS_TOLD_WITHIN: Duration = Duration::from_secs(2);

fn ended(session: &mut Session, task: Ulid, outcome: Outcome, now: lb_session::Moment) -> bool {
    match outcome {
        Outcome::Result(result) => session.task_completed(task, result, now),
        Outcome::Error(error) => {
            let (message, reason) = words(&error);
            session.task_failed(task, &message, reason, now)
        }
        Outcome::Cancelled => session.task_failed(task, "the call was cancelled on its way", None, now),
    }
}

/// What an error says, and the word for why where the fault is not the tool's.
fn words(error: &ErrorBody) -> (String, Option<&'static str>) {
    let failure = Failure::refused(error);
    let reason = match failure.code {
        failure::EXECUTION_FAILED => None,
        failure::TIMEOUT => Some("timeout"),
        _ => Some("server_disconnected"),
    };
    (failure.message, reason)
}

/// What a progress note says, as the state of a task.
fn told(note: &Note) -> Option<String> {
    let params = note.params.as_ref()?;
    if let Some(message) = params.member("message").as_ref().and_then(Raw::to_text) {
        return Some(message.into_owned());
    }
    let progress = params.member("progress")?;
    match params.member("total") {
        Some(total) => Some(format!("{} of {}", progress.as_str(), total.as_str())),
        None => Some(progress.as_str().to_owned()),
    }
}
