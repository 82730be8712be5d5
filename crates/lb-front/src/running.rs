//! One call of a client while it runs: steps in, what to say to the client out.
//!
//! Knows ids, asks and deadlines of one exchange. Where the words go (a body, a stream, a line) is not its business.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use lb_exchange::{
    Ask, AskKey, AskKind, Cancel, Desk, End, Exchange, Outcome, Receipt, Remote, Resume, Seat, Step, Stray,
};
use lb_wire::revision::method::{self, MethodFacts};
use lb_wire::revision::{Era, code};
use lb_wire::{Id, Line, Raw, compose};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::convert;
use crate::registry::Shared;
use crate::settings::Settings;
use crate::traffic::Counted;
use crate::watch::Watch;

/// Whom a call is for.
#[derive(Clone)]
pub(crate) enum Client {
    /// A seated client.
    Legacy(Arc<dyn Seat>),
    /// A modern client; with a desk where it can cancel by id.
    Modern(Option<Arc<Desk>>),
}

impl Client {
    pub(crate) fn era(&self) -> Era {
        match self {
            Self::Legacy(_) => Era::Legacy,
            Self::Modern(_) => Era::Modern,
        }
    }

    pub(crate) fn seat(&self) -> Option<&Arc<dyn Seat>> {
        match self {
            Self::Legacy(seat) => Some(seat),
            Self::Modern(_) => None,
        }
    }

    pub(crate) fn desk(&self) -> Option<&Desk> {
        match self {
            Self::Legacy(seat) => Some(seat.desk()),
            Self::Modern(desk) => desk.as_deref(),
        }
    }

    /// Whether the client declared that it can answer this.
    fn can_answer(&self, kind: AskKind) -> bool {
        let Some(seat) = self.seat() else { return false };
        let capability = match kind {
            AskKind::Elicitation => "elicitation",
            AskKind::Sampling => "sampling",
            AskKind::Roots => "roots",
            AskKind::Other => return false,
        };
        seat.caller().capabilities.has(capability)
    }
}

/// What a call says to its client.
#[derive(Debug)]
pub(crate) enum Said {
    /// A notification.
    Note(Line),
    /// A request to the client.
    Ask(Line),
    /// The server would like to go on later.
    Pause(Option<std::time::Duration>),
    /// The end.
    End(Ended),
}

/// The end of a call.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The response; `None` when nothing more is said about the request.
    pub answer: Option<Raw>,
    /// The HTTP status, where one can still be chosen.
    pub status: u16,
    /// To be committed when the bytes are safe.
    pub receipt: Option<Receipt>,
}

/// A call that runs.
pub(crate) struct Running {
    /// The client's id; none for a listen.
    id: Option<Id>,
    /// Gone once it has ended.
    exchange: Option<Exchange>,
    client: Client,
    facts: Option<&'static MethodFacts>,
    watch: Watch,
    asks: SmallVec<[OpenAsk; 1]>,
    /// What is said before the next step is taken.
    backlog: VecDeque<Said>,
    ask_max: std::time::Duration,
    /// Calls only: a listen ends with its connection.
    counted: Option<Counted>,
}

struct OpenAsk {
    key: AskKey,
    kind: AskKind,
    id: Id,
    due: Instant,
    /// How it was said.
    line: Line,
    /// Set when it need not end with the call.
    stray: Option<Stray>,
}

impl Running {
    /// A request under the client's own id, which is reserved on the client's desk.
    pub(crate) fn start(id: Id, method: &str, exchange: Exchange, client: Client, shared: &Shared) -> Self {
        let settings = &shared.settings;
        if let Some(desk) = client.desk() {
            desk.run(id.clone(), exchange.remote().clone());
        }
        let facts = method::facts(method.as_bytes());
        let now = Instant::now();
        let watch = match exchange.is_unhurried() {
            true => Watch::patient(now),
            false => Watch::start(facts, settings, exchange.quiet_max(), now),
        };
        let mut running = Self::new(Some(id), exchange, client, facts, watch, settings);
        running.counted = (!running.is_endless()).then(|| Counted::new(&shared.traffic));
        running
    }

    /// What belongs to no request.
    pub(crate) fn listen(exchange: Exchange, client: Client, settings: &Settings) -> Self {
        Self::new(None, exchange, client, None, Watch::Off, settings)
    }

    fn new(
        id: Option<Id>,
        exchange: Exchange,
        client: Client,
        facts: Option<&'static MethodFacts>,
        watch: Watch,
        settings: &Settings,
    ) -> Self {
        let (exchange, asks, backlog) = (Some(exchange), SmallVec::new(), VecDeque::new());
        Self { id, exchange, client, facts, watch, asks, backlog, ask_max: settings.ask_max, counted: None }
    }

    /// Whom it is for.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The id that its client gave it; none for a listen.
    pub(crate) fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// The way down; deaf once the call has ended.
    pub(crate) fn remote(&self) -> Remote {
        self.exchange.as_ref().map_or_else(Remote::deaf, |exchange| exchange.remote().clone())
    }

    /// Whether the end has been said.
    pub(crate) fn is_over(&self) -> bool {
        self.exchange.is_none() && self.backlog.is_empty()
    }

    /// Whether it ends only when somebody ends it.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self.watch, Watch::Off)
    }

    /// When to poll again even if nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.exchange.as_ref()?;
        self.asks.iter().map(|ask| ask.due).chain(self.watch.due()).min()
    }

    /// The next thing to say. `can_ask` tells whether a request could reach the client now.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, can_ask: bool) -> Poll<Said> {
        loop {
            if let Some(said) = self.backlog.pop_front() {
                return Poll::Ready(said);
            }
            let Some(exchange) = &mut self.exchange else { return Poll::Pending };
            let step = exchange.poll_step(cx);
            let now = Instant::now();
            match step {
                Poll::Ready(step) => {
                    self.watch.step(now);
                    if let Some(said) = self.take(step, now, can_ask) {
                        return Poll::Ready(said);
                    }
                }
                Poll::Pending => {
                    self.settle(now);
                    if self.watch.is_over(now) {
                        self.give_up(cx);
                    } else if self.counted.as_ref().is_some_and(Counted::is_over) {
                        self.shut_down(cx);
                    }
                    if self.backlog.is_empty() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn take(&mut self, step: Step, now: Instant, can_ask: bool) -> Option<Said> {
        match step {
            Step::Note(note) if !note.forward => None,
            Step::Note(note) => Some(Said::Note(compose::notification(&note.method, note.params.as_ref()).into_line())),
            Step::Ask(ask) => self.ask(ask, now, can_ask),
            Step::Withdraw { key } => {
                let Some(at) = self.asks.iter().position(|ask| ask.key == key) else {
                    // It may be one that has outlived its call.
                    return self.client.desk()?.withdraw_left(&key).map(|id| Said::Note(cancelled(&id)));
                };
                let ask = self.asks.remove(at);
                self.watch_asks(now);
                self.client.desk()?.withdraw(&ask.id).then(|| Said::Note(cancelled(&ask.id)))
            }
            Step::Pause { retry } => Some(Said::Pause(retry)),
            Step::End(end) => {
                self.exchange = None;
                self.end(end);
                self.backlog.pop_front()
            }
        }
    }

    fn ask(&mut self, ask: Ask, now: Instant, can_ask: bool) -> Option<Said> {
        let stray = match (ask.resume, self.client.era()) {
            // The end that follows says so in the client's own terms.
            (Resume::Replay { .. }, Era::Modern) => return None,
            (Resume::Replay { .. }, Era::Legacy) => {
                self.exchange = None;
                self.end(End::ours(convert::needs_input(self.facts)));
                return self.backlog.pop_front();
            }
            (Resume::Live, _) => None,
            (Resume::Stray(stray), _) => Some(stray),
        };
        let remote = self.remote();
        let id = match self.client.desk() {
            Some(desk) if can_ask && self.client.can_answer(ask.kind) => {
                let answered = stray.as_ref().map_or_else(|| remote.clone(), |stray| stray.remote(remote.clone()));
                desk.ask(answered, ask.key.clone(), ask.kind)
            }
            _ => None,
        };
        let Some(id) = id else {
            remote.answer(ask.key, ask.kind.refusal());
            return None;
        };
        let line = compose::request(&id, &ask.method, ask.params.as_ref()).into_line();
        let (key, kind, due) = (ask.key, ask.kind, now + self.ask_max);
        self.asks.push(OpenAsk { key, kind, id, due, line: line.clone(), stray });
        self.watch.stop(now);
        Some(Said::Ask(line))
    }

    /// Nobody can ask for what this call has said: gives the questions that wait, to be said elsewhere, or refuses them.
    pub(crate) fn unheard(&mut self, elsewhere: bool) -> Vec<Line> {
        let Some(desk) = self.client.desk() else { return Vec::new() };
        self.asks.retain(|ask| desk.is_open(&ask.id));
        if elsewhere {
            return self.asks.iter().map(|ask| ask.line.clone()).collect();
        }
        let remote = self.remote();
        for ask in std::mem::take(&mut self.asks) {
            if desk.withdraw(&ask.id) {
                remote.answer(ask.key, ask.kind.refusal());
            }
        }
        self.watch_asks(Instant::now());
        Vec::new()
    }

    /// Learns which asks have been answered, and answers for the client where it took too long.
    fn settle(&mut self, now: Instant) {
        if self.asks.is_empty() {
            return;
        }
        let Some(desk) = self.client.desk() else { return };
        self.asks.retain(|ask| desk.is_open(&ask.id));
        let remote = self.remote();
        for ask in self.asks.iter().filter(|ask| ask.due <= now) {
            if desk.withdraw(&ask.id) {
                remote.answer(ask.key.clone(), ask.kind.refusal());
                self.backlog.push_back(Said::Note(cancelled(&ask.id)));
            }
        }
        self.asks.retain(|ask| now < ask.due);
        self.watch_asks(now);
    }

    fn watch_asks(&mut self, now: Instant) {
        if self.asks.is_empty() {
            self.watch.go_on(now);
        }
    }

    /// The deadline has passed.
    fn give_up(&mut self, cx: &mut Context<'_>) {
        let what = format!("no answer within {} s", self.watch.limit().as_secs_f64());
        self.cut_off(cx, Cancel::Deadline, &what, r#"{"reason":"timeout"}"#);
    }

    /// We stop, and it has not ended in time.
    fn shut_down(&mut self, cx: &mut Context<'_>) {
        self.cut_off(cx, Cancel::SessionEnd, "the gateway is shutting down", r#"{"reason":"shutdown"}"#);
    }

    fn cut_off(&mut self, cx: &mut Context<'_>, why: Cancel, what: &str, data: &'static str) {
        let Some(mut exchange) = self.exchange.take() else { return };
        exchange.remote().cancel(why);
        // One more turn, so that a driver can tell its server; whatever it says now comes too late.
        drop(exchange.poll_step(cx));
        let server = exchange.server().map(|server| format!("server {:?}: ", server.name.as_str())).unwrap_or_default();
        let is_call = self.facts.is_none_or(|facts| facts.name == method::TOOLS_CALL);
        let ran = if is_call { "; it may still have run" } else { "" };
        let message = format!("{server}{what}{ran}");
        self.end(End::error(code::INTERNAL_ERROR, &message, Some(&Raw::from_static(data))));
    }

    /// Says the end, after taking back what is still asked and ends with it.
    fn end(&mut self, end: End) {
        self.leave();
        // Only a server that has answered can still want to know.
        let is_answered = end.era.is_some();
        for ask in std::mem::take(&mut self.asks) {
            let Some(desk) = self.client.desk() else { continue };
            // Looked at last: it may be taken back meanwhile, and whoever hears of that finds it left.
            let stays = |stray: Stray| is_answered && desk.leave(&ask.id, ask.due) && stray.is_open();
            if !ask.stray.is_some_and(stays) && desk.withdraw(&ask.id) {
                self.backlog.push_back(Said::Note(cancelled(&ask.id)));
            }
        }
        let ended = self.ended(end);
        self.backlog.push_back(Said::End(ended));
    }

    fn ended(&self, end: End) -> Ended {
        let era = self.client.era();
        let outcome = match era {
            Era::Legacy => convert::to_legacy(end.outcome, end.era, self.facts),
            Era::Modern => convert::to_modern(end.outcome, end.era, self.facts),
        };
        let Some(id) = &self.id else { return Ended { answer: None, status: 200, receipt: end.receipt } };
        let (answer, status) = match (outcome, era) {
            (Outcome::Result(raw), _) => (Some(compose::result(id, &raw)), 200),
            (Outcome::Error(error), _) if error.busy => (Some(compose::error(id, &error.raw)), 429),
            (Outcome::Error(error), Era::Legacy) => (Some(compose::error(id, &error.raw)), 200),
            (Outcome::Error(error), Era::Modern) => {
                (Some(compose::error(id, &error.raw)), code::modern_status(error.code))
            }
            // Where a client cannot cancel by id, it waits for an answer.
            (Outcome::Cancelled, Era::Modern) if self.client.desk().is_none() => {
                let data = Raw::from_static(r#"{"reason":"cancelled"}"#);
                let error = compose::error_object(code::INTERNAL_ERROR, "the request was cancelled", Some(&data));
                (Some(compose::error(id, &error)), 200)
            }
            (Outcome::Cancelled, _) => (None, 202),
        };
        Ended { answer, status, receipt: end.receipt }
    }

    /// Frees the client's id.
    fn leave(&self) {
        if let (Some(id), Some(desk)) = (&self.id, self.client.desk()) {
            desk.done(id);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.exchange.is_some() {
            self.leave();
            for ask in &self.asks {
                if let Some(desk) = self.client.desk() {
                    desk.withdraw(&ask.id);
                }
            }
        }
    }
}

/// Tells a client that its answer is no longer needed.
fn cancelled(id: &Id) -> Line {
    let params = compose::object(&[("requestId", &id.to_raw())]);
    compose::notification(method::CANCELLED, Some(&params)).into_line()
}
