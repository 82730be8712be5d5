//! One client over HTTP, by hand: a request is sent once, its stream is followed over any number of connections where the
//! era allows that, questions on the way are answered, and the end is told however it comes.

use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lb_peers::raw::RawHttp;
use lb_peers::raw::handshake::{Era, MODERN};
use lb_peers::raw::http::{Headers, headers, modern_headers, post_headers};
use lb_peers::raw::http1::Head;
use lb_peers::raw::message::{META_CAPABILITIES, META_VERSION};
use lb_peers::raw::sse::Event;
use serde_json::{Value, json};

use crate::caller::PATIENCE;
use crate::history::{History, How};
use crate::jobs::markers;

const VERSION: &str = "2025-11-25";
/// How long anything but a call may take.
const SHORT: Duration = Duration::from_secs(20);
/// How long a client comes back for the rest of a stream.
const RESUME_MAX: Duration = Duration::from_secs(25);
const RESUME_EVERY: Duration = Duration::from_millis(200);
/// How often a modern call asks back.
const ROUNDS_MAX: u64 = 3;
/// Bytes of an answer that are kept for people.
const DETAIL_CHARS: usize = 300;

/// What is counted.
pub const RESUMED: &str = "streams resumed with Last-Event-ID";
/// Events of streams that came again; the same for any message.
pub const TWICE: &str = "messages of streams that came twice";
/// Questions of servers that were answered.
pub const ASKED: &str = "questions that were answered";
/// Questions that came again.
pub const ASKED_TWICE: &str = "questions that came twice";

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How.
    pub how: How,
    /// The HTTP status, 0 where there is none.
    pub status: u16,
    /// The response, where there is one.
    pub message: Value,
    /// What was said, except in results.
    pub detail: String,
    /// The markers in everything that came.
    pub markers: BTreeSet<String>,
}

impl Answer {
    fn new(how: How, detail: impl Into<String>) -> Self {
        Self { how, status: 0, message: Value::Null, detail: detail.into(), markers: BTreeSet::new() }
    }

    fn broken(error: &std::io::Error, when: &str) -> Self {
        Self::new(How::Broken, format!("{when}: {error}"))
    }

    fn of(message: Value) -> Self {
        let good = message.get("result").is_some() && message["result"]["isError"] != true;
        let detail = if good { String::new() } else { start(&message.to_string()) };
        Self { message, ..Self::new(if good { How::Result } else { How::Error }, detail) }
    }

    /// Of a response that is no event stream.
    fn of_body(head: &Head, body: &[u8], id: u64) -> Self {
        let found = markers(body);
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut answer = if head.status() == 200 && message["id"] == id {
            Self::of(message)
        } else {
            let shed = matches!(head.status(), 429 | 503) && head.header("retry-after").is_some();
            let detail = format!("{} {}", head.start, start(&String::from_utf8_lossy(body)));
            Self { message, ..Self::new(if shed { How::Shed } else { How::Refused }, detail) }
        };
        (answer.status, answer.markers) = (head.status(), found);
        answer
    }

    /// Whether the session is unknown.
    pub fn is_lost(&self) -> bool {
        self.status == 404
    }
}

fn start(text: &str) -> String {
    text.chars().take(DETAIL_CHARS).collect()
}

/// What a client does on the way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner<'a> {
    /// Writes the reports down as those of this stream.
    pub stream: Option<&'a str>,
    /// Cuts the connection after so many events, and comes back.
    pub cut_after: Option<u64>,
    /// Answers questions with this word.
    pub word: Option<&'a str>,
}

/// One client's way to the gateway.
pub struct Wire {
    address: SocketAddr,
    path: String,
    history: History,
    who: Who,
    http: Option<RawHttp>,
}

/// How a client says who it is.
enum Who {
    /// By its session.
    Session(String),
    /// By this name in every request.
    Modern(String),
}

/// What one request has seen so far.
#[derive(Default)]
struct Seen {
    markers: BTreeSet<String>,
    ids: HashSet<String>,
    asked: HashSet<String>,
    last: Option<String>,
    count: u64,
    answer: Option<Value>,
}

impl Wire {
    /// Opens a session, in one attempt.
    ///
    /// # Errors
    /// With how that ended.
    pub async fn open(
        address: SocketAddr,
        path: &str,
        capabilities: &Value,
        history: &History,
    ) -> Result<Self, Box<Answer>> {
        let params = json!({
            "protocolVersion": VERSION,
            "capabilities": capabilities,
            "clientInfo": { "name": "cluster", "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string();
        let opened = async {
            let mut http = connect(address).await.map_err(|error| Answer::broken(&error, "not connected"))?;
            let response = http.post(path, &post_headers(), body.as_bytes()).await;
            let response = response.map_err(|error| Answer::broken(&error, "no session"))?;
            let id = response.head.header("mcp-session-id").map(str::to_owned);
            let answer = Answer::of_body(&response.head, &response.body, 0);
            let Some(session) = id.filter(|_| answer.how == How::Result) else { return Err(answer) };
            let (history, who) = (history.clone(), Who::Session(session));
            let wire = Self { address, path: path.to_owned(), history, who, http: None };
            let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            match wire.tell(note).await {
                Ok(202) => Ok(wire),
                Ok(503) => Err(Answer::new(How::Shed, "503 to the notification")),
                Ok(status) => Err(Answer::new(How::Refused, format!("{status} to the notification"))),
                Err(error) => Err(Answer::broken(&error, "after initialize")),
            }
        };
        match tokio::time::timeout(PATIENCE, opened).await {
            Ok(opened) => opened.map_err(Box::new),
            Err(_) => Err(Box::new(Answer::new(How::Never, "initialize"))),
        }
    }

    /// A modern client of this name; nothing is sent.
    pub fn modern(address: SocketAddr, path: &str, name: &str, history: &History) -> Self {
        let who = Who::Modern(name.to_owned());
        Self { address, path: path.to_owned(), history: history.clone(), who, http: None }
    }

    /// The session's id, empty for a modern client.
    pub fn session(&self) -> &str {
        match &self.who {
            Who::Session(session) => session,
            Who::Modern(_) => "",
        }
    }

    fn era(&self) -> Era {
        match self.who {
            Who::Session(_) => Era::Legacy,
            Who::Modern(_) => Era::Modern,
        }
    }

    /// The headers of whatever is no request of a modern client.
    fn headers(&self) -> Headers {
        let mut all = post_headers();
        all.extend(headers(&[("MCP-Protocol-Version", VERSION), ("Mcp-Session-Id", self.session())]));
        all
    }

    /// The headers and the body of a request.
    fn letter(&self, id: u64, method: &str, params: &Value) -> (Headers, String) {
        let mut params = params.clone();
        let headers = match &self.who {
            Who::Session(_) => self.headers(),
            Who::Modern(name) => {
                params["_meta"][META_VERSION] = json!(MODERN);
                params["_meta"][META_CAPABILITIES] = json!({ "elicitation": { "form": {} } });
                params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": name, "version": "1" });
                modern_headers(method, params["name"].as_str())
            }
        };
        (headers, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
    }

    /// Sends what has no reply, on a connection of its own: the status.
    async fn tell(&self, body: &str) -> std::io::Result<u16> {
        let mut http = connect(self.address).await?;
        Ok(http.post(&self.path, &self.headers(), body.as_bytes()).await?.head.status())
    }

    /// Ends the session: the status, 0 where none came.
    pub async fn end(&self) -> u16 {
        let Ok(mut http) = connect(self.address).await else { return 0 };
        let done = http.request("DELETE", &self.path, &self.headers(), b"").await;
        done.map_or(0, |response| response.head.status())
    }

    /// Sends a request, once, and follows it to its end. A modern call that asks back is made again with the answers.
    pub async fn request(&mut self, id: u64, method: &str, params: &Value, manner: Manner<'_>) -> Answer {
        let mut answer = self.once(id, method, params, manner).await;
        for round in 1..=ROUNDS_MAX {
            let Some(again) = self.answered(&answer.message, params, manner) else { break };
            let mut markers = std::mem::take(&mut answer.markers);
            answer = self.once(id + (round << 32), method, &again, manner).await;
            answer.markers.append(&mut markers);
        }
        answer
    }

    /// The call with the answers to what its result asks; `None` when that asks nothing.
    fn answered(&self, message: &Value, params: &Value, manner: Manner<'_>) -> Option<Value> {
        let result = message.get("result").filter(|result| result["resultType"] == "input_required")?;
        let mut again = params.clone();
        for key in result["inputRequests"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            self.history.count(ASKED, 1);
            again["inputResponses"][key] = said(manner);
        }
        if let Some(state) = result.get("requestState") {
            again["requestState"] = state.clone();
        }
        Some(again)
    }

    async fn once(&mut self, id: u64, method: &str, params: &Value, manner: Manner<'_>) -> Answer {
        let (headers, body) = self.letter(id, method, params);
        let mut seen = Seen::default();
        let done = tokio::time::timeout(PATIENCE, self.follow(id, (&headers, &body), manner, &mut seen)).await;
        let mut answer = done.unwrap_or_else(|_| {
            Answer::new(
                How::Never,
                format!("no end within {PATIENCE:?}, {} events, the last {:?}", seen.count, seen.last),
            )
        });
        answer.markers.append(&mut seen.markers);
        answer
    }

    async fn follow(
        &mut self,
        id: u64,
        (headers, body): (&Headers, &str),
        manner: Manner<'_>,
        seen: &mut Seen,
    ) -> Answer {
        let kept = self.http.take();
        let mut http = match kept {
            Some(http) => http,
            None => match connect(self.address).await {
                Ok(http) => http,
                Err(error) => return Answer::broken(&error, "not connected"),
            },
        };
        http.patience = PATIENCE;
        if let Err(error) = http.send("POST", &self.path, headers, body.as_bytes()).await {
            return Answer::broken(&error, "not sent");
        }
        let head = match http.head().await {
            Ok(head) => head,
            Err(error) => return Answer::broken(&error, "no response"),
        };
        if !head.is_sse() {
            let (answer, reusable) = whole(&mut http, &head, id).await;
            self.http = reusable.then_some(http);
            return answer;
        }
        let mut cut = manner.cut_after;
        loop {
            let broken = self.listen(&mut http, id, manner, &mut cut, seen).await;
            if let Some(message) = seen.answer.take() {
                return Answer { status: 200, ..Answer::of(message) };
            }
            drop(http);
            // A modern stream that broke is over, with its request.
            let last = seen.last.clone().filter(|_| self.era() == Era::Legacy);
            let Some(last) = last else { return Answer::new(How::Broken, broken) };
            match self.resume(&last).await {
                Ok(next) => http = next,
                Err(answer) => return *answer,
            }
        }
    }

    /// Reads a stream until the answer is there or it ends, and says how it ended.
    async fn listen(
        &self,
        http: &mut RawHttp,
        id: u64,
        manner: Manner<'_>,
        cut: &mut Option<u64>,
        seen: &mut Seen,
    ) -> String {
        while seen.answer.is_none() {
            if cut.is_some_and(|cut| cut <= seen.count) && seen.last.is_some() {
                *cut = None;
                return "cut by the client".to_owned();
            }
            match http.event().await {
                Ok(Some(event)) => self.hear(&event, id, manner, seen).await,
                Ok(None) => return format!("the stream ended after {} events, no answer", seen.count),
                Err(error) => return format!("the stream broke after {} events: {error}", seen.count),
            }
        }
        String::new()
    }

    async fn hear(&self, event: &Event, id: u64, manner: Manner<'_>, seen: &mut Seen) {
        seen.last = event.id.clone().or(seen.last.take());
        let Some(data) = event.data.as_deref().filter(|data| !data.is_empty()) else { return };
        seen.count += 1;
        seen.markers.extend(markers(data));
        if let Some(id) = &event.id
            && !seen.ids.insert(id.clone())
        {
            self.history.count(TWICE, 1);
        }
        let message: Value = serde_json::from_slice(data).unwrap_or_default();
        match message["method"].as_str() {
            Some("notifications/progress") => {
                if let (Some(stream), Some(number)) = (manner.stream, message["params"]["progress"].as_u64()) {
                    self.history.event(stream, event.id.clone(), number);
                }
            }
            Some("elicitation/create") => {
                if !seen.asked.insert(message["id"].to_string()) {
                    self.history.count(ASKED_TWICE, 1);
                }
                self.answer(&message, manner).await;
            }
            None if message["id"] == id => seen.answer = Some(message),
            _ => {}
        }
    }

    /// Answers a question; one that cannot be delivered is seen by how the call ends.
    async fn answer(&self, question: &Value, manner: Manner<'_>) {
        self.history.count(ASKED, 1);
        let body = json!({ "jsonrpc": "2.0", "id": question["id"], "result": said(manner) }).to_string();
        let start = Instant::now();
        // Away for a moment is away for a moment: an answer is not a call, and the same one may be sent again.
        while start.elapsed() < RESUME_MAX {
            match self.tell(&body).await {
                Ok(503) | Err(_) => tokio::time::sleep(RESUME_EVERY).await,
                Ok(_) => return,
            }
        }
    }

    /// Listens for what nobody asked for, until the time is over or the stream is.
    pub async fn listen_for(&self, id: u64, params: &Value, time: Duration) -> Answer {
        let (headers, body) = self.letter(id, "subscriptions/listen", params);
        let opened = async {
            let mut http = connect(self.address).await?;
            http.send("POST", &self.path, &headers, body.as_bytes()).await?;
            let head = http.head().await?;
            Ok::<_, std::io::Error>((http, head))
        };
        let (mut http, head) = match opened.await {
            Ok(opened) => opened,
            Err(error) => return Answer::broken(&error, "listening"),
        };
        if !head.is_sse() {
            return whole(&mut http, &head, id).await.0;
        }
        let first = loop {
            match http.event().await {
                Ok(Some(event)) if event.text().is_empty() => {}
                other => break other,
            }
        };
        let text = first.as_ref().ok().and_then(Option::as_ref).map(Event::text).unwrap_or_default();
        if !text.contains("notifications/subscriptions/acknowledged") {
            return Answer::new(How::Broken, format!("no acknowledgement but {first:?}"));
        }
        http.patience = PATIENCE;
        let mut answer = Answer::new(How::Result, "");
        let ends = async {
            loop {
                match http.event().await {
                    Ok(Some(event)) => answer.markers.extend(markers(event.data.as_deref().unwrap_or_default())),
                    other => break format!("the stream ended by itself: {other:?}"),
                }
            }
        };
        if let Ok(broken) = tokio::time::timeout(time, ends).await {
            (answer.how, answer.detail) = (How::Broken, broken);
        }
        answer
    }

    /// The rest of a stream after an event.
    async fn resume(&self, last: &str) -> Result<RawHttp, Box<Answer>> {
        self.history.count(RESUMED, 1);
        let (start, mut all) = (Instant::now(), self.headers());
        all.extend(headers(&[("Last-Event-ID", last)]));
        let mut answer = Answer::new(How::Broken, "never resumed");
        while start.elapsed() < RESUME_MAX {
            let tried = async {
                let mut http = connect(self.address).await?;
                http.send("GET", &self.path, &all, b"").await?;
                let head = http.head().await?;
                Ok::<_, std::io::Error>((http, head))
            };
            match tried.await {
                Ok((mut http, head)) if head.is_sse() => {
                    http.patience = PATIENCE;
                    return Ok(http);
                }
                Ok((mut http, head)) => {
                    (answer, _) = whole(&mut http, &head, u64::MAX).await;
                    answer.detail = format!("resuming after {last}: {}", answer.detail);
                    if answer.how != How::Shed {
                        break;
                    }
                }
                Err(error) => answer = Answer::broken(&error, "resuming"),
            }
            tokio::time::sleep(RESUME_EVERY).await;
        }
        Err(Box::new(answer))
    }
}

/// What a client says when it is asked.
fn said(manner: Manner<'_>) -> Value {
    match manner.word {
        Some(word) => json!({ "action": "accept", "content": { "word": word } }),
        None => json!({ "action": "decline" }),
    }
}

/// A response that is no event stream, and whether the connection can be used again.
async fn whole(http: &mut RawHttp, head: &Head, id: u64) -> (Answer, bool) {
    match http.body().await {
        Ok((body, true)) => {
            let closes = head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            (Answer::of_body(head, &body, id), !closes)
        }
        Ok((body, false)) => {
            let mut answer = Answer::new(How::Broken, format!("cut after {} bytes", body.len()));
            answer.markers = markers(&body);
            (answer, false)
        }
        Err(error) => (Answer::broken(&error, "in the body"), false),
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<RawHttp> {
    let connected = tokio::time::timeout(SHORT, RawHttp::connect(address)).await;
    let mut http = connected.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))?;
    http.patience = SHORT;
    Ok(http)
}
