//! A client of the cluster, with a session or as modern clients are, which writes down everything it does and sees.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lb_peers::raw::handshake::Era;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::balancer::Balancer;
use super::wire::{Answer, Manner, Wire};
use crate::history::{History, How, Must, Record};
use crate::jobs::{Job, marker};
use crate::random::Random;

/// What is counted.
pub const CURSORS_UNKNOWN: &str = "cursors that the session knew no more";

/// The type of the event that owns up to a gap.
const DROPPED: &str = "events_dropped";
/// What a modern client is told that names a session which is not there.
const UNKNOWN: &str = "TOOL_ERR_SESSION_NOT_FOUND";

/// Where clients go, and what they write to.
#[derive(Clone, Debug)]
pub struct Place {
    /// The balancer.
    pub balancer: Arc<Balancer>,
    /// The history.
    pub history: History,
    /// How long whoever was sent away or broken off waits.
    pub pause: Duration,
}

impl Place {
    /// The public address.
    pub fn address(&self) -> SocketAddr {
        self.balancer.address
    }
}

/// What a client is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Surface {
    /// One server at a path of its own.
    Server(&'static str),
    /// The tools, in front of this server.
    Tools(&'static str),
}

/// One client and its session.
pub struct Client {
    /// Its name in the history; another one for every session.
    pub name: String,
    /// What is random about it.
    pub random: Random,
    place: Place,
    surface: Surface,
    era: Era,
    base: String,
    sessions: u32,
    next: u64,
    wire: Option<Wire>,
    /// What a modern client calls the session that it was given.
    handle: Option<String>,
    cursor: Option<String>,
    repeating: usize,
    /// Gaps that it knows of.
    gaps: HashSet<String>,
}

/// Timers of one session that repeat.
const REPEATING_MAX: usize = 2;

impl Client {
    /// A legacy client without a session.
    pub fn new(place: &Place, surface: Surface, base: &str, random: Random) -> Self {
        Self::of(Era::Legacy, place, surface, base, random)
    }

    /// A client of this era.
    pub fn of(era: Era, place: &Place, surface: Surface, base: &str, random: Random) -> Self {
        Self {
            name: base.to_owned(),
            random,
            place: place.clone(),
            surface,
            era,
            base: base.to_owned(),
            sessions: 0,
            next: 1,
            wire: None,
            handle: None,
            cursor: None,
            repeating: 0,
            gaps: HashSet::new(),
        }
    }

    /// Whether it has a session.
    pub fn is_in(&self) -> bool {
        self.wire.is_some()
    }

    /// Whether events can be asked for after one that it had.
    pub fn has_cursor(&self) -> bool {
        self.cursor.is_some()
    }

    /// Tries to open a session, once.
    pub async fn open(&mut self) -> How {
        let (path, capabilities) = match &self.surface {
            Surface::Server(name) => (format!("/mcp/server/{name}"), json!({ "elicitation": {} })),
            Surface::Tools(_) => ("/mcp".to_owned(), json!({})),
        };
        self.sessions += 1;
        (self.name, self.cursor) = (format!("{}.{}", self.base, self.sessions), None);
        (self.repeating, self.handle) = (0, None);
        let history = self.place.history.clone();
        let sent_ms = history.now_ms();
        if self.era == Era::Modern {
            // Nothing is opened; who uses tools has a session from the first one on that is remembered.
            self.wire = Some(Wire::modern(self.place.address(), &path, &self.name, &history));
            if matches!(self.surface, Surface::Tools(_)) {
                history.write(&Record::Opened { at_ms: sent_ms, client: self.name.clone(), node: None });
            }
            return How::Result;
        }
        match Wire::open(self.place.address(), &path, &capabilities, &history).await {
            Ok(wire) => {
                let node = self.place.balancer.opener(wire.session());
                history.write(&Record::Opened { at_ms: history.now_ms(), client: self.name.clone(), node });
                self.named(wire.session());
                self.wire = Some(wire);
                self.requested("initialize", sent_ms, How::Result, "");
                How::Result
            }
            Err(answer) => {
                self.requested("initialize", sent_ms, answer.how, &answer.detail);
                answer.how
            }
        }
    }

    /// Has the server work; with `asks` it asks the client on the way.
    pub async fn work(&mut self, job: Job, asks: bool, cut_after: Option<u64>) -> How {
        let (marker, history) = (marker(&mut self.random), self.place.history.clone());
        let Job { ms, bytes, must, notes } = job;
        let (client, sent) = (self.name.clone(), marker.clone());
        history.write(&Record::Sent { at_ms: history.now_ms(), client, marker: sent, must });
        let args = json!({ "marker": marker, "ms": ms, "notes": notes, "bytes": bytes, "ask": u8::from(asks) });
        let mut params = match &self.surface {
            Surface::Server(_) => json!({ "name": "work", "arguments": args }),
            Surface::Tools(server) => {
                json!({ "name": "execute_tool", "arguments": { "server": server, "tool": "work", "args": args } })
            }
        };
        if 0 < notes {
            params["_meta"] = json!({ "progressToken": format!("t{}", self.next) });
        }
        let stream = (0 < notes).then_some(marker.as_str());
        let manner = Manner { stream, cut_after, word: asks.then_some(marker.as_str()) };
        let answer = self.ask(&params, manner).await;
        if answer.how == How::Result && stream.is_some() {
            history.write(&Record::StreamEnd { stream: marker.clone(), count: notes });
        }
        if matches!(self.surface, Surface::Tools(_)) {
            self.hear_gaps(&answer);
        }
        self.saw(&answer);
        let (at_ms, how, client) = (history.now_ms(), answer.how, self.name.clone());
        history.write(&Record::Ended { at_ms, client, marker, how, detail: answer.detail.clone() });
        self.settle(&answer).await;
        how
    }

    /// Sets a timer that is told by an event, again and again where that is wanted and there are not many such.
    pub async fn arm(&mut self, after: Duration, repeats: bool) -> How {
        let repeats = repeats && self.repeating < REPEATING_MAX;
        self.repeating += usize::from(repeats);
        let timer = marker(&mut self.random);
        let history = self.place.history.clone();
        let sent_ms = history.now_ms();
        let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let arguments = json!({ "duration_ms": millis, "message": timer, "interval": repeats });
        let answer = self.ask(&json!({ "name": "set_timer", "arguments": arguments }), Manner::default()).await;
        // Said before anything that shows it, so that it is known to be this client's.
        let (at_ms, sure) = (history.now_ms(), answer.how == How::Result);
        let (client, due_ms) = (self.name.clone(), at_ms + millis);
        // What was missing before it was set is no excuse for it.
        self.hear_gaps(&answer);
        history.write(&Record::Armed { at_ms, client, timer, due_ms, sure });
        self.saw(&answer);
        self.requested("set_timer", sent_ms, answer.how, &answer.detail);
        self.settle(&answer).await;
        answer.how
    }

    /// Waits for events after the last one: how that ended, and how many there were.
    pub async fn wait(&mut self, time: Duration) -> (How, usize) {
        let sent_ms = self.place.history.now_ms();
        let mut arguments = json!({ "timeout_ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX) });
        if let Some(cursor) = &self.cursor {
            arguments["last_event_id"] = json!(cursor);
        }
        let answer = self.ask(&json!({ "name": "await_activity", "arguments": arguments }), Manner::default()).await;
        let unknown = answer.message["result"]["structuredContent"]["error"]["code"] == "INVALID_ARGUMENT";
        if unknown && self.cursor.take().is_some() {
            // It had an event that the session never kept; what it has not had comes without a cursor.
            self.place.history.count(CURSORS_UNKNOWN, 1);
            self.requested("last_event_id", sent_ms, How::Error, &answer.detail);
            return (How::Error, 0);
        }
        let body = &answer.message["result"]["structuredContent"];
        let events = body["events"].as_array().map_or(&[][..], Vec::as_slice);
        for event in events {
            if event["type"] == DROPPED && !self.gaps.insert(event["id"].to_string()) {
                continue; // told on the way already, and now once more because it was asked for
            }
            self.heard(event);
        }
        if let Some(last) = body["last_event_id"].as_str().filter(|_| answer.how == How::Result) {
            self.cursor = Some(last.to_owned());
        }
        self.saw(&answer);
        self.requested("await_activity", sent_ms, answer.how, &answer.detail);
        let count = events.len();
        self.settle(&answer).await;
        (answer.how, count)
    }

    /// A gap is owned up to in the next answer, whatever was asked. Other events come again by the cursor.
    fn hear_gaps(&mut self, answer: &Answer) {
        let blocks = answer.message["result"]["content"].as_array().map_or(&[][..], Vec::as_slice);
        for block in blocks {
            let text = block["text"].as_str().unwrap_or_default();
            let context: Value = serde_json::from_str(text).unwrap_or_default();
            let events = context["events"].as_array().map_or(&[][..], Vec::as_slice);
            for event in events.iter().filter(|event| event["type"] == DROPPED) {
                if self.gaps.insert(event["id"].to_string()) {
                    self.heard(event);
                }
            }
        }
    }

    fn heard(&self, event: &Value) {
        let history = &self.place.history;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let data = &event["data"];
        let what = text(&event["type"]).unwrap_or_default();
        // One that was set before there was a cursor has no marker, and may be lost with the answer that told it.
        let timer = text(&data["message"]).filter(|message| what == "timer_expired" && message.starts_with("MK"));
        history.write(&Record::Activity {
            at_ms: history.now_ms(),
            client: self.name.clone(),
            id: text(&event["id"]).unwrap_or_default(),
            what,
            timer,
            number: data["fireCount"].as_u64(),
            cause: text(&data["cause"]),
            gap: text(&data["firstLostId"]).zip(text(&data["lastLostId"])),
        });
    }

    /// Has a first event, so that there is a cursor.
    pub async fn take_cursor(&mut self) {
        let arguments = json!({ "duration_ms": 1, "message": "first" });
        let sent_ms = self.place.history.now_ms();
        let answer = self.ask(&json!({ "name": "set_timer", "arguments": arguments }), Manner::default()).await;
        self.hear_gaps(&answer);
        self.requested("set_timer", sent_ms, answer.how, &answer.detail);
        self.settle(&answer).await;
        if self.is_in() {
            self.wait(Duration::from_millis(500)).await;
        }
    }

    /// Waits until nothing comes any more. A gap is told with the event that follows it, so that one is made.
    pub async fn catch_up(&mut self) {
        for _ in 0..20 {
            if !self.is_in() || self.arm(Duration::from_millis(1), false).await == How::Result {
                break;
            }
        }
        let mut quiet = 0;
        for _ in 0..20 {
            if !self.is_in() || 2 <= quiet {
                break;
            }
            let (how, count) = self.wait(Duration::from_millis(400)).await;
            // A timer that repeats goes on for ever: whoever is told only the newest has caught up.
            quiet = if how == How::Result && count <= 1 { quiet + 1 } else { 0 };
        }
        if self.is_in() && 2 <= quiet {
            let history = &self.place.history;
            history.write(&Record::CaughtUp { at_ms: history.now_ms(), client: self.name.clone() });
        }
    }

    /// Listens for what a server says by itself, for so long.
    pub async fn listen(&mut self, time: Duration) -> How {
        let (id, sent_ms) = (self.next, self.place.history.now_ms());
        self.next += 1;
        let Some(wire) = &self.wire else { panic!("{}: no way to the gateway", self.name) };
        let answer = wire.listen_for(id, &json!({ "notifications": { "toolsListChanged": true } }), time).await;
        self.saw(&answer);
        self.requested("subscriptions/listen", sent_ms, answer.how, &answer.detail);
        self.settle(&answer).await;
        answer.how
    }

    /// Ends the session; a modern client just goes.
    pub async fn end(&mut self) {
        let Some(wire) = self.wire.take().filter(|_| self.era == Era::Legacy) else { return };
        let (sent_ms, status) = (self.place.history.now_ms(), wire.end().await);
        let how = match status {
            200 => How::Result,
            0 => How::Broken,
            503 => How::Shed,
            _ => How::Refused,
        };
        self.requested("DELETE", sent_ms, how, &status.to_string());
    }

    async fn ask(&mut self, params: &Value, manner: Manner<'_>) -> Answer {
        let id = self.next;
        self.next += 1;
        let mut params = params.clone();
        if let Some(handle) = &self.handle {
            params["arguments"]["session"] = json!(handle);
        }
        let mut answer = match &mut self.wire {
            Some(wire) => wire.request(id, "tools/call", &params, manner).await,
            None => panic!("{}: no session", self.name),
        };
        if self.era == Era::Modern && matches!(self.surface, Surface::Tools(_)) {
            self.remember(&mut answer);
        }
        answer
    }

    /// Takes the handle of the session that a modern client was given. One that is unknown is told as such.
    fn remember(&mut self, answer: &mut Answer) {
        let body = &answer.message["result"]["structuredContent"];
        if body["error"]["code"] == UNKNOWN {
            (answer.how, answer.status) = (How::Refused, 404);
        } else if let Some(handle) = body["session"].as_str().filter(|_| self.handle.is_none()) {
            self.handle = Some(handle.to_owned());
            self.named(handle);
        }
    }

    /// Writes down what nodes call its session: they show the first digits of a hash, since the id is a secret.
    fn named(&self, secret: &str) {
        let session = Sha256::digest(secret.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        self.place.history.write(&Record::Named { client: self.name.clone(), session });
    }

    fn saw(&self, answer: &Answer) {
        for marker in &answer.markers {
            let (client, marker) = (self.name.clone(), marker.clone());
            self.place.history.write(&Record::Seen { client, marker });
        }
    }

    fn requested(&self, what: &str, sent_ms: u64, how: How, detail: &str) {
        let history = &self.place.history;
        let (at_ms, client) = (history.now_ms(), self.name.clone());
        let (what, detail) = (what.to_owned(), detail.to_owned());
        history.write(&Record::Request { sent_ms, at_ms, client, what, how, detail });
    }

    /// After an answer: whoever was sent away waits a moment, and whose session is unknown has none.
    async fn settle(&mut self, answer: &Answer) {
        if answer.is_lost() {
            self.wire = None;
            let history = &self.place.history;
            let (at_ms, client) = (history.now_ms(), self.name.clone());
            history.write(&Record::Lost { at_ms, client, detail: answer.detail.clone() });
        }
        if matches!(answer.how, How::Shed | How::Broken | How::Refused) {
            tokio::time::sleep(self.place.pause).await;
        }
    }
}

/// A quick job that holds.
pub fn job(ms: u64, notes: u64) -> Job {
    Job { ms, notes, bytes: 0, must: Must::Hold }
}
