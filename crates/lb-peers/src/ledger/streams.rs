//! What a ledger over HTTP remembers beyond its own end: its sessions, and the calls whose events have ids.
//!
//! Every event of a call follows from the call and its number, so that the call is all there is to keep.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Work;
use crate::raw::handshake::Era;
use crate::raw::message::Message;

/// The file, and what stands in it.
#[derive(Debug)]
pub struct Streams {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    sessions: Vec<String>,
    calls: Vec<Work>,
}

impl Streams {
    /// Reads what an earlier process left.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let (mut sessions, mut calls) = (Vec::new(), Vec::new());
        // A last line without its end was being written when the process was killed: nobody has heard of it.
        let text = std::fs::read_to_string(path)?;
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            match line.split_once(' ') {
                Some(("session", id)) => sessions.push(id.to_owned()),
                Some(("call", body)) => {
                    calls.extend(Message::parse(body.as_bytes()).and_then(|call| Work::read(&call, Era::Legacy)));
                }
                _ => {}
            }
        }
        Ok(Self { inner: Mutex::new(Inner { file, sessions, calls }) })
    }

    /// The sessions of earlier processes.
    pub fn sessions(&self) -> Vec<String> {
        self.lock().sessions.clone()
    }

    /// Remembers a session.
    pub fn opened(&self, session: &str) {
        self.lock().write("session", session.as_bytes());
    }

    /// Remembers a call: its number, which is the first half of the ids of its events.
    pub fn called(&self, body: &[u8], work: &Work) -> usize {
        let mut inner = self.lock();
        let line: Vec<u8> = body.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
        inner.write("call", &line);
        inner.calls.push(work.clone());
        inner.calls.len() - 1
    }

    /// The call of an event, its number, and the number of the event.
    pub fn resumed(&self, event: &str) -> Option<(usize, Work, u64)> {
        let (call, after) = event.split_once('-')?;
        let (call, after): (usize, u64) = (call.parse().ok()?, after.parse().ok()?);
        let mut inner = self.lock();
        let work = inner.calls.get(call)?.clone();
        inner.write("resumed", event.as_bytes());
        Some((call, work, after))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, what: &str, value: &[u8]) {
        let line = [what.as_bytes(), b" ", value, b"\n"].concat();
        if let Err(error) = self.file.write_all(&line) {
            eprintln!("ledger: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_knows_the_sessions_and_calls_of_the_one_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("streams");
        let body = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call",
            "params":{"name":"work","arguments":{"marker":"m","notes":3},"_meta":{"progressToken":1}}}"#;
        let work = Work::read(&Message::parse(body).expect("a message"), Era::Legacy).expect("a call");
        let first = Streams::open(&path).expect("a file");
        first.opened("one");
        assert_eq!((first.called(body, &work), first.called(body, &work)), (0, 1));
        first.lock().file.write_all(b"session hal").expect("half a line");
        let second = Streams::open(&path).expect("the same file");
        assert_eq!(second.sessions(), ["one"]);
        assert_eq!(second.resumed("1-2"), Some((1, work, 2)));
        assert_eq!(second.resumed("2-0"), None);
        assert_eq!(second.resumed("nonsense"), None);
    }
}
