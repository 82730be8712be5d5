//! Calls that outlived their caller's patience: what became of each, until it is forgotten.
//!
//! A task works or has ended, and how it ended never changes. The call behind it is driven elsewhere; here are only the
//! handle to cancel it and its outcome.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lb_exchange::{Cancel, Remote};
use lb_wire::{Raw, Text};

use crate::effect::Effect;
use crate::happening::Happening;
use crate::limits::Limits;
use crate::logs::shortened;
use crate::moment::Moment;
use crate::session::Session;
use crate::ulid::Ulid;

mod task;
#[cfg(test)]
mod tests;

pub use task::{KeptTask, Task, TaskStatus};

use task::State;

/// Time that a task has left when the last request that put off its expiry has ended: the server has its answer only
/// now and must be able to finish.
const AFTER_REQUEST: Duration = Duration::from_secs(60);
/// Bytes of a result that are shown of one that is too large to keep.
const PREVIEW_BYTES_MAX: usize = 8 << 10;
/// Results from this size on are kept within the message they came in, which they are most of.
const SHARED_BYTES_MIN: usize = 64 << 10;

/// A running call that becomes a task.
#[derive(Debug)]
pub struct NewTask {
    /// The server it runs on.
    pub server: Text,
    /// The tool, by the server's name for it.
    pub tool: Text,
    /// What it was called with.
    pub args: Raw,
    /// How long it may take from here; `None` for the default.
    pub ttl: Option<Duration>,
    /// The running call.
    pub remote: Remote,
}

/// As many tasks work as may, or the session has ended and takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many tasks are working in this session")]
pub struct TooManyTasks;

/// Why a task cannot be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// There is none of this name, or none any more.
    #[error("Task '{0}' not found")]
    NotFound(Ulid),
    /// It has ended, in this way.
    #[error("task is already {}", .0.as_str())]
    Ended(TaskStatus),
}

/// The tasks of one session. Ids are minted in order, so that the order of ids is that of promotion.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    all: BTreeMap<Ulid, Task>,
    working: BTreeSet<Ulid>,
    /// Those that ended, in the order of their end.
    ended: VecDeque<(Duration, Ulid)>,
    /// What those keep.
    ended_bytes: usize,
}

impl Session {
    /// Makes a task of a running call.
    ///
    /// # Errors
    /// Too many work already, or the session has ended. The call is the caller's to cancel then.
    pub fn promote(&mut self, new: NewTask, now: Moment) -> Result<Ulid, TooManyTasks> {
        if self.is_closed() || self.limits.tasks_max <= self.tasks.working.len() {
            return Err(TooManyTasks);
        }
        let id = Ulid::mint(now);
        let ttl = new.ttl.unwrap_or(self.limits.task_ttl).min(self.limits.task_ttl_max);
        let task = Task::new(id, new, ttl, now);
        let what =
            Happening::TaskCreated { task: id, tool: task.tool().clone(), args: task.args().clone(), ttl: task.ttl() };
        self.tell(&task.server().clone(), &what, now);
        self.tasks.working.insert(id);
        self.tasks.all.insert(id, task);
        self.note_task(id);
        Ok(id)
    }

    /// Notes that a task is getting on. No event: that would be one per step.
    pub fn task_progressed(&mut self, id: Ulid, message: Option<&str>, now: Moment) {
        let bytes_max = self.limits.log_line_bytes_max;
        let Some(task) = self.tasks.all.get_mut(&id).filter(|task| task.is_working()) else { return };
        task.progressed(message.map(|text| shortened(text, bytes_max)).as_deref(), now);
    }

    /// Gives a task its result; one that reports an error of the tool is a result too. False when the task has ended
    /// before, or is not known.
    pub fn task_completed(&mut self, id: Ulid, result: Raw, now: Moment) -> bool {
        let (result, error) = kept_result(result, &self.limits);
        let small = result.as_bytes().len() <= self.limits.event_result_bytes_max;
        let told = small.then(|| result.clone());
        let ended = self.end_task(id, TaskStatus::Completed, Some(result), error, now);
        let Some((server, tool, _)) = ended else { return late(id) };
        self.tell(&server, &Happening::TaskCompleted { task: id, tool, result: told }, now);
        true
    }

    /// Says that a task gets no result. False when the task has ended before, or is not known.
    pub fn task_failed(&mut self, id: Ulid, error: &str, reason: Option<&'static str>, now: Moment) -> bool {
        let error: Box<str> = shortened(error, self.limits.log_line_bytes_max).into();
        let ended = self.end_task(id, TaskStatus::Failed, None, Some(error.clone()), now);
        let Some((server, tool, _)) = ended else { return late(id) };
        self.tell(&server, &Happening::TaskFailed { task: id, tool, error, reason }, now);
        true
    }

    /// Cancels a task and the call behind it.
    ///
    /// # Errors
    /// There is no such task, or it has ended.
    pub fn cancel_task(&mut self, id: Ulid, now: Moment) -> Result<(), TaskError> {
        let task = self.task(id).ok_or(TaskError::NotFound(id))?;
        if !task.is_working() {
            return Err(TaskError::Ended(task.status()));
        }
        let error = Some("Task was cancelled".into());
        if let Some((server, tool, remote)) = self.end_task(id, TaskStatus::Cancelled, None, error, now) {
            self.effects.push(Effect::Cancel(remote, Cancel::Said(None)));
            self.tell(&server, &Happening::TaskCancelled { task: id, tool }, now);
        }
        Ok(())
    }

    /// Fails every working task of a server that is gone; says how many there were.
    pub fn fail_tasks_of(&mut self, server: &str, error: &str, reason: Option<&'static str>, now: Moment) -> usize {
        let ids: Vec<Ulid> = self.working_of(server).map(Task::id).collect();
        let error: Box<str> = shortened(error, self.limits.log_line_bytes_max).into();
        for id in &ids {
            let Some((server, tool, remote)) = self.end_task(*id, TaskStatus::Failed, None, Some(error.clone()), now)
            else {
                continue;
            };
            // Nobody waits for the call any more, and a server that is merely out of reach may never end it.
            self.effects.push(Effect::Cancel(remote, Cancel::Gone));
            self.tell(&server, &Happening::TaskFailed { task: *id, tool, error: error.clone(), reason }, now);
        }
        ids.len()
    }

    /// A task, while it is remembered.
    pub fn task(&self, id: Ulid) -> Option<&Task> {
        self.tasks.all.get(&id)
    }

    /// All tasks, newest first.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.all.values().rev()
    }

    /// The working tasks of one server, oldest first.
    pub fn working_of(&self, server: &str) -> impl Iterator<Item = &Task> {
        self.working().filter(move |task| &**task.server() == server)
    }

    /// All working tasks, oldest first.
    pub fn working(&self) -> impl Iterator<Item = &Task> {
        self.tasks.working.iter().filter_map(|id| self.tasks.all.get(id))
    }

    pub(crate) fn tasks_deadline(&self) -> Option<Duration> {
        let forget = self.tasks.ended.front().map(|(at, _)| *at);
        self.working().map(|task| self.due(task)).chain(forget).min()
    }

    pub(crate) fn tick_tasks(&mut self, now: Moment) {
        let due: Vec<Ulid> = self.working().filter(|task| self.due(task) <= now.up).map(Task::id).collect();
        for id in due {
            self.expire_task(id, now);
        }
        while self.tasks.ended.front().is_some_and(|(at, _)| *at <= now.up) {
            self.forget_oldest_task();
        }
    }

    /// A request of this server, which waited since `since`, no longer waits: tasks whose expiry it put off get the
    /// time to use the answer.
    pub(crate) fn request_ended(&mut self, server: &str, since: Duration, now: Moment) {
        let cap = self.limits.task_ttl_max;
        for id in &self.tasks.working {
            let Some(task) = self.tasks.all.get_mut(id) else { continue };
            let waited = &**task.server() == server && task.created().up <= since;
            if waited && task.created().up + task.ttl() <= now.up {
                task.put_off((now.up + AFTER_REQUEST).min(task.created().up + cap));
            }
        }
    }

    /// Ends what still works, without a word: nobody is there to be told.
    pub(crate) fn end_tasks(&mut self, now: Moment) {
        while let Some(id) = self.tasks.working.first().copied() {
            let error = Some("Session ended".into());
            if let Some((_, _, remote)) = self.end_task(id, TaskStatus::Cancelled, None, error, now) {
                self.effects.push(Effect::Cancel(remote, Cancel::SessionEnd));
            }
        }
    }

    /// When a working task expires. A request of its server that came after it puts that off: a person is answering.
    fn due(&self, task: &Task) -> Duration {
        let created = task.created().up;
        if self.is_pending_since(task.server(), created) { created + self.limits.task_ttl_max } else { task.due() }
    }

    fn expire_task(&mut self, id: Ulid, now: Moment) {
        let Some(ttl) = self.task(id).map(Task::ttl) else { return };
        let error = Some(format!("Task expired after {}ms", ttl.as_millis()).into());
        if let Some((server, tool, remote)) = self.end_task(id, TaskStatus::Expired, None, error, now) {
            self.effects.push(Effect::Cancel(remote, Cancel::Deadline));
            self.tell(&server, &Happening::TaskExpired { task: id, tool, ttl }, now);
        }
    }

    /// The only way out of `working`: whoever comes second gets nothing.
    fn end_task(
        &mut self,
        id: Ulid,
        how: TaskStatus,
        result: Option<Raw>,
        error: Option<Box<str>>,
        now: Moment,
    ) -> Option<(Text, Text, Remote)> {
        if !self.tasks.working.remove(&id) {
            return None;
        }
        let task = self.tasks.all.get_mut(&id)?;
        let remote = task.end(State::Ended { how, result, error }, now)?;
        let (server, tool) = (task.server().clone(), task.tool().clone());
        self.tasks.ended.push_back((now.up + self.limits.task_kept_for, id));
        self.tasks.ended_bytes += task.bytes();
        // The newest stays, however large it is.
        while 1 < self.tasks.ended.len()
            && (self.limits.tasks_ended_max < self.tasks.ended.len()
                || self.limits.tasks_ended_bytes_max < self.tasks.ended_bytes)
        {
            self.forget_oldest_task();
        }
        self.changed = true;
        self.note_task(id);
        Some((server, tool, remote))
    }

    fn forget_oldest_task(&mut self) {
        if let Some((_, id)) = self.tasks.ended.pop_front()
            && let Some(task) = self.tasks.all.remove(&id)
        {
            self.tasks.ended_bytes -= task.bytes();
            self.note_task_gone(id);
        }
    }
}

fn late(id: Ulid) -> bool {
    tracing::debug!(task = %id, "outcome of a task that has ended is ignored");
    false
}

/// The result as it is kept, with the error that goes with one that is too large.
fn kept_result(result: Raw, limits: &Limits) -> (Raw, Option<Box<str>>) {
    let bytes = result.as_bytes().len();
    if bytes <= limits.result_bytes_max {
        return (if bytes < SHARED_BYTES_MIN { result.detached() } else { result }, None);
    }
    let preview = shortened(result.as_str(), PREVIEW_BYTES_MAX);
    let text = format!("result too large: {bytes} bytes, of which this is the start\n{preview}");
    let block = lb_wire::compose::Object::new().text("type", "text").text("text", &text).finish();
    let content = lb_wire::compose::array(std::iter::once(&block));
    let shown = lb_wire::compose::Object::new().raw("content", &content).flag("isError", true).finish();
    (shown, Some("result too large".into()))
}
