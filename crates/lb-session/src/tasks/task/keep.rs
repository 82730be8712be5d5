//! Tasks that outlive the process: each is written whole, when it is made and when it ends.

use std::time::Duration;

use lb_wire::compose::Object;
use lb_wire::{Raw, Text};
use serde::Deserialize;

use super::{State, Task, TaskStatus};
use crate::happening::Happening;
use crate::keep::{Unreadable, millis, number};
use crate::moment::Moment;
use crate::session::Session;
use crate::ulid::Ulid;

/// A task as it is to be written. Cheap: what others wrote in it is shared with the task, and copied where it is composed.
#[derive(Clone, Debug)]
pub struct KeptTask {
    head: Raw,
    error: Option<Box<str>>,
    args: Raw,
    result: Option<Raw>,
}

/// What a task says of itself that no store takes whole.
const LEFT_OUT: &str = "result or arguments were too large to be kept beyond the process that had them";

impl KeptTask {
    /// About as many bytes as it is composed to.
    pub fn bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |result| result.as_bytes().len());
        self.head.as_bytes().len() + self.args.as_bytes().len() + result + 64
    }

    /// As it is written.
    pub fn compose(&self) -> Raw {
        Object::new()
            .raw("task", &self.head)
            .maybe_text("error", self.error.as_deref())
            .raw("args", &self.args)
            .maybe("result", self.result.as_ref())
            .finish()
    }

    /// The same without its result, or then its arguments, which it says; `None` when both have been left out.
    pub fn shortened(&self) -> Option<Self> {
        let error = Some(LEFT_OUT.into());
        match &self.result {
            Some(_) => Some(Self { error, result: None, ..self.clone() }),
            None if self.args.as_bytes().len() <= 2 => None,
            None => Some(Self { error, args: Raw::empty_object(), ..self.clone() }),
        }
    }
}

/// A task as it was written, without what others wrote in it.
#[derive(Deserialize)]
struct Record {
    id: Ulid,
    server: String,
    tool: String,
    #[serde(deserialize_with = "number")]
    ttl: u64,
    #[serde(deserialize_with = "number")]
    created: u64,
    #[serde(deserialize_with = "number")]
    updated: u64,
    #[serde(deserialize_with = "number")]
    due: u64,
    status: String,
    message: Option<String>,
}

impl Task {
    /// As it is written.
    pub(crate) fn kept(&self) -> KeptTask {
        let due = self.created.unix + self.due.saturating_sub(self.created.up);
        let head = Object::new()
            .text("id", &self.id.to_string())
            .text("server", &self.server)
            .text("tool", &self.tool)
            .number("ttl", millis(self.ttl))
            .number("created", millis(self.created.unix))
            .number("updated", millis(self.updated.unix))
            .number("due", millis(due))
            .text("status", self.status().as_str())
            .maybe_text("message", self.message.as_deref())
            .finish();
        let (error, result) = (self.error().map(Box::from), self.result().cloned());
        KeptTask { head, error, args: self.args.clone(), result }
    }

    fn restored(record: Record, kept: &Raw, now: Moment) -> Self {
        let error = kept.member("error").and_then(|error| error.to_text().map(|error| Box::from(&*error)));
        let moment = |unix: u64| now.shifted(Duration::from_millis(unix));
        let how = TaskStatus::parse(&record.status).filter(|status| *status != TaskStatus::Working);
        let state = State::Ended {
            how: how.unwrap_or(TaskStatus::Failed),
            result: kept.member("result").map(|result| result.detached()),
            error,
        };
        Self {
            id: record.id,
            server: Text::from(&*record.server),
            tool: Text::from(&*record.tool),
            args: kept.member("args").map_or_else(Raw::empty_object, |args| args.detached()),
            ttl: Duration::from_millis(record.ttl),
            created: moment(record.created),
            updated: moment(record.updated),
            message: record.message.map(String::into_boxed_str),
            state,
            due: moment(record.due).up,
        }
    }

    fn fail(&mut self, why: &str, now: Moment) {
        self.updated = now;
        self.state = State::Ended { how: TaskStatus::Failed, result: None, error: Some(why.into()) };
    }
}

impl Session {
    /// Takes in a task as it was written; one that still worked has failed.
    pub(crate) fn restore_task(&mut self, kept: &Raw, why: &str, now: Moment) -> Result<(), Unreadable> {
        let head = kept.member("task").ok_or_else(|| Unreadable::because(&"a task without a head"))?;
        let record: Record = head.read()?;
        let worked = record.status == TaskStatus::Working.as_str();
        let mut task = Task::restored(record, kept, now);
        let (id, server, tool) = (task.id, task.server.clone(), task.tool.clone());
        if worked {
            task.fail(why, now);
            let what = Happening::TaskFailed { task: id, tool, error: why.into(), reason: Some("node_lost") };
            self.tell(&server, &what, now);
            self.note_task(id);
            self.note_loss(&server, |losses| losses.tasks += 1);
        }
        let forget = task.updated.up + self.limits.task_kept_for;
        self.tasks.ended_bytes += task.bytes();
        let at = self.tasks.ended.partition_point(|(other, _)| *other <= forget);
        self.tasks.ended.insert(at, (forget, id));
        self.tasks.all.insert(id, task);
        Ok(())
    }
}
