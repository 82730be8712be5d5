//! A request of a session to one of its servers, to its end: over both eras, with all that the server asks meanwhile.

use std::sync::Arc;
use std::time::Duration;

use lb_backend::Connection;
use lb_exchange::{
    Answer, Ask, AskKey, Call, Cancel, Command, End, Exchange, Mount, Note, Outcome, Resume, Step, Tasks, Trace, Yield,
};
use lb_session::Cause;
use lb_wire::revision::{Era, code};
use lb_wire::{Id, Message, Raw, Text, compose, splice};

use super::Live;
use super::apply::{TASK_STATUS, log_row, notification};
use super::backend::{Backend, JOIN_MAX, START_MAX};
use super::facts::is_out_of_reach;
use super::input::Need;
use super::lists::Listing;
use super::login;
use crate::convert::mirrored;
use crate::trace::{TRACEPARENT, TRACESTATE};

/// How often a server may ask for more before it gives a result.
const ROUNDS_MAX: u32 = 10;
/// Wait before a request is sent again that its server only put off.
const PUT_OFF: Duration = Duration::from_millis(250);
/// What a modern result has and others do not.
const MODERN_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
/// From which level on modern servers log for us, unless told otherwise.
const LOG_LEVEL: &str = "info";
/// Our token where the client has none: progress is wanted in any case.
const OWN_TOKEN: &str = "0";

impl Backend {
    /// Makes a request for a session. Yields progress, asks (always as if somebody waited for the answer), their
    /// withdrawals, and the end; what else the server says is put into the session.
    ///
    /// `params` has no `_meta`. Progress is passed on under `token`; without one it is yielded but not to be forwarded.
    pub fn call(self: &Arc<Self>, live: &Arc<Live>, method: &'static str, params: Raw, token: Option<Raw>) -> Exchange {
        let (backend, live) = (self.clone(), live.clone());
        let (watch, trace) = self.entry.watcher.sent(method, &params);
        let conversation = move |out| Conversation { backend, live, method, params, token, trace, out }.run();
        Exchange::routine(conversation).with_server(Some(self.entry.spec().clone())).watched(watch)
    }
}

pub(super) struct Conversation {
    pub(super) backend: Arc<Backend>,
    live: Arc<Live>,
    method: &'static str,
    params: Raw,
    token: Option<Raw>,
    /// The span that it is sent from.
    trace: Option<Box<Trace>>,
    out: Yield,
}

impl Conversation {
    async fn run(mut self) -> End {
        let (mut rounds, mut promised) = (0, None);
        loop {
            let end = match self.once().await {
                Ok(end) | Err(end) => end,
            };
            if let Some(needed) = login::needed(&end) {
                match Box::pin(self.log_in(&needed, &mut promised)).await {
                    login::Asked::Again => continue,
                    login::Asked::No => return end,
                    login::Asked::Cancelled => return End::ours(Outcome::Cancelled),
                }
            }
            let Some(need) = Need::of(&end.outcome) else { return finished(end) };
            rounds += 1;
            if ROUNDS_MAX < rounds {
                let message = format!("server '{}' asks for more again and again", self.backend.name);
                return End::error(code::INTERNAL_ERROR, &message, None);
            }
            let answers = match self.ask(&need).await {
                Ok(answers) => answers,
                Err(end) => return end,
            };
            match need.answered(&self.params, &answers) {
                Some(params) => self.params = params,
                None => return unanswered(&self.backend.name, &end),
            }
        }
    }

    /// Sends the request once and drives it to its end. An error is an end that is not the server's.
    async fn once(&self) -> Result<End, End> {
        let connection = self.connection().await?;
        let end = self.opened(&connection).await?;
        let Some(task) = server_task(&end) else { return Ok(end) };
        // The server made a task of it; its result is what we are here for.
        let params = compose::object(&[("taskId", &task)]);
        let inner = self.open(&connection, "tasks/result", &params)?;
        let mut unwanted = Unwanted { task: Some((connection.clone(), params)), tasks: self.backend.tasks.clone() };
        let result = self.drive(&connection, inner).await;
        if !matches!(result, Err(_) | Ok(End { outcome: Outcome::Cancelled, .. })) {
            unwanted.task = None;
        }
        result
    }

    async fn opened(&self, connection: &Arc<Connection>) -> Result<End, End> {
        let wants_task = self.method == "tools/call" && self.must_be_a_task(connection);
        let params = match wants_task {
            true => splice::with(&self.params, &[("task", Raw::empty_object())]),
            false => self.params.clone(),
        };
        let inner = self.open(connection, self.method, &params)?;
        self.drive(connection, inner).await
    }

    /// Whether the tool can be called in no other way than as a task of the server's.
    fn must_be_a_task(&self, connection: &Connection) -> bool {
        if !connection.revision().core_tasks() || !connection.declares("tasks", None) {
            return false;
        }
        let (known, name) = (self.backend.known(), self.params.member("name"));
        let tool =
            known.as_ref().and_then(|known| known.rows(Listing::Tools).iter().find(|tool| tool.member("name") == name));
        let support = tool.and_then(|tool| tool.member("execution")).and_then(|how| how.member("taskSupport"));
        support.as_ref().and_then(Raw::plain_str) == Some("required")
    }

    /// The connection, unless the client gives up first.
    async fn connection(&self) -> Result<Arc<Connection>, End> {
        if let Some((connection, _)) = self.backend.current() {
            return Ok(connection);
        }
        let starts = self.method == "tools/call" && self.backend.is_connecting();
        let connected = self.backend.connected(if starts { START_MAX } else { JOIN_MAX });
        tokio::select! {
            connected = connected => match connected {
                Ok((connection, _)) => Ok(connection),
                Err(unavailable) => Err(End::ours(Outcome::Error(unavailable.to_body()))),
            },
            _ = self.cancelled() => Err(End::ours(Outcome::Cancelled)),
        }
    }

    pub(super) async fn cancelled(&self) -> Cancel {
        loop {
            if let Command::Cancel(why) = self.out.command().await {
                return why;
            }
        }
    }

    fn open(&self, connection: &Arc<Connection>, method: &str, params: &Raw) -> Result<Exchange, End> {
        let era = connection.era();
        let level = self.backend.told.lock().log_level.clone();
        let level = level.as_deref().unwrap_or(LOG_LEVEL);
        let own = Raw::from_static(OWN_TOKEN);
        let token = self.token.as_ref().unwrap_or(&own);
        let meta = self.backend.ourselves.meta(era, Some(token), Some(level)).unwrap_or_else(Raw::empty_object);
        let meta = match &self.trace {
            Some(trace) => {
                let mut told = vec![(TRACEPARENT, Raw::string(&trace.parent.to_string()))];
                told.extend(trace.state.as_deref().map(|state| (TRACESTATE, Raw::string(state))));
                splice::with(&meta, &told)
            }
            None => meta,
        };
        let params = splice::with(params, &[("_meta", meta)]);
        let request = compose::request(&Id::number(0), method, Some(&params));
        let message = Message::scan(request.bytes().clone()).map_err(|error| {
            End::error(code::INVALID_PARAMS, &format!("the arguments cannot be sent: {error}"), None)
        })?;
        let caller = self.backend.ourselves.speaking(era);
        let call =
            Call { caller, mount: Mount::Tools, message, headers: None, trace: self.trace.clone(), rights: None };
        let opened = match era {
            Era::Modern if self.backend.entry.is_http() => mirrored::open(connection, call, &self.backend.name),
            Era::Legacy | Era::Modern => connection.open(call),
        };
        opened.map_err(|_| {
            let data = Raw::from_static(r#"{"reason":"backend_closed"}"#);
            let message = format!("server '{}' is gone; the call was not sent", self.backend.name);
            End::error(code::INTERNAL_ERROR, &message, Some(&data))
        })
    }

    /// Steps up, commands down, until the end.
    async fn drive(&self, connection: &Arc<Connection>, mut inner: Exchange) -> Result<End, End> {
        loop {
            tokio::select! {
                biased;
                command = self.out.command() => match command {
                    Command::Answer(key, answer) => drop(inner.remote().answer(key, answer)),
                    Command::Cancel(why) => drop(inner.remote().cancel(why)),
                    Command::Back => drop(inner.remote().back()),
                    Command::Away | Command::Alone => {}
                },
                step = inner.step() => match step {
                    Step::Note(note) => self.noted(note).await,
                    Step::Pause { .. } => drop(inner.remote().back()),
                    Step::End(end) => {
                        self.ended(connection, &end);
                        return Ok(end);
                    }
                    step @ (Step::Ask(_) | Step::Withdraw { .. }) => self.out.step(step).await,
                },
            }
        }
    }

    async fn noted(&self, note: Note) {
        let now = self.live.now();
        let (cell, server) = (self.live.cell(), &self.backend.name);
        match &*note.method {
            "notifications/progress" => {
                let forward = note.forward && self.token.is_some();
                self.out.step(Step::Note(Note { forward, ..note })).await;
            }
            "notifications/message" => {
                let row = log_row(note.params.as_ref());
                cell.with(|session| session.log(server, row, now));
            }
            TASK_STATUS => {}
            _ if self.live.is_remembered() => {
                let event = notification(&note);
                cell.with(|session| session.tell(server, &event, now));
            }
            _ => {}
        }
    }

    /// What was said before the end takes effect before it; and a call says how its server is.
    fn ended(&self, connection: &Arc<Connection>, end: &End) {
        let generation = {
            let state = self.backend.state.lock();
            let same = state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection));
            same.then(|| state.machine.generation())
        };
        let Some(generation) = generation else { return };
        let feed = connection.feed();
        let news = self.backend.take_in_to(feed, generation, end.feed_mark);
        self.backend.put_back(feed, news);
        match &end.outcome {
            Outcome::Error(error) if end.era.is_none() && is_out_of_reach(error) => {
                let why = error.raw.member("message").and_then(|why| why.to_text().map(|why| why.into_owned()));
                let why = why.unwrap_or_default().into_boxed_str();
                self.backend.order(|order| order.suspect = Some(why));
            }
            Outcome::Result(_) | Outcome::Error(_) if end.era.is_some() => {
                let told = self.backend.state.lock().machine.healthy(generation);
                self.backend.tell_all(told.into_iter().collect(), "", Cause::ServerDisconnected);
            }
            Outcome::Result(_) | Outcome::Error(_) | Outcome::Cancelled => {}
        }
    }

    /// Asks what the server needs, all at once, and waits for every answer.
    pub(super) async fn ask(&self, need: &Need) -> Result<Vec<(AskKey, Answer)>, End> {
        if need.asks.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(PUT_OFF) => return Ok(Vec::new()),
                _ = self.cancelled() => return Err(End::ours(Outcome::Cancelled)),
            }
        }
        for ask in &need.asks {
            let resume = if need.is_ours { ask.resume.clone() } else { Resume::Live };
            self.out.step(Step::Ask(Ask { resume, ..ask.clone() })).await;
        }
        let mut answers: Vec<(AskKey, Answer)> = Vec::new();
        while answers.len() < need.asks.len() {
            match self.out.command().await {
                Command::Answer(key, answer) => {
                    let asked = need.asks.iter().any(|ask| ask.key == key);
                    if asked && !answers.iter().any(|(known, _)| *known == key) {
                        answers.push((key, answer));
                    }
                }
                Command::Cancel(_) => return Err(End::ours(Outcome::Cancelled)),
                Command::Back | Command::Away | Command::Alone => {}
            }
        }
        Ok(answers)
    }
}

impl Conversation {
    /// Takes a question back that needs no answer any more.
    pub(super) async fn withdraw(&self, key: AskKey) {
        self.out.step(Step::Withdraw { key }).await;
    }
}

/// Cancels a server's own task when nobody waits for its result any more.
struct Unwanted {
    task: Option<(Arc<Connection>, Raw)>,
    tasks: Tasks,
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        if let Some((connection, params)) = self.task.take() {
            self.tasks.spawn(async move {
                if let Err(error) = super::tell::tell(&connection, "tasks/cancel", &params).await {
                    tracing::debug!(?error, "task of a server could not be cancelled");
                }
            });
        }
    }
}

/// The id of a server's own task, where it answered with one.
fn server_task(end: &End) -> Option<Raw> {
    let Outcome::Result(result) = &end.outcome else { return None };
    if result.member("content").is_some() {
        return None;
    }
    result.member("task").and_then(|task| task.member("taskId"))
}

/// The end as every client can read it.
fn finished(end: End) -> End {
    let outcome = match (end.era, end.outcome) {
        (Some(Era::Modern), Outcome::Result(result)) => Outcome::Result(splice::without(&result, &MODERN_MEMBERS)),
        (_, outcome) => outcome,
    };
    End { failed: end.failed, ..End::ours(outcome) }
}

/// What a call is told whose server needed an answer that nobody gave.
fn unanswered(server: &Text, end: &End) -> End {
    if let Outcome::Error(error) = &end.outcome {
        return End::ours(Outcome::Error(error.clone()));
    }
    let message = format!("server '{server}' needed input, and its request was not answered");
    End::error(code::INTERNAL_ERROR, &message, None)
}
