//! Tasks that outlive the process: each is written whole, when it is made and when it ends.

use std::time::Duration;

use lb_wire::compose::Object;
use lb_wire::{Raw, Text};
use serde::Deserialize;

use super::{State, Task, TaskStatus};
use crate::happening::Happening;
use crate::keep::{Unreadable, millis};
use crate::moment::Moment;
use crate::session::Session;
use crate::ulid::Ulid;

/// A task as it is written, without what others wrote in it.
#[derive(Deserialize)]
struct Record {
    id: Ulid,
    server: String,
    tool: String,
    ttl: u64,
    created: u64,
    updated: u64,
    due: u64,
    status: String,
    message: Option<String>,
    error: Option<String>,
}

impl Task {
    /// As it is written.
    pub(crate) fn kept(&self) -> Raw {
        let due = self.created.unix + self.due.saturating_sub(self.created.up);
        Object::new()
            .text("id", &self.id.to_string())
            .text("server", &self.server)
            .text("tool", &self.tool)
            .number("ttl", millis(self.ttl))
            .number("created", millis(self.created.unix))
            .number("updated", millis(self.updated.unix))
            .number("due", millis(due))
            .text("status", self.status().as_str())
            .maybe_text("message", self.message.as_deref())
            .maybe_text("error", self.error())
            .raw("args", &self.args)
            .maybe("result", self.result())
            .finish()
    }

    fn restored(record: Record, kept: &Raw, now: Moment) -> Self {
        let moment = |unix: u64| now.shifted(Duration::from_millis(unix));
        let how = TaskStatus::parse(&record.status).filter(|status| *status != TaskStatus::Working);
        let state = State::Ended {
            how: how.unwrap_or(TaskStatus::Failed),
            result: kept.member("result").map(|result| result.detached()),
            error: record.error.map(String::into_boxed_str),
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
        let record: Record = kept.read()?;
        let worked = record.status == TaskStatus::Working.as_str();
        let mut task = Task::restored(record, kept, now);
        let (id, server, tool) = (task.id, task.server.clone(), task.tool.clone());
        if worked {
            task.fail(why, now);
            let what = Happening::TaskFailed { task: id, tool, error: why.into(), reason: Some("node_lost") };
            self.tell(&server, &what, now);
            self.note_task(id);
        }
        let forget = task.updated.up + self.limits.task_kept_for;
        self.tasks.ended_bytes += task.bytes();
        let at = self.tasks.ended.partition_point(|(other, _)| *other <= forget);
        self.tasks.ended.insert(at, (forget, id));
        self.tasks.all.insert(id, task);
        Ok(())
    }
}
