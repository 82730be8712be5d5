//! `ledger`: a server that does what it is asked, and writes down that it did.
//!
//! `ledger --ledger FILE [--http ADDR] [--era legacy|modern|dual] [--tools N] [--streams FILE]`. Its one working tool,
//! `work`, appends a line with its `marker` and the process id to the file before it does anything else, so that whoever
//! reads the file can count how often a call had an effect. Then it takes `ms`, reports `notes` times on the way, each
//! time with the marker, and answers with the marker and `bytes` of filling. With `ask` it asks the client
//! first, and its answer repeats what the client said: legacy clients over pipes, modern ones by a call that they make
//! again. `--tools` adds as many more tools, listed in
//! pages. With `--streams` the events of legacy sessions have ids, and a stream that broke goes on after the id that
//! `Last-Event-ID` names, even in the process that comes after this one.

mod http;
mod stdio;
mod streams;
mod work;

use std::fs::{File, OpenOptions};
use std::io::{Result, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::raw::handshake::{COMPLETE, Era, Eras, Hello, UNCACHED};
use crate::raw::message::{self, Message};

pub use work::Work;

/// How to call the program.
pub const USAGE: &str =
    "usage: ledger --ledger FILE [--http ADDR] [--era legacy|modern|dual] [--tools N] [--streams FILE]";

/// Tools in one page of the list.
const PAGE: usize = 500;

/// How a ledger is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Where effects are written down.
    pub ledger: PathBuf,
    /// The address to listen on; stdio without it.
    pub http: Option<SocketAddr>,
    /// The eras it speaks.
    pub eras: Eras,
    /// How many tools there are beside `work`.
    pub tools: usize,
    /// Where sessions and streams over HTTP are remembered; without it no event has an id.
    pub streams: Option<PathBuf>,
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
                "--ledger" => options.ledger = value.into(),
                "--http" => options.http = Some(value.parse().map_err(|_| bad())?),
                "--era" => options.eras = Eras::parse(&value).ok_or_else(bad)?,
                "--tools" => options.tools = value.parse().map_err(|_| bad())?,
                "--streams" => options.streams = Some(value.into()),
                _ => return Err(format!("unknown option {flag}")),
            }
        }
        if options.ledger.as_os_str().is_empty() {
            return Err("--ledger FILE is required".to_owned());
        }
        Ok(options)
    }
}

/// Serves until stdin ends, or over HTTP until killed.
///
/// # Errors
/// When the file or the address cannot be used.
pub async fn run(options: Options) -> Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(&options.ledger)?;
    let hello = Hello { name: "ledger", eras: options.eras };
    let server = Arc::new(Server { hello, file: Mutex::new(file), tools: options.tools });
    match options.http {
        None => stdio::serve(server).await,
        Some(address) => {
            let streams = options.streams.as_deref().map(streams::Streams::open).transpose()?;
            http::serve(server, streams, address).await
        }
    }
}

/// What the server knows whatever its transport.
#[derive(Debug)]
pub struct Server {
    hello: Hello,
    file: Mutex<File>,
    tools: usize,
}

/// What a request leads to.
#[derive(Debug)]
enum Outcome {
    /// A response, and the HTTP status that goes with it.
    Reply(u16, String),
    /// `work` was called.
    Work(Work),
    /// `subscriptions/listen`: acknowledged, and silent from then on.
    Listen(String),
}

impl Server {
    fn answer(&self, message: &Message, era: Era) -> Outcome {
        let id = message.id.as_deref().unwrap_or("null");
        let modern = era == Era::Modern;
        let result = match message.method() {
            "initialize" if !modern => self.hello.initialize(message),
            "server/discover" if modern => self.hello.discover(),
            "subscriptions/listen" if modern => {
                let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
                let params = format!(r#"{{"notifications":{{}},"_meta":{meta}}}"#);
                return Outcome::Listen(message::notification("notifications/subscriptions/acknowledged", &params));
            }
            "ping" | "logging/setLevel" if !modern => "{}".to_owned(),
            "tools/list" => self.list(message, era),
            "tools/call" => match Work::read(message, era) {
                Some(work) => {
                    // Nothing is done before the question is answered.
                    if let Some(question) = work.asked_back() {
                        return Outcome::Reply(200, question);
                    }
                    self.enter(&work.marker);
                    return Outcome::Work(work);
                }
                None => return Outcome::Reply(200, message::error(id, -32602, "work needs a marker", None)),
            },
            _ => {
                let status = if modern { 404 } else { 200 };
                return Outcome::Reply(status, message::error(id, -32601, "method not found", None));
            }
        };
        Outcome::Reply(200, message::result(id, &result))
    }

    /// Writes an effect down, in one write so that lines of several processes do not mix.
    fn enter(&self, marker: &str) {
        let line = format!("{marker} {}\n", std::process::id());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            eprintln!("ledger: {error}");
        }
    }

    fn list(&self, message: &Message, era: Era) -> String {
        let from: usize = message.text_param("cursor").and_then(|text| text.parse().ok()).unwrap_or(0);
        let to = (from + PAGE).min(self.tools + 1);
        let tools: Vec<String> = (from..to).map(tool).collect();
        let next = if to <= self.tools { format!(r#","nextCursor":"{to}""#) } else { String::new() };
        let hints = if era == Era::Modern { [COMPLETE, UNCACHED].concat() } else { String::new() };
        format!(r#"{{{hints}"tools":[{}]{next}}}"#, tools.join(","))
    }
}

fn tool(number: usize) -> String {
    let name = if number == 0 { "work".to_owned() } else { format!("tool_{number:05}") };
    let schema = r#"{"type":"object","properties":{"marker":{"type":"string"}}}"#;
    format!(r#"{{"name":"{name}","description":"{name}","inputSchema":{schema}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_in_pages_and_calls_are_entered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger");
        let file = File::create(&path).expect("a file");
        let hello = Hello { name: "ledger", eras: Eras::Dual };
        let server = Server { hello, file: Mutex::new(file), tools: 700 };
        let ask = |line: &str| server.answer(&Message::parse(line.as_bytes()).expect("a message"), Era::Legacy);
        let count = |outcome| match outcome {
            Outcome::Reply(200, text) => (text.matches(r#""name""#).count(), text.contains("nextCursor")),
            other => panic!("{other:?}"),
        };
        assert_eq!(count(ask(r#"{"id":1,"method":"tools/list"}"#)), (500, true));
        assert_eq!(count(ask(r#"{"id":1,"method":"tools/list","params":{"cursor":"500"}}"#)), (201, false));
        let call = r#"{"id":1,"method":"tools/call","params":{"name":"work","arguments":{"marker":"MKx","ms":5}}}"#;
        assert!(matches!(ask(call), Outcome::Work(work) if work.ms == 5));
        let written = std::fs::read_to_string(path).expect("the ledger");
        assert_eq!(written, format!("MKx {}\n", std::process::id()));
    }

    #[test]
    fn a_modern_call_that_asks_is_entered_when_it_is_made_again_with_the_answer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger");
        let file = File::create(&path).expect("a file");
        let server = Server { hello: Hello { name: "ledger", eras: Eras::Dual }, file: Mutex::new(file), tools: 0 };
        let call = |more: &str| {
            let arguments = r#"{"marker":"MKx","ask":1}"#;
            let line =
                format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"work","arguments":{arguments}{more}}}}}"#);
            server.answer(&Message::parse(line.as_bytes()).expect("a message"), Era::Modern)
        };
        assert!(matches!(call(""), Outcome::Reply(200, text) if text.contains("input_required")));
        assert_eq!(std::fs::read_to_string(&path).expect("the ledger"), "");
        let again = call(r#","requestState":"MKx","inputResponses":{"word":{"action":"accept"}}"#);
        assert!(matches!(again, Outcome::Work(work) if work.answer().contains("accept")));
        assert_eq!(std::fs::read_to_string(path).expect("the ledger"), format!("MKx {}\n", std::process::id()));
    }
}
