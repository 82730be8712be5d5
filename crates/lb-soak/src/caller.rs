//! A client that calls the ledger through the gateway and writes down what it sees.

mod answer;
mod http;
mod stdio;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lb_peers::raw::handshake::Era;
use lb_peers::raw::http::modern_meta;

use self::answer::End;
use crate::history::{History, How, Record};
use crate::jobs::{Job, marker, markers};
use crate::random::Random;

/// How long a call may take before it counts as never ended.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// A session that a process opened which is about to end is of no use to the next one.
const REOPEN_MAX: u32 = 3;

/// How a client reaches the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// HTTP with a session.
    HttpLegacy,
    /// HTTP without.
    HttpModern,
    /// A gateway of its own behind pipes, with a handshake.
    StdioLegacy,
    /// The same without.
    StdioModern,
}

/// All ways.
pub const WAYS: [Way; 4] = [Way::HttpLegacy, Way::HttpModern, Way::StdioLegacy, Way::StdioModern];

impl Way {
    fn era(self) -> Era {
        match self {
            Self::HttpLegacy | Self::StdioLegacy => Era::Legacy,
            Self::HttpModern | Self::StdioModern => Era::Modern,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::HttpLegacy => "http-legacy",
            Self::HttpModern => "http-modern",
            Self::StdioLegacy => "stdio-legacy",
            Self::StdioModern => "stdio-modern",
        }
    }
}

/// What a client does when a call does not get through at first. Each time is counted in the history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Sends a call again, once, whose connection was reset before any byte of a response.
    pub retry_reset: bool,
    /// Opens a new session when its own is unknown.
    pub reopen: bool,
    /// Comes back with `Last-Event-ID` when a stream breaks off.
    pub resume: bool,
    /// Writes every report down, so that none may be missing or come twice; who resumes does so anyway.
    pub follow: bool,
}

/// Where the gateway is.
#[derive(Clone, Debug)]
pub struct Door {
    /// Over HTTP.
    pub address: SocketAddr,
    /// For clients with a gateway of their own: the program, its config file and the mark of the run.
    pub program: (String, std::path::PathBuf, String),
}

/// One client.
pub struct Caller {
    /// Its name in the history; another one for every session.
    pub name: String,
    /// What it does about trouble.
    pub manners: Manners,
    /// Stands behind the names of what it counts.
    pub phase: String,
    way: Way,
    server: String,
    door: Door,
    link: Link,
    history: History,
    random: Random,
    base: String,
    sessions: u32,
    next: u64,
}

enum Link {
    Http(Box<http::Http>),
    Stdio(Box<stdio::Stdio>),
}

/// A call under way.
#[derive(Clone, Debug)]
pub struct Open {
    /// Its marker.
    pub marker: String,
    id: u64,
    notes: u64,
    body: String,
}

impl Caller {
    /// A client of `server`; a legacy one has its session when this returns.
    ///
    /// # Errors
    /// When the gateway does not let it in.
    pub async fn open(
        door: &Door,
        history: &History,
        way: Way,
        server: &str,
        label: &str,
        random: &mut Random,
    ) -> std::io::Result<Self> {
        let base = format!("{label}-{}", way.name());
        let link = match way {
            Way::HttpLegacy | Way::HttpModern => {
                Link::Http(Box::new(http::Http::open(door.address, server, way.era()).await?))
            }
            Way::StdioLegacy | Way::StdioModern => {
                Link::Stdio(Box::new(stdio::Stdio::open(&door.program, server, way.era()).await?))
            }
        };
        Ok(Self {
            name: format!("{base}.1"),
            manners: Manners::default(),
            phase: String::new(),
            way,
            server: server.to_owned(),
            door: door.clone(),
            link,
            history: history.clone(),
            random: random.fork(),
            base,
            sessions: 1,
            next: 1,
        })
    }

    /// The process of its own gateway.
    pub fn pid(&self) -> Option<u32> {
        match &self.link {
            Link::Http(_) => None,
            Link::Stdio(stdio) => stdio.pid(),
        }
    }

    /// Takes another way from the next request on, such as through a proxy.
    pub fn through(&mut self, address: SocketAddr) {
        self.door.address = address;
        if let Link::Http(http) = &mut self.link {
            http.through(address);
        }
    }

    /// Calls and waits for the end.
    pub async fn call(&mut self, job: Job) -> How {
        let open = self.send(job).await;
        self.finish(open).await
    }

    /// Sends a call.
    pub async fn send(&mut self, job: Job) -> Open {
        let marker = marker(&mut self.random);
        let (id, notes) = (self.next, job.notes);
        self.next += 1;
        let Job { ms, bytes, must, .. } = job;
        let arguments = format!(r#"{{"marker":"{marker}","ms":{ms},"notes":{notes},"bytes":{bytes}}}"#);
        let token = if notes == 0 { String::new() } else { format!(r#""progressToken":"t{id}""#) };
        let meta = match self.way.era() {
            Era::Legacy => format!("{{{token}}}"),
            Era::Modern if token.is_empty() => modern_meta(""),
            Era::Modern => modern_meta(&format!(",{token}")),
        };
        let params = format!(r#"{{"_meta":{meta},"name":"work","arguments":{arguments}}}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        let (client, sent) = (self.name.clone(), marker.clone());
        self.history.write(&Record::Sent { at_ms: self.history.now_ms(), client, marker: sent, must });
        let open = Open { marker, id, notes, body };
        self.put(&open).await;
        open
    }

    /// Sends the bytes; what goes wrong here is seen when the answer is read.
    async fn put(&mut self, open: &Open) {
        match &mut self.link {
            Link::Http(http) => http.send(&open.body).await,
            Link::Stdio(stdio) => stdio.send(&open.body).await,
        }
    }

    /// Waits for the end of a call.
    pub async fn finish(&mut self, open: Open) -> How {
        let mut end = self.read(&open).await;
        if self.manners.retry_reset && end.how == How::Broken && !end.began {
            self.history.count(&format!("retried after a reset{}", self.phase), 1);
            self.put(&open).await;
            end = self.read(&open).await;
        }
        for _ in 0..REOPEN_MAX {
            if !self.manners.reopen || end.how != How::Refused || end.status != 404 {
                break;
            }
            self.history.count(&format!("sessions opened again{}", self.phase), 1);
            if let Err(error) = self.reopen_http().await {
                if !self.manners.retry_reset {
                    end.detail += &format!("; and no new session: {error}");
                    break;
                }
                self.history.count(&format!("retried after a reset{}", self.phase), 1);
                if let Err(error) = self.reopen_http().await {
                    end.detail += &format!("; and twice no new session: {error}");
                    break;
                }
            }
            self.put(&open).await;
            end = self.read(&open).await;
        }
        let resumed = self.manners.resume && end.how == How::Broken && end.last_event.is_some();
        if resumed {
            end = self.resume(&open, end).await;
        }
        for marker in std::mem::take(&mut end.markers) {
            self.history.write(&Record::Seen { client: self.name.clone(), marker });
        }
        let (at_ms, how) = (self.history.now_ms(), end.how);
        let (client, marker) = (self.name.clone(), open.marker);
        self.history.write(&Record::Ended { at_ms, client, marker, how, detail: end.detail });
        how
    }

    async fn read(&mut self, open: &Open) -> End {
        let followed = (self.manners.resume || self.manners.follow) && 0 < open.notes;
        let stream = followed.then_some((&self.history, open.marker.as_str()));
        let read = async {
            match &mut self.link {
                Link::Http(http) => http.read(open.id, stream).await,
                Link::Stdio(stdio) => stdio.read(open.id, stream).await,
            }
        };
        let mut end = match tokio::time::timeout(PATIENCE, read).await {
            Ok(end) => end,
            Err(_) => End::new(How::Never, format!("nothing came within {PATIENCE:?}")),
        };
        if how_whole(&end) && stream.is_some() {
            self.history.write(&Record::StreamEnd { stream: open.marker.clone(), count: open.notes });
        }
        end.markers.extend(markers(end.detail.as_bytes()));
        end
    }

    /// Comes back for the rest of a stream until it is whole.
    async fn resume(&mut self, open: &Open, mut end: End) -> End {
        for _ in 0..100 {
            let (Some(last), How::Broken) = (end.last_event.clone(), end.how) else { break };
            self.history.count("resumed", 1);
            let Link::Http(http) = &mut self.link else { break };
            http.resume(&last).await;
            let mut next = self.read(open).await;
            next.markers.append(&mut end.markers);
            next.last_event = next.last_event.or(end.last_event);
            end = next;
        }
        end
    }

    async fn reopen_http(&mut self) -> std::io::Result<()> {
        let fresh = http::Http::open(self.door.address, &self.server, self.way.era()).await?;
        self.link = Link::Http(Box::new(fresh));
        Ok(())
    }

    /// Vanishes as a killed client does, and comes back as a new one with a name of its own.
    ///
    /// # Errors
    /// When the gateway does not let it in again.
    pub async fn die(&mut self) -> std::io::Result<Option<String>> {
        let left = match &self.link {
            Link::Http(http) => http.session_id(),
            Link::Stdio(_) => None,
        };
        self.link = match self.way {
            Way::HttpLegacy | Way::HttpModern => {
                Link::Http(Box::new(http::Http::open(self.door.address, &self.server, self.way.era()).await?))
            }
            Way::StdioLegacy | Way::StdioModern => {
                Link::Stdio(Box::new(stdio::Stdio::open(&self.door.program, &self.server, self.way.era()).await?))
            }
        };
        self.sessions += 1;
        self.name = format!("{}.{}", self.base, self.sessions);
        Ok(left)
    }

    /// Dies with a call open: whatever comes of that, nobody is there to be told. Gives the session it leaves behind.
    ///
    /// # Errors
    /// When the gateway does not let it in again.
    pub async fn vanish(&mut self, open: &Open) -> std::io::Result<Option<String>> {
        let (client, at_ms) = (self.name.clone(), self.history.now_ms());
        let (marker, detail) = (open.marker.clone(), "the client was killed".to_owned());
        self.history.write(&Record::Ended { at_ms, client, marker, how: How::Broken, detail });
        self.die().await
    }

    /// Ends the session, or closes the pipes and waits for the gateway behind them.
    pub async fn end(mut self) {
        match &mut self.link {
            Link::Http(http) => http.end().await,
            Link::Stdio(stdio) => {
                if let Err(problem) = stdio.end().await {
                    self.history.write(&Record::Left { pid: stdio.pid().unwrap_or(0), what: problem });
                }
            }
        }
    }
}

fn how_whole(end: &End) -> bool {
    end.how == How::Result
}

/// Ends a legacy session whose client is gone.
pub async fn end_session(door: &Door, server: &str, session: &str) {
    http::end_session(door.address, server, session).await;
}

/// The arguments of a gateway behind pipes.
fn stdio_command(program: &(String, std::path::PathBuf, String), server: &str) -> tokio::process::Command {
    let (binary, config, mark): (&str, &Path, &str) = (&program.0, &program.1, &program.2);
    let mut command = tokio::process::Command::new(binary);
    command.args(["stdio", "--server", server, "--config"]).arg(config).env(crate::world::MARK, mark);
    command
}
