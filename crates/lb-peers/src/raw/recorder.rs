//! `recorder`: a server that writes down the exact bytes of every message and answers calls with bytes it was given.
//!
//! `recorder [--http ADDR] [--era legacy|modern|dual] --record FILE [--replies FILE]`. The record has one line of hex
//! per received message, in the order received, written before the message is answered. Line n of the replies, also
//! hex, is the raw `result` of the n-th `tools/call`; after the last line it starts again. Before the hex may stand
//! `error` (it is an error object), `sse` (over HTTP it comes as an event stream), `note HEX` (a message that goes out
//! before it, as an event stream over HTTP) and `wait` (on stdio it waits until the client has answered something). Any
//! tool name is accepted.

mod reply;

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::endpoint::{self, Endpoint, Verdict};
use super::handshake::{COMPLETE, Era, Eras, Hello, UNCACHED};
use super::hex;
use super::http1::{Conn, LAST_CHUNK, response, sse_head};
use super::message::{self, Message};

pub use reply::{Reply, TOKEN, write_script};

/// How a recorder is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the messages go.
    pub record: PathBuf,
    /// Where the results come from.
    pub replies: Option<PathBuf>,
    /// The address to listen on; stdio without it.
    pub http: Option<SocketAddr>,
    /// The eras it speaks.
    pub eras: Eras,
}

impl Options {
    /// Reads the command line, without the program's name.
    ///
    /// # Errors
    /// With a sentence for the user.
    pub fn parse(args: impl IntoIterator<Item = String>) -> std::result::Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let bad = || format!("{flag} {value}: not understood");
            match flag.as_str() {
                "--record" => options.record = value.into(),
                "--replies" => options.replies = Some(value.into()),
                "--http" => options.http = Some(value.parse().map_err(|_| bad())?),
                "--era" => options.eras = Eras::parse(&value).ok_or_else(bad)?,
                _ => return Err(format!("unknown option {flag}")),
            }
        }
        if options.record.as_os_str().is_empty() {
            return Err("--record FILE is required".to_owned());
        }
        Ok(options)
    }
}

/// Serves until stdin ends, or over HTTP until killed.
///
/// # Errors
/// When a file or the address cannot be used.
pub async fn run(options: Options) -> Result<()> {
    let recorder = Arc::new(Recorder::open(&options)?);
    match options.http {
        None => serve_stdio(&recorder).await,
        Some(address) => {
            let listener = TcpListener::bind(address).await?;
            eprintln!("listening on http://{}/mcp", listener.local_addr()?);
            serve_http(recorder, listener).await
        }
    }
}

/// The messages in a record file, in order.
///
/// # Errors
/// When the file cannot be read or has a line that is not hex.
pub fn read_record(path: &Path) -> Result<Vec<Vec<u8>>> {
    let text = std::fs::read_to_string(path)?;
    let line = |line: &str| hex::decode(line).ok_or_else(|| Error::new(ErrorKind::InvalidData, "a line is not hex"));
    text.lines().map(line).collect()
}

/// Writes a file for `--replies`: the raw `result` of each call in turn.
///
/// # Errors
/// When the file cannot be written.
pub fn write_replies(path: &Path, results: &[&[u8]]) -> Result<()> {
    write_script(path, &results.iter().map(|result| Reply::result(result)).collect::<Vec<_>>())
}

#[derive(Debug)]
struct Recorder {
    hello: Hello,
    record: Mutex<File>,
    replies: Vec<Reply>,
    calls: Mutex<usize>,
}

impl Recorder {
    fn open(options: &Options) -> Result<Self> {
        let replies = options.replies.as_deref().map(reply::read_script).transpose()?.unwrap_or_default();
        let record = OpenOptions::new().create(true).append(true).open(&options.record)?;
        let hello = Hello { name: "recorder", eras: options.eras };
        Ok(Self { hello, record: Mutex::new(record), replies, calls: Mutex::default() })
    }

    fn note(&self, bytes: &[u8]) -> Result<()> {
        let mut file = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all((hex::encode(bytes) + "\n").as_bytes())
    }

    /// The answer to a request that was found good.
    fn answer(&self, message: &Message, era: Era) -> Answer {
        let id = message.id.as_deref().unwrap_or("null");
        let modern = era == Era::Modern;
        let result = match message.method() {
            "initialize" if !modern => self.hello.initialize(message),
            "server/discover" if modern => self.hello.discover(),
            "ping" | "logging/setLevel" if !modern => "{}".to_owned(),
            "tools/list" => tools(era),
            "tools/call" => {
                let reply = self.next_reply(era);
                let token = message.meta.get("progressToken").map(|token| token.get());
                let is_stream = reply.is_stream || !reply.notes.is_empty();
                return Answer { status: 200, messages: reply.messages(id, token), is_stream, waits: reply.waits };
            }
            _ => {
                let status = if modern { 404 } else { 200 };
                let error = message::error(id, -32601, "method not found", None).into_bytes();
                return Answer { status, messages: vec![error], is_stream: false, waits: false };
            }
        };
        let messages = Reply::result(result.as_bytes()).messages(id, None);
        Answer { status: 200, messages, is_stream: false, waits: false }
    }

    fn next_reply(&self, era: Era) -> Reply {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = calls.checked_rem(self.replies.len());
        *calls += 1;
        match turn.and_then(|turn| self.replies.get(turn)) {
            Some(reply) => reply.clone(),
            None => {
                let complete = if era == Era::Modern { COMPLETE } else { "" };
                Reply::result(format!(r#"{{{complete}"content":[]}}"#).as_bytes())
            }
        }
    }
}

/// Messages to send, the response last.
struct Answer {
    status: u16,
    messages: Vec<Vec<u8>>,
    is_stream: bool,
    waits: bool,
}

impl Answer {
    fn to_http(&self, session: Option<&str>) -> Vec<u8> {
        match self.messages.as_slice() {
            [response] if !self.is_stream => endpoint::json(self.status, session, response),
            messages => {
                let chunks: Vec<u8> = messages.iter().flat_map(|message| reply::event_chunk(message)).collect();
                [sse_head(), chunks, LAST_CHUNK.to_vec()].concat()
            }
        }
    }
}

fn tools(era: Era) -> String {
    let hints = if era == Era::Modern { [COMPLETE, UNCACHED].concat() } else { String::new() };
    let tool = r#"{"name":"record","description":"Any arguments","inputSchema":{"type":"object"}}"#;
    format!(r#"{{{hints}"tools":[{tool}]}}"#)
}

async fn serve_stdio(recorder: &Recorder) -> Result<()> {
    let mut stdin = BufReader::new(tokio::io::stdin());
    let mut stdout = tokio::io::stdout();
    let mut line = Vec::new();
    // Responses that wait for an answer of the client.
    let mut held = Vec::new();
    while 0 < stdin.read_until(b'\n', &mut line).await? {
        let message = line.strip_suffix(b"\n").unwrap_or(&line);
        recorder.note(message)?;
        let lines: Vec<u8> = stdio_answer(recorder, message, &mut held)
            .into_iter()
            .flat_map(|message| [message, b"\n".to_vec()].concat())
            .collect();
        if !lines.is_empty() {
            stdout.write_all(&lines).await?;
            stdout.flush().await?;
        }
        line.clear();
    }
    Ok(())
}

/// The messages to write now.
fn stdio_answer(recorder: &Recorder, bytes: &[u8], held: &mut Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let Some(message) = Message::parse(bytes) else {
        return vec![message::error("null", -32700, "parse error", None).into_bytes()];
    };
    let Some(id) = message.id.as_deref() else { return Vec::new() };
    if message.method.is_none() {
        return std::mem::take(held);
    }
    match recorder.hello.check(&message, None) {
        Ok(era) => {
            let mut answer = recorder.answer(&message, era);
            if answer.waits {
                held.extend(answer.messages.pop());
            }
            answer.messages
        }
        Err(refusal) => vec![refusal.response(id).into_bytes()],
    }
}

async fn serve_http(recorder: Arc<Recorder>, listener: TcpListener) -> Result<()> {
    let endpoint: Arc<Endpoint<()>> = Arc::new(Endpoint::new(recorder.hello));
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        connections.spawn(serve_connection(recorder.clone(), endpoint.clone(), stream));
    }
}

async fn serve_connection(recorder: Arc<Recorder>, endpoint: Arc<Endpoint<()>>, stream: TcpStream) {
    let mut conn = Conn::new(stream);
    while let Ok(Some((head, body))) = endpoint::read(&mut conn).await {
        if head.method() == "POST"
            && let Err(error) = recorder.note(&body)
        {
            eprintln!("recorder: {error}");
            return;
        }
        let reply = match endpoint.admit(&head, &body) {
            Verdict::Reply(bytes) => bytes,
            Verdict::OneWay(_) => endpoint::accepted(),
            // It never speaks first, so it offers no stream.
            Verdict::Stream(_) => response(405, &[("Allow", "POST, DELETE")], b""),
            Verdict::Request { message, era, session } => {
                let session = session.filter(|_| message.method() == "initialize");
                recorder.answer(&message, era).to_http(session.as_deref())
            }
        };
        if conn.write(&reply).await.is_err() {
            return;
        }
    }
}
