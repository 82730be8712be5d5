//! A connection that is a session: lines in, lines out, both eras at once, as on stdio.
//!
//! Polled by its transport and nothing else: no tasks, and no line is taken in while many wait to go out.

mod turn;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lb_exchange::{BoxFuture, Call, Cancel, Desk, Mount, Receipt, Refusal, Seat, Visitor, Welcome};
use lb_wire::revision::method::{self, MethodFacts};
use lb_wire::revision::{Era, Revision, code};
use lb_wire::{Id, Line, Message, MessageError, Raw, Shape, compose};
use tokio::time::Instant;

use self::turn::Turn;
use crate::alarm::Alarm;
use crate::era::META_VERSION;
use crate::front::Front;
use crate::legacy::{Taken, batch, initialize};
use crate::modern;
use crate::reply::error_message;
use crate::running::{Client, Ended, Running, Said};

/// A line for the client.
#[derive(Debug)]
pub struct Outgoing {
    /// The line.
    pub line: Line,
    /// To be committed when the line has been written and flushed.
    pub receipt: Option<Receipt>,
}

/// One client on a connection that is its session. Dropping it cancels everything and ends the session.
pub struct Connection {
    front: Front,
    mount: Mount,
    visitor: Visitor,
    seat: Option<Arc<dyn Seat>>,
    /// The client is being seated.
    hello: Option<(Id, BoxFuture<'static, Result<Welcome, Refusal>>)>,
    /// Calls of modern requests.
    desk: Arc<Desk>,
    turns: FuturesUnordered<Turn>,
    /// How many calls run that end by themselves; a listen would hold up the end of the connection.
    working: usize,
    /// What belongs to no request. Apart from the calls, because what came before an end must go out before it.
    ear: Option<Turn>,
    listens: bool,
    batches: HashMap<u64, Batch>,
    batches_ever: u64,
    out: VecDeque<Outgoing>,
    /// No more lines come; calls may go on until then.
    closing: Option<(Instant, Alarm)>,
    /// The calls have been ended.
    cut_off: bool,
    over: bool,
}

#[derive(Default)]
struct Batch {
    open: usize,
    answers: Vec<Raw>,
    receipts: Vec<Receipt>,
}

impl Front {
    /// A client on a connection that is its session.
    pub fn connection(&self, visitor: Visitor, mount: Mount) -> Connection {
        let desk = Arc::<Desk>::default();
        desk.widen();
        Connection {
            front: self.clone(),
            mount,
            visitor,
            seat: None,
            hello: None,
            desk,
            turns: FuturesUnordered::new(),
            working: 0,
            ear: None,
            listens: false,
            batches: HashMap::new(),
            batches_ever: 0,
            out: VecDeque::new(),
            closing: None,
            cut_off: false,
            over: false,
        }
    }
}

impl Connection {
    /// Lines that may wait to go out before no more are taken in.
    const OUT_MAX: usize = 64;

    /// Whether a line may be taken in now. Not while the client is being seated: what it sends next depends on that.
    pub fn wants_line(&self) -> bool {
        self.hello.is_none() && self.out.len() < Self::OUT_MAX && self.closing.is_none() && !self.over
    }

    /// Takes in one line. [`Connection::poll_line`] must be called afterwards.
    pub fn take_line(&mut self, line: Bytes) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Message::scan(line.clone()) {
            Ok(message) => self.take(message),
            Err(MessageError::Scan(error)) => {
                self.refuse(Era::Legacy, None, code::PARSE_ERROR, &format!("Parse error: {error}"));
            }
            Err(MessageError::Shape { why, id }) => match Message::batch(&line) {
                Ok(Some(members)) => self.take_batch(members),
                _ => self.refuse(Era::Legacy, id.as_ref(), code::INVALID_REQUEST, &format!("Invalid Request: {why}")),
            },
        }
    }

    /// Answers a line that was too long to be taken in.
    pub fn refuse_line(&mut self, id: Option<&Id>, line_bytes_max: usize) {
        let why = format!("Invalid Request: a line is longer than {line_bytes_max} bytes");
        self.refuse(Era::Legacy, id, code::INVALID_REQUEST, &why);
    }

    /// No more lines will come. Calls may go on for a while; then everything is cancelled and the session ends.
    pub fn finish(&mut self) {
        let due = Instant::now() + self.front.shared.settings.grace;
        self.closing.get_or_insert_with(|| (due, Alarm::new(due)));
    }

    /// The next line to write; `None` when everything is over after [`Connection::finish`].
    pub fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        loop {
            if let Some(outgoing) = self.out.pop_front() {
                return Poll::Ready(Some(outgoing));
            }
            if self.over {
                return Poll::Ready(None);
            }
            if self.poll_hello(cx).is_ready() || self.poll_ear(cx).is_ready() {
                continue;
            }
            match self.turns.poll_next_unpin(cx) {
                Poll::Ready(Some((said, turn))) => {
                    // A server that says "the list changed" and then answers may have done both since the ear was asked.
                    while let (Said::End(_), Poll::Ready(())) = (&said, self.poll_ear(cx)) {}
                    self.say(said, turn);
                }
                Poll::Ready(None) | Poll::Pending => std::task::ready!(self.poll_closing(cx)),
            }
        }
    }

    /// The next line to write; `None` when everything is over.
    ///
    /// Cancel safe: yes.
    pub async fn next_line(&mut self) -> Option<Outgoing> {
        std::future::poll_fn(|cx| self.poll_line(cx)).await
    }

    /// Ready when something was heard that belongs to no request.
    fn poll_ear(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ear) = &mut self.ear else { return Poll::Pending };
        let (said, turn) = std::task::ready!(Pin::new(ear).poll(cx));
        self.ear = (!turn.is_over()).then_some(turn);
        if let Said::Note(line) | Said::Ask(line) = said {
            self.out.push_back(Outgoing { line, receipt: None });
        }
        Poll::Ready(())
    }

    /// Ready when something has changed.
    fn poll_hello(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((id, begin)) = &mut self.hello else { return Poll::Pending };
        let outcome = std::task::ready!(begin.as_mut().poll(cx));
        let answer = match outcome {
            Ok(welcome) => {
                welcome.seat.desk().widen();
                self.seat = Some(welcome.seat);
                (self.listens, self.ear) = (false, None);
                compose::result(id, &welcome.result)
            }
            Err(refusal) => compose::error(id, &refusal.error.raw),
        };
        self.hello = None;
        self.put(answer, None);
        Poll::Ready(())
    }

    /// Ready when everything is over.
    fn poll_closing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((due, alarm)) = &mut self.closing else { return Poll::Pending };
        let idle = self.working == 0 && self.hello.is_none();
        if !idle {
            std::task::ready!(alarm.poll(*due, cx));
            if !std::mem::replace(&mut self.cut_off, true) {
                // Each call that is left gets an error, when it is polled: all of them anew.
                self.front.end_calls();
                self.turns = std::mem::take(&mut self.turns).into_iter().collect();
                return Poll::Ready(());
            }
        }
        self.end();
        Poll::Ready(())
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            self.hello = None;
            self.desk.clear(&Cancel::SessionEnd);
            // Dropping an exchange before its end cancels it.
            self.turns = FuturesUnordered::new();
            self.ear = None;
            if let Some(seat) = &self.seat {
                seat.end(Cancel::SessionEnd);
            }
        }
    }

    fn take(&mut self, message: Message) {
        if let Err(forbidden) = self.front.allows(&self.mount, &self.visitor, &message) {
            let era = if message.meta(META_VERSION).is_some() { Era::Modern } else { Era::Legacy };
            if message.shape() == Shape::Request {
                self.put(forbidden.answer(era, message.id()), None);
            }
            return;
        }
        let facts = method::facts(message.method().as_bytes());
        match message.shape() {
            Shape::Request if self.is_modern(&message, facts) => self.take_modern(message, facts),
            Shape::Request if message.method() == method::INITIALIZE => self.take_hello(message),
            Shape::Notification if message.method() == method::CANCELLED => self.take_cancel(&message),
            Shape::Notification if message.method() == method::INITIALIZED => {
                self.take_legacy(message, None);
                self.listen();
            }
            Shape::Request | Shape::Notification | Shape::Result | Shape::Error => self.take_legacy(message, None),
        }
    }

    /// Modern requests say so; before a session there are also methods that no legacy client sends.
    fn is_modern(&self, message: &Message, facts: Option<&MethodFacts>) -> bool {
        let only_modern = facts.is_some_and(|facts| Revision::LATEST_LEGACY < facts.first);
        message.meta(META_VERSION).is_some() || (self.seat.is_none() && only_modern)
    }

    fn take_modern(&mut self, message: Message, facts: Option<&MethodFacts>) {
        let Some(id) = message.id().cloned() else { return };
        let caller = match modern::check(None, facts, &message, &self.visitor) {
            Ok(caller) => caller,
            Err(fault) => return self.put(fault.answer(&id), None),
        };
        let client = Client::Modern(Some(self.desk.clone()));
        let (caller, mount, rights) = (Arc::new(caller), self.mount.clone(), self.visitor.rights.clone());
        let call = Call { caller, mount, message, headers: None, trace: None, rights };
        match self.front.modern_call(&id, call, client) {
            Ok(running) => self.run(running, None),
            Err(answer) => self.put(answer, None),
        }
    }

    fn take_hello(&mut self, message: Message) {
        let Some(id) = message.id().cloned() else { return };
        // One that goes with its server makes room for another, once nothing runs on it.
        let is_over = |seat: &Arc<dyn Seat>| seat.is_leaving() && seat.desk().running() == 0;
        if self.seat.as_ref().is_some_and(|seat| !is_over(seat)) || self.hello.is_some() {
            let leaves = self.hello.is_none() && self.seat.as_ref().is_some_and(|seat| seat.is_leaving());
            let message = match leaves {
                true => "Invalid Request: calls of the session before still run; try again when they have ended",
                false => "Invalid Request: this session is already initialized",
            };
            return self.refuse(Era::Legacy, Some(&id), code::INVALID_REQUEST, message);
        }
        match initialize::hello(&self.visitor, self.mount.clone(), message) {
            Ok(hello) => {
                let front = self.front.clone();
                self.hello = Some((id, Box::pin(async move { front.begin(hello).await })));
            }
            Err(why) => self.refuse(Era::Legacy, Some(&id), code::INVALID_PARAMS, why),
        }
    }

    fn take_cancel(&mut self, message: &Message) {
        let Some(id) = message.member("requestId").as_ref().and_then(Id::from_raw) else { return };
        let why = || Cancel::Said(message.member("reason"));
        if !self.desk.cancel(&id, why())
            && let Some(seat) = &self.seat
        {
            seat.desk().cancel(&id, why());
        }
    }

    fn take_legacy(&mut self, message: Message, batch: Option<u64>) {
        let Some(seat) = &self.seat else { return self.unseated(&message) };
        match self.front.take(seat, (&self.mount, &self.visitor), message, None) {
            Taken::Nothing => {}
            Taken::Answer(answer, _) => match batch {
                Some(number) => self.batches.entry(number).or_default().answers.push(answer),
                None => self.put(answer, None),
            },
            Taken::Call(running) => self.run(running, batch),
        }
    }

    /// Before `initialize` only a ping is answered.
    fn unseated(&mut self, message: &Message) {
        match message.id() {
            Some(id) if message.shape() == Shape::Request && message.method() == method::PING => {
                self.put(compose::result(id, &Raw::empty_object()), None);
            }
            Some(id) if message.shape() == Shape::Request => {
                let why = "Invalid Request: send an initialize request first";
                self.refuse(Era::Legacy, Some(id), code::INVALID_REQUEST, why);
            }
            _ => {}
        }
    }

    fn take_batch(&mut self, members: Vec<Bytes>) {
        let allowed = self.seat.as_ref().is_some_and(|seat| seat.caller().revision.batches());
        let sorted = if allowed { batch::sort(members) } else { None };
        let Some(sorted) = sorted else {
            let why = "Invalid Request: batches of 1 to 64 members belong to sessions of 2025-03-26";
            return self.refuse(Era::Legacy, None, code::INVALID_REQUEST, why);
        };
        if let Err(forbidden) = self.front.allow_all(&self.mount, &self.visitor, &sorted.messages) {
            return self.put(forbidden.answer(Era::Legacy, None), None);
        }
        self.batches_ever += 1;
        let number = self.batches_ever;
        self.batches.insert(number, Batch { answers: sorted.errors, ..Batch::default() });
        for message in sorted.messages {
            if message.shape() == Shape::Request {
                self.take_legacy(message, Some(number));
            } else {
                self.take(message);
            }
        }
        self.close_batch(number);
    }

    /// Sends the answers of a batch once it has all of them.
    fn close_batch(&mut self, number: u64) {
        if self.batches.get(&number).is_none_or(|batch| batch.open != 0) {
            return;
        }
        let Some(batch) = self.batches.remove(&number) else { return };
        if !batch.answers.is_empty() {
            self.put(compose::array(batch.answers.iter()), Receipt::all(batch.receipts));
        }
    }

    fn run(&mut self, running: Running, batch: Option<u64>) {
        self.working += usize::from(!running.is_endless());
        if let Some(number) = batch {
            self.batches.entry(number).or_default().open += 1;
        }
        self.turns.push(Turn::new(running, batch));
    }

    /// What belongs to no request comes unasked once the client is ready for it.
    fn listen(&mut self) {
        if let (false, Some(seat)) = (self.listens, &self.seat) {
            self.listens = true;
            let client = Client::Legacy(seat.clone());
            self.ear = Some(Turn::new(Running::listen(seat.listen(), client, &self.front.shared.settings), None));
        }
    }

    fn say(&mut self, said: Said, turn: Turn) {
        let batch = turn.batch();
        match said {
            Said::Note(line) | Said::Ask(line) => self.out.push_back(Outgoing { line, receipt: None }),
            Said::Pause(_) => {}
            Said::End(ended) => {
                self.working -= usize::from(turn.is_working());
                self.ended(ended, batch);
            }
        }
        if !turn.is_over() {
            self.turns.push(turn);
        }
    }

    fn ended(&mut self, ended: Ended, batch: Option<u64>) {
        let Some(number) = batch else {
            if let Some(answer) = ended.answer {
                self.put(answer, ended.receipt);
            }
            return;
        };
        if let Some(batch) = self.batches.get_mut(&number) {
            batch.open -= 1;
            batch.answers.extend(ended.answer);
            batch.receipts.extend(ended.receipt);
        }
        self.close_batch(number);
    }

    fn put(&mut self, message: Raw, receipt: Option<Receipt>) {
        self.out.push_back(Outgoing { line: message.into_line(), receipt });
    }

    fn refuse(&mut self, era: Era, id: Option<&Id>, code: i64, message: &str) {
        self.put(error_message(era, id, code, message, None), None);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({} calls)", self.working)
    }
}
