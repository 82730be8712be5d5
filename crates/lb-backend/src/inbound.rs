//! A server's message, sorted: answer, note or ask, and for whom.

use lb_exchange::{
    Answer, Ask, AskKey, AskKind, Associated, Command, End, ErrorBody, Feed, FeedItem, Hints, List, Note, OpenAsks,
    Outcome, Output, Remote, Resume, Stray, Unnamed, Whence, associate,
};
use lb_wire::revision::{Era, code};
use lb_wire::splice::Splice;
use lb_wire::{Id, Message, Raw, Shape, Text, compose};

use crate::calls::{Calls, LOG, Names, PROGRESS};
use crate::lists::Lists;

/// What belongs to one connection and is touched by every message that it brings.
#[derive(Debug)]
pub struct Intake {
    /// Requests of ours.
    pub calls: Calls,
    /// What belongs to no request.
    pub feed: Feed,
    /// What the server told us of its lists.
    pub lists: Lists,
    /// Answers to asks that went into the feed.
    pub feed_asks: Remote,
    /// Asks that wait for their answers whatever becomes of calls.
    pub open_asks: OpenAsks,
    /// The wire contract of this connection.
    pub era: Era,
    /// Whether the server runs in this process, and may ask for what only we can do.
    pub embedded: bool,
}

/// A line to send back at once.
pub type Reply = Option<Raw>;

impl Intake {
    /// For a new connection, which speaks into this feed; answers to what it asks there go to `feed_asks`.
    pub fn new(era: Era, feed: Feed, feed_asks: Remote) -> Self {
        let open_asks = OpenAsks::default();
        let feed_asks = counted(feed_asks, open_asks.clone());
        Self { calls: Calls::new(), feed, lists: Lists::default(), feed_asks, open_asks, era, embedded: false }
    }

    /// Whether the server waits for the answer to something that it asked outside of any call.
    pub fn has_open_asks(&self) -> bool {
        !self.open_asks.is_empty()
    }

    /// Takes in one message and gives what must be answered right away.
    pub fn take(&self, message: &Message, whence: Whence) -> Reply {
        match message.shape() {
            Shape::Result | Shape::Error => {
                self.answered(message, whence);
                None
            }
            Shape::Notification => {
                self.noted(message, whence);
                None
            }
            Shape::Request => self.asked(message, whence),
        }
    }

    /// Takes in a line that is no message.
    pub fn output(&self, from: Output, line: &[u8]) {
        output(&self.feed, from, line);
    }

    fn answered(&self, message: &Message, whence: Whence) {
        let Some(id) = message.id() else { return self.unreadable(message, whence) };
        // An id that we never gave out, or whose call is over, belongs to nobody: stale answers are dropped.
        if let Some(slot) = id.to_number().and_then(|id| self.calls.answered(id)) {
            slot.end(self.end_of(message, slot.names()));
        }
    }

    /// An error that answers no id. It belongs to a request of ours only if the server could not read that; otherwise it
    /// would have named it.
    fn unreadable(&self, message: &Message, whence: Whence) {
        let end = self.end_of(message, &Names::default());
        let parsing = match &end.outcome {
            Outcome::Error(error) if error.code == code::PARSE_ERROR => true,
            Outcome::Error(error) if error.code == code::INVALID_REQUEST => false,
            _ => return,
        };
        match whence {
            Whence::Shared => self.calls.unreadable(end, parsing),
            Whence::Stream(id) => {
                if let Some(slot) = self.calls.answered(id) {
                    slot.end(end);
                }
            }
        }
    }

    /// The end that an answer stands for.
    pub fn end_of(&self, message: &Message, names: &Names) -> End {
        let outcome = match message.shape() {
            Shape::Error => Outcome::Error(ErrorBody::from_server(message.body().unwrap_or_else(Raw::empty_object))),
            _ => Outcome::Result(renamed(message, names).unwrap_or_else(Raw::empty_object)),
        };
        let failed = message.member_bytes("isError") == Some(b"true");
        End { feed_mark: self.feed.mark(), failed, ..End::from_server(outcome, self.era) }
    }

    fn noted(&self, message: &Message, whence: Whence) {
        let method = message.method();
        if method == "notifications/cancelled" {
            return self.withdrawn(message, whence);
        }
        if self.embedded && method == PAUSE {
            return self.paused(message);
        }
        let changed = List::of_change(method);
        if let Some(list) = changed {
            // In wire order: before anything that comes later is passed on.
            self.lists.invalidate(list);
        }
        let updated = method == "notifications/resources/updated";
        let subscription = message.meta(SUBSCRIPTION_KEY).and_then(|raw| number(&raw));
        let progress =
            (method == PROGRESS).then(|| message.member("progressToken").and_then(|raw| number(&raw))).flatten();
        let hints = Hints { progress, subscription, related: None, general: changed.is_some() || updated };
        if method == PROGRESS && progress.is_none() {
            return; // no token of ours
        }
        match self.associate(whence, hints, Unnamed::Note) {
            Associated::Exchange(id) => self.to_exchange(id, message, progress.is_some()),
            Associated::Feed if method == PROGRESS => {} // of a call that is over
            Associated::Feed => self.to_feed(message, changed, updated),
        }
    }

    fn associate(&self, whence: Whence, hints: Hints, unnamed: Unnamed) -> Associated {
        associate(whence, hints, self.calls.in_flight().into_iter(), unnamed)
    }

    /// `named` when the server itself says which request it speaks of.
    fn to_exchange(&self, id: u64, message: &Message, named: bool) {
        let slot = if named { self.calls.heard(id) } else { self.calls.get(id) };
        let Some(slot) = slot else { return };
        if let Some(note) = note_for(message, slot.names()) {
            slot.note(note);
        }
    }

    fn to_feed(&self, message: &Message, changed: Option<List>, updated: bool) {
        let note = Note::new(message.method_text(), message.body());
        let item = match changed {
            Some(list) => FeedItem::Changed(list, note),
            None if updated => {
                let uri = message.member("uri").and_then(|raw| raw.to_text().map(|uri| Text::from(&*uri)));
                FeedItem::Updated(uri.unwrap_or_else(|| Text::from_static("")), note)
            }
            None if message.method() == LOG => FeedItem::Log(note),
            None => FeedItem::Note(note),
        };
        // Only asks can be refused by a feed.
        drop(self.feed.push(item));
    }

    fn withdrawn(&self, message: &Message, whence: Whence) {
        let Some(id) = message.member("requestId") else { return };
        let key = AskKey(Text::from(id.as_str()));
        // First: whoever hears of it must not find it open.
        self.open_asks.close(&key);
        // The exchange that has the ask is not recorded: every open one may look, and only its owner acts on it.
        let candidates: Vec<u64> = match whence {
            Whence::Stream(id) => vec![id],
            Whence::Shared => self.calls.in_flight().iter().map(|call| call.id).collect(),
        };
        for slot in candidates.into_iter().filter_map(|id| self.calls.get(id)) {
            slot.withdraw(&key);
        }
        drop(self.feed.push(FeedItem::Withdraw(key)));
    }

    /// An embedded server wants the client's stream of a request closed, and works on.
    fn paused(&self, message: &Message) {
        let call = message.member("requestId").and_then(|raw| number(&raw));
        if let Some(slot) = call.and_then(|id| self.calls.heard(id)) {
            slot.pause();
        }
    }

    fn asked(&self, message: &Message, whence: Whence) -> Reply {
        let id = message.id()?;
        if message.method() == "ping" {
            return Some(compose::result(id, &Raw::empty_object()));
        }
        let ask = Ask {
            key: AskKey(Text::from(id.to_raw().as_str())),
            kind: AskKind::of(message.method()),
            method: message.method_text(),
            params: message.body(),
            resume: Resume::Live,
        };
        let kind = ask.kind;
        // With nobody to hear the feed, a call that could be meant is a better guess than a refusal.
        let heard = self.feed.is_heard();
        let taken = match self.associate(whence, Hints::default(), Unnamed::Ask { heard }) {
            Associated::Exchange(call) if whence == Whence::Shared => self.to_call_as_stray(call, ask),
            Associated::Exchange(call) => self.calls.get(call).is_some_and(|slot| slot.ask(ask)),
            Associated::Feed if !heard => false,
            Associated::Feed => self.to_feed_as_ask(ask),
        };
        (!taken).then(|| answer_line(id, &kind.refusal()))
    }
}

impl Intake {
    /// False when there is no room for it.
    fn to_feed_as_ask(&self, ask: Ask) -> bool {
        let key = ask.key.clone();
        self.open_asks.open(key.clone());
        let taken = self.feed.push(FeedItem::Ask(ask, self.feed_asks.clone())).is_ok();
        if !taken {
            self.open_asks.close(&key);
        }
        taken
    }

    /// Gives a call what is only thought to belong to it. Without room it refuses itself.
    fn to_call_as_stray(&self, call: u64, ask: Ask) -> bool {
        let stray = Stray::new(ask.key.clone(), ask.kind, self.open_asks.clone(), self.feed_asks.clone());
        let ask = Ask { resume: Resume::Stray(stray), ..ask };
        if let Some(slot) = self.calls.get(call) {
            slot.ask(ask);
        }
        true
    }
}

/// The same remote for asks that are open, each of which is answered once.
fn counted(remote: Remote, open: OpenAsks) -> Remote {
    Remote::sink(move |command| match command {
        Command::Answer(key, answer) => open.close(&key) && remote.answer(key, answer),
        Command::Cancel(why) => remote.cancel(why),
        Command::Back => remote.back(),
        Command::Away => remote.away(),
        Command::Alone => remote.alone(),
    })
}

/// Bytes of a line of output that are kept: one more than anybody keeps, so that it shows where it was cut.
const OUTPUT_BYTES_MAX: usize = (16 << 10) + 1;

/// Puts a line of output into a feed.
pub fn output(feed: &Feed, from: Output, line: &[u8]) {
    let kept = line.get(..line.len().min(OUTPUT_BYTES_MAX)).unwrap_or_default();
    let text = Text::from(&*String::from_utf8_lossy(kept));
    // Only asks can be refused by a feed.
    drop(feed.push(FeedItem::Output(from, text)));
}

/// The one notification that never leaves this process: a server on HTTP would close the stream itself.
const PAUSE: &str = "landbridge/pause";

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// The answer to a server's request.
pub fn answer_line(id: &Id, answer: &Answer) -> Raw {
    match answer {
        Answer::Result(result) => compose::result(id, result),
        Answer::Error(error) => compose::error(id, error),
    }
}

/// The id that an ask's key was made from.
pub fn ask_id(key: &AskKey) -> Option<Id> {
    Raw::parse(bytes::Bytes::copy_from_slice(key.0.as_bytes())).ok().and_then(|raw| Id::from_raw(&raw))
}

/// A notification with the client's names in place of ours; `None` for a broken one.
pub fn note_for(message: &Message, names: &Names) -> Option<Note> {
    if message.method() != PROGRESS {
        return Some(Note::new(message.method_text(), renamed(message, names)));
    }
    let at = message.member_span_in_body("progressToken")?;
    let body = message.body()?;
    Some(match &names.token {
        Some(token) => Note::new(message.method_text(), Some(Splice::new(body).replace(at, token).apply())),
        None => Note { forward: false, ..Note::new(message.method_text(), Some(body)) },
    })
}

/// The body, with the client's id of a listen where the server repeats ours.
fn renamed(message: &Message, names: &Names) -> Option<Raw> {
    let body = message.body()?;
    Some(match (&names.listen, message.meta_span_in_body(SUBSCRIPTION_KEY)) {
        (Some(listen), Some(at)) => Splice::new(body).replace(at, listen).apply(),
        _ => body,
    })
}

fn number(raw: &Raw) -> Option<u64> {
    Id::from_raw(raw)?.to_number()
}
