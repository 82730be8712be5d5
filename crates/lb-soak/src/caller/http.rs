//! The client over HTTP: one connection at a time, opened again when it broke.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use lb_peers::raw::RawHttp;
use lb_peers::raw::handshake::Era;
use lb_peers::raw::http::{Headers, Session, headers, initialize_request, modern_headers, post_headers};
use lb_peers::raw::http1::Head;

use super::PATIENCE;
use super::answer::{End, progress, start};
use crate::history::{History, How};
use crate::jobs::markers;

/// How long anything but a call may take.
const SHORT: Duration = Duration::from_secs(30);

/// The client's side.
pub struct Http {
    address: SocketAddr,
    path: String,
    session: Option<Session>,
    wire: Option<RawHttp>,
    /// Why the request could not be sent.
    problem: Option<String>,
}

impl Http {
    pub async fn open(address: SocketAddr, server: &str, era: Era) -> std::io::Result<Self> {
        let path = format!("/mcp/server/{server}");
        let (wire, session) = match era {
            Era::Legacy => handshake(address, &path).await?,
            Era::Modern => (Some(connect(address).await?), None),
        };
        Ok(Self { address, path, session, wire, problem: None })
    }

    pub fn session_id(&self) -> Option<String> {
        self.session.as_ref().and_then(|session| session.id.clone())
    }

    pub fn through(&mut self, address: SocketAddr) {
        self.address = address;
        self.wire = None;
    }

    fn headers(&self) -> Headers {
        match &self.session {
            Some(session) => session.headers(),
            None => modern_headers("tools/call", Some("work")),
        }
    }

    pub async fn send(&mut self, body: &str) {
        let headers = self.headers();
        self.request("POST", &headers, body.as_bytes()).await;
    }

    /// Asks for what came after an event.
    pub async fn resume(&mut self, last_event: &str) {
        self.wire = None;
        let mut all = self.headers();
        all.extend(headers(&[("Last-Event-ID", last_event)]));
        self.request("GET", &all, b"").await;
    }

    async fn request(&mut self, method: &str, headers: &[(String, String)], body: &[u8]) {
        self.problem = None;
        let sent = async {
            if self.wire.is_none() {
                self.wire = Some(connect(self.address).await?);
            }
            let Some(wire) = &mut self.wire else { return Err(ErrorKind::NotConnected.into()) };
            wire.send(method, &self.path, headers, body).await
        };
        if let Err(error) = sent.await {
            self.wire = None;
            self.problem = Some(format!("not sent: {error}"));
        }
    }

    /// Reads the response to the request that was sent; events of a stream to be checked go into the history.
    pub async fn read(&mut self, id: u64, stream: Option<(&History, &str)>) -> End {
        if let Some(problem) = self.problem.take() {
            return End::new(How::Broken, problem);
        }
        let Some(mut wire) = self.wire.take() else { return End::new(How::Broken, "no connection".to_owned()) };
        wire.patience = PATIENCE;
        let head = match wire.head().await {
            Ok(head) => head,
            Err(error) => return End::new(How::Broken, format!("no response: {error}")),
        };
        let (end, whole) =
            if head.is_sse() { events(&mut wire, id, stream).await } else { body(&mut wire, &head, id).await };
        if whole && !closes(&head) {
            self.wire = Some(wire);
        }
        End { status: head.status(), began: true, ..end }
    }

    pub async fn end(&mut self) {
        if let Some(session) = self.session_id() {
            delete(self.address, &self.path, &session).await;
        }
    }
}

/// Opens a session, on two connections where the first one is announced to be over after one response.
async fn handshake(address: SocketAddr, path: &str) -> std::io::Result<(Option<RawHttp>, Option<Session>)> {
    let version = "2025-11-25";
    let mut wire = connect(address).await?;
    let response = wire.post(path, &post_headers(), initialize_request("0", version).as_bytes()).await?;
    if response.head.status() != 200 {
        return Err(std::io::Error::other(format!("{} {}", response.head.start, start(&response.body))));
    }
    if closes(&response.head) {
        wire = connect(address).await?;
    }
    // A server that cannot be reached is an error of the protocol, and no session is left.
    let Some(id) = response.head.header("mcp-session-id").map(str::to_owned) else {
        return Err(std::io::Error::other(format!("no session: {}", start(&response.body))));
    };
    let session = Session { id: Some(id), version: version.to_owned(), response };
    let note = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let noted = wire.post(path, &session.headers(), note).await?;
    Ok(((!closes(&noted.head)).then_some(wire), Some(session)))
}

/// Ends a session from another connection.
pub async fn end_session(address: SocketAddr, server: &str, session: &str) {
    delete(address, &format!("/mcp/server/{server}"), session).await;
}

/// Whether the gateway knows it no more is as good as having ended it.
async fn delete(address: SocketAddr, path: &str, session: &str) {
    if let Ok(mut wire) = connect(address).await {
        let headers = headers(&[("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")]);
        if let Err(error) = wire.request("DELETE", path, &headers, b"").await {
            eprintln!("DELETE {path}: {error}");
        }
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<RawHttp> {
    let mut wire = tokio::time::timeout(SHORT, RawHttp::connect(address))
        .await
        .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))?;
    wire.patience = SHORT;
    Ok(wire)
}

fn closes(head: &Head) -> bool {
    head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

async fn body(wire: &mut RawHttp, head: &Head, id: u64) -> (End, bool) {
    let (body, whole) = match wire.body().await {
        Ok(read) => read,
        Err(error) => return (End::new(How::Broken, format!("in the body: {error}")), false),
    };
    if !whole {
        let mut end = End::new(How::Broken, format!("cut after {} bytes", body.len()));
        end.markers = markers(&body);
        return (end, false);
    }
    let answer = End::of(&body, id).filter(|_| head.status() == 200);
    let end = answer.unwrap_or_else(|| {
        let shed = matches!(head.status(), 429 | 503) && head.header("retry-after").is_some();
        let how = if shed { How::Shed } else { How::Refused };
        let mut end = End::new(how, format!("{} {}", head.start, start(&body)));
        end.markers = markers(&body);
        end
    });
    (end, true)
}

async fn events(wire: &mut RawHttp, id: u64, stream: Option<(&History, &str)>) -> (End, bool) {
    let mut found: Option<End> = None;
    let (mut seen, mut last, mut count) = (std::collections::BTreeSet::new(), None, 0_u64);
    let whole = loop {
        let event = match wire.event().await {
            Ok(Some(event)) => event,
            Ok(None) => break true,
            Err(_) => break false,
        };
        last = event.id.clone().or(last);
        let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
        count += 1;
        seen.extend(markers(&data));
        if let (Some((history, stream)), Some(number)) = (stream, progress(&data)) {
            history.event(stream, event.id, number);
        }
        if let Some(end) = End::of(&data, id) {
            found = Some(match found {
                None => end,
                Some(_) => End::new(How::Refused, "two answers on one stream".to_owned()),
            });
        }
    };
    let mut end =
        found.unwrap_or_else(|| End::new(How::Broken, format!("the stream ended after {count} events, no answer")));
    end.markers.append(&mut seen);
    end.last_event = last;
    (end, whole)
}
