//! `await_activity`: waits until something happens.

use std::future::poll_fn;
use std::time::Duration;

use lb_session::{Event, Filter, Gap, Session, Sight, Taken, Task, event_json};
use lb_wire::Raw;
use lb_wire::compose::{Object, array};

use crate::args::{Checked, refuse};
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "await_activity",
    title: "Wait for activity",
    description: "Wait until something happens: a task ends, a server asks something, a resource changes, a timer \
                  fires, a server comes or goes. Returns at once if events wait already. Returns {triggers, \
                  events, pending_server, pending_client, last_event_id}; each event is told once.",
    operation: "await activity",
    input: r#"{
        "timeout_ms": {
            "type": "integer", "minimum": 100, "maximum": 900000, "default": 30000, "description": "Longest wait"
        },
        "last_event_id": { "type": "string", "description": "Acknowledges events up to it and replays later ones" }
    }"#,
    required: &[],
    output: Some(
        r#"{ "triggers": { "type": "array" }, "events": { "type": "array" }, "pending_client": { "type": "object" } }"#,
    ),
    hints: Hints::Takes,
    // What an error answers is not consumed: the events are this tool's to tell.
    run: Run::Listens(|request| Box::pin(async move { Reply::from(run(request).await).without_context() })),
};

const WAIT: Duration = Duration::from_secs(30);
/// Bytes of events in one reply; the others come with the next.
const BYTES_MAX: usize = 1 << 20;

/// The event that has a trigger of its own.
const LOST: &str = "server_disconnected";

/// Why the wait is over.
enum Why {
    Immediate,
    Event,
    Timeout,
    Shutdown,
}

async fn run(request: Request) -> Checked<Reply> {
    let within = request.args.millis("timeout_ms", 100..=900_000)?.unwrap_or(WAIT);
    let cell = request.live().cell();
    let mut watch = cell.watch_activity().map_err(|error| Failure::new(failure::LIMIT_EXCEEDED, error.to_string()))?;
    let since = request.args.maybe_text("last_event_id")?;
    if let Some(first) = cell.with(|session| first(session, since.as_deref()))? {
        return Ok(reply(&request, &Why::Immediate, first));
    }
    let happens = poll_fn(|cx| {
        watch.poll(cx, |session| {
            if session.is_closed() {
                return Some(None);
            }
            match session.events.has_news() {
                true => Some(Some(take(session))),
                false => session.is_leaving().then_some(None),
            }
        })
    });
    let (why, taken) = match tokio::time::timeout(within, happens).await {
        Ok(Some(taken)) => (Why::Event, taken),
        Ok(None) => (Why::Shutdown, Taken::default()),
        // What was not worth waking for is told now.
        Err(_) => (Why::Timeout, cell.with(take)),
    };
    Ok(reply(&request, &why, taken))
}

/// What is told at once, if anything is worth that.
fn first(session: &mut Session, since: Option<&str>) -> Checked<Option<Taken>> {
    let Some(id) = since else {
        return Ok(session.events.has_news().then(|| take(session)));
    };
    let taken = session.events.after(id).map_err(|_| {
        refuse("last_event_id", "names no event of this session; leave it out to get what you have not had")
    })?;
    if taken.gap.is_some() || taken.events.iter().any(|event| !event.is_routine()) {
        return Ok(Some(taken));
    }
    if let Some(lease) = taken.lease {
        session.events.roll_back(lease);
    }
    Ok(None)
}

fn take(session: &mut Session) -> Taken {
    let items_max = session.limits().events_max;
    session.events.take(&Filter::All, items_max, BYTES_MAX)
}

fn reply(request: &Request, why: &Why, taken: Taken) -> Reply {
    let knows = |server: &str| request.knows(server);
    let (last, taken) = (taken.events.last().map(|event| event.id), taken.seen_by(Sight::of(&knows)));
    let first = taken.events.iter().find(|event| !event.is_routine());
    let (trigger, by) = trigger(why, first.map(|event| &**event));
    // A lost server is a trigger of its own, whatever else was first.
    let lost =
        taken.events.iter().skip(1).find(|event| event.kind == LOST).map(|event| {
            Object::new().text("type", LOST).text("server", &event.server).text("eventType", LOST).finish()
        });
    let lost = lost.filter(|_| matches!(why, Why::Event) && by != LOST);
    let events: Vec<Raw> =
        taken.dropped.iter().chain(taken.events.iter().map(|event| &**event)).map(event_json).collect();
    let body = Object::new()
        .raw("triggers", &array(std::iter::once(&trigger).chain(&lost)))
        .text("triggered_by", by)
        .raw("events", &array(events.iter()))
        .maybe("dropped", taken.gap.map(dropped).as_ref());
    let body = request.live().cell().with(|session| {
        let cursor = session.events.cursor().or(last).map(|id| id.to_string());
        let none = || Raw::from_static(r#"{"sampling":0,"elicitation":0,"elicitations":[],"sampling_requests":[]}"#);
        let pending =
            session.pending_client(session.limits().context_pending_max, true, Sight::of(&knows)).unwrap_or_else(none);
        body.raw("pending_server", &pending_server(session, &knows))
            .raw("pending_client", &pending)
            .maybe_text("last_event_id", cursor.as_deref())
    });
    let body = if taken.remaining == 0 { body } else { body.number("events_remaining", taken.remaining) };
    let receipt = taken.lease.map(|lease| request.live().cell().receipt(lease));
    Reply::object(body.finish()).with_receipt(receipt).without_context().with_session()
}

/// What ended the wait, as a row and as one word.
fn trigger(why: &Why, first: Option<&Event>) -> (Raw, &'static str) {
    let row = |kind| Object::new().text("type", kind);
    match (why, first) {
        (Why::Event, Some(event)) => {
            let kind = if event.kind == LOST { LOST } else { "event" };
            (row(kind).text("server", &event.server).text("eventType", event.kind).finish(), event.kind)
        }
        (Why::Immediate, _) => (row("immediate").finish(), "existing_events"),
        (Why::Timeout | Why::Event, _) => (row("timeout").finish(), "timeout"),
        (Why::Shutdown, _) => (row("shutdown").finish(), "shutdown"),
    }
}

fn dropped(gap: Gap) -> Raw {
    let row = Object::new();
    let row = match gap.count {
        Some(count) => row.number("count", count),
        None => row,
    };
    row.text("before", &gap.before.to_string()).finish()
}

/// What servers are working on, by server.
fn pending_server(session: &Session, knows: &dyn Fn(&str) -> bool) -> Raw {
    let mut servers: Vec<&str> = Vec::new();
    for task in session.working().filter(|task| knows(task.server())) {
        if !servers.contains(&&**task.server()) {
            servers.push(task.server());
        }
    }
    let rows: Vec<Raw> = servers
        .into_iter()
        .map(|server| {
            let tasks: Vec<Raw> = session.working_of(server).map(Task::brief).collect();
            Object::new().text("server", server).raw("working_tasks", &array(tasks.iter())).finish()
        })
        .collect();
    array(rows.iter())
}
