//! A reply that has not begun: JSON if the end comes first, else a stream. Committing is one-way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lb_exchange::{Happened, Holder, Receipt};
use lb_wire::{Raw, compose};
use tokio::time::Instant;

use crate::accept::Accept;
use crate::alarm::Alarm;
use crate::calls::Calls;
use crate::pump;
use crate::registry::Shared;
use crate::reply::{Frames, Reply, Source};
use crate::running::{Client, Ended, Said};
use crate::stream::{Live, Start};

/// A POST that was taken.
pub struct Posted(Answer);

/// How it is answered.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one, and is moved on at once")]
enum Answer {
    Now(Reply),
    Open(Open),
    /// Only what is rare: a plain call shall not carry its room.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
    Given,
}

impl Posted {
    pub(crate) fn later(reply: impl Future<Output = Reply> + Send + 'static) -> Self {
        Self(Answer::Later(Box::pin(reply)))
    }

    /// Waits until the reply takes its form.
    ///
    /// Cancel safe: dropping it is losing the client, which cancels a modern request and leaves a legacy one running.
    pub async fn reply(mut self) -> Reply {
        std::future::poll_fn(|cx| self.poll_reply(cx)).await
    }

    /// As [`Posted::reply`], for a future that shall not grow by it. Given once.
    pub fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let verdict = match &mut self.0 {
            Answer::Open(open) => Some(std::task::ready!(open.poll(cx))),
            Answer::Later(reply) => return reply.as_mut().poll(cx),
            Answer::Now(_) => None,
            Answer::Given => return Poll::Pending,
        };
        match (std::mem::replace(&mut self.0, Answer::Given), verdict) {
            (Answer::Now(reply), _) => Poll::Ready(reply),
            (Answer::Open(open), Some(verdict)) => Poll::Ready(open.committed(verdict)),
            _ => Poll::Pending,
        }
    }
}

impl From<Reply> for Posted {
    fn from(reply: Reply) -> Self {
        Self(Answer::Now(reply))
    }
}

impl From<Open> for Posted {
    fn from(open: Open) -> Self {
        Self(Answer::Open(open))
    }
}

/// When a reply becomes a stream by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// When there is something to say, or nothing for a while.
    Lazily,
    /// As soon as it is clear that it does not end at once.
    Eagerly,
}

/// The calls of a reply that has not begun. Dropping it is losing the client.
pub(crate) struct Open {
    shared: Arc<Shared>,
    client: Client,
    calls: Option<Calls>,
    holder: Holder,
    accept: Accept,
    commit: Commit,
    /// When it becomes a stream; never for clients that take JSON only.
    stream_at: Option<Instant>,
    /// For a batch: the answers so far.
    batch: Option<Batch>,
    /// From the first time that there was something to wait for.
    alarm: Option<Alarm>,
}

#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) answers: Vec<Raw>,
    pub(crate) receipts: Vec<Receipt>,
}

enum Verdict {
    Json(Reply),
    Stream(Start),
}

impl Open {
    pub(crate) fn new(shared: &Arc<Shared>, client: Client, calls: Calls, accept: Accept) -> Self {
        let stream_at = accept.takes_stream().then(|| Instant::now() + shared.settings.sse_after);
        let holder = pump::front_of(&client);
        let (calls, commit) = (Some(calls), Commit::Lazily);
        Self { shared: shared.clone(), client, calls, holder, accept, commit, stream_at, batch: None, alarm: None }
    }

    /// Does not wait for the first word.
    #[must_use]
    pub(crate) fn eagerly(mut self) -> Self {
        self.commit = Commit::Eagerly;
        self
    }

    /// Answers with an array, to which these belong already.
    #[must_use]
    pub(crate) fn batch(mut self, answers: Vec<Raw>) -> Self {
        self.batch = Some(Batch { answers, receipts: Vec::new() });
        self
    }

    /// The reply, now that its form is clear.
    fn committed(mut self, verdict: Verdict) -> Reply {
        if let Some(alarm) = self.alarm.take() {
            self.shared.alarms.put_back(alarm);
        }
        match verdict {
            Verdict::Json(reply) => {
                self.holder = self.holder.on(Happened::Ended);
                reply
            }
            Verdict::Stream(start) => Reply::stream(self.into_frames(start)),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Verdict> {
        if self.accept == Accept::Stream {
            return Poll::Ready(Verdict::Stream(Start::Silent));
        }
        loop {
            let can_ask = self.accept.takes_stream() || self.listener().is_some();
            let Some(calls) = &mut self.calls else { return Poll::Pending };
            match calls.poll(cx, can_ask) {
                Poll::Ready(None) => return Poll::Ready(Verdict::Json(self.array())),
                Poll::Ready(Some(Said::End(ended))) => match &mut self.batch {
                    None => return Poll::Ready(Verdict::Json(single(ended))),
                    Some(batch) => batch.add(ended),
                },
                Poll::Ready(Some(said)) if self.accept.takes_stream() => {
                    return Poll::Ready(Verdict::Stream(Start::With(said)));
                }
                Poll::Ready(Some(said)) => self.divert(said),
                Poll::Pending if self.commit == Commit::Eagerly && self.accept.takes_stream() => {
                    return Poll::Ready(Verdict::Stream(Start::Silent));
                }
                Poll::Pending => {
                    let due = calls.due().into_iter().chain(self.stream_at).min();
                    let Some(due) = due else { return Poll::Pending };
                    let alarm = self.alarm.get_or_insert_with(|| self.shared.alarms.take(due));
                    std::task::ready!(alarm.poll(due, cx));
                    if self.stream_at.is_some_and(|at| at <= Instant::now()) {
                        return Poll::Ready(Verdict::Stream(Start::Waiting));
                    }
                }
            }
        }
    }

    /// The open standalone stream of the client.
    fn listener(&self) -> Option<&Arc<dyn lb_exchange::Seat>> {
        self.client.seat().filter(|seat| self.shared.listeners.has(seat.id()))
    }

    /// What a client that takes JSON only cannot be told here: requests go to its standalone stream.
    fn divert(&self, said: Said) {
        match (said, self.client.seat()) {
            (Said::Ask(line), Some(seat)) => {
                let streams = seat.streams();
                streams.append(streams.standalone(), Some(line));
            }
            _ => tracing::debug!("a note was dropped: the client takes JSON only"),
        }
    }

    fn array(&mut self) -> Reply {
        let Batch { answers, receipts } = self.batch.take().unwrap_or_default();
        if answers.is_empty() {
            return Reply::accepted();
        }
        let body = compose::array(answers.iter()).bytes().clone();
        Reply::Json { status: 200, body, session: None, receipt: Receipt::all(receipts) }
    }

    fn into_frames(mut self, start: Start) -> Frames {
        let (shared, client) = (self.shared.clone(), self.client.clone());
        let calls = self.calls.take().unwrap_or_else(|| Calls::several(Vec::new()));
        let early = self.batch.take().unwrap_or_default();
        Frames::new(Source::Live(Box::new(Live::new(shared, client, calls, self.holder, early, start))))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(calls) = self.calls.take() {
            pump::lose(&self.shared, &self.client, calls, self.holder, None);
        }
    }
}

impl Batch {
    fn add(&mut self, ended: Ended) {
        self.answers.extend(ended.answer);
        self.receipts.extend(ended.receipt);
    }
}

fn single(ended: Ended) -> Reply {
    match ended.answer {
        Some(answer) => {
            Reply::Json { status: ended.status, body: answer.bytes().clone(), session: None, receipt: ended.receipt }
        }
        None => Reply::Empty { status: ended.status },
    }
}
