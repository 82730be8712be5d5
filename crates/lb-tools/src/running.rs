//! A call of a server's tool while its caller waits: its progress, what it asks, and the moment it becomes a task.
//!
//! The call is driven by the exchange that the caller holds. When it must go on without one, [`Work`] moves once into
//! the session's tasks; nothing else of it does.

mod asks;
mod deadline;
mod progress;
mod promote;
mod work;

use std::future::poll_fn;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use lb_exchange::{Ask, AskKind, Cancel, Command, End, ErrorBody, Outcome, Resume, Step, Yield};
use lb_gateway::{AskMode, Listing, Tracked, login_question};
use lb_session::{Moment, Session, Watch};
use lb_wire::Raw;
use lb_wire::revision::{Era, code};
use tokio::time::{Instant, sleep_until};

use self::asks::Way;
use self::deadline::Deadline;
use self::progress::Progress;
use self::promote::Why;
pub(crate) use self::promote::question;
pub(crate) use self::work::Work;
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;
use crate::surface::finish;

/// How long a server has to hear that its call is cancelled.
const CANCEL_WITHIN: Duration = Duration::from_secs(1);

/// A call and its caller.
pub(crate) struct Running {
    request: Request,
    out: Yield,
    tracked: Tracked,
    work: Work,
    /// How long the task may take that the call may become.
    ttl: Option<Duration>,
    timeout: Duration,
    started: Moment,
    deadline: Deadline,
    progress: Progress,
    /// What the client was asked and has not answered.
    with_client: Vec<Ask>,
    /// When a question to the model makes a task of the call.
    grace: Option<Instant>,
    /// For what the server asks outside of any call; a call that is quick never looks.
    watch: Watching,
}

/// Whether somebody looks for questions that belong to no call.
enum Watching {
    From(Instant),
    Now(Watch),
    /// One was seen.
    Done,
}

/// What a call waits for.
enum Happened {
    Command(Command),
    Step(Step),
    AskedElsewhere,
    Time,
}

impl Running {
    pub(crate) fn new(request: Request, out: Yield, tracked: Tracked, work: Work, wish: Limit) -> Self {
        let now = Instant::now();
        let grace = request.live().policy().input_grace;
        Self {
            started: request.now(),
            deadline: Deadline::new(now + wish.left),
            progress: Progress::new(request.token.clone(), request.seen.revision(), now),
            watch: Watching::From(now + grace),
            ttl: wish.ttl,
            timeout: wish.timeout,
            with_client: Vec::new(),
            grace: None,
            request,
            out,
            tracked,
            work,
        }
    }

    /// Until the result, a task, or a cancel.
    pub(crate) async fn run(mut self) -> End {
        let calling = self.request.live().calling();
        let end = loop {
            let happened = self.next().await;
            match self.take(happened).await {
                Continue(()) => {}
                Break(Over::Ended(end)) => break self.ended(end),
                Break(Over::Cancelled(why)) => break self.cancelled(why).await,
                Break(Over::Promoted(why)) => break self.promote(why).await,
                Break(Over::Asked(question)) => break self.put(question),
            }
        };
        drop(calling);
        end
    }

    async fn next(&mut self) -> Happened {
        let wake = self.wake_at();
        let (server, since, asked) = (self.work.server().clone(), self.started.up, &self.request.asked);
        let stranger = |session: &mut Session| {
            let mut pending = session.pending_of(&server).filter(|pending| since <= pending.created().up);
            pending.any(|pending| pending.related_task().is_none() && !asked.knows(pending.id())).then_some(())
        };
        let watch = &mut self.watch;
        let elsewhere = poll_fn(|cx| match watch {
            Watching::Now(watch) => watch.poll(cx, stranger),
            Watching::From(_) | Watching::Done => std::task::Poll::Pending,
        });
        tokio::select! {
            biased;
            command = self.out.command() => Happened::Command(command),
            step = self.work.exchange.step() => Happened::Step(step),
            () = elsewhere => Happened::AskedElsewhere,
            () = sleep_until(wake) => Happened::Time,
        }
    }

    /// There is always something: a call without a limit has one all the same.
    fn wake_at(&self) -> Instant {
        let watch = match self.watch {
            Watching::From(at) => Some(at),
            Watching::Now(_) | Watching::Done => None,
        };
        let times = [self.deadline.due(), self.grace, self.progress.due(), watch];
        times.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + Duration::from_secs(60))
    }

    async fn take(&mut self, happened: Happened) -> ControlFlow<Over> {
        match happened {
            Happened::Command(command) => self.commanded(command),
            Happened::Step(step) => self.stepped(step).await,
            Happened::AskedElsewhere => {
                self.watch = Watching::Done;
                self.wait_for_model();
                Continue(())
            }
            Happened::Time => self.timed().await,
        }
    }

    fn commanded(&mut self, command: Command) -> ControlFlow<Over> {
        match command {
            Command::Answer(key, answer) => {
                self.with_client.retain(|ask| ask.key != key);
                if self.with_client.is_empty() {
                    self.deadline.resume();
                }
                // A call that has ended meanwhile needs no answer.
                self.work.exchange.remote().answer(key, answer);
                Continue(())
            }
            Command::Cancel(why) => Break(Over::Cancelled(why)),
            Command::Alone => Break(Over::Promoted(Why::Alone)),
            Command::Away | Command::Back => Continue(()),
        }
    }

    async fn stepped(&mut self, step: Step) -> ControlFlow<Over> {
        match step {
            Step::Note(note) => {
                if let Some(note) = self.progress.forwarded(note) {
                    self.out.step(Step::Note(note)).await;
                }
            }
            Step::Ask(ask) => match self.question(&ask) {
                Some(question) => return Break(Over::Asked(question)),
                None => self.asked(Ask { resume: Resume::Live, ..ask }).await,
            },
            Step::Withdraw { key } => {
                let before = self.with_client.len();
                self.with_client.retain(|ask| ask.key != key);
                if self.with_client.len() == before {
                    self.work.withdraw(&key);
                } else {
                    if self.with_client.is_empty() {
                        self.deadline.resume();
                    }
                    self.out.step(Step::Withdraw { key }).await;
                }
            }
            // Somebody always listens here.
            Step::Pause { .. } => drop(self.work.exchange.remote().back()),
            Step::End(end) => return Break(Over::Ended(end)),
        }
        Continue(())
    }

    /// What a modern client is asked that can open the link of a login by itself, unless it said no.
    fn question(&self, ask: &Ask) -> Option<Raw> {
        let (seen, policy) = (&self.request.seen, self.request.live().policy());
        let may_ask = policy.ask == AskMode::ClientFirst && self.request.login.as_ref().is_none_or(|it| it.accepted);
        login_question(&seen.caller, ask).filter(|_| may_ask)
    }

    async fn asked(&mut self, ask: Ask) {
        let policy = self.request.live().policy();
        match asks::way(&ask, &self.request.seen.caller, policy.ask) {
            Way::Client => {
                let params = ask.params.clone().unwrap_or_else(Raw::empty_object);
                if ask.kind == AskKind::Elicitation && !self.work.may_ask(&params) {
                    tracing::warn!(server = &**self.work.server(), "question of a server refused");
                    self.work.refuse(&ask);
                    return;
                }
                self.deadline.pause();
                self.with_client.push(ask.clone());
                let shown = match ask.kind {
                    AskKind::Elicitation => Some(lb_session::shown(self.work.server(), &params)),
                    AskKind::Sampling | AskKind::Roots | AskKind::Other => ask.params.clone(),
                };
                self.out.step(Step::Ask(Ask { params: shown, ..ask })).await;
            }
            Way::Model => {
                if self.work.give(ask, None) {
                    self.wait_for_model();
                }
            }
            Way::Nobody => self.work.refuse(&ask),
        }
    }

    /// The model has a moment to answer; a client that runs one call at a time cannot.
    fn wait_for_model(&mut self) {
        let grace = self.request.live().policy().input_grace;
        self.grace.get_or_insert_with(|| Instant::now() + grace);
    }

    async fn timed(&mut self) -> ControlFlow<Over> {
        let now = Instant::now();
        if self.grace.is_some_and(|at| at <= now) {
            self.grace = None;
            if self.is_waiting_for_model() {
                return Break(Over::Promoted(Why::Input));
            }
        }
        if self.deadline.due().is_some_and(|at| at <= now) {
            return Break(Over::Promoted(Why::Timeout));
        }
        if matches!(self.watch, Watching::From(at) if at <= now) {
            self.watch = Watching::Now(self.request.live().cell().watch());
        }
        if let Some(note) = self.progress.sign_of_life(now) {
            self.out.step(Step::Note(note)).await;
        }
        Continue(())
    }

    /// Whether anything is still asked that the model can answer: by this call, or by its server outside of any.
    fn is_waiting_for_model(&self) -> bool {
        let (server, since) = (self.work.server(), self.started.up);
        self.request.live().cell().with(|session| {
            let mut pending = session.pending_of(server).filter(|pending| since <= pending.created().up);
            pending.any(|pending| self.work.has_given(pending.id()) || !self.request.asked.knows(pending.id()))
        })
    }

    fn ended(mut self, end: End) -> End {
        self.work.settle(&end.outcome);
        let reply = match end.outcome {
            Outcome::Result(result) => {
                // A modern client that is gone has cancelled; a legacy one may come back for it.
                let rescue = (!self.request.seen.is_modern()).then(|| self.work.rescue(&result, self.ttl));
                Reply::passed(result, end.era, end.feed_mark, end.failed).with_receipt(rescue)
            }
            Outcome::Error(error) => Reply::failed(self.refused(&error)),
            Outcome::Cancelled => {
                Reply::failed(Failure::new(failure::EXECUTION_FAILED, "the call was cancelled on its way"))
            }
        };
        finish(reply, &self.request.seen, self.tracked)
    }

    /// Asks the client. Nothing is held: it calls again.
    fn put(mut self, question: Raw) -> End {
        self.work.settle(&Outcome::Cancelled);
        let reply = Reply::passed(question, Some(Era::Modern), 0, false).without_context();
        finish(reply, &self.request.seen, self.tracked)
    }

    /// What the server said, and whether it was because it has no such tool.
    fn refused(&self, error: &ErrorBody) -> Failure {
        let failure = Failure::refused(error);
        let complains = matches!(error.code, code::INVALID_PARAMS | code::METHOD_NOT_FOUND);
        let known = self.request.live().backend(self.work.server()).ok().and_then(|backend| backend.known());
        let lists_it = known.is_none_or(|known| {
            let is_it =
                |row: &Raw| row.member("name").and_then(|name| name.to_text().map(|name| *name == **self.work.tool()));
            known.rows(Listing::Tools).iter().any(|row| is_it(row) == Some(true))
        });
        if complains && !lists_it { Failure { code: failure::NOT_FOUND, ..failure } } else { failure }
    }

    /// Nobody wants the result: the server is told, and there is no task.
    async fn cancelled(mut self, why: Cancel) -> End {
        let end = why.to_end();
        self.work.cancel(why).await;
        end
    }
}

/// Why a call is no longer waited for.
enum Over {
    Ended(End),
    Cancelled(Cancel),
    Promoted(Why),
    /// The client is asked, and calls again.
    Asked(Raw),
}

/// How long a call may take before it becomes a task, and how long that may take.
pub(crate) struct Limit {
    /// What the caller is told.
    pub(crate) timeout: Duration,
    /// What is left of it once the server is connected.
    pub(crate) left: Duration,
    pub(crate) ttl: Option<Duration>,
}
