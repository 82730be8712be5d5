//! The exchange itself: a driver that makes steps when polled, and a remote through which others speak to it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lb_telemetry::Watch;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use crate::measure;
use crate::middle::BoxFuture;
use crate::server::ServerSpec;
use crate::step::{Answer, AskKey, Cancel, Command, End, Step};

/// One request that we make good on.
///
/// Whoever holds it polls it; nothing happens otherwise. Dropping it before its end cancels it.
pub struct Exchange {
    drive: Drive,
    remote: Remote,
    server: Option<Arc<ServerSpec>>,
    unhurried: bool,
    /// Counts it at its end.
    watch: Option<Watch>,
    /// What comes before its end is told.
    last: Option<Last>,
    /// What it does not outlive.
    until: Option<BoxFuture<'static, ()>>,
    /// Room that it takes up until it is dropped.
    _room: Option<OwnedSemaphorePermit>,
}

/// What comes before the end of an exchange is told.
enum Last {
    /// To be done when the end is there.
    Work(Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>),
    /// Under way, with the end.
    Doing(BoxFuture<'static, ()>, Box<End>),
}

enum Drive {
    Ready(Option<Box<End>>),
    Driver(Box<dyn Driver>),
    /// Straight code. Wake-ups need no bookkeeping: the body is polled whenever the exchange is.
    Routine(Pin<Box<dyn Future<Output = End> + Send>>),
}

/// The thing that must be polled for steps to come.
pub trait Driver: Send {
    /// The next step. Not polled again after [`Step::End`]. Commands are in the mailbox of the [`Remote`] that the
    /// exchange was made with; sending one wakes whoever polled last.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step>;
}

impl Exchange {
    /// An exchange that has already ended, such as one answered from a cache.
    pub fn ready(end: End) -> Self {
        Self::made_of(Drive::Ready(Some(Box::new(end))), Remote::deaf())
    }

    /// An exchange with a driver of its own.
    pub fn new(driver: impl Driver + 'static, remote: Remote) -> Self {
        Self::made_of(Drive::Driver(Box::new(driver)), remote)
    }

    /// An exchange written as straight code: `make` gets a [`Yield`] to hand out steps, and returns the end.
    pub fn routine<F>(make: impl FnOnce(Yield) -> F) -> Self
    where
        F: Future<Output = End> + Send + 'static,
    {
        let mailbox = Arc::<Mutex<Mailbox>>::default();
        let body = make(Yield(mailbox.clone()));
        Self::made_of(Drive::Routine(Box::pin(body)), Remote(Way::Mailbox(mailbox)))
    }

    fn made_of(drive: Drive, remote: Remote) -> Self {
        Self { drive, remote, server: None, unhurried: false, watch: None, last: None, until: None, _room: None }
    }

    /// An exchange that is another one, once that can be made: connecting happens inside.
    pub fn deferred(inner: impl Future<Output = Self> + Send + 'static) -> Self {
        let remote = Remote::new();
        Self::new(Deferred { state: Waiting::For(Box::pin(inner)), audience: None, remote: remote.clone() }, remote)
    }

    /// The handle through which others answer and cancel.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Says which server is behind it, whose limits hold in place of the holder's own.
    #[must_use]
    pub fn with_server(mut self, server: Option<Arc<ServerSpec>>) -> Self {
        self.server = server;
        self
    }

    /// Counts it, and ends its spans, at its end.
    #[must_use]
    pub fn watched(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Does something when its end is there, and tells that only afterwards.
    #[must_use]
    pub fn ending_with(mut self, work: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) -> Self {
        self.last = Some(Last::Work(Box::new(work)));
        self
    }

    /// Ends it as soon as something else is over, with nothing more to say.
    #[must_use]
    pub fn until(mut self, over: impl Future<Output = ()> + Send + 'static) -> Self {
        self.until = Some(Box::pin(over));
        self
    }

    /// Takes up room until it is dropped.
    #[must_use]
    pub fn taking(mut self, room: OwnedSemaphorePermit) -> Self {
        self._room = Some(room);
        self
    }

    /// Says that it has limits of its own: its holder waits for as long as it takes.
    #[must_use]
    pub fn unhurried(mut self) -> Self {
        self.unhurried = true;
        self
    }

    /// Whether it has limits of its own.
    pub fn is_unhurried(&self) -> bool {
        self.unhurried
    }

    /// The server behind it, where there is one.
    pub fn server(&self) -> Option<&Arc<ServerSpec>> {
        self.server.as_ref()
    }

    /// How long its holder waits for the next step; `None` leaves that to the holder.
    pub fn quiet_max(&self) -> Option<Duration> {
        self.server.as_ref().and_then(|server| server.timeout)
    }

    /// The next step.
    ///
    /// Cancel safe: yes, a step is only taken when it is returned.
    pub async fn step(&mut self) -> Step {
        std::future::poll_fn(|cx| self.poll_step(cx)).await
    }

    /// The next step, for holders that are polled themselves.
    pub fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let entered = self.watch.as_ref().and_then(Watch::enter);
        let step = self.poll_last(cx);
        drop(entered);
        if let Poll::Ready(Step::End(end)) = &step
            && let Some(watch) = self.watch.take()
        {
            let (outcome, code) = measure::outcome(end, self.remote.is_overdue());
            watch.end(outcome, code);
        }
        step
    }

    fn poll_last(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            match self.last.take() {
                None => return self.poll_drive(cx),
                Some(Last::Work(work)) => match self.poll_drive(cx) {
                    Poll::Ready(Step::End(end)) => self.last = Some(Last::Doing(work(), Box::new(end))),
                    other => {
                        self.last = Some(Last::Work(work));
                        return other;
                    }
                },
                Some(Last::Doing(mut doing, end)) => match doing.as_mut().poll(cx) {
                    Poll::Ready(()) => return Poll::Ready(Step::End(*end)),
                    Poll::Pending => {
                        self.last = Some(Last::Doing(doing, end));
                        return Poll::Pending;
                    }
                },
            }
        }
    }

    fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.until.as_mut().is_some_and(|over| over.as_mut().poll(cx).is_ready()) {
            self.until = None;
            // Dropping what was under way cancels it.
            self.drive = Drive::Ready(None);
            return Poll::Ready(Step::End(Cancel::SessionEnd.to_end()));
        }
        match &mut self.drive {
            Drive::Ready(end) => match end.take() {
                Some(end) => Poll::Ready(Step::End(*end)),
                None => Poll::Pending,
            },
            Drive::Driver(driver) => {
                self.remote.watch(cx.waker());
                driver.poll_step(cx)
            }
            Drive::Routine(body) => {
                self.remote.watch(cx.waker());
                match body.as_mut().poll(cx) {
                    Poll::Ready(end) => Poll::Ready(Step::End(end)),
                    // The body goes on when its holder comes back for the next step.
                    Poll::Pending => self.remote.yielded().map_or(Poll::Pending, Poll::Ready),
                }
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.end(measure::unended(self.remote.is_overdue()), None);
        }
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exchange")
    }
}

/// The way down an exchange: answers, a cancel, and "somebody is back". Cheap to clone and never blocks.
#[derive(Clone)]
pub struct Remote(Way);

#[derive(Clone)]
enum Way {
    /// Nobody listens.
    Nowhere,
    /// Commands wait until the driver is polled.
    Mailbox(Arc<Mutex<Mailbox>>),
    /// Commands are acted on at once.
    Sink(Arc<dyn Fn(Command) -> bool + Send + Sync>),
}

#[derive(Default)]
struct Mailbox {
    commands: VecDeque<Command>,
    waker: Option<Waker>,
    /// A step on its way out of a routine.
    out: Option<Step>,
    /// Whether it was cancelled because its time was over.
    overdue: bool,
}

impl Remote {
    /// Open asks are capped at 16 per exchange, so more commands than this is a peer repeating itself.
    const COMMANDS_MAX: usize = 64;

    /// A remote with a mailbox.
    #[expect(clippy::new_without_default, reason = "a default remote could as well be the deaf one")]
    pub fn new() -> Self {
        Self(Way::Mailbox(Arc::default()))
    }

    /// A remote that nobody listens to.
    pub fn deaf() -> Self {
        Self(Way::Nowhere)
    }

    /// A remote whose commands are acted on at once; `act` must not block and says whether it could.
    pub fn sink(act: impl Fn(Command) -> bool + Send + Sync + 'static) -> Self {
        Self(Way::Sink(Arc::new(act)))
    }

    /// Answers an ask. False when nobody is there to take it.
    pub fn answer(&self, key: AskKey, answer: Answer) -> bool {
        self.send(Command::Answer(key, answer))
    }

    /// Cancels the exchange: its next step is the end, with nothing to say to the client.
    pub fn cancel(&self, why: Cancel) -> bool {
        self.send(Command::Cancel(why))
    }

    /// Somebody is back to listen, after a pause or when nobody was.
    pub fn back(&self) -> bool {
        self.send(Command::Back)
    }

    /// Nobody listens now; the client may come back for what comes.
    pub fn away(&self) -> bool {
        self.send(Command::Away)
    }

    /// The client is gone and can never ask for what comes.
    pub fn alone(&self) -> bool {
        self.send(Command::Alone)
    }

    /// Takes the next command; for drivers.
    pub fn take(&self) -> Option<Command> {
        match &self.0 {
            Way::Mailbox(mailbox) => mailbox.lock().commands.pop_front(),
            Way::Nowhere | Way::Sink(_) => None,
        }
    }

    /// Whether it was cancelled because its time was over.
    fn is_overdue(&self) -> bool {
        match &self.0 {
            Way::Mailbox(mailbox) => mailbox.lock().overdue,
            Way::Nowhere | Way::Sink(_) => false,
        }
    }

    /// The step that a routine is handing out.
    fn yielded(&self) -> Option<Step> {
        match &self.0 {
            Way::Mailbox(mailbox) => mailbox.lock().out.take(),
            Way::Nowhere | Way::Sink(_) => None,
        }
    }

    fn send(&self, command: Command) -> bool {
        let mailbox = match &self.0 {
            Way::Mailbox(mailbox) => mailbox,
            Way::Sink(act) => return act(command),
            Way::Nowhere => return false,
        };
        let waker = {
            let mut mailbox = mailbox.lock();
            mailbox.overdue |= matches!(command, Command::Cancel(Cancel::Deadline));
            if Self::COMMANDS_MAX <= mailbox.commands.len() {
                return false;
            }
            mailbox.commands.push_back(command);
            mailbox.waker.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Whom to wake when a command comes; for whoever polls the driver.
    pub fn watch(&self, waker: &Waker) {
        let Way::Mailbox(mailbox) = &self.0 else { return };
        let mut mailbox = mailbox.lock();
        match &mailbox.waker {
            Some(known) if known.will_wake(waker) => {}
            _ => mailbox.waker = Some(waker.clone()),
        }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Remote")
    }
}

/// Hands steps out of a routine, and commands into it.
pub struct Yield(Arc<Mutex<Mailbox>>);

impl Yield {
    /// Hands out one step and waits until it is taken.
    ///
    /// Cancel safe: no, a step may be lost.
    pub async fn step(&self, step: Step) {
        self.0.lock().out = Some(step);
        std::future::poll_fn(|_| if self.0.lock().out.is_some() { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// The next command.
    ///
    /// Cancel safe: yes.
    pub async fn command(&self) -> Command {
        std::future::poll_fn(|_| self.try_command().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// The next command, if one is waiting.
    pub fn try_command(&self) -> Option<Command> {
        self.0.lock().commands.pop_front()
    }
}

/// An exchange that is not there yet.
struct Deferred {
    state: Waiting,
    /// What was last said of who listens.
    audience: Option<Command>,
    remote: Remote,
}

enum Waiting {
    For(Pin<Box<dyn Future<Output = Exchange> + Send>>),
    Over(Exchange),
}

impl Driver for Deferred {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if let Waiting::For(inner) = &mut self.state {
            match inner.as_mut().poll(cx) {
                Poll::Ready(exchange) => self.state = Waiting::Over(exchange),
                Poll::Pending => return self.obey(),
            }
        }
        let Waiting::Over(exchange) = &mut self.state else { return Poll::Pending };
        if let Some(audience) = self.audience.take() {
            exchange.remote().send(audience);
        }
        while let Some(command) = self.remote.take() {
            exchange.remote().send(command);
        }
        exchange.poll_step(cx)
    }
}

impl Deferred {
    /// What is said before anything was sent.
    fn obey(&mut self) -> Poll<Step> {
        while let Some(command) = self.remote.take() {
            match command {
                // Nobody needs to be told.
                Command::Cancel(why) => return Poll::Ready(Step::End(why.to_end())),
                audience @ (Command::Back | Command::Away | Command::Alone) => self.audience = Some(audience),
                Command::Answer(..) => {}
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use lb_wire::Raw;
    use tokio::sync::oneshot;

    use super::*;
    use crate::step::Outcome;

    #[tokio::test]
    async fn an_end_is_told_after_what_comes_before_it() {
        let (done, work) = oneshot::channel::<()>();
        let end = End::ours(Outcome::Result(Raw::empty_object()));
        let mut exchange = Exchange::ready(end).ending_with(|| {
            Box::pin(async move {
                work.await.expect("it is done");
            })
        });
        let mut step = Box::pin(exchange.step());
        assert!(futures_util::poll!(&mut step).is_pending());
        done.send(()).expect("somebody waits");
        assert!(matches!(step.await, Step::End(_)));
    }
}
