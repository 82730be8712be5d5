//! Answers to what servers ask: the request is looked up, answered once, and the task behind it waited for.

use std::future::poll_fn;
use std::time::Duration;

use lb_exchange::Answer;
use lb_session::{PendingKind, Session, Ulid};
use lb_wire::compose::Object;
use lb_wire::{Raw, Text};

use crate::args::Checked;
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;
use crate::tools::get_task_result::{self, Waited};

/// How long the task that asked has to end within the same reply.
const WAIT: Duration = Duration::from_secs(10);

/// A request that waits, as it was when it was looked up.
pub(crate) struct Asked {
    id: Ulid,
    kind: PendingKind,
    server: Text,
    /// What is asked, as the server wrote it.
    pub(crate) params: Raw,
    /// Whether it is answered behind a link, so that there is no content.
    pub(crate) by_link: bool,
    /// The task that asked.
    task: Option<Ulid>,
}

/// The request that the arguments name.
pub(crate) fn find(request: &Request, kind: PendingKind) -> Checked<Asked> {
    let (id, text) = request_id(request)?;
    let found = request.live().cell().with(|session| {
        let pending = session.pending_request(id).filter(|pending| pending.kind() == kind)?;
        let task =
            pending.related_task().or_else(|| request.asked.task(id)).or_else(|| only_task(session, pending.server()));
        let (server, params) = (pending.server().clone(), pending.params().clone());
        Some(Asked { id, kind, server, params, by_link: pending.mode() == "url", task })
    });
    let found = found.ok_or_else(|| gone(&text))?;
    may_answer(request, &found.server, &text)?;
    Ok(found)
}

/// Whoever speaks for a person to a server has to be allowed to use it. What may not be known of is not there.
fn may_answer(request: &Request, server: &str, id: &str) -> Checked<()> {
    if !request.knows(server) {
        return Err(gone(id));
    }
    request.allows("tools/call", server, None)
}

/// Answers it. The reply has the result of the task that asked, if that ends soon.
///
/// Cancel safe: yes; the answer is given first.
pub(crate) async fn answer(request: &Request, asked: Asked, answer: Answer) -> Checked<Reply> {
    let now = request.now();
    let cell = request.live().cell();
    let id = asked.id.to_string();
    cell.with(|session| session.answer_request(asked.id, asked.kind, answer, now)).map_err(|_| gone(&id))?;
    let sentence = format!("Answered request '{id}' of server '{}'.", &*asked.server);
    let answered = Object::new().text("requestId", &id).text("server", &asked.server).flag("answered", true);
    let Some(task) = asked.task else { return Ok(Reply::said(&sentence, answered.finish())) };
    let mut watch = cell.watch();
    // A task that asks again will not end before that is answered.
    let settles = poll_fn(|cx| {
        watch.poll(cx, |session| {
            let ended = get_task_result::look(session, task);
            ended.or_else(|| get_task_result::asking(session, task, &request.asked, now.up))
        })
    });
    let waited = tokio::time::timeout(WAIT, settles).await;
    let row = || cell.with(|session| session.task(task).map(lb_session::Task::row));
    Ok(match waited {
        Ok(Waited::Ended(Ok(reply))) => {
            reply.after(&format!("{sentence} Task '{task}' has ended; this is the tool's result."))
        }
        Ok(Waited::Ended(Err(failure))) => {
            let text = format!("{sentence} {}", failure.message);
            Reply::said(&text, answered.maybe("task", row().as_ref()).finish())
        }
        Ok(Waited::Asking(row, questions)) => {
            let text = format!("{sentence} Task '{task}' goes on and waits for input again. {questions}");
            Reply::said(&text, answered.raw("task", &row).finish()).with_block(Some(&row))
        }
        Ok(Waited::Working(_) | Waited::Unknown | Waited::Closed) | Err(_) => {
            let row = row();
            let text = format!("{sentence} Task '{task}' goes on; fetch its result with get_task_result.");
            Reply::said(&text, answered.maybe("task", row.as_ref()).finish()).with_block(row.as_ref())
        }
    })
}

/// Gives up on the request that the arguments name.
pub(crate) fn cancel(request: &Request, kind: PendingKind) -> Checked<Reply> {
    let (id, text) = request_id(request)?;
    let reason = request.args.maybe_text("reason")?.unwrap_or_else(|| "User cancelled".to_owned());
    let now = request.now();
    if let Some(server) =
        request.live().cell().with(|session| session.pending_request(id).map(|pending| pending.server().clone()))
    {
        may_answer(request, &server, &text)?;
    }
    let done = request.live().cell().with(|session| session.cancel_request(id, kind, &reason, now));
    let server = done.map_err(|_| gone(&text))?;
    let structured = Object::new().flag("success", true).text("requestId", &text).finish();
    Ok(Reply::said(&format!("Cancelled request '{text}' of server '{}'", &*server), structured))
}

fn request_id(request: &Request) -> Checked<(Ulid, String)> {
    let text = request.args.text("request_id")?;
    let id = Ulid::parse(&text).ok_or_else(|| gone(&text))?;
    Ok((id, text))
}

fn gone(id: &str) -> Failure {
    Failure::new(failure::REQUEST_NOT_FOUND, format!("Request '{id}' not found or already completed"))
}

/// What is asked out of the blue belongs to no call that we know; with one task there is no doubt.
fn only_task(session: &Session, server: &str) -> Option<Ulid> {
    let mut tasks = session.working_of(server);
    let first = tasks.next()?;
    tasks.next().is_none().then(|| first.id())
}
